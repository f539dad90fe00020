# Gradient formulas written in Python over operators, and the history of in-place writes and views.
#
# Keeps true: a formula's node saves exactly what the formula's signature names; edges are the tensor arguments in schema
# order, lists flattened; writing to a view rewrites the history of its base, and other views follow when next used.

cdef enum:
    F_GRAD, F_GRADS, F_ARG, F_META, F_SHAPE, F_RESULT, F_RESULTS, F_NEEDS, F_RESULT_META, F_ONE_RESULT


cdef class Formula:
    """A backward function with what it wants to be given."""
    cdef object function
    cdef list wants              # (code, argument index, name)
    cdef int nwants
    cdef int *codes              # of `wants`
    cdef int *places
    cdef object nondifferentiable  # results that have no gradient
    cdef list alone              # `FormulaState.lengths` of a call without lists of tensors
    cdef tuple tensor_args       # argument indices that hold tensors, in order
    cdef bint wants_results      # the function reads what the call gave
    cdef bint single             # none of them is a list, and gradients have no further ties
    cdef int ntensors
    cdef int tensor_at[MAX_ARGS] # of `tensor_args`
    cdef tuple plain_args        # those of the others
    cdef tuple plain_names
    cdef readonly bint multiple  # the function takes `grads`
    cdef dict kept_for           # argument index -> that of the argument whose gradient alone reads its elements
    cdef bint ties               # the gradients count as functions of the arguments though they do not read them

    def __dealloc__(self):
        free(self.codes); free(self.places)


def make_formula(Op op, function):
    """Read the signature of a backward function against the operator's schema."""
    cdef Formula f = Formula.__new__(Formula)
    cdef int i
    names = [<object>op.arguments[i].name for i in range(op.nargs)]
    f.function = function
    f.wants = []
    f.tensor_args = tuple([i for i in range(op.nargs) if op.arguments[i].type <= T_OPERAND])
    f.plain_args = tuple([i for i in range(op.nargs) if op.arguments[i].type > T_OPERAND])
    f.plain_names = tuple([names[i] for i in f.plain_args])
    special = {"grad": F_GRAD, "grads": F_GRADS, "result": F_RESULT, "results": F_RESULTS, "needs": F_NEEDS,
               "result_meta": F_RESULT_META}
    code_object = function.__code__
    for name in code_object.co_varnames[:code_object.co_argcount + code_object.co_kwonlyargcount]:
        if name in names:
            f.wants.append((F_ARG, names.index(name), name))
        elif name[:7] == "result_" and name[7:].isdigit():
            f.wants.append((F_ONE_RESULT, int(name[7:]), name))
        elif name in special:
            f.wants.append((special[name], -1, name))
        elif name.endswith("_meta") and name[:-5] in names:
            f.wants.append((F_META, names.index(name[:-5]), name))
        elif name.endswith("_shape") and name[:-6] in names:
            f.wants.append((F_SHAPE, names.index(name[:-6]), name))
        else:
            raise said(TypeError, "[%s] a backward parameter was required to be an argument, <tensor>_meta, <tensor>_shape, grad(s), "
                            "result(s), result_meta or needs: got '%s'" % (op.name, name) + "\nhint: rename the parameter of the backward formula")
    f.multiple = any(code == F_GRADS for code, _, _ in f.wants)
    f.ties = op.definition.ties
    f.kept_for = {names.index(a): names.index(b) for a, b in op.definition.kept_for.items()} or None
    f.nondifferentiable = op.definition.nondifferentiable
    f.alone = [-1] * len(f.tensor_args)
    f.ntensors = len(f.tensor_args)
    f.wants_results = any([code in (F_RESULT, F_RESULTS, F_ONE_RESULT, F_RESULT_META) for code, a, name in f.wants])
    for i in range(f.ntensors): f.tensor_at[i] = f.tensor_args[i]
    f.single = not f.ties and not any([op.arguments[a].is_list for a in f.tensor_args])
    f.nwants = len(f.wants)
    f.codes = <int *>malloc(max(f.nwants, 1) * sizeof(int))
    f.places = <int *>malloc(max(f.nwants, 1) * sizeof(int))
    if f.codes == NULL or f.places == NULL: raise MemoryError
    for i in range(f.nwants):
        f.codes[i], f.places[i] = f.wants[i][0], f.wants[i][1]
    return f


cdef Tensor tied(Tensor g, list values):
    """A gradient as a function of the values it was computed from.

    A second derivative that is zero everywhere (of relu, say) leaves a gradient without a history; PyTorch's has one, so
    that differentiating it again gives zeros and no error.
    """
    cdef list sources
    cdef Node c
    cdef Tensor r
    cdef int i
    if g.keys & K_GRAD or fk_tls_keys() & (K_NOGRAD | K_INTERPRETER) or KIND[g.dt] < KIND_FLOAT:
        return g
    sources = [t for t in values if isinstance(t, Tensor) and (<Tensor>t).keys & K_GRAD]
    if not sources:
        return g
    c = new_node(None, zeros_backward, len(sources), 1)
    for i in range(len(sources)):
        add_edge(c, i, <Tensor>sources[i])
    c.extra = [TensorMeta(t) for t in sources]
    r = saved_alias(g)
    attach(r, c, 0)
    return r


cdef int zeros_backward(Node n, PyObject **grads, PyObject **out) except -1:
    for i, meta in enumerate(n.extra):
        z = new_zeros(meta)
        Py_INCREF(z)
        out[i] = <PyObject *>z
    return 0


cdef Tensor new_zeros(object meta):
    cdef Tensor z = empty_strided(meta.shape, contiguous_strides(meta.shape), dtype=meta.dtype, device=meta.device)
    if dispatches_creation():
        return OP_ZEROS_LIKE(z)
    fill_zero(z)
    return z


cdef list contiguous_strides(object shape):
    cdef list strides = [1] * len(shape)
    cdef int i
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return strides


@cython.freelist(1024)
cdef class FormulaState:
    """What one call of a formula's operator kept."""
    cdef Formula formula
    cdef Node ties               # holds the edges of the arguments, for gradients that count as functions of them
    cdef list values
    cdef list lengths            # per tensor argument: -1 a tensor, else the length of a list
    cdef tuple arguments         # those that are no tensors, in the order of `plain_args`
    cdef bint freed

    @property
    def plain(self):
        """The arguments that are no tensors, by name."""
        return {} if self.formula is None else dict(zip(self.formula.plain_names, self.arguments))

    @property
    def sizes(self):
        """The shapes of the tensors that the formula reads no more of, by name."""
        if self.formula is None: return {}
        return dict([(name[:-5] if name[-5:] == "_meta" else name[:-6], tuple(v.shape) if code == F_META else tuple(v))
                     for (code, a, name), v in zip(self.formula.wants, self.values)
                     if code in (F_META, F_SHAPE) and v is not None and not (type(v) is tuple and code == F_META)])

    cdef void release(self):
        self.freed = True
        for v in self.values:
            if type(v) is SavedTensor:
                (<SavedTensor>v).release()
            elif type(v) is list:
                for w in v:
                    if type(w) is SavedTensor:
                        (<SavedTensor>w).release()


cdef object save_value(object v):
    if type(v) is list:  # of the caller: lists in a node hold what was saved of tensors
        v = tuple(v)
    if isinstance(v, Tensor):
        return save(<Tensor>v, False, 0)
    if type(v) is tuple and v:
        for t in v:
            if t is not None and not isinstance(t, Tensor):
                return v
        return [save(<Tensor>t, False, 0) if t is not None else None for t in v]
    return v


cdef bint asks_for_gradient(object v):
    return isinstance(v, Tensor) and (<Tensor>v).keys & K_GRAD != 0


cdef object meta_of(object v):
    if isinstance(v, Tensor): return meta_of_tensor(<Tensor>v)
    if isinstance(v, tuple): return tuple([TensorMeta(t) if t is not None else None for t in v])
    return v


cdef object shape_of(object v):
    if isinstance(v, Tensor): return shape_of_fake(<Tensor>v)
    if isinstance(v, tuple): return tuple([shape_of_fake(<Tensor>t) for t in v])
    return v


cdef inline object value_for_formula(Formula f, int number, tuple args):
    """What a formula reads of the arguments; results come later."""
    cdef int code = f.codes[number], a = f.places[number]
    if code == F_ARG:
        unread = f.kept_for is not None and a in f.kept_for and not asks_for_gradient(args[<int>f.kept_for[a]])
        return meta_of(args[a]) if unread else save_value(args[a])
    if code == F_META: return meta_of(args[a])
    if code == F_SHAPE: return shape_of(args[a])
    if code == F_NEEDS:
        if f.ntensors == 2 and f.single: return (asks_for_gradient(args[f.tensor_at[0]]), asks_for_gradient(args[f.tensor_at[1]]))
        return tuple([asks_for_gradient(t) for t in edges_in(f, args)])
    return None


cdef list edges_in(Formula f, tuple args):
    """The tensors that a call may give gradients to, lists flattened."""
    cdef list edges = []
    for a in f.tensor_args:
        v = args[a]
        if type(v) is tuple: edges.extend(v)
        else: edges.append(v if isinstance(v, Tensor) else None)
    return edges


cdef list lengths_in(Formula f, tuple args):
    """`FormulaState.lengths` of a call."""
    return [len(args[a]) if type(args[a]) is tuple else -1 for a in f.tensor_args]


cdef inline int formula_edge(Node n, int i, object v) except -1:
    """The edge of one tensor, or of a number or nothing in its place."""
    cdef Tensor t
    if not isinstance(v, Tensor):
        if i < 8: n.missing |= 1 << i
        if i >= 3: set_edge(n, i, None, 0)
        return 0
    t = <Tensor>v
    if i < 8 and KIND[t.dt] < KIND_FLOAT: n.aside |= 1 << i
    if n.rank == 0: n.rank = t.nd
    add_edge(n, i, t)
    return 0


cdef int tie_edges(FormulaState s, list edges) except -1:
    """The node that gradients hang on which count as functions of all arguments."""
    cdef int i
    needed = [t for t in edges if asks_for_gradient(t)]
    s.ties = new_node(None, zeros_backward, len(needed), 1)
    for i in range(len(needed)):
        add_edge(s.ties, i, <Tensor>needed[i])
    s.ties.extra = [TensorMeta(t) for t in needed]
    return 0


cdef Node formula_node(Op op, tuple args, object result, Formula formula=None):
    """The node of a call; results are saved by `formula_saved_result` or here when they exist."""
    cdef Formula f = <Formula>op.formula if formula is None else formula
    cdef FormulaState s = FormulaState.__new__(FormulaState)
    cdef Node n
    cdef int i
    cdef list edges
    s.formula = f
    s.lengths = f.alone
    s.arguments = f.plain_args if not f.plain_args else tuple([args[i] for i in f.plain_args])
    if f.single:
        n = new_node(op, formula_backward, f.ntensors, 1)
        for i in range(f.ntensors): formula_edge(n, i, args[f.tensor_at[i]])
    else:
        edges = edges_in(f, args)
        s.lengths = lengths_in(f, args)
        n = new_node(op, formula_backward, len(edges), 1)
        for i in range(len(edges)): formula_edge(n, i, edges[i])
        if f.ties: tie_edges(s, edges)
    s.values = [None] * f.nwants
    if fk_tls_hooks():
        for i in in_order_of_names([name for code, a, name in f.wants]):
            s.values[i] = value_for_formula(f, i, args)
    else:
        for i in range(f.nwants):
            s.values[i] = value_for_formula(f, i, args)
    n.extra = s
    return n


cdef SavedTensor save_result(Tensor t, int number, Node n):
    """A result, which comes back with the node as its history; one of whole numbers (positions, say) has none."""
    if t is None:
        return None
    if heard_by_others(): t.detach()     # PyTorch's modes hear of each result that is kept
    apart = (<FormulaState>n.extra).formula.nondifferentiable
    return save(t, KIND[t.dt] >= KIND_FLOAT, number, None if apart and number in apart else n)


cdef int formula_saved_result(Node n, object r) except -1:
    """Keep the results that the formula wants."""
    cdef FormulaState s = <FormulaState>n.extra
    cdef Formula f = s.formula
    cdef int i, code
    if not f.wants_results: return 0
    for i in range(f.nwants):
        code = f.codes[i]
        if code == F_RESULT:
            s.values[i] = save_result(r[0] if isinstance(r, tuple) else r, 0, n)
        elif code == F_ONE_RESULT:
            s.values[i] = save_result(r[f.places[i]], f.places[i], n)
        elif code == F_RESULTS:
            s.values[i] = [save_result(t, j, n) for j, t in enumerate(r)]
        elif code == F_RESULT_META:
            s.values[i] = meta_of(r)
    return 0


cdef int record_formula(Op op, tuple args, object r, Formula formula=None) except -1:
    """Make the results of a call part of the history."""
    cdef Node n
    cdef int i
    cdef Tensor t
    cdef bint any_float = False
    if isinstance(r, Tensor):
        t = r
        if KIND[t.dt] < KIND_FLOAT:
            return 0
        n = formula_node(op, args, r, formula)
        formula_saved_result(n, r)
        attach(t, n, 0)
        return 0
    for x in r:
        if x is not None and isinstance(x, Tensor) and KIND[(<Tensor>x).dt] >= KIND_FLOAT: any_float = True
    if not any_float:
        return 0
    n = formula_node(op, args, r, formula)
    n.nout = len(r)
    formula_saved_result(n, r)
    nondifferentiable = (<FormulaState>n.extra).formula.nondifferentiable
    for i in range(len(r)):
        t = r[i]
        if t is not None and KIND[t.dt] >= KIND_FLOAT and i not in nondifferentiable:
            if t.base is not None: mark_piece(t, args[0])
            attach(t, n, i)
    return 0


cdef inline int mark_piece(Tensor t, object source) except -1:
    """Note that a view of an argument is one of several which a call gave, or came from a custom function."""
    if isinstance(source, Tensor) and (<Tensor>source).st == t.st: t.keys |= K_PIECE
    return 0


cdef object restore_value(object v, Node n):
    if type(v) is SavedTensor:
        return (<SavedTensor>v).get(n)
    if type(v) is list:
        return tuple([(<SavedTensor>w).get(n) if w is not None else None for w in v])
    return v


cdef list formula_results(Node n, list gradients):
    """Call the formula; one gradient an edge."""
    cdef FormulaState s = <FormulaState>n.extra
    cdef list args = []
    cdef list results = []
    cdef int i, code
    for i in range(s.formula.nwants):
        code = s.formula.codes[i]
        if code == F_GRAD: args.append(gradients[0])
        elif code == F_GRADS: args.append(tuple(gradients))
        else:
            args.append(restore_value(s.values[i], n))
    r = s.formula.function(*args)
    if not isinstance(r, (tuple, list)) or (len(s.lengths) == 1 and s.lengths[0] >= 0 and (
            len(r) != 1 or isinstance(r[0], Tensor) or r[0] is None)):
        r = (r,)
    if len(r) != len(s.lengths):
        raise said(RuntimeError, "[%s] %d gradients were required from the backward formula: got %d" % (n.op.name, len(s.lengths), len(r)) + "\nhint: return one gradient, or None, for every tensor argument")
    for i in range(len(s.lengths)):
        if s.lengths[i] < 0:
            results.append(r[i])
        elif r[i] is None:
            results.extend([None] * s.lengths[i])
        else:
            results.extend(r[i])
    if not (fk_tls_keys() & (K_NOGRAD | K_INTERPRETER)):
        return [g if g is None or (<Tensor>g).keys & K_GRAD else tied_result(s, g, args) for g in results]
    return results


cdef Tensor tied_result(FormulaState s, Tensor g, list args):
    """A formula's gradient as a function of the tensors that it read, or of all arguments where the definition says so."""
    cdef Tensor r
    cdef list values = []
    for i, want in enumerate(s.formula.wants):
        if want[0] in (F_ARG, F_RESULT, F_RESULTS, F_ONE_RESULT):
            values.extend(args[i] if type(args[i]) is tuple else (args[i],))
    r = tied(g, values)
    if r is g and s.ties is not None and KIND[g.dt] >= KIND_FLOAT:
        r = saved_alias(g)
        attach(r, s.ties, 0)
    return r


cdef int formula_backward(Node n, PyObject **grads, PyObject **out) except -1:
    cdef list gradients = []
    cdef list results
    cdef int i
    for i in range(n.nout):
        gradients.append(<object>grads[i] if grads[i] != NULL else None)
    results = formula_results(n, gradients)
    for i in range(n.nin):
        g = results[i]
        if g is not None:
            Py_INCREF(g)
            out[i] = <PyObject *>g
    return 0


# ------------------------------------------------------------------ pointwise calls that the compact node cannot hold

cdef class WideState:
    """Saved values of a pointwise call with many operands, or under saved-tensor hooks."""
    cdef list saved, values, fits
    cdef object result

    cdef void release(self):
        cdef SavedTensor kept
        for kept in self.saved:
            if kept is not None: kept.release()
        kept = self.result
        if kept is not None: kept.release()


cdef enum:
    SAVES_RESULT = 1 << 30


cdef int saves_for(GradientPlan plan, list operands):
    """Of what the plan saves, what the gradients of the operands that ask for one need."""
    cdef int i, j, needed = 0
    cdef GradientInput g
    for i in range(len(operands)):
        if operands[i] is None or not ((<Tensor>operands[i]).keys & K_GRAD): continue
        g = <GradientInput>plan.inputs[i]
        for j in range(g.nuses):
            if g.uses[j] < USE_GRAD: needed |= 1 << g.uses[j]
            elif g.uses[j] == USE_RESULT: needed |= SAVES_RESULT
    return needed


cdef Node pointwise_formula_node(Op op, Variant v, int cd, list values, list operands, Tensor r, Tensor saved_result, GradientPlan plan):
    cdef Node n = new_node(op, wide_backward, op.ntensors, 1)
    cdef WideState s = WideState.__new__(WideState)
    cdef int i, saves = saves_for(plan, operands)
    cdef Tensor t
    cdef object order = range(op.ntensors)
    n.variant = v; n.compute = cd
    s.values = values
    s.saved = [None] * op.ntensors
    s.fits = [None] * op.ntensors
    for i in range(op.ntensors):
        if operands[i] is None:
            if i < 8: n.aside |= 1 << i
            if i >= 3: set_edge(n, i, None, 0)
            continue
        t = <Tensor>operands[i]
        if i < 8 and t.keys & K_WRAPPED: n.aside |= 1 << i
        add_edge(n, i, t)
        if t.dt != r.dt or not same_shape(t, r):
            s.fits[i] = (shape_of_fake(t), t.dt)
    if fk_tls_hooks():
        order = in_order_of_names([<object>op.arguments[op.tensor_at[i]].name for i in range(op.ntensors)])
    for i in order:
        if saves & (1 << i) and operands[i] is not None:
            s.saved[i] = save(<Tensor>operands[i], False, 0)
    if saves & SAVES_RESULT and saved_result is not None:
        s.result = save(saved_result, True, 0, n)
    n.extra = s
    return n


cdef int save_written(Node n, Variant v, int cd, list operands, Tensor r) except -1:
    """Keep the result of a call in place, now that it is there: hooks get what was written."""
    cdef GradientPlan plan = plan_of(v, cd)
    if isinstance(n.extra, WideState):
        if saves_for(plan, operands) & SAVES_RESULT:
            (<WideState>n.extra).result = save(r, True, 0, n)
    elif plan.saves_result:
        n.sr = saved_alias(r); n.vr = n.sr.st.version
    return 0


cdef object read_once(WideState s, int j, Node n, dict read):
    """A saved operand, or the result (USE_RESULT): hooks unpack each once in a run, whatever number of slopes read it."""
    if j not in read:
        read[j] = (<SavedTensor>(s.result if j == USE_RESULT else s.saved[j])).get(n)
    return read[j]


cdef int wide_backward(Node n, PyObject **grads, PyObject **out) except -1:
    cdef WideState s = <WideState>n.extra
    cdef GradientPlan plan = <GradientPlan>n.variant.plans[n.compute]
    cdef GradientInput gi
    cdef Tensor g = <Tensor>grads[0]
    cdef Tensor r
    cdef int i, j
    cdef dict read = {}
    edges = edges_of(n)
    for i in range(n.nin):
        if edges[i][0] is None: continue
        gi = <GradientInput>plan.inputs[i]
        if gi.kind == G_NONE:
            r = zero_gradient(g)
        elif gi.kind == G_IDENTITY:
            r = g
        else:
            values = []
            for j in range(gi.nuses):
                if gi.uses[j] == USE_GRAD: values.append(g)
                else: values.append(read_once(s, gi.uses[j], n, read))
            r = tied(EVALUATE_GRADIENT[0](n.variant, (<dtype>DTYPES[n.compute]).code, i, values, s.values), values)
        if s.fits[i] is not None:
            r = fit_gradient(r, s.fits[i])
        Py_INCREF(r)
        out[i] = <PyObject *>r
    return 0


# ------------------------------------------------------------------ in-place history

cdef int rebase(Tensor t, Node n) except -1:
    """Make node `n` the origin of the written tensor `t`; a view passes it on to its base."""
    cdef Tensor b = t.base
    if b is None:
        if t.hooks is not None and t.fn_ is None:
            t.hooks = None
        attach(t, n, 0)
        if t.hooks is not None and t.retains_grad: keep_gradient(t)
        if t.views != NULL:
            wake_views(t)
        return 0
    cdef Node c = new_node(None, copy_slices_backward, 0, 1)
    c.label = "CopySlices"
    cdef list inner = edges_of(n)
    cdef int i
    cdef bint first = not (b.keys & K_GRAD)
    c.extra = (n, view_place(t), len(inner))
    c.nin = 1 if not inner else len(inner)
    add_edge(c, 0, b)
    for i in range(1, len(inner)):
        set_edge(c, i, inner[i][0], inner[i][1])
    attach(b, c, 0)
    if b.hooks is not None and b.retains_grad: keep_gradient(b)
    t.keys |= K_GRAD
    t.fn_ = None
    t.out_nr = 0
    refresh_view(t)
    if t.hooks is not None and t.retains_grad: keep_gradient(t)
    if first:
        wake_views(b)
    return 0


cdef int wake_views(Tensor b) except -1:
    """Give the views of a tensor a history that it did not have when they were made."""
    cdef PyObject *at = b.views
    cdef Tensor v
    while at != NULL:
        if fk_refs(at) == 0:       # dead, and waiting to be deallocated
            at = (<Tensor>at).next_view
            continue
        v = <Tensor>at
        if v.base is b and not (v.keys & K_GRAD) and KIND[v.dt] >= KIND_FLOAT:
            refresh_view(v)
        at = v.next_view
    return 0


cdef tuple view_geometry(Tensor t):
    return (tuple([t.sh[i] for i in range(t.nd)]), tuple([t.sd[i] for i in range(t.nd)]), t.storage_offset())


#: slots: a tensor as pairs of real numbers, and back
REAL_AND_COMPLEX = [None, None]


cdef tuple view_place(Tensor t):
    """Where a view lies in its base: (meta of the base, geometry, offset of the base, and which of the two is complex).

    Where only one is complex both are described in real numbers, of which a complex one has two.
    """
    cdef Tensor b = t.base
    cdef bint pairs = (KIND[t.dt] == KIND_COMPLEX) != (KIND[b.dt] == KIND_COMPLEX)
    if not pairs:
        return TensorMeta(b), view_geometry(t), b.storage_offset(), ""
    if KIND[b.dt] == KIND_COMPLEX:
        return TensorMeta(in_pairs(b)), view_geometry(t), 2 * b.storage_offset(), "base"
    return TensorMeta(b), view_geometry(in_pairs(t)), b.storage_offset(), "view"


cdef Tensor in_pairs(Tensor z):
    """A complex tensor's memory as real numbers with a last dimension of 2, without history."""
    shape = [z.sh[i] for i in range(z.nd)] + [2]
    strides = [2 * z.sd[i] for i in range(z.nd)] + [1]
    return view_dtype(alias(z), <object>DTYPES[REAL_OF[z.dt]], shape, strides)


cdef int refresh_view(Tensor t) except -1:
    """Derive the history of a view from its base, after the base was written to."""
    cdef Node n
    if not (t.base.keys & K_GRAD):
        return 0
    n = new_node(None, as_strided_node_backward, 1, 1)
    n.label = "AsStridedBackward0"
    add_edge(n, 0, t.base)
    n.extra = view_place(t)
    t.fn_ = n
    t.out_nr = 0
    t.keys |= K_GRAD
    t.view_version = t.st.version
    return 0


cdef Tensor scatter_geometry(Tensor g, object base_meta, tuple geometry, int64_t base_offset):
    """Zeros of the base's geometry with `g` in the place of the view."""
    cdef Tensor z = empty_strided(base_meta.shape, base_meta.strides, dtype=<object>DTYPES[g.dt], device=<object>DEVICES[g.dev])
    cdef Tensor view
    if not dense(z):
        zeros_storage(z)
    else:
        fill_zero(z)
    view = raw_view(z, geometry[0], geometry[1], geometry[2] - base_offset)
    copy_into(view, g)
    return z


cdef bint shows_twice(tuple geometry):
    """Whether a view by sizes and strides may show an element more than once: gradients then add up."""
    cdef int64_t extent = 0
    for stride, size in sorted(zip(geometry[1], geometry[0])):
        if size > 1:
            if stride <= extent:
                return True
            extent += stride * (size - 1)
    return False


cdef int as_strided_node_backward(Node n, PyObject **grads, PyObject **out) except -1:
    meta, geometry, offset, complex_ = n.extra
    cdef Tensor g = <Tensor>grads[0]
    if complex_ == "view": g = REAL_AND_COMPLEX[0](g)
    if not (fk_tls_keys() & K_NOGRAD) or (fk_tls_keys() | g.keys) & K_DETOUR or shows_twice(geometry):
        r = AS_STRIDED_SCATTER[0](g, meta, geometry[0], geometry[1], geometry[2] - offset)
    else:
        r = scatter_geometry(g, meta, geometry, offset)
    if complex_ == "base": r = REAL_AND_COMPLEX[1](r)
    Py_INCREF(r)
    out[0] = <PyObject *>r
    return 0

#: slot: differentiable (gradient, base meta, shape, stride, offset) -> zeros with the gradient in place
AS_STRIDED_SCATTER = [None]


cdef int copy_slices_backward(Node c, PyObject **grads, PyObject **out) except -1:
    """Split the base's gradient: the written part goes through the writing node, the rest passes on."""
    cdef Tensor g = <Tensor>grads[0]
    cdef Tensor whole, part, slice_
    cdef Node n
    cdef int i, count
    inner, place, count = c.extra
    meta, geometry, offset, complex_ = place
    n = <Node>inner
    if complex_ == "base": g = REAL_AND_COMPLEX[0](g)
    cdef bint differentiable = not (fk_tls_keys() & K_NOGRAD) or (fk_tls_keys() | g.keys) & K_DETOUR
    if differentiable:
        part = AS_STRIDED_GATHER[0](g, meta, geometry[0], geometry[1], geometry[2] - offset)
    else:
        whole = empty_strided(meta.shape, meta.strides, dtype=<object>DTYPES[g.dt], device=<object>DEVICES[g.dev])
        copy_into(whole, g)
        slice_ = raw_view(whole, geometry[0], geometry[1], geometry[2] - offset)
        part = copy_like(slice_, slice_)
    if complex_ == "view": part = REAL_AND_COMPLEX[1](part)
    results = call_node(n, part)
    first = results[0] if results else None
    if complex_ == "view" and first is not None: first = REAL_AND_COMPLEX[0](first)
    if differentiable:
        w = AS_STRIDED_REPLACE[0](g, meta, geometry[0], geometry[1], geometry[2] - offset, first)
    else:
        if first is None:
            fill_zero(slice_)
        else:
            copy_into(slice_, <Tensor>first)
        w = whole
    if complex_ == "base": w = REAL_AND_COMPLEX[1](w)
    Py_INCREF(w)
    out[0] = <PyObject *>w
    for i in range(1, count):
        if results[i] is not None:
            r = results[i]
            Py_INCREF(r)
            out[i] = <PyObject *>r
    return 0

#: slots: differentiable reading and replacing of a strided part of a gradient
AS_STRIDED_GATHER = [None]
AS_STRIDED_REPLACE = [None]


cdef list call_node(Node n, Tensor g):
    """Run one node by itself; one gradient (or None) an edge."""
    cdef PyObject *gp = <PyObject *>g
    cdef PyObject *out[64]
    cdef int i, count = len(edges_of(n))
    if n.fn == NULL:
        r = n.apply(g)
        results = list(r) if isinstance(r, (tuple, list)) else [r]
        return results + [None] * (count - len(results))
    for i in range(count):
        out[i] = NULL
    n.fn(n, &gp, out)
    results = [None] * count
    for i in range(count):
        if out[i] != NULL:
            results[i] = <object>out[i]
            Py_DECREF(<object>out[i])
    return results


# ------------------------------------------------------------------ custom functions

def record_function(Node node, tuple inputs, tuple outputs, tuple dirty):
    """Make `node` (of a Python subclass with `apply`) the origin of `outputs`; None among them is not differentiable."""
    global SEQUENCE
    cdef int i
    cdef Tensor t
    node.nin = len(inputs)
    node.nout = len(outputs) if outputs else 1
    SEQUENCE += 1
    node.seq = SEQUENCE
    if ANOMALY[0]:
        anomaly_note(node)
    for i in range(len(inputs)):
        if inputs[i] is not None and (<Tensor?>inputs[i]).keys & K_GRAD:
            add_edge(node, i, <Tensor>inputs[i])
        elif i >= 3:
            set_edge(node, i, None, 0)
    for i in range(len(outputs)):
        if outputs[i] is None:
            continue
        t = <Tensor?>outputs[i]
        if dirty and dirty[i]:
            bump(t)
            if t.base is not None:
                rebase(t, node)
                continue
        elif t.base is not None:
            for x in inputs: mark_piece(t, x)
        attach(t, node, i)


def allow_writes(tuple pieces):
    """Views that came from one call, each of which may be written to all the same, as PyTorch has it for some operators."""
    for t in pieces:
        (<Tensor?>t).keys &= ~<uint32_t>K_PIECE
    return pieces


class SavedVariable:
    """A tensor that a custom function keeps: checks its version when it is read."""
    __slots__ = ("_saved",)

    def __init__(self, tensor, is_output=False, number=0):
        self._saved = save(<Tensor?>tensor, is_output, number) if tensor is not None else None

    def unpack(self, node=None):
        """The tensor, with its history."""
        if self._saved is None:
            return None
        return (<SavedTensor>self._saved).get(node)

    def release(self):
        """Drop the tensor."""
        if self._saved is not None:
            (<SavedTensor>self._saved).release()

    def register_hooks(self, pack_hook, unpack_hook):
        """Keep `pack_hook(tensor)` in its place; `unpack_hook` gives the tensor back when it is read."""
        register_saved_hooks(self._saved, None, pack_hook, unpack_hook)


cdef object node_call(Node n):
    """What the name of a node may depend on."""
    cdef NodeCall call
    cdef FormulaState s
    cdef int i
    saved = {}
    if type(n.extra) is FormulaState:
        s = <FormulaState>n.extra
        saved = {s.formula.wants[i][2]: s.values[i] for i in range(len(s.formula.wants))}
    elif n.fn == reduce_backward:
        saved = {"dim": (n.attrs[0].i,) if n.attrs[0].i >= 0 else None}
    tensors = [<object>n.op.arguments[i].name for i in range(n.op.nargs) if n.op.arguments[i].type <= T_OPERAND]
    call = NodeCall()
    call.aside = frozenset([name for i, name in enumerate(tensors) if i < 8 and n.aside >> i & 1])
    call.missing = frozenset([name for i, name in enumerate(tensors) if i < 8 and n.missing >> i & 1])
    call.rank = n.rank
    call.saved = saved
    return call
