# Sparse tensors: shells without elements of their own, and the slots through which their calls leave the core.
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
    cdef int64_t sh[16]
    cdef int nd = parse_shape(shape, sh), i
    cdef int64_t step = 1
    cdef Tensor t = Tensor.__new__(cls)
    t.st = new_storage(0, 1)
    t.data_ = t.st.data
    t.dt = as_dtype(dtype).index
    t.dev = 1
    t.nd = nd
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
    t.dt = other.dt; t.nd = other.nd; t.numel_ = other.numel_
    memcpy(t.sh, other.sh, t.nd * 8)
    memcpy(t.sd, other.sd, t.nd * 8)


def take_history(Tensor t, Tensor source):
    """Let `t`, a tensor without views that was written to, have the history of `source`."""
    bump(t)
    t.fn_ = source.fn_
    t.out_nr = source.out_nr
    t.keys = (t.keys & ~<uint32_t>K_GRAD) | (source.keys & K_GRAD)
