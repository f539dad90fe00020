# `Tensor(2, 3)` and `Tensor([1, 2])`, and the storages that `set_` makes longer, as PyTorch's first years had them.
#
# Gives besides: objects of subclasses without memory, for those who fill them.
#
# Keeps true: a lone number, bool or text is refused: it is neither a size nor a list of elements.

cdef Tensor bare_tensor(cls):
    """A tensor of a subclass without memory, for the caller to fill; no method of the subclass runs."""
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise said(TypeError, "[Tensor] a subclass of Tensor was required: got %r" % (cls,) + "\nhint: class Name(facula.Tensor) is one")
    return fk_type_bare(<PyTypeObject *>Tensor, cls)


def are_sizes(args):
    """Whether arguments are whole numbers; a lone array or tensor, which may stand for one, is data, and a lone bool neither."""
    if len(args) == 1:
        a = args[0]
        return hasattr(a, "__index__") and not hasattr(a, "__len__") and not isinstance(a, bool)
    return all([hasattr(a, "__index__") for a in args])


def check_sequence(data):
    """Raise unless the older constructors take `data` for the elements: a lone number is no size and no list."""
    if isinstance(data, str):
        raise said(TypeError, "[Tensor] a sequence of numbers was required: new(): invalid data type 'str'\nhint: encode it as numbers first")
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise said(TypeError, "[Tensor] a sequence was required: new(): data must be a sequence (got %s)" % type(data).__name__ + "\nhint: facula.tensor(number) makes a tensor of one number")


cdef int grow_for(Tensor self, UntypedStorage source, offset, tuple size, tuple stride) except -1:
    """Make a storage long enough for another geometry than the tensor's own, as `set_` does and nothing that reads files."""
    cdef int64_t sh[MAX_DIMS]
    cdef int64_t sd[MAX_DIMS]
    cdef int64_t needed
    cdef int i, nd = <int>len(size)
    if source.dev == 1 or nd > MAX_DIMS or len(stride) != nd or (size == make_size(self.nd, self.sh) and stride == self.stride()):
        return 0
    for i in range(nd):
        if not 0 <= size[i] <= 0x7fffffff or not 0 <= stride[i] <= 0x7fffffff: return 0
        sh[i] = size[i]; sd[i] = stride[i]
    if not 0 <= offset <= 0x7fffffffffff: return 0
    needed = geometry_bytes(nd, sh, sd, offset, ITEMSIZE[self.dt])
    if needed > source.st.nbytes: source.resize_(needed)
    return 0


def legacy_constructor(Tensor self, tuple args, dict kwargs):
    """`Tensor(2, 3)`, `Tensor([..])`, `Tensor(other)`: the default dtype."""
    cdef Tensor t
    cdef Node n
    dtype = kwargs.get("dtype")
    device = kwargs.get("device")
    requires_grad = kwargs.pop("requires_grad", False)
    if len(args) == 1 and isinstance(args[0], Tensor):
        t = alias(args[0])
    elif len(args) == 1 and isinstance(args[0], UntypedStorage):
        t = args[0].as_tensor(DTYPES[DEFAULT_DTYPE])
    elif len(args) == 0:
        t = empty((0,), device=device)
    elif are_sizes(args):
        t = empty(args, device=device)
    elif len(args) == 1 and isinstance(args[0], Size):
        t = empty(args[0], device=device)
    elif len(args) == 1:
        check_sequence(args[0])
        t = tensor(args[0], dtype=DTYPES[DEFAULT_DTYPE] if dtype is None else dtype, device=device)
    else:
        raise said(TypeError, "[Tensor] sizes, data or a tensor were required: new() received an invalid combination of arguments - got (%s)" % ", ".join([type(a).__name__ for a in args]) + "\nhint: facula.tensor(data) makes a tensor of numbers or lists, facula.empty(sizes) one of a shape")
    t.st.refs += 1
    self.st = t.st
    refuse_keeping()
    self.data_ = t.data_
    self.dt = t.dt; set_rank(self, t.nd); self.dev = t.dev; self.numel_ = t.numel_
    memcpy(self.sh, t.sh, t.nd * 8)
    memcpy(self.sd, t.sd, t.nd * 8)
    self.keys |= t.keys & (K_STRIDED | K_META | K_FOREIGN)
    if len(args) == 1 and isinstance(args[0], Tensor) and (<Tensor>args[0]).keys & K_GRAD and not fk_tls_keys() & K_NOGRAD:
        n = new_node(None, clone_backward, 1, 1)
        n.label = "AliasBackward0"
        add_edge(n, 0, args[0])
        attach(self, n, 0)
    elif requires_grad:
        set_requires_grad(self, True)
