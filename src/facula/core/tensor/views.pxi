# Views: index arithmetic on shape and strides, and basic indexing.
#
# Keeps true: a view shares the storage; its `base` is the root; a view of memory that is written to elsewhere finds its
# new history through `base` (see formula.pxi).

#: the dimensions that a tensor has at most
max_dims = MAX_DIMS


cdef inline Tensor start_view(Tensor a):
    """A new tensor on the storage of `a`, remembering the root."""
    cdef Tensor t = share(a)
    t.keys |= a.keys & K_PIECE
    set_base(t, a.base if a.base is not None else a)
    return t


cdef inline int finish_view(Tensor t) except -1:
    cdef int i
    cdef int64_t n = 1
    cdef double about = 1      # sizes of strides 0 multiply to more than 64 bits
    for i in range(t.nd):
        n *= t.sh[i]
        about *= <double>t.sh[i]
    t.numel_ = n if -1 < about < 36028797018963968.0 else shape_numel(t.nd, t.sh)
    compute_keys(t)
    return 0


cdef int64_t geometry_bytes(int nd, const int64_t *sh, const int64_t *sd, int64_t offset, int64_t size) noexcept nogil:
    """Bytes of a storage up to the last element that a geometry reaches; 0 without elements, -1 where 64 bits do not hold them."""
    cdef int i
    cdef int64_t last = offset
    for i in range(nd):
        if sh[i] == 0: return 0
    for i in range(nd):
        last = fk_plus(last, fk_times(sh[i] - 1, sd[i]))
    last = fk_times(fk_plus(last, 1), size)
    return -1 if last == FK_UNSOUND else last


cdef Tensor raw_view(Tensor a, shape, strides, int64_t offset):
    """A view without history: sizes and strides in elements, offset relative to the first element of `a`."""
    cdef Tensor t = start_view(a)
    cdef int i
    set_rank(t, <int>len(shape))
    for i in range(t.nd):
        t.sh[i] = shape[i]; t.sd[i] = strides[i]
    t.data_ = a.data_ + offset * ITEMSIZE[a.dt]
    finish_view(t)
    return t


cdef Tensor placed_view(Tensor a, int dt, object shape, object strides, int64_t at):
    """A view of elements of dtype `dt`, `at` bytes behind the first element of `a`; one that leaves the storage is refused."""
    cdef tuple sizes = tuple(shape), steps = tuple(strides)   # what reading an entry does to the caller's lists is not seen
    cdef int64_t sh[MAX_DIMS]
    cdef int64_t sd[MAX_DIMS]
    cdef int64_t needed, first
    cdef int i, nd = <int>len(sizes)
    if nd > MAX_DIMS:
        raise said(RuntimeError, "[view] at most %d dimensions were required: got %d" % (MAX_DIMS, nd) + "\nhint: merge dimensions")
    if len(steps) != nd:
        raise said(ValueError, "[view] as many strides as sizes were required: got %d and %d" % (len(steps), nd) + "\nhint: give a stride for every dimension")
    for i in range(nd):
        sh[i] = whole(sizes[i], "view", ValueError); sd[i] = whole(steps[i], "view", ValueError)
        if sh[i] < 0 or sd[i] < 0:
            raise said(ValueError, "[view] non-negative sizes and strides were required: got %s, %s" % (list(sizes), list(steps)) + "\nhint: flip() reverses a dimension")
    if not (a.keys & K_META) and a.st != NULL:
        needed = geometry_bytes(nd, sh, sd, 0, ITEMSIZE[dt])
        first = fk_plus(a.data_ - a.st.data, at)
        if needed and (needed < 0 or first < 0 or first == FK_UNSOUND or fk_plus(first, needed) > a.st.nbytes):   # no element is nowhere
            raise said(ValueError, "[view] a geometry inside the storage was required: sizes %s, strides %s from byte %d of %d" % (list(sizes), list(steps), first, a.st.nbytes)
                       + "\nhint: ask for fewer elements")
    cdef Tensor t = start_view(a)
    t.dt = dt
    set_rank(t, nd)
    memcpy(t.sh, sh, nd * 8); memcpy(t.sd, sd, nd * 8)
    t.data_ = a.data_ + at
    finish_view(t)
    return t


def make_view(Tensor a, shape, strides, int64_t offset=0):
    """A view of `a`: sizes, strides and an offset from its first element, none negative, in elements; ValueError outside of the storage."""
    return placed_view(a, a.dt, shape, strides, fk_times(offset, ITEMSIZE[a.dt]))


def view_dtype(Tensor a, dtype target, shape, strides, int64_t offset_bytes=0):
    """A view of the same memory with elements of another dtype; ValueError outside of the storage."""
    if target.index >= 20:
        raise said(TypeError, "[view] a dtype that tensors of the core have was required: got " + target.name + "\nhint: view the integers that it stands for")
    return placed_view(a, target.index, shape, strides, offset_bytes)


# each takes the slots of its operator, checks them, and gives the view
ctypedef Tensor (*view_function)(Op op, PyObject **slots)


cdef int view_strides(Tensor a, int nd, const int64_t *sh, int64_t *sd):
    """Strides for viewing `a` in another shape; 0 where no view can do it."""
    cdef int i, j, k
    cdef int64_t s, chunk, viewed, base_stride
    if not (a.keys & K_STRIDED) or a.numel_ == 0:
        s = 1
        for i in range(nd - 1, -1, -1):
            sd[i] = s
            if sh[i] > 1: s *= sh[i]
        return 1
    j = nd - 1
    chunk = 1
    base_stride = a.sd[a.nd - 1] if a.nd else 1
    viewed = 1
    for i in range(a.nd - 1, -1, -1):
        chunk *= a.sh[i]
        if i == 0 or (a.sh[i - 1] != 1 and a.sd[i - 1] != chunk * base_stride):
            while j >= 0 and (viewed < chunk or sh[j] == 1):
                sd[j] = viewed * base_stride
                viewed *= sh[j]
                j -= 1
            if viewed != chunk:
                return 0
            if i > 0:
                base_stride = a.sd[i - 1]
                chunk = 1
                viewed = 1
    return 1 if j < 0 else 0


cdef int infer_shape(Op op, Tensor a, int nd, int64_t *sh) except -1:
    """Fill in a -1 and check the number of elements."""
    cdef int i, unknown = -1
    cdef int64_t p = 1
    for i in range(nd):
        if sh[i] == -1:
            if unknown >= 0:
                raise said(RuntimeError, "[%s] at most one -1 was required: only one dimension can be inferred" % op.name + "\nhint: give all sizes but one as numbers")
            unknown = i
        elif sh[i] < 0:
            raise said(RuntimeError, "[%s] non-negative sizes were required: got invalid shape dimension %d" % (op.name, sh[i]) + "\nhint: one size may be -1, which is computed from the others")
        else:
            p *= sh[i]
    if unknown >= 0:
        if p == 0 and a.numel_ == 0:
            raise said(RuntimeError, "[%s] an inferable shape was required: cannot reshape tensor of 0 elements into shape %s because "
                               "the unspecified dimension size -1 can be any value and is ambiguous" % (op.name, [sh[i] for i in range(nd)]) + "\nhint: give all sizes as numbers")
        if p == 0 or a.numel_ % p:
            raise said(RuntimeError, "[%s] a shape of %d elements was required: shape '%s' is invalid for input of size %d"
                               % (op.name, a.numel_, [sh[i] for i in range(nd)], a.numel_) + "\nhint: the product of the sizes is the number of elements; -1 computes one of them")
        sh[unknown] = a.numel_ // p
    elif p != a.numel_:
        raise said(RuntimeError, "[%s] a shape of %d elements was required: shape '%s' is invalid for input of size %d"
                           % (op.name, a.numel_, [sh[i] for i in range(nd)], a.numel_) + "\nhint: the product of the sizes is the number of elements; -1 computes one of them")
    return 0


cdef Tensor view_view(Op op, PyObject **slots):
    cdef Tensor a = <Tensor>slots[0]
    cdef Tensor t
    cdef int64_t sh[MAX_DIMS]
    cdef int64_t sd[MAX_DIMS]
    cdef int nd
    if type(<object>slots[1]) is dtype or isinstance(<object>slots[1], type):
        return VIEW_AS_DTYPE[0](a, as_dtype(<object>slots[1]))
    nd = parse_shape(<object>slots[1], sh)
    infer_shape(op, a, nd, sh)
    if not view_strides(a, nd, sh, sd):
        raise said(RuntimeError, "[%s] a shape that needs no copy was required: view size is not compatible with input tensor's size "
                           "and stride (at least one dimension spans across two contiguous subspaces). Got shape %s, strides %s "
                           "for %s\nhint: use .reshape(...) instead" % (op.name, list(make_size(a.nd, a.sh)), list(a.stride()),
                                                                        [sh[i] for i in range(nd)]))
    t = start_view(a)
    set_rank(t, nd)
    t.numel_ = a.numel_
    memcpy(t.sh, sh, nd * 8); memcpy(t.sd, sd, nd * 8)
    if a.keys & K_STRIDED: compute_keys(t)
    return t

#: slot: (tensor, dtype) -> view with elements of that dtype
VIEW_AS_DTYPE = [None]


cdef Tensor view_ints(Op op, Tensor a, PyObject *const *sizes, Py_ssize_t n):
    """`view(2, 3)` of a contiguous tensor without history; None when the sizes are no plain ints."""
    cdef int64_t sh[MAX_DIMS]
    cdef int64_t s = 1
    cdef Py_ssize_t i
    cdef Tensor t
    if n > MAX_DIMS:
        return None
    for i in range(n):
        if not PyLong_CheckExact(<object>sizes[i]):
            return None
        sh[i] = whole(<object>sizes[i], "shape", TypeError)
    infer_shape(op, a, <int>n, sh)
    t = start_view(a)
    set_rank(t, <int>n)
    t.numel_ = a.numel_
    for i in range(n - 1, -1, -1):
        t.sh[i] = sh[i]; t.sd[i] = s
        if sh[i] > 1: s *= sh[i]
    return t


cdef Tensor view_transpose(Op op, PyObject **slots):
    cdef Tensor a = <Tensor>slots[0]
    cdef Tensor t
    cdef int i = wrap_dim(<object>slots[1], a.nd, op.name), j = wrap_dim(<object>slots[2], a.nd, op.name)
    t = start_view(a)
    set_rank(t, a.nd); t.numel_ = a.numel_
    memcpy(t.sh, a.sh, a.nd * 8); memcpy(t.sd, a.sd, a.nd * 8)
    if a.nd:
        t.sh[i], t.sh[j] = t.sh[j], t.sh[i]
        t.sd[i], t.sd[j] = t.sd[j], t.sd[i]
    compute_keys(t)
    return t


cdef Tensor view_t(Op op, PyObject **slots):
    cdef Tensor a = <Tensor>slots[0]
    cdef Tensor t
    if a.nd > 2:
        raise said(RuntimeError, "[t] at most 2 dimensions were required: t() expects a tensor with <= 2 dimensions, but self is %dD\n"
                           "hint: use .transpose(i, j), .mT or .permute(...)" % a.nd)
    t = start_view(a)
    set_rank(t, a.nd); t.numel_ = a.numel_
    memcpy(t.sh, a.sh, a.nd * 8); memcpy(t.sd, a.sd, a.nd * 8)
    if a.nd == 2:
        t.sh[0], t.sh[1] = a.sh[1], a.sh[0]
        t.sd[0], t.sd[1] = a.sd[1], a.sd[0]
    compute_keys(t)
    return t


cdef Tensor view_permute(Op op, PyObject **slots):
    cdef Tensor a = <Tensor>slots[0]
    cdef Tensor t
    cdef int64_t dims[MAX_DIMS]
    cdef int n = parse_shape(<object>slots[1], dims), i, d
    cdef int64_t seen = 0
    if n != a.nd:
        raise said(RuntimeError, "[permute] as many dims as dimensions were required: got input.dim() = %d and len(dims) = %d (number "
                           "of dimensions in the tensor input does not match the length of the desired ordering of dimensions)"
                           % (a.nd, n) + "\nhint: name every dimension once")
    t = start_view(a)
    set_rank(t, n); t.numel_ = a.numel_
    for i in range(n):
        d = wrap_dim(dims[i], n, op.name)
        if seen & (<int64_t>1 << d):
            raise said(RuntimeError, "[permute] each dimension once was required: duplicate dims are not allowed, got %s" % ([dims[j] for j in range(n)],) + "\nhint: name every dimension once")
        seen |= <int64_t>1 << d
        t.sh[i] = a.sh[d]; t.sd[i] = a.sd[d]
    compute_keys(t)
    return t


cdef Tensor view_expand(Op op, PyObject **slots):
    cdef Tensor a = <Tensor>slots[0]
    cdef int64_t sh[MAX_DIMS]
    cdef int nd = parse_shape(<object>slots[1], sh)
    return expand_to(a, nd, sh, op.name)


cdef Tensor expand_to(Tensor a, int nd, int64_t *sh, str name):
    cdef Tensor t
    cdef int i, fresh = 0, shift = nd - a.nd
    if shift < 0:
        raise said(RuntimeError, "[%s] at least %d sizes were required: the number of sizes provided (%d) must be greater or equal to "
                           "the number of dimensions in the tensor (%d)" % (name, a.nd, nd, a.nd) + "\nhint: give sizes for all dimensions, -1 to keep one")
    t = start_view(a)
    set_rank(t, nd)
    for i in range(nd - 1, -1, -1):
        if i < shift:
            if sh[i] < 0:
                raise said(RuntimeError, "[%s] sizes for new leading dimensions were required: the expanded size of the tensor (%d) "
                                   "isn't allowed in a leading, non-existing dimension %d" % (name, sh[i], i) + "\nhint: -1 keeps a size that exists: give new dimensions a number")
            t.sh[i] = sh[i]; t.sd[i] = 0
            if sh[i] == 1: fresh += 1
        else:
            if sh[i] == -1 or sh[i] == a.sh[i - shift]:
                t.sh[i] = a.sh[i - shift]; t.sd[i] = a.sd[i - shift]
            elif a.sh[i - shift] == 1:
                t.sh[i] = sh[i]; t.sd[i] = 0
            else:
                raise said(RuntimeError, "[%s] sizes equal to the existing ones, or existing ones of 1, were required: The expanded size "
                                   "of the tensor (%d) must match the existing size (%d) at non-singleton dimension %d. Target "
                                   "sizes: %s. Tensor sizes: %s" % (name, sh[i], a.sh[i - shift], i, [sh[j] for j in range(nd)],
                                                                    list(make_size(a.nd, a.sh))) + "\nhint: only dimensions of size 1 expand: repeat() or repeat_interleave() copies elements")
    if fresh:
        for i in range(shift - 1, -1, -1):         # a new dimension of size 1 steps as unsqueeze() has it
            if sh[i] == 1: t.sd[i] = t.sh[i + 1] * t.sd[i + 1] if i + 1 < nd else 1
    finish_view(t)
    return t


cdef Tensor view_select(Op op, PyObject **slots):
    cdef Tensor a = <Tensor>slots[0]
    if a.nd == 0:
        raise said(IndexError, "[select] a tensor with dimensions was required: select() cannot be applied to a 0-dim tensor.\nhint: x.item() gives the number of a 0-d tensor")
    return select_at(a, wrap_dim(<object>slots[1], a.nd, op.name), whole(<object>slots[2], op.name, ValueError))


cdef Tensor select_at(Tensor a, int d, int64_t index):
    cdef Tensor t
    cdef int i, j = 0
    cdef int64_t n = 1
    if index < -a.sh[d] or index >= a.sh[d]:
        raise said(IndexError, "[index] an index in [%d, %d) was required: index %d is out of bounds for dimension %d with size %d"
                         % (-a.sh[d], a.sh[d], index, d, a.sh[d]) + "\nhint: indices count from 0, or from the end as -1, -2, ...")
    if index < 0: index += a.sh[d]
    t = start_view(a)
    set_rank(t, a.nd - 1)
    for i in range(a.nd):
        if i != d:
            t.sh[j] = a.sh[i]; t.sd[j] = a.sd[i]
            n *= a.sh[i]
            j += 1
    t.numel_ = n
    t.data_ = a.data_ + index * a.sd[d] * ITEMSIZE[a.dt]
    if d == 0 and not (a.keys & K_STRIDED):
        return t
    compute_keys(t)
    return t


cdef Tensor view_slice(Op op, PyObject **slots):
    cdef Tensor a = <Tensor>slots[0]
    cdef Tensor t = start_view(a)
    cdef int d
    cdef int64_t start, stop, step
    set_rank(t, a.nd)
    memcpy(t.sh, a.sh, a.nd * 8); memcpy(t.sd, a.sd, a.nd * 8)
    d = wrap_dim(slot_value(op, slots, 1), a.nd, op.name)
    step = slot_value(op, slots, 4).__index__()
    if step <= 0:
        raise said(RuntimeError, "[slice] a positive step was required: got %d" % step + "\nhint: x.flip(dim)[...] goes backwards")
    x = slot_value(op, slots, 2)
    start = 0 if x is None else x.__index__()
    x = slot_value(op, slots, 3)
    stop = 0x7fffffffffffffff if x is None else x.__index__()
    slice_dim(t, d, start, stop, step)
    finish_view(t)
    return t


cdef inline void slice_dim(Tensor t, int d, int64_t start, int64_t stop, int64_t step):
    cdef int64_t n = t.sh[d]
    if start < 0: start += n
    if stop < 0: stop += n
    if start < 0: start = 0
    if start > n: start = n
    if stop < start: stop = start
    if stop > n: stop = n
    t.data_ += start * t.sd[d] * ITEMSIZE[t.dt]
    t.sh[d] = (stop - start - 1) // step + 1 if stop > start else 0
    # of one element, or none, the stride is read by nobody: it may wrap
    t.sd[d] = <int64_t>(<uint64_t>t.sd[d] * <uint64_t>step)


cdef Tensor view_unsqueeze(Op op, PyObject **slots):
    cdef Tensor a = <Tensor>slots[0]
    cdef Tensor t = start_view(a)
    cdef int i, d = wrap_dim(<object>slots[1], a.nd + 1, op.name)
    if a.nd >= MAX_DIMS:
        raise said(RuntimeError, "[unsqueeze] at most %d dimensions were required" % MAX_DIMS + "\nhint: merge dimensions with reshape")
    set_rank(t, a.nd + 1)
    t.numel_ = a.numel_
    for i in range(d):
        t.sh[i] = a.sh[i]; t.sd[i] = a.sd[i]
    t.sh[d] = 1
    t.sd[d] = a.sh[d] * a.sd[d] if d < a.nd else 1
    for i in range(d, a.nd):
        t.sh[i + 1] = a.sh[i]; t.sd[i + 1] = a.sd[i]
    t.keys |= a.keys & K_STRIDED
    return t


cdef Tensor view_squeeze(Op op, PyObject **slots):
    cdef Tensor a = <Tensor>slots[0]
    cdef Tensor t = start_view(a)
    cdef int i, j = 0
    cdef int64_t mask = -1
    x = slot_value(op, slots, 1)
    if x is not None:
        mask = 0
        for d in (x if isinstance(x, (tuple, list)) else (x,)):
            mask |= <int64_t>1 << wrap_dim(d, a.nd, op.name)
    set_rank(t, a.nd)
    for i in range(a.nd):
        if a.sh[i] == 1 and mask & (<int64_t>1 << i):
            continue
        t.sh[j] = a.sh[i]; t.sd[j] = a.sd[i]
        j += 1
    set_rank(t, j)
    t.numel_ = a.numel_
    t.keys |= a.keys & K_STRIDED
    return t


cdef Tensor view_as_strided(Op op, PyObject **slots):
    cdef Tensor a = <Tensor>slots[0]
    cdef Tensor t = start_view(a)
    cdef int64_t sh[MAX_DIMS]
    cdef int64_t sd[MAX_DIMS]
    cdef int nd = parse_shape(<object>slots[1], sh), ns = parse_shape(<object>slots[2], sd), i
    cdef int64_t needed, own, offset
    x = slot_value(op, slots, 3)
    if x is not None and not hasattr(x, "__index__"):
        raise wrong_type(op, 3, x, "int")
    offset = offset_of(a) if x is None else x.__index__()
    if x is not None: refuse_for_calls()           # where `a` begins is not what a call is known by
    if nd != ns:
        raise said(RuntimeError, "[as_strided] as many strides as sizes were required: mismatch in length of strides and shape (%d, %d)" % (ns, nd) + "\nhint: give one stride for each size")
    set_rank(t, nd)
    for i in range(nd):
        if sd[i] < 0:
            raise said(RuntimeError, "[as_strided] non-negative strides were required: as_strided: Negative strides are not supported at the moment, got strides: %s" % ([sd[j] for j in range(nd)],) + "\nhint: flip() reverses a dimension")
        if sh[i] < 0:
            raise said(RuntimeError, "[as_strided] non-negative sizes were required: got %s" % ([sh[j] for j in range(nd)],) + "\nhint: sizes are counts: 0 or more")
        t.sh[i] = sh[i]; t.sd[i] = sd[i]
    if offset < 0:
        raise said(RuntimeError, "[as_strided] a non-negative storage offset was required: got %d" % offset + "\nhint: the offset counts elements from the start of the storage")
    needed = geometry_bytes(nd, sh, sd, offset, ITEMSIZE[a.dt])
    # without data there is nothing that could be read
    if needed < 0 or (needed > a.st.nbytes and not a.keys & K_META):
        raise said(RuntimeError, "[as_strided] a geometry inside the storage was required: setStorage: sizes %s, strides %s, storage "
                           "offset %d, and itemsize %d requiring a storage size of %s are out of bounds for storage of size %d"
                           % ([sh[j] for j in range(nd)], [sd[j] for j in range(nd)], offset, ITEMSIZE[a.dt],
                              needed if needed >= 0 else "more than 2**63", a.st.nbytes) + "\nhint: ask for fewer elements, smaller strides or a smaller offset")
    own = geometry_bytes(a.nd, a.sh, a.sd, offset_of(a), ITEMSIZE[a.dt]) if a.keys & K_STRIDED else (
        (offset_of(a) + a.numel_) * ITEMSIZE[a.dt])
    if needed > own: refuse_for_calls()            # nor how much lies behind it
    t.data_ = a.st.data + offset * ITEMSIZE[a.dt]
    finish_view(t)
    return t


cdef Tensor view_diagonal(Op op, PyObject **slots):
    cdef Tensor a = <Tensor>slots[0]
    cdef int64_t offset = whole(slot_value(op, slots, 1), op.name, ValueError)
    cdef object first = slot_value(op, slots, 2), second = slot_value(op, slots, 3)
    cdef int i = wrap_dim(first, a.nd, op.name), j = wrap_dim(second, a.nd, op.name), d, at = 0
    cdef int64_t n = 0
    cdef Tensor t
    if i == j:
        raise said(RuntimeError, "[%s] diagonal dimensions cannot be identical %s, %s\nhint: name two "
                                 "dimensions, for example dim1=-2, dim2=-1 for the last two" % (op.name, first, second))
    if offset > -a.sh[i] and offset < a.sh[j]:
        n = min(a.sh[i], a.sh[j] - offset) if offset >= 0 else min(a.sh[i] + offset, a.sh[j])
    t = start_view(a)
    set_rank(t, a.nd - 1)
    for d in range(a.nd):
        if d == i or d == j: continue
        t.sh[at] = a.sh[d]; t.sd[at] = a.sd[d]
        at += 1
    t.sh[at] = n; t.sd[at] = a.sd[i] + a.sd[j]
    if n: t.data_ += (offset * a.sd[j] if offset >= 0 else -offset * a.sd[i]) * ITEMSIZE[a.dt]
    finish_view(t)
    return t


cdef dict _VIEW_NUMBERS = {"view": 1, "transpose": 2, "t": 3, "permute": 4, "expand": 5, "select": 6, "slice": 7,
                           "unsqueeze": 8, "squeeze": 9, "as_strided": 10, "diagonal": 11}


cdef Tensor run_view(int number, Op op, PyObject **slots):
    if number == 1: return view_view(op, slots)
    if number == 2: return view_transpose(op, slots)
    if number == 3: return view_t(op, slots)
    if number == 4: return view_permute(op, slots)
    if number == 5: return view_expand(op, slots)
    if number == 6: return view_select(op, slots)
    if number == 7: return view_slice(op, slots)
    if number == 8: return view_unsqueeze(op, slots)
    if number == 9: return view_squeeze(op, slots)
    if number == 11: return view_diagonal(op, slots)
    return view_as_strided(op, slots)


cdef tuple view_arguments(Op op, PyObject **slots):
    """The arguments of a view as formulas and overrides get them."""
    cdef int i
    cdef list args = [<object>slots[0]]
    for i in range(1, op.nargs):
        value = slot_value(op, slots, i)
        if not (op.view_number == 1 and i == 1 and isinstance(value, (dtype, type))):
            value = normalise(op, i, value)
        args.append(value)
    return tuple(args)


cdef object view_call(Op op, PyObject **slots, uint32_t k):
    """A view operator whose geometry stands here; recorded by its formula."""
    cdef Tensor a, r
    cdef int i
    if not isinstance(<object>slots[0], Tensor):
        raise wrong_type(op, 0, <object>slots[0], "Tensor")
    a = <Tensor>slots[0]
    r = None
    if k & K_DISPATCH:
        found = dispatch_view(op, view_arguments(op, slots))
        if found is not NotImplemented: r = found
    if r is None:
        r = run_view(op.view_number, op, slots)
    if k & K_GRAD and not (k & K_NOGRAD) and KIND[r.dt] >= KIND_FLOAT:
        # bytes read as other numbers have no gradient
        if op.view_number == 1 and isinstance(<object>slots[1], (dtype, type)): return r
        n = formula_node(op, view_arguments(op, slots), r)
        formula_saved_result(n, r)
        attach(r, n, 0)
    return r


# ------------------------------------------------------------------ basic indexing

#: slots: the operators behind `x[...]`: basic(x, index), advanced(x, index), set(x, index, value)
INDEXING = [None, None, None]


cdef int indexed_rank(int nd, tuple items) except -1:
    """How many dimensions an index of ints, slices, None and Ellipsis leaves of `nd`."""
    for x in items:
        if x is None: nd += 1
        elif x is not Ellipsis and type(x) is not slice: nd -= 1
    return nd


cdef Tensor basic_view(Tensor a, object index, bint *serves):
    """The view of an index of ints, slices, None and Ellipsis; `serves` is False for anything else."""
    cdef Tensor t
    cdef int d = 0, out = 0, given = 0, i
    cdef int64_t n
    cdef tuple items = <tuple>index if type(index) is tuple else (index,)
    cdef bint ellipsis = False
    serves[0] = False
    for x in items:
        if PyLong_CheckExact(x) or type(x) is slice:
            given += 1
        elif x is Ellipsis:
            if ellipsis:
                raise said(IndexError, "[index] at most one ellipsis was required: an index can only have a single ellipsis ('...')\nhint: write : for the dimensions between")
            ellipsis = True
        elif x is None:
            pass
        elif x is True or x is False or isinstance(x, (list, tuple, Tensor)):
            return None
        elif hasattr(x, "__index__") and not hasattr(x, "shape"):
            given += 1
        elif hasattr(x, "__index__") and getattr(x, "shape", None) == () and not (hasattr(x, "dtype") and "bool" in str(x.dtype)):
            given += 1
        else:
            return None
    if given > a.nd:
        if a.nd == 0 and len(items) == 1:
            raise said(IndexError, "[index] a tensor with a dimension was required: invalid index of a 0-dim tensor\nhint: x.item() gives its number; x[None] and x[...] give tensors")
        raise said(IndexError, "[index] at most %d indices were required: too many indices for tensor of dimension %d" % (a.nd, a.nd) + "\nhint: unsqueeze() or None adds dimensions")
    serves[0] = True
    t = start_view(a)
    if a.nd + len(items) > FEW_DIMS: set_rank(t, indexed_rank(a.nd, items))
    for x in items:
        if x is Ellipsis:
            for i in range(a.nd - given):
                t.sh[out] = a.sh[d]; t.sd[out] = a.sd[d]
                out += 1; d += 1
        elif x is None:
            t.sh[out] = 1; t.sd[out] = a.sh[d] * a.sd[d] if d < a.nd else 1
            out += 1
        elif type(x) is slice:
            t.sh[out] = a.sh[d]; t.sd[out] = a.sd[d]
            read_slice(t, out, <object>x)
            out += 1; d += 1
        else:
            n = whole(x, "index", ValueError)
            if n < -a.sh[d] or n >= a.sh[d]:
                raise said(IndexError, "[index] an index in [%d, %d) was required: index %d is out of bounds for dimension %d with "
                                 "size %d" % (-a.sh[d], a.sh[d], n, d, a.sh[d]) + "\nhint: indices count from 0, or from the end as -1, -2, ...")
            if n < 0: n += a.sh[d]
            t.data_ += n * a.sd[d] * ITEMSIZE[a.dt]
            d += 1
    while d < a.nd:
        t.sh[out] = a.sh[d]; t.sd[out] = a.sd[d]
        out += 1; d += 1
    set_rank(t, out)
    finish_view(t)
    return t


cdef int64_t slice_bound(object v) except? -1:
    """A bound; beyond 64 bits the nearest, as in slices of lists."""
    cdef int overflow = 0
    cdef int64_t n
    if PyLong_CheckExact(v):
        n = PyLong_AsLongLongAndOverflow(v, &overflow)
        if not overflow: return n
    if not hasattr(v, "__index__"):
        raise said(TypeError, "[index] ints were required as bounds: slice indices must be integers or None or have an __index__ method, got %s" % type(v).__name__ + "\nhint: int(bound) converts a number")
    return PyNumber_AsSsize_t(v, NULL)


cdef int read_slice(Tensor t, int d, object s) except -1:
    cdef int64_t start, stop, step
    cdef PySliceObject *bounds = <PySliceObject *><PyObject *>s
    step = 1 if bounds.step == <PyObject *>None else slice_bound(<object>bounds.step)
    if step <= 0:
        raise said(ValueError, "[index] a positive slice step was required: step must be greater than zero, got %d\nhint: use .flip(dims) "
                         "to reverse" % step)
    start = 0 if bounds.start == <PyObject *>None else slice_bound(<object>bounds.start)
    stop = 0x7fffffffffffffff if bounds.stop == <PyObject *>None else slice_bound(<object>bounds.stop)
    slice_dim(t, d, start, stop, step)
    return 0


cdef object without_idle_ellipses(object index):
    """The subscript without the ellipses at its end that follow another one, which has taken all dimensions that were left."""
    cdef int n = <int>len(index), kept = n
    while kept > 1 and index[kept - 1] is Ellipsis: kept -= 1
    for i in range(kept):
        if index[i] is Ellipsis: return index[:kept]
    return index if kept + 1 >= n else index[:kept + 1]


cdef object get_item(Tensor a, object index):
    cdef uint32_t k = a.keys | fk_tls_keys()
    cdef Tensor t
    cdef bint serves
    if type(index) is tuple and len(<tuple>index) > 1 and (<tuple>index)[len(<tuple>index) - 1] is Ellipsis: index = without_idle_ellipses(index)
    if k & K_SLOW_METHOD:
        if k & (K_OVERRIDE | K_FUNCTION_MODE):
            r = torch_function(Tensor.__getitem__, (a, index), {}, k)
            if r is not NotImplemented: return r
        return INDEXING[0](a, (None,) if index is None else index) if not needs_advanced(index) else INDEXING[1](a, index)
    if PyLong_CheckExact(index) and a.nd and not (k & K_GRAD and not (k & K_NOGRAD)):
        return select_at(a, 0, whole(index, "index", ValueError))
    t = basic_view(a, index, &serves)
    if not serves:
        places = tensor_subscript(a, index)
        if places is not None: return OP_INDEX(a, places)
        return INDEXING[1](a, index)
    if k & K_GRAD and not (k & K_NOGRAD) and KIND[a.dt] >= KIND_FLOAT:
        record_formula(<Op>INDEXING[0], (a, (None,) if index is None else index), t)
    return t


cdef Op OP_INDEX = None
cdef Op OP_INDEX_PUT = None
cdef Op OP_MASKED_FILL = None


cdef tuple tensor_subscript(Tensor a, object index):
    """A subscript of index tensors, masks and full slices alone, as `index` takes it; None for any other."""
    cdef tuple items = <tuple>index if type(index) is tuple else (index,)
    cdef list found = []
    cdef int taken = 0
    cdef bint any_tensor = False
    cdef Tensor t
    for x in items:
        if type(x) is Tensor:
            t = <Tensor>x
            if t.keys & (K_SLOW | K_META | K_FAKE) or t.nd == 0 or (t.dt != I64 and t.dt != I32 and t.dt != B8): return None
            taken += t.nd if t.dt == B8 else 1
            any_tensor = True
            found.append(t)
        elif type(x) is slice and x.start is None and x.stop is None and x.step is None:
            taken += 1
            found.append(None)
        else:
            return None
    if not any_tensor or taken > a.nd or a.keys & (K_META | K_FAKE): return None
    while found[len(found) - 1] is None:
        found.pop()
    return tuple(found)


cdef bint set_by_tensors(Tensor a, tuple places, object value) except *:
    """Write to what index tensors and masks address; False where the general way must serve."""
    cdef Tensor mask
    if isinstance(value, Tensor):
        if (<Tensor>value).dt != a.dt: return False
    elif not PyFloat_CheckExact(value) and not PyLong_CheckExact(value):
        return False
    elif len(places) == 1 and (<Tensor>places[0]).dt == B8 and same_shape(a, <Tensor>places[0]) and (
            KIND[a.dt] == (KIND_FLOAT if PyFloat_CheckExact(value) else KIND_INT)) and number_fits(value, a.dt, FIT_SMALL):
        OP_MASKED_FILL.inplace(a, places[0], value)
        return True
    else:
        value = as_tensor_like(value, a)
    OP_INDEX_PUT(a, places, value)
    return True


cdef bint needs_advanced(object index):
    for x in (index if type(index) is tuple else (index,)):
        if x is True or x is False or isinstance(x, (list, range, Tensor)) or (hasattr(x, "shape") and hasattr(x, "dtype")):
            return True
        if isinstance(x, tuple): return True
    return False


def basic_index(Tensor a, index):
    """The view that an index of ints, slices, None and Ellipsis gives."""
    cdef bint serves
    cdef Tensor t = basic_view(a, index, &serves)
    if not serves:
        raise said(IndexError, "[index] ints, slices, None and Ellipsis were required: got " + repr(index) + "\nhint: convert other values with int() or facula.as_tensor()")
    return t


cdef int set_item(Tensor a, object index, object value) except -1:
    cdef Tensor t
    cdef bint serves = False
    cdef uint32_t k = a.keys | fk_tls_keys() | keys_of(value)
    if type(index) is tuple and len(<tuple>index) > 1 and (<tuple>index)[len(<tuple>index) - 1] is Ellipsis: index = without_idle_ellipses(index)
    if k & K_SLOW_METHOD:
        if k & (K_OVERRIDE | K_FUNCTION_MODE):
            if torch_function(Tensor.__setitem__, (a, index, value), {}, k) is not NotImplemented: return 0
        if a.keys & K_FAKE and not (fk_tls_keys() & K_DISPATCH):
            with a.fake_mode:       # a number becomes a fake tensor, too
                INDEXING[2](a, index, value)
            return 0
        INDEXING[2](a, index, value)
        return 0
    if not needs_advanced(index):
        t = get_item(a, index)
        if isinstance(value, Tensor):
            if (<Tensor>value).nd > t.nd:
                while (<Tensor>value).nd > t.nd and (<Tensor>value).sh[0] == 1:
                    value = value.squeeze(0) if (<Tensor>value).nd else value
            t.copy_(value)
        elif isinstance(value, (float, int, complex)) and number_fits(value, t.dt, FIT_SMALL):
            t.fill_(value)
        else:
            t.copy_(as_tensor_like(value, a))
        return 0
    places = tensor_subscript(a, index)
    if places is not None and set_by_tensors(a, places, value): return 0
    INDEXING[2](a, index, value)
    return 0
