# A program as the launches that it makes: what `launch_cache.pxi` notes of one operator, of a whole function.
#
# Takes: a function without arguments, and the tensors that it reads. Gives: `noted_launches`: every allocation, launch, copy
# and fill in order, with where each pointer comes from, as plain Python data.
# Keeps true: `dry` runs no kernel and touches no memory that the function allocates, so that a program for large sizes is
# noted in no time; what depends on elements, draws random numbers or runs without a kernel refuses.

_STEP_NAMES = {STEP_DRIVER: "driver", STEP_BODY: "body", STEP_MAP: "map", STEP_ITERATE: "iterate", STEP_COPY: "copy",
               STEP_FILL: "fill", STEP_ZERO: "zero", STEP_CHECK: "check"}


def noted_launches(function, tensors, bint dry):
    """Run a function and note what it launches: (steps, storages, results), or None where that can not be noted.

    steps: (kind, address of the kernel, ((base, byte offset), ...), sizes, bits of scalars, total, grain, iteration, value).
    A base is a number among `tensors`, then among the storages; -1 is a null pointer. storages: (bytes, elements of those that
    were there before). results: (base, byte offset, sizes, strides, dtype) of tensors, other things as they are.
    """
    cdef Keeper k
    cdef uint32_t tls = fk_tls_keys()
    cdef bint keeping = KEEPING
    cdef list given = list(tensors)
    if tls & K_KEEP:
        raise said(RuntimeError, "[noted_launches] a call that is not noted itself was required: got one inside of another\nhint: note programs one after the other")
    k = Keeper.__new__(Keeper, len(given))
    for t in given:
        Py_INCREF(<Tensor?>t)
        k.tensors[k.ntensors] = <PyObject *>t
        k.ntensors += 1
    k.whole = True
    k.dry = dry
    set_keeping(False)
    set_keeper(<PyObject *>k)
    fk_tls_set(tls | K_KEEP | K_NOGRAD)
    try:
        results = function()
        described = None if k.refused else [described_result(k, r) for r in results]
    finally:
        fk_tls_set(tls)
        set_keeper(NULL)
        set_keeping(keeping)
    if k.refused:
        return None
    steps = [described_step(k, &k.steps[i]) for i in range(k.nsteps) if k.steps[i].kind != STEP_COUNT]
    return steps, [described_storage(k, i) for i in range(k.nmade)], described


cdef tuple described_result(Keeper k, object r):
    cdef Step place
    cdef int base = 0
    cdef int64_t offset = 0
    cdef Tensor t
    if not isinstance(r, Tensor):
        return (None, r)
    t = r
    if t.keys & (K_META | K_FOREIGN | K_SPARSE | K_TRANSFORM):
        k.refused = True
        return (None, None)
    place.base = &base
    place.offset = &offset
    resolve(k, &place, 0, t.st, t.data_)
    return (base, offset, tuple(t.shape), tuple([t.sd[i] for i in range(t.nd)]), DTYPES[t.dt].code)


cdef tuple described_storage(Keeper k, int i):
    cdef fk_storage *s = k.made[i]
    if not k.fixed[i]: return (s.nbytes, None)
    return (s.nbytes, <bytes>s.data[:s.nbytes])


cdef tuple described_step(Keeper k, Step *s):
    cdef int i, j
    pointers = tuple([(s.base[i], s.offset[i]) for i in range(s.np)])
    ints = tuple([s.n[i] for i in range(s.nn)])
    bits = tuple([s.s[i].i for i in range(s.ns)])
    value = <bytes>s.value[:16] if s.kind == STEP_FILL else None
    walked = None
    if s.it != NULL:
        operands = s.it.nout + s.it.nin
        walked = (s.it.nout, s.it.nin, tuple([s.it.shape[j] for j in range(s.it.ndim)]),
                  tuple([(s.it.dtype[i], s.it.compute[i], tuple([s.it.stride[i][j] for j in range(s.it.ndim)])) for i in range(operands)]))
    return (_STEP_NAMES[s.kind], <uintptr_t>s.fn, pointers, ints, bits, s.total, s.grain, walked, value)
