# Moving elements: copies, casts, fills, conversions to and from Python and NumPy, kernel launches.

cdef int copy_into(Tensor dst, Tensor src) except -1:
    """dst[...] = src, broadcast and cast; no checks of history."""
    cdef fk_iter it
    cdef int shift = dst.nd - src.nd
    if dst.numel_ == 0 or dst.keys & K_META:
        return 0
    if src.keys & K_META:
        raise said(NotImplementedError, "[copy_] a source with data was required: Cannot copy out of meta tensor; no data!\nhint: copy from a tensor on another device, or make values with facula.zeros_like(x, device='cpu')")
    if (dst.keys | src.keys) & K_FOREIGN:
        foreign_copy(dst, src)
        return 0
    if dst.st == src.st and dst.data_ != src.data_ and overlaps(dst, src):
        src = copy_like(src, src)
    it.ndim = dst.nd; it.nout = 1; it.nin = 1
    memcpy(it.shape, dst.sh, dst.nd * 8)
    iter_operand(&it, 0, dst, dst.nd, dst.dt)
    iter_operand(&it, 1, src, dst.nd, src.dt)
    if fk_tls_keys() & K_KEEP and keep_iteration(STEP_COPY, NULL, NULL, &it, [dst, src], NULL): return 0
    if dst.numel_ < GIL_FREE:
        fk_copy_run(&it)
    else:
        run_copy(&it)
    return 0


cdef Tensor copy_like(Tensor src, Tensor like):
    """A copy of `src` in the dtype and memory order of `like` (same shape)."""
    cdef Tensor t = new_like(like, like.dt)
    copy_into(t, src)
    return t


cdef Tensor contiguous_(Tensor a):
    cdef Tensor t
    if not (a.keys & K_STRIDED):
        return a
    t = new_tensor(a.nd, a.sh, a.dt, a.dev)
    copy_into(t, a)
    return t


cdef int fill_zero(Tensor t) except -1:
    if t.keys & K_META or t.numel_ == 0:
        return 0
    if t.keys & K_FOREIGN:
        foreign_fill(t, 0)
        return 0
    if dense(t):
        if fk_tls_keys() & K_KEEP and keep_zero(t.st, t.data_, t.numel_ * ITEMSIZE[t.dt]): return 0
        memset(t.data_, 0, t.numel_ * ITEMSIZE[t.dt])
        return 0
    fill_value(t, 0)
    return 0


cdef int zeros_storage(Tensor t) except -1:
    if t.st.data != NULL:
        if fk_tls_keys() & K_KEEP and keep_zero(t.st, t.st.data, t.st.nbytes): return 0
        memset(t.st.data, 0, t.st.nbytes)
    return 0


cdef int fill_value(Tensor t, object value) except -1:
    """Set every element to a Python number."""
    cdef fk_iter it
    cdef char element[16]
    if t.numel_ == 0 or t.keys & K_META:
        return 0
    if t.keys & K_FOREIGN:
        foreign_fill(t, value)
        return 0
    store_element(element, t.dt, value)
    it.ndim = t.nd; it.nout = 1; it.nin = 0
    memcpy(it.shape, t.sh, t.nd * 8)
    iter_operand(&it, 0, t, t.nd, t.dt)
    if fk_tls_keys() & K_KEEP:
        if isinstance(value, Tensor): refuse_keeping()
        if keep_iteration(STEP_FILL, NULL, NULL, &it, [t], element): return 0
    if t.numel_ < GIL_FREE:
        fk_fill_run(&it, element)
    else:
        run_fill(&it, element)
    return 0


cdef int store_element(char *p, int dt, object value) except -1:
    """Write one Python number as an element of `dt`."""
    cdef double d[2]
    cdef int64_t i
    cdef uint64_t u
    cdef fk_cast_fn cast
    d[1] = 0
    if isinstance(value, Tensor):
        value = value.item()
    if KIND[dt] <= KIND_INT and not isinstance(value, (float, complex)):
        if dt == U64:
            u = int(value) & 0xffffffffffffffff
            memcpy(p, &u, 8)
            return 0
        if dt == B8:
            p[0] = 1 if value else 0
            return 0
        v = int(value)
        if v > 0x7fffffffffffffff or v < -0x8000000000000000:
            raise said(RuntimeError, "[fill] a number that fits %s was required: value cannot be converted to type %s without overflow"
                               % ((<dtype>DTYPES[dt]).name, (<dtype>DTYPES[dt]).name) + "\nhint: convert the tensor to a wider dtype first")
        i = v
        if dt == I64:
            memcpy(p, &i, 8)
        else:
            bits = ITEMSIZE[dt] * 8
            low = 0 if not (<dtype>DTYPES[dt]).has_sign else -(1 << (bits - 1))
            high = (1 << bits) - 1 if low == 0 else (1 << (bits - 1)) - 1
            if dt == U8 and v < 0: low = -255
            if v < low or v > high:
                raise said(RuntimeError, "[fill] a number that fits %s was required: value cannot be converted to type %s without "
                                   "overflow: got %d" % ((<dtype>DTYPES[dt]).name, (<dtype>DTYPES[dt]).name, v) + "\nhint: convert the tensor to a wider dtype first")
            cast = fk_cast_get(I64, dt)
            cast(<char *>&i, p, 1)
        return 0
    if isinstance(value, complex):
        d[0] = value.real; d[1] = value.imag
        if KIND[dt] != KIND_COMPLEX:
            if d[1] != 0:
                raise said(RuntimeError, "[fill] a real number was required for %s: value cannot be converted to type %s without overflow"
                                   % ((<dtype>DTYPES[dt]).name, (<dtype>DTYPES[dt]).name) + "\nhint: convert the tensor to a complex dtype, or pass value.real")
            cast = fk_cast_get(F64, dt)
            cast(<char *>d, p, 1)
            return 0
        cast = fk_cast_get(C128, dt)
    else:
        d[0] = float(value)
        if KIND[dt] == KIND_COMPLEX:
            cast = fk_cast_get(C128, dt)
        else:
            if KIND[dt] == KIND_INT and (d[0] != d[0] or d[0] > 9.3e18 or d[0] < -9.3e18):
                raise said(RuntimeError, "[fill] a finite number was required for %s: value cannot be converted to type %s without "
                                   "overflow: got %r" % ((<dtype>DTYPES[dt]).name, (<dtype>DTYPES[dt]).name, value) + "\nhint: integers and bool have no inf or nan: convert the tensor to a floating-point dtype")
            cast = fk_cast_get(F64, dt)
    cast(<char *>d, p, 1)
    return 0


cdef object load_element(const char *p, int dt):
    """One element as a Python number."""
    cdef double d[2]
    cdef int64_t i
    cdef uint64_t u
    if dt == F64: return (<double *>p)[0]
    if dt == F32: return <double>(<float *>p)[0]
    if dt == I64: return (<int64_t *>p)[0]
    if dt == B8: return p[0] != 0
    if dt == U64:
        memcpy(&u, p, 8)
        return u
    if KIND[dt] == KIND_INT:
        fk_cast_get(dt, I64)(p, <char *>&i, 1)
        return i
    if KIND[dt] == KIND_COMPLEX:
        fk_cast_get(dt, C128)(p, <char *>d, 1)
        return complex(d[0], d[1])
    fk_cast_get(dt, F64)(p, <char *>d, 1)
    return d[0]


cdef object nested_list(Tensor t, int d, char *p):
    cdef int64_t i
    cdef list r
    if d == t.nd:
        return load_element(p, t.dt)
    r = []
    for i in range(t.sh[d]):
        r.append(nested_list(t, d + 1, p + i * t.sd[d] * ITEMSIZE[t.dt]))
    return r


cdef Tensor ones_like_(Tensor a):
    cdef Tensor t
    if a.keys & K_DISPATCH:
        return ONES_LIKE[0](a)
    t = new_like(a, a.dt)
    if a.dt == F32 and t.numel_ == 1 and not (t.keys & (K_META | K_FOREIGN)):
        (<float *>t.data_)[0] = 1.0
        return t
    fill_value(t, 1)
    return t

#: slot: ones of the shape, dtype and device of a tensor
ONES_LIKE = [None]


cdef int add_into(Tensor a, Tensor b) except -1:
    """a += b for contiguous tensors of one shape and dtype, without history."""
    cdef char *p[3]
    cdef int cd = COMPUTE[a.dt]
    cdef fk_map fn = kernel_of(OP_ADD.default_variant, cd)
    cdef fk_iter it
    if fn != NULL and a.dt == cd and a.numel_ <= GIL_FREE // 4:
        p[0] = a.data_; p[1] = a.data_; p[2] = b.data_
        if a.numel_: fn(p, NULL, a.numel_)
        return 0
    it.ndim = a.nd; it.nout = 1; it.nin = 2
    memcpy(it.shape, a.sh, a.nd * 8)
    iter_operand(&it, 0, a, a.nd, cd)
    iter_operand(&it, 1, a, a.nd, cd)
    iter_operand(&it, 2, b, a.nd, cd)
    if fn == NULL:
        a.add_(b)
        return 0
    run_iteration(fn, NULL, &it)
    return 0


cdef Tensor add_gradients(Tensor a, Tensor b):
    return a + b


cdef Tensor sum_to_size(Tensor g, shape):
    """Sum the dimensions that broadcasting added or stretched."""
    cdef int shift = g.nd - len(shape), i
    cdef list dims = [i for i in range(shift)]
    for i in range(len(shape)):
        if shape[i] == 1 and g.sh[i + shift] != 1:
            dims.append(i + shift)
    if dims:
        g = SUM[0](g, tuple(dims), True)
    if shift:
        g = g.reshape(shape)
    return g

#: slot: function(tensor, bytes), which sets what lies behind so many bytes of the storage; None: unset memory stays as it is
UNSET = [None]

cdef str without_elements(str name, object tensors):
    """What is said where a kernel gets meta tensors: most often one operand alone was made there."""
    for t in tensors:
        if isinstance(t, Tensor) and not (<Tensor>t).keys & K_META:
            return ("[%s] tensors on one device were required: Expected all tensors to be on the same device, but found at least two "
                    "devices, meta and %s!\nhint: move one with .to(device); to_empty(device=) and load_state_dict() fill meta modules"
                    % (name.split(":")[0], DEVICES[(<Tensor>t).dev]))
    return "[%s] tensors with elements were required: got a meta tensor" % name


#: slot: sum(tensor, dims, keepdim)
SUM = [None]


cdef int resize_tensor(Tensor t, int nd, const int64_t *sh) except -1:
    """Give a tensor another shape, contiguous, growing the storage where needed."""
    refuse_keeping()
    cdef int64_t n = shape_numel(nd, sh), s = 1, needed
    cdef int i
    cdef int64_t offset = t.storage_offset() * ITEMSIZE[t.dt]
    needed = offset + n * ITEMSIZE[t.dt]
    if t.keys & K_META:
        pass
    elif needed > t.st.nbytes:
        own_bytes(t)
        if t.st.flags & (FK_FOREIGN | FK_NO_RESIZE | FK_READONLY | FK_SHARED):
            raise said(RuntimeError, "[resize_] resizable storage was required: Trying to resize storage that is not resizable (it "
                               "belongs to somebody else, such as a NumPy array)\nhint: clone() gives a storage of its own")
        resize_storage(t.st, needed)
        t.data_ = t.st.data + offset
    set_rank(t, nd)
    for i in range(nd - 1, -1, -1):
        t.sh[i] = sh[i]; t.sd[i] = s
        if sh[i] > 1: s *= sh[i]
    t.numel_ = n
    t.keys &= ~<uint32_t>K_STRIDED
    return 0


# ------------------------------------------------------------------ copy_, clone, to, contiguous

cdef int copy_backward(Node n, PyObject **grads, PyObject **out) except -1:
    """copy_: zeros to the overwritten tensor, the gradient (fitted) to the source."""
    cdef Tensor g = <Tensor>grads[0]
    if n.e0 is not None:
        r = OP_ZEROS_LIKE(g)
        Py_INCREF(r)
        out[0] = <PyObject *>r
    if n.e1 is None:
        return 0
    r = fit_gradient(g, n.extra)
    Py_INCREF(r)
    out[1] = <PyObject *>r
    return 0


cdef int clone_backward(Node n, PyObject **grads, PyObject **out) except -1:
    cdef Tensor g = <Tensor>grads[0]
    r = fit_gradient(g, n.extra) if n.extra is not None else g
    Py_INCREF(r)
    out[0] = <PyObject *>r
    return 0


cdef object copy_inplace(Tensor self, Tensor src, str name):
    cdef uint32_t tls = fk_tls_keys()
    cdef Node n = None
    cdef int i, shift = self.nd - src.nd
    check_inplace(name[:-1] if name.endswith("_") else name, self, tls)
    if shift < 0:
        raise said(RuntimeError, "[copy_] a source that broadcasts to self was required: The size of tensor a %s must match the size of tensor b %s"
                           % (list(make_size(self.nd, self.sh)), list(make_size(src.nd, src.sh))) + "\nhint: reshape or expand the source to the shape of self")
    for i in range(src.nd - 1, -1, -1):
        if src.sh[i] != 1 and src.sh[i] != self.sh[i + shift]:
            raise said(RuntimeError, "[copy_] a source that broadcasts to self was required: The size of tensor a (%d) must match the "
                               "size of tensor b (%d) at non-singleton dimension %d: self has shape %s, the source %s"
                               % (self.sh[i + shift], src.sh[i], i + shift, list(make_size(self.nd, self.sh)), list(make_size(src.nd, src.sh))) + "\nhint: reshape or expand the source to the shape of self")
    if self.keys & K_META != src.keys & K_META and self.dev != 1 and not ((self.keys | src.keys) & K_DISPATCH):
        raise said(NotImplementedError, "[copy_] a source with data was required: Cannot copy out of meta tensor; no data!\nhint: copy from a tensor on another device, or make values with facula.zeros_like(x, device='cpu')")
    if (self.keys | src.keys) & K_GRAD and not (tls & K_NOGRAD) and KIND[self.dt] >= KIND_FLOAT:
        n = new_node(None, copy_backward, 2, 1)
        n.label = "CopyBackwards"
        n.extra = (shape_of_fake(src), src.dt)
        if self.keys & K_GRAD: add_edge(n, 0, self)
        if src.keys & K_GRAD: add_edge(n, 1, src)
    if self.st == src.st and self is not src and overlaps(self, src) and shifted(self, src) and dense(self) and dense(src):
        raise_overlap(name)
    if dispatch_method(m_copy_, (self, src), {}, self.keys | src.keys | tls) is NotImplemented:
        copy_into(self, src)
    bump(self)
    if n is not None:
        rebase(self, n)
    return self


cdef Tensor convert(Tensor a, int dt, int dev, bint copy, object format):
    """`to`: another dtype, device or memory order; the same tensor when nothing changes and no copy is asked."""
    cdef Tensor t = None
    cdef Node n
    cdef uint32_t tls = fk_tls_keys()
    if a.keys & K_FAKE:
        dev = stands_on(a, dev)
    cdef bint ordered = format is None or format is preserve_format or a.is_contiguous(memory_format=format)
    if dt == a.dt and dev == a.dev and not copy and ordered:
        return a
    if a.dev == 1 and dev != 1 and not (a.keys & K_FAKE):
        raise said(NotImplementedError, "[to] a tensor with data was required: Cannot copy out of meta tensor; no data!\nhint: use "
                                  ".to_empty() on modules, or facula.empty_like(x, device=...)")
    if (a.keys | tls) & K_DISPATCH:
        if dt == a.dt and dev == a.dev and not ordered:
            r = dispatch_method(m_clone, (a,), {"memory_format": format}, K_DISPATCH)
        else:
            r = dispatch_method(m_to, (a,), conversion(a, dt, dev, copy, format), K_DISPATCH)
        if r is not NotImplemented: t = r
    if t is None:
        if format is None or format is preserve_format:
            if dev == a.dev:
                t = new_like(a, dt)
            else:
                t = new_tensor(a.nd, a.sh, dt, dev)
        else:
            t = empty_in_format(a.nd, a.sh, dt, dev, format)
        copy_into(t, a)
    if a.keys & K_GRAD and not (tls & K_NOGRAD) and KIND[dt] >= KIND_FLOAT:
        n = new_node(None, clone_backward, 1, 1)
        n.label = "ToCopyBackward0"
        add_edge(n, 0, a)
        if dt != a.dt: n.extra = (shape_of_fake(a), a.dt)
        if dev != a.dev: n.fn = device_backward; n.extra = (a.dt, a.dev)
        attach(t, n, 0)
    elif tls & K_INFERENCE:
        t.keys |= K_INFERENCE
    return t



cdef int stands_on(Tensor a, int dev) except -1:
    """For a fake tensor, its own device number where a conversion to `dev` leaves it where it is."""
    here = device_number(a.fake_device)
    return a.dev if dev == here else dev


cdef dict conversion(Tensor a, int dt, int dev, bint copy, object format):
    """What `to` is asked to change, as keywords."""
    cdef dict kwargs = {}
    if dt != a.dt: kwargs["dtype"] = <object>DTYPES[dt]
    if dev != a.dev: kwargs["device"] = <object>DEVICES[dev]
    if format is not None and format is not preserve_format: kwargs["memory_format"] = format
    if copy: kwargs["copy"] = True
    return kwargs


cdef int device_backward(Node n, PyObject **grads, PyObject **out) except -1:
    r = (<Tensor>grads[0]).to(device=<object>DEVICES[<int>n.extra[1]], dtype=<object>DTYPES[<int>n.extra[0]])
    Py_INCREF(r)
    out[0] = <PyObject *>r
    return 0


cdef Tensor empty_in_format(int nd, const int64_t *sh, int dt, int dev, object format):
    cdef Tensor t = new_tensor(nd, sh, dt, dev)
    cdef int i, d
    cdef int64_t s = 1
    if format is channels_last or format is channels_last_3d:
        if nd != (4 if format is channels_last else 5):
            raise said(RuntimeError, "[memory_format] a tensor of rank %d was required for %r: got %d dimensions (required rank %d tensor to use "
                               "channels_last format)" % (4 if format is channels_last else 5, format, nd, 4 if format is channels_last else 5) + "\nhint: channels_last is for images [N, C, H, W], channels_last_3d for volumes [N, C, D, H, W]")
        for i in range(nd):
            d = 1 if i == 0 else (nd - i if i < nd - 1 else 0)
            t.sd[d] = s
            s *= sh[d] if sh[d] > 0 else 1
        compute_keys(t)
    elif format is not contiguous_format and format is not preserve_format:
        raise said(RuntimeError, "[memory_format] a memory format was required: got " + repr(format) + "\nhint: facula.contiguous_format, facula.channels_last, facula.channels_last_3d or facula.preserve_format")
    return t


# ------------------------------------------------------------------ kernels from Python

#: the most pointers and sizes that one launch takes
KERNEL_POINTERS = 8192
KERNEL_INTS = 4096


def bump_versions(columns):
    """Count a write to every tensor of some lists of tensors."""
    if not (fk_tls_keys() & K_KEEP and keeper().whole): refuse_keeping()
    for column in columns:
        for t in column:
            if t is not None:
                bump(<Tensor?>t)


def count_writes(list inputs, values, tuple pairs):
    """Count a write to every input that a graph has written into itself: where a value is that input.

    pairs: (input, value) numbers. Gives the numbers of the pairs that are still to be written.
    """
    cdef list rest = []
    cdef Py_ssize_t n = 0
    for i, v in pairs:
        t = inputs[i]
        if values[v] is t: bump(<Tensor>t)
        else: rest.append(n)
        n += 1
    return rest


#: slot: what a launch on meta tensors means to whoever watches: (name, tensors, ints, scalars, total, grain)
META_LAUNCH = [None]


cdef class Kernel:
    """A loaded kernel: call it with tensors, ints and numbers."""
    cdef readonly str name
    cdef char form
    cdef void *fn
    cdef readonly Contract contract

    @property
    def address(self):
        """Where the function stands, for drivers that take a map as their last step."""
        if self.form == c'm': MAPS[<int64_t><size_t>self.fn] = self
        return <int64_t><size_t>self.fn

    def __call__(self, tensors, ints=(), scalars=(), total=None, int64_t grain=1):
        """Run the kernel.

        tensors: Tensors, or None for null pointers; ints: sizes; scalars: ints or floats; total, grain: the index space
        of a body. Raises OutOfMemoryError when a driver finds no memory.
        """
        cdef char *few[64]
        cdef int64_t sizes[96]
        cdef fk_scalar s[64]
        cdef char **p = few
        cdef int64_t *n = sizes
        cdef Given few_given[64]
        cdef Given *given = few_given
        cdef int i = 0, r = 0
        cdef int64_t count, work = 0
        if self.fn == NULL:
            raise said(RuntimeError, "[kernel] a loaded kernel was required: this object was made without one\nhint: core.kernel(name) gives kernels")
        # what is walked below is as long as it says
        if type(tensors) is not tuple: tensors = tuple(tensors)
        if type(ints) is not tuple: ints = tuple(ints)
        if type(scalars) is not tuple: scalars = tuple(scalars)
        if len(tensors) > KERNEL_POINTERS or len(ints) > KERNEL_INTS or len(scalars) > 64:
            raise said(ValueError, "[%s] at most %d tensors, %d ints and 64 scalars were required" % (self.name, KERNEL_POINTERS, KERNEL_INTS) + "\nhint: split the launch")
        if len(tensors) > 64 or len(ints) > 96:
            p = <char **>malloc(len(tensors) * (sizeof(char *) + sizeof(Given)) + len(ints) * 8 + 8)
            if p == NULL:
                raise MemoryError()
            n = <int64_t *>(p + len(tensors))
            given = <Given *>(n + len(ints))
        try:
            for t in tensors:
                if t is None:
                    p[i] = NULL
                    given[i].dt = -1
                else:
                    if (<Tensor?>t).keys & (K_TRANSFORM | K_META):
                        if (<Tensor>t).keys & K_META and not ((<Tensor>t).keys & K_TRANSFORM) and META_LAUNCH[0] is not None:
                            return META_LAUNCH[0](self.name, tensors, ints, scalars, total, grain)
                        raise said(RuntimeError, "[%s] tensors with elements were required: got a function transform's wrapper\nhint: "
                                           "the operator that launches this kernel has no rule for the transform" % self.name
                                           if (<Tensor>t).keys & K_TRANSFORM else
                                           without_elements(self.name, tensors))
                    own_bytes(<Tensor>t)  # which operand it writes to is said by nobody here
                    p[i] = (<Tensor>t).data_
                    given[i] = given_tensor(<Tensor>t)
                    work += (<Tensor>t).numel_
                i += 1
            i = 0
            for x in ints:
                n[i] = whole(x, self.name, ValueError)
                i += 1
            i = 0
            for x in scalars:
                if isinstance(x, int): s[i].i = whole(x, self.name, RuntimeError)
                else: s[i].f = x
                i += 1
            self.contract.check(self.name, self.form, given, len(tensors), n, len(ints), s, len(scalars), total or 0)
            if fk_tls_keys() & K_KEEP and keep_launch(self, tensors, n, len(ints), s, len(scalars), total or 0, grain):
                return
            if self.form == c'b':
                count = total
                if count > 0:
                    if work < GIL_FREE // 16 and count <= grain:
                        (<fk_body>self.fn)(p, n, s, 0, count)
                    else:
                        run_body(<fk_body>self.fn, p, n, s, count, grain)
            elif self.form == c'd':
                if work < GIL_FREE // 16:
                    r = (<fk_driver>self.fn)(p, n, s, &fk_runtime_table)
                else:
                    r = run_driver(<fk_driver>self.fn, p, n, s)
            else:
                count = total
                if count > 0:
                    run_map(<fk_map>self.fn, p, s, count)
        finally:
            if p != few:
                free(p)
        if r:
            raise_memory(0)

    def __repr__(self):
        return "<kernel %s>" % self.name

cdef dict KERNEL_OBJECTS = {}
cdef dict KERNEL_ENTRIES = {}    # name -> address of the fk_entry
cdef dict MAPS = {}              # address -> kernel, of the elementwise ones that were asked where they stand


def kernel(str name):
    """The loaded kernel `name`.

    Raises NotImplementedError, naming the dtype, where there is none.
    """
    k = KERNEL_OBJECTS.get(name)
    if k is None:
        k = KERNEL_OBJECTS[name] = load_kernel(name)
    return k


cdef Kernel load_kernel(str name):
    cdef Kernel k = Kernel.__new__(Kernel)
    cdef const fk_entry *entry
    address = KERNELS.get(name)
    if address is None:
        op, _, code = name.partition(":")
        d = DTYPE_BY_CODE.get(code)
        raise said(NotImplementedError, "[%s] a kernel was required: \"%s\" not implemented for '%s'\nhint: convert the tensor to another "
                                  "dtype" % (op, op, (<dtype>d).type_word if d is not None else code))
    k.name = name
    entry = <const fk_entry *><uintptr_t>KERNEL_ENTRIES[name]
    k.fn = <void *><uintptr_t>address
    k.form = entry.kind
    k.contract = Contract(entry.operands.decode())
    return k


def has_kernel(str name):
    """Whether a kernel of that name is loaded."""
    return name in KERNELS


def load_library(path):
    """Load a kernel library and enter its kernels; gives how many there are.

    Raises ImportError when the file is no kernel library of this version.
    """
    cdef bytes text = str(path).encode()
    cdef void *h = dlopen(text, 2)
    cdef fk_entry *e
    cdef int *abi
    cdef int count = 0
    if h == NULL:
        raise said(ImportError, "[load_library] a kernel library was required: got " + dlerror().decode() + "\nhint: rebuild with 'pip install .'")
    e = <fk_entry *>dlsym(h, "facula_kernels")
    abi = <int *>dlsym(h, "facula_abi")
    if e == NULL or abi == NULL or abi[0] != FACULA_ABI:
        raise said(ImportError, "[load_library] a kernel library of ABI %d was required: got %s\nhint: rebuild with 'pip install .'" % (FACULA_ABI, path))
    while e.name != NULL:
        if e.operands == NULL:
            raise said(ImportError, "[load_library] a text of its operands was required of every kernel: got none of %s in %s\nhint: rebuild with 'pip install .'" % (e.name.decode(), path))
        e += 1
    e = <fk_entry *>dlsym(h, "facula_kernels")
    while e.name != NULL:
        name = e.name.decode()
        KERNELS[name] = <uintptr_t>e.fn
        KERNEL_ENTRIES[name] = <uintptr_t>e
        count += 1
        e += 1
    return count


# ------------------------------------------------------------------ threads, memory

def set_num_threads(n):
    """How many threads one operator uses.

    Args:
        n: 1 or more

    Raises:
        RuntimeError: the number is not positive.

    Example:
        >>> before = facula.get_num_threads()
        >>> facula.set_num_threads(1)
        >>> facula.get_num_threads()
        1
        >>> facula.set_num_threads(before)
    """
    if not 1 <= n < 1 << 31:
        raise said(RuntimeError, "[set_num_threads] a positive number of 31 bits was required: got %d" % n + "\nhint: facula.get_num_threads() says how many there are")
    fk_set_num_threads(n)


def get_num_threads():
    """How many threads one operator uses.

    Example:
        >>> facula.get_num_threads() >= 1
        True
    """
    return fk_get_num_threads()


cdef extern from "fk_storage.h":
    fk_memory_stats fk_memory_get_stats() nogil
    void fk_memory_reset_peak() nogil
    void fk_cache_empty() nogil
    int64_t fk_scratch_empty() nogil
    void fk_cache_set_limit(int64_t) nogil
    void fk_memory_set_limit(int64_t) nogil


def memory_stats():
    """Bytes allocated now and at most, bytes cached, storages alive."""
    cdef fk_memory_stats s = fk_memory_get_stats()
    return {"allocated": s.allocated, "peak": s.peak, "cached": s.cached, "requested": s.requested,
            "allocations": s.allocations, "live": s.live}


def reset_peak_memory():
    """Start the peak anew from what is allocated now."""
    fk_memory_reset_peak()


def empty_cache():
    """Give cached memory back to the system, that of kernels included."""
    fk_cache_empty()
    fk_scratch_empty()


def set_cache_limit(nbytes):
    """Keep at most this many freed bytes."""
    fk_cache_set_limit(nbytes)


def set_memory_limit(nbytes):
    """Refuse allocations beyond this many bytes in all; None or 0: no limit."""
    fk_memory_set_limit(nbytes or 0)
