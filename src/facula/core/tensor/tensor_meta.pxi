# What is known of a tensor without its elements.
#
# Gives: `TensorMeta` and, where speed counts, `meta_of_tensor`.


@cython.freelist(256)
cdef class TensorMeta:
    """What a gradient formula may know of an argument without keeping its elements."""
    cdef readonly object shape, dtype, device
    cdef object strides_         # None: those in `few`
    cdef int64_t few[6]
    cdef readonly int64_t storage_offset
    cdef readonly bint requires_grad

    def __init__(self, Tensor t):
        self.read(t)

    cdef int read(self, Tensor t) except -1:
        cdef bint fake = t.keys & K_FAKE != 0
        self.shape = t.shape if fake else make_size(t.nd, t.sh)
        self.dtype = <object>DTYPES[t.dt]
        self.device = t.fake_device if fake else <object>DEVICES[t.dev]
        if not fake and t.nd <= 6: memcpy(self.few, t.sd, t.nd * 8)
        else: self.strides_ = t.stride() if fake else fk_int_tuple(NULL, t.nd, t.sd)
        self.storage_offset = t.storage_offset() if fake else offset_of(t)
        self.requires_grad = (t.keys & K_GRAD) != 0
        return 0

    @property
    def strides(self):
        """The steps between elements, a number a dimension."""
        return fk_int_tuple(NULL, len(self.shape), self.few) if self.strides_ is None else self.strides_

    @property
    def ndim(self):
        return len(self.shape)

    def dim(self):
        return len(self.shape)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def stride(self):
        return self.strides

    def numel(self):
        return self.shape.numel()


cdef inline int64_t offset_of(Tensor t) noexcept:
    """The position of the first element in the storage."""
    cdef int64_t start = <int64_t>t.data_
    if t.st != NULL and t.st.data != NULL: start -= <int64_t>t.st.data
    return start // ITEMSIZE[t.dt]


cdef inline TensorMeta meta_of_tensor(Tensor t):
    cdef TensorMeta m = TensorMeta.__new__(TensorMeta)
    m.read(t)
    return m
