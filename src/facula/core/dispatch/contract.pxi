# What a kernel reads and writes, as its registration says, and the check of a launch against it.
#
# Takes: the `operands` text of an `fk_entry` (the language stands in `docs/kernel_interfaces.md`) and what a launch passes.
# Gives: `Contract`, read once a kernel; `check`, which raises RuntimeError naming kernel and operand.
# Keeps true: a launch that passes the check touches no memory outside of its operands' storages, as far as its sizes say so
# (what follows from elements, such as indices, the operator checks); no launch is longer or shorter than its kernel reads.

cdef enum:
    C_END, C_NUMBER, C_SIZE, C_SIZE_AT, C_SCALAR, C_TOTAL, C_ITEM, C_POINTERS, C_ADD, C_SUBTRACT, C_MULTIPLY, C_DIVIDE, C_REMAINDER,
    C_EQUAL, C_LESS, C_MOST, C_LEAST, C_IF, C_SPAN, C_HIGH, C_LOW, C_PRODUCT, C_SUM
    CONTRACT_STACK = 64
    CONTRACT_BYTES = -1000       # an operand whose extent is in bytes, of any dtype

cdef extern from *:
    """
    /* what no extent may be: what needs more than 64 bits, a product with a negative factor, a quotient of zero; it stays what it
     * is in all that is computed from it, but in the branch of an `if` that is not taken */
    #define FK_UNSOUND INT64_MIN
    static inline int64_t fk_times(int64_t a, int64_t b) {
        int64_t r;
        return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &r) ? FK_UNSOUND : r;
    }
    static inline int64_t fk_plus(int64_t a, int64_t b) {
        int64_t r;
        return a == FK_UNSOUND || b == FK_UNSOUND || __builtin_add_overflow(a, b, &r) ? FK_UNSOUND : r;
    }
    static inline int64_t fk_minus(int64_t a, int64_t b) {
        int64_t r;
        return a == FK_UNSOUND || b == FK_UNSOUND || __builtin_sub_overflow(a, b, &r) ? FK_UNSOUND : r;
    }
    /* how far `steps` steps reach; strides may be negative */
    static inline int64_t fk_reach(int64_t steps, int64_t stride) {
        int64_t r;
        return __builtin_mul_overflow(steps, stride, &r) ? FK_UNSOUND : r;
    }
    """
    const int64_t FK_UNSOUND
    int64_t fk_times(int64_t, int64_t) noexcept nogil
    int64_t fk_plus(int64_t, int64_t) noexcept nogil
    int64_t fk_minus(int64_t, int64_t) noexcept nogil
    int64_t fk_reach(int64_t, int64_t) noexcept nogil


cdef struct ContractOperand:
    int mode                     # 'r', 'w' or 'u' (read and written); no pointers: 'm', a size that is a map's address; 'c', a condition
    bint optional
    int dtype                    # an index; -size where any dtype of that size serves; CONTRACT_BYTES
    int start, stop              # programs: elements from, and one past the last that is touched; start -1: 0

cdef struct ContractGroup:
    int count                    # program: how often the operands come, one after the other; -1: once
    int first, operands

cdef struct ContractValues:
    const int64_t *n
    const fk_scalar *s
    int64_t sizes, scalars, total, item, pointers

#: what stands at a pointer: its dtype (-1: null), whether nobody may write to it, and the bytes from it to the end and to the
#: start of its storage
cdef struct Given:
    int dt
    bint readonly
    int64_t after, before


cdef inline Given given_tensor(Tensor t) noexcept:
    cdef Given g
    g.dt = t.dt
    g.readonly = t.st != NULL and (t.st.flags & FK_READONLY) != 0
    g.after = t.st.data + t.st.nbytes - t.data_ if t.st != NULL else 0
    g.before = t.data_ - t.st.data if t.st != NULL else 0
    return g


cdef dict _CONTRACT_CALLS = {"max": (C_MOST, 2), "min": (C_LEAST, 2), "if": (C_IF, 3), "span": (C_SPAN, -1), "high": (C_HIGH, 3),
                             "low": (C_LOW, 3), "product": (C_PRODUCT, 2), "sum": (C_SUM, 2)}
cdef dict _CONTRACT_BINARY = {"+": C_ADD, "-": C_SUBTRACT, "*": C_MULTIPLY, "/": C_DIVIDE, "%": C_REMAINDER, "=": C_EQUAL,
                              "<": C_LESS}


cdef inline int64_t size_at(const ContractValues *v, int64_t i) noexcept nogil:
    return v.n[i] if 0 <= i < v.sizes else 0


cdef int64_t contract_box(const ContractValues *v, int64_t count, int64_t sizes, int64_t strides, bint high) noexcept nogil:
    """The lowest place that coordinates and strides reach, or one past the highest; 0 where there are no coordinates."""
    cdef int64_t i, reach, total = 1 if high else 0
    if count < 0 or count > v.sizes: return FK_UNSOUND
    for i in range(count):
        if size_at(v, sizes + i) < 0: return FK_UNSOUND
    for i in range(count):
        if size_at(v, sizes + i) == 0: return 0
        reach = fk_reach(size_at(v, sizes + i) - 1, size_at(v, strides + i))
        if reach == FK_UNSOUND: return FK_UNSOUND
        if (reach > 0) == high: total = fk_plus(total, reach)
    return total


cdef int64_t contract_span(const int64_t *pairs, int64_t count) noexcept nogil:
    """One past the highest place that pairs of a size and a stride of at least 0 reach."""
    cdef int64_t i, total = 1
    for i in range(0, count, 2):
        if pairs[i] < 0: return FK_UNSOUND
    for i in range(0, count, 2):
        if pairs[i] == 0: return 0
        total = fk_plus(total, fk_times(pairs[i] - 1, pairs[i + 1]) if pairs[i] > 1 else 0)
    return total


cdef int64_t contract_run(const ContractValues *v, int64_t count, int64_t first, bint product) noexcept nogil:
    """The product or the sum of a run of sizes."""
    cdef int64_t i, total = 1 if product else 0
    if count < 0 or count > v.sizes: return FK_UNSOUND
    for i in range(count):
        total = fk_times(total, size_at(v, first + i)) if product else fk_plus(total, size_at(v, first + i))
    return total


cdef inline int64_t contract_binary(int64_t op, int64_t a, int64_t b) noexcept nogil:
    if op == C_MULTIPLY: return fk_times(a, b)
    if op == C_ADD: return fk_plus(a, b)
    if op == C_SUBTRACT: return fk_minus(a, b)
    if a == FK_UNSOUND or b == FK_UNSOUND: return FK_UNSOUND
    if op == C_DIVIDE: return a // b if b else FK_UNSOUND
    if op == C_REMAINDER: return a % b if b else FK_UNSOUND
    if op == C_EQUAL: return a == b
    if op == C_LESS: return a < b
    if op == C_MOST: return a if a > b else b
    return a if a < b else b


cdef int64_t contract_value(const int64_t *code, const ContractValues *v) noexcept nogil:
    """The value of an expression, FK_UNSOUND where it has none."""
    cdef int64_t stack[CONTRACT_STACK]
    cdef int64_t a
    cdef int top = -1
    while True:
        a = code[1]
        if code[0] == C_END: return stack[0]
        elif code[0] == C_NUMBER: top += 1; stack[top] = a
        elif code[0] == C_SIZE: top += 1; stack[top] = size_at(v, a)
        elif code[0] == C_TOTAL: top += 1; stack[top] = v.total
        elif code[0] == C_ITEM: top += 1; stack[top] = v.item
        elif code[0] == C_POINTERS: top += 1; stack[top] = v.pointers
        elif code[0] == C_SCALAR: top += 1; stack[top] = v.s[a].i if a < v.scalars else 0
        elif code[0] == C_SIZE_AT:
            if stack[top] != FK_UNSOUND: stack[top] = size_at(v, stack[top])
        elif code[0] == C_IF:
            top -= 2
            if stack[top] != FK_UNSOUND: stack[top] = stack[top + 1] if stack[top] else stack[top + 2]
        elif code[0] == C_SPAN:
            top -= <int>a - 1
            stack[top] = contract_span(stack + top, a)
        elif code[0] == C_HIGH or code[0] == C_LOW:
            top -= 2
            stack[top] = contract_box(v, stack[top], stack[top + 1], stack[top + 2], code[0] == C_HIGH)
        elif code[0] == C_PRODUCT or code[0] == C_SUM:
            top -= 1
            stack[top] = contract_run(v, stack[top], stack[top + 1], code[0] == C_PRODUCT)
        else:
            top -= 1
            stack[top] = contract_binary(code[0], stack[top], stack[top + 1])
        code += 2


cdef class ContractReader:
    """The expressions of one text, as programs one after the other."""
    cdef str text
    cdef int at, depth
    cdef list code

    cdef object wrong(self, str wanted):
        return said(ValueError, "[kernel] %s was required in the text of a kernel's operands: got %r at %d of %r\nhint: the language "
                          "stands in docs/kernel_interfaces.md" % (wanted, self.text[self.at:self.at + 8], self.at, self.text))

    cdef str peek(self):
        return self.text[self.at] if self.at < len(self.text) else ""

    cdef int take(self, str mark) except -1:
        if self.peek() != mark: raise self.wrong(repr(mark))
        self.at += 1
        return 0

    cdef int emit(self, int op, object value, int change) except -1:
        self.code += [op, value]
        self.depth += change
        if self.depth > CONTRACT_STACK: raise self.wrong("a shorter expression")
        return 0

    cdef object number(self):
        cdef int start = self.at
        while self.peek().isdigit(): self.at += 1
        if start == self.at: raise self.wrong("a number")
        return int(self.text[start:self.at])

    cdef int program(self, str text) except -1:
        """Read a whole text as one expression; gives where its program starts."""
        cdef int start = len(self.code)
        self.text = text; self.at = 0; self.depth = 0
        self.expression(0)
        if self.at != len(text): raise self.wrong("the end")
        self.emit(C_END, 0, 0)
        return start

    cdef int expression(self, int level) except -1:
        """Comparisons, then sums, then products."""
        cdef str marks = ("=<", "+-", "*/%")[level], mark
        if level == 2: self.leaf()
        else: self.expression(level + 1)
        while self.peek() and self.peek() in marks:
            mark = self.peek()
            self.at += 1
            if level == 2: self.leaf()
            else: self.expression(level + 1)
            self.emit(_CONTRACT_BINARY[mark], 0, -1)
        return 0

    cdef int leaf(self) except -1:
        cdef str c = self.peek(), word
        cdef int start = self.at
        if c == "(":
            self.take("("); self.expression(0); self.take(")")
        elif c.isdigit(): self.emit(C_NUMBER, self.number(), 1)
        elif c == "P": self.at += 1; self.emit(C_POINTERS, 0, 1)
        elif c == "N": self.at += 1; self.emit(C_TOTAL, 0, 1)
        else:
            while self.peek().isalpha(): self.at += 1
            word = self.text[start:self.at]
            if word == "i" : self.emit(C_ITEM, 0, 1)
            elif word == "n" and self.peek() == "[":
                self.take("["); self.expression(0); self.take("]"); self.emit(C_SIZE_AT, 0, 0)
            elif word == "n": self.emit(C_SIZE, self.number(), 1)
            elif word == "s": self.emit(C_SCALAR, self.number(), 1)
            else: self.called(word)
        return 0

    cdef int called(self, str word) except -1:
        cdef int count = 1
        if word not in _CONTRACT_CALLS: raise self.wrong("a size, a number or a function")
        op, wanted = _CONTRACT_CALLS[word]
        self.take("("); self.expression(0)
        while self.peek() == ",":
            self.at += 1
            self.expression(0)
            count += 1
        self.take(")")
        if count != wanted and (wanted != -1 or count % 2): raise self.wrong("another number of arguments to " + word)
        self.emit(op, count, 1 - count)
        return 0


cdef class Contract:
    """The operands of a kernel: how many sizes and scalars it takes, and of each pointer dtype, use and extent."""
    cdef readonly str text
    cdef readonly tuple names
    cdef int sizes, scalars, ngroups, noperands
    cdef bint more_sizes, more_scalars    # so many or more: a map's address, its attributes
    cdef int64_t *code
    cdef ContractOperand *operands
    cdef ContractGroup *groups

    def __cinit__(self, str text not None):
        cdef ContractReader reader = ContractReader.__new__(ContractReader)
        cdef list parts = text.split(";"), names = []
        cdef str last = None, repeat
        cdef int i
        self.text = text
        reader.text = text
        reader.code = []
        if len(parts) < 2: raise reader.wrong("numbers of sizes and scalars")
        self.more_sizes = (<str>parts[0]).endswith("+")
        self.sizes = reader.program((<str>parts[0]).rstrip("+"))
        self.more_scalars = (<str>parts[1]).endswith("+")
        self.scalars = reader.program((<str>parts[1]).rstrip("+"))
        self.operands = <ContractOperand *>calloc(len(parts), sizeof(ContractOperand))
        self.groups = <ContractGroup *>calloc(len(parts), sizeof(ContractGroup))
        for part in parts[2:]:
            words = part.split(" ")
            repeat = words.pop(0)[1:] if words[0].startswith("*") else ""
            if not self.ngroups or not repeat or repeat != last:
                self.groups[self.ngroups].count = reader.program(repeat) if repeat else -1
                self.groups[self.ngroups].first = self.noperands
                self.ngroups += 1
            last = repeat
            self.groups[self.ngroups - 1].operands += 1
            reader.text = part; reader.at = 0
            if len(words) == 3 and words[0] == "c": words.insert(2, "bytes")
            if len(words) != 4: raise reader.wrong("mode, name, dtype and extent")
            names.append(words[1])
            self.read_operand(reader, words)
        self.names = tuple(names)
        self.code = <int64_t *>malloc(len(reader.code) * 8)
        for i in range(len(reader.code)): self.code[i] = reader.code[i]

    cdef int read_operand(self, ContractReader reader, list words) except -1:
        cdef ContractOperand *operand = &self.operands[self.noperands]
        cdef str mode = words[0], kind = words[2]
        if mode.rstrip("?") not in ("r", "w", "u") and mode not in ("m", "c"): raise reader.wrong("r, w, u, m or c")
        operand.mode = ord(mode[0])
        operand.optional = mode.endswith("?")
        if kind == "bytes": operand.dtype = CONTRACT_BYTES
        elif kind[0] == "x" and kind[1:] in ("1", "2", "4", "8", "16"): operand.dtype = -int(kind[1:])
        elif kind in DTYPE_BY_CODE: operand.dtype = (<dtype>DTYPE_BY_CODE[kind]).index
        else: raise reader.wrong("a dtype's code, x and a size, or bytes")
        start, dots, stop = (<str>words[3]).partition("..")
        operand.start = reader.program(start) if dots else -1
        operand.stop = reader.program(stop if dots else start)
        self.noperands += 1
        return 0

    @property
    def form(self):
        """The text without the names of the operands."""
        return ";".join([part if part.count(" ") < 3 else " ".join([word for i, word in enumerate(reversed(part.split(" "))) if i != 2][::-1])
                         for part in self.text.split(";")])

    def __dealloc__(self):
        free(self.code); free(self.operands); free(self.groups)

    @property
    def dtypes(self):
        """The dtype of each operand, None where several serve."""
        return tuple([<object>DTYPES[self.operands[i].dtype] if self.operands[i].dtype >= 0 else None
                      for i in range(self.noperands)])

    cdef int check(self, str kernel, char form, const Given *at_pointer, Py_ssize_t given, const int64_t *n, int64_t sizes, const fk_scalar *s,
                   int64_t scalars, int64_t total) except -1:
        """Raise where a launch is not what the kernel was written for."""
        cdef ContractValues v
        cdef int64_t count, i
        cdef Py_ssize_t at = 0
        cdef int g, k
        cdef bint idle = form != c'd' and total <= 0
        v.n = n; v.s = s; v.sizes = sizes; v.scalars = scalars; v.total = total; v.item = 0; v.pointers = given
        count = contract_value(self.code + self.sizes, &v)
        if count < 0: raise_unsound(kernel, "sizes", "sizes")
        if count != sizes and not (self.more_sizes and sizes > count >= 0): raise_count(kernel, count, "sizes", sizes)
        count = contract_value(self.code + self.scalars, &v)
        if count < 0: raise_unsound(kernel, "scalars", "scalars")
        if count != scalars and not (self.more_scalars and scalars > count >= 0): raise_count(kernel, count, "scalars", scalars)
        for g in range(self.ngroups):
            count = contract_value(self.code + self.groups[g].count, &v) if self.groups[g].count >= 0 else 1
            if count < 0: raise_unsound(kernel, "numbers of operands", self.names[self.groups[g].first])
            for i in range(count):
                v.item = i
                for k in range(self.groups[g].first, self.groups[g].first + self.groups[g].operands):
                    if self.operands[k].mode == c'm':
                        self.check_taken_map(kernel, k, &v)
                        continue
                    if self.operands[k].mode == c'c':
                        if not idle and contract_value(self.code + self.operands[k].stop, &v) <= 0: raise_condition(kernel, self.names[k])
                        continue
                    if at == given: raise_count(kernel, at + 1, "operands or more", given)
                    if at_pointer[at].dt < 0:
                        if not (self.operands[k].optional or idle or contract_value(self.code + self.operands[k].stop, &v) == 0):
                            raise_missing(kernel, self.names[k], at)
                    else:
                        self.check_operand(kernel, k, at, at_pointer + at, &v, idle)
                    at += 1
        if at != given: raise_count(kernel, at, "operands", given)
        return 0

    cdef int check_taken_map(self, str kernel, int k, const ContractValues *v) except -1:
        """Raise unless an address is that of an elementwise kernel of one operand that takes the scalars which are left."""
        cdef int64_t address = contract_value(self.operands[k].stop + self.code, v)
        cdef dtype d = DTYPES[self.operands[k].dtype]
        cdef Kernel found = MAPS.get(address)
        cdef int64_t own = contract_value(self.code + self.scalars, v)
        if found is None: raise_taken_map(kernel, self.names[k], d, "an address where none stands")
        if found.contract.dtypes != (d, d): raise_taken_map(kernel, self.names[k], d, "%s for operands of %s" % (found.name, list(found.contract.dtypes)))
        if contract_value(found.contract.code + found.contract.scalars, v) != v.scalars - own:
            raise_fault(kernel, "the scalars of %s were required behind the first %d for '%s': got %d" % (found.name, own, self.names[k], v.scalars - own))
        return 0

    cdef inline int check_operand(self, str kernel, int k, Py_ssize_t at, const Given *g, const ContractValues *v, bint idle) except -1:
        cdef ContractOperand *operand = &self.operands[k]
        cdef int64_t size = 1, stop, start
        if g.readonly and operand.mode != c'r': raise_readonly(kernel, self.names[k], at)
        if operand.dtype >= 0:
            size = ITEMSIZE[operand.dtype]
            if g.dt != operand.dtype: raise_operand_dtype(kernel, self.names[k], at, (<dtype>DTYPES[operand.dtype]).name, g)
        elif operand.dtype != CONTRACT_BYTES:
            size = -operand.dtype
            if ITEMSIZE[g.dt] != size: raise_operand_dtype(kernel, self.names[k], at, "a dtype of %d bytes" % size, g)
        if idle: return 0
        stop = contract_value(self.code + operand.stop, v)
        if stop < 0: raise_unsound(kernel, "sizes", self.names[k])
        # what reads nothing may start anywhere: the imaginary part of no elements starts behind them
        if stop and (fk_times(stop, size) > g.after or fk_times(stop, size) < 0):
            raise_operand_extent(kernel, self.names[k], at, stop, g.after // size, "")
        if operand.start >= 0:
            start = contract_value(self.code + operand.start, v)
            if start == FK_UNSOUND: raise_unsound(kernel, "sizes", self.names[k])
            if start < 0 and (fk_times(-start, size) > g.before or fk_times(-start, size) < 0):
                raise_operand_extent(kernel, self.names[k], at, -start, g.before // size, " before its first")
        return 0


cdef int raise_fault(str kernel, str text) except -1:
    raise said(RuntimeError, "[kernel %s] %s\nhint: the operator that launches the kernel has a fault; please report the call that "
                             "led here" % (kernel, text))


cdef int raise_count(str kernel, int64_t wanted, str what, int64_t given) except -1:
    raise_fault(kernel, "%d %s were required: got %d" % (wanted, what, given))


cdef int raise_unsound(str kernel, str what, str name) except -1:
    raise_fault(kernel, "%s of at least 0, with products of at most 64 bits, were required for '%s': got others" % (what, name))


cdef int raise_taken_map(str kernel, str name, dtype d, str got) except -1:
    raise_fault(kernel, "an elementwise kernel of one operand, from %s to %s, was required as '%s': got %s" % (d.name, d.name, name, got))


cdef int raise_condition(str kernel, str name) except -1:
    raise_fault(kernel, "sizes that the kernel was written for were required: got others of '%s'" % name)


cdef int raise_readonly(str kernel, str name, Py_ssize_t at) except -1:
    raise said(RuntimeError, "[kernel %s] memory that may be written to was required as '%s' (operand %d): got read-only memory, such as "
                             "that of a bytes object\nhint: clone() gives elements of one's own" % (kernel, name, at))


cdef int raise_missing(str kernel, str name, Py_ssize_t at) except -1:
    raise_fault(kernel, "a tensor was required as '%s' (operand %d): got None" % (name, at))


cdef int raise_operand_dtype(str kernel, str name, Py_ssize_t at, str wanted, const Given *g) except -1:
    raise_fault(kernel, "%s was required as '%s' (operand %d): got %s" % (wanted, name, at, (<dtype>DTYPES[g.dt]).name))


cdef int raise_operand_extent(str kernel, str name, Py_ssize_t at, int64_t wanted, int64_t there, str side) except -1:
    raise_fault(kernel, "memory for %d elements%s was required as '%s' (operand %d): got %d" % (wanted, side, name, at, there))


def check_operands(str text):
    """Read the text of a kernel's operands; raises ValueError where it is none."""
    Contract(text)
