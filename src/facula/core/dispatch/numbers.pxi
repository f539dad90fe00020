# Small tensors with Python numbers: `x * 2.0`, `x + 1`, `x ** 2`.
#
# Takes: an elementwise operator of two arguments, a tensor and a number. Gives: the result, recorded; or None where the
# general way must serve. Keeps true: the number becomes elements of the tensor's own dtype, as promotion would have it.

cdef enum:
    SMALL = 512


cdef inline void spread_number(char *p, int dt, double f, int64_t i, int64_t n) noexcept:
    """n elements of one value; dt is a compute dtype of one number an element."""
    cdef int64_t j
    if dt == F32:
        for j in range(n): (<float *>p)[j] = <float>f
    elif dt == F64:
        for j in range(n): (<double *>p)[j] = f
    elif dt == I64:
        for j in range(n): (<int64_t *>p)[j] = i
    else:
        for j in range(n): (<int32_t *>p)[j] = <int32_t>i


cdef object number_fast(Op op, Tensor x, object number, bint first, uint32_t tls, int form):
    """`op(x, number)`, or `op(number, x)` when `first`."""
    cdef Variant v = op.default_variant
    cdef Tensor r
    cdef char buffer[SMALL * 8]
    cdef char *p[3]
    cdef double f = 0
    cdef int64_t i = 0
    cdef int cd = x.dt, rd
    cdef fk_map fn
    if v is None or op.ntensors != 2 or x.numel_ > SMALL or op.fixed[0] != NO_DTYPE or op.fixed[1] != NO_DTYPE:
        return None
    if cd == F32 or cd == F64:
        if PyFloat_CheckExact(number):
            f = PyFloat_AS_DOUBLE(number)
        elif PyLong_CheckExact(number):
            if not -0x1fffffffffffff <= number <= 0x1fffffffffffff: return None
            f = number
        else:
            return None
    elif cd == I64 or cd == I32:
        if not PyLong_CheckExact(number) or op.chooses_dtype or op.checks_divisor or op.checks_exponent or op.rule == 1 or op.rule == 4:
            return None
        if not -0x80000000 <= number <= 0x7fffffff: return None
        i = number
    else:
        return None
    if not (op.mask & (1 << KIND[cd])):
        return None
    if op.fits_some and cd == F32 and not -3e38 < f < 3e38: return None
    rd = result_dtype(op, cd)
    if form == FORM_INPLACE and (rd != cd or first or (x.keys & K_GRAD and not (tls & K_NOGRAD))):
        return None
    if not v.tried[cd]:
        kernel_of(v, cd)
    fn = v.kernels[cd]
    if fn == NULL:
        return None
    if form == FORM_INPLACE:
        check_inplace(op.name, x, tls)
        r = x
    else:
        r = new_like(x, rd)
    spread_number(buffer, cd, f, i, x.numel_)
    p[0] = r.data_
    p[2 if first else 1] = x.data_
    p[1 if first else 2] = buffer
    if x.numel_: fn(p, NULL, x.numel_)
    if form == FORM_INPLACE:
        bump(x)
        return x
    if x.keys & K_GRAD and not (tls & K_NOGRAD):
        record_number(op, v, cd, r, x, number, first)
    elif tls & K_INFERENCE:
        r.keys |= K_INFERENCE
    return r


cdef int record_number(Op op, Variant v, int cd, Tensor r, Tensor x, object number, bint first) except -1:
    cdef GradientPlan plan
    cdef Node n
    if not op.differentiable or KIND[r.dt] < KIND_FLOAT:
        return 0
    if fk_tls_hooks():
        attach(r, pointwise_node(op, v, cd, [], [wrap_number(number), x] if first else [x, wrap_number(number)], r, r), 0)
        return 0
    plan = <GradientPlan>v.plans[cd] if v.plans[cd] is not None else plan_of(v, cd)
    n = new_node(op, pointwise_backward, 2, 1)
    n.variant = v; n.compute = cd
    n.aside = 1 if first else 2
    if first:
        n.e1 = edge(x); n.n1 = x.out_nr if x.fn_ is not None else 0
        if plan.saves & 1: n.s0 = wrap_number(number); n.v0 = n.s0.st.version
        if plan.saves & 2: n.s1 = x; n.v1 = x.st.version
    else:
        n.e0 = edge(x); n.n0 = x.out_nr if x.fn_ is not None else 0
        if plan.saves & 1: n.s0 = x; n.v0 = x.st.version
        if plan.saves & 2: n.s1 = wrap_number(number); n.v1 = n.s1.st.version
    if plan.saves_result: n.sr = alias(r); n.vr = r.st.version
    attach(r, n, 0)
    return 0


cdef inline bint is_negative_number(Tensor t):
    """Whether this is a Python integer below zero."""
    return t.keys & K_WRAPPED and t.dt == I64 and (<int64_t *>t.data_)[0] < 0


cdef bint holds_zero(Tensor t) except *:
    """Whether an integer tensor has a zero."""
    if not (t.keys & K_WRAPPED): refuse_keeping()
    if t.numel_ == 0:
        return False
    if t.numel_ == 1:
        return load_element(t.data_, t.dt) == 0
    return bool((t == 0).any())


cdef list in_dtype(list operands, int dt):
    """The operands, without history, as elements of one dtype."""
    cdef list made = []
    for x in operands:
        made.append(x if x is None or (<Tensor>x).dt == dt else convert(detach_(x), dt, (<Tensor>x).dev, False, None))
    return made
