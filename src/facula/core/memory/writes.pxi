# Counts of writes: what tells that memory is no longer what it was; writes over what is still to be read.
#
# Keeps true: a write that the counts miss can only come through an address, which `FK_POINTED` and its kin remember.

def write_counts(list tensors):
    """What changes whenever memory of these tensors is replaced or written by the framework, through whatever alias.

    Gives one tuple of numbers, None where somebody may hold an address, through which nobody counts writes: it was handed
    out, or the memory is a file's, another process's or another library's.
    """
    cdef list found = []
    cdef Tensor t
    for x in tensors:
        t = <Tensor?>x
        if t.st == NULL or t.st.flags & (FK_POINTED | FK_NO_RESIZE | FK_SHARED | FK_FOREIGN): return None
        found.append(<size_t>t.data_)
        found.append((<uint64_t>t.st.version << 32) | t.st.uncounted)
    return tuple(found)


def count_unseen_write(Tensor t):
    """Count a write through an address (`address_of`), which the tape does not hear of."""
    if t.st != NULL: t.st.uncounted += 1


def address_of(x):
    """The address of a tensor's first element or a storage's first byte, to compare, or to write to and count the write."""
    if isinstance(x, UntypedStorage):
        return <uintptr_t>(<UntypedStorage>x).st.data
    return <uintptr_t>(<Tensor?>x).data_


def increment_version(tensors):
    """Count a write to tensors that a kernel changed."""
    if isinstance(tensors, Tensor):
        tensors = (tensors,)
    for t in tensors:
        bump(<Tensor?>t)


def forget_writes(Tensor tensor):
    """Start the count of writes of a tensor that was just made: what filled it was no write of the user's."""
    if tensor.st != NULL and not tensor.keys & K_UNCOUNTED:
        tensor.st.version = 0
    return tensor


cdef inline bint same_place(Tensor a, Tensor b):
    return a.data_ == b.data_ and same_shape(a, b) and memcmp(a.sd, b.sd, a.nd * 8) == 0 and a.dt == b.dt


cdef bint overlaps(Tensor a, Tensor b):
    """Whether the byte ranges of two tensors meet."""
    cdef char *a1 = a.data_
    cdef char *b1 = b.data_
    cdef int i
    if a.numel_ == 0 or b.numel_ == 0: return False
    for i in range(a.nd): a1 += (a.sh[i] - 1) * a.sd[i] * ITEMSIZE[a.dt]
    for i in range(b.nd): b1 += (b.sh[i] - 1) * b.sd[i] * ITEMSIZE[b.dt]
    return a.data_ < b1 + ITEMSIZE[b.dt] and b.data_ < a1 + ITEMSIZE[a.dt]


cdef int raise_overlap(str op) except -1:
    raise said(RuntimeError, "[%s] operands apart from the result in memory were required: unsupported operation: some elements of the "
                       "input tensor and the written-to tensor refer to a single memory location.\nhint: please clone() the "
                       "tensor before performing the operation" % op)


cdef bint shifted(Tensor a, Tensor b):
    """Whether tensors in one block of memory have an element of another index in the same place."""
    cdef int i
    if a.data_ != b.data_: return True
    if not same_shape(a, b): return False
    for i in range(a.nd):
        if a.sh[i] > 1 and a.sd[i] != b.sd[i]: return True
    return False


cdef int check_blocks(Op op, list operands, Tensor r, int form) except -1:
    """Raise where the result is a block of memory that lies partly over one of an operand's."""
    cdef Tensor t
    cdef int i
    for i in range(op.ntensors):
        t = <Tensor>operands[i]
        if t is None or t is r or t.st == NULL or t.st != r.st or not overlaps(t, r) or same_place(t, r): continue
        if dense(t) and dense(r): raise_overlap(op.name + "_" if form == FORM_INPLACE else op.name)
    return 0


cdef int read_apart(Op op, list operands, Tensor r, int form) except -1:
    """Put copies in the place of operands that the result would overwrite before they are read: interleaved views."""
    cdef Tensor t
    cdef int i
    check_blocks(op, operands, r, form)
    for i in range(op.ntensors):
        t = <Tensor>operands[i]
        if t is None or t is r or t.st != r.st or not overlaps(t, r) or same_place(t, r): continue
        operands[i] = <Tensor>copy_like(t, t)
    return 0
