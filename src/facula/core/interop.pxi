# Tensors from and to Python lists, NumPy arrays, buffers and DLPack capsules; storages; random numbers.

cdef void release_owner(void *owner) noexcept nogil:
    with gil:
        drop_owner(owner)


cdef void drop_owner(void *owner) noexcept:
    Py_DECREF(<object>owner)


cdef Tensor tensor_on_memory(void *data, int64_t nbytes, object owner, int dt, shape, strides, bint readonly):
    """A tensor on memory that `owner` keeps alive; strides in elements."""
    cdef Tensor t = Tensor.__new__(Tensor)
    cdef int i
    Py_INCREF(owner)
    t.st = fk_storage_from(data, nbytes, <void *>owner, release_owner)
    if t.st == NULL:
        Py_DECREF(owner)
        raise_memory(nbytes)
    t.st.flags |= FK_NO_RESIZE
    if readonly: t.st.flags |= FK_READONLY
    t.data_ = <char *>data
    t.dt = dt
    t.nd = <int>len(shape)
    for i in range(t.nd):
        t.sh[i] = shape[i]; t.sd[i] = strides[i]
    finish_view(t)
    return t


cdef dict _TYPESTR = {"f4": F32, "f8": F64, "f2": F16, "i8": I64, "i4": I32, "i2": I16, "i1": I8, "u1": U8, "b1": B8,
                      "c8": C64, "c16": C128, "u2": U16, "u4": U32, "u8": U64}
cdef dict _TYPESTR_OF = {v: k for k, v in _TYPESTR.items()}


def from_numpy(array):
    """A tensor on the memory of a NumPy array, without a copy.

    Raises TypeError for other objects and dtypes, ValueError for negative strides.
    """
    cdef int64_t offset_low = 0, extent
    interface = getattr(array, "__array_interface__", None)
    if interface is None or not hasattr(array, "strides"):
        raise TypeError("[from_numpy] a NumPy array was required: expected np.ndarray (got %s)" % type(array).__name__)
    code = interface["typestr"]
    if code[0] == ">" :
        raise ValueError("[from_numpy] native byte order was required: given numpy array has byte order different from the native "
                         "byte order. Conversion between byte orders is currently not supported.\nhint: use array.astype(array.dtype.newbyteorder('='))")
    dt = _TYPESTR.get(code[1:])
    if dt is None:
        raise TypeError("[from_numpy] a numeric dtype was required: can't convert np.ndarray of type %s. The only supported types "
                        "are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint8, uint16, uint32, "
                        "uint64 and bool." % array.dtype)
    shape = interface["shape"]
    if len(shape) > MAX_DIMS:
        raise ValueError("[from_numpy] at most %d dimensions were required: got %d" % (MAX_DIMS, len(shape)))
    strides = array.strides
    size = ITEMSIZE[dt]
    extent = size
    for n, s in zip(shape, strides):
        if s < 0:
            raise ValueError("[from_numpy] non-negative strides were required: at least one of the strides in the given numpy "
                             "array is negative, and tensors with negative strides are not supported.\nhint: make a copy with array.copy()")
        if s % size:
            raise ValueError("[from_numpy] strides that are multiples of the element size were required: got %s" % (strides,))
        extent += (n - 1) * s if n else 0
    address, readonly = interface["data"]
    if 0 in shape:
        return tensor_on_memory(<void *><uintptr_t>address, 0, array, dt, shape, [s // size for s in strides], readonly)
    if readonly:
        import warnings
        warnings.warn("[from_numpy] The given NumPy array is not writable; writing to the tensor is an error here.", UserWarning, stacklevel=2)
    return tensor_on_memory(<void *><uintptr_t>address, extent, array, dt, shape, [s // size for s in strides], readonly)


class _ArrayHolder:
    """Shows a tensor's memory to NumPy and keeps the tensor alive."""
    __slots__ = ("tensor", "__array_interface__", "__weakref__")

    def __init__(self, tensor, interface):
        self.tensor = tensor
        self.__array_interface__ = interface


def to_numpy(Tensor t, bint force=False):
    """A NumPy array on the tensor's memory."""
    cdef int i
    import numpy
    if force:
        t = detach_(t) if t.dev == 0 else t.detach().cpu()
    if t.keys & K_GRAD and not (fk_tls_keys() & K_NOGRAD):
        raise RuntimeError("[numpy] a tensor that does not require grad was required: Can't call numpy() on Tensor that requires "
                           "grad.\nhint: use tensor.detach().numpy() instead")
    if t.dev != 0 or t.keys & K_META:
        raise TypeError("[numpy] a cpu tensor was required: can't convert %s device type tensor to numpy.\nhint: use Tensor.cpu() "
                        "to copy the tensor to host memory first" % DEVICES[t.dev])
    code = _TYPESTR_OF.get(t.dt)
    if code is None:
        raise TypeError("[numpy] a dtype that NumPy has was required: got unsupported ScalarType %s\nhint: use .float() first"
                        % (<dtype>DTYPES[t.dt]).type_word)
    size = ITEMSIZE[t.dt]
    if t.numel_ == 0:
        return numpy.empty(tuple([t.sh[i] for i in range(t.nd)]), dtype="=" + code)
    holder = _ArrayHolder(t, {
        "shape": tuple([t.sh[i] for i in range(t.nd)]),
        "strides": tuple([t.sd[i] * size for i in range(t.nd)]),
        "typestr": "<" + code if code not in ("b1", "u1", "i1") else "|" + code,
        "data": (<uintptr_t>t.data_, (t.st.flags & FK_READONLY) != 0), "version": 3})
    t.st.flags |= FK_NO_RESIZE
    return numpy.asarray(holder)


def tolist(Tensor t):
    """Nested Python lists of numbers; a number for 0-d."""
    if t.keys & K_META:
        raise NotImplementedError("[tolist] a tensor with data was required: Cannot copy out of meta tensor; no data!")
    if t.dev != 0:
        t = t.cpu()
    return nested_list(t, 0, t.data_)


def item(Tensor t):
    """The only element as a Python number."""
    if t.numel_ != 1:
        raise RuntimeError("[item] a tensor with one element was required: got the shape %s (a Tensor with %d elements cannot be "
                           "converted to Scalar)\nhint: use .tolist() or reduce first" % (list(make_size(t.nd, t.sh)), t.numel_))
    if t.keys & K_META:
        raise RuntimeError("[item] a tensor with data was required: Tensor.item() cannot be called on meta tensors")
    if t.dev != 0:
        t = t.cpu()
    return load_element(t.data_, t.dt)


cdef int discover(object data, list shape, int depth, int *kind) except -1:
    """Shape and kind of nested sequences; kind: of DTYPE kinds, -1 while unknown, a dtype + 100 when an element has one."""
    if isinstance(data, (list, tuple)):
        if depth == len(shape):
            shape.append(len(data))
        elif shape[depth] != len(data):
            raise ValueError("[tensor] sequences of equal length were required: expected sequence of length %d at dim %d (got %d)"
                             % (shape[depth], depth, len(data)))
        if depth >= MAX_DIMS:
            raise ValueError("[tensor] at most %d nested dimensions were required" % MAX_DIMS)
        for x in data:
            discover(x, shape, depth + 1, kind)
        return 0
    if isinstance(data, Tensor) or hasattr(data, "__array_interface__") and getattr(data, "ndim", 0):
        inner = list(data.shape)
        for i, n in enumerate(inner):
            if depth + i == len(shape): shape.append(n)
            elif shape[depth + i] != n:
                raise ValueError("[tensor] sequences of equal length were required: expected sequence of length %d at dim %d (got %d)"
                                 % (shape[depth + i], depth + i, n))
        dt = (<Tensor>data).dt if isinstance(data, Tensor) else (<Tensor>from_numpy_copy(data)).dt
        if kind[0] >= 100: kind[0] = 100 + PROMOTE[kind[0] - 100][dt]
        elif kind[0] < 0 or True: kind[0] = 100 + dt
        return 0
    if depth != len(shape):
        raise TypeError("[tensor] sequences of equal depth were required: not a sequence at depth %d (got %s)" % (depth, type(data).__name__))
    if data is True or data is False: k = KIND_BOOL
    elif isinstance(data, int): k = KIND_INT
    elif isinstance(data, float): k = KIND_FLOAT
    elif isinstance(data, complex): k = KIND_COMPLEX
    elif hasattr(data, "dtype") and hasattr(data, "item"):
        code = data.dtype.str[1:]
        if code not in _TYPESTR:
            raise TypeError("[tensor] numbers were required: got " + str(data.dtype))
        dt = _TYPESTR[code]
        kind[0] = 100 + (PROMOTE[kind[0] - 100][dt] if kind[0] >= 100 else dt)
        return 0
    elif hasattr(data, "__index__"): k = KIND_INT
    elif hasattr(data, "__float__"): k = KIND_FLOAT
    else:
        raise TypeError("[tensor] numbers or sequences of numbers were required: could not infer dtype of %s" % type(data).__name__)
    if kind[0] < 100 and k > kind[0]: kind[0] = k
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
        for x in data:
            fill_nested(x, t, d + 1, p + i * t.sd[d] * ITEMSIZE[t.dt])
            i += 1
        return 0
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
    """A new tensor with a copy of `data`: numbers, nested lists, arrays or tensors.

    dtype: default by the data (floats: the default dtype). Raises ValueError for ragged lists, TypeError for other objects.
    """
    cdef Tensor t
    cdef int kind = -1, dt, dev = device_number(device)
    cdef int64_t sh[16]
    cdef list shape
    if fk_tls_keys() & K_FUNCTION_MODE:
        given = {"dtype": dtype, "device": device, "requires_grad": requires_grad or None, "pin_memory": pin_memory or None}
        r = torch_function(tensor, (data,), {k: v for k, v in given.items() if v is not None}, fk_tls_keys())
        if r is not NotImplemented: return r
    if isinstance(data, Tensor):
        import warnings
        warnings.warn("[tensor] To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                      "sourceTensor.detach().clone().requires_grad_(True), rather than tensor(sourceTensor).", UserWarning, stacklevel=2)
        t = convert(detach_(data), (<Tensor>data).dt if dtype is None else as_dtype(dtype).index, dev if device is not None else (<Tensor>data).dev, True, None)
    elif hasattr(data, "__array_interface__") or (hasattr(data, "__array__") and not isinstance(data, (int, float, complex))):
        import numpy
        array = numpy.asarray(data)
        t = from_numpy_copy(array)
        t = convert(t, t.dt if dtype is None else as_dtype(dtype).index, dev, True, contiguous_format)
    elif isinstance(data, UntypedStorage):
        raise TypeError("[tensor] numbers or sequences were required: got a storage")
    else:
        if not isinstance(data, (list, tuple)) and hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (str, bytes, dict)):
            data = list(data)
        shape = []
        discover(data, shape, 0, &kind)
        if dtype is not None: dt = as_dtype(dtype).index
        elif kind >= 100: dt = kind - 100
        elif kind == KIND_BOOL: dt = B8
        elif kind == KIND_INT: dt = I64
        elif kind == KIND_COMPLEX: dt = COMPLEX_OF[DEFAULT_DTYPE]
        else: dt = DEFAULT_DTYPE
        nd = parse_shape(shape, sh)
        t = new_tensor(nd, sh, dt, 0)
        if t.numel_:
            fill_nested(data, t, 0, t.data_)
        if dev:
            t = convert(t, dt, dev, False, None)
    if requires_grad:
        set_requires_grad(t, True)
    return t


def as_tensor(data, dtype=None, device=None):
    """A tensor from anything that `tensor` takes, sharing memory with tensors and arrays where it can."""
    cdef Tensor t
    if isinstance(data, Tensor):
        t = data
    elif hasattr(data, "__array_interface__") and hasattr(data, "strides"):
        t = from_numpy_copy(data)
    else:
        return tensor(data, dtype=dtype, device=device)
    return convert(t, t.dt if dtype is None else as_dtype(dtype).index, t.dev if device is None else device_number(device), False, None)


cdef Tensor as_tensor_like(object value, Tensor like):
    return tensor(value, dtype=<object>DTYPES[like.dt], device=<object>DEVICES[like.dev])


def frombuffer(buffer, *, dtype, int64_t count=-1, int64_t offset=0, requires_grad=False):
    """A 1-d tensor on the memory of an object with the buffer protocol."""
    cdef int dt = as_dtype(dtype).index
    view = memoryview(buffer).cast("B")
    cdef int64_t n = view.nbytes, size = ITEMSIZE[dt]
    if n == 0:
        raise ValueError("[frombuffer] a buffer with elements was required: both buffer length (%d) and count (%d) must not be 0" % (n, count))
    if offset < 0 or offset >= n:
        raise ValueError("[frombuffer] an offset in [0, %d) was required: got %d" % (n, offset))
    if count < 0:
        if (n - offset) % size:
            raise ValueError("[frombuffer] a whole number of elements was required: buffer length (%d bytes) after offset (%d bytes) "
                             "must be a multiple of element size (%d)" % (n, offset, size))
        count = (n - offset) // size
    if count == 0 or offset + count * size > n:
        raise ValueError("[frombuffer] a buffer of %d bytes was required: requested buffer length (%d * %d bytes) after offset (%d "
                         "bytes) must not be greater than actual buffer length (%d bytes)" % (offset + count * size, count, size, offset, n))
    cdef const unsigned char[:] raw
    cdef Tensor t
    raw = view
    readonly = view.readonly
    t = tensor_on_memory(<void *>(&raw[0] + offset), count * size, view, dt, (count,), (1,), False)
    if readonly:
        import warnings
        warnings.warn("[frombuffer] The given buffer is not writable; writing to the tensor is an error here.", UserWarning, stacklevel=2)
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
    """A DLPack capsule on the tensor's memory."""
    cdef fk_dl_managed *m
    cdef int i
    if t.keys & K_GRAD:
        raise BufferError("[dlpack] a tensor that does not require grad was required: Can't export tensors that require gradient, "
                          "use tensor.detach()")
    if t.dev != 0:
        raise BufferError("[dlpack] a cpu tensor was required: got " + str(DEVICES[t.dev]))
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
    Py_INCREF(t)
    m.manager_ctx = <void *>t
    m.deleter = dl_delete
    return PyCapsule_New(m, "dltensor", dl_capsule_delete)


cdef class _DLOwner:
    cdef fk_dl_managed *m

    def __dealloc__(self):
        if self.m != NULL and self.m.deleter != NULL:
            self.m.deleter(self.m)


def from_dlpack(source):
    """A tensor on the memory of a DLPack capsule, or of an object with `__dlpack__`."""
    cdef fk_dl_managed *m
    cdef _DLOwner owner = _DLOwner.__new__(_DLOwner)
    cdef int i, dt = -1
    cdef int64_t extent = 1, s = 1
    capsule = source.__dlpack__() if hasattr(source, "__dlpack__") else source
    if not PyCapsule_IsValid(capsule, "dltensor"):
        raise RuntimeError("[from_dlpack] an unused DLPack capsule was required: got %r (note that DLTensor capsules can be consumed "
                           "only once)" % (capsule,))
    m = <fk_dl_managed *>PyCapsule_GetPointer(capsule, "dltensor")
    if m.dl_tensor.device.device_type != 1:
        raise RuntimeError("[from_dlpack] cpu memory was required: got device type %d" % m.dl_tensor.device.device_type)
    for i in range(FK_DTYPES_N):
        if ITEMSIZE[i] * 8 == m.dl_tensor.dtype.bits and m.dl_tensor.dtype.lanes == 1:
            if m.dl_tensor.dtype.code == 4 and i == BF16: dt = i
            elif m.dl_tensor.dtype.code == 1 and KIND[i] == KIND_INT and not (<dtype>DTYPES[i]).is_signed: dt = i
            elif m.dl_tensor.dtype.code == 0 and KIND[i] == KIND_INT and (<dtype>DTYPES[i]).is_signed: dt = i
            elif m.dl_tensor.dtype.code == 2 and KIND[i] == KIND_FLOAT and i != BF16 and dt < 0: dt = i
            elif m.dl_tensor.dtype.code == 5 and KIND[i] == KIND_COMPLEX: dt = i
            elif m.dl_tensor.dtype.code == 6 and i == B8: dt = i
    if dt < 0:
        raise RuntimeError("[from_dlpack] a known dtype was required: got code %d with %d bits" % (m.dl_tensor.dtype.code, m.dl_tensor.dtype.bits))
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


# ------------------------------------------------------------------ storages

cdef class UntypedStorage:
    """The bytes behind tensors."""
    cdef fk_storage *st
    cdef int dev
    cdef object __weakref__
    cdef dict __dict__

    def __cinit__(self, *args, **kwargs):
        self.st = NULL

    def __init__(self, size=0, *, device=None):
        cdef int64_t n
        if self.st != NULL:
            return
        self.dev = device_number(device)
        if isinstance(size, (list, tuple, bytes, bytearray)):
            data = bytes(size)
            n = len(data)
            self.st = new_storage(n, self.dev)
            memcpy(self.st.data, <const char *><bytes>data, n)
        else:
            self.st = new_storage(size, self.dev)

    def __dealloc__(self):
        if self.st != NULL:
            fk_storage_decref(self.st)

    @staticmethod
    def from_buffer(buffer):
        """The storage on an object with the buffer protocol, kept alive."""
        return frombuffer(buffer, dtype=DTYPES[U8]).untyped_storage() if memoryview(buffer).nbytes else UntypedStorage(0)

    @staticmethod
    def from_file(filename, shared=False, nbytes=0):
        """The bytes of a file, mapped: writes reach the file when `shared`."""
        import mmap
        import os
        if shared:
            fd = os.open(filename, os.O_RDWR | os.O_CREAT)
        else:
            fd = os.open(filename, os.O_RDONLY)
        try:
            size = os.fstat(fd).st_size
            if shared and nbytes > size:
                os.ftruncate(fd, nbytes)
            elif nbytes > size:
                raise RuntimeError("[from_file] a file of %d bytes was required: %s has %d" % (nbytes, filename, size))
            n = nbytes or size
            if n == 0:
                return UntypedStorage(0)
            mapped = mmap.mmap(fd, n, flags=mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE,
                               prot=mmap.PROT_READ | mmap.PROT_WRITE)
        finally:
            os.close(fd)
        return frombuffer(mapped, dtype=DTYPES[U8]).untyped_storage()

    def nbytes(self):
        """The number of bytes."""
        return self.st.nbytes

    def size(self):
        """The number of bytes."""
        return self.st.nbytes

    def __len__(self):
        return self.st.nbytes

    def element_size(self):
        return 1

    def data_ptr(self):
        """The address of the first byte."""
        return <uintptr_t>self.st.data

    @property
    def _cdata(self):
        return <uintptr_t>self.st

    @property
    def device(self):
        return DEVICES[self.dev]

    @property
    def dtype(self):
        return DTYPES[U8]

    @property
    def is_cuda(self):
        return False

    is_sparse = False

    def is_shared(self):
        return (self.st.flags & FK_SHARED) != 0

    def resizable(self):
        return not (self.st.flags & (FK_FOREIGN | FK_NO_RESIZE))

    def resize_(self, int64_t nbytes):
        """Change the number of bytes, keeping what fits."""
        if self.st.flags & (FK_FOREIGN | FK_NO_RESIZE):
            raise RuntimeError("[resize_] resizable storage was required: Trying to resize storage that is not resizable")
        if fk_storage_resize(self.st, nbytes) != 0:
            raise_memory(nbytes)
        return self

    def as_tensor(self, dtype=None):
        """A 1-d tensor on these bytes."""
        cdef Tensor t = Tensor.__new__(Tensor)
        cdef int dt = U8 if dtype is None else as_dtype(dtype).index
        t.st = self.st
        self.st.refs += 1
        t.data_ = self.st.data
        t.dt = dt; t.nd = 1; t.dev = self.dev
        if self.dev: t.keys |= K_META if self.dev == 1 else K_FOREIGN
        t.numel_ = self.st.nbytes // ITEMSIZE[dt]
        t.sh[0] = t.numel_; t.sd[0] = 1
        return t

    def __getitem__(self, index):
        if isinstance(index, slice):
            part = self.as_tensor()[index]
            return (<Tensor>copy_like(part, part)).untyped_storage()
        return self.as_tensor()[index].item()

    def __setitem__(self, index, value):
        self.as_tensor()[index] = value

    def tolist(self):
        return tolist(self.as_tensor())

    def clone(self):
        return (<Tensor>self.as_tensor()).clone().untyped_storage()

    def copy_(self, source, non_blocking=False):
        self.as_tensor().copy_(source.as_tensor() if isinstance(source, UntypedStorage) else source)
        return self

    def fill_(self, value):
        self.as_tensor().fill_(value)
        return self

    def cpu(self):
        return self

    def __iter__(self):
        return iter(self.tolist())

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and (<UntypedStorage>other).st == self.st

    def __hash__(self):
        return <uintptr_t>self.st

    def __repr__(self):
        return "<%s.storage.UntypedStorage of %d bytes on %s>" % (DTYPE_PREFIX[0], self.st.nbytes, DEVICES[self.dev])

    def __deepcopy__(self, memo):
        key = ("facula.storage", <uintptr_t>self.st)
        if key not in memo:
            memo[key] = self.clone()
        return memo[key]

    def __reduce__(self):
        return (_rebuild_storage, (bytes(memoryview(self)),))

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        buffer.buf = self.st.data
        buffer.obj = self
        buffer.len = self.st.nbytes
        buffer.itemsize = 1
        buffer.readonly = (self.st.flags & FK_READONLY) != 0
        buffer.ndim = 1
        buffer.format = "B"
        buffer.shape = <Py_ssize_t *>&self.st.nbytes
        buffer.strides = &buffer.itemsize
        buffer.suboffsets = NULL
        buffer.internal = NULL

    def __releasebuffer__(self, Py_buffer *buffer):
        pass


def _rebuild_storage(data):
    return UntypedStorage(data)


def storage_of(Tensor t):
    """The storage of a tensor."""
    cdef UntypedStorage s = UntypedStorage.__new__(UntypedStorage)
    s.st = t.st
    t.st.refs += 1
    s.dev = t.dev
    return s


def set_storage(Tensor t, UntypedStorage source, int64_t offset, shape, strides):
    """Put a tensor onto other bytes: offset, shape and strides in elements."""
    cdef int i
    cdef int64_t last = offset
    cdef bint none = False
    for n, s in zip(shape, strides):
        if n < 0 or s < 0:
            raise RuntimeError("[set_] non-negative sizes and strides were required: got %s, %s" % (list(shape), list(strides)))
        if n == 0: none = True
        last += (n - 1) * s
    if offset < 0 or (not none and (last + 1) * ITEMSIZE[t.dt] > source.st.nbytes and source.dev != 1):
        raise RuntimeError("[set_] a geometry inside the storage was required: sizes %s, strides %s, offset %d need %d bytes, the "
                           "storage has %d (out of bounds for storage)" % (list(shape), list(strides), offset, (last + 1) * ITEMSIZE[t.dt], source.st.nbytes))
    if len(shape) > MAX_DIMS:
        raise RuntimeError("[set_] at most %d dimensions were required: got %d" % (MAX_DIMS, len(shape)))
    source.st.refs += 1
    if t.st != NULL: fk_storage_decref(t.st)
    t.st = source.st
    t.dev = source.dev
    t.data_ = t.st.data + offset * ITEMSIZE[t.dt]
    t.nd = <int>len(shape)
    for i in range(t.nd):
        t.sh[i] = shape[i]; t.sd[i] = strides[i]
    finish_view(t)
    return t


# ------------------------------------------------------------------ random numbers

cdef extern from "fk_random.h" nogil:
    int fk_random_uniform(char *, int, int64_t, double, double, uint64_t, uint64_t)
    int fk_random_normal(char *, int, int64_t, double, double, uint64_t, uint64_t)
    int fk_random_log_normal(char *, int, int64_t, double, double, uint64_t, uint64_t)
    int fk_random_exponential(char *, int, int64_t, double, uint64_t, uint64_t)
    int fk_random_cauchy(char *, int, int64_t, double, double, uint64_t, uint64_t)
    int fk_random_geometric(char *, int, int64_t, double, uint64_t, uint64_t)
    int fk_random_bernoulli(char *, int, int64_t, double, uint64_t, uint64_t)
    int fk_random_bernoulli_tensor(char *, int, int64_t, const char *, int, uint64_t, uint64_t)
    int fk_random_integers(char *, int, int64_t, int64_t, uint64_t, uint64_t, uint64_t)
    int fk_random_permutation(char *, int, int64_t, uint64_t, uint64_t)


cdef class Generator:
    """A source of random numbers: a seed, and how many draws were made from it.

    Numbers depend on (seed, offset, element index) alone: the same on every device and thread count.
    """
    cdef public uint64_t _seed, _offset
    cdef readonly object device
    cdef object __weakref__

    def __init__(self, device="cpu"):
        self.device = DEVICES[device_number(device)]
        self._seed = 67280421310721
        self._offset = 0

    def manual_seed(self, seed):
        """Start anew from a seed."""
        value = int(seed)
        if not -0x8000000000000000 <= value <= 0xffffffffffffffff:
            raise RuntimeError("[manual_seed] a seed of 64 bits was required: Overflow when unpacking long, got %d" % value)
        self._seed = value & 0xffffffffffffffff
        self._offset = 0
        return self

    def seed(self):
        """Start anew from a seed of the system; gives it."""
        import secrets
        self._seed = secrets.randbits(63)
        self._offset = 0
        return self._seed

    def initial_seed(self):
        """The seed."""
        return self._seed

    def get_state(self):
        """The state as a byte tensor."""
        return tensor(list(self._seed.to_bytes(8, "little") + self._offset.to_bytes(8, "little")), dtype=DTYPES[U8])

    def set_state(self, state):
        """Restore a state from `get_state`."""
        if not isinstance(state, Tensor) or (<Tensor>state).dt != U8:
            raise TypeError("[set_state] a byte tensor was required: RNG state must be a torch.ByteTensor, got " + type(state).__name__)
        data = bytes(state.tolist())
        if len(data) != 16:
            raise RuntimeError("[set_state] a state of 16 bytes was required: RNG state is wrong size, got %d" % len(data))
        self._seed = int.from_bytes(data[:8], "little")
        self._offset = int.from_bytes(data[8:], "little")
        return self

    def get_offset(self):
        """How many draws were made since seeding."""
        return self._offset

    def set_offset(self, offset):
        """Go on as if so many draws had been made."""
        self._offset = int(offset)

    def graphsafe_get_state(self):
        """A generator in the same state."""
        return self.clone_state()

    def graphsafe_set_state(self, state):
        """Take over the state of another generator."""
        self._seed, self._offset = state._seed, state._offset
        return self

    def __setstate__(self, state):
        self._seed, self._offset = state

    def clone_state(self):
        """A generator in the same state."""
        g = Generator()
        g._seed, g._offset = self._seed, self._offset
        return g

    def __reduce__(self):
        return (_rebuild_generator, (self._seed, self._offset))

    def take(self, int draws=1):
        """Reserve draws: gives (seed, offset) for a kernel that makes its own numbers."""
        cdef uint64_t at = self._offset
        self._offset += draws
        return self._seed, at


def _rebuild_generator(seed, offset):
    g = Generator()
    g._seed, g._offset = seed, offset
    return g

default_generator = Generator()


def manual_seed(seed):
    """Seed the default generator."""
    return default_generator.manual_seed(seed)


cdef dict _RANDOM_KINDS = {"uniform": 0, "normal": 1, "log_normal": 2, "exponential": 3, "cauchy": 4, "geometric": 5,
                           "bernoulli": 6, "randint": 7, "permutation": 8}


def random_fill(Tensor t, str kind, a=0.0, b=1.0, Generator generator=None):
    """Fill a tensor with random numbers of a distribution; element i is a function of (seed, offset, i).

    kind: uniform [a, b), normal (mean a, std b), log_normal, exponential (rate a), cauchy (median a, sigma b), geometric
    (probability a), bernoulli (probability a: a number, or a tensor of t's shape), randint [a, b), permutation.
    """
    cdef Tensor out = t, p
    cdef int which, r
    cdef uint64_t seed, offset
    cdef double x = 0, y = 0
    cdef int64_t low
    cdef uint64_t span
    which = _RANDOM_KINDS[kind]
    if generator is None:
        generator = default_generator
    seed = generator._seed; offset = generator._offset
    generator._offset += 1
    check_writable(kind, t)
    if t.numel_ == 0 or t.keys & K_META:
        return t
    if t.keys & K_FOREIGN:
        out = new_tensor(t.nd, t.sh, t.dt, 0)
    elif t.keys & K_STRIDED:
        out = new_tensor(t.nd, t.sh, t.dt, 0)
    if which == 7:
        low = a
        span = <uint64_t>(int(b) - int(a))
        with nogil: r = fk_random_integers(out.data_, out.dt, out.numel_, low, span, seed, offset)
    elif which == 6 and isinstance(a, Tensor):
        p = contiguous_(<Tensor>a)
        with nogil: r = fk_random_bernoulli_tensor(out.data_, out.dt, out.numel_, p.data_, p.dt, seed, offset)
    else:
        x = a; y = b
        with nogil:
            if which == 0: r = fk_random_uniform(out.data_, out.dt, out.numel_, x, y, seed, offset)
            elif which == 1: r = fk_random_normal(out.data_, out.dt, out.numel_, x, y, seed, offset)
            elif which == 2: r = fk_random_log_normal(out.data_, out.dt, out.numel_, x, y, seed, offset)
            elif which == 3: r = fk_random_exponential(out.data_, out.dt, out.numel_, x, seed, offset)
            elif which == 4: r = fk_random_cauchy(out.data_, out.dt, out.numel_, x, y, seed, offset)
            elif which == 5: r = fk_random_geometric(out.data_, out.dt, out.numel_, x, seed, offset)
            elif which == 6: r = fk_random_bernoulli(out.data_, out.dt, out.numel_, x, seed, offset)
            else: r = fk_random_permutation(out.data_, out.dt, out.numel_, seed, offset)
    if r == -2:
        raise_memory(0)
    if r:
        raise NotImplementedError("[%s] a dtype that the distribution has was required: \"%s\" not implemented for '%s'"
                                  % (kind, kind, (<dtype>DTYPES[t.dt]).type_word))
    if out is not t:
        copy_into(t, out)
    bump(t)
    return t
