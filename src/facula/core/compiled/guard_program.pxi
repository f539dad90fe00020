# The guards of a segment as one program: sources are read and checked in one call of the core.
#
# Takes: steps, each (operation, target register, source register, object, number), which registers are wanted, and names
# to watch (`watched_names.pxi`).
# Gives: `GuardProgram`, whose `run(*state)` is a tuple of the wanted values, or None where a guard fails.
# Keeps true: steps run in order and stop at the first that fails; a value that is not there fails; nothing is changed
# unless a property of the user's does; tensors that were two are two.

GUARD_OPERATIONS = {name: number for number, name in enumerate((
    "argument", "constant", "attribute", "dictionary", "item", "apply",
    "type", "is", "not", "equal", "length", "longer", "keys", "has", "lacks", "same", "different", "integer", "plain-module",
    "tensor", "repr",
))}

cdef enum:
    G_ARGUMENT, G_CONSTANT, G_ATTRIBUTE, G_DICTIONARY, G_ITEM, G_APPLY
    G_TYPE, G_IS, G_NOT, G_EQUAL, G_LENGTH, G_LONGER, G_KEYS, G_HAS, G_LACKS, G_SAME, G_DIFFERENT, G_INTEGER, G_PLAIN
    G_TENSOR, G_REPR

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM(object, Py_ssize_t)
    PyObject *PyList_GET_ITEM(object, Py_ssize_t)
    int PyDict_Next(object, Py_ssize_t *, PyObject **, PyObject **)
    PyObject *PyDict_GetItemWithError(object, object) except? NULL
    object PyObject_GenericGetDict(object, void *)
    object PyList_New(Py_ssize_t)
    void PyList_SET_ITEM(object, Py_ssize_t, object)
    int PyList_CheckExact(object)
    int PyTuple_CheckExact(object)
    Py_ssize_t PyList_GET_SIZE(object)
    Py_ssize_t PyTuple_GET_SIZE(object)


cdef struct GuardStep:
    int operation
    int target
    int source
    int64_t number
    PyObject *value


cdef object guard_item(object owner, object key, int64_t number):
    """`owner[key]`; a dictionary's own item, so that nothing is made where it is missing."""
    cdef PyObject *found
    if number >= 0 and PyList_CheckExact(owner):
        if number < PyList_GET_SIZE(owner): return <object>PyList_GET_ITEM(owner, number)
        raise IndexError(number)
    if number >= 0 and PyTuple_CheckExact(owner):
        if number < PyTuple_GET_SIZE(owner): return <object>PyTuple_GET_ITEM(owner, number)
        raise IndexError(number)
    if isinstance(owner, dict):
        found = PyDict_GetItemWithError(owner, key)
        if found == NULL:
            raise KeyError(key)
        return <object>found
    return owner[key]


cdef class GuardProgram:
    """`run(*state)`: the wanted values where all guards hold, else None."""
    cdef int count, registers, tensors
    cdef GuardStep *steps
    cdef int64_t *numbers        # of tensors: dtype, device, requires_grad, rank, sizes, strides
    cdef PyObject **seen         # a hash table of the tensors of a call
    cdef size_t room
    cdef uint32_t mode
    cdef object default_dtype
    cdef bint twists             # whether random numbers come from PyTorch's stream
    cdef list kept
    cdef NameWatch watch
    cdef int *wanted_registers
    cdef int nwanted, ngrouped

    def __cinit__(self, tuple state, list steps, int registers, list wanted, list grouped, NameWatch watch=None):
        """steps: (operation, target, source, value, number); wanted: registers that are given one by one; grouped: those
        that are given as one tuple behind them; watch: names that have to be what they were."""
        cdef int i = 0
        cdef int64_t *p
        cdef Py_ssize_t total = 0
        self.mode = state[0]; self.default_dtype = state[1]
        self.twists = (<Generator>default_generator).twists
        self.watch = watch
        self.count = len(steps); self.registers = registers
        self.kept = [step[3] for step in steps]
        self.steps = <GuardStep *>malloc((self.count + 1) * sizeof(GuardStep))
        facts = [step[3] for step in steps if step[0] == G_TENSOR]
        self.tensors = len(facts)
        for f in facts:
            total += 4 + 2 * len(f[4])
        self.numbers = <int64_t *>malloc((total + 1) * sizeof(int64_t))
        self.room = 4
        while self.room < <size_t>(2 * self.tensors): self.room *= 2
        self.seen = <PyObject **>malloc(self.room * sizeof(PyObject *))
        p = self.numbers
        for operation, target, source, value, number in steps:
            self.steps[i].operation = operation
            self.steps[i].target = target
            self.steps[i].source = source
            self.steps[i].value = <PyObject *>self.kept[i]
            self.steps[i].number = number
            if operation == G_TENSOR:
                self.steps[i].number = p - self.numbers
                p[0] = (<dtype?>value[1]).index
                p[1] = device_number(value[2])
                p[2] = K_GRAD if value[3] else 0
                p[3] = len(value[4])
                p += 4
                for n in value[4]:
                    p[0] = n
                    p += 1
                for n in value[5]:
                    p[0] = n
                    p += 1
                self.kept[i] = value[0]
                self.steps[i].value = <PyObject *>self.kept[i]
            i += 1
        self.nwanted = len(wanted); self.ngrouped = len(grouped)
        self.wanted_registers = <int *>malloc((self.nwanted + self.ngrouped + 1) * sizeof(int))
        for i, n in enumerate(list(wanted) + list(grouped)):
            self.wanted_registers[i] = n

    def __dealloc__(self):
        free(self.steps); free(self.numbers); free(self.seen); free(self.wanted_registers)

    def run(self, *state):
        """The wanted values, or None."""
        return self.found(state, False)

    cdef object found(self, tuple state, bint grouped):
        """The wanted values, or those of the group alone as a list; None where a guard fails."""
        cdef PyObject *few[64]
        cdef PyObject **r = few
        cdef int i
        if fk_tls_keys() != self.mode or <dtype>DTYPES[DEFAULT_DTYPE] is not self.default_dtype:
            return None
        if (<Generator>default_generator).twists != self.twists:
            return None
        if self.watch is not None and not self.watch.holds():
            return None
        if self.registers > 64:
            r = <PyObject **>malloc(self.registers * sizeof(PyObject *))
            if r == NULL:
                raise MemoryError()
        memset(r, 0, self.registers * sizeof(PyObject *))
        if self.tensors > 1:
            memset(self.seen, 0, self.room * sizeof(PyObject *))
        try:
            for i in range(self.count):
                if not self.step(&self.steps[i], r, state):
                    return None
            return self.group(r) if grouped else self.results(r)
        except (KeyError, AttributeError, IndexError, TypeError):
            return None
        finally:
            for i in range(self.registers):
                Py_XDECREF(r[i])
            if r != few:
                free(r)

    cdef object results(self, PyObject **r):
        cdef tuple made = PyTuple_New(self.nwanted + 1)
        cdef tuple group = PyTuple_New(self.ngrouped)
        cdef int i
        for i in range(self.nwanted):
            Py_INCREF(<object>r[self.wanted_registers[i]])
            PyTuple_SET_ITEM(made, i, <object>r[self.wanted_registers[i]])
        for i in range(self.ngrouped):
            Py_INCREF(<object>r[self.wanted_registers[self.nwanted + i]])
            PyTuple_SET_ITEM(group, i, <object>r[self.wanted_registers[self.nwanted + i]])
        Py_INCREF(group)
        PyTuple_SET_ITEM(made, self.nwanted, group)
        return made

    cdef list group(self, PyObject **r):
        cdef list made = PyList_New(self.ngrouped)
        cdef PyObject *x
        cdef int i
        for i in range(self.ngrouped):
            x = r[self.wanted_registers[self.nwanted + i]]
            Py_INCREF(<object>x)
            PyList_SET_ITEM(made, i, <object>x)
        return made

    cdef bint step(self, GuardStep *s, PyObject **r, tuple state) except -1:
        cdef object value = <object>s.value
        cdef object x, y
        if s.operation <= G_APPLY:
            if s.operation == G_ARGUMENT: x = <object>PyTuple_GET_ITEM(state, s.number)
            elif s.operation == G_CONSTANT: x = value
            else:
                y = <object>r[s.source]
                if s.operation == G_DICTIONARY: x = y.__dict__ if isinstance(y, type) else PyObject_GenericGetDict(y, NULL)
                elif s.operation == G_ATTRIBUTE: x = getattr(y, value)
                elif s.operation == G_ITEM: x = guard_item(y, value, s.number)
                else: x = value[0](y, *value[1])
            Py_INCREF(x)
            r[s.target] = <PyObject *>x
            return True
        x = <object>r[s.source]
        if s.operation == G_TYPE: return <PyObject *>Py_TYPE(x) == s.value
        if s.operation == G_TENSOR: return self.is_alike(s, x)
        if s.operation == G_IS: return x is value
        if s.operation == G_NOT: return x is not value
        if s.operation == G_EQUAL: return type(x) is type(value) and x == value
        if s.operation == G_PLAIN: return is_plain(x, <tuple>value)
        if s.operation == G_LENGTH: return len(x) == s.number
        if s.operation == G_LONGER: return len(x) > s.number
        if s.operation == G_KEYS: return has_keys(x, <list>value)
        if s.operation == G_HAS: return value in x
        if s.operation == G_LACKS: return value not in x
        if s.operation == G_SAME: return x is <object>r[s.number]
        if s.operation == G_DIFFERENT: return x is not <object>r[s.number]
        if s.operation == G_REPR: return type(x) is type(value) and repr(x) == repr(value)
        return type(x) is int and x >= 2

    cdef bint is_alike(self, GuardStep *s, object x) except -1:
        """Whether a tensor is like the one that was captured, and none of those before."""
        cdef int64_t *p = &self.numbers[s.number]
        cdef Tensor t
        cdef int j, nd = <int>p[3]
        cdef size_t place
        if <PyObject *>Py_TYPE(x) != s.value:
            return False
        t = <Tensor>x
        if t.dt != p[0] or t.dev != p[1] or (t.keys & K_GRAD) != p[2] or t.nd != nd:
            return False
        p += 4
        for j in range(nd):
            if p[j] != t.sh[j] and (p[j] >= 0 or t.sh[j] < 2):
                return False
            if p[nd + j] != t.sd[j] and p[nd + j] >= 0 and t.sh[j] != 1:
                return False
        if self.tensors > 1:
            place = ((<size_t><PyObject *>x) >> 4) * <size_t>0x9E3779B97F4A7C15 & (self.room - 1)
            while self.seen[place] != NULL:
                if self.seen[place] == <PyObject *>x:
                    return False
                place = (place + 1) & (self.room - 1)
            self.seen[place] = <PyObject *>x
        return True


cdef class SegmentCall:
    """A segment that is one call of its graph: guards, graph, results, without a frame of Python in between."""
    cdef readonly GuardProgram guards
    cdef readonly object graph, miss, places

    def __cinit__(self, GuardProgram guards, graph, miss, places):
        """guards: whose group is the graph's arguments; miss: what is given where they fail; places: the number of the
        output that the segment gives, or a tuple of numbers."""
        self.guards = guards; self.graph = graph; self.miss = miss; self.places = places

    def __call__(self, *state):
        return self.run(state)

    cdef object run(self, tuple state):
        given = self.guards.found(state, True)
        if given is None:
            return self.miss
        if type(self.graph) is ArgumentsCall: found = (<ArgumentsCall>self.graph).values_of(<list>given)
        elif type(self.graph) is ApartCall: found = (<ApartCall>self.graph).values_of(<list>given)
        else: found = self.graph(*given)
        if type(self.places) is tuple:
            return tuple([found[number] for number in self.places])
        return found[self.places]


cdef class CompiledForward:
    """The compiled call of a module: its segments, without a frame of Python where one of them is a `SegmentCall`."""
    cdef readonly object module, function, call, hooked
    cdef list entries
    cdef tuple hooks
    cdef NameWatch watch         # whether the class has the `forward` still that was compiled
    cdef Py_ssize_t count

    def __cinit__(self, module, function, call, hooked, list entries, tuple hooks, Py_ssize_t count):
        """function: the class's `forward`; call, hooked: what takes any arguments, `hooked` where there are hooks (`hooks`:
        the global ones) or another `forward`; entries: the segments at its start; count: how many arguments they take, -1 where it varies."""
        self.module = module; self.function = function; self.call = call; self.hooked = hooked
        self.entries = entries; self.hooks = hooks; self.count = count
        self.watch = NameWatch([(type(module), "forward", function, True)],
                               [(function, function.__code__)] if hasattr(function, "__code__") else [])

    def __call__(self, *args, **kwargs):
        cdef SegmentCall segment
        cdef tuple state
        if not is_plain(self.module, self.hooks) or not self.watch.holds():
            return self.hooked(*args, **kwargs)
        if len(args) == self.count and not kwargs:
            state = None
            for entry in self.entries:
                function = entry.function
                if type(function) is not SegmentCall:
                    break
                if state is None: state = (self.function, self.module) + args
                segment = <SegmentCall>function
                found = segment.run(state)
                if found is not segment.miss:
                    return found
        return self.call(*args, **kwargs)


def module_is_plain(module, tuple global_hooks):
    """Whether a call of a module is a call of its class's `forward`: no hooks, no forward of its own."""
    return is_plain(module, global_hooks)


cdef bint is_plain(object module, tuple global_hooks) except -1:
    cdef dict names = module.__dict__
    cdef object hooks
    if (names["_forward_hooks"] or names["_forward_pre_hooks"] or names["_backward_hooks"]
            or names["_backward_pre_hooks"] or "forward" in names or "_compiled_call_impl" in names):
        return False
    for hooks in global_hooks:
        if hooks:
            return False
    return True


cdef bint has_keys(object found, list keys) except -1:
    """Whether a dictionary has these keys in this order."""
    cdef Py_ssize_t place = 0
    cdef PyObject *key
    cdef int i = 0
    if type(found) is not dict:
        return list(found) == keys
    if len(<dict>found) != len(keys):
        return False
    while PyDict_Next(found, &place, &key, NULL):
        if key != PyList_GET_ITEM(keys, i) and <object>key != keys[i]:
            return False
        i += 1
    return True
