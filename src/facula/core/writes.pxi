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


cdef int read_apart(Op op, list operands, Tensor r, int form) except -1:
    """Put copies in the place of operands that the result would overwrite before they are read."""
    cdef Tensor t
    cdef int i
    for i in range(op.ntensors):
        t = <Tensor>operands[i]
        if t is None or t is r or t.st != r.st or not overlaps(t, r) or same_place(t, r): continue
        # interleaved views are read before they are written; a shifted block is refused
        if form == FORM_INPLACE and dense(t) and dense(r):
            raise_overlap(op.name)
        operands[i] = <Tensor>copy_like(t, t)
    return 0
