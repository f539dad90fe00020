# The launch cache, written: what an operator written in Python allocates and launches is noted, so that `replay.pxi` can do it again without Python.
#
# Takes: the slots of a call (`key_of`), and, while K_KEEP is set, every allocation, launch, copy, fill, draw and counted
# write of this thread. Gives: the key that the call is known by, and a `Keeper` with its steps.
# Keeps true: a call is kept only if nothing it did depends on elements (reading one refuses it) and every pointer it used
# belongs to an argument or to memory that it allocated; whatever is not noted here refuses.

cdef enum:
    KEY_WORDS = 160
    KEY_TENSORS = 32
    KEPT_MADE = 48               # storages of one call
    STEP_POINTERS = 96           # of one launch
    KEPT_SLOTS = 64              # calls that one operator keeps at first: two that want one place make the table wider
    MOST_KEPT = 512              # and at most: a network calls one operator with as many shapes as it has layers
    KEPT_BYTES = 4 << 20         # allocated in one call: beyond, the kernels take longer than Python
    K_UNKEPT = K_SLOW | K_META | K_FAKE
    STEP_DRIVER, STEP_BODY, STEP_MAP, STEP_ITERATE, STEP_COPY, STEP_FILL, STEP_ZERO, STEP_CHECK, STEP_COUNT, STEP_DRAW
    RESULT_NONE, RESULT_NEW, RESULT_VIEW, RESULT_SAME
    BASE_NULL = -1
    BASE_FIXED = -2

cdef struct CallKey:
    int n
    int ntensors
    uint64_t hash
    int64_t words[KEY_WORDS]
    PyObject *tensors[KEY_TENSORS]

cdef struct Step:
    int kind
    int np
    void *fn
    int64_t total
    int64_t grain
    int *base                    # of each pointer: an argument, then what was made; BASE_NULL, BASE_FIXED
    int64_t *offset              # bytes from that base (BASE_FIXED: the address)
    int64_t *n
    fk_scalar *s
    int nn, ns                   # how many there are of them
    fk_iter *it
    char value[16]

cdef struct Made:
    int kind
    int number                   # of the new storage, or of the argument
    int dt
    int nd
    bint strided
    int64_t offset
    int64_t numel
    int64_t sh[FEW_DIMS]
    int64_t sd[FEW_DIMS]

cdef extern from *:
    """
    static __thread PyObject *fk_keeper;
    """
    PyObject *fk_keeper

#: the settings that operators read, as one number: what was kept under others is not found
cdef int64_t KEPT_SETTINGS = 0
cdef bint KEEPING = True


def set_kept_settings(int64_t settings):
    """Say, as one number, what operators' implementations read beside their arguments; launches are kept for each."""
    global KEPT_SETTINGS
    KEPT_SETTINGS = settings


def set_keeping(bint mode):
    """Whether operators' launches are kept and done again; gives what it was."""
    global KEEPING
    previous = KEEPING
    KEEPING = mode
    return previous


# ------------------------------------------------------------------ what a call is known by

cdef bint key_tensor(CallKey *key, Tensor t):
    cdef int i, at = key.n
    cdef Tensor other
    if t.keys & K_UNKEPT or t.st == NULL or t.dev != 0 or key.ntensors >= KEY_TENSORS or at + 3 + 2 * t.nd >= KEY_WORDS:
        return False
    key.words[at] = (1 | t.dt << 8 | t.nd << 16 |
                     <int64_t>(t.keys & (K_STRIDED | K_WRAPPED | K_GRAD | K_INFERENCE | K_UNCOUNTED)) << 24 |
                     <int64_t>(t.st.flags & FK_READONLY != 0) << 48 |
                     <int64_t>(t.base is not None and t.base.keys & K_GRAD != 0) << 49)
    at += 1
    for i in range(t.nd): key.words[at + i] = t.sh[i]
    at += t.nd
    if t.keys & K_STRIDED:
        for i in range(t.nd): key.words[at + i] = t.sd[i]
        at += t.nd
    for i in range(key.ntensors):
        other = <Tensor>key.tensors[i]
        if other.st != t.st and (other.st.flags & t.st.flags) & FK_FOREIGN and overlaps(other, t):
            return False                          # memory of somebody else's that arguments share unseen
        if other.st == t.st:                      # memory that arguments share
            key.words[at] = -1 - i
            key.words[at + 1] = t.data_ - other.data_
            at += 2
            break
    key.tensors[key.ntensors] = <PyObject *>t
    key.ntensors += 1
    key.n = at
    return True


cdef bint key_value(CallKey *key, PyObject *o) except -1:
    """Append what is known of one argument; False where nothing can be kept for it."""
    cdef int overflow = 0
    cdef object v
    cdef double f
    if key.n + 2 >= KEY_WORDS:
        return False
    if o == NULL:
        key.words[key.n] = 0
        key.n += 1
        return True
    v = <object>o
    if isinstance(v, Tensor):
        return key_tensor(key, <Tensor>v)
    if v is None or v is True or v is False:
        key.words[key.n] = 2 if v is None else 3 if v is True else 4
        key.n += 1
        return True
    if PyLong_CheckExact(v):
        key.words[key.n] = 5
        key.words[key.n + 1] = PyLong_AsLongLongAndOverflow(v, &overflow)
        key.n += 2
        return not overflow
    if PyFloat_CheckExact(v):
        f = PyFloat_AS_DOUBLE(v)
        key.words[key.n] = 6
        memcpy(&key.words[key.n + 1], &f, 8)
        key.n += 2
        return True
    if isinstance(v, tuple) or type(v) is list:
        key.words[key.n] = (7 if type(v) is list else 8) | <int64_t>len(v) << 8
        key.n += 1
        for x in v:
            if not key_value(key, <PyObject *>x): return False
        return True
    if type(v) is str or type(v) is dtype or type(v) is memory_format:
        # known by identity; what is kept holds them
        key.words[key.n] = 9
        key.words[key.n + 1] = <int64_t><uintptr_t>o
        key.n += 2
        return True
    if type(v) is device:
        key.words[key.n] = 10
        key.words[key.n + 1] = device_number(v)
        key.n += 2
        return True
    return False


cdef void hash_key(CallKey *key) noexcept:
    cdef uint64_t h = 0x9e3779b97f4a7c15
    cdef int i
    for i in range(key.n):
        h = (h ^ <uint64_t>key.words[i]) * <uint64_t>0xff51afd7ed558ccd
        h ^= h >> 32
    key.hash = h


cdef bint key_of(CallKey *key, Op op, PyObject **slots, int form) except -1:
    cdef int i, tensors
    key.n = 3
    key.ntensors = 0
    key.words[0] = (form | DEFAULT_DTYPE << 8 | <int64_t>fk_get_num_threads() << 16 |
                    <int64_t>(fk_tls_keys() & (K_NOGRAD | K_INFERENCE)) << 32)
    key.words[1] = KEPT_SETTINGS << 1 | (<Generator>default_generator).twists
    if op.makes_tensors and UNSET[0] is not None: return False
    key.words[2] = 0                              # where tensors are made that are told no device
    if ENTERED and not fk_in_operator:
        number = DEVICE_NUMBER.get(ENTERED[len(ENTERED) - 1])
        if number is None:
            return False
        key.words[2] = number
    for i in range(op.nargs):
        tensors = key.ntensors
        if not key_value(key, slots[i]):
            return False
        if key.ntensors != tensors and T_OPERAND < op.arguments[i].type < T_ANY:
            return False                          # a tensor for a number or a size: its element is the argument
    hash_key(key)
    return True


# ------------------------------------------------------------------ noting a call

cdef class Keeper:
    """What one call has done so far."""
    cdef PyObject **tensors
    cdef fk_storage **made
    cdef bint *fixed                 # a constant: a number in the guise of a tensor
    cdef int ntensors, nmade, nsteps, room, room_made
    cdef bint whole, dry             # a program (`noted.pxi`), without limits; whose kernels do not run
    cdef Step *steps
    cdef bint refused
    cdef int ndraws, ncounts
    cdef int64_t work, bytes

    def __cinit__(self, int tensors=KEY_TENSORS):
        self.tensors = <PyObject **>malloc((tensors + 1) * sizeof(PyObject *))
        self.made = <fk_storage **>malloc(KEPT_MADE * sizeof(fk_storage *))
        self.fixed = <bint *>malloc(KEPT_MADE * sizeof(bint))
        self.room_made = KEPT_MADE
        if self.tensors == NULL or self.made == NULL or self.fixed == NULL: raise MemoryError()

    def __dealloc__(self):
        cdef int i
        for i in range(self.nmade): fk_storage_decref(self.made[i])
        for i in range(self.ntensors): Py_DECREF(<Tensor>self.tensors[i])
        free_steps(self.steps, self.nsteps)
        free(self.tensors); free(self.made); free(self.fixed)

    cdef bint note(self, fk_storage *s, bint fixed) noexcept:
        """Enter a storage; False where there is no room."""
        if self.nmade == self.room_made and not (self.whole and self.grow()): return False
        fk_storage_incref(s)
        self.made[self.nmade] = s
        self.fixed[self.nmade] = fixed
        self.nmade += 1
        return True

    cdef bint grow(self) noexcept:
        cdef int room = 2 * self.room_made
        cdef void *made = realloc(self.made, room * sizeof(fk_storage *))
        cdef void *fixed
        if made == NULL: return False
        self.made = <fk_storage **>made
        fixed = realloc(self.fixed, room * sizeof(bint))
        if fixed == NULL: return False
        self.fixed = <bint *>fixed
        self.room_made = room
        return True


cdef void free_steps(Step *steps, int count) noexcept:
    cdef int i
    for i in range(count):
        free(steps[i].base); free(steps[i].offset); free(steps[i].n); free(steps[i].s); free(steps[i].it)
    free(steps)


cdef inline Keeper keeper():
    return <Keeper>fk_keeper


cdef void refuse_for_calls() noexcept:
    """The call that is being noted depends on where its arguments lie, or changes their history; a whole program has them as it was noted."""
    if fk_tls_keys() & K_KEEP and not (<Keeper>fk_keeper).whole:
        (<Keeper>fk_keeper).refused = True


cdef void refuse_keeping() noexcept:
    """The call that is being noted depends on more than its arguments' shapes and values."""
    if fk_tls_keys() & K_KEEP:
        (<Keeper>fk_keeper).refused = True


def unkept():
    """Say that the operator call that runs now must not be kept: it reads what changes between calls."""
    refuse_keeping()


cdef void keep_storage(fk_storage *s) noexcept:
    cdef Keeper k = <Keeper>fk_keeper
    if (k.bytes > KEPT_BYTES and not k.whole) or not k.note(s, False):
        k.refused = True
        return
    k.bytes += s.nbytes


cdef void keep_constant(Tensor t) noexcept:
    """The elements of this tensor, just made, are the same in every call."""
    cdef Keeper k = <Keeper>fk_keeper
    cdef int i
    for i in range(k.nmade):
        if k.made[i] == t.st: k.fixed[i] = True


def lasting(Tensor t):
    """Say that a table which outlives the operator call that runs now has the same elements in every call."""
    cdef Keeper k
    cdef int i
    if not fk_tls_keys() & K_KEEP or t.st == NULL: return
    k = keeper()
    for i in range(k.nmade):
        if k.made[i] == t.st:
            k.fixed[i] = True
            return
    if not k.note(t.st, True): k.refused = True


cdef void keep_write(Tensor t) noexcept:
    """A write that counts a version, which a replay does for arguments; new memory starts at none."""
    cdef Keeper k = <Keeper>fk_keeper
    cdef Step *step
    cdef int i
    for i in range(k.nmade):
        if k.made[i] == t.st and not k.fixed[i]: return
    if k.refused or k.whole: return
    if t.keys & K_UNCOUNTED:
        k.refused = True
        return
    step = empty_step(k, STEP_COUNT, 1)
    if step == NULL:
        k.refused = True
        return
    resolve(k, step, 0, t.st, t.data_)
    k.ncounts += 1


cdef Step *next_step(Keeper k, int kind, int np) except NULL:
    """A new step with room for pointers."""
    cdef Step *s = empty_step(k, kind, np)
    if s == NULL: raise MemoryError()
    return s


cdef Step *empty_step(Keeper k, int kind, int np) noexcept:
    cdef Step *s
    if k.nsteps == k.room:
        s = <Step *>realloc(k.steps, (4 + 2 * k.room) * sizeof(Step))
        if s == NULL: return NULL
        k.room = 4 + 2 * k.room
        k.steps = s
    s = &k.steps[k.nsteps]
    memset(s, 0, sizeof(Step))
    s.kind = kind
    s.np = np
    s.base = <int *>malloc(np * sizeof(int) + 1)
    s.offset = <int64_t *>malloc(np * 8 + 1)
    k.nsteps += 1
    return s


cdef void resolve(Keeper k, Step *s, int at, fk_storage *st, char *data) noexcept:
    """Say where the pointer number `at` of a step comes from."""
    cdef int i
    cdef Tensor t
    for i in range(k.ntensors):
        t = <Tensor>k.tensors[i]
        if t.st == st:
            s.base[at] = i
            s.offset[at] = data - t.data_
            return
    for i in range(k.nmade):
        if k.made[i] == st:
            if k.fixed[i] and not k.whole:
                s.base[at] = BASE_FIXED
                s.offset[at] = <int64_t><uintptr_t>data
            else:
                s.base[at] = k.ntensors + i
                s.offset[at] = data - st.data
            return
    if k.whole and k.note(st, True):  # what a program reads and nobody gave it
        s.base[at] = k.ntensors + k.nmade - 1
        s.offset[at] = data - st.data
        return
    k.refused = True
    s.base[at] = BASE_NULL
    s.offset[at] = 0


cdef int keep_launch(Kernel kernel, object tensors, const int64_t *n, int nn, const fk_scalar *s, int ns, int64_t total,
                     int64_t grain) except -1:
    """Note a launch from Python; 1 where it is not to run."""
    cdef Keeper k = keeper()
    cdef Step *step
    cdef int i = 0
    if len(tensors) > STEP_POINTERS and not k.whole: k.refused = True
    if k.refused: return k.dry
    step = next_step(k, STEP_BODY if kernel.form == c'b' else STEP_DRIVER if kernel.form == c'd' else STEP_MAP, len(tensors))
    step.fn = kernel.fn
    step.total = total
    step.grain = grain
    step.n = <int64_t *>malloc(nn * 8 + 1)
    memcpy(step.n, n, nn * 8)
    step.s = <fk_scalar *>malloc(ns * sizeof(fk_scalar) + 1)
    memcpy(step.s, s, ns * sizeof(fk_scalar))
    step.nn = nn; step.ns = ns
    for t in tensors:
        if t is None:
            step.base[i] = BASE_NULL
            step.offset[i] = 0
        else:
            resolve(k, step, i, (<Tensor>t).st, (<Tensor>t).data_)
            k.work += (<Tensor>t).numel_
        i += 1
    return k.dry


cdef int keep_iteration(int kind, void *fn, const fk_scalar *s, fk_iter *it, list operands, const char *value) except -1:
    """Note an elementwise kernel, a copy or a fill; `operands` are the tensors, results first. 1 where it is not to run."""
    cdef Keeper k = keeper()
    cdef Step *step
    cdef int i
    if k.refused: return k.dry
    step = next_step(k, kind, len(operands))
    step.fn = fn
    step.it = <fk_iter *>malloc(fk_iter_bytes(it))
    fk_iter_copy(step.it, it)
    if s != NULL:
        step.s = <fk_scalar *>malloc(8 * sizeof(fk_scalar))
        memcpy(step.s, s, 8 * sizeof(fk_scalar))
        step.ns = 8
    if value != NULL:
        memcpy(step.value, value, 16)
    for i in range(len(operands)):
        resolve(k, step, i, (<Tensor>operands[i]).st, (<Tensor>operands[i]).data_)
    k.work += (<Tensor>operands[0]).numel_
    return k.dry


cdef int keep_zero(fk_storage *st, char *data, int64_t nbytes) except -1:
    """Note that bytes are set to zero; 1 where they are not to be."""
    cdef Keeper k = keeper()
    cdef Step *step
    if k.refused: return k.dry
    step = next_step(k, STEP_ZERO, 1)
    step.total = nbytes
    resolve(k, step, 0, st, data)
    return k.dry


cdef int keep_draw(Tensor out, const fk_request *request) except -1:
    """Note random numbers of the default generator; a replay takes as many draws as the call did."""
    cdef Keeper k = keeper()
    cdef Step *step
    if k.whole: k.refused = True      # a program has no generator
    if k.refused: return 0
    step = next_step(k, STEP_DRAW, 1)
    step.total = out.numel_
    step.n = <int64_t *>malloc(5 * 8)
    step.n[0] = request.kind; step.n[1] = out.dt; step.n[2] = k.ndraws; step.n[3] = request.low; step.n[4] = <int64_t>request.range
    step.s = <fk_scalar *>malloc(2 * sizeof(fk_scalar))
    step.s[0].f = request.a; step.s[1].f = request.b
    resolve(k, step, 0, out.st, out.data_)
    k.ndraws += 1
    k.work += out.numel_
    return 0


def overlapping(Tensor a, Tensor b):
    """Whether the memory of two tensors meets; of those that an operator is called with, a kept call knows it."""
    return a.numel_ != 0 and b.numel_ != 0 and not ((a.keys | b.keys) & K_META) and overlaps(a, b)


def writes(Tensor t):
    """How often the memory of a tensor was written to since it was made, of an inference tensor too."""
    return t._version if not t.keys & K_INFERENCE else t.st.version


def passed(Tensor flag):
    """Whether a check that a kernel made found nothing: the int64 at `flag` is negative."""
    cdef Step *step
    cdef Keeper k
    if flag.dt != I64 or flag.keys & (K_META | K_FOREIGN) or flag.numel_ == 0:
        raise said(TypeError, "[passed] an int64 flag in main memory was required: got %s" % DTYPES[flag.dt].name + "\nhint: make it with facula.zeros((), dtype=facula.int64)")
    cdef bint well
    if fk_tls_keys() & K_KEEP and keeper().dry: well = True
    else: well = (<int64_t *>flag.data_)[0] < 0
    if fk_tls_keys() & K_KEEP:
        k = keeper()
        if not well: k.refused = True
        if not k.refused:
            step = next_step(k, STEP_CHECK, 1)
            resolve(k, step, 0, flag.st, flag.data_)
    return well
