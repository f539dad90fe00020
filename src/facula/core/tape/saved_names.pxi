# What a node kept, by name: `grad_fn._saved_x`, `grad_fn._raw_saved_x`, and hooks of one saved tensor.
#
# Takes: nodes, and names of arguments and results. Gives: the values, or what keeps them.
# Keeps true: a node of the compact kind becomes one of the wider kind, with the same gradient, before it gets hooks.

cdef list saved_names(Node n):
    """What `grad_fn._saved_...` can be asked for, as far as the names are those of arguments and results."""
    cdef FormulaState s
    cdef WideState wide
    cdef list names = []
    cdef int i
    if n.extra is not None and type(n.extra) is FormulaState:
        s = <FormulaState>n.extra
        names = [name for code, a, name in s.formula.wants if code in (F_ARG, F_RESULT, F_ONE_RESULT)]
        names += [a + "_sym_sizes" for a in s.sizes]
        names += [a for a in s.plain if a not in names]
    elif n.extra is not None and type(n.extra) is WideState:
        wide = <WideState>n.extra
        names = [<object>n.op.arguments[n.op.tensor_at[i]].name for i in range(n.op.ntensors) if wide.saved[i] is not None]
        if wide.result is not None: names.append("result")
    elif n.op is not None and n.op.kind == KIND_POINTWISE:
        kept = (n.s0, n.s1, n.s2)
        names = [<object>n.op.arguments[n.op.tensor_at[i]].name for i in range(min(n.op.ntensors, 3)) if kept[i] is not None]
        if n.sr is not None: names.append("result")
    elif n.fn == reduce_backward:
        names = list(saved_of_reduction(n))
    return names


cdef dict saved_of_reduction(Node n):
    """What the node of a sum or mean knows of its call."""
    known = {"self_sym_sizes": tuple(n.extra)}
    if n.attrs[0].i >= 0:
        known["dim"] = (n.attrs[0].i,)
        known["keepdim"] = n.attrs[1].i != 0
    return known


cdef object saved_of_formula(Node n, FormulaState s, str name):
    """A value that a formula's node kept; None where it has none of this name (`(value,)` else)."""
    cdef int i
    for i in range(len(s.formula.wants)):
        if s.formula.wants[i][2] == name:
            return (restore_value(s.values[i], n),)
    if name.endswith("_sym_sizes") and name[:-10] in s.sizes:
        return (s.sizes[name[:-10]],)
    if name in s.plain:
        return (s.plain[name],)
    return None


cdef Tensor saved_result_of(Node n):
    """The result that a pointwise node kept, with its history."""
    cdef Tensor r = saved_alias(saved_value(n, USE_RESULT, None))
    r.fn_ = n; r.out_nr = 0; r.keys |= K_GRAD
    return r


cdef object saved_by_name(Node n, str name):
    """`grad_fn._saved_x`: what a node kept under an argument's name."""
    cdef WideState wide
    cdef int i
    if n.extra is not None and type(n.extra) is FormulaState:
        found = saved_of_formula(n, <FormulaState>n.extra, name)
        if found is not None: return found[0]
    if n.extra is not None and type(n.extra) is WideState:
        wide = <WideState>n.extra
        if name == "result" and wide.result is not None:
            return (<SavedTensor>wide.result).get(n)
        for i in range(n.op.ntensors):
            if <object>n.op.arguments[n.op.tensor_at[i]].name == name and wide.saved[i] is not None:
                return (<SavedTensor>wide.saved[i]).get(n)
    elif n.op is not None and n.op.kind == KIND_POINTWISE:
        if n.freed and name in ["result", *[<object>n.op.arguments[n.op.tensor_at[i]].name for i in range(n.op.ntensors)]]:
            raise_freed(n)
        if name == "result" and n.sr is not None:
            return saved_result_of(n)
        for i in range(n.op.ntensors):
            if <object>n.op.arguments[n.op.tensor_at[i]].name == name and i < 3:
                return saved_value(n, i, None)
    elif n.fn == reduce_backward:
        known = saved_of_reduction(n)
        if name in known: return known[name]
    raise AttributeError("'%s' object has no attribute '_saved_%s'" % (node_name(n), name))


# ------------------------------------------------------------------ hooks of one saved tensor

cdef SavedTensor kept_for(Tensor t, uint32_t version, bint is_result):
    """A tensor of a compact node as the wider kind keeps it."""
    cdef SavedTensor s
    if t is None: return None
    s = SavedTensor.__new__(SavedTensor)
    s.tensor = t
    s.version = version
    s.is_result = is_result
    return s


cdef int widen(Node n) except -1:
    """Make a compact pointwise node one of the wider kind, whose saved tensors may have hooks."""
    cdef WideState s = WideState.__new__(WideState)
    s.values = runtime_values(n)
    s.saved = [kept_for(n.s0, n.v0, False), kept_for(n.s1, n.v1, False), kept_for(n.s2, n.v2, False)][:n.op.ntensors]
    s.fits = [None] * n.op.ntensors if n.extra is None else list(n.extra)
    s.result = kept_for(n.sr, n.vr, True)
    n.s0 = None; n.s1 = None; n.s2 = None; n.sr = None
    n.extra = s
    n.fn = wide_backward
    return 0


cdef object raw_saved_by_name(Node n, str name):
    """`grad_fn._raw_saved_x`: what keeps the tensor `x`; of a list of tensors one for each."""
    cdef FormulaState s
    cdef WideState wide
    cdef int i
    if n.fn == pointwise_backward and not n.freed:
        widen(n)
    if n.extra is not None and type(n.extra) is FormulaState:
        s = <FormulaState>n.extra
        for i in range(len(s.formula.wants)):
            code = s.formula.wants[i][0]
            if s.formula.wants[i][2] != name or code not in (F_ARG, F_RESULT, F_ONE_RESULT, F_RESULTS): continue
            kept = s.values[i] if i < len(s.values) else None
            if isinstance(kept, (tuple, list)):
                return tuple([RawSavedTensor(n, x) for x in kept])
            if kept is None or type(kept) is SavedTensor:
                return RawSavedTensor(n, kept)
    elif n.extra is not None and type(n.extra) is WideState:
        wide = <WideState>n.extra
        if name == "result" and wide.result is not None:
            return RawSavedTensor(n, wide.result)
        for i in range(n.op.ntensors):
            if <object>n.op.arguments[n.op.tensor_at[i]].name == name:
                return RawSavedTensor(n, wide.saved[i])
    raise AttributeError("'%s' object has no attribute '_raw_saved_%s'" % (node_name(n), name))


cdef int register_saved_hooks(SavedTensor s, Node n, object pack, object unpack) except -1:
    cdef Tensor t
    if not callable(pack) or not callable(unpack):
        raise said(TypeError, "[register_hooks] two functions were required (incompatible function arguments): got %s and %s"
                              "\nhint: register_hooks(pack, unpack)" % (type(pack).__name__, type(unpack).__name__))
    if s is None:
        raise said(RuntimeError, "[register_hooks] a saved tensor was required (Calling register_hooks on a saved tensor with value None "
                                 "is forbidden): got None\nhint: the formula reads nothing under this name")
    if s.unpack is not None:
        raise said(RuntimeError, "[register_hooks] a saved tensor without hooks was required (Calling register_hooks on a saved tensor "
                                 "whose hooks have already been set. Hint: only one pair of hooks is allowed at a time.): got a second "
                                 "pair\nhint: call both functions in one")
    if s.tensor is None:
        raise said(RuntimeError, "[register_hooks] a kept tensor was required (Calling register_hooks on a saved tensor after it has been "
                                 "freed): got a freed one\nhint: call backward(retain_graph=True) the first time")
    t = s.get(n)
    s.packed = call_pack(pack, t)
    s.unpack = unpack
    if not s.is_result and t.keys & K_GRAD:
        s.origin = edge(t)
        s.number = t.out_nr if t.fn_ is not None else 0
    s.tensor = None
    return 0


class RawSavedTensor:
    """What a node keeps under a name; hooks may be registered for it alone."""
    __slots__ = ("_node", "_kept")

    def __init__(self, node, kept):
        self._node = node
        self._kept = kept

    def register_hooks(self, pack_hook, unpack_hook):
        """Keep `pack_hook(tensor)` in its place; `unpack_hook` gives the tensor back when the gradient is computed."""
        register_saved_hooks(self._kept, self._node, pack_hook, unpack_hook)
