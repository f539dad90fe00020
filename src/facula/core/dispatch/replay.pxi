# The launch cache, read: what an operator written in Python allocated and launched, done again without Python.
#
# Takes: calls of operators whose definition allows it (`keeps`), and what `launch_cache.pxi` noted when such a call ran first.
# Gives: for the next call with the like of its arguments, the same allocations and launches on the new elements.
# Keeps true: results, versions of written arguments and random numbers are those of the implementation; where a noted
# check of elements (`passed`) fails, the operator runs the long way, which raises.

cdef class Kept:
    """The allocations, launches and results of a call; or (refused) that there is nothing to keep."""
    cdef uint64_t hash
    cdef int nkey, ntensors, nmade, nsteps, nresults
    cdef int64_t *key
    cdef object alive                # what the key knows by identity
    cdef Step *steps
    cdef int64_t sizes[KEPT_MADE]
    cdef int64_t places[KEPT_MADE]   # in the scratch memory of a call; -1 for a storage of its own, -2 unused
    cdef int64_t scratch
    cdef Made *results               # number -1: None
    cdef object result_type          # None: one tensor
    cdef fk_storage *constants[KEPT_MADE]
    cdef int nconstants
    cdef bint refused, long_
    cdef int tries               # so often was this call noted
    cdef object calls            # of a composite with a history: its `InnerCalls`
    cdef int ndraws, ncounts

    def __dealloc__(self):
        cdef int i
        free_steps(self.steps, self.nsteps)
        for i in range(self.nconstants): fk_storage_decref(self.constants[i])
        free(self.key)
        free(self.results)


cdef bint keep_result(Kept e, Keeper k, int at, object r):
    """Describe one result; False where it is nothing new."""
    cdef Made *m = &e.results[at]
    cdef Tensor t
    cdef int i
    if r is None:
        m.kind = RESULT_NONE
        return True
    for i in range(k.ntensors):
        if <PyObject *>r == k.tensors[i]:
            m.kind = RESULT_SAME
            m.number = i
            return True
    if type(r) is not Tensor: return False
    t = <Tensor>r
    if t.nd > FEW_DIMS: return False
    if t.keys & ~<uint32_t>(K_STRIDED | K_INFERENCE) or t.fn_ is not None or t.dict_ != NULL or t.dev != 0:
        return False
    m.dt = t.dt; m.nd = t.nd; m.numel = t.numel_
    m.strided = (t.keys & K_STRIDED) != 0
    memcpy(m.sh, t.sh, t.nd * 8)
    memcpy(m.sd, t.sd, t.nd * 8)
    for i in range(k.nmade):
        if k.made[i] == t.st and not k.fixed[i]:
            m.kind = RESULT_NEW
            m.number = i
            m.offset = t.data_ - t.st.data
            e.places[i] = -1
            if t.base is not None:         # a view of what nobody else has is a tensor of its own
                forget_view(t)
                t.base = None
            return True
    for i in range(k.ntensors):
        if (<Tensor>k.tensors[i]).st == t.st and t.base is root_of(<Tensor>k.tensors[i]):
            m.kind = RESULT_VIEW
            m.number = i
            m.offset = t.data_ - (<Tensor>k.tensors[i]).data_
            return True
    return False


cdef inline Tensor root_of(Tensor t):
    return t.base if t.base is not None else t


cdef bint keep_results(Kept e, Keeper k, object r) except -1:
    cdef int i
    cdef tuple items
    if isinstance(r, Tensor):
        items = (r,)
    elif isinstance(r, tuple) and (type(r) is tuple or hasattr(type(r), "_fields")):
        items = <tuple>r
        e.result_type = type(r)
    else:
        return False
    e.nresults = len(items)
    e.results = <Made *>calloc(len(items) + 1, sizeof(Made))
    for i in range(e.nresults):
        if not keep_result(e, k, i, items[i]): return False
    return True


cdef Kept entry_of(CallKey *key, list alive):
    """An entry of a call, which is refused so far; `alive`: what the key knows by identity."""
    cdef Kept e = Kept.__new__(Kept)
    e.hash = key.hash
    e.nkey = key.n
    e.key = <int64_t *>malloc(key.n * 8)
    if e.key == NULL: raise MemoryError
    memcpy(e.key, key.words, key.n * 8)
    e.alive = alive
    e.ntensors = key.ntensors
    e.refused = True
    return e


cdef Kept noted_entry(Op op, CallKey *key, list alive):
    """The entry of a call that was noted, once more where it was refused before."""
    cdef Kept e = entry_of(key, alive)
    found = find_kept(op, key)
    e.tries = 1 if found is None else (<Kept>found).tries + 1
    return e


cdef int finish_keeping(Op op, CallKey *key, Keeper k, object r, list alive) except -1:
    """Enter a call that ran through into the operator's table."""
    cdef Kept e = noted_entry(op, key, alive)
    cdef int i, j
    for i in range(k.nmade): e.places[i] = -2
    e.refused = k.refused or k.bytes > KEPT_BYTES or not keep_results(e, k, r)
    if e.refused:
        if is_final(e): op.refusals += 1
        if op.refusals > 8 and not op.successes: op.keeps = False
    else:
        op.successes = True
        e.nmade = k.nmade
        e.steps = k.steps; e.nsteps = k.nsteps
        k.steps = NULL; k.nsteps = 0
        e.ndraws = k.ndraws; e.ncounts = k.ncounts
        e.long_ = k.work >= GIL_FREE // 4
        for i in range(e.nsteps):
            for j in range(e.steps[i].np):
                if e.steps[i].base[j] >= k.ntensors and e.places[e.steps[i].base[j] - k.ntensors] == -2:
                    e.places[e.steps[i].base[j] - k.ntensors] = 0
        for i in range(k.nmade):
            e.sizes[i] = k.made[i].nbytes
            if k.fixed[i]:
                fk_storage_incref(k.made[i])
                e.constants[e.nconstants] = k.made[i]
                e.nconstants += 1
            elif e.places[i] == 0 and fk_guard_on():
                e.places[i] = -1  # in a block of its own, beside a guard page
            elif e.places[i] == 0:
                e.places[i] = e.scratch
                e.scratch += (k.made[i].nbytes + 127) & ~<int64_t>63
    enter_kept(op, e)
    return 0


cdef inline bint is_final(Kept e):
    """Whether a call need not be noted again: the first of its kind may make tables that later ones find made."""
    return not e.refused or e.tries > 1


cdef int enter_kept(Op op, Kept e) except -1:
    """Enter a call into the table, which is made wider where another call has its place."""
    cdef Kept other
    cdef Py_ssize_t at
    if op.kept is None:
        op.kept = [None] * KEPT_SLOTS
    at = e.hash & <uint64_t>(len(op.kept) - 1)
    found = op.kept[at]
    if found is not None and (<Kept>found).hash != e.hash and len(op.kept) < MOST_KEPT:
        entries = [k for k in op.kept if k is not None]
        op.kept = [None] * (2 * len(op.kept))
        for k in entries:
            other = <Kept>k
            op.kept[other.hash & <uint64_t>(len(op.kept) - 1)] = other
        return enter_kept(op, e)
    op.kept[at] = e
    return 0


cdef Kept find_kept(Op op, CallKey *key):
    cdef Kept e
    if op.kept is None: return None
    found = op.kept[key.hash & <uint64_t>(len(op.kept) - 1)]
    if found is None: return None
    e = <Kept>found
    if e.hash != key.hash or e.nkey != key.n or memcmp(e.key, key.words, key.n * 8) != 0: return None
    return e


cdef int run_draw(Step *s, char *p, const fk_stream *stream) noexcept nogil:
    cdef fk_stream at = stream[0]
    cdef fk_request request
    memset(&request, 0, sizeof(fk_request))
    at.offset += <uint64_t>s.n[2]
    request.kind = <int>s.n[0]; request.dtype = <int>s.n[1]; request.low = s.n[3]; request.range = <uint64_t>s.n[4]
    request.a = s.s[0].f; request.b = s.s[1].f
    request.out = p; request.n = s.total
    return fk_stream_fill(&at, &request)


cdef int run_step(Step *s, char **p, const fk_stream *stream) noexcept nogil:
    """One step on resolved pointers; 1 where a check failed, -1 where memory ended."""
    cdef fk_iter it
    cdef int i
    if s.kind == STEP_DRIVER:
        return -1 if (<fk_driver>s.fn)(p, s.n, s.s, &fk_runtime_table) else 0
    if s.kind == STEP_BODY:
        if s.total > 0:
            if s.total <= s.grain: (<fk_body>s.fn)(p, s.n, s.s, 0, s.total)
            else: fk_parallel(<fk_body>s.fn, p, s.n, s.s, s.total, s.grain)
    elif s.kind == STEP_MAP:
        if s.total: (<fk_map>s.fn)(p, s.s, s.total)
    elif s.kind == STEP_ZERO:
        memset(p[0], 0, s.total)
    elif s.kind == STEP_CHECK:
        return 1 if (<int64_t *>p[0])[0] >= 0 else 0
    elif s.kind == STEP_DRAW:
        return -1 if run_draw(s, p[0], stream) else 0
    elif s.kind == STEP_COUNT:
        return 0
    else:
        fk_iter_copy(&it, s.it)
        for i in range(s.np): it.data[i] = p[i]
        if s.kind == STEP_ITERATE: fk_map_run(<fk_map>s.fn, s.s, &it)
        elif s.kind == STEP_COPY: fk_copy_run(&it)
        else: fk_fill_run(&it, s.value)
    return 0


cdef int run_steps(Kept e, char **bases, const fk_stream *stream) noexcept nogil:
    cdef char *p[STEP_POINTERS]
    cdef Step *s
    cdef int i, j, b, r
    for i in range(e.nsteps):
        s = &e.steps[i]
        for j in range(s.np):
            b = s.base[j]
            p[j] = bases[b] + s.offset[j] if b >= 0 else NULL if b == BASE_NULL else <char *><uintptr_t>s.offset[j]
        r = run_step(s, p, stream)
        if r: return r
    return 0


cdef Tensor made_result(Made *m, fk_storage **made, CallKey *key, uint32_t tls):
    cdef Tensor t, a
    cdef fk_storage *st
    if m.kind == RESULT_NONE: return None
    if m.kind == RESULT_SAME: return <Tensor>key.tensors[m.number]
    if m.kind == RESULT_VIEW:
        a = <Tensor>key.tensors[m.number]
        t = start_view(a)
        t.data_ = a.data_ + m.offset
        t.dt = m.dt; set_rank(t, m.nd)
        memcpy(t.sh, m.sh, m.nd * 8)
        memcpy(t.sd, m.sd, m.nd * 8)
        finish_view(t)
        return t
    t = Tensor.__new__(Tensor)
    st = made[m.number]
    t.st = st
    fk_storage_incref(st)
    t.data_ = st.data + m.offset
    t.dt = m.dt; set_rank(t, m.nd); t.numel_ = m.numel
    memcpy(t.sh, m.sh, m.nd * 8)
    memcpy(t.sd, m.sd, m.nd * 8)
    if m.strided: t.keys |= K_STRIDED
    if tls & K_INFERENCE: t.keys |= K_INFERENCE
    return t


cdef int count_versions(Kept e, CallKey *key) except -1:
    """Count the versions of arguments that the call wrote to."""
    cdef int i
    for i in range(e.nsteps):
        if e.steps[i].kind == STEP_COUNT:
            (<Tensor>key.tensors[e.steps[i].base[0]]).st.version += 1
    return 0


cdef object replay(Kept e, CallKey *key):
    """Do a kept call again on other tensors; NotImplemented where a check failed."""
    cdef char *bases[KEY_TENSORS + KEPT_MADE]
    cdef fk_storage *made[KEPT_MADE]
    cdef fk_storage *scratch = NULL
    cdef int i, r = -1, done = 0
    cdef uint32_t tls = fk_tls_keys()
    cdef object result = NotImplemented
    cdef bint held = False
    cdef Generator g
    cdef fk_stream stream
    if e.ndraws:
        g = <Generator>default_generator
        stream = g.next_draw()
        g._offset += e.ndraws - 1
    for i in range(e.ntensors):
        bases[i] = (<Tensor>key.tensors[i]).data_
    try:
        if e.scratch: scratch = new_storage(e.scratch, 0)
        for i in range(e.nmade):
            made[i] = NULL
            if e.places[i] == -1:
                made[i] = new_storage(e.sizes[i], 0)
                bases[e.ntensors + i] = made[i].data
            elif e.places[i] >= 0:
                bases[e.ntensors + i] = scratch.data + e.places[i]
            done = i + 1
        if e.long_:
            hold_tensors(key)
            held = True
            r = run_kept(e, bases, &stream)
        else:
            r = run_steps(e, bases, &stream)
        if r == 0:
            if e.ncounts: count_versions(e, key)
            if e.result_type is None:
                result = made_result(&e.results[0], made, key, tls)
            else:
                items = PyTuple_New(e.nresults)
                for i in range(e.nresults):
                    x = made_result(&e.results[i], made, key, tls)
                    Py_INCREF(x)
                    PyTuple_SET_ITEM(items, i, x)
                result = items if e.result_type is tuple else tuple.__new__(e.result_type, items)
    finally:
        if scratch != NULL: fk_storage_decref(scratch)
        for i in range(done):
            if made[i] != NULL: fk_storage_decref(made[i])
        if held: drop_tensors(key)
    if r < 0:
        raise_memory(0)
    return result


# ------------------------------------------------------------------ the call of an operator that keeps

cdef object kept_call(Op op, PyObject **slots, uint32_t k):
    """Run an operator on its slots (functional form, CPU): by what was kept, or in Python, noting what it does."""
    cdef CallKey key
    cdef Kept e
    cdef object r = NotImplemented
    cdef bint recording = (k & K_GRAD) and not (k & K_NOGRAD) and op.formula is not None
    cdef bint noting = False
    cdef tuple args
    if key_of(&key, op, slots, 0):
        e = find_kept(op, &key)
        if e is None: noting = True
        elif e.refused: noting = not is_final(e)
        else:
            r = replay(e, &key)
            if r is not NotImplemented and not recording:
                return r
    args = arguments_of(op, slots)
    if r is NotImplemented:
        r = noted(op, &key, slots, args) if noting else unrecorded(op, args, k)
    if recording:
        record_formula(op, args, r)
    return r


cdef bint kept_inplace(Op op, tuple args, uint32_t k) except *:
    """Write an in-place form that works on the elements where they are, by what was kept; False where nothing was."""
    cdef CallKey key
    cdef Kept e
    cdef PyObject *slots[24]
    cdef int i
    if not op.keeps or not KEEPING or (k | fk_tls_keys()) & K_UNKEPT: return False
    for i in range(op.nargs): slots[i] = <PyObject *>args[i]
    if not key_of(&key, op, slots, FORM_INPLACE): return False
    e = find_kept(op, &key)
    if e is None or not is_final(e):
        return noted_inplace(op, &key, slots, args)
    return not e.refused and replay(e, &key) is not NotImplemented


cdef bint noted_inplace(Op op, CallKey *key, PyObject **slots, tuple args) except *:
    """The in-place form, noted; False where it does not serve."""
    cdef Keeper k = keeper_of(op, key)
    cdef uint32_t tls = fk_tls_keys()
    set_keeper(<PyObject *>k)
    fk_tls_set(tls | K_NOGRAD | K_KEEP)
    try:
        op.definition.meta(*args)              # every check stands there
        done = op.direct(*args)
    finally:
        fk_tls_set(tls)
        set_keeper(NULL)
    if not done: k.refused = True
    finish_keeping(op, key, k, (), identities(op, slots))
    return done


cdef Keeper keeper_of(Op op, CallKey *key):
    cdef Keeper k = Keeper.__new__(Keeper)
    k.ntensors = key.ntensors
    memcpy(k.tensors, key.tensors, key.ntensors * sizeof(PyObject *))
    hold_tensors(key)
    return k


cdef void hold_tensors(CallKey *key) noexcept:
    """Those of a list may be taken from it while the call runs."""
    cdef int i
    for i in range(key.ntensors): Py_INCREF(<Tensor>key.tensors[i])


cdef void drop_tensors(CallKey *key) noexcept:
    cdef int i
    for i in range(key.ntensors): Py_DECREF(<Tensor>key.tensors[i])


cdef list identities(Op op, PyObject **slots):
    """What a key of these slots knows by its address."""
    cdef int i
    cdef list alive = []
    for i in range(op.nargs):
        if slots[i] != NULL: known_by_identity(<object>slots[i], alive)
    return alive


cdef object unrecorded(Op op, tuple args, uint32_t k):
    """The implementation, which no tape hears of."""
    cdef uint32_t tls = fk_tls_keys()
    if tls & K_NOGRAD or not (k & K_GRAD):
        return op.impl(*args)
    fk_tls_set(tls | K_NOGRAD)
    try:
        return op.impl(*args)
    finally:
        fk_tls_set(tls)


cdef object noted(Op op, CallKey *key, PyObject **slots, tuple args):
    """The implementation, with everything it does noted."""
    cdef uint32_t tls = fk_tls_keys()
    cdef Keeper k = keeper_of(op, key)
    set_keeper(<PyObject *>k)
    fk_tls_set(tls | K_KEEP | (0 if op.kind == KIND_COMPOSITE else K_NOGRAD))
    try:
        r = op.impl(*args)
    finally:
        fk_tls_set(tls)
        set_keeper(NULL)
    finish_keeping(op, key, k, r, identities(op, slots))
    return r


cdef void set_keeper(PyObject *k) noexcept:
    global fk_keeper
    fk_keeper = k


cdef int known_by_identity(object v, list alive) except -1:
    """Collect the objects that a key knows by their address."""
    if isinstance(v, (tuple, list)):
        for x in v: known_by_identity(x, alive)
    elif type(v) is str or type(v) is dtype or type(v) is memory_format:
        alive.append(v)
    return 0
