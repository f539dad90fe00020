# Storages as Python objects: the bytes under tensors.
#
# Keeps true: tensors that share memory answer with one storage object as long as somebody holds it.

cdef int check_elements(UntypedStorage s) except -1:
    """Raise where there are no bytes to read."""
    if s.dev == 1: raise said(NotImplementedError, "[UntypedStorage] bytes were required: Not available for 'meta' device type\nhint: make the storage on another device")
    return 0


cdef class UntypedStorage:
    """The bytes behind tensors; views share one.

    Example:
        >>> x = facula.zeros(2, 3)
        >>> len(x.untyped_storage()), x[0].untyped_storage().data_ptr() == x.data_ptr()
        (24, True)
    """
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
        if isinstance(size, UntypedStorage):        # the same bytes, in an object of another class
            self.dev = (<UntypedStorage>size).dev
            self.st = (<UntypedStorage>size).st
            self.st.refs += 1
            if self.st.object == NULL: self.st.object = <void *>self
            return
        self.dev = device_number(device)
        if isinstance(size, (list, tuple, bytes, bytearray)):
            data = bytes(size)
            n = len(data)
            self.st = new_storage(n, self.dev)
            if self.st.data != NULL: memcpy(self.st.data, <const char *><bytes>data, n)
        else:
            self.st = new_storage(size, self.dev)
        self.st.object = <void *>self

    def __dealloc__(self):
        if self.st != NULL:
            if self.st.object == <void *>self: self.st.object = NULL
            fk_storage_decref(self.st)

    @staticmethod
    def from_buffer(buffer, dtype=None):
        """The storage on an object with the buffer protocol, kept alive; bytes have no dtype: `dtype` says nothing."""
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
                raise said(RuntimeError, "[from_file] a file of %d bytes was required: %s has %d" % (nbytes, filename, size) + "\nhint: ask for fewer elements, or share=True to let the file grow")
            n = nbytes or size
            if n == 0:
                return UntypedStorage(0)
            if shared:
                memory = SharedMemory(fd, n)
                memory.filename = filename
                return memory.storage()
            mapped = mmap.mmap(fd, n, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
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
        """The address of the first byte; 0 on devices whose memory has no addresses. From then on what is written through it
        may go unseen."""
        if self.st.device and self.st.owner != NULL: return foreign_address(self.st, 0)
        if self.st.flags & FK_LAZY: own_storage(self.st, None)
        self.st.flags |= FK_POINTED
        return <uintptr_t>self.st.data

    @property
    def _cdata(self):
        self.st.flags |= FK_POINTED
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

    @property
    def filename(self):
        """The file that holds the bytes and gets what is written to them; None where there is none."""
        return getattr(shared_memory_of(self), "filename", None)

    def share_memory_(self):
        """Move the bytes, with every tensor on them, to memory that other processes can map."""
        share_bytes(self, None)
        return self

    @staticmethod
    def _new_shared(nbytes, *, device="cpu"):
        """A storage whose bytes other processes can map."""
        cdef UntypedStorage s = UntypedStorage(nbytes, device=device)
        share_bytes(s, None)
        return s

    def resizable(self):
        return not (self.st.flags & (FK_FOREIGN | FK_NO_RESIZE | FK_SHARED))

    def resize_(self, int64_t nbytes):
        """Change the number of bytes, keeping what fits."""
        if self.st.flags & (FK_FOREIGN | FK_NO_RESIZE | FK_SHARED):
            raise said(RuntimeError, "[resize_] resizable storage was required: Trying to resize storage that is not resizable\nhint: clone() gives a storage of its own")
        if nbytes < 0:
            raise said(RuntimeError, "[resize_] a non-negative number of bytes was required: got %d\nhint: 0 gives the memory back" % nbytes)
        resize_storage(self.st, nbytes)
        self.st.uncounted += 1
        return self

    def as_tensor(self, dtype=None):
        """A 1-d tensor on these bytes."""
        cdef Tensor t = Tensor.__new__(Tensor)
        cdef int dt = U8 if dtype is None else as_dtype(dtype).index
        t.st = self.st
        self.st.refs += 1
        t.data_ = self.st.data
        t.dt = dt; set_rank(t, 1); t.dev = self.dev
        if self.dev: t.keys |= K_META if self.dev == 1 else K_FOREIGN
        if self.st.flags & FK_META: t.keys |= K_META
        t.numel_ = self.st.nbytes // ITEMSIZE[dt]
        t.sh[0] = t.numel_; t.sd[0] = 1
        return t

    def __getitem__(self, index):
        if isinstance(index, slice):
            part = self.as_tensor()[index]
            return (<Tensor>copy_like(part, part)).untyped_storage()
        check_elements(self)
        return self.as_tensor()[index].item()

    def __setitem__(self, index, value):
        self.as_tensor()[index] = value

    def tolist(self):
        check_elements(self)
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

    def _fix_weakref(self):
        """Nothing to do: a weak reference to a storage holds as long as the object."""

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
        return (_rebuild_storage, (bytes(bytes_of(self)),))

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if self.st.flags & FK_LAZY: own_storage(self.st, None)
        self.st.flags |= FK_POINTED | FK_NO_RESIZE
        show_bytes(buffer, self, self.st)

    def __releasebuffer__(self, Py_buffer *buffer):
        pass


cdef int own_storage(fk_storage *st, Tensor only) except -1:
    """Give a storage that shares its data with copies of it data of its own: somebody is about to write to it."""
    cdef char *before = st.data
    refuse_keeping()
    if fk_storage_own(st): raise_memory(st.nbytes)
    if st.data == before: return 0
    if only is not None and st.refs == 1: only.data_ = st.data + (only.data_ - before)
    else: repoint(st, before, None)
    return 0


cdef inline int own_bytes(Tensor t) except -1:
    """The same for a tensor's storage."""
    if t.st != NULL and t.st.flags & FK_LAZY: own_storage(t.st, t)
    return 0


def lazy_clone(Tensor t):
    """A copy that shares the data until one of both is written to, through whatever view; a plain copy where others may
    write unseen."""
    cdef fk_storage *st = NULL
    cdef Tensor r
    if t.st != NULL and t.nd <= MAX_DIMS and t.dev == 0 and not (t.keys & K_META) and not (
            t.st.flags & (FK_FOREIGN | FK_META | FK_SHARED | FK_NO_RESIZE | FK_POINTED)) and (
            not t.st.flags & FK_READONLY or t.st.flags & FK_LAZY):
        refuse_keeping()
        st = fk_storage_lend(t.st)
    if st == NULL: return copy_like(t, t)
    r = raw_view(t, [t.sh[i] for i in range(t.nd)], [t.sd[i] for i in range(t.nd)], 0)
    fk_storage_decref(r.st)
    r.st = st
    r.data_ = t.data_
    r.base = None
    if r.view_link != NULL: forget_view(r)
    return r


def is_lazy_clone(Tensor t):
    """Whether the tensor's data is also that of a copy of it, until one of both is written to."""
    return t.st != NULL and t.st.flags & FK_LAZY != 0


cdef int resize_storage(fk_storage *st, int64_t nbytes) except -1:
    """Change the number of bytes; what stands on the storage goes where the bytes go."""
    if st.flags & FK_LAZY: own_storage(st, None)
    cdef char *before = st.data
    cdef int r = fk_storage_resize(st, nbytes)
    if r == -2:
        raise said(RuntimeError, "[resize_] resizable storage was required: Trying to resize storage that is not resizable\nhint: clone() gives a storage of its own")
    if r != 0:
        raise_memory(nbytes)
    if st.data != before and before != NULL and st.refs > 1:
        repoint(st, before, None)
    return 0


cdef int show_bytes(Py_buffer *buffer, object owner, fk_storage *st) except -1:
    if st.data == NULL and st.nbytes:
        raise said(NotImplementedError, "[storage] a storage with bytes was required: Cannot copy out of meta tensor; no data!\nhint: a tensor of the meta device has a shape only: make one with device='cpu'")
    buffer.buf = st.data
    buffer.obj = owner
    buffer.len = st.nbytes
    buffer.itemsize = 1
    buffer.readonly = (st.flags & FK_READONLY) != 0
    buffer.ndim = 1
    buffer.format = "B"
    buffer.shape = <Py_ssize_t *>&st.nbytes
    buffer.strides = &buffer.itemsize
    buffer.suboffsets = NULL
    buffer.internal = NULL
    return 0


cdef class _Bytes:
    """The bytes of a storage for code that only reads them, or fills a storage that nobody else has yet."""
    cdef UntypedStorage storage

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        cdef fk_storage *block = fk_storage_block(self.storage.st)
        show_bytes(buffer, self, self.storage.st)
        block.refs += 1                    # a resize may take it from the storage
        buffer.internal = <void *>block

    def __releasebuffer__(self, Py_buffer *buffer):
        fk_storage_decref(<fk_storage *>buffer.internal)


def bytes_of(UntypedStorage storage):
    """A `memoryview` of a storage for the framework's own use: nobody is taken for a writer because of it."""
    cdef _Bytes shown = _Bytes.__new__(_Bytes)
    shown.storage = storage
    return memoryview(shown)


def _rebuild_storage(data):
    return UntypedStorage(data)


def storage_of(Tensor t):
    """The storage of a tensor: the same object as long as somebody holds it."""
    cdef UntypedStorage s
    cdef PyObject *known = <PyObject *>t.st.object
    if known != NULL and fk_refs(known) > 0:       # 0: it is being freed, and weak references hear of it
        s = <UntypedStorage>known
        if s.dev == t.dev: return s
    s = UntypedStorage.__new__(UntypedStorage)
    s.st = t.st
    t.st.refs += 1
    s.dev = t.dev
    t.st.object = <void *>s
    return s


def set_storage(Tensor t, UntypedStorage source, offset, shape, strides):
    """Put a tensor onto other bytes: offset, shape and strides in elements."""
    shape = tuple(shape); strides = tuple(strides)
    cdef int i, nd = <int>len(shape)
    cdef int64_t sh[MAX_DIMS]
    cdef int64_t sd[MAX_DIMS]
    cdef int64_t needed = -1, at = whole(offset, "set_", ValueError)
    cdef fk_storage *before = t.st
    if nd > MAX_DIMS:
        raise said(RuntimeError, "[set_] at most %d dimensions were required: got %d" % (MAX_DIMS, len(shape)) + "\nhint: merge dimensions with reshape")
    for i, (n, s) in enumerate(zip(shape, strides, strict=True)):
        if n < 0 or s < 0:
            raise said(RuntimeError, "[set_] non-negative sizes and strides were required: got %s, %s" % (list(shape), list(strides)) + "\nhint: flip() reverses a dimension")
        if n > 0x7fffffffffffffff or s > 0x7fffffffffffffff: break
        sh[i] = n; sd[i] = s
    else:
        needed = geometry_bytes(nd, sh, sd, at, ITEMSIZE[t.dt])
    if at < 0 or needed < 0 or (needed > source.st.nbytes and source.dev != 1):
        raise said(RuntimeError, "[set_] a geometry inside the storage was required: sizes %s, strides %s, offset %d need %s bytes, the "
                           "storage has %d (out of bounds for storage of size %d)" % (list(shape), list(strides), at, needed if needed >= 0 else "more", source.st.nbytes, source.st.nbytes) + "\nhint: resize the storage first, or ask for fewer elements")
    shape_numel(nd, sh)
    source.st.refs += 1
    t.st = source.st
    t.dev = source.dev
    t.data_ = t.st.data + at * ITEMSIZE[t.dt]
    set_rank(t, nd)
    for i in range(nd):
        t.sh[i] = sh[i]; t.sd[i] = sd[i]
    finish_view(t)
    t.keys &= ~<uint32_t>(K_META | K_FOREIGN)
    if source.dev == 1 or source.st.flags & FK_META: t.keys |= K_META
    elif source.dev: t.keys |= K_FOREIGN
    if before != NULL: fk_storage_give_up(before)
    return t
