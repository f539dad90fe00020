# Memory that other processes see: mappings of files, storages made of them, and storages that move into one.
#
# Takes: the descriptor of a file that is long enough. Gives: `SharedMemory`, and storages on it.
# Keeps true: a mapping has one storage at a time, so that what reaches a process twice is one storage there; a storage
# that moves stays the same storage, and every tensor on it sees the new place; old addresses stay readable as long as the
# storage lives; a mapping goes when its storage and whoever else holds the object are gone.

from posix.stat cimport fstat, struct_stat

cdef extern from "sys/mman.h" nogil:
    void *mmap(void *, size_t, int, int, int, long)
    int munmap(void *, size_t)
    enum: PROT_READ
    enum: PROT_WRITE
    enum: MAP_SHARED

cdef extern from *:
    """
    static inline int64_t fk_count_add(char *place, int64_t change) {
        return __atomic_add_fetch((int64_t *)(void *)place, change, __ATOMIC_SEQ_CST);
    }
    """
    int64_t fk_count_add(char *, int64_t) nogil


cdef class SharedMemory:
    """The bytes of a file behind its first `skip` ones, which hold a count of the processes, where there is one."""
    cdef char *start
    cdef readonly int64_t nbytes, skip
    cdef fk_storage *st             # borrowed: the storage clears it when it dies
    cdef object before              # what held the bytes of a storage that moved here
    cdef object __weakref__
    cdef dict __dict__

    def __cinit__(self, int descriptor, int64_t nbytes, int64_t skip=0):
        cdef void *place
        cdef struct_stat found
        if nbytes < 1 or skip < 0 or nbytes > (<int64_t>1 << 62) or skip > (<int64_t>1 << 32):
            raise said(ValueError, "[share_memory] a number of bytes above 0 was required: got %d" % nbytes + "\nhint: a storage without bytes needs no memory")
        # bytes behind the end of a file can be mapped, and end the process when they are touched
        if fstat(descriptor, &found) == 0 and found.st_size < nbytes + skip:
            raise said(ValueError, "[share_memory] a file of at least %d bytes was required: got descriptor %d, which has fewer" % (nbytes + skip, descriptor) + "\nhint: the process that shares memory reserves it first")
        place = mmap(NULL, nbytes + skip, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
        if place == <void *><uintptr_t>-1:
            raise said(OSError, "[share_memory] a file that can be mapped was required: got descriptor %d, %d bytes" % (descriptor, nbytes + skip) + "\nhint: it must be open for reading and writing, and memory must be left")
        self.start = <char *>place
        self.nbytes = nbytes
        self.skip = skip

    def __dealloc__(self):
        if self.start != NULL:
            munmap(self.start, self.nbytes + self.skip)

    def count(self, int64_t change):
        """Add to the number of processes that the first bytes hold; gives the new number."""
        if self.skip < 8:
            raise said(RuntimeError, "[share_memory] memory that counts its processes was required: got one without\nhint: the strategy file_system makes such memory")
        return fk_count_add(self.start, change)

    def storage(self):
        """The storage on these bytes."""
        cdef UntypedStorage s = UntypedStorage.__new__(UntypedStorage)
        if self.st != NULL:
            self.st.refs += 1
        else:
            Py_INCREF(self)
            self.st = fk_storage_from(self.start + self.skip, self.nbytes, <void *>self, release_shared)
            if self.st == NULL:
                Py_DECREF(self)
                raise_memory(self.nbytes)
            self.st.flags |= FK_SHARED
        s.st = self.st
        s.dev = 0
        return s


cdef void release_shared(void *owner) noexcept nogil:
    with gil:
        (<SharedMemory>owner).st = NULL
        drop_owner(owner)


def shared_memory_of(UntypedStorage storage):
    """The `SharedMemory` under a storage; None where there is none."""
    if storage.st.release == release_shared:
        return <SharedMemory>storage.st.owner
    return None


cdef int move_to_shared(UntypedStorage storage, SharedMemory memory, Tensor only) except -1:
    """Move the bytes of a storage to `memory`, and with them every tensor that lies on it."""
    cdef fk_storage *st = storage.st
    cdef UntypedStorage inner
    cdef char *old = st.data
    if memory.st != NULL or memory.nbytes < st.nbytes:
        raise said(ValueError, "[share_memory] unused memory of %d bytes was required: got %d bytes" % (st.nbytes, memory.nbytes) + "\nhint: make it for this storage")
    memcpy(memory.start + memory.skip, old, st.nbytes)
    if st.release == release_owner:
        memory.before = <object>st.owner
        drop_owner(st.owner)
    elif st.release != NULL:                # a storage that was resized: its bytes are another one's
        inner = UntypedStorage.__new__(UntypedStorage)
        inner.st = <fk_storage *>st.owner
        memory.before = inner
    Py_INCREF(memory)
    st.owner = <void *>memory
    st.release = release_shared
    st.data = memory.start + memory.skip
    st.flags = (st.flags | FK_SHARED) & ~<int32_t>FK_READONLY
    st.uncounted += 1
    memory.st = st
    repoint(st, old, only)


cdef int repoint(fk_storage *st, char *old, Tensor only) except -1:
    """Bring the tensors of a storage to its new place; `only` and one storage object may be all that hold it. Which they
    are nobody notes, that would cost every view that is made: they are looked for among all objects."""
    import gc
    cdef Tensor t
    cdef list objects
    if only is not None and only.st == st and st.refs == 2:
        only.data_ = st.data + (only.data_ - old)
        return 0
    objects = gc.get_objects()
    if holders(st, objects) < st.refs and gc.get_freeze_count():
        gc.unfreeze()                      # frozen objects are not among those that Python shows
        objects = gc.get_objects()
    for x in objects:
        if PyObject_TypeCheck(x, <PyTypeObject *>Tensor) and (<Tensor>x).st == st:
            t = <Tensor>x
            t.data_ = st.data + (t.data_ - old)
    return 0


cdef int64_t holders(fk_storage *st, list objects):
    """How many of the objects hold a storage."""
    cdef int64_t n = 0
    for x in objects:
        if PyObject_TypeCheck(x, <PyTypeObject *>Tensor): n += (<Tensor>x).st == st
        elif PyObject_TypeCheck(x, <PyTypeObject *>UntypedStorage): n += (<UntypedStorage>x).st == st
    return n


#: slot: (number of bytes) -> fresh `SharedMemory`
SHARED_MEMORY = [None]


cdef int share_bytes(UntypedStorage storage, Tensor only) except -1:
    """Move a storage to shared memory; `only`: a tensor that, with `storage`, may be all that holds it."""
    cdef fk_storage *st = storage.st
    if st.flags & FK_SHARED or storage.dev > 1:
        return 0
    if st.flags & FK_LAZY: own_storage(st, None)
    if st.flags & FK_META or storage.dev:
        raise said(RuntimeError, "[share_memory_] a storage with bytes was required: _share_fd_: only available on CPU\nhint: tensors of the meta device have nothing to share: make it with device='cpu'")
    if st.nbytes == 0:
        st.flags |= FK_SHARED
        return 0
    refuse_keeping()
    move_to_shared(storage, SHARED_MEMORY[0](st.nbytes), only)
    return 0
