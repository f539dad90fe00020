# Tensors without elements of their own: shells of sparse tensors, and the slots through which their calls leave the core;
# wrappers of function transforms.
#
# Takes: a subclass marked `_is_sparse_tensor`, which keeps the parts. Gives: tensors with a shape, a dtype and a history.
# Keeps true: a shell stands on the meta device, so that code that does not know of sparse tensors reads no memory; every call
# that has one among its arguments goes to `SPARSE` after overrides, modes and transforms, and above the tape.

#: slots: (op, function, args, kwargs) -> the result of an operator that has a sparse argument, NotImplemented where the
#: operator takes it as it is; (function, args, kwargs) -> the same of a method; (args, kwargs) -> whether an argument's class
#: comes before modes and transforms, which then see the operators on its parts only; filled by `facula.ops`
SPARSE = [None, None, None]


def make_shell(cls, shape, dtype):
    """A tensor of class `cls` with a shape and a dtype, but without elements: what it is made of is the class's business."""
    cdef int64_t sh[MAX_DIMS]
    cdef int nd = parse_shape(shape, sh), i
    cdef int64_t step = 1
    cdef Tensor t = bare_tensor(cls)
    t.st = new_storage(0, 1)
    t.data_ = t.st.data
    t.dt = as_dtype(dtype).index
    t.dev = 1
    set_rank(t, nd)
    t.numel_ = shape_numel(nd, sh)
    t.keys |= K_META
    for i in range(nd - 1, -1, -1):
        t.sh[i] = sh[i]; t.sd[i] = step
        if sh[i] > 1: step *= sh[i]
    return t


def reshape_shell(Tensor t, shape, dtype):
    """Give a shell another shape and dtype."""
    if not t.keys & K_META:
        raise said(TypeError, "[reshape_shell] a tensor without elements was required: got one with %d bytes" % t.st.nbytes + "\nhint: resize_() gives a tensor another shape")
    cdef Tensor other = make_shell(type(t), shape, dtype)
    t.dt = other.dt; set_rank(t, other.nd); t.numel_ = other.numel_
    memcpy(t.sh, other.sh, t.nd * 8)
    memcpy(t.sd, other.sd, t.nd * 8)


def make_wrapper(cls, Tensor value, int batch_dim):
    """A tensor of class `cls` that shows `value` without one dimension: geometry and dtype, but no elements."""
    cdef int i, j = 0
    cdef int64_t n = 1
    if batch_dim < 0 or batch_dim >= value.nd:
        raise said(IndexError, "[vmap] a dimension in [0, %d) was required: got %d" % (value.nd, batch_dim) + "\nhint: the wrapped tensor has the batch dimension too")
    cdef Tensor t = bare_tensor(cls)
    t.st = new_storage(0, 1)
    t.data_ = t.st.data
    t.dt = value.dt; t.dev = 1
    set_rank(t, value.nd - 1)
    for i in range(value.nd):
        if i != batch_dim:
            t.sh[j] = value.sh[i]; t.sd[j] = value.sd[i]
            n *= value.sh[i]
            j += 1
    t.numel_ = n
    compute_keys(t)
    t.keys |= K_META | (value.keys & K_GRAD)
    return t


def is_wrapper(t):
    """Whether a tensor is a function transform's wrapper."""
    return isinstance(t, Tensor) and ((<Tensor>t).keys & K_TRANSFORM) != 0


def take_history(Tensor t, Tensor source):
    """Let `t`, a tensor without views that was written to, have the history of `source`."""
    bump(t)
    t.fn_ = source.fn_
    t.out_nr = source.out_nr
    t.keys = (t.keys & ~<uint32_t>K_GRAD) | (source.keys & K_GRAD)
