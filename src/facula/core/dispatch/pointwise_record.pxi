# Elementwise operators on the tape: the gradient's plan, what it saves, and the fused backward.
#
# Keeps true: the plan is made once a variant and compute dtype; a gradient that must itself be differentiable is computed
# by operators.

cdef GradientPlan plan_of(Variant v, int cd):
    """What the gradients need and which kernels compute them; made once a variant and compute dtype."""
    cdef GradientPlan plan
    cdef GradientInput g
    cdef int i, j
    if v.plans[cd] is not None:
        return <GradientPlan>v.plans[cd]
    plan = GradientPlan.__new__(GradientPlan)
    plan.inputs = []
    rules = GRADIENT_RULES[0](v.op.definition, v, (<dtype>DTYPES[cd]).code)
    for i, rule in enumerate(rules):
        g = GradientInput.__new__(GradientInput)
        if rule is None:
            g.kind = G_NONE
        elif rule == "identity":
            g.kind = G_IDENTITY
        else:
            g.nuses = len(rule)
            for j, use in enumerate(rule):
                if use == "grad":
                    g.uses[j] = USE_GRAD
                elif use == "result":
                    g.uses[j] = USE_RESULT
                    plan.saves_result = True
                else:
                    g.uses[j] = use
                    plan.saves |= 1 << <int>use
            g.fn = find_kernel(v, cd, "grad%d" % i, gradient_dtypes(v.op, g, cd))
            g.kind = G_KERNEL if g.fn != NULL else G_EVALUATE
        plan.inputs.append(g)
    v.plans[cd] = plan
    return plan


cdef inline int save_input(Node n, int i, Tensor t) except -1:
    check_savable(t)
    if i == 0: n.s0 = t; n.v0 = t.st.version
    elif i == 1: n.s1 = t; n.v1 = t.st.version
    else: n.s2 = t; n.v2 = t.st.version
    return 0


cdef int record_unary(Op op, Variant v, int cd, Tensor r, Tensor x) except -1:
    cdef GradientPlan plan
    cdef Node n
    if not op.differentiable or KIND[r.dt] < KIND_FLOAT:
        return 0
    if fk_tls_hooks():
        attach(r, pointwise_node(op, v, cd, [], [x], r, r), 0)
        return 0
    plan = <GradientPlan>v.plans[cd] if v.plans[cd] is not None else plan_of(v, cd)
    n = new_node(op, pointwise_backward, 1, 1)
    n.variant = v; n.compute = cd
    n.e0 = edge(x)
    n.n0 = x.out_nr if x.fn_ is not None else 0
    if plan.saves: n.s0 = x; n.v0 = x.st.version
    if plan.saves_result: n.sr = alias(r); n.vr = r.st.version
    if x.dt != r.dt: n.extra = ((x.shape, x.dt),)
    attach(r, n, 0)
    return 0


cdef int record_binary(Op op, Variant v, int cd, Tensor r, Tensor x, Tensor y) except -1:
    """Same shape, same dtype."""
    cdef GradientPlan plan
    cdef Node n
    if not op.differentiable or KIND[r.dt] < KIND_FLOAT:
        return 0
    if fk_tls_hooks():
        attach(r, pointwise_node(op, v, cd, [], [x, y], r, r), 0)
        return 0
    plan = <GradientPlan>v.plans[cd] if v.plans[cd] is not None else plan_of(v, cd)
    n = new_node(op, pointwise_backward, 2, 1)
    n.variant = v; n.compute = cd
    if x.keys & K_GRAD:
        n.e0 = edge(x); n.n0 = x.out_nr if x.fn_ is not None else 0
    if y.keys & K_GRAD:
        n.e1 = edge(y); n.n1 = y.out_nr if y.fn_ is not None else 0
    if (x.keys | y.keys) & K_INFERENCE:
        if plan.saves & 1: check_savable(x)
        if plan.saves & 2: check_savable(y)
    if plan.saves & 1: n.s0 = x; n.v0 = x.st.version
    if plan.saves & 2: n.s1 = y; n.v1 = y.st.version
    if plan.saves_result: n.sr = alias(r); n.vr = r.st.version
    if x.dt != r.dt: n.extra = ((x.shape, x.dt), (y.shape, y.dt))
    attach(r, n, 0)
    return 0


cdef Node pointwise_node(Op op, Variant v, int cd, list values, list operands, Tensor r, Tensor saved_result):
    """The node of any pointwise call. `saved_result` is None when the result does not exist yet (in-place)."""
    cdef GradientPlan plan = plan_of(v, cd)
    cdef Node n
    cdef int i, nt = op.ntensors
    cdef Tensor t
    cdef bint uniform = True
    if nt > 3 or fk_tls_hooks() or len(values) > 4:
        return pointwise_formula_node(op, v, cd, values, operands, r, saved_result, plan)
    n = new_node(op, pointwise_backward, nt, 1)
    n.variant = v; n.compute = cd
    fill_parameters(v, values, cd, n.attrs)
    for i in range(nt):
        if operands[i] is None:
            n.aside |= 1 << i
            continue
        t = <Tensor>operands[i]
        if t.keys & K_GRAD:
            add_edge(n, i, t)
        elif t.keys & K_WRAPPED or op.fixed[i] == B8:
            n.aside |= 1 << i
        if plan.saves & (1 << i):
            save_input(n, i, t)
        if t.dt != r.dt or not same_shape(t, r): uniform = False
    if plan.saves_result and saved_result is not None:
        n.sr = saved_alias(saved_result); n.vr = n.sr.st.version
    if not uniform:
        n.extra = tuple([None if t is None else (shape_of_fake(<Tensor>t), (<Tensor>t).dt) for t in operands])
    return n


cdef Tensor saved_value(Node n, int use, Tensor g):
    if use == USE_GRAD: return g
    if use == USE_RESULT:
        if n.sr is None: raise_freed(n)
        check_version(n.sr, n.vr, n)
        return n.sr
    if use == 0:
        if n.s0 is None: raise_freed(n)
        check_version(n.s0, n.v0, n)
        return n.s0
    if use == 1:
        if n.s1 is None: raise_freed(n)
        check_version(n.s1, n.v1, n)
        return n.s1
    if n.s2 is None: raise_freed(n)
    check_version(n.s2, n.v2, n)
    return n.s2


cdef int pointwise_backward(Node n, PyObject **grads, PyObject **out) except -1:
    cdef Tensor g = <Tensor>grads[0]
    cdef Tensor r
    cdef GradientPlan plan = <GradientPlan>n.variant.plans[n.compute]
    cdef GradientInput gi
    cdef int i, k
    cdef uint32_t tls = fk_tls_keys()
    cdef bint differentiable = not (tls & K_NOGRAD) or tls & (K_DISPATCH | K_INTERPRETER | K_FUNCTION_MODE) or g.keys & K_SLOW
    cdef bint steps = tls & K_STEPS and (g.dt == F16 or g.dt == BF16)
    cdef list order = order_of_operands(n) if steps else None
    for k in range(n.nin):
        i = order[k] if steps else k
        if (i == 0 and n.e0 is None) or (i == 1 and n.e1 is None) or (i == 2 and n.e2 is None):
            continue
        gi = <GradientInput>plan.inputs[i]
        if gi.kind == G_NONE:
            r = zero_gradient(g)
        elif gi.kind == G_IDENTITY:
            r = g
        elif gi.kind == G_KERNEL and not differentiable and not steps:
            r = gradient_kernel(n, gi, g, i)
        else:
            r = gradient_by_operators(n, gi, g, i)
        if n.extra is not None:
            r = fit_gradient(r, n.extra[i])
        Py_INCREF(r)
        out[i] = <PyObject *>r
    return 0


cdef list order_of_operands(Node n):
    """The order in which the gradients of operands come, that of their names: sums of rounded gradients depend on it."""
    cdef int i
    return in_order_of_names([<object>n.op.arguments[n.op.tensor_at[i]].name for i in range(n.nin)])


cdef Tensor zero_gradient(Tensor g):
    """The gradient of an argument that the result follows in steps: zeros, as in PyTorch, not nothing."""
    cdef Tensor r
    # what has no elements of its own would give a tensor on the meta device
    if (g.keys | fk_tls_keys()) & (K_DISPATCH | K_INTERPRETER | K_TRANSFORM | K_FAKE | K_SPARSE):
        return OP_ZEROS_LIKE(g)
    r = new_tensor(g.nd, g.sh, g.dt, g.dev)
    fill_zero(r)
    return r


cdef Tensor gradient_kernel(Node n, GradientInput gi, Tensor g, int wrt):
    """Run the fused gradient kernel over the broadcast shape."""
    cdef Tensor r, t
    cdef char *p[9]
    cdef fk_iter it
    cdef Broadcast b
    cdef int j, cd = n.compute, rd
    cdef bint plain = not (g.keys & (K_STRIDED | K_META)) and g.dt == cd and g.numel_ <= GIL_FREE // 4
    cdef list values = []
    cdef int spread = 0
    cdef char buffers[8192]         # two times SMALL doubles
    for j in range(gi.nuses):
        t = saved_value(n, gi.uses[j], g)
        if t.keys & (K_DETOUR | K_META) and not (g.keys & K_META):
            return gradient_by_operators(n, gi, g, wrt)
        values.append(t)
        if t.keys & K_WRAPPED and cd <= F64 and g.numel_ <= SMALL and spread < 2:
            spread += 1              # a number: spread into a buffer below
        elif (t.keys & (K_STRIDED | K_META)) or t.dt != cd or not same_shape(t, g): plain = False
    rd = g.dt
    if n.extra is not None:
        rd = n.extra[wrt][1]
        if KIND[rd] < KIND[g.dt]: rd = g.dt
    if plain and rd == cd:
        r = new_like(g, cd)
        p[0] = r.data_
        spread = 0
        for j in range(gi.nuses):
            t = <Tensor>values[j]
            p[j + 1] = t.data_
            if t.keys & K_WRAPPED:
                spread_number(buffers + spread * SMALL * 8, cd, load_element(t.data_, t.dt), 0, r.numel_)
                p[j + 1] = buffers + spread * SMALL * 8
                spread += 1
        if r.numel_: gi.fn(p, n.attrs, r.numel_)
        return r
    b.nd = -1
    broadcast_with(&b, g, n.op)
    for x in values:
        broadcast_with(&b, <Tensor>x, n.op)
    if g.keys & K_META:
        return new_tensor(b.nd, b.sh, rd, 1)
    r = None
    if b.nd == g.nd and memcmp(b.sh, g.sh, b.nd * 8) == 0:
        t = g
        for x in values:        # the memory order of a dense operand, not of an expanded gradient
            if same_shape(<Tensor>x, g) and dense(<Tensor>x):
                t = <Tensor>x
                break
        r = new_like(t, rd)
    else:
        r = new_tensor(b.nd, b.sh, rd, 0)
    if r.numel_ == 0:
        return r
    it.ndim = b.nd; it.nout = 1; it.nin = gi.nuses
    memcpy(it.shape, b.sh, b.nd * 8)
    iter_operand(&it, 0, r, b.nd, cd)
    for j in range(gi.nuses):
        iter_operand(&it, j + 1, <Tensor>values[j], b.nd, gradient_operand_dtype(n.op, gi, j, cd))
    run_iteration(gi.fn, n.attrs, &it)
    return r


cdef inline int gradient_operand_dtype(Op op, GradientInput gi, int j, int cd):
    """The compute dtype of a gradient kernel's operand: fixed ones keep theirs, results of real rules are real."""
    cdef int use = gi.uses[j]
    if use == USE_GRAD or use == USE_RESULT:
        return output_compute(op, cd)
    if op.fixed[use] != NO_DTYPE:
        return op.fixed[use]
    return cd


cdef list gradient_dtypes(Op op, GradientInput gi, int cd):
    """What a gradient's kernel writes and reads."""
    cdef int j
    return [<object>DTYPES[cd]] + [<object>DTYPES[gradient_operand_dtype(op, gi, j, cd)] for j in range(gi.nuses)]


cdef Tensor gradient_by_operators(Node n, GradientInput gi, Tensor g, int wrt):
    cdef list uses = []
    cdef list values = []
    cdef int j
    cdef Tensor t
    for j in range(gi.nuses):
        t = saved_value(n, gi.uses[j], g)
        if gi.uses[j] == USE_RESULT:
            t = saved_alias(t)
            t.fn_ = n; t.keys |= K_GRAD
        values.append(t)
    return tied(EVALUATE_GRADIENT[0](n.variant, (<dtype>DTYPES[n.compute]).code, wrt, values, runtime_values(n)), values)


cdef list runtime_values(Node n):
    cdef list r = []
    cdef int i
    for i in range(len(n.variant.runtime)):
        name = n.variant.runtime[i]
        if parameter_is_int(n.op, name, n.compute): r.append(n.attrs[i].i)
        else: r.append(n.attrs[i].f)
    return r


cdef inline bint parameter_is_int(Op op, object name, int cd):
    return KIND[cd] <= KIND_INT and not parameter_is_float(op, name)


cdef Tensor fit_gradient(Tensor g, object wanted):
    """Sum a gradient to the argument's shape, and cast it to the argument's dtype."""
    cdef Tensor r = g
    cdef int dt
    if wanted is None:
        return g
    shape, dt = wanted
    if shape_of_fake(r) != shape:
        r = sum_to_size(r, shape)
    if r.dt != dt:
        if KIND[r.dt] == KIND_COMPLEX and KIND[dt] < KIND_COMPLEX:
            r = REAL_PART[0](r)
        if r.dt != dt:
            r = r.to(<object>DTYPES[dt])
    return r

#: slot: the real part of a complex tensor
REAL_PART = [None]


def result_type(*operands):
    """The dtype that an operation of these tensors and numbers computes in."""
    cdef int dim_dt = NO_DTYPE, zero_dt = NO_DTYPE, wrapped_dt = NO_DTYPE, dt
    cdef Tensor t
    for x in operands:
        if isinstance(x, Tensor):
            t = x
            if t.keys & K_WRAPPED:
                dt = wrapped_dtype(t)
                wrapped_dt = promoted(wrapped_dt, dt)
            elif t.nd == 0: zero_dt = promoted(zero_dt, t.dt)
            else: dim_dt = promoted(dim_dt, t.dt)
        else:
            if x is True or x is False: dt = B8
            elif isinstance(x, int): dt = I64
            elif isinstance(x, complex): dt = COMPLEX_OF[DEFAULT_DTYPE]
            elif isinstance(x, float): dt = DEFAULT_DTYPE
            elif type(x) is DTYPE_TYPE:
                dt = (<dtype>x).index
                dim_dt = promoted(dim_dt, dt)
                continue
            else:
                raise said(TypeError, "[result_type] tensors or numbers were required: got " + type(x).__name__ + "\nhint: facula.as_tensor(value) makes a tensor")
            wrapped_dt = promoted(wrapped_dt, dt)
    return DTYPES[combine_categories(dim_dt, combine_categories(zero_dt, wrapped_dt))]
