# The Tensor: its fields, how one is made, and the properties that need no operator.
#
# Keeps true: shape and strides stand inline; `keys` always says whether the strides are contiguous (K_STRIDED), whether
# gradients are wanted (K_GRAD) and where the data are (K_META, K_FOREIGN); `base` is the root of a view, never a view.

cdef object raise_memory(int64_t nbytes):
    stats = memory_stats()
    raise said(OutOfMemoryError,
        "[allocator] %s of memory was required: got none\nhint: %s are in use and %s were cached and given back first; "
        "use smaller batches, free references, or raise facula.core.set_memory_limit()"
        % (_bytes_text(nbytes), _bytes_text(stats["allocated"]), _bytes_text(stats["cached"])))


class OutOfMemoryError(RuntimeError):
    """Memory could not be had; says how much was asked, held and cached.

    Example:
        >>> issubclass(facula.OutOfMemoryError, RuntimeError)
        True
    """


def _bytes_text(n):
    n = float(n)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024 or unit == "TiB":
            return ("%d %s" if unit == "B" else "%.2f %s") % (n, unit)
        n /= 1024


cdef inline void forget_view(Tensor v) noexcept:
    """Take a view off its root's list."""
    v.view_link[0] = v.next_view
    if v.next_view != NULL:
        (<Tensor>v.next_view).view_link = v.view_link
    v.view_link = NULL
    v.next_view = NULL


cdef inline void set_base(Tensor v, Tensor root) noexcept:
    """Make `v` a view of `root`, so that it hears of a history that the root gets later."""
    v.base = root
    v.next_view = root.views
    if v.next_view != NULL:
        (<Tensor>v.next_view).view_link = &v.next_view
    root.views = <PyObject *>v
    v.view_link = &root.views


cdef int check_steps(int nd, const int64_t *sh) except -1:
    """Raise where the strides of a shape without elements are beyond int64."""
    cdef int64_t s = 1
    cdef int i
    for i in range(nd - 1, 0, -1):
        if sh[i] > 1 and s > <int64_t>0x7fffffffffffffff // sh[i]:
            raise said(RuntimeError, "[empty] strides within int64 were required: got the shape %s (Stride calculation overflowed)"
                               % [sh[j] for j in range(nd)] + "\nhint: the product of the sizes but 0 must stay below 2**63")
        if sh[i] > 1: s *= sh[i]
    return 0


cdef inline int64_t shape_numel(int nd, const int64_t *sh) except -2:
    cdef int64_t n = 1
    cdef int i
    cdef bint zero = False, overflow = False
    for i in range(nd):
        if sh[i] == 0:
            zero = True
        elif sh[i] < 0:
            raise said(RuntimeError, "[empty] non-negative sizes were required: got a negative dimension %d in the shape %s"
                               % (sh[i], [sh[j] for j in range(nd)]) + "\nhint: sizes are counts: 0 or more")
        elif n > <int64_t>0x7ffffffffffffff // sh[i]:
            overflow = True
        else:
            n *= sh[i]
    if zero:
        if overflow: check_steps(nd, sh)
        return 0
    if overflow:
        raise said(RuntimeError, "[empty] a number of elements that fits memory was required: got the shape %s (Storage size "
                           "calculation overflowed)" % [sh[j] for j in range(nd)] + "\nhint: the product of the sizes must stay below 2**63 bytes")
    return n


@cython.freelist(1024)
cdef class Tensor:
    """An array of any number of dimensions, of one dtype, on one device, with an optional gradient
    history.

    Made by `tensor`, `zeros`, `from_numpy` and their like. Views share memory. ``backward()``
    differentiates what was recorded of tensors that require gradients.

    Example:
        >>> x = facula.ones(2, 3, requires_grad=True)
        >>> x.shape, x.dtype, x.device.type
        (facula.Size([2, 3]), facula.float32, 'cpu')
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([[2., 2., 2.],
                [2., 2., 2.]])
    """
    cdef object __weakref__
    cdef PyObject *dict_
    cdef fk_storage *st
    cdef char *data_
    cdef uint32_t keys
    cdef unsigned char dt, nd
    cdef unsigned short dev
    cdef int32_t out_nr
    cdef uint32_t view_version
    cdef int64_t numel_
    cdef PyObject *acc                 # borrowed: the AccumulateGrad node of a leaf
    cdef Node fn_
    cdef Tensor grad_
    cdef Tensor base
    cdef PyObject *views               # borrowed: the first view of this root; more by `next_view`
    cdef PyObject *next_view
    cdef PyObject **view_link          # the pointer that points to this view, or NULL
    cdef object hooks                  # gradient hooks by id, or None
    cdef object post_hooks             # post-accumulate hooks by id, or None
    cdef int64_t *sh                   # sizes and strides: in `few`, or in a block of their own for more than FEW_DIMS
    cdef int64_t *sd
    cdef int64_t few[32]

    def __cinit__(self, *args, **kwargs):
        self.sh = self.few
        self.sd = self.few + FEW_DIMS
        if <PyObject *>Py_TYPE(self) != <PyObject *>Tensor:
            self.keys = subclass_keys(type(self))

    def __init__(self, *args, **kwargs):
        if self.st == NULL:
            legacy_constructor(self, args, kwargs)

    def __dealloc__(self):
        cdef PyObject *v
        if self.view_link != NULL:
            forget_view(self)
        # only where a collected cycle took the root before its views; none may be counted up here: it can be dead
        # itself, waiting until Python has finished the deallocations around it
        while self.views != NULL:
            v = self.views
            self.views = (<Tensor>v).next_view
            (<Tensor>v).view_link = NULL
            (<Tensor>v).next_view = NULL
        if self.st != NULL:
            fk_storage_decref(self.st)
        if self.dict_ != NULL:
            Py_DECREF(<object>self.dict_)
        if self.sh != self.few:
            free(self.sh)
            self.dict_ = NULL

    # ---- metadata
    @property
    def shape(self):
        """The sizes, as `Size`."""
        return make_size(self.nd, self.sh)

    def size(self, dim=None):
        """The shape, or the size of one dimension."""
        cdef int64_t d
        if dim is None:
            return make_size(self.nd, self.sh)
        d = wrap_dim(dim, self.nd, "size")
        if self.nd == 0: raise_no_dimensions("size", dim)
        return self.sh[d]

    def stride(self, dim=None):
        """The strides in elements, or that of one dimension."""
        if dim is None:
            return fk_int_tuple(NULL, self.nd, self.sd)
        cdef int64_t d = wrap_dim(dim, self.nd, "stride")
        if self.nd == 0: raise_no_dimensions("stride", dim)
        return self.sd[d]

    def storage_offset(self):
        """The position of the first element in the storage, in elements."""
        refuse_for_calls()
        return offset_of(self)

    def dim(self):
        """The number of dimensions."""
        return self.nd

    def ndimension(self):
        """The number of dimensions."""
        return self.nd

    @property
    def ndim(self):
        """The number of dimensions."""
        return self.nd

    def numel(self):
        """The number of elements."""
        return self.numel_

    def nelement(self):
        """The number of elements."""
        return self.numel_

    def element_size(self):
        """Bytes per element."""
        return ITEMSIZE[self.dt]

    @property
    def itemsize(self):
        """Bytes per element."""
        return ITEMSIZE[self.dt]

    @property
    def nbytes(self):
        """Bytes of all elements."""
        return self.numel_ * ITEMSIZE[self.dt]

    @property
    def dtype(self):
        """The type of the elements."""
        return <object>DTYPES[self.dt]

    @property
    def device(self):
        """Where the elements are."""
        return <object>DEVICES[self.dev]

    @property
    def layout(self):
        """Always `strided` here."""
        return strided

    @property
    def names(self):
        """Dimension names, which facula does not have: all None."""
        return (None,) * self.nd

    def has_names(self):
        """Always False."""
        return False

    def data_ptr(self):
        """The address of the first element; 0 for an empty tensor, and on devices whose memory has no addresses. From then on
        what is written through it may go unseen."""
        if self.keys & K_META or self.numel_ == 0:
            return 0
        if self.keys & K_FOREIGN: return foreign_address(self.st, <int64_t>self.data_)
        refuse_keeping()
        own_bytes(self)
        self.st.flags |= FK_POINTED
        return <uintptr_t>self.data_

    @property
    def is_cuda(self):
        return (<device>DEVICES[self.dev]).type == "cuda"

    @property
    def is_cpu(self):
        return self.dev == 0

    @property
    def is_meta(self):
        return self.dev == 1

    @property
    def is_mps(self):
        return (<device>DEVICES[self.dev]).type == "mps"

    is_xpu = is_xla = is_hpu = is_ipu = is_vulkan = is_mtia = is_maia = property(lambda self: False)
    is_sparse = is_sparse_csr = is_quantized = is_mkldnn = is_nested = property(lambda self: False)

    def get_device(self):
        """The device index, -1 for devices without one, such as the CPU."""
        index = (<device>DEVICES[self.dev]).index
        return -1 if self.dev <= 1 else (index or 0)

    def is_contiguous(self, *, memory_format=contiguous_format):
        """Whether the elements lie in memory in the order of the dimensions (or of `memory_format`)."""
        if memory_format is contiguous_format or memory_format is None:
            return not (self.keys & K_STRIDED)
        if memory_format is channels_last:
            return self.nd == 4 and channels_last_strides(self)
        if memory_format is channels_last_3d:
            return self.nd == 5 and channels_last_strides(self)
        raise said(RuntimeError, "[is_contiguous] a memory format other than preserve_format was required: got " + repr(memory_format) + "\nhint: pass facula.contiguous_format or facula.channels_last")

    def is_floating_point(self):
        return KIND[self.dt] == KIND_FLOAT

    def is_complex(self):
        return KIND[self.dt] == KIND_COMPLEX

    def is_signed(self):
        return (<dtype>DTYPES[self.dt]).is_signed

    def is_conj(self):
        return False

    def is_neg(self):
        return False

    def _fix_weakref(self):
        """Nothing to do: a weak reference to a tensor holds as long as the object."""

    def is_inference(self):
        return (self.keys & K_INFERENCE) != 0

    def is_pinned(self, device=None):
        return False

    def is_shared(self):
        return self.st != NULL and (self.st.flags & FK_SHARED) != 0

    def __len__(self):
        if fk_tls_keys() & K_FUNCTION_MODE:
            r = torch_function(Tensor.__len__, (self,), {}, K_FUNCTION_MODE)
            if r is not NotImplemented: return r
        if self.nd == 0:
            raise said(TypeError, "[len] a tensor with dimensions was required: got a 0-d tensor\nhint: use .item() or .numel()")
        return self.sh[0]

    def __hash__(self):
        return <uintptr_t><PyObject *>self >> 4

    def __bool__(self):
        if fk_tls_keys() & K_FUNCTION_MODE:
            r = torch_function(Tensor.__bool__, (self,), {}, K_FUNCTION_MODE)
            if r is not NotImplemented: return bool(r)
        if self.numel_ != 1:
            if self.numel_ == 0:
                raise said(RuntimeError, "[bool] one element was required: got an empty tensor (Boolean value of Tensor with "
                                   "no values is ambiguous)\nhint: use x.numel() > 0 to ask whether it has elements")
            raise said(RuntimeError, "[bool] one element was required: got the shape %s (Boolean value of Tensor with more than "
                               "one value is ambiguous)\nhint: use .any() or .all()" % (list(self.shape),))
        return bool(self.item())

    def __int__(self):
        return int(scalar_of(self, "int"))

    def __float__(self):
        return float(scalar_of(self, "float"))

    def __complex__(self):
        return complex(scalar_of(self, "complex"))

    def __index__(self):
        if KIND[self.dt] > KIND_INT or self.numel_ != 1:
            raise said(TypeError, "[index] only integer tensors of a single element can be converted to an index: got "
                            + DTYPES[self.dt].name + str(list(self.shape)) + "\nhint: take one element with .item(), or convert with .long()")
        return int(scalar_of(self, "index"))

    def __contains__(self, element):
        if fk_tls_keys() & K_FUNCTION_MODE:
            r = torch_function(Tensor.__contains__, (self, element), {}, K_FUNCTION_MODE)
            if r is not NotImplemented: return bool(r)
        if isinstance(element, (Tensor, int, float, complex, bool)):
            return bool((self == element).any())
        raise said(RuntimeError, "[contains] a number or a tensor was required: Tensor.__contains__ only supports Tensor or scalar, but you passed in a %s." % type(element) + "\nhint: compare elements with (x == value).any()")

    def __iter__(self):
        if self.nd == 0:
            raise said(TypeError, "[iter] a tensor with dimensions was required: got a 0-d tensor (iteration over a 0-d tensor)\nhint: x.item() gives the number")
        return iter(self.unbind(0))

    def __dir__(self):
        return sorted(set(object.__dir__(self)))


    # ---- the operators of Python
    def __add__(self, other): return binary(OP_ADD, self, other)
    def __radd__(self, other): return binary(OP_ADD, other, self)
    def __sub__(self, other): return binary(OP_SUB, self, other)
    def __rsub__(self, other): return binary(OP_SUB, other, self)
    def __mul__(self, other): return binary(OP_MUL, self, other)
    def __rmul__(self, other): return binary(OP_MUL, other, self)
    def __truediv__(self, other): return binary(OP_DIV, self, other)
    def __rtruediv__(self, other): return binary(OP_DIV, array_operand(other), self)
    def __floordiv__(self, other): return binary(OP_FLOOR_DIVIDE, self, other)
    def __rfloordiv__(self, other): return binary(OP_FLOOR_DIVIDE, other, self)
    def __mod__(self, other): return binary(OP_REMAINDER, self, other)
    def __rmod__(self, other): return binary(OP_REMAINDER, other, self)
    def __divmod__(self, other): return binary(OP_FLOOR_DIVIDE, self, other), binary(OP_REMAINDER, self, other)
    def __pow__(self, other, modulo):
        if PyLong_CheckExact(other) and other == 2 and OP_SQUARE is not None and not (
                (self.keys | fk_tls_keys()) & (K_OVERRIDE | K_FUNCTION_MODE)): return OP_SQUARE(self)
        return binary(OP_POW, self, other)
    def __rpow__(self, other, modulo): return binary(OP_POW, other, self)
    def __and__(self, other): return binary(OP_AND, self, other)
    def __rand__(self, other): return binary(OP_AND, other, self)
    def __or__(self, other): return binary(OP_OR, self, other)
    def __ror__(self, other): return binary(OP_OR, other, self)
    def __xor__(self, other): return binary(OP_XOR, self, other)
    def __rxor__(self, other): return binary(OP_XOR, other, self)
    def __lshift__(self, other): return binary(OP_LSHIFT, self, other)
    def __rlshift__(self, other): return binary(OP_LSHIFT, other, self)
    def __rshift__(self, other): return binary(OP_RSHIFT, self, other)
    def __rrshift__(self, other): return binary(OP_RSHIFT, other, self)
    def __iadd__(self, other): return inplace_binary(OP_ADD, self, other)
    def __isub__(self, other): return inplace_binary(OP_SUB, self, other)
    def __imul__(self, other): return inplace_binary(OP_MUL, self, other)
    def __itruediv__(self, other): return inplace_binary(OP_DIV, self, other)
    def __ifloordiv__(self, other): return inplace_binary(OP_FLOOR_DIVIDE, self, other)
    def __imod__(self, other): return inplace_binary(OP_REMAINDER, self, other)
    def __ipow__(self, other): return inplace_binary(OP_POW, self, other)
    def __iand__(self, other): return inplace_binary(OP_AND, self, other)
    def __ior__(self, other): return inplace_binary(OP_OR, self, other)
    def __ixor__(self, other): return inplace_binary(OP_XOR, self, other)
    def __ilshift__(self, other): return inplace_binary(OP_LSHIFT, self, other)
    def __irshift__(self, other): return inplace_binary(OP_RSHIFT, self, other)
    def __eq__(self, other): return binary(OP_EQ, self, array_operand(other))
    def __ne__(self, other): return binary(OP_NE, self, array_operand(other))
    def __lt__(self, other): return binary(OP_LT, self, other)
    def __le__(self, other): return binary(OP_LE, self, other)
    def __gt__(self, other): return binary(OP_GT, self, other)
    def __ge__(self, other): return binary(OP_GE, self, other)
    def __neg__(self): return METHOD_NEG(self)
    def __pos__(self):
        return METHOD_POSITIVE(self) if (self.keys | fk_tls_keys()) & (K_OVERRIDE | K_FUNCTION_MODE) else self
    def __abs__(self): return METHOD_ABS(self)
    def __invert__(self):
        if (self.keys | fk_tls_keys()) & (K_OVERRIDE | K_FUNCTION_MODE):
            r = torch_function(Tensor.__invert__, (self,), {}, self.keys | fk_tls_keys())
            if r is not NotImplemented: return r
        return METHOD_NOT(self)
    def __matmul__(self, other): return METHOD_MATMUL(self, other) if isinstance(other, Tensor) or hasattr(type(other), "__torch_function__") else NotImplemented
    def __rmatmul__(self, other): return METHOD_MATMUL(other, self) if isinstance(other, Tensor) else NotImplemented
    def __getitem__(self, index): return get_item(self, index)
    def __setitem__(self, index, value): set_item(self, index, value)
    def __delitem__(self, index):
        raise said(TypeError, "[Tensor.__delitem__] a change that keeps the shape was required: Tensor does not support deleting items\nhint: facula.cat((x[:i], x[i + 1:])) leaves one out")
    def __repr__(self): return PRINTER[0](self)
    def __format__(self, spec):
        if not isinstance(spec, str):
            raise said(TypeError, "[format] a str was required as format: got %s\nhint: format(x, '.3f') shows three digits" % type(spec).__name__)
        if self.nd == 0 and not self.is_meta:
            return format(item(self), spec)
        return object.__format__(self, spec)

    # ---- history
    @property
    def requires_grad(self):
        """Whether operations on this tensor are recorded for differentiation."""
        return (self.keys & K_GRAD) != 0

    @requires_grad.setter
    def requires_grad(self, bint value):
        set_requires_grad(self, value)

    def requires_grad_(self, bint requires_grad=True):
        """Set `requires_grad` in place and return the tensor."""
        set_requires_grad(self, requires_grad)
        return self

    @property
    def is_leaf(self):
        """Whether the tensor was made by the user and not by a recorded operation."""
        return not (self.keys & K_GRAD) or grad_fn_of(self) is None

    @property
    def grad_fn(self):
        """The node that computes this tensor's gradient contribution, None for a leaf."""
        return grad_fn_of(self)

    @property
    def grad(self):
        """The accumulated gradient, or None."""
        if self.grad_ is None and self.keys & K_GRAD and self.fn_ is not None and not self.retains_grad:
            warn_grad_of_result()
        return self.grad_

    @grad.setter
    def grad(self, value):
        if value is not None:
            check_grad_assignment(self, value)
        self.grad_ = value

    @grad.deleter
    def grad(self):
        self.grad_ = None

    @property
    def _grad(self):
        return self.grad_

    @_grad.setter
    def _grad(self, value):
        self.grad_ = value

    @property
    def output_nr(self):
        return self.out_nr

    @property
    def _version(self):
        if self.keys & K_INFERENCE:
            raise said(RuntimeError, "[version] a tensor with a version counter was required: got an inference tensor "
                               "(Inference tensors do not track version counter.)\nhint: x.clone() outside of inference_mode gives a normal tensor")
        if self.keys & K_UNCOUNTED:
            return self.view_version if self.base is None else self.base.view_version
        return self.st.version

    @property
    def _base(self):
        return self.base

    def _is_view(self):
        return self.base is not None

    @property
    def data(self):
        """The same elements without history, and without a part in the count of writes."""
        cdef Tensor t
        if fk_tls_keys() & K_INTERPRETER and rewritten():
            return m_detach(self)
        if self.keys & K_DISPATCH and not self.keys & (K_TRANSFORM | K_FAKE):
            t = m_detach(self)  # only the class knows where its elements are
            if t is self or not t.keys & K_DISPATCH: return t
        else:
            t = detach_(self)
        t.keys |= K_UNCOUNTED
        t.view_version = 0
        return t

    @data.setter
    def data(self, other):
        if not isinstance(other, Tensor):
            raise said(TypeError, "[data] a tensor was required: Variable data has to be a tensor, but got %s" % type(other).__name__ + "\nhint: x.grad = None drops a gradient; del x drops the tensor itself")
        assign_data(self, other)

    @property
    def retains_grad(self):
        return getattr(self, "_retains_grad", None) is not None

    def _backward_hooks_(self):
        return self.hooks


cdef int warn_grad_of_result() except -1:
    import warnings
    warnings.warn("The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated "
                  "during autograd.backward(): call .retain_grad() on it before", UserWarning, stacklevel=2)
    return 0


cdef inline void compute_keys(Tensor t):
    """Refresh K_STRIDED from shape and strides."""
    cdef int i
    cdef int64_t expected = 1
    t.keys &= ~<uint32_t>K_STRIDED
    if t.numel_ == 0:
        return
    for i in range(t.nd - 1, -1, -1):
        if t.sh[i] != 1:
            if t.sd[i] != expected:
                t.keys |= K_STRIDED
                return
            expected *= t.sh[i]


cdef fk_storage *new_storage(int64_t nbytes, int dev) except NULL:
    cdef fk_storage *s
    if dev == 0:
        s = fk_storage_new(nbytes)
        if fk_tls_keys() & K_KEEP and s != NULL: keep_storage(s)
    elif dev == 1:
        s = fk_storage_meta(nbytes)
    else:
        s = foreign_storage(nbytes, dev)
    if s == NULL:
        raise_memory(nbytes)
    return s


cdef inline int set_rank(Tensor t, int nd) except -1:
    """Set the number of dimensions, before their sizes and strides are written."""
    if nd > FEW_DIMS and t.sh == t.few: add_room(t, nd)
    t.nd = nd
    return 0


cdef int add_room(Tensor t, int nd) except -1:
    """Room for the sizes and strides of up to MAX_DIMS dimensions; it stays until the tensor ends, since others may point into it."""
    cdef int64_t *room
    if nd > MAX_DIMS:
        raise said(RuntimeError, "[shape] at most %d dimensions were required (only tensors with up to %d dims are supported): got %d" % (MAX_DIMS, MAX_DIMS, nd) + "\nhint: merge dimensions with reshape")
    room = <int64_t *>malloc(2 * MAX_DIMS * sizeof(int64_t))
    if room == NULL: raise_memory(2 * MAX_DIMS * sizeof(int64_t))
    memcpy(room, t.sh, t.nd * sizeof(int64_t))
    memcpy(room + MAX_DIMS, t.sd, t.nd * sizeof(int64_t))
    t.sh = room
    t.sd = room + MAX_DIMS
    return 0


cdef inline Tensor new_tensor(int nd, const int64_t *sh, int dt, int dev):
    """A contiguous tensor of unset elements."""
    cdef Tensor t = Tensor.__new__(Tensor)
    cdef int i
    cdef int64_t s = 1
    cdef int64_t numel = shape_numel(nd, sh)
    t.st = new_storage(numel * ITEMSIZE[dt], dev)
    t.data_ = t.st.data
    t.dt = dt; set_rank(t, nd); t.numel_ = numel; t.dev = dev
    if dev:
        t.keys |= K_META if dev == 1 else K_FOREIGN
    for i in range(nd - 1, -1, -1):
        t.sh[i] = sh[i]; t.sd[i] = s
        if sh[i] > 1: s *= sh[i]
    return t


cdef inline void bump(Tensor t) noexcept:
    """Count a write, so that backward knows that what it kept was changed; not one through `.data`."""
    if fk_tls_keys() & K_KEEP: keep_write(t)
    if not (t.keys & K_UNCOUNTED):
        t.st.version += 1
        return
    t.st.uncounted += 1
    if t.base is None:
        t.view_version += 1


cdef inline Tensor share(Tensor a):
    """A new tensor on the storage of `a`; the caller sets the geometry."""
    cdef Tensor t = Tensor.__new__(Tensor)
    t.st = a.st
    a.st.refs += 1
    t.data_ = a.data_
    t.dt = a.dt; t.dev = a.dev
    t.keys |= a.keys & (K_META | K_FOREIGN | K_INFERENCE | K_UNCOUNTED)
    return t


cdef inline Tensor alias(Tensor a):
    """The same elements in a tensor of its own, without history."""
    cdef Tensor t = share(a)
    set_rank(t, a.nd); t.numel_ = a.numel_
    memcpy(t.sh, a.sh, a.nd * 8)
    memcpy(t.sd, a.sd, a.nd * 8)
    t.keys |= a.keys & K_STRIDED
    return t


cdef Tensor detach_(Tensor a):
    cdef Tensor t = alias(a)
    t.keys |= a.keys & K_WRAPPED & 0
    return t


cdef inline bint same_shape(Tensor a, Tensor b):
    return a.nd == b.nd and memcmp(a.sh, b.sh, a.nd * 8) == 0


cdef int raise_no_dimensions(str op, object dim) except -1:
    raise said(IndexError, "[%s] a tensor with dimensions was required: Dimension specified as %s but tensor has no dimensions" % (op, dim)
                           + "\nhint: shape is () there")


cdef inline int wrap_dim(object dim, int nd, str op) except -1:
    """A dimension in [0, nd) from one in [-nd, nd)."""
    if dim is True or dim is False: raise_bool_for_int(op, "dim")
    cdef int64_t d = whole(dim, op, ValueError)
    cdef int n = nd if nd else 1
    if d < -n or d >= n:
        raise said(IndexError, "[%s] Dimension out of range (expected to be in range of [%d, %d], but got %d): got %d" % (op, -n, n - 1, d, d) + "\nhint: dimensions count from 0, or from the end as -1, -2, ...")
    return <int>(d + n if d < 0 else d)


cdef int parse_shape(object shape, int64_t *out) except -1:
    """Read a shape from ints or one list of ints; gives the number of dimensions."""
    cdef int n = 0
    if type(shape) is tuple or <PyObject *>Py_TYPE(shape) == fk_sizes_class:
        n = fk_ints_of_tuple(shape, MAX_DIMS, out)
        if n >= 0: return n
        n = 0
    if type(shape) is int:
        out[0] = whole(shape, "shape", TypeError)
        return 1
    if isinstance(shape, Tensor) and (<Tensor>shape).nd == 1:
        shape = shape.tolist()
    if not isinstance(shape, (tuple, list)):
        if shape is True or shape is False: raise_bool_for_int("shape", "size")
        if hasattr(shape, "__index__"):
            out[0] = whole(shape, "shape", TypeError)
            return 1
        raise said(TypeError, "[shape] a list of integers was required: got " + type(shape).__name__ + "\nhint: pass the sizes as integers or as one tuple")
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    if len(shape) > MAX_DIMS:
        raise said(RuntimeError, "[shape] at most %d dimensions were required (only tensors with up to %d dims are supported): got %d" % (MAX_DIMS, MAX_DIMS, len(shape)) + "\nhint: merge dimensions with reshape")
    if shape and (shape[0] is True or shape[0] is False): raise_bool_for_int("shape", "size")
    for v in shape:
        if n == MAX_DIMS:        # a class may say another length than it has, and an entry's __index__ may add to its list
            raise said(RuntimeError, "[shape] at most %d dimensions were required: got more" % MAX_DIMS + "\nhint: merge dimensions with reshape")
        if type(v) is int:
            out[n] = whole(v, "shape", TypeError)
        elif isinstance(v, float) or not hasattr(v, "__index__"):
            raise said(TypeError, "[shape] integers were required: got %s at position %d" % (type(v).__name__, n) + "\nhint: int(size) converts")
        else:
            out[n] = whole(v, "shape", TypeError)
        n += 1
    return n


# ------------------------------------------------------------------ making tensors from Python

cdef inline Tensor made(Tensor t):
    """`t`, which is new: an interpreter that rewrites a program is told."""
    if fk_tls_keys() & K_INTERPRETER and rewritten():
        interpreter_stack()[-1].fresh(t)
    return t


def empty(shape, *, dtype=None, device=None, requires_grad=False):
    """Unset elements, contiguous. shape: ints; dtype: default float; device: default cpu."""
    if dispatches_creation():
        return OP_EMPTY(shape, dtype=dtype, device=device, requires_grad=requires_grad)
    cdef int64_t sh[MAX_DIMS]
    cdef int nd = parse_shape(shape, sh)
    cdef Tensor t = new_tensor(nd, sh, DEFAULT_DTYPE if dtype is None else as_dtype(dtype).index, device_number(device))
    if requires_grad:
        set_requires_grad(t, True)
    if fk_tls_keys() & K_INFERENCE: t.keys |= K_INFERENCE
    return made(t)


def empty_strided(shape, stride, *, dtype=None, device=None, requires_grad=False):
    """Unset elements with given strides (in elements)."""
    if dispatches_creation():
        return OP_EMPTY_STRIDED(shape, stride, dtype=dtype, device=device, requires_grad=requires_grad)
    cdef int64_t sh[MAX_DIMS]
    cdef int64_t sd[MAX_DIMS]
    cdef int nd = parse_shape(shape, sh), i
    cdef int ns = parse_shape(stride, sd)
    cdef int dt = DEFAULT_DTYPE if dtype is None else as_dtype(dtype).index
    cdef int dev = device_number(device)
    cdef int64_t needed, numel
    cdef Tensor t
    if ns != nd:
        raise said(RuntimeError, "[empty_strided] as many strides as sizes were required: got %d and %d" % (ns, nd) + "\nhint: give one stride for each size")
    numel = shape_numel(nd, sh)
    for i in range(nd):
        if sd[i] < 0:
            raise said(RuntimeError, "[empty_strided] non-negative strides were required: got %s" % (list(stride),) + "\nhint: flip() reverses a dimension")
    needed = geometry_bytes(nd, sh, sd, 0, ITEMSIZE[dt])
    if needed < 0:
        raise said(RuntimeError, "[empty_strided] strides within memory were required: got %s for the shape %s (Storage size calculation "
                           "overflowed)" % ([sd[i] for i in range(nd)], [sh[i] for i in range(nd)]) + "\nhint: the bytes up to the last element must stay below 2**63")
    t = Tensor.__new__(Tensor)
    t.st = new_storage(needed, dev)
    t.data_ = t.st.data
    t.dt = dt; set_rank(t, nd); t.numel_ = numel; t.dev = dev
    t.keys |= K_META if dev == 1 else (K_FOREIGN if dev else 0)
    for i in range(nd):
        t.sh[i] = sh[i]; t.sd[i] = sd[i]
    compute_keys(t)
    if requires_grad:
        set_requires_grad(t, True)
    return made(t)


def empty_like(Tensor like, *, dtype=None, device=None):
    """Unset elements in the shape and memory order of `like`."""
    if like.keys & K_TRANSFORM:
        return WRAPPER_EMPTY[0](like, dtype, device)
    if like.keys & K_FAKE or dispatches_creation():
        return OP_EMPTY_LIKE(like, dtype=dtype, device=device)
    cdef int dt = like.dt if dtype is None else as_dtype(dtype).index
    cdef int dev = like.dev if device is None else device_number(device)
    if dev == like.dev:
        return made(new_like(like, dt))
    return made(new_tensor(like.nd, like.sh, dt, dev))


cdef object scalar_of(Tensor t, str op):
    if t.numel_ != 1 and op in ("int", "float", "complex"):
        raise said(ValueError, "[%s] a tensor with one element was required: got the shape %s (only one element tensors can be "
                         "converted to Python scalars)\nhint: use .tolist() or reduce first" % (op, list(make_size(t.nd, t.sh))))
    if t.numel_ != 1:
        raise said(RuntimeError, "[%s] a tensor with one element was required: got the shape %s (a Tensor with %d elements cannot "
                           "be converted to Scalar)\nhint: use .tolist() or reduce first"
                           % (op, list(make_size(t.nd, t.sh)), t.numel_))
    return t.item()
