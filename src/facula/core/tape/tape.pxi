# The tape as a value: what a backward run would do, and the tensors that it would read.
#
# Takes: the tensors that a run starts from. Gives: `tape_of`: a key that is equal for tapes which do the same to tensors of
# the same kind, the kept tensors in an order that follows from the tape, the leaves, and whether hooks listen.
# Keeps true: nothing runs and nothing is released; a kept tensor that was written to, or freed, raises as the run would.
# What is unknown here (a custom function's node) makes a key that is equal to no other.

#: slot: (arguments of `run_backward`) -> its result, or NotImplemented; asked before the engine runs
BACKWARD = [None]


cdef class TapeReader:
    """Collects nodes, keys and tensors."""
    cdef list keys, saved, leaves, pending
    cdef dict numbers
    cdef bint watched

    def __cinit__(self):
        self.keys = []; self.saved = []; self.leaves = []; self.pending = []
        self.numbers = {}
        self.watched = False

    cdef int number(self, Node n) except -2:
        if n is None:
            return -1
        key = <uintptr_t><PyObject *>n
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.numbers)
            self.pending.append(n)
        return found

    cdef object tensor(self, Tensor t):
        """The key of a kept tensor; the tensor itself goes to the list."""
        if t is None:
            return None
        self.saved.append(t)
        return (t.dt, t.dev, t.keys & (K_GRAD | K_SLOW | K_META), make_size(t.nd, t.sh), make_size(t.nd, t.sd))

    cdef object value(self, object v, Node n):
        """The key of something that a node keeps."""
        if v is None or isinstance(v, (int, float, str, bool, dtype, device, Op)):
            return (type(v), v)
        if type(v) is SavedTensor:
            if (<SavedTensor>v).unpack is not None:
                self.watched = True
            if (<SavedTensor>v).tensor is None:
                raise_freed(n)
            check_version((<SavedTensor>v).tensor, (<SavedTensor>v).version, n)
            return self.tensor((<SavedTensor>v).tensor)
        if isinstance(v, Tensor):
            return self.tensor(<Tensor>v)
        if isinstance(v, (tuple, list)):
            return (type(v), *[self.value(w, n) for w in v])
        if type(v) is TensorMeta:
            return (tuple(v.shape), v.dtype, v.device, tuple(v.strides), v.storage_offset, v.requires_grad)
        if type(v) is FormulaState:
            return ((<FormulaState>v).formula, self.value((<FormulaState>v).values, n), self.value((<FormulaState>v).lengths, n))
        if type(v) is WideState:
            return (self.value((<WideState>v).saved, n), self.value((<WideState>v).values, n),
                    self.value((<WideState>v).fits, n), self.value((<WideState>v).result, n))
        return object()

    cdef int node(self, Node n) except -1:
        cdef list edges
        cdef CompiledFunctionBackward own
        if n.pre_hooks or n.node_pre_hooks or n.node_hooks:
            self.watched = True
        if n.var is not None:
            if n.var.hooks: self.watched = True
            self.leaves.append(n.var)
            self.keys.append(("leaf", n.var.dt, n.var.dev, make_size(n.var.nd, n.var.sh)))
            return 0
        if n.freed:
            raise_freed(n)
        edges = [(self.number(<Node>target), number) for target, number in edges_of(n)]
        if type(n) is CompiledFunctionBackward:
            own = <CompiledFunctionBackward>n
            if own.kept is None: raise_freed(n)
            self.keys.append((own.program, tuple(edges), self.value(own.kept, n)))
            return 0
        if has_own_class(n):
            self.keys.append(object())
            return 0
        if n.s0 is not None: check_version(n.s0, n.v0, n)
        if n.s1 is not None: check_version(n.s1, n.v1, n)
        if n.s2 is not None: check_version(n.s2, n.v2, n)
        if n.sr is not None: check_version(n.sr, n.vr, n)
        self.keys.append((<uintptr_t><void *>n.fn, n.op, n.variant, n.nin, n.nout, n.compute, tuple(edges),
                          (<char *>n.attrs)[:sizeof(n.attrs)], self.tensor(n.s0), self.tensor(n.s1), self.tensor(n.s2),
                          self.tensor(n.sr), self.value(n.extra, n)))
        return 0


cdef TapeReader read_tape(tuple tensors):
    cdef TapeReader reader = TapeReader()
    cdef Tensor t
    cdef int at = 0
    roots = []
    for t in tensors:
        if not (t.keys & K_GRAD):
            raise said(RuntimeError, "[backward] a tensor with a gradient history was required: element %d of tensors does not require "
                               "grad and does not have a grad_fn\nhint: was it computed under no_grad, or detached?" % len(roots))
        roots.append((reader.number(edge(t)), t.out_nr))
    reader.keys.append(tuple(roots))
    while at < len(reader.pending):
        reader.node(<Node>reader.pending[at])
        at += 1
    return reader


def tape_of(tuple tensors):
    """(key, kept tensors, leaves, whether hooks listen) of the run that would start from `tensors`."""
    cdef TapeReader reader = read_tape(tensors)
    return tuple(reader.keys), reader.saved, reader.leaves, reader.watched


def release_tape(tuple tensors):
    """Drop what the nodes behind `tensors` keep, as a run without retain_graph does."""
    cdef TapeReader reader = read_tape(tensors)
    for n in reader.pending:
        if (<Node>n).var is None:
            release_saved(<Node>n)


def accumulate_into(Tensor leaf, Tensor gradient):
    """`leaf.grad += gradient`, and what listens to it."""
    accumulate_grad(leaf, gradient, False)
    if leaf.post_hooks is not None and leaf.post_hooks:
        for hook in list(leaf.post_hooks.values()):
            hook(leaf)
