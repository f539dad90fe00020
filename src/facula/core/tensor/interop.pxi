# Tensors from and to Python lists, NumPy arrays, buffers and DLPack capsules; storages; random numbers.

cdef void release_owner(void *owner) noexcept nogil:
    with gil:
        drop_owner(owner)


cdef void drop_owner(void *owner) noexcept:
    Py_DECREF(<object>owner)


cdef Tensor owned_memory(void *data, int64_t nbytes, object owner, int dt, int nd):
    """A tensor on memory that `owner` keeps alive, its geometry still to come."""
    cdef Tensor t = Tensor.__new__(Tensor)
    refuse_keeping()
    Py_INCREF(owner)
    t.st = fk_storage_from(data, nbytes, <void *>owner, release_owner)
    if t.st == NULL:
        Py_DECREF(owner)
        raise_memory(nbytes)
    t.st.flags |= FK_NO_RESIZE
    t.data_ = <char *>data
    t.dt = dt
    set_rank(t, nd)
    return t


cdef Tensor tensor_on_memory(void *data, int64_t nbytes, object owner, int dt, shape, strides, bint readonly):
    """A tensor on memory that `owner` keeps alive; strides in elements."""
    cdef Tensor t = owned_memory(data, nbytes, owner, dt, <int>len(shape))
    cdef int i
    if readonly: t.st.flags |= FK_READONLY
    for i in range(t.nd):
        t.sh[i] = shape[i]; t.sd[i] = strides[i]
    finish_view(t)
    if fk_tls_keys() & K_INFERENCE: t.keys |= K_INFERENCE
    return t


cdef dict _TYPESTR = {"f4": F32, "f8": F64, "f2": F16, "i8": I64, "i4": I32, "i2": I16, "i1": I8, "u1": U8, "b1": B8,
                      "c8": C64, "c16": C128, "u2": U16, "u4": U32, "u8": U64}
cdef dict _TYPESTR_OF = {v: k for k, v in _TYPESTR.items()}


def from_numpy(array):
    """A tensor on the memory of a NumPy array, without a copy.

    Args:
        array: a NumPy array

    Raises:
        TypeError: it is no array, or of a dtype that tensors do not have.
        ValueError: a stride is negative.

    Example:
        >>> import numpy
        >>> a = numpy.zeros(2)
        >>> _ = facula.from_numpy(a).fill_(1)
        >>> a
        array([1., 1.])
    """
    cdef int64_t offset_low = 0, extent
    cdef Tensor t = tensor_on_array(array)
    if t is not None: return t
    interface = getattr(array, "__array_interface__", None)
    if interface is None or not hasattr(array, "strides") or not hasattr(array, "__setitem__"):
        raise said(TypeError, "[from_numpy] a NumPy array was required: expected np.ndarray (got %s)" % type(array).__name__ + "\nhint: facula.tensor() takes lists and numbers, facula.as_tensor() anything")
    numpy_dtype(F32)             # from now on arrays come the short way
    code = interface["typestr"]
    if code[0] == ">" :
        raise said(ValueError, "[from_numpy] native byte order was required: given numpy array has byte order different from the native "
                         "byte order. Conversion between byte orders is currently not supported.\nhint: use array.astype(array.dtype.newbyteorder('='))")
    dt = _TYPESTR.get(code[1:])
    if dt is None:
        raise said(TypeError, "[from_numpy] a numeric dtype was required: can't convert np.ndarray of type %s. The only supported types "
                        "are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint8, uint16, uint32, "
                        "uint64 and bool." % array.dtype + "\nhint: convert with array.astype(), or keep the array outside of tensors")
    shape = interface["shape"]
    if len(shape) > MAX_DIMS:
        raise said(ValueError, "[from_numpy] at most %d dimensions were required: got %d" % (MAX_DIMS, len(shape)) + "\nhint: merge dimensions with array.reshape()")
    strides = array.strides
    size = ITEMSIZE[dt]
    extent = size
    for n, s in zip(shape, strides):
        if s < 0:
            raise said(ValueError, "[from_numpy] non-negative strides were required: at least one of the strides in the given numpy "
                             "array is negative, and tensors with negative strides are not supported.\nhint: make a copy with array.copy()")
        if s % size:
            raise said(ValueError, "[from_numpy] strides that are multiples of the element size were required: got %s" % (strides,) + "\nhint: copy it first: numpy.ascontiguousarray(array)")
        extent += (n - 1) * s if n else 0
    address, readonly = interface["data"]
    if 0 in shape:
        return tensor_on_memory(<void *><uintptr_t>address, 0, array, dt, shape, [s // size for s in strides], readonly)
    if readonly:
        import warnings
        warnings.warn("The given NumPy array is not writable: the tensor is non-writable too, and writing to it is an error.", UserWarning, stacklevel=2)
    return tensor_on_memory(<void *><uintptr_t>address, extent, array, dt, shape, [s // size for s in strides], readonly)


cdef dict _BUFFER_FORMATS = {b"f": F32, b"d": F64, b"e": F16, b"l": I64, b"q": I64, b"i": I32, b"h": I16, b"b": I8, b"B": U8, b"?": B8,
                             b"Zf": C64, b"Zd": C128, b"H": U16, b"I": U32, b"L": U64, b"Q": U64}


cdef Tensor tensor_on_array(object array):
    """The short way of `from_numpy`, by the buffer protocol: a writable array of numbers, with more than one element along
    each dimension; None for all else."""
    cdef Py_buffer view
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t extent
    cdef Tensor t
    cdef int i
    if NUMPY is None or type(array) is not NUMPY.ndarray: return None
    try:
        PyObject_GetBuffer(array, &view, PyBUF_FULL)
    except (BufferError, ValueError):
        return None              # read-only, or of objects or dates
    try:
        dt = _BUFFER_FORMATS.get(view.format)
        if dt is None or view.ndim > MAX_DIMS: return None
        extent = view.itemsize
        for i in range(view.ndim):
            if view.shape[i] < 2 or view.strides[i] < 0 or view.strides[i] % view.itemsize: return None
            strides[i] = view.strides[i] // view.itemsize
            extent += (view.shape[i] - 1) * view.strides[i]
        t = owned_memory(view.buf, extent, array, dt, view.ndim)
        for i in range(view.ndim):
            t.sh[i] = view.shape[i]; t.sd[i] = strides[i]
        finish_view(t)
    finally:
        PyBuffer_Release(&view)
    if fk_tls_keys() & K_INFERENCE: t.keys |= K_INFERENCE
    return t


cdef class ArrayMemory:
    """A tensor's memory, as NumPy takes it; keeps the tensor alive."""
    cdef Tensor tensor
    cdef int64_t nbytes
    cdef bint readonly
    cdef object __weakref__

    def __getbuffer__(self, Py_buffer *view, int flags):
        if flags & PyBUF_WRITABLE and self.readonly:
            raise BufferError("[numpy] writable memory was required: got a tensor on memory of a reader\nhint: clone() it first")
        PyBuffer_FillInfo(view, self, self.tensor.data_, self.nbytes, self.readonly, flags)


#: NumPy, once something has asked for an array; its dtypes by those of tensors
cdef object NUMPY = None
cdef dict NUMPY_DTYPES = {}


cdef object numpy_dtype(int dt):
    """NumPy's dtype of a tensor's, None where it has none."""
    global NUMPY
    if NUMPY is None:
        import numpy
        NUMPY = numpy
    found = NUMPY_DTYPES.get(dt)
    if found is None and dt in _TYPESTR_OF:
        found = NUMPY_DTYPES[dt] = NUMPY.dtype("=" + _TYPESTR_OF[dt])
    return found


def to_numpy(Tensor t, bint force=False):
    """A NumPy array on the tensor's memory."""
    cdef ArrayMemory memory
    cdef int64_t strides[MAX_DIMS]
    cdef int i
    if force:
        t = detach_(t) if t.dev == 0 else t.detach().cpu()
    if t.keys & K_GRAD and not (fk_tls_keys() & K_NOGRAD):
        raise said(RuntimeError, "[numpy] a tensor that does not require grad was required: Can't call numpy() on Tensor that requires "
                           "grad.\nhint: use tensor.detach().numpy() instead")
    if t.dev != 0 or t.keys & K_META:
        raise said(TypeError, "[numpy] a cpu tensor was required: can't convert %s device type tensor to numpy.\nhint: use Tensor.cpu() "
                        "to copy the tensor to host memory first" % DEVICES[t.dev])
    kind = numpy_dtype(t.dt)
    if kind is None:
        raise said(TypeError, "[numpy] a dtype that NumPy has was required: got unsupported ScalarType %s\nhint: use .float() first"
                        % (<dtype>DTYPES[t.dt]).type_word)
    if t.numel_ == 0:
        return NUMPY.empty(fk_int_tuple(NULL, t.nd, t.sh), kind)
    refuse_keeping()
    own_bytes(t)
    memory = ArrayMemory.__new__(ArrayMemory)
    memory.tensor = alias(t)     # an alias: the tensor may be set to another storage
    memory.nbytes = ITEMSIZE[t.dt]
    memory.readonly = t.st.flags & FK_READONLY != 0
    for i in range(t.nd):
        strides[i] = t.sd[i] * ITEMSIZE[t.dt]
        memory.nbytes += (t.sh[i] - 1) * strides[i]
    array = NUMPY.ndarray(fk_int_tuple(NULL, t.nd, t.sh), kind, memory, 0, fk_int_tuple(NULL, t.nd, strides))
    t.st.flags |= FK_NO_RESIZE | FK_POINTED
    return array


cdef int check_lists(Tensor t) except -1:
    """Raise for an empty tensor whose sizes ask for more lists than memory holds."""
    cdef double lists = 1
    cdef int i
    for i in range(t.nd):
        if t.sh[i] == 0: break
        lists *= t.sh[i]
    if lists > 2147483648.0:
        raise said(RuntimeError, "[tolist] at most 2147483648 lists were required: got the shape %s\nhint: an empty tensor has nothing "
                                 "but its shape to tell" % list(make_size(t.nd, t.sh)))
    return 0


def tolist(Tensor t):
    """Nested Python lists of numbers; a number for 0-d."""
    if t.keys & K_META:
        raise said(NotImplementedError, "[tolist] a tensor with data was required: Cannot copy out of meta tensor; no data!\nhint: make it on another device, e.g. facula.empty_like(x, device='cpu')")
    if t.dev != 0:
        t = t.cpu()
    refuse_keeping()
    if t.numel_ == 0: check_lists(t)
    return nested_list(t, 0, t.data_)


def item(Tensor t):
    """The only element as a Python number."""
    if t.numel_ != 1:
        raise said(RuntimeError, "[item] a tensor with one element was required: got the shape %s (a Tensor with %d elements cannot be "
                           "converted to Scalar)\nhint: use .tolist() or reduce first" % (list(make_size(t.nd, t.sh)), t.numel_))
    if t.keys & K_META:
        raise said(RuntimeError, "[item] a tensor with data was required: Tensor.item() cannot be called on meta tensors\nhint: make it on another device, e.g. facula.empty_like(x, device='cpu')")
    if t.dev != 0:
        t = t.cpu()
    refuse_keeping()
    return load_element(t.data_, t.dt)


cdef int number_dtype(int kind):
    """The dtype of Python's numbers of a kind."""
    if kind == KIND_BOOL: return B8
    if kind == KIND_INT: return I64
    return COMPLEX_OF[DEFAULT_DTYPE] if kind == KIND_COMPLEX else DEFAULT_DTYPE


cdef int joined(int kind, int dt) except -1:
    """What `discover` knows after an element of a dtype."""
    if kind < 0: return 100 + dt
    return 100 + promoted(kind - 100 if kind >= 100 else number_dtype(kind), dt)


cdef int discover(object data, list shape, int depth, int *kind) except -1:
    """Shape and kind of nested sequences; kind: of DTYPE kinds, -1 while unknown, a dtype + 100 when an element has one."""
    if isinstance(data, (list, tuple)):
        if depth == len(shape):
            shape.append(len(data))
        elif shape[depth] != len(data):
            raise said(ValueError, "[tensor] sequences of equal length were required: expected sequence of length %d at dim %d (got %d)"
                             % (shape[depth], depth, len(data)) + "\nhint: pad the rows to one length, or use nn.utils.rnn.pad_sequence")
        if depth >= MAX_DIMS:
            raise said(ValueError, "[tensor] at most %d nested dimensions were required" % MAX_DIMS + "\nhint: stack the innermost lists into fewer dimensions")
        for x in data:
            discover(x, shape, depth + 1, kind)
        return 0
    if isinstance(data, Tensor) or hasattr(data, "__array_interface__") and getattr(data, "ndim", 0):
        inner = list(data.shape)
        for i, n in enumerate(inner):
            if depth + i == len(shape): shape.append(n)
            elif shape[depth + i] != n:
                raise said(ValueError, "[tensor] sequences of equal length were required: expected sequence of length %d at dim %d (got %d)"
                                 % (shape[depth + i], depth + i, n) + "\nhint: pad the rows to one length, or use nn.utils.rnn.pad_sequence")
        if not isinstance(data, Tensor): warn_of_arrays()
        dt = (<Tensor>data).dt if isinstance(data, Tensor) else (<Tensor>from_numpy_copy(data)).dt
        kind[0] = joined(kind[0], dt)
        return 0
    if depth != len(shape):
        raise said(TypeError, "[tensor] sequences of equal depth were required: not a sequence at depth %d (got %s)" % (depth, type(data).__name__) + "\nhint: all elements of a list must be numbers, or all of them lists")
    if data is True or data is False: k = KIND_BOOL
    elif isinstance(data, int): k = KIND_INT
    elif type(data) is float or isinstance(data, float) and not hasattr(data, "dtype"): k = KIND_FLOAT
    elif type(data) is complex or isinstance(data, complex) and not hasattr(data, "dtype"): k = KIND_COMPLEX
    elif hasattr(data, "dtype") and hasattr(data, "item"):
        code = data.dtype.str[1:]
        if code not in _TYPESTR:
            raise said(TypeError, "[tensor] numbers were required: got " + str(data.dtype) + "\nhint: convert with array.astype(), or encode the values as integers")
        dt = _TYPESTR[code]
        kind[0] = joined(kind[0], dt)
        return 0
    elif hasattr(data, "__index__"): k = KIND_INT
    elif hasattr(data, "__float__"): k = KIND_FLOAT
    else:
        wrong = TypeError if isinstance(data, (str, bytes)) else RuntimeError
        raise said(wrong, "[tensor] numbers or sequences of numbers were required: Could not infer dtype of %s" % type(data).__name__ + "\nhint: encode it as numbers first")
    if kind[0] >= 100: kind[0] = joined(kind[0], number_dtype(k))
    elif k > kind[0]: kind[0] = k
    return 0


cdef object array_operand(object x):
    """An operand of a comparison or a division: arrays of at least one dimension as tensors."""
    if isinstance(x, (Tensor, float, int)) or x is None or hasattr(type(x), "__torch_function__"):
        return x   # what speaks for itself is asked nothing: a traced value would take it for control flow
    if not getattr(x, "ndim", 0) or not hasattr(x, "__array_interface__"):
        return x
    return from_numpy_copy(x)


cdef bint WARNED_OF_ARRAYS = False

cdef int warn_of_arrays() except -1:
    """Once: a list of arrays is slow to read."""
    global WARNED_OF_ARRAYS
    if not WARNED_OF_ARRAYS:
        import warnings
        WARNED_OF_ARRAYS = True
        warnings.warn("Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the "
                      "list to a single numpy.ndarray with numpy.array() before converting to a tensor.", UserWarning, stacklevel=2)
    return 0


cdef object from_numpy_copy(object array):
    import numpy
    array = numpy.asarray(array)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("="))
    if any(s < 0 for s in array.strides) or not array.flags.writeable or any(s % array.itemsize for s in array.strides):
        array = array.copy()
    return from_numpy(array)


cdef int fill_nested(object data, Tensor t, int d, char *p) except -1:
    cdef int64_t i = 0
    cdef Tensor part
    if isinstance(data, (list, tuple)):
        for x in data if d < t.nd else ():
            if i == t.sh[d]: break                    # lists may change while their entries are read
            fill_nested(x, t, d + 1, p + i * t.sd[d] * ITEMSIZE[t.dt])
            i += 1
        else:
            if d < t.nd and i == t.sh[d]: return 0
        raise said(ValueError, "[tensor] sequences that stay as they are were required: got another length at dim %d than at first" % d + "\nhint: pass plain lists that nobody changes meanwhile")
    if isinstance(data, Tensor) and (<Tensor>data).nd or hasattr(data, "__array_interface__") and getattr(data, "ndim", 0):
        source = data if isinstance(data, Tensor) else from_numpy_copy(data)
        part = raw_view(t, [t.sh[i] for i in range(d, t.nd)], [t.sd[i] for i in range(d, t.nd)], 0)
        part.data_ = p
        copy_into(part, source)
        return 0
    if not isinstance(data, (int, float, complex)) and hasattr(data, "item"):
        data = data.item()
    store_element(p, t.dt, data)
    return 0


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of data.

    Args:
        data: a number, nested lists, an array or a tensor
        dtype: None for the data's; floats have the default dtype
        device: None for the default one
        requires_grad: whether gradients are recorded
        pin_memory: kept as in PyTorch

    Raises:
        ValueError: lists have different lengths.
        TypeError: the data is something else.

    Example:
        >>> facula.tensor([[1, 2], [3, 4]])
        tensor([[1, 2],
                [3, 4]])
        >>> facula.tensor([0.5], dtype=facula.float64)
        tensor([0.5000], dtype=facula.float64)
    """
    cdef Tensor t
    cdef int kind = -1, dt, dev = device_number(device)
    cdef int64_t sh[MAX_DIMS]
    cdef list shape
    cdef bint lifted = False
    if fk_tls_keys() & K_FUNCTION_MODE:
        given = {"dtype": dtype, "device": device, "requires_grad": requires_grad or None, "pin_memory": pin_memory or None}
        r = torch_function(tensor, (data,), {k: v for k, v in given.items() if v is not None}, fk_tls_keys())
        if r is not NotImplemented: return r
    if isinstance(data, Tensor):
        import warnings
        warnings.warn("To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                      "sourceTensor.detach().clone().requires_grad_(True), rather than tensor(sourceTensor).", UserWarning, stacklevel=2)
        t = convert(detach_(data), (<Tensor>data).dt if dtype is None else as_dtype(dtype).index, dev if device is not None else (<Tensor>data).dev, True, None)
    elif hasattr(data, "__array_interface__") or (hasattr(data, "__array__") and not isinstance(data, (int, float, complex))):
        import numpy
        array = numpy.asarray(data)
        t = from_numpy_copy(array)
        if dispatches_creation():
            t = OP_LIFT(t)
            lifted = True
        t = convert(t, t.dt if dtype is None else as_dtype(dtype).index, dev, True, contiguous_format)
    elif isinstance(data, UntypedStorage) or isinstance(getattr(data, "_untyped_storage", None), UntypedStorage):
        if dtype is None: dtype = getattr(data, "dtype", DTYPES[DEFAULT_DTYPE])
        t = empty((0,), dtype=dtype, device=data.device).set_(data).clone()
    else:
        if not isinstance(data, (list, tuple)) and hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (str, bytes, dict)):
            data = list(data)
        shape = []
        discover(data, shape, 0, &kind)
        if dtype is not None: dt = as_dtype(dtype).index
        else: dt = kind - 100 if kind >= 100 else number_dtype(kind)
        if kind == KIND_COMPLEX and KIND[dt] != KIND_COMPLEX:
            raise said(TypeError, "[tensor] real numbers were required for %s: must be real number, not complex" % DTYPES[dt].name + "\nhint: take .real, or ask for dtype=facula.complex64")
        if UNKNOWN_NUMBERS[0] is not None and dispatches_creation():
            found = UNKNOWN_NUMBERS[0](data, DTYPES[dt])
            if found is not None: return found
        nd = parse_shape(shape, sh)
        t = new_tensor(nd, sh, dt, 0)
        if t.numel_:
            refuse_keeping()
            try:
                fill_nested(data, t, 0, t.data_)
            except RuntimeError:
                if dtype is not None or dt != I64: raise
                raise said(ValueError, "[tensor] integers of at most 64 bits were required: Overflow when unpacking long long\n"
                                 "hint: give dtype=float64, or uint64 for integers below 2**64") from None
        if dev:
            t = convert(t, dt, dev, False, None)
    if not lifted and dispatches_creation():
        t = OP_LIFT(t)
    if fk_tls_keys() & K_INFERENCE: t.keys |= K_INFERENCE
    if requires_grad:
        set_requires_grad(t, True)
    return made(t)


def as_tensor(data, dtype=None, device=None):
    """A tensor from anything that `tensor` takes, on the same memory where that can be.

    Args:
        data: a number, nested lists, an array or a tensor
        dtype: None for the data's
        device: None for the data's

    Example:
        >>> import numpy
        >>> a = numpy.zeros(2)
        >>> _ = facula.as_tensor(a).fill_(1)
        >>> a
        array([1., 1.])
    """
    cdef Tensor t
    if isinstance(data, Tensor):
        t = data
    elif hasattr(data, "__array_interface__") and hasattr(data, "strides"):
        t = from_numpy_copy(data)
    else:
        return tensor(data, dtype=dtype, device=device)
    return convert(t, t.dt if dtype is None else as_dtype(dtype).index, t.dev if device is None else device_number(device), False, None)


cdef Tensor as_tensor_like(object value, Tensor like):
    return tensor(value, dtype=<object>DTYPES[like.dt], device=like.device)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A vector on the memory of an object with the buffer protocol.

    Args:
        buffer: bytes, an array, a mapped file
        dtype: of the elements
        count: how many; -1 for all
        offset: the byte where they begin
        requires_grad: whether gradients are recorded

    Raises:
        ValueError: there are no elements, or not so many.

    Example:
        >>> facula.frombuffer(bytearray(b"ab"), dtype=facula.uint8)
        tensor([97, 98], dtype=facula.uint8)
    """
    cdef int dt = as_dtype(dtype).index
    view = memoryview(buffer).cast("B")
    cdef int64_t n = view.nbytes, size = ITEMSIZE[dt]
    cdef int64_t start = whole(offset, "frombuffer", ValueError), length = whole(count, "frombuffer", ValueError)
    if n == 0:
        raise said(ValueError, "[frombuffer] a buffer with elements was required: both buffer length (%d) and count (%d) must not be 0" % (n, length) + "\nhint: pass a buffer that is not empty, and a count of -1 or more than 0")
    if start < 0 or start >= n:
        raise said(ValueError, "[frombuffer] an offset in [0, %d) was required: got %d" % (n, start) + "\nhint: the offset is in bytes")
    if length < 0:
        if (n - start) % size:
            raise said(ValueError, "[frombuffer] a whole number of elements was required: buffer length (%d bytes) after offset (%d bytes) "
                             "must be a multiple of element size (%d)" % (n, start, size) + "\nhint: pass count=, or cut the buffer to whole elements")
        length = (n - start) // size
    if length == 0 or length > (n - start) // size:
        raise said(ValueError, "[frombuffer] a buffer of %d bytes was required: requested buffer length (%d * %d bytes) after offset (%d "
                         "bytes) must not be greater than actual buffer length (%d bytes)" % (start + <object>length * <object>size, length, size, start, n) + "\nhint: pass count=-1 for as many elements as there are")
    cdef const unsigned char[:] raw
    cdef Tensor t
    raw = view
    readonly = view.readonly
    t = tensor_on_memory(<void *>(&raw[0] + start), length * size, view, dt, (length,), (1,), False)
    if readonly:
        import warnings
        warnings.warn("The given buffer is not writable: the tensor is non-writable too, and writing to it is an error.", UserWarning, stacklevel=2)
        t.st.flags |= FK_READONLY
    if requires_grad:
        set_requires_grad(t, True)
    return t


# ------------------------------------------------------------------ DLPack

cdef extern from *:
    """
    typedef struct { int32_t device_type; int32_t device_id; } fk_dl_device;
    typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } fk_dl_dtype;
    typedef struct { void *data; fk_dl_device device; int32_t ndim; fk_dl_dtype dtype; int64_t *shape; int64_t *strides; uint64_t byte_offset; } fk_dl_tensor;
    typedef struct fk_dl_managed { fk_dl_tensor dl_tensor; void *manager_ctx; void (*deleter)(struct fk_dl_managed *); } fk_dl_managed;
    """
    ctypedef struct fk_dl_device:
        int32_t device_type
        int32_t device_id
    ctypedef struct fk_dl_dtype:
        uint8_t code
        uint8_t bits
        unsigned short lanes
    ctypedef struct fk_dl_tensor:
        void *data
        fk_dl_device device
        int32_t ndim
        fk_dl_dtype dtype
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset
    ctypedef struct fk_dl_managed:
        fk_dl_tensor dl_tensor
        void *manager_ctx
        void (*deleter)(fk_dl_managed *) noexcept

cdef extern from "Python.h":
    object PyCapsule_New(void *pointer, const char *name, void (*destructor)(PyObject *) noexcept)
    void *PyCapsule_GetPointer(object capsule, const char *name) except? NULL
    int PyCapsule_IsValid(object capsule, const char *name)
    int PyCapsule_SetName(object capsule, const char *name) except -1

cdef dict _DL_CODE = {KIND_INT: 0, KIND_FLOAT: 2, KIND_COMPLEX: 5, KIND_BOOL: 6}


cdef void dl_delete(fk_dl_managed *m) noexcept with gil:
    Py_DECREF(<object>m.manager_ctx)
    free(m.dl_tensor.shape)
    free(m)


cdef void dl_capsule_delete(PyObject *capsule) noexcept:
    cdef fk_dl_managed *m
    if PyCapsule_IsValid(<object>capsule, "dltensor"):
        m = <fk_dl_managed *>PyCapsule_GetPointer(<object>capsule, "dltensor")
        m.deleter(m)


def to_dlpack(Tensor t):
    """A DLPack capsule on a tensor's memory.

    Args:
        t: a tensor that does not require gradients

    Raises:
        BufferError: it requires gradients.

    Example:
        >>> x = facula.zeros(2)
        >>> _ = facula.from_dlpack(facula.to_dlpack(x)).fill_(1)
        >>> x
        tensor([1., 1.])
    """
    cdef fk_dl_managed *m
    cdef int i
    if t.keys & K_GRAD:
        raise said(BufferError, "[dlpack] a tensor that does not require grad was required: Can't export tensors that require gradient, "
                          "use tensor.detach()\nhint: x.detach() shares the memory without the gradient")
    if t.dev != 0:
        raise said(BufferError, "[dlpack] a cpu tensor was required: got " + str(DEVICES[t.dev]) + "\nhint: x.cpu() copies it to main memory")
    own_bytes(t)
    t.st.flags |= FK_NO_RESIZE | FK_POINTED
    m = <fk_dl_managed *>calloc(1, sizeof(fk_dl_managed))
    m.dl_tensor.shape = <int64_t *>calloc(2 * t.nd + 1, 8)
    m.dl_tensor.strides = m.dl_tensor.shape + t.nd
    for i in range(t.nd):
        m.dl_tensor.shape[i] = t.sh[i]
        m.dl_tensor.strides[i] = t.sd[i]
    m.dl_tensor.data = t.data_
    m.dl_tensor.device.device_type = 1
    m.dl_tensor.ndim = t.nd
    m.dl_tensor.dtype.lanes = 1
    m.dl_tensor.dtype.bits = ITEMSIZE[t.dt] * 8
    if t.dt == BF16: m.dl_tensor.dtype.code = 4
    elif KIND[t.dt] == KIND_INT and not (<dtype>DTYPES[t.dt]).is_signed: m.dl_tensor.dtype.code = 1
    else: m.dl_tensor.dtype.code = _DL_CODE[KIND[t.dt]]
    owner = alias(t)  # the tensor itself may be set to another storage
    Py_INCREF(owner)
    m.manager_ctx = <void *>owner
    m.deleter = dl_delete
    return PyCapsule_New(m, "dltensor", dl_capsule_delete)


cdef class _DLOwner:
    cdef fk_dl_managed *m

    def __dealloc__(self):
        if self.m != NULL and self.m.deleter != NULL:
            self.m.deleter(self.m)


def from_dlpack(source):
    """A tensor on the memory of a DLPack capsule, or of an object with ``__dlpack__``.

    Args:
        source: such as an array of another library

    Example:
        >>> import numpy
        >>> facula.from_dlpack(numpy.ones(2))
        tensor([1., 1.], dtype=facula.float64)
    """
    cdef fk_dl_managed *m
    cdef _DLOwner owner = _DLOwner.__new__(_DLOwner)
    cdef int i, dt = -1
    cdef int64_t extent = 1, s = 1
    capsule = source.__dlpack__() if hasattr(source, "__dlpack__") else source
    if not PyCapsule_IsValid(capsule, "dltensor"):
        raise said(RuntimeError, "[from_dlpack] an unused DLPack capsule was required: got %r (note that DLTensor capsules can be consumed "
                           "only once)" % (capsule,) + "\nhint: ask the producer for a new capsule, or pass the array itself")
    m = <fk_dl_managed *>PyCapsule_GetPointer(capsule, "dltensor")
    if m.dl_tensor.device.device_type != 1:
        raise said(RuntimeError, "[from_dlpack] cpu memory was required: got device type %d" % m.dl_tensor.device.device_type + "\nhint: move the array to main memory in the library that made it")
    for i in range(FK_DTYPES_N):
        if ITEMSIZE[i] * 8 == m.dl_tensor.dtype.bits and m.dl_tensor.dtype.lanes == 1:
            if m.dl_tensor.dtype.code == 4 and i == BF16: dt = i
            elif m.dl_tensor.dtype.code == 1 and KIND[i] == KIND_INT and not (<dtype>DTYPES[i]).is_signed: dt = i
            elif m.dl_tensor.dtype.code == 0 and KIND[i] == KIND_INT and (<dtype>DTYPES[i]).is_signed: dt = i
            elif m.dl_tensor.dtype.code == 2 and KIND[i] == KIND_FLOAT and i != BF16 and dt < 0: dt = i
            elif m.dl_tensor.dtype.code == 5 and KIND[i] == KIND_COMPLEX: dt = i
            elif m.dl_tensor.dtype.code == 6 and i == B8: dt = i
    if dt < 0:
        raise said(RuntimeError, "[from_dlpack] a known dtype was required: got code %d with %d bits" % (m.dl_tensor.dtype.code, m.dl_tensor.dtype.bits) + "\nhint: convert the array in the library that made it")
    PyCapsule_SetName(capsule, "used_dltensor")
    owner.m = m
    shape = [m.dl_tensor.shape[i] for i in range(m.dl_tensor.ndim)]
    strides = [0] * len(shape)
    for i in range(m.dl_tensor.ndim - 1, -1, -1):
        strides[i] = m.dl_tensor.strides[i] if m.dl_tensor.strides != NULL else s
        s *= shape[i]
        extent += (shape[i] - 1) * strides[i]
    return tensor_on_memory(<char *>m.dl_tensor.data + m.dl_tensor.byte_offset, extent * ITEMSIZE[dt] if 0 not in shape else 0, owner, dt,
                            shape, strides, False)
