# Memory order: which permutation of dimensions a tensor lies in, and results in the same one.
#
# Takes tensors of any strides; gives whether they are without gaps, and new tensors that follow them. Keeps true: a result
# never has gaps, nor places that two elements share.


cdef bint channels_last_strides(Tensor t):
    """Whether the strides are those of N, spatial..., C."""
    cdef int64_t expected = 1
    cdef int i, d
    for i in range(t.nd):
        d = 1 if i == 0 else (t.nd - i if i < t.nd - 1 else 0)
        if t.sh[d] != 1:
            if t.sd[d] != expected:
                return False
            expected *= t.sh[d]
    return True


cdef inline int by_stride(Tensor t, int *order):
    """The dimensions of more than one element, the smallest stride first, of equal ones the last; how many."""
    cdef int i, j, n = 0
    for i in range(t.nd - 1, -1, -1):
        if t.sh[i] != 1:
            j = n
            while j > 0 and t.sd[order[j - 1]] > t.sd[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
            n += 1
    return n


cdef inline bint dense(Tensor t):
    """Whether the strides are a permutation of contiguous ones (no gaps, no overlap)."""
    cdef int order[MAX_DIMS]
    cdef int i, n
    cdef int64_t expected = 1
    if not (t.keys & K_STRIDED):
        return True
    n = by_stride(t, order)
    for i in range(n):
        if t.sd[order[i]] != expected:
            return False
        expected *= t.sh[order[i]]
    return True


cdef bint packed_strides(Tensor a, int64_t *sd):
    """Strides without gaps in the memory order of `a`, or False where expanded dimensions leave it open."""
    cdef int order[MAX_DIMS]
    cdef int i, j, n = by_stride(a, order)
    cdef int64_t expected = 1
    if n and a.sd[order[0]] == 0:
        return False
    for i in range(n):
        sd[order[i]] = expected
        expected *= a.sh[order[i]]
    for i in range(a.nd):
        if a.sh[i] == 1:                           # behind what it steps over
            sd[i] = 1
            for j in range(a.nd):
                if a.sh[j] > 1 and a.sd[j] < a.sd[i]: sd[i] *= a.sh[j]
    return True


cdef inline Tensor new_like(Tensor a, int dt):
    """Unset elements in the shape and memory order of `a`, without its gaps."""
    cdef Tensor t = Tensor.__new__(Tensor)
    cdef int i
    cdef int64_t s = 1
    t.st = new_storage(a.numel_ * ITEMSIZE[dt], a.dev)
    t.data_ = t.st.data
    t.dt = dt; set_rank(t, a.nd); t.numel_ = a.numel_; t.dev = a.dev
    t.keys |= a.keys & (K_META | K_FOREIGN)
    if a.keys & K_STRIDED:
        if dense(a):
            for i in range(a.nd):
                t.sh[i] = a.sh[i]; t.sd[i] = a.sd[i]
            t.keys |= K_STRIDED
            return t
        if a.numel_ and packed_strides(a, t.sd):
            memcpy(t.sh, a.sh, a.nd * 8)
            compute_keys(t)
            return t
    for i in range(a.nd - 1, -1, -1):
        t.sh[i] = a.sh[i]; t.sd[i] = s
        if a.sh[i] > 1: s *= a.sh[i]
    return t


cdef int put_in_order(Tensor t, Tensor a) except -1:
    """Give a contiguous tensor the memory order of `a`, which has its shape."""
    if dense(a):
        memcpy(t.sd, a.sd, a.nd * 8)
        t.keys |= K_STRIDED
    elif a.numel_ and packed_strides(a, t.sd):
        compute_keys(t)
    return 0


cdef Tensor operand_of_shape(list operands, int nd, const int64_t *sh):
    """The first operand that is not broadcast, whose memory order the result takes."""
    cdef Tensor t
    for x in operands:
        if x is not None:
            t = <Tensor>x
            if t.nd == nd and memcmp(t.sh, sh, nd * 8) == 0:
                return t
    return None
