# Fast paths of the operators that small models spend their time in: full and one-dimension sums, linear layers, products.
#
# Takes: the slots of an operator whose definition names one of these ways (`fast = "reduce"`).
# Gives: the result, recorded; or None where the ordinary way must serve: odd layouts, dtypes, devices, and every error.
# Keeps true: the ordinary way gives the same numbers (the same kernels run) and the same gradients.

ctypedef object (*fast_function)(Op op, PyObject **slots, uint32_t k)

cdef dict _FAST_NUMBERS = {"reduce": 1, "linear": 2, "mm": 3, "matmul": 4, "rows": 5, "reshape": 6, "select": 7,
                           "nonzero": 8}


cdef object run_fast(int number, Op op, PyObject **slots, uint32_t k):
    if number == 1: return fast_reduce(op, slots, k)
    if number == 2: return fast_linear(op, slots, k)
    if number == 5: return fast_rows(op, slots, k)
    if number == 6: return fast_reshape(op, slots, k)
    if number == 7: return fast_select(op, slots, k)
    if number == 8: return fast_nonzero(op, slots)
    return fast_mm(op, slots, k)


#: what the launches below pass: registered operands without their names, `@` the dtype, `#` its bytes (4 at least), `^` the dtype of its sums
cdef str REDUCE_FORM = "4;0;w @ n0*n2;r @ n0*n1*n2*n3;c segments 1+max(1,n0*n1*n2*n3)-n3"
cdef str ROWS_FORM = "5;0;w @ n0*n1*n2;r @ n0*n1*n2"
cdef str GEMM_FORM = ("13+n12/4096%2+;2+;u @ span(n0,n10,n1,n11,n2,1);r @ span(n0,n4,n1,n5,n3,n6);"
                      "*1-n12/1024%2 r @ span(n0,n7,n3,n8,n2,n9);*n12/1024%2 r u8 (n3+3)/4*4*((n2+63)/64*64)*#;"
                      "r? @ if(n12/8192%2,if(n12/16384%2,n0,1)*n1,n2);"
                      "*max(P-4,n12/2048%2) r @ if(n12/2048%2,span(n0,n10,n1,n11,n2,1),0);*n12/4096%2 m ^ n13;c flags 1+min(n12,0)")
#: what products of a dtype add up in, where that is another one
cdef dict SUMS = {"f16": "f32", "bf16": "f32", "c64": "f32", "c128": "f64"}


cdef inline void *driver_of(Op op, int dt, str name, str form) except? NULL:
    """The driver `name` for storage dtype `dt`, looked up once an operator; its operands must be those of `form`."""
    if op.drivers[dt] == NULL and not op.looked[dt]:
        op.looked[dt] = 1
        op.drivers[dt] = checked_driver(name + ":" + (<dtype>DTYPES[dt]).code, form.replace("@", (<dtype>DTYPES[dt]).code))
    return op.drivers[dt]


cdef void *checked_driver(str name, str form) except? NULL:
    """The driver of that name, NULL where there is none."""
    cdef Kernel k
    if name not in KERNELS: return NULL
    k = kernel(name)
    form = form.replace("#", str(max(4, ITEMSIZE[k.contract.operands[0].dtype])))
    code = name.rpartition(":")[2]
    form = form.replace("^", SUMS.get(code, code))
    if k.form != c'd' or k.contract.form != form:
        raise_fault(name, "a driver with operands %s was required: got %s" % (form, k.contract.form))
    return k.fn


# ------------------------------------------------------------------ reductions

cdef object fast_reduce(Op op, PyObject **slots, uint32_t k):
    """sum and mean over everything or one dimension of a contiguous f32 or f64 tensor."""
    cdef Tensor x, r
    cdef Node node
    cdef int64_t sh[MAX_DIMS]
    cdef int64_t n[4]
    cdef char *p[2]
    cdef void *fn
    cdef int d = -1, i, j, nd = 0
    cdef bint keepdim = False
    if type(<object>slots[0]) is not Tensor: return None
    x = <Tensor>slots[0]
    if x.keys & (K_STRIDED | K_META) or (x.dt != F32 and x.dt != F64) or x.numel_ == 0: return None
    if slots[3] != NULL and <object>slots[3] is not None: return None
    if slots[1] != NULL and <object>slots[1] is not None:
        dim = <object>slots[1]
        if type(dim) in (tuple, list):
            if len(dim) != 1: return None
            dim = dim[0]
        if not PyLong_CheckExact(dim): return None
        if not -x.nd <= dim < x.nd: return None
        d = dim
        if d < 0: d += x.nd
    if slots[2] != NULL:
        if <object>slots[2] is True: keepdim = True
        elif <object>slots[2] is not False: return None
    fn = driver_of(op, x.dt, op.name, REDUCE_FORM)
    if fn == NULL: return None
    n[0] = 1; n[2] = 1; n[3] = 1
    if d < 0:
        n[1] = x.numel_
        if keepdim:
            nd = x.nd
            for i in range(nd): sh[i] = 1
    else:
        for i in range(x.nd):
            if i < d: n[0] *= x.sh[i]
            elif i > d: n[2] *= x.sh[i]
            if i != d:
                sh[nd] = x.sh[i]; nd += 1
            elif keepdim:
                sh[nd] = 1; nd += 1
        n[1] = x.sh[d]
    r = new_tensor(nd, sh, x.dt, 0)
    p[0] = r.data_; p[1] = x.data_
    if x.numel_ < GIL_FREE // 4:
        i = (<fk_driver>fn)(p, n, NULL, &fk_runtime_table)
    else:
        i = run_driver(<fk_driver>fn, p, n, NULL)
    if i: raise_memory(0)
    if k & K_GRAD and not (k & K_NOGRAD):
        node = new_node(op, reduce_backward, 1, 1)
        node.e0 = edge(x)
        node.n0 = x.out_nr if x.fn_ is not None else 0
        node.attrs[0].i = d
        node.attrs[1].i = keepdim
        node.attrs[2].f = 1.0 if op.name == "sum" else 1.0 / <double>n[1]
        node.extra = make_size(x.nd, x.sh)
        attach(r, node, 0)
    elif k & K_INFERENCE:
        r.keys |= K_INFERENCE
    return r


cdef int reduce_backward(Node node, PyObject **grads, PyObject **out) except -1:
    """Spread the gradient over the reduced dimension."""
    cdef Tensor g = <Tensor>grads[0]
    cdef Tensor r, e
    cdef int d = <int>node.attrs[0].i, nd, i, j = 0
    cdef double scale = node.attrs[2].f
    cdef int64_t sh[MAX_DIMS]
    cdef uint32_t tls = fk_tls_keys()
    nd = parse_shape(node.extra, sh)
    if not (tls & K_NOGRAD) or (tls | g.keys) & K_DETOUR:
        e = g
        if not node.attrs[1].i:
            e = e.reshape((1,) * nd) if d < 0 else e.unsqueeze(d)
        e = e.expand(node.extra)
        if scale != 1.0: e = e * scale
        Py_INCREF(e)
        out[0] = <PyObject *>e
        return 0
    if scale != 1.0:
        g = scaled(g, scale)
    if d < 0 and not (g.keys & (K_META | K_FOREIGN)):
        r = new_tensor(nd, sh, g.dt, 0) if shape_numel(nd, sh) <= 4096 else None
        if r is not None:
            if g.dt == F32:
                fill_f32(<float *>r.data_, (<float *>g.data_)[0], r.numel_)
            else:
                fill_value(r, load_element(g.data_, g.dt))
            Py_INCREF(r)
            out[0] = <PyObject *>r
            return 0
    e = share(g)
    set_rank(e, nd)
    for i in range(nd):
        e.sh[i] = sh[i]
        if d < 0:
            e.sd[i] = 0
        elif i == d:
            e.sd[i] = 0
            if node.attrs[1].i: j += 1
        else:
            e.sd[i] = g.sd[j]
            j += 1
    finish_view(e)
    Py_INCREF(e)
    out[0] = <PyObject *>e
    return 0


cdef inline void fill_f32(float *p, float v, int64_t n) noexcept:
    cdef int64_t i
    for i in range(n):
        p[i] = v


cdef Tensor scaled(Tensor g, double factor):
    """g * factor without history."""
    cdef Tensor r
    if g.numel_ == 1 and g.dt == F32 and not (g.keys & (K_META | K_FOREIGN)):
        r = new_like(g, F32)
        (<float *>r.data_)[0] = <float>((<float *>g.data_)[0] * factor)
        return r
    return <Tensor>binary(OP_MUL, g, factor)


cdef object fast_reshape(Op op, PyObject **slots, uint32_t k):
    """A tensor in another shape: a view where one can be had, else of a copy."""
    cdef PyObject *copied[24]
    cdef int64_t sh[MAX_DIMS]
    cdef int64_t sd[MAX_DIMS]
    cdef Tensor a
    cdef int nd
    if type(<object>slots[0]) is not Tensor or OP_VIEW is None: return None
    a = <Tensor>slots[0]
    if a.keys & K_STRIDED:
        nd = parse_shape(<object>slots[1], sh)
        infer_shape(OP_VIEW, a, nd, sh)
        if not view_strides(a, nd, sh, sd):
            whole_copy = a.contiguous()
            copied[0], copied[1] = <PyObject *>whole_copy, slots[1]
            return view_call(OP_VIEW, copied, k)
    return view_call(OP_VIEW, slots, k)

cdef Op OP_VIEW = None


# ------------------------------------------------------------------ row programs of one tensor: softmax and its like

cdef object fast_rows(Op op, PyObject **slots, uint32_t k):
    """`op(x, dim)` of a contiguous tensor in a dtype that has a kernel, with a result like x."""
    cdef Tensor x, r
    cdef int64_t n[5]
    cdef char *p[2]
    cdef void *fn
    cdef int d, i
    if type(<object>slots[0]) is not Tensor or slots[1] == NULL or not PyLong_CheckExact(<object>slots[1]): return None
    if slots[2] != NULL and <object>slots[2] is not None: return None
    x = <Tensor>slots[0]
    if x.keys & (K_STRIDED | K_META) or x.dt > BF16 or x.numel_ == 0 or x.nd == 0: return None
    if not -x.nd <= <object>slots[1] < x.nd: return None
    d = <object>slots[1]
    if d < 0: d += x.nd
    fn = driver_of(op, x.dt, op.name, ROWS_FORM)
    if fn == NULL: return None
    n[0] = 1; n[1] = x.sh[d]; n[2] = 1; n[3] = 0; n[4] = 0
    for i in range(d): n[0] *= x.sh[i]
    for i in range(d + 1, x.nd): n[2] *= x.sh[i]
    r = new_like(x, x.dt)
    p[0] = r.data_; p[1] = x.data_
    if x.numel_ < GIL_FREE // 16:
        i = (<fk_driver>fn)(p, n, NULL, &fk_runtime_table)
    else:
        i = run_driver(<fk_driver>fn, p, n, NULL)
    if i: raise_memory(0)
    if k & K_GRAD and not (k & K_NOGRAD):
        record_formula(op, (x, d, None), r)
    elif k & K_INFERENCE:
        r.keys |= K_INFERENCE
    return r


# ------------------------------------------------------------------ few elements by masks

cdef enum:
    FEW = 4096


cdef inline int64_t count_true(const char *mask, int64_t n) noexcept:
    cdef int64_t i, count = 0
    for i in range(n): count += mask[i] != 0
    return count


cdef object fast_select(Op op, PyObject **slots, uint32_t k):
    """The elements of a contiguous tensor at the true places of a mask of its shape."""
    cdef Tensor x, mask, r
    cdef int64_t sh[1]
    cdef int64_t i, size
    cdef char *at
    if type(<object>slots[0]) is not Tensor or type(<object>slots[1]) is not Tensor: return None
    x = <Tensor>slots[0]; mask = <Tensor>slots[1]
    if (x.keys | mask.keys) & (K_STRIDED | K_META | K_FAKE) or mask.dt != B8 or x.numel_ > FEW or not same_shape(x, mask): return None
    sh[0] = count_true(mask.data_, mask.numel_)
    r = new_tensor(1, sh, x.dt, 0)
    at = r.data_
    size = ITEMSIZE[x.dt]
    for i in range(mask.numel_):
        if mask.data_[i]:
            memcpy(at, x.data_ + i * size, size)
            at += size
    if k & K_GRAD and not (k & K_NOGRAD):
        record_formula(op, (x, mask), r)
    elif fk_tls_keys() & K_INFERENCE:
        r.keys |= K_INFERENCE
    return r


cdef object fast_nonzero(Op op, PyObject **slots):
    """The coordinates of the true places of a contiguous mask."""
    cdef Tensor mask, r
    cdef int64_t sh[2]
    cdef int64_t i, rest
    cdef int64_t *at
    cdef int d
    if type(<object>slots[0]) is not Tensor: return None
    mask = <Tensor>slots[0]
    if mask.keys & (K_STRIDED | K_META | K_FAKE) or mask.dt != B8 or mask.numel_ > FEW: return None
    sh[0] = count_true(mask.data_, mask.numel_); sh[1] = mask.nd
    r = new_tensor(2, sh, I64, 0)
    at = <int64_t *>r.data_
    for i in range(mask.numel_):
        if mask.data_[i]:
            rest = i
            for d in range(mask.nd - 1, -1, -1):
                at[d] = rest % mask.sh[d]
                rest //= mask.sh[d]
            at += mask.nd
    if fk_tls_keys() & K_INFERENCE: r.keys |= K_INFERENCE
    return r


# ------------------------------------------------------------------ products

cdef inline bint plain_matrix(Tensor t):
    """2-d, a float kernel dtype, one unit stride."""
    return t.nd == 2 and t.dt <= F64 and (t.sd[1] == 1 or t.sd[0] == 1) and t.numel_ != 0 and t.dev == 0


cdef int gemm_into(void *fn, Tensor c, int64_t m, int64_t n, int64_t k, char *a, int64_t a_row, int64_t a_col, char *b, int64_t b_row,
                   int64_t b_col, char *bias) except -1:
    """c[m, n] = a @ b (+ bias), c contiguous."""
    cdef char *p[4]
    cdef int64_t sizes[13]
    cdef fk_scalar s[2]
    cdef int r
    p[0] = c.data_; p[1] = a; p[2] = b; p[3] = bias
    sizes[0] = 1; sizes[1] = m; sizes[2] = n; sizes[3] = k
    sizes[4] = 0; sizes[5] = a_row; sizes[6] = a_col
    sizes[7] = 0; sizes[8] = b_row; sizes[9] = b_col
    sizes[10] = 0; sizes[11] = n; sizes[12] = 0
    s[0].f = 1.0; s[1].f = 0.0
    if m * n * k < 32768:
        r = (<fk_driver>fn)(p, sizes, s, &fk_runtime_table)
    else:
        r = run_driver(<fk_driver>fn, p, sizes, s)
    if r: raise_memory(0)
    return 0


cdef object fast_mm(Op op, PyObject **slots, uint32_t k):
    """The product of two ordinary matrices."""
    cdef Tensor a, b, c
    cdef int64_t sh[2]
    cdef void *fn
    if type(<object>slots[0]) is not Tensor or type(<object>slots[1]) is not Tensor: return None
    a = <Tensor>slots[0]; b = <Tensor>slots[1]
    if not plain_matrix(a) or not plain_matrix(b) or a.dt != b.dt or a.sh[1] != b.sh[0]: return None
    if k & K_GRAD and not (k & K_NOGRAD) and OP_MM is None: return None
    fn = driver_of(op, a.dt, "gemm", GEMM_FORM)
    if fn == NULL: return None
    sh[0] = a.sh[0]; sh[1] = b.sh[1]
    c = new_tensor(2, sh, a.dt, 0)
    gemm_into(fn, c, sh[0], sh[1], a.sh[1], a.data_, a.sd[0], a.sd[1], b.data_, b.sd[0], b.sd[1], NULL)
    if k & K_GRAD and not (k & K_NOGRAD):
        record_formula(OP_MM, (a, b), c)
    elif k & K_INFERENCE:
        c.keys |= K_INFERENCE
    return c

cdef Op OP_MM = None


cdef object fast_linear(Op op, PyObject **slots, uint32_t k):
    """x @ w.T + b for a contiguous x of any rank."""
    cdef Tensor x, w, b = None, y
    cdef Node n
    cdef int64_t sh[MAX_DIMS]
    cdef int64_t rows, inner
    cdef void *fn
    cdef int i
    if not isinstance(<object>slots[0], Tensor) or not isinstance(<object>slots[1], Tensor): return None
    x = <Tensor>slots[0]; w = <Tensor>slots[1]
    if slots[2] != NULL and <object>slots[2] is not None:
        if not isinstance(<object>slots[2], Tensor): return None
        b = <Tensor>slots[2]
        if b.keys & (K_STRIDED | K_META) or b.nd != 1 or b.dt != x.dt or w.nd != 2 or b.sh[0] != w.sh[0]: return None
    if x.keys & (K_STRIDED | K_META) or w.keys & (K_STRIDED | K_META) or x.nd < 2 or w.nd != 2 or x.dt > F64 or x.dt != w.dt: return None
    inner = x.sh[x.nd - 1]
    if inner != w.sh[1] or x.numel_ == 0 or w.numel_ == 0: return None
    fn = driver_of(op, x.dt, "gemm", GEMM_FORM)
    if fn == NULL: return None
    rows = x.numel_ // inner
    for i in range(x.nd - 1): sh[i] = x.sh[i]
    sh[x.nd - 1] = w.sh[0]
    y = new_tensor(x.nd, sh, x.dt, 0)
    gemm_into(fn, y, rows, w.sh[0], inner, x.data_, inner, 1, w.data_, 1, inner, b.data_ if b is not None else NULL)
    if k & K_GRAD and not (k & K_NOGRAD):
        if fk_tls_hooks():
            record_formula(op, (x, w, b), y)
            return y
        n = new_node(op, linear_backward, 3, 1)
        n.rank = x.nd
        if b is None: n.missing = 4
        if x.keys & K_GRAD:
            n.e0 = edge(x); n.n0 = x.out_nr if x.fn_ is not None else 0
        if w.keys & K_GRAD:
            n.e1 = edge(w); n.n1 = w.out_nr if w.fn_ is not None else 0
            check_savable(x)
            n.s0 = x; n.v0 = x.st.version
        if b is not None and b.keys & K_GRAD:
            n.e2 = edge(b); n.n2 = b.out_nr if b.fn_ is not None else 0
        if n.e0 is not None:
            n.s1 = w; n.v1 = w.st.version
        n.attrs[0].i = inner
        attach(y, n, 0)
    elif fk_tls_keys() & K_INFERENCE:
        y.keys |= K_INFERENCE
    return y


cdef int linear_backward(Node n, PyObject **grads, PyObject **out) except -1:
    cdef Tensor g = <Tensor>grads[0]
    cdef Tensor x, w, gx, gw, gb
    cdef int64_t sh[MAX_DIMS]
    cdef int64_t sizes[4]
    cdef char *p[2]
    cdef int64_t columns = g.sh[g.nd - 1], rows = g.numel_ // columns, inner = n.attrs[0].i
    cdef int i, r
    cdef uint32_t tls = fk_tls_keys()
    cdef void *fn
    cdef void *total
    if n.freed: raise_freed(n)
    x = saved_value(n, 0, None) if n.e1 is not None else None
    w = saved_value(n, 1, None) if n.e0 is not None else None
    if not (tls & K_NOGRAD) or (tls | g.keys) & (K_DETOUR | K_META) or g.dt > F64:
        return linear_backward_operators(n, g, x, w, out)
    g = contiguous_(g)
    fn = driver_of(n.op, g.dt, "gemm", GEMM_FORM)
    if n.e0 is not None:
        for i in range(g.nd - 1): sh[i] = g.sh[i]
        sh[g.nd - 1] = inner
        gx = new_tensor(g.nd, sh, g.dt, 0)
        gemm_into(fn, gx, rows, inner, columns, g.data_, columns, 1, w.data_, inner, 1, NULL)
        Py_INCREF(gx)
        out[0] = <PyObject *>gx
    if n.e1 is not None:
        sh[0] = columns; sh[1] = inner
        gw = new_tensor(2, sh, g.dt, 0)
        gemm_into(fn, gw, columns, inner, rows, g.data_, 1, columns, x.data_, inner, 1, NULL)
        Py_INCREF(gw)
        out[1] = <PyObject *>gw
    if n.e2 is not None:
        sh[0] = columns
        gb = new_tensor(1, sh, g.dt, 0)
        total = column_sum(g.dt)
        sizes[0] = 1; sizes[1] = rows; sizes[2] = columns; sizes[3] = 1
        p[0] = gb.data_; p[1] = g.data_
        if g.numel_ < GIL_FREE // 4:
            r = (<fk_driver>total)(p, sizes, NULL, &fk_runtime_table)
        else:
            r = run_driver(<fk_driver>total, p, sizes, NULL)
        if r: raise_memory(0)
        Py_INCREF(gb)
        out[2] = <PyObject *>gb
    return 0

cdef void *COLUMN_SUM[2]
COLUMN_SUM[0] = COLUMN_SUM[1] = NULL


cdef void *column_sum(int dt) except NULL:
    if COLUMN_SUM[dt] == NULL:
        COLUMN_SUM[dt] = checked_driver("sum:" + (<dtype>DTYPES[dt]).code, REDUCE_FORM.replace("@", (<dtype>DTYPES[dt]).code))
    return COLUMN_SUM[dt]


cdef int linear_backward_operators(Node n, Tensor g, Tensor x, Tensor w, PyObject **out) except -1:
    """The same gradients by operators, so that they can be differentiated."""
    cdef Tensor r
    flat = g.reshape((-1, g.shape[g.nd - 1]))
    if n.e0 is not None:
        r = OP_MATMUL(g, w)
        Py_INCREF(r)
        out[0] = <PyObject *>r
    if n.e1 is not None:
        r = OP_MATMUL(flat.t(), x.reshape((-1, n.attrs[0].i)))
        Py_INCREF(r)
        out[1] = <PyObject *>r
    if n.e2 is not None:
        r = flat.sum(0)
        Py_INCREF(r)
        out[2] = <PyObject *>r
    return 0


# ------------------------------------------------------------------ the base of nn.Module

cdef extern from *:
    """
    static PyObject *fk_s_parameters, *fk_s_buffers, *fk_s_modules;
    /* while modules are traced: what takes calls (module, args, kwargs) and registered attributes (module, name, value) */
    static PyObject *fk_call_tracer, *fk_attribute_tracer;
    /* with an AttributeError set: what tables hold that programs put in the place of a module's own, whatever mapping each is */
    static PyObject *fk_module_table_attribute(PyObject *self, PyObject *name) {
        PyObject *kinds[3] = {fk_s_parameters, fk_s_buffers, fk_s_modules}, *type, *value, *trace;
        PyObject *dict = PyObject_GenericGetDict(self, NULL);
        if (!dict) return NULL;
        PyErr_Fetch(&type, &value, &trace);
        for (int i = 0; i < 3; i++) {
            PyObject *table = PyDict_GetItem(dict, kinds[i]), *found;
            if (!table || PyDict_CheckExact(table) || !PyMapping_Check(table)) continue;
            Py_INCREF(table);
            int held = PySequence_Contains(table, name);
            found = held > 0 ? PyObject_GetItem(table, name) : NULL;
            Py_DECREF(table);
            if (!held) continue;
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(trace);
            Py_DECREF(dict);
            return found;
        }
        Py_DECREF(dict);
        PyErr_Restore(type, value, trace);
        return NULL;
    }
    /* attributes of a module: its parameters first, then what Python finds, then buffers and children; no exception is
     * made and swallowed on the way */
    static PyObject *fk_module_getattro(PyObject *self, PyObject *name) {
        PyObject *found = NULL, *dict = PyObject_GenericGetDict(self, NULL), *table;
        if (!dict) return NULL;
        table = PyDict_GetItem(dict, fk_s_parameters);
        if (table && PyDict_CheckExact(table) && PyDict_GET_SIZE(table)) found = PyDict_GetItem(table, name);
        if (!found && (table = PyDict_GetItem(dict, fk_s_modules)) && PyDict_CheckExact(table)) found = PyDict_GetItem(table, name);
        if (!found && (table = PyDict_GetItem(dict, fk_s_buffers)) && PyDict_CheckExact(table)) found = PyDict_GetItem(table, name);
        Py_DECREF(dict);
        if (found && fk_attribute_tracer) {
            Py_INCREF(found);
            PyObject *r = PyObject_CallFunctionObjArgs(fk_attribute_tracer, self, name, found, NULL);
            Py_DECREF(found);
            return r;
        }
        if (found) { Py_INCREF(found); return found; }
        found = PyObject_GenericGetAttr(self, name);
        return found || !PyErr_ExceptionMatches(PyExc_AttributeError) ? found : fk_module_table_attribute(self, name);
    }
    static PyObject *fk_s_hooks[4], *fk_s_compiled, *fk_s_forward, *fk_global_hooks[4];
    static ternaryfunc fk_module_call_base;
    /* a call: straight to `forward` when nobody registered a hook, here or globally */
    static PyObject *fk_module_call(PyObject *self, PyObject *args, PyObject *kwargs) {
        PyObject *dict = PyObject_GenericGetDict(self, NULL), *found;
        int plain = 1;
        if (!dict) return NULL;
        if (fk_call_tracer) {
            Py_DECREF(dict);
            return fk_module_call_base(self, args, kwargs);
        }
        for (int i = 0; i < 4 && plain; i++) {
            found = PyDict_GetItem(dict, fk_s_hooks[i]);
            plain = found && PyDict_Check(found) && PyDict_GET_SIZE(found) == 0 && PyDict_GET_SIZE(fk_global_hooks[i]) == 0;
        }
        if (plain && (found = PyDict_GetItem(dict, fk_s_compiled)) && found != Py_None) plain = 0;
        Py_DECREF(dict);
        if (!plain) return fk_module_call_base(self, args, kwargs);
        Py_ssize_t n = PyTuple_GET_SIZE(args);
        if (n > 6 || (kwargs && PyDict_GET_SIZE(kwargs))) {
            PyObject *forward = PyObject_GetAttr(self, fk_s_forward);
            if (!forward) return NULL;
            PyObject *r = PyObject_Call(forward, args, kwargs);
            Py_DECREF(forward);
            return r;
        }
        PyObject *stack[8];
        stack[1] = self;
        for (Py_ssize_t i = 0; i < n; i++) stack[i + 2] = PyTuple_GET_ITEM(args, i);
        return PyObject_VectorcallMethod(fk_s_forward, stack + 1, (size_t)(n + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    static void fk_module_fast_call(PyTypeObject *type, PyObject *forward_hooks, PyObject *pre_hooks, PyObject *backward_hooks, PyObject *backward_pre_hooks) {
        static const char *const names[4] = {"_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"};
        PyObject *global[4] = {forward_hooks, pre_hooks, backward_hooks, backward_pre_hooks};
        if (type->tp_call == fk_module_call) return;
        for (int i = 0; i < 4; i++) {
            if (!fk_s_hooks[i]) fk_s_hooks[i] = PyUnicode_InternFromString(names[i]);
            Py_INCREF(global[i]);
            fk_global_hooks[i] = global[i];
        }
        if (!fk_s_compiled) {
            fk_s_compiled = PyUnicode_InternFromString("_compiled_call_impl");
            fk_s_forward = PyUnicode_InternFromString("forward");
        }
        fk_module_call_base = type->tp_call;
        type->tp_call = fk_module_call;
        PyType_Modified(type);
    }
    static void fk_module_fast(PyTypeObject *type) {
        if (!fk_s_parameters) {
            fk_s_parameters = PyUnicode_InternFromString("_parameters");
            fk_s_buffers = PyUnicode_InternFromString("_buffers");
            fk_s_modules = PyUnicode_InternFromString("_modules");
        }
        type->tp_getattro = fk_module_getattro;
        PyType_Modified(type);
    }
    """
    PyObject *fk_call_tracer
    PyObject *fk_attribute_tracer
    void fk_module_fast(PyTypeObject *)
    void fk_module_fast_call(PyTypeObject *, object, object, object, object)


cdef PyTypeObject *_class(object cls, str op) except NULL:
    """A class, whatever its metaclass: an argument declared `type` would refuse those of `abc.ABC`."""
    if not isinstance(cls, type):
        raise said(TypeError, "[" + op + "] a class was required: got " + type(cls).__name__ + "\nhint: pass type(module)")
    return <PyTypeObject *>cls


def fast_module_attributes(cls):
    """Let instances of a module class find parameters, children and buffers without a Python `__getattr__`.

    Only for classes whose `__getattr__` is that of `nn.Module` and that do not define `__getattribute__`.
    """
    fk_module_fast(_class(cls, "fast_module_attributes"))


def fast_module_calls(cls, forward_hooks, pre_hooks, backward_hooks, backward_pre_hooks):
    """Let calls of a module class go straight to `forward` when neither it nor these global dictionaries hold hooks.

    Only for classes whose `__call__` and `_call_impl` are those of `nn.Module`.
    """
    for hooks in (forward_hooks, pre_hooks, backward_hooks, backward_pre_hooks):
        if not isinstance(hooks, dict):
            raise said(TypeError, "[fast_module_calls] dictionaries of hooks were required: got " + type(hooks).__name__ + "\nhint: pass those of nn.modules.module_hooks")
    fk_module_fast_call(_class(cls, "fast_module_calls"), forward_hooks, pre_hooks, backward_hooks, backward_pre_hooks)


def swap_module_tracers(call, attribute):
    """Have calls of modules and reads of their parameters, buffers and children go through functions, or (None) not.

    call: `call(module, args, kwargs)`; attribute: `attribute(module, name, value)`. Gives those that were set.
    """
    global fk_call_tracer, fk_attribute_tracer
    previous = module_tracers()
    Py_XDECREF(fk_call_tracer)
    Py_XDECREF(fk_attribute_tracer)
    fk_call_tracer = fk_attribute_tracer = NULL
    if call is not None:
        Py_INCREF(call)
        fk_call_tracer = <PyObject *>call
    if attribute is not None:
        Py_INCREF(attribute)
        fk_attribute_tracer = <PyObject *>attribute
    return previous


def module_tracers():
    """The functions that calls of modules and reads of their attributes go through, None where there are none."""
    return (<object>fk_call_tracer if fk_call_tracer != NULL else None,
            <object>fk_attribute_tracer if fk_attribute_tracer != NULL else None)
