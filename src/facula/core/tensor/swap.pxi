# Exchanging two tensors: each object keeps its identity and gets all that the other one was.
#
# Takes two tensors that no view and no weak reference points to. Keeps true: a graph that was recorded before and needs
# one of them raises in backward, since the object that it kept means something else now.

cdef str POISONED = ("[swap_tensors] a graph without swapped leaves was required: got one that was recorded before the swap "
                     "(Trying to execute AccumulateGrad node that was poisoned by swap_tensors)\n"
                     "hint: swap tensors, and change the dtype or device of modules, before forward or after backward")


def _refuse_poisoned(gradients):
    raise said(RuntimeError, POISONED)


cdef int poison(Tensor t) except -1:
    """Gradients of graphs that end in `t` have no place to go any more; graphs to come make a new end."""
    cdef Node n
    if t.acc != NULL:
        n = <Node>t.acc
        n.node_pre_hooks = {0: _refuse_poisoned}
        t.acc = NULL
    return 0


cdef int exchange_memory(Tensor a, Tensor b) noexcept:
    """Swap storage, geometry, dtype, device and flags."""
    cdef int64_t few[32]
    cdef bint of_a = a.sh != a.few, of_b = b.sh != b.few
    a.st, b.st = b.st, a.st
    a.data_, b.data_ = b.data_, a.data_
    a.keys, b.keys = b.keys, a.keys
    a.dt, b.dt = b.dt, a.dt
    a.nd, b.nd = b.nd, a.nd
    a.dev, b.dev = b.dev, a.dev
    a.numel_, b.numel_ = b.numel_, a.numel_
    a.view_version, b.view_version = b.view_version, a.view_version
    memcpy(few, a.few, sizeof(few)); memcpy(a.few, b.few, sizeof(few)); memcpy(b.few, few, sizeof(few))
    a.sh, b.sh = b.sh if of_b else a.few, a.sh if of_a else b.few
    a.sd = a.sh + (MAX_DIMS if of_b else FEW_DIMS)
    b.sd = b.sh + (MAX_DIMS if of_a else FEW_DIMS)
    return 0


cdef int exchange_history(Tensor a, Tensor b) except -1:
    """Swap what autograd knows of each: origin, gradient, hooks, and the root of a view."""
    cdef Tensor root_a = a.base, root_b = b.base
    if a.view_link != NULL: forget_view(a)
    if b.view_link != NULL: forget_view(b)
    a.base = None
    b.base = None
    if root_b is not None: set_base(a, root_b)
    if root_a is not None: set_base(b, root_a)
    a.fn_, b.fn_ = b.fn_, a.fn_
    a.out_nr, b.out_nr = b.out_nr, a.out_nr
    a.grad_, b.grad_ = b.grad_, a.grad_
    a.hooks, b.hooks = b.hooks, a.hooks
    a.post_hooks, b.post_hooks = b.post_hooks, a.post_hooks
    return 0


def swap_contents(Tensor a, Tensor b):
    """Exchange two tensors except for their classes and attributes, which the caller swaps too."""
    cdef uint32_t version
    cdef bint fresh_a, fresh_b
    if a is b:
        return
    if a.views != NULL or b.views != NULL:
        raise said(RuntimeError, "[swap_tensors] tensors that nothing else refers to were required: got one with views "
                                 "(Expected use_count of t1 and t2 to be 1)\nhint: delete the views first")
    refuse_keeping()
    poison(a)
    poison(b)
    fresh_a = a.view_version == a.st.version
    fresh_b = b.view_version == b.st.version
    # no version that a graph has noted of either object may be found in the other's memory
    version = max(a.st.version, b.st.version) + 1
    a.st.version = version
    b.st.version = version
    if fresh_a: a.view_version = version
    if fresh_b: b.view_version = version
    exchange_history(a, b)
    exchange_memory(a, b)
