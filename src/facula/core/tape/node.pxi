# Nodes of the backward graph: what was computed, from whom, and what was kept for the gradient.
#
# Keeps true: `e0..e2` and `rest` are the edges in argument order, None where no gradient is wanted; an edge's number
# says which result of the target node it was; a node of a leaf (AccumulateGrad) has `var` and no edges.

ctypedef int (*backward_fn)(Node n, PyObject **grads, PyObject **out) except -1

cdef struct NodeState:
    uint32_t task
    int deps
    int needed                  # whether a captured node can be reached from here, where only some are wanted
    int captured
    PyObject *g0                # gradient of result 0, owned
    PyObject *more              # list with the gradients of the other results, owned

cdef uint32_t SEQUENCE = 0


@cython.freelist(1024)
@cython.no_gc_clear
@cython.trashcan(True)
cdef class Node:
    """A node of the backward graph."""
    cdef object __weakref__
    cdef backward_fn fn
    cdef Op op
    cdef Variant variant
    cdef Node e0, e1, e2
    cdef list rest               # [(node, number)] from the fourth edge on
    cdef int n0, n1, n2
    cdef Tensor s0, s1, s2, sr   # saved inputs and result (the result as an alias without history)
    cdef uint32_t v0, v1, v2, vr
    cdef object extra            # formula-specific
    cdef fk_scalar attrs[4]
    cdef int nin, nout, compute
    cdef bint freed, leaf_hooks
    cdef uint32_t seq
    cdef NodeState st
    cdef Tensor var              # AccumulateGrad: the leaf
    cdef object pre_hooks        # list of (number, dict of hooks) on single results
    cdef object node_pre_hooks   # dict of hooks on all results' gradients
    cdef object node_hooks       # dict of hooks(grad_inputs, grad_outputs)
    cdef object meta_            # user metadata, anomaly traces
    cdef object py               # the Python object of a custom Function
    cdef str label               # its name, where the operator alone does not say it
    cdef bint derived            # recorded by a run with `create_graph`: what goes through it are further derivatives
    cdef unsigned char aside     # bit i: operand i was a number, or missing, or whole numbers: it can have no gradient
    cdef unsigned char missing   # bit i: operand i was not given
    cdef unsigned char rank      # of a formula's node: the dimensions of its first tensor

    def __dealloc__(self):
        if self.var is not None and self.var.acc == <PyObject *>self:
            self.var.acc = NULL

    @property
    def next_functions(self):
        """The (node, number) pairs that this node passes gradients to."""
        return tuple([(e if e is None else shown_node(<Node>e), n) for e, n in shown_edges(self)])

    @property
    def metadata(self):
        """A dict for the user's own notes."""
        if self.meta_ is None:
            self.meta_ = {}
        return self.meta_

    def name(self):
        """The node's name, such as `MulBackward0`; of what no operator left, PyTorch's with its namespace."""
        cdef str name = node_name(self)
        return "torch::autograd::" + name if name in OWN_NODES else name

    @property
    def variable(self):
        """The leaf of an AccumulateGrad node."""
        if self.var is None:
            raise AttributeError("variable")
        return self.var

    def __repr__(self):
        return "<%s object at 0x%x>" % (node_name(self), <uintptr_t><PyObject *>self)

    def _sequence_nr(self):
        return self.seq

    def register_hook(self, hook):
        """Call `hook(grad_inputs, grad_outputs)` after the node ran; it may return other grad_inputs."""
        if self.node_hooks is None:
            self.node_hooks = {}
        return make_handle(self.node_hooks, hook)

    def register_prehook(self, hook):
        """Call `hook(grad_outputs)` before the node runs; it may return others."""
        if self.node_pre_hooks is None:
            self.node_pre_hooks = {}
        return make_handle(self.node_pre_hooks, hook)

    @property
    def saved_tensors(self):
        if self.py is not None:
            return self.py.saved_tensors
        return tuple([t for t in (self.s0, self.s1, self.s2, self.sr) if t is not None])

    def __dir__(self):
        return [*object.__dir__(self), *["_saved_" + name for name in saved_names(self)]]

    def __getattr__(self, name):
        if name.startswith("_saved_"):
            return saved_by_name(self, name[7:])
        if self.py is not None:
            return getattr(self.py, name)
        if name.startswith("_raw_saved_"):
            return raw_saved_by_name(self, name[11:])
        raise AttributeError("'%s' object has no attribute '%s'" % (node_name(self), name))


#: makes the handle of a registered hook; `facula.autograd` sets it
HANDLE_FACTORY = []


class RemovableHandle:
    """Removes a hook: call `remove()`, or use it as a context manager."""
    _next = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        import weakref
        self.hooks_dict_ref = weakref.ref(hooks_dict) if not type(hooks_dict) is dict else (lambda: hooks_dict)
        self.id = RemovableHandle._next
        RemovableHandle._next += 1
        self.extra_dict = extra_dict

    def remove(self):
        """Take the hook out; a second call does nothing."""
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.id, None)
        extras = self.extra_dict
        if extras is not None:
            for d in (extras if isinstance(extras, (list, tuple)) else (extras,)):
                d.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


cdef object make_handle(object hooks, object hook):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


cdef list edges_of(Node n):
    cdef list r = []
    if n.nin > 0: r.append((n.e0, n.n0))
    if n.nin > 1: r.append((n.e1, n.n1))
    if n.nin > 2: r.append((n.e2, n.n2))
    if n.rest is not None: r.extend(n.rest)
    return r


#: what the tape itself leaves, which PyTorch's `name()` gives with a namespace
OWN_NODES = frozenset({"AccumulateGrad", "CopySlices", "CopyBackwards", "UndefinedGrad"})
#: name of a node -> the class that Python sees it as
NODE_CLASSES = {}


cdef class NodeCall:
    """What a definition's `node` names a call by."""
    cdef readonly frozenset aside    # the operands that can have no gradient: numbers, say
    cdef readonly frozenset missing  # those that were not given
    cdef readonly int rank           # the dimensions of the first tensor
    cdef readonly dict saved         # what the formula keeps, by name


cdef str node_name(Node n):
    if n.label is not None:
        return n.label
    if n.var is not None:
        return "AccumulateGrad"
    if n.op is not None:
        return n.op.backward_name(n)
    if n.py is not None:
        return type(n.py).__name__
    return type(n).__name__ if type(n) is not Node else "Backward0"


cdef object shown_node(Node n):
    """The node as Python sees it: of a class with its name, as PyTorch's are.

    The class has Node's layout, so that the object may become one of it; the name does not change later.
    """
    cdef str name
    cdef PyObject *kind
    if type(n) is not Node or n.py is not None:
        return n
    name = node_name(n)
    made = NODE_CLASSES.get(name)
    if made is None:
        made = type(name, (Node,), {"__slots__": (), "__module__": "builtins", "__doc__": "A node of the backward graph."})
        if made.__basicsize__ != Node.__basicsize__:
            raise said(SystemError, "[%s] a class of a node's layout was required: its objects have another size" % name + "\nhint: this is an error of facula's; please report it with the versions of Python and Cython")
        NODE_CLASSES[name] = made
    kind = <PyObject *>made
    Py_INCREF(made)
    fk_set_type(<PyObject *>n, kind)
    return n


cdef bint has_own_class(Node n):
    """Whether a node is more than a plain one, which has a class with its name when Python has seen it."""
    return n.py is not None or (type(n) is not Node and NODE_CLASSES.get(type(n).__name__) is not type(n))


cdef list shown_edges(Node n):
    """The edges that PyTorch's node would have: none for what can have no gradient, in the order of its formula."""
    cdef list edges = edges_of(n)
    cdef int i
    if n.op is None:
        return edges
    order = n.op.edge_order(n)
    if order is not None:
        return [edges[i] for i in order if i < len(edges)]
    wraps = n.op.definition.wraps_numbers
    if n.aside & 1 and wraps == "both" and n.nin == 2:
        return [edges[1], edges[0]]  # `2 * x` is PyTorch's `x * 2`
    if n.aside and (not wraps or n.aside & 1):
        return [e for i, e in enumerate(edges) if i > 7 or e[0] is not None or not n.aside >> i & 1]
    return edges


def node_count():
    """How many nodes were made so far; nodes made later have larger numbers."""
    return SEQUENCE


def label_node(Tensor t, str name, uint32_t since):
    """Name the node that `t` came from, if it was made after `since`, as the whole of what a composite did."""
    if t.fn_ is not None and t.fn_.var is None and t.fn_.seq > since and type(t.fn_) is Node:
        t.fn_.label = name


cdef inline Node new_node(Op op, backward_fn fn, int nin, int nout):
    global SEQUENCE
    cdef Node n = Node.__new__(Node)
    n.op = op; n.fn = fn; n.nin = nin; n.nout = nout
    SEQUENCE += 1
    n.seq = SEQUENCE
    n.derived = fk_tls_keys() & K_STEPS != 0
    if ANOMALY[0]:
        anomaly_note(n)
    return n


cdef inline Node edge(Tensor t):
    """The node to which gradients of `t` go; its number is `t.out_nr`."""
    cdef Node n
    if not (t.keys & K_GRAD):
        return None
    if t.fn_ is not None:
        if t.base is not None and t.view_version != t.st.version:
            refresh_view(t)
        return t.fn_
    if t.acc != NULL:
        return <Node>t.acc
    n = Node.__new__(Node)
    n.var = t; n.nout = 1; n.seq = 0x7fffffff
    n.fn = NULL
    t.acc = <PyObject *>n
    return n


cdef inline void set_edge(Node n, int i, Node target, int number) noexcept:
    if i == 0: n.e0 = target; n.n0 = number
    elif i == 1: n.e1 = target; n.n1 = number
    elif i == 2: n.e2 = target; n.n2 = number
    else:
        if n.rest is None: n.rest = []
        n.rest.append((target, number))


cdef inline void add_edge(Node n, int i, Tensor t) except *:
    cdef Node e = edge(t)
    set_edge(n, i, e, t.out_nr if e is not None else 0)


cdef inline void attach(Tensor t, Node n, int number):
    """Make `t` result `number` of node `n`."""
    t.fn_ = n
    t.out_nr = number
    t.keys |= K_GRAD
    if t.base is not None:
        t.view_version = t.st.version


cdef object grad_fn_of(Tensor t):
    if t.fn_ is None or not (t.keys & K_GRAD) or t.fn_.var is not None:      # a leaf that hooks unpacked
        return None
    return shown_node(edge(t))


# ------------------------------------------------------------------ anomaly mode

#: [enabled, check for NaN]
ANOMALY = [False, True]


cdef void anomaly_note(Node n) except *:
    import traceback
    n.metadata["traceback_"] = traceback.format_stack()


# ------------------------------------------------------------------ saved tensors

@cython.freelist(1024)
cdef class SavedTensor:
    """A tensor kept for a formula: with its version, and packed when the user has set saved-tensor hooks."""
    cdef Tensor tensor
    cdef uint32_t version
    cdef bint is_result
    cdef int number
    cdef object packed, unpack
    cdef Node origin             # of a packed tensor: what its history goes on with

    cdef object get(self, Node n):
        cdef Tensor r
        if self.unpack is not None:
            unpacked = self.unpack(self.packed)
            if not isinstance(unpacked, Tensor):
                raise said(TypeError, "[saved_tensors_hooks] a tensor was required of the unpack hook (Output of saved tensor unpack_hook "
                                      "expected to be a Tensor): got %s\nhint: give back what the pack hook got" % type(unpacked).__name__)
            r = saved_alias(<Tensor>unpacked)
            if self.is_result:
                r.fn_ = n; r.out_nr = self.number; r.keys |= K_GRAD
            elif self.origin is not None:
                r.fn_ = self.origin      # of a leaf: its accumulating node
                r.out_nr = self.number
                r.keys |= K_GRAD
            return r
        if self.tensor is None:
            raise_freed(n)
        if self.tensor.st.version != self.version and not (self.tensor.keys & (K_INFERENCE | K_UNCOUNTED)):
            raise_modified(self.tensor, n, self.version)
        if self.is_result:
            r = saved_alias(self.tensor)
            if self.tensor.keys & K_GRAD: pass
            r.fn_ = n; r.out_nr = self.number; r.keys |= K_GRAD
            return r
        return self.tensor

    cdef void release(self):
        self.tensor = None
        self.packed = None
        self.unpack = None
        self.origin = None

#: the stack of (pack, unpack) hooks
SAVED_HOOKS = []


cdef inline int check_savable(Tensor t) except -1:
    """An inference tensor has no count of writes: backward could not trust it."""
    if t.keys & K_INFERENCE and not (fk_tls_keys() & K_INFERENCE):
        raise said(RuntimeError, "[save_for_backward] a normal tensor was required: got an inference tensor (Inference tensors cannot be "
                           "saved for backward.)\nhint: clone() it, or compute under no_grad() instead of inference_mode()")
    return 0


cdef Tensor saved_alias(Tensor t):
    """The same elements without history: of a class that handles dispatch, as it makes it, with the same count of writes."""
    cdef Tensor r
    cdef uint32_t tls = fk_tls_keys()
    if not (t.keys & (K_DISPATCH | K_SPARSE)):
        return alias(t)
    if t.keys & K_FAKE:
        return fake_alias(t)
    fk_tls_set(tls | K_NOGRAD)
    try:
        r = m_detach(t)
    finally:
        fk_tls_set(tls)
    if r.st != t.st and r.keys & t.keys & K_META:
        t.st.refs += 1
        fk_storage_decref(r.st)
        r.st = t.st
    return r


cdef object call_pack(object pack, Tensor t):
    """What the user's hook makes of a tensor; what it computes has no history, and it may not write to it."""
    cdef uint32_t tls = fk_tls_keys(), version = t.st.version
    fk_tls_set(tls | K_NOGRAD)
    try:
        packed = pack(t)
    finally:
        fk_tls_set(tls)
    if t.st.version != version:
        raise said(RuntimeError, "[saved_tensors_hooks] a pack hook that reads alone was required: A saved tensor pack hook is modifying "
                                 "its input in place. Tensors provided as input to pack hook can not be modified by in-place "
                                 "operations as this can lead to unexpected side-effects.\nhint: clone() the tensor in the hook first")
    return packed


cdef list in_order_of_names(list names):
    """The positions of names in alphabetical order, in which PyTorch keeps (and hooks pack) what formulas read."""
    return [i for _, i in sorted([(str(name), i) for i, name in enumerate(names)])]


cdef SavedTensor save(Tensor t, bint is_result, int number, Node n=None):
    cdef SavedTensor s = SavedTensor.__new__(SavedTensor)
    if not is_result: check_savable(t)
    if SAVED_HOOKS and fk_tls_hooks() and not (t.keys & K_WRAPPED):     # a number is no tensor of the user
        pack, unpack = SAVED_HOOKS[len(SAVED_HOOKS) - 1]
        if pack is None:
            raise said(RuntimeError, "[saved_tensors] no saved tensors were required (hooks are disabled): got one\nhint: " + str(unpack))
        if is_result:
            t = saved_alias(t)
            if n is not None:
                t.fn_ = n; t.out_nr = number; t.keys |= K_GRAD
        s.packed = call_pack(pack, t)
        s.unpack = unpack
        s.is_result = is_result
        s.number = number
        if not is_result and t.keys & K_GRAD:
            s.origin = edge(t)
            s.number = t.out_nr if t.fn_ is not None else 0
        return s
    s.tensor = saved_alias(t) if is_result else t
    s.is_result = is_result
    s.number = number
    s.version = t.st.version
    return s


cdef int raise_freed(Node n) except -1:
    raise said(RuntimeError, "[backward] saved tensors of %s were required: got freed ones (Trying to backward through the graph a "
                       "second time, or to access saved tensors after they have already been freed)\nhint: call "
                       "backward(retain_graph=True) the first time" % node_name(n))


cdef int raise_modified(Tensor t, Node n, uint32_t expected) except -1:
    raise said(RuntimeError, "[backward] an unmodified saved tensor was required by %s: got one of the variables needed for gradient "
                       "computation has been modified by an inplace operation: [%s %s] is at version %d; expected version %d "
                       "instead\nhint: replace the in-place operation by its functional form, or clone() before it; "
                       "autograd.set_detect_anomaly(True) names the forward line"
                       % (node_name(n), type_word(t), list(make_size(t.nd, t.sh)), t.st.version, expected))


cdef str type_word(Tensor t):
    return "%s.%sTensor" % (DTYPE_PREFIX[0], (<dtype>DTYPES[t.dt]).type_word)


cdef inline int check_version(Tensor t, uint32_t v, Node n) except -1:
    if t.st.version != v and not (t.keys & (K_INFERENCE | K_UNCOUNTED)):
        raise_modified(t, n, v)
    return 0
