# Elementwise operators: promotion, broadcasting, the choice of kernel, recording, and the fused backward.
#
# Keeps true: one kernel a variant and compute dtype; layouts and other dtypes go through `fk_map_run`'s tiles; where no
# kernel can be had, the operator's expression is evaluated by other operators, which is also how a gradient that must
# itself be differentiable is computed.

cdef enum:
    G_NONE, G_IDENTITY, G_KERNEL, G_EVALUATE
    USE_GRAD = 100
    USE_RESULT = 101


cdef class GradientInput:
    """How the gradient of one tensor argument is computed."""
    cdef int kind, nuses
    cdef unsigned char uses[8]
    cdef fk_map fn


cdef class GradientPlan:
    """The gradients of a variant in one compute dtype, and what they need kept."""
    cdef list inputs             # GradientInput by tensor argument
    cdef bint saves_result
    cdef int saves               # bit i: argument i


cdef inline Tensor wrap_number(object x):
    """A Python number as a 0-d tensor that does not take part in promotion as a dtype."""
    cdef int64_t sh[1]
    cdef Tensor t
    cdef int dt
    if PyFloat_CheckExact(x):
        t = new_tensor(0, sh, F64, 0)
        (<double *>t.data_)[0] = PyFloat_AS_DOUBLE(x)
    elif x is True or x is False:
        t = new_tensor(0, sh, B8, 0)
        t.data_[0] = 1 if x else 0
    elif isinstance(x, int):
        t = new_tensor(0, sh, I64, 0)
        if -0x8000000000000000 <= x <= 0x7fffffffffffffff:
            (<int64_t *>t.data_)[0] = x
        elif 0 <= x <= 0xffffffffffffffff:
            t.dt = U64           # its own value beside floats; beside integers `check_unsigned` looks at it
            (<uint64_t *>t.data_)[0] = x
        else:
            raise said(OverflowError, "[number] an integer of 64 bits was required: got " + str(x) + "\nhint: pass a float, or split the number")
    elif isinstance(x, complex):
        t = new_tensor(0, sh, C128, 0)
        (<double *>t.data_)[0] = x.real
        (<double *>t.data_)[1] = x.imag
    else:
        t = new_tensor(0, sh, F64, 0)
        (<double *>t.data_)[0] = PyFloat_AS_DOUBLE(x) if isinstance(x, float) else float(x)
    t.keys |= K_WRAPPED
    if fk_tls_keys() & K_KEEP: keep_constant(t)
    if not PyLong_CheckExact(x) and not PyFloat_CheckExact(x) and getattr(x, "_is_symbolic", False):
        t.symbolic_number = x
    return t


cdef inline object wrapped_value(Tensor t):
    """The number that was wrapped; one that depends on sizes still does."""
    return item(t) if t.dict_ == NULL else t.symbolic_number


def wrapped_number(x):
    """A Python number as a tensor that promotes like the number."""
    return wrap_number(x)


def number_of(Tensor t):
    """The Python number that a tensor stands for, None for any other tensor."""
    return wrapped_value(t) if t.keys & K_WRAPPED else None


cdef inline int wrapped_dtype(Tensor t):
    if t.dt == F64: return DEFAULT_DTYPE
    if t.dt == C128: return COMPLEX_OF[DEFAULT_DTYPE]
    return I64 if t.dt == U64 else t.dt


cdef inline bint castable_bool(int rule):
    return rule == 2


cdef inline int compute_dtype(Op op, int common) except -1:
    """The dtype that a kernel works in, once the common dtype is known."""
    if op.rule == 1 or op.rule == 4:
        if KIND[common] < KIND_FLOAT:
            common = DEFAULT_DTYPE
    if not (op.mask & (1 << KIND[common])):
        raise_dtype(op, common)
    return common


cdef int raise_dtype(Op op, int dt) except -1:
    if op.definition.refusal:
        raise said(RuntimeError, "[%s] numbers were required: got %s (%s)\nhint: convert with .to(dtype) first"
                                 % (op.name, (<dtype>DTYPES[dt]).name, op.definition.refusal))
    kinds = [w for w in ("bool", "int", "float", "complex") if op.mask & <int>_KIND_MASK[w]]
    raise said(NotImplementedError, "[%s] a tensor of kind %s was required: got %s (\"%s\" not implemented for '%s')\nhint: convert with "
                       ".to(dtype) first" % (op.name, " or ".join(kinds), (<dtype>DTYPES[dt]).name, op.name,
                                             (<dtype>DTYPES[dt]).type_word))


cdef int raise_bool(Op op) except -1:
    raise said(RuntimeError, "[%s] operands that are numbers were required: got a bool (Subtraction, the `-` operator, with a bool "
                       "tensor is not supported)\nhint: to invert a mask, use `~` or logical_not(); to compare, `^`" % op.name)


cdef inline int result_dtype(Op op, int common):
    if op.rule == 2: return B8
    if op.rule >= 3: return REAL_OF[common]
    return common


cdef inline int output_compute(Op op, int cd):
    if op.rule == 2: return B8
    if op.rule >= 3: return REAL_OF[cd]
    return cd


cdef object unary_fast(Op op, Tensor x, uint32_t tls, int form):
    """One contiguous CPU tensor, default attributes."""
    if op.chooses_dtype and KIND[x.dt] < KIND_FLOAT:
        return unary_slow(op, x, form)
    cdef int common = compute_dtype(op, x.dt)
    cdef int cd = COMPUTE[common]
    cdef int rd = result_dtype(op, common)
    cdef Variant v = op.default_variant
    cdef Tensor r
    if common == U64: check_unsigned(v, common, [x])
    cdef char *p[2]
    cdef fk_iter it
    cdef fk_map fn
    cdef Node n
    if not v.tried[cd]:
        kernel_of(v, cd)
    fn = v.kernels[cd]
    if fn == NULL or form != FORM_FUNCTIONAL:
        return unary_slow(op, x, form)
    r = new_like(x, rd)
    if x.dt == cd and rd == output_compute(op, cd) and x.numel_ <= GIL_FREE // 4:
        p[0] = r.data_; p[1] = x.data_
        if x.numel_: fn(p, NULL, x.numel_)
    else:
        it.ndim = 1; it.nout = 1; it.nin = 1
        it.shape[0] = x.numel_
        it.stride[0][0] = ITEMSIZE[rd]; it.stride[1][0] = ITEMSIZE[x.dt]
        it.data[0] = r.data_; it.data[1] = x.data_
        it.dtype[0] = rd; it.dtype[1] = x.dt
        it.compute[0] = output_compute(op, cd); it.compute[1] = cd
        run_iteration(fn, NULL, &it)
    if x.keys & K_GRAD and not (tls & K_NOGRAD):
        record_unary(op, v, cd, r, x)
    elif tls & K_INFERENCE:
        r.keys |= K_INFERENCE
    return r


cdef object unary_slow(Op op, Tensor x, int form):
    cdef PyObject *slots[24]
    cdef int i
    for i in range(op.nargs):
        slots[i] = NULL
    slots[0] = <PyObject *>x
    return pointwise_call(op, slots, form, None)


cdef object binary_fast(Op op, Tensor x, Tensor y, uint32_t tls):
    """Two contiguous CPU tensors of one shape and dtype; None where this way does not serve."""
    cdef int common = compute_dtype(op, x.dt)
    cdef int cd = COMPUTE[common]
    cdef int rd = result_dtype(op, common)
    cdef Variant v = op.default_variant
    cdef Tensor r
    cdef char *p[3]
    cdef fk_map fn
    if (op.chooses_dtype or op.checks_divisor) and KIND[x.dt] < KIND_FLOAT:
        return None
    if x.dt != cd or rd != output_compute(op, cd) or x.numel_ > GIL_FREE // 4 or op.fixed[0] != NO_DTYPE or op.fixed[1] != NO_DTYPE:
        return None
    if not v.tried[cd]:
        kernel_of(v, cd)
    fn = v.kernels[cd]
    if fn == NULL:
        return None
    r = new_like(x, rd)
    p[0] = r.data_; p[1] = x.data_; p[2] = y.data_
    if x.numel_: fn(p, NULL, x.numel_)
    if (x.keys | y.keys) & K_GRAD and not (tls & K_NOGRAD):
        record_binary(op, v, cd, r, x, y)
    elif tls & K_INFERENCE:
        r.keys |= K_INFERENCE
    return r


cdef object binary(Op op, object a, object b):
    """What the operators of Python (`+`, `*`, ...) call."""
    cdef PyObject *slots[24]
    cdef PyObject *args[2]
    cdef uint32_t k = fk_tls_keys()
    cdef int i
    if type(a) is Tensor and type(b) is Tensor:
        if not (((<Tensor>a).keys | (<Tensor>b).keys | k) & (K_SLOW | K_META | K_STRIDED | K_WRAPPED)) and (
                (<Tensor>a).dt == (<Tensor>b).dt and same_shape(<Tensor>a, <Tensor>b)) and op.default_variant is not None:
            r = binary_fast(op, <Tensor>a, <Tensor>b, k)
            if r is not None:
                return r
    elif isinstance(a, Tensor):
        if not (((<Tensor>a).keys | k) & (K_SLOW | K_META | K_STRIDED | K_WRAPPED)):
            r = number_fast(op, <Tensor>a, b, False, k, FORM_FUNCTIONAL)
            if r is not None:
                return r
    elif isinstance(b, Tensor) and not (((<Tensor>b).keys | k) & (K_SLOW | K_META | K_STRIDED | K_WRAPPED)):
        r = number_fast(op, <Tensor>b, a, True, k, FORM_FUNCTIONAL)
        if r is not None:
            return r
    k |= keys_of(a) | keys_of(b)
    if not isinstance(a, (Tensor, float, int, complex)) or not isinstance(b, (Tensor, float, int, complex)):
        if not operand_like(a) or not operand_like(b):
            if hasattr(type(b), "__torch_function__") or hasattr(type(a), "__torch_function__"):
                return offer_binary(op, a, b, k)
            return NotImplemented
    if k & K_SLOW:
        if k & (K_OVERRIDE | K_FUNCTION_MODE):
            r = offer_binary(op, a, b, k)
            if r is not NotImplemented: return r
            k &= ~<uint32_t>(K_OVERRIDE | K_FUNCTION_MODE)
        args[0] = <PyObject *>a; args[1] = <PyObject *>b
        r = slow_call(op, args, 2, NULL, FORM_FUNCTIONAL, k, op)
        if r is not NotImplemented:
            return r
    for i in range(op.nargs):
        slots[i] = NULL
    slots[0] = <PyObject *>a; slots[1] = <PyObject *>b
    return pointwise_call(op, slots, FORM_FUNCTIONAL, None)


cdef inline bint operand_like(object x):
    """A tensor, a number, or a NumPy scalar."""
    if isinstance(x, (Tensor, float, int, complex)):
        return True
    # what takes part in calls itself, as the proxies of a trace, is asked nothing else: an answer may be a part of the trace
    return (not hasattr(type(x), "__torch_function__") and hasattr(x, "dtype") and hasattr(x, "item") and
            getattr(x, "ndim", 1) == 0)


cdef inline object inplace_sign(Op op):
    """What overrides are told of `a += b`."""
    return (<InplaceOp>op.inplace).method if op.inplace_sign is None else op.inplace_sign


cdef object inplace_binary(Op op, object a, object b):
    cdef PyObject *slots[24]
    cdef PyObject *args[2]
    cdef uint32_t k = fk_tls_keys() | keys_of(a) | keys_of(b)
    cdef int i
    if not (k & (K_SLOW | K_META | K_STRIDED)) and isinstance(a, Tensor) and op.kind == KIND_POINTWISE and not isinstance(b, Tensor):
        r = number_fast(op, <Tensor>a, b, False, k, FORM_INPLACE)
        if r is not None:
            return r
    if not operand_like(b):
        return torch_function(inplace_sign(op), (a, b), {}, k) if overrides(b) else NotImplemented
    if k & K_SLOW:
        args[0] = <PyObject *>a; args[1] = <PyObject *>b
        r = slow_call(op, args, 2, NULL, FORM_INPLACE, k, inplace_sign(op))
        if r is not NotImplemented:
            return r
    for i in range(op.nargs):
        slots[i] = NULL
    slots[0] = <PyObject *>a; slots[1] = <PyObject *>b
    if op.kind == KIND_POINTWISE:
        return pointwise_call(op, slots, FORM_INPLACE, None)
    return general_call(op, slots, FORM_INPLACE, None, k)


cdef struct Broadcast:
    int nd
    int64_t sh[MAX_DIMS]
    bint equal


cdef inline int broadcast_with(Broadcast *b, Tensor t, Op op) except -1:
    """Extend a broadcast shape by one operand."""
    cdef int i, shift
    cdef int64_t a, s
    if b.nd < 0:
        b.nd = t.nd
        memcpy(b.sh, t.sh, t.nd * 8)
        return 0
    if t.nd > b.nd:
        shift = t.nd - b.nd
        for i in range(t.nd - 1, -1, -1):
            b.sh[i] = b.sh[i - shift] if i >= shift else 1
        b.nd = t.nd
    shift = b.nd - t.nd
    for i in range(t.nd - 1, -1, -1):
        s = t.sh[i]; a = b.sh[i + shift]
        if a == s or s == 1:
            continue
        if a == 1:
            b.sh[i + shift] = s
        else:
            raise said(RuntimeError, "[%s] shapes that broadcast were required: got %s after %s (The size of tensor a (%d) must match "
                               "the size of tensor b (%d) at non-singleton dimension %d)\nhint: sizes must be equal or 1, "
                               "aligned at the right" % (op.name, list(make_size(t.nd, t.sh)), list(make_size(b.nd, b.sh)),
                                                         a, s, i + shift))
    return 0


cdef inline void iter_operand(fk_iter *it, int k, Tensor t, int nd, int compute):
    """Place a tensor (broadcast to `nd` dimensions) as operand k."""
    cdef int i, shift = nd - t.nd
    cdef int64_t size = ITEMSIZE[t.dt]
    it.data[k] = t.data_
    it.dtype[k] = t.dt
    it.compute[k] = compute
    for i in range(nd):
        if i < shift or (t.sh[i - shift] == 1 and it.shape[i] != 1):
            it.stride[k][i] = 0
        else:
            it.stride[k][i] = t.sd[i - shift] * size


cdef object pointwise_call(Op op, PyObject **slots, int form, object out):
    """The general way: any operands, any layout."""
    cdef fk_scalar attrs[8]
    cdef list values = []
    cdef Variant v = choose_variant(op, slots, attrs, values)
    cdef list operands = [None] * op.ntensors
    cdef Tensor t, r, first = None
    cdef int i, dim_dt = NO_DTYPE, zero_dt = NO_DTYPE, wrapped_dt = NO_DTYPE, common, cd, rd, dev = 0
    cdef uint32_t k = fk_tls_keys()
    cdef Broadcast b
    cdef bint unsigned64 = False, wide = False
    b.nd = -1
    for i in range(op.ntensors):
        x = slot_value(op, slots, op.tensor_at[i])
        if x is None:
            if not op.arguments[op.tensor_at[i]].optional:
                raise wrong_type(op, op.tensor_at[i], None, "Tensor")
            continue
        if isinstance(x, Tensor):
            t = <Tensor>x
        else:
            if op.arguments[op.tensor_at[i]].type != T_OPERAND:
                raise wrong_type(op, op.tensor_at[i], x, "Tensor")
            t = wrap_number(normalise(op, op.tensor_at[i], x))
        if op.refuses_bools and t.dt == B8:
            raise_bool(op)
        operands[i] = t
        k |= t.keys & ~<uint32_t>K_WRAPPED
        if first is None and not (t.keys & K_WRAPPED):
            first = t
        broadcast_with(&b, t, op)
        if op.fixed[i] == NO_DTYPE:
            unsigned64 |= t.dt == U64
            wide |= beyond_32_bits(t)
            if t.keys & K_WRAPPED: wrapped_dt = promoted(wrapped_dt, wrapped_dtype(t))
            elif t.nd == 0: zero_dt = promoted(zero_dt, t.dt)
            else: dim_dt = promoted(dim_dt, t.dt)
        elif op.fixed[i] == B8 and t.dt != B8 and not (t.dt == U8):
            raise said(RuntimeError, "[%s] a bool tensor was required for '%s': expected condition to be a boolean tensor, but got %s"
                               % (op.name, <object>op.arguments[op.tensor_at[i]].name, (<dtype>DTYPES[t.dt]).name) + "\nhint: make one with a comparison, or convert with .bool()")
        if t.dev != 0 and not (t.keys & K_WRAPPED):
            dev = t.dev
    if dev and not (k & K_DISPATCH):
        check_devices(op, operands, dev)
    common = combine_categories(dim_dt, combine_categories(zero_dt, wrapped_dt))
    if common == NO_DTYPE:
        common = first.dt if first is not None else DEFAULT_DTYPE
    if op.definition.result_of is not None:
        common = as_dtype(op.definition.result_of(<object>DTYPES[common], v, values)).index
    for x in values:
        if type(x) is complex:
            if op.complexes is not None: return with_complex_parameters(op, v, operands, values, form, out)
            if KIND[common] != KIND_COMPLEX: common = COMPLEX_OF[common]
    common = compute_dtype(op, common)
    if unsigned64: check_unsigned(v, common, operands)
    if values or op.fits_some and wrapped_dt != NO_DTYPE: check_numbers(v, operands, values, common)
    cd = COMPUTE[common]
    if wide and cd == I32: cd = I64
    rd = result_dtype(op, common)
    return pointwise_run(op, v, operands, values, &b, common, cd, rd, dev, k, form, out, first)


cdef int check_devices(Op op, list operands, int dev) except -1:
    cdef Tensor t
    for x in operands:
        if x is None: continue
        t = x
        if t.dev != dev and not (t.keys & K_WRAPPED) and t.nd != 0:
            raise said(RuntimeError, "[%s] tensors on one device were required: Expected all tensors to be on the same device, but "
                               "found at least two devices, %s and %s!\nhint: move one with .to(device)"
                               % (op.name, DEVICES[dev], DEVICES[t.dev]))
    return 0


cdef int fill_parameters(Variant v, list values, int cd, fk_scalar *attrs) except -1:
    """Runtime attributes in the form that the kernel of this compute dtype reads."""
    cdef int i
    for i in range(len(values)):
        x = values[i]
        if isinstance(x, complex):
            raise said(RuntimeError, "[%s] a real number was required: got %s" % (v.op.name, x) + "\nhint: take .real, or convert the tensor to a complex dtype")
        if x is True and KIND[cd] != KIND_BOOL and v.runtime[i] == "alpha":
            raise said(RuntimeError, "[%s] a number was required for 'alpha': Boolean alpha only supported for Boolean results.\n"
                                     "hint: alpha=1 is the number" % v.op.name)
        if KIND[cd] <= KIND_INT and not parameter_is_float(v.op, v.runtime[i]):
            if isinstance(x, float):
                raise said(RuntimeError, "[%s] an integer was required for '%s' of integer tensors: For integral input tensors, argument "
                                   "%s must not be a floating point number, got %s" % (v.op.name, v.runtime[i], v.runtime[i], x) + "\nhint: convert the tensor with .float(), or pass an integer")
            if not -0x8000000000000000 <= x <= 0x7fffffffffffffff: raise_number(v, i, x, "int64")
            attrs[i].i = x
        else:
            if isinstance(x, int) and not -1e308 < x < 1e308: raise_number(v, i, x, "float64")
            attrs[i].f = x
    return 0


cdef bint parameter_is_float(Op op, object name):
    cdef int i
    for i in range(op.nargs):
        if <object>op.arguments[i].name == name:
            return op.arguments[i].type == T_FLOAT
    return False


cdef Node overwriting_node(Op op, Tensor self):
    """The origin of elements that an operator without a gradient wrote: what they replace has no influence."""
    cdef Node n = new_node(None, copy_backward, 2, 1)
    n.label = op.name.title().replace("_", "") + "Backward0"
    add_edge(n, 0, self)
    return n


cdef int check_out_apart(Op op, Tensor out, list operands, Broadcast *b) except -1:
    """Raise where an out= that has to be resized is memory that the call reads."""
    cdef int i
    cdef bint empty = False
    for i in range(b.nd): empty = empty or b.sh[i] == 0
    for x in operands:
        if x is out:
            raise said(RuntimeError, "[%s] an out= of the result's shape was required, since it is an operand too: output with shape %s doesn't match "
                                     "the broadcast shape %s" % (op.name, list(make_size(out.nd, out.sh)), list(make_size(b.nd, b.sh))) + "\nhint: clone() it first, or leave out= out")
        if x is not None and not empty and out.st != NULL and (<Tensor>x).st == out.st: raise_overlap(op.name)
    return 0


cdef Tensor checked_out(Op op, object out, int rd, uint32_t k):
    """What was given as out=, where a result of the dtype `rd` may go there."""
    cdef Tensor r
    if not isinstance(out, Tensor):
        if isinstance(out, (tuple, list)) and len(out) == 1 and isinstance(out[0], Tensor): out = out[0]
        else:
            raise said(TypeError, "[%s] a tensor was required as out=: argument 'out' must be Tensor, not %s" % (op.name, type(out).__name__) + "\nhint: out= takes the tensor that receives the result, e.g. facula.empty(0)")
    r = out
    if ((k | r.keys) & K_GRAD) and not (k & K_NOGRAD):
        raise said(RuntimeError, "[%s] tensors without gradients were required with out=: functions with out=... arguments don't "
                           "support automatic differentiation, but one of the arguments requires grad" % op.name + "\nhint: leave out= out, or call it under facula.no_grad()")
    if not kind_fits(rd, r.dt):
        raise said(RuntimeError, "[%s] an out= that holds the result was required: result type %s can't be cast to the desired "
                           "output type %s" % (op.name, (<dtype>DTYPES[rd]).type_word, (<dtype>DTYPES[r.dt]).type_word) + "\nhint: pass an out= of that dtype, or convert the result afterwards")
    if op.out_exact and r.dt != rd:
        raise said(RuntimeError, "[%s] an out= of the result's dtype was required: Found dtype %s but expected %s" % (op.name, (<dtype>DTYPES[r.dt]).type_word, (<dtype>DTYPES[rd]).type_word) + "\nhint: pass an out= of that dtype, or convert the result afterwards")
    return r


cdef object pointwise_run(Op op, Variant v, list operands, list values, Broadcast *b, int common, int cd, int rd, int dev,
                          uint32_t k, int form, object out, Tensor first):
    cdef Tensor r, t, self, copied
    cdef list read
    cdef Node n = None
    cdef fk_iter it
    cdef fk_scalar attrs[8]
    cdef int i, m
    cdef bint recording = (k & K_GRAD) and not (k & K_NOGRAD) and op.differentiable and KIND[rd] >= KIND_FLOAT
    cdef bint equal = first is not None and first.nd == b.nd and memcmp(first.sh, b.sh, b.nd * 8) == 0
    cdef fk_map fn
    cdef uint32_t tls = fk_tls_keys()
    if k & (K_DISPATCH | K_FOREIGN):
        return pointwise_below(op, v, operands, values, b, common, rd, k, form, out, recording, cd)
    if form == FORM_INPLACE:
        self = <Tensor>operands[0]
        check_inplace(op.name, self, tls)
        if not (self.nd == b.nd and memcmp(self.sh, b.sh, b.nd * 8) == 0):
            raise said(RuntimeError, "[%s_] operands that broadcast to self were required: output with shape %s doesn't match the "
                               "broadcast shape %s" % (op.name, list(make_size(self.nd, self.sh)), list(make_size(b.nd, b.sh))) + "\nhint: use the form without the underscore, which returns a new tensor")
        if not kind_fits(rd, self.dt):
            raise_inplace_cast(op.name, rd, self.dt)
        if op.rule >= 3 and KIND[self.dt] == KIND_COMPLEX:
            raise said(RuntimeError, "[%s_] a real tensor was required: In-place %s is not supported for complex tensors."
                               % (op.name, op.name) + "\nhint: use the form without the underscore, which returns a real tensor")
        if (k & K_GRAD) and not (k & K_NOGRAD) and KIND[self.dt] >= KIND_FLOAT and op.differentiable:
            recording = True
        elif self.keys & K_GRAD and not (k & K_NOGRAD):
            n = overwriting_node(op, self)
        r = self
    elif out is not None:
        r = checked_out(op, out, rd, k)
        if r.dev != dev:
            raise said(RuntimeError, "[%s] an out= on %s was required: Expected all tensors to be on the same device, but got %s" % (op.name, DEVICES[dev], DEVICES[r.dev]) + "\nhint: make it on the device of the inputs")
        if not (r.nd == b.nd and memcmp(r.sh, b.sh, b.nd * 8) == 0):
            check_out_apart(op, r, operands, b)
            resize_out(op, r, b.nd, b.sh)
            t = first if equal else operand_of_shape(operands, b.nd, b.sh)
            if t is not None and t.keys & K_STRIDED: put_in_order(r, t)
        check_writable(op.name, r)
        if r.dt != rd:                             # rounded to the result's dtype first
            t = pointwise_run(op, v, operands, values, b, common, cd, rd, dev, k, FORM_FUNCTIONAL, None, first)
            copy_into(r, t); bump(r)
            return r
        form = FORM_OUT
    else:
        r = first if equal else operand_of_shape(operands, b.nd, b.sh)
        r = new_like(r, rd) if r is not None and dev == r.dev else new_tensor(b.nd, b.sh, rd, dev)
    if op.checks_exponent and KIND[cd] == KIND_INT and is_negative_number(<Tensor>operands[1]):
        raise said(RuntimeError, "[%s] a non-negative exponent was required of integers: got %s (Integers to negative integer powers are "
                           "not allowed.)\nhint: convert the base to a floating-point dtype first" % (op.name, item(<Tensor>operands[1])))
    if op.checks_divisor and KIND[cd] == KIND_INT and dev == 0 and holds_zero(<Tensor>operands[1]):
        raise said(RuntimeError, "[%s] a divisor without zeros was required of integers: ZeroDivisionError" % op.name + "\nhint: mask the zeros, e.g. facula.where(b == 0, 1, b), or divide as floats")
    if recording and form == FORM_INPLACE:
        if plan_of(v, cd).saves & 1:
            operands = [kept_copy(r)] + operands[1:]
        n = pointwise_node(op, v, cd, values, operands, r, None)
        operands[0] = r
    if r.numel_ and dev != 1:
        if k & K_META:
            raise said(NotImplementedError, "[%s] tensors with data were required: got one without" % op.name + "\nhint: move or materialize the tensor first")
        fn = kernel_of(v, cd)
        if fn == NULL:
            evaluated = evaluate_pointwise(op, v, cd, operands, values, common)
            copy_into(r, evaluated)
        else:
            if tls & K_KEEP: memset(attrs, 0, 8 * sizeof(fk_scalar))
            fill_parameters(v, values, cd, attrs)
            read = operands        # what is saved for a gradient keeps its history, and numbers all their digits
            if op.in_common_dtype and (common == F16 or common == BF16): read = in_dtype(operands, common)
            if form != FORM_FUNCTIONAL: read_apart(op, read, r, form)
            it.ndim = b.nd; it.nout = 1
            memcpy(it.shape, b.sh, b.nd * 8)
            iter_operand(&it, 0, r, b.nd, output_compute(op, cd))
            m = 1
            for i in range(op.ntensors):
                if read[i] is None: continue
                iter_operand(&it, m, <Tensor>read[i], b.nd, cd if op.fixed[i] == NO_DTYPE else op.fixed[i])
                m += 1
            it.nin = m - 1
            if tls & K_KEEP and keep_iteration(STEP_ITERATE, <void *>fn, attrs, &it, [r] + [x for x in read if x is not None], NULL):
                pass                  # noted, and not to run
            elif r.numel_ < GIL_FREE:
                fk_map_run(fn, attrs, &it)
            else:
                run_iteration(fn, attrs, &it)
    elif form != FORM_FUNCTIONAL:
        check_blocks(op, operands, r, form)            # refuses what would be refused with elements
    if form != FORM_FUNCTIONAL:
        bump(r)
        if n is not None:
            if recording: save_written(n, v, cd, operands, r)
            rebase(r, n)
        return r
    if recording:
        n = pointwise_node(op, v, cd, values, operands, r, r)
        attach(r, n, 0)
    elif tls & K_INFERENCE:
        r.keys |= K_INFERENCE
    return r


cdef Tensor kept_copy(Tensor t):
    """What a formula needs of a tensor that is about to be overwritten: its elements and its history."""
    cdef Tensor c = copy_like(t, t)
    if t.keys & K_GRAD:
        c.fn_ = edge(t)
        c.out_nr = t.out_nr
        c.keys |= K_GRAD
    return c


cdef object evaluate_pointwise(Op op, Variant v, int cd, list operands, list values, int common):
    """No kernel and no compiler: the expression by other operators."""
    if EVALUATE[0] is None:
        raise said(RuntimeError, "[%s] a kernel was required: none for %s is loaded" % (op.name, kernel_name(v, cd, "")) + "\nhint: convert the tensor to another dtype, or rebuild with pip install .")
    cdef uint32_t tls = fk_tls_keys()
    fk_tls_set(tls | K_NOGRAD)
    try:
        return EVALUATE[0](v, (<dtype>DTYPES[cd]).code, [t for t in operands if t is not None], values)
    finally:
        fk_tls_set(tls)


cdef object pointwise_below(Op op, Variant v, list operands, list values, Broadcast *b, int common, int rd, uint32_t k, int form,
                            object out, bint recording, int cd):
    """Below the tape for dispatch overrides and foreign devices."""
    cdef Tensor r
    cdef list args = [None] * op.nargs
    cdef int i
    cdef uint32_t tls = fk_tls_keys()
    for i in range(op.ntensors):
        t = operands[i]
        if t is not None:
            args[op.tensor_at[i]] = t if not ((<Tensor>t).keys & K_WRAPPED) else wrapped_value(<Tensor>t)
    for i in range(op.nattrs):
        name = <object>op.arguments[op.attr_at[i]].name
        args[op.attr_at[i]] = v.attributes[name] if name in v.attributes else values[v.runtime.index(name)]
    if form == FORM_INPLACE:
        return pointwise_below_inplace(op, v, operands, values, args, k, recording, cd, rd)
    if out is not None:
        out = checked_out(op, out, rd, k)
        if (<Tensor>out).nd == b.nd and memcmp((<Tensor>out).sh, b.sh, b.nd * 8) == 0: check_blocks(op, operands, <Tensor>out, FORM_OUT)
    fk_tls_set(tls | K_NOGRAD)
    try:
        r = below_autograd(op, tuple(args), k)
    finally:
        fk_tls_set(tls)
    if out is not None:
        out.copy_(r)
        return out
    if recording and not (r.keys & K_GRAD):
        attach(r, pointwise_node(op, v, cd, values, operands, r, r), 0)
    return r


cdef object pointwise_below_inplace(Op op, Variant v, list operands, list values, list args, uint32_t k, bint recording, int cd, int rd):
    """The in-place form below the tape: dispatch overrides may take it as it is, devices compute and copy."""
    cdef Tensor self = operands[0], kept
    cdef Node n = None
    cdef uint32_t tls = fk_tls_keys()
    check_inplace(op.name, self, tls)
    if not kind_fits(rd, self.dt):
        raise_inplace_cast(op.name, rd, self.dt)
    recording = (k & K_GRAD) and not (k & K_NOGRAD) and op.differentiable and KIND[self.dt] >= KIND_FLOAT
    if not recording and self.keys & K_GRAD and not (k & K_NOGRAD):
        n = overwriting_node(op, self)
    fk_tls_set(tls | K_NOGRAD)
    try:
        if recording:
            if plan_of(v, cd).saves & 1:
                kept = self.clone()
                if self.keys & K_GRAD:
                    kept.fn_ = edge(self)
                    kept.out_nr = self.out_nr
                    kept.keys |= K_GRAD
                operands = [kept] + operands[1:]
            n = pointwise_node(op, v, cd, values, operands, self, None)
        if not (k & K_DISPATCH) or torch_dispatch(op, op.inplace, tuple(args)) is NotImplemented:
            self.copy_(below_autograd(op, tuple(args), k & ~<uint32_t>K_DISPATCH))
        else:
            bump(self)
    finally:
        fk_tls_set(tls)
    if n is not None:
        if recording: save_written(n, v, cd, operands, self)
        rebase(self, n)
    return self
