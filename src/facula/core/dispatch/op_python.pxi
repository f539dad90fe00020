# Operators that run in Python: normalised arguments, `out=`, in-place forms, and subclasses below the tape.
#
# Takes: the slots of a call. Keeps true: an implementation gets every argument of its schema, in order, with the types
# that the schema names.

cdef object normalise(Op op, int i, object v):
    """An argument as the implementation gets it: right type, lists as tuples."""
    cdef Argument *a = &op.arguments[i]
    cdef int t = a.type
    if v is None:
        if a.optional or a.default_ == <PyObject *>None:
            return None
        raise said(TypeError, "[%s] a value was required for '%s': got None" % (op.name, <object>a.name) + "\nhint: the argument has no default: pass it")
    if a.is_list and t != T_TENSOR and not isinstance(v, (list, tuple, Tensor, str, int, float)) and "::" in op.name and (
            hasattr(v, "__getitem__") and hasattr(v, "__len__")):
        v = tuple(v)            # operators of programs take sequences of any class
    if t == T_TENSOR:
        if a.is_list:
            return tensor_list(op, i, v)
        if not isinstance(v, Tensor):
            raise wrong_type(op, i, v, "Tensor")
        return v
    if t == T_OPERAND:
        if isinstance(v, (Tensor, float, int, complex)):
            return v
        return number_like(op, i, v)
    if t == T_INT:
        if a.is_list:
            return int_list(op, i, v)
        if not PyLong_CheckExact(v):
            if isinstance(v, (float, complex, str, bool)) or not (hasattr(v, "__index__")):
                raise wrong_type(op, i, v, "int")
            v = v.__index__()
        if PyLong_CheckExact(v):  # what stands for a number is one only when it is asked
            whole(v, op.name, ValueError)
        return v
    if t == T_FLOAT:
        if a.is_list:
            return tuple([float_argument(op, i, x) for x in v]) if isinstance(v, (list, tuple)) else (float_argument(op, i, v),)
        if PyFloat_CheckExact(v):
            return v
        return float_argument(op, i, v)
    if t == T_BOOL:
        if a.is_list:
            return tuple([bool(x) for x in v]) if isinstance(v, (list, tuple)) else (bool(v),)
        if v is True or v is False:
            return v
        if isinstance(v, Tensor) or hasattr(v, "__bool__") and not PyLong_CheckExact(v) and not isinstance(v, (str, list, tuple, float)):
            return bool(v)
        raise wrong_type(op, i, v, "bool")
    if t == T_NUMBER:
        if a.is_list:
            return tuple([scalar_argument(op, i, x) for x in v]) if isinstance(v, (list, tuple)) else (scalar_argument(op, i, v),)
        return scalar_argument(op, i, v)
    if t == T_STR:
        if not isinstance(v, str):
            raise wrong_type(op, i, v, "str")
        return v
    if t == T_DTYPE:
        return tuple([as_dtype(x) for x in v]) if a.is_list and isinstance(v, (list, tuple)) else as_dtype(v)
    if t == T_DEVICE:
        return <object>DEVICES[device_number(v)]
    return v


cdef object scalar_argument(Op op, int i, object v):
    """A number as it is; that of a tensor with one element."""
    if isinstance(v, (float, int, complex)):
        return v
    if isinstance(v, Tensor):
        if (<Tensor>v).keys & K_GRAD and not fk_tls_keys() & K_NOGRAD:   # its gradient would be lost
            raise wrong_type(op, i, v, "Number")
        return scalar_of(v, op.name)
    return number_like(op, i, v)


cdef object float_argument(Op op, int i, object v):
    """A number as float; sequences and texts are none."""
    if isinstance(v, (str, complex)) or not (hasattr(v, "__float__") or hasattr(v, "__index__")):
        raise wrong_type(op, i, v, "float")
    if isinstance(v, Tensor) and (<Tensor>v).keys & K_GRAD and not fk_tls_keys() & K_NOGRAD:   # its gradient would be lost
        raise wrong_type(op, i, v, "float")
    return float(v)


cdef object wrong_type(Op op, int i, object v, str wanted):
    hint = "facula.as_tensor(value) makes a tensor" if wanted == "Tensor" else "%s() is %s" % (
        op.name, op.definition.schema.text)
    return said(TypeError, "[%s] %s was required: argument '%s' (position %d) must be %s, not %s\nhint: %s"
                     % (op.name, wanted, <object>op.arguments[i].name, i + 1, wanted, type(v).__name__, hint))


cdef object number_like(Op op, int i, object v):
    """NumPy scalars and symbolic numbers are numbers."""
    if hasattr(v, "dtype") and hasattr(v, "item") and getattr(v, "ndim", 0) == 0:
        return v.item()
    if hasattr(v, "__index__"):
        return v.__index__()
    if hasattr(v, "__float__") and not isinstance(v, str):
        return float(v)
    raise wrong_type(op, i, v, "Tensor or Number")


cdef tuple tensor_list(Op op, int i, object v):
    if not isinstance(v, (list, tuple)):
        if isinstance(v, Tensor):
            raise wrong_type(op, i, v, "tuple of Tensors")
        if hasattr(v, "__iter__"):
            v = tuple(v)
        else:
            raise wrong_type(op, i, v, "tuple of Tensors")
    for n, t in enumerate(v):
        if not isinstance(t, Tensor) and not (t is None and op.arguments[i].optional_items):
            raise said(TypeError, "[%s] tensors were required: expected Tensor as element %d in argument '%s', but got %s"
                            % (op.name, n, <object>op.arguments[i].name, type(t).__name__) + "\nhint: facula.as_tensor(value) makes a tensor of a number or list")
    return tuple(v)


cdef object int_list(Op op, int i, object v):
    cdef Argument *a = &op.arguments[i]
    cdef bint clean = True
    if isinstance(v, (tuple, list)):
        if len(v) == 1 and isinstance(v[0], (tuple, list)) and a.variadic:
            v = v[0]
        if a.length > 1 and len(v) != 1 and len(v) != a.length and not (a.optional and len(v) == 0):  # `stride=()` is none
            raise said(RuntimeError, "[%s] expected %s to be a single integer value or a list of %d values: got %s"
                       % (op.name, <object>a.name, a.length, list(v)) + "\nhint: one integer stands for all dimensions")
        if v and (v[0] is True or v[0] is False): raise wrong_type(op, i, v[0], "tuple of ints")
        for x in v:
            if not PyLong_CheckExact(x):
                clean = False
                break
            whole(x, op.name, TypeError)
        if not clean:
            values = []
            for x in v:
                if isinstance(x, (float, complex, str)) or not hasattr(x, "__index__"):
                    raise wrong_type(op, i, x, "tuple of ints")
                values.append(x.__index__())
            v = values
        if a.length and len(v) == 1 and a.length > 1:
            return tuple(v) * a.length
        return tuple(v)
    if isinstance(v, Tensor) and (<Tensor>v).nd == 1:
        return tuple(v.tolist())
    if isinstance(v, (float, complex, str, bool)) or not hasattr(v, "__index__"):
        raise wrong_type(op, i, v, "tuple of ints")
    v = v.__index__()
    if PyLong_CheckExact(v):
        whole(v, op.name, ValueError)
    return (v,) * (a.length or 1)


cdef tuple arguments_of(Op op, PyObject **slots):
    """The slots as the implementation gets them."""
    cdef int i
    cdef list args = [None] * op.nargs
    for i in range(op.nargs):
        if slots[i] != NULL:
            args[i] = normalise(op, i, <object>slots[i])
        else:
            args[i] = <object>op.arguments[i].default_
            if op.arguments[i].type == T_INT and op.arguments[i].is_list and args[i] is not None:
                args[i] = int_list(op, i, args[i])
            elif args[i].__class__ is list:
                args[i] = tuple(args[i])
    return tuple(args)


cdef object general_call(Op op, PyObject **slots, int form, object out, uint32_t k):
    if not ENTERED or op.makes_tensors or fk_in_operator:
        return python_call(op, slots, form, out, k)
    return call_on_its_own(op, slots, form, out, k)


cdef object call_on_its_own(Op op, PyObject **slots, int form, object out, uint32_t k):
    """A call that a device which was entered says nothing to: only what is told a device makes tensors there."""
    global fk_in_operator
    fk_in_operator = 1
    try:
        return python_call(op, slots, form, out, k)
    finally:
        fk_in_operator = 0


cdef object python_call(Op op, PyObject **slots, int form, object out, uint32_t k):
    cdef tuple args
    if op.keeps and KEEPING and form == FORM_FUNCTIONAL and out is None and op.autograd is None and not ((k | fk_tls_keys()) & K_UNKEPT) and (
            op.kind == KIND_OPERATOR or k & K_NOGRAD or not (k & K_GRAD)):
        return kept_call(op, slots, k)
    if op.kind == KIND_COMPOSITE and op.keeps and KEEPING and form == FORM_FUNCTIONAL and out is None and op.autograd is None and (
            not ((k | fk_tls_keys()) & K_UNKEPT)):
        return recorded_composite(op, slots, k)
    args = arguments_of(op, slots)
    # a factory is told to dispatch overrides as a whole, but what is like a transform's wrapper is made of its parts,
    # and so are random numbers that a transform draws for each entry
    if op.kind == KIND_COMPOSITE and form == FORM_FUNCTIONAL and out is None and not (
            k & K_DISPATCH and op.makes_tensors and not k & K_TRANSFORM and not (op.definition.random and runs_through(op, k))):
        if k & K_FAKE and not (fk_tls_keys() & K_DISPATCH):
            return run_in_mode(op, args)
        if k & K_DISPATCH and op.definition.random and draws_into_class(args):
            r = dispatch_view(op, args)
            if r is not NotImplemented:
                return r
        return op.impl(*args)
    return run_general(op, args, form, out, k)


cdef bint draws_into_class(tuple args):
    """Whether random numbers are written to a tensor whose class has a dispatch of its own: it hears of the draw as a
    whole, since only it knows which of the numbers are its own."""
    if not isinstance(args[0], Tensor):
        return False
    return (<Tensor>args[0]).keys & K_DISPATCH and not (<Tensor>args[0]).keys & (K_TRANSFORM | K_FAKE)


cdef object run_in_mode(Op op, tuple args):
    """A composite of fake tensors: what it makes on the way must be fake too."""
    for x in args:
        for v in (x if type(x) is tuple else (x,)):
            if isinstance(v, Tensor) and (<Tensor>v).keys & K_FAKE:
                with v.fake_mode:
                    return op.impl(*args)
    return op.impl(*args)


cdef object run_general(Op op, tuple args, int form, object out, uint32_t k):
    """Run, record, and store where the form says so."""
    cdef bint recording = (k & K_GRAD) and not (k & K_NOGRAD) and op.formula is not None
    cdef uint32_t tls
    if form == FORM_FUNCTIONAL and out is None:
        if op.autograd is not None and (k & K_GRAD) and not (k & K_NOGRAD):
            return op.autograd(*args)
        if not recording:
            if k & K_DISPATCH or k & K_FOREIGN:
                return below_autograd(op, args, k)
            tls = fk_tls_keys()
            if tls & K_NOGRAD or not (k & K_GRAD):
                return op.impl(*args)
            fk_tls_set(tls | K_NOGRAD)
            try:
                return op.impl(*args)
            finally:
                fk_tls_set(tls)
        tls = fk_tls_keys()
        fk_tls_set(tls | K_NOGRAD)
        try:
            r = below_autograd(op, args, k) if k & (K_DISPATCH | K_FOREIGN) else op.impl(*args)
        finally:
            fk_tls_set(tls)
        record_formula(op, args, r)
        return r
    if out is not None:
        return store_out(op, args, out, k)
    return store_inplace(op, args, k)


cdef object below_autograd(Op op, tuple args, uint32_t k):
    """What lies below the tape: dispatch overrides, then the device's own kernels."""
    if k & K_DISPATCH:
        r = torch_dispatch(op, op, args)
        if r is not NotImplemented:
            return counted_with(r, args[0]) if op.shows else r
        if op.makes_tensors and fk_tls_keys() & K_DISPATCH:
            return impl_undispatched(op, args)
    if k & K_FOREIGN and op.kind != KIND_VIEW:
        return foreign_call(op, args)
    return op.impl(*args)


cdef object impl_undispatched(Op op, tuple args):
    """The implementation, which no mode hears of: it makes tensors, and no mode wanted that."""
    cdef uint32_t tls = fk_tls_keys()
    fk_tls_set(tls & ~<uint32_t>K_DISPATCH)
    try:
        return op.impl(*args)
    finally:
        fk_tls_set(tls)


cdef object torch_dispatch(Op op, object function, tuple args):
    """Offer an operator (`function`: itself, or its in-place form) to the dispatch overrides."""
    args, kwargs = op.definition.trim(args)
    return dispatch(function, args, kwargs)


def told(Op op, tuple args, Formula formula=None, overload=None):
    """Tell the dispatch overrides of a call, whatever kind of operator it is; `formula` records it where gradients are wanted.

    overload: what they are told of, where that is not the operator's own.

    NotImplemented where none of them took it.
    """
    cdef uint32_t tls = fk_tls_keys(), k = tls
    for x in args:
        for v in (x if isinstance(x, tuple) else (x,)):
            k |= keys_of(v)
    fk_tls_set(tls | K_NOGRAD)
    try:
        r = torch_dispatch(op, op if overload is None else overload, args)
        if op.shows: r = counted_with(r, args[0])
    finally:
        fk_tls_set(tls)
    if r is not NotImplemented and formula is not None and k & K_GRAD and not (k & K_NOGRAD):
        record_formula(op, args, r, formula)
    return r


cdef object dispatch_view(Op op, tuple args):
    """Offer a view, or a draw in place, to the dispatch overrides, below the tape."""
    cdef uint32_t tls = fk_tls_keys()
    fk_tls_set(tls | K_NOGRAD)
    try:
        return counted_with(torch_dispatch(op, op, args), args[0])
    finally:
        fk_tls_set(tls)


cdef object counted_with(object r, object shown):
    """What a class gives for a view of its tensor `shown`: writes to either are counted together."""
    cdef Tensor a, v
    cdef fk_storage *own
    if not isinstance(shown, Tensor) or shown is r: return r
    a = <Tensor>shown
    for x in (r if isinstance(r, (tuple, list)) else (r,)):
        if not isinstance(x, Tensor) or x is shown: continue
        v = <Tensor>x
        # neither has elements of its own, and nothing else lies where the new one does
        if a.keys & v.keys & K_DISPATCH and not (a.keys | v.keys) & (K_TRANSFORM | K_FAKE) and (
                a.st.data == NULL and v.st.data == NULL and v.st.refs == 1):
            own = v.st
            a.st.refs += 1
            v.st = a.st
            v.keys |= a.keys & K_UNCOUNTED
            fk_storage_decref(own)
    return r


cdef object dispatch_method(object function, tuple args, dict kwargs, uint32_t k):
    """Offer a method that is no operator to the dispatch overrides, below the tape."""
    cdef uint32_t tls = fk_tls_keys()
    if not (k & K_DISPATCH):
        return NotImplemented
    fk_tls_set(tls | K_NOGRAD)
    try:
        return dispatch(function, args, kwargs)
    finally:
        fk_tls_set(tls)


#: slot: (function, args, kwargs) -> the overload of the operator that overrides are told about
OVERLOAD = [lambda function, args, kwargs: function]


cdef object dispatch(object function, tuple args, dict kwargs):
    """Ask the dispatch modes (innermost first), then the arguments whose types override dispatch."""
    cdef list overloaded = []
    cdef uint32_t tls = fk_tls_keys()
    function = OVERLOAD[0](function, args, kwargs)
    for x in list(args) + list(kwargs.values()):
        for v in (x if isinstance(x, (list, tuple)) else (x,)):
            if isinstance(v, Tensor) and (<Tensor>v).keys & K_DISPATCH and type(v) not in [type(o) for o in overloaded]:
                overloaded.append(v)
    types = tuple([type(v) for v in overloaded])
    if tls & K_DISPATCH and DISPATCH_MODES:
        mode = DISPATCH_MODES.pop()
        fk_tls_set((tls & ~<uint32_t>K_DISPATCH) | (K_DISPATCH if DISPATCH_MODES else 0))
        try:
            r = mode.__torch_dispatch__(function, types, args, kwargs)
        finally:
            DISPATCH_MODES.append(mode)
            fk_tls_set(tls)
        if r is not NotImplemented:
            return r
    for v in overloaded:
        r = type(v).__torch_dispatch__(function, types, args, kwargs)
        if r is not NotImplemented:
            return r
    if overloaded and any([(<Tensor>v).keys & K_META and not (<Tensor>v).is_meta for v in overloaded]):
        raise said(TypeError, "[%s] an implementation by one of the argument types was required: no implementation found for types "
                        "that implement __torch_dispatch__: %s" % (getattr(function, "__name__", function), list(types)) + "\nhint: one class must handle the operator: NotImplemented from all of them ends here")
    return NotImplemented


cdef object store_out(Op op, tuple args, object out, uint32_t k):
    """Compute, then copy into `out` (resized where it may be)."""
    if keys_of(out) & K_GRAD and not (fk_tls_keys() & K_NOGRAD) or ((k & K_GRAD) and not (k & K_NOGRAD)):
        raise said(RuntimeError, "[%s] tensors without gradients were required with out=: functions with out=... arguments don't "
                           "support automatic differentiation, but one of the arguments requires grad\nhint: use no_grad(), or "
                           "the form without out=" % op.name)
    if op.dtype_at >= 0 and isinstance(out, Tensor):
        args = typed_by_out(op, args, <Tensor>out)
    r = run_general(op, args, FORM_FUNCTIONAL, None, k)
    if op.definition.out_kind and isinstance(out, Tensor) and isinstance(args[0], Tensor):
        check_kind_of_out(op, <Tensor>args[0], <Tensor>out)
    if isinstance(r, tuple):
        outs = tuple(out)
        if len(outs) != len(r):
            raise said(TypeError, "[%s] %d output tensors were required: got %d" % (op.name, len(r), len(outs)) + "\nhint: pass out= a tuple with one tensor for each result")
        for a, b in zip(outs, r):
            check_out(op, a, args)
            copy_to_out(op, a, b)
        return r.__class__(*outs) if hasattr(r, "_fields") else (r.__class__(outs) if r.__class__ is not tuple else outs)
    if isinstance(out, (tuple, list)) and len(out) == 1:
        out = out[0]
    if not isinstance(out, Tensor):
        raise said(TypeError, "[%s] a tensor was required as out=: argument 'out' must be Tensor, not %s" % (op.name, type(out).__name__) + "\nhint: out= takes the tensor that receives the result, e.g. facula.empty(0)")
    check_out(op, out, args)
    copy_to_out(op, out, r)
    return out


cdef int check_kind_of_out(Op op, Tensor x, Tensor out) except -1:
    """An output which decides the dtype of the call must hold the kind of the elements."""
    if not kind_fits(x.dt, out.dt):
        raise said(NotImplementedError, "[%s] an out= of a dtype that holds %s was required: input types can't be cast to the desired output type %s"
                           % (op.name, (<dtype>DTYPES[x.dt]).name, (<dtype>DTYPES[out.dt]).type_word) + "\nhint: pass an out= of the dtype of the elements, or convert the result afterwards")
    return 0


cdef tuple typed_by_out(Op op, tuple args, Tensor out):
    """The arguments of a factory, with the dtype of `out`."""
    given = args[op.dtype_at]
    if given is not None and (<dtype>given).index != out.dt:
        raise said(RuntimeError, "[%s] dtype= and out= of one dtype were required: dtype %s does not match dtype of out parameter (%s)"
                           % (op.name, (<dtype>given).type_word, (<dtype>DTYPES[out.dt]).type_word) + "\nhint: leave dtype= out: the result has the dtype of out=")
    return args[:op.dtype_at] + (DTYPES[out.dt],) + args[op.dtype_at + 1:]


cdef int check_out(Op op, object out, tuple args) except -1:
    """An output must not lie partly over itself or over an input."""
    if not isinstance(out, Tensor):
        raise said(TypeError, "[%s] a tensor was required as out=: got %s" % (op.name, type(out).__name__) + "\nhint: out= takes the tensor that receives the result, e.g. facula.empty(0)")
    check_writable(op.name, <Tensor>out)
    for x in args:
        for v in (x if isinstance(x, tuple) else (x,)):
            if isinstance(v, Tensor) and (<Tensor>v).st == (<Tensor>out).st and overlaps(<Tensor>v, <Tensor>out) and (
                    (shifted(<Tensor>out, <Tensor>v) or op.definition.apart) and dense(<Tensor>v) and dense(<Tensor>out)):
                raise_overlap(op.name)
    return 0


cdef int copy_to_out(Op op, Tensor out, Tensor r) except -1:
    cdef object cast = op.definition.out_cast
    cdef bint named = type(cast) is str and (<dtype>DTYPES[out.dt]).name in cast.split()
    if not named and not kind_fits(r.dt, out.dt) and not (cast and op.definition.random):
        raise said(RuntimeError, "[%s] an out= of a dtype that holds %s was required: result type %s can't be cast to the desired "
                           "output type %s (expected scalar_type %s but found %s)"
                           % (op.name, (<dtype>DTYPES[r.dt]).name, (<dtype>DTYPES[r.dt]).type_word,
                              (<dtype>DTYPES[out.dt]).type_word, (<dtype>DTYPES[r.dt]).type_word, (<dtype>DTYPES[out.dt]).type_word) + "\nhint: pass an out= of that dtype, or convert the result afterwards")
    if out.dt != r.dt and not (named if type(cast) is str else cast):
        raise said(RuntimeError, "[%s] an out= of dtype %s was required: got %s (Expected out tensor to have dtype %s, but got %s instead: "
                                 "expected scalar type %s but got scalar type %s for argument 'out', expected scalar_type %s but found %s)"
                           % (op.name, (<dtype>DTYPES[r.dt]).name, (<dtype>DTYPES[out.dt]).name, (<dtype>DTYPES[r.dt]).name,
                              (<dtype>DTYPES[out.dt]).name, (<dtype>DTYPES[r.dt]).type_word, (<dtype>DTYPES[out.dt]).type_word,
                              (<dtype>DTYPES[r.dt]).type_word, (<dtype>DTYPES[out.dt]).type_word) + "\nhint: make it with facula.empty(0, dtype=...)")
    if out.dev != r.dev:
        raise said(RuntimeError, "[%s] an out= on %s was required: got %s" % (op.name, DEVICES[r.dev], DEVICES[out.dev]) + "\nhint: make it on the device of the inputs")
    if not same_shape(out, r):
        if out.numel_ == r.numel_ and op.definition.out_fills:
            r = r.reshape(make_size(out.nd, out.sh))
        else:
            resize_out(op, out, r.nd, r.sh)
    check_writable(op.name, out)
    if (out.keys | r.keys | fk_tls_keys()) & K_DISPATCH:
        m_copy_(out, r)
        return 0
    copy_into(out, r)
    bump(out)
    return 0


cdef int resize_out(Op op, Tensor out, int nd, const int64_t *sh) except -1:
    """`out=` of another shape is resized, with a warning unless it is empty."""
    if out.numel_ != 0:
        import warnings
        warnings.warn("[%s] An output with one or more elements was resized since it had shape %s, which does not match the "
                      "required output shape %s. This behavior is deprecated, and in a future PyTorch release outputs will not be "
                      "resized unless they have zero elements: resize it to zero elements first."
                      % (op.name, list(make_size(out.nd, out.sh)), list(make_size(nd, sh))), UserWarning, stacklevel=2)
    resize_tensor(out, nd, sh)
    return 0


cdef object store_inplace(Op op, tuple args, uint32_t k):
    """The generic in-place form: compute, copy over, rebase the history."""
    cdef Tensor self = args[0]
    cdef Tensor r
    cdef Node n
    cdef bint recording = (k & K_GRAD) and not (k & K_NOGRAD)
    cdef uint32_t tls = fk_tls_keys()
    if op.kind == KIND_VIEW:
        return reshape_inplace(op, args, k)
    if op.expanded and several_a_place(self):
        check_history(op.name, self, tls)
        check_memory(op.name, self)
        import warnings
        warnings.warn("Use of %s_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation."
                      % op.name.lstrip("_"), UserWarning, stacklevel=2)
        copy_into(self, op.impl(*args))
        bump(self)
        return self
    check_inplace(op.name, self, tls)
    if op.apart: check_apart(op, args)
    if op.kind == KIND_COMPOSITE or (recording and op.formula is None):
        r = op.impl(*args)
        if not same_shape(self, r) and not same_broadcast(self, r):
            raise_inplace_shape(op, self, r)
        if not kind_fits(r.dt, self.dt):
            raise_inplace_cast(op.name, r.dt, self.dt)
        return self.copy_(r)
    if op.direct is not None and not (k & (K_DISPATCH | K_FOREIGN | K_META)):
        done = direct_inplace(op, self, args, k, recording)
        if done:
            return self
    if k & K_DISPATCH and op.inplace is not None and dispatch_inplace(op, args, recording):
        return self
    fk_tls_set(tls | K_NOGRAD)
    try:
        result = below_autograd(op, args, k) if k & (K_DISPATCH | K_FOREIGN) else op.impl(*args)
    finally:
        fk_tls_set(tls)
    r = result[0] if isinstance(result, tuple) else result
    if not same_shape(self, r):
        raise_inplace_shape(op, self, r)
    if not kind_fits(r.dt, self.dt):
        raise_inplace_cast(op.name, r.dt, self.dt)
    n = None
    if recording:
        n = formula_node(op, kept_arguments(op, args), r)
    copy_into(self, r)
    bump(self)
    if n is not None:
        rebase(self, n)
        formula_saved_result(n, self)
    return self


cdef tuple kept_arguments(Op op, tuple args):
    """The arguments for the formula of a call that writes to the first: where it reads that one's elements, a copy of them."""
    cdef Tensor self = args[0]
    cdef Tensor copy
    for code, a, name in (<Formula>op.formula).wants:
        if code == F_ARG and a == 0:
            copy = copy_like(self, self)
            copy.fn_ = edge(self)                      # that of a view of what was written to is made anew
            copy.out_nr = self.out_nr
            copy.keys |= self.keys & K_GRAD
            return (copy, *args[1:])
    return args


cdef int check_apart(Op op, tuple args) except -1:
    """Raise where an argument shares memory with the first, which is about to be overwritten."""
    cdef Tensor self = args[0]
    for x in args[1:]:
        for v in (x if isinstance(x, tuple) else (x,)):
            if isinstance(v, Tensor) and (<Tensor>v).st == self.st and self.st != NULL and overlaps(<Tensor>v, self):
                raise_overlap(op.name.lstrip("_") + "_")
    return 0


cdef bint several_a_place(Tensor self):
    """Whether memory holds several elements in one place, as that of an expanded tensor does."""
    cdef int i
    if self.keys & K_STRIDED:
        for i in range(self.nd):
            if self.sd[i] == 0 and self.sh[i] > 1: return True
    return False


cdef bint dispatch_inplace(Op op, tuple args, bint recording) except *:
    """Offer an in-place form to the dispatch overrides, recorded above them; False where nobody takes it."""
    cdef Tensor self = args[0]
    cdef Node n = None
    cdef uint32_t tls = fk_tls_keys()
    fk_tls_set(tls | K_NOGRAD)
    try:
        if recording:
            n = formula_node(op, args, None)
        if torch_dispatch(op, op.inplace, args) is NotImplemented:
            return False
    finally:
        fk_tls_set(tls)
    bump(self)
    if n is not None:
        rebase(self, n)
        formula_saved_result(n, self)
    return True


cdef bint direct_inplace(Op op, Tensor self, tuple args, uint32_t k, bint recording) except *:
    """Write where the elements are, for operators that offer it; False where the ordinary way must serve."""
    cdef uint32_t tls = fk_tls_keys()
    cdef Node n = None
    cdef bint done = True
    if recording:
        n = formula_node(op, kept_arguments(op, args), None)
    if not kept_inplace(op, args, k):
        fk_tls_set(tls | K_NOGRAD)
        try:
            op.definition.meta(*args)          # every check stands there
            done = op.direct(*args)
        finally:
            fk_tls_set(tls)
    if not done:
        return False
    bump(self)
    if n is not None:
        rebase(self, n)
    return True


cdef bint dispatch_view_inplace(Op op, tuple args) except *:
    """Offer `t_` and its like to the dispatch overrides, below the tape; False where nobody takes it."""
    cdef uint32_t tls = fk_tls_keys()
    fk_tls_set(tls | K_NOGRAD)
    try:
        return torch_dispatch(op, op.inplace, args) is not NotImplemented
    finally:
        fk_tls_set(tls)


cdef bint taken_by_mode(object function, tuple args) except *:
    """Offer a method that changes a tensor's memory to the dispatch modes of this thread."""
    cdef uint32_t tls = fk_tls_keys()
    return (tls & K_DISPATCH) != 0 and dispatch_method(function, args, {}, tls) is not NotImplemented


def take_geometry(Tensor self, Tensor view):
    """Let a tensor lie on its memory as a view of it does; wrappers of function transforms have none."""
    if (view.st != self.st and not self.keys & view.keys & K_TRANSFORM) or view.dt != self.dt:
        raise said(ValueError, "[take_geometry] a view of the same memory and dtype was required: got %s of %s" % (list(make_size(view.nd, view.sh)), (<dtype>DTYPES[view.dt]).name)
                   + "\nhint: set_() puts a tensor onto other memory")
    set_rank(self, view.nd)
    self.data_ = view.data_
    self.numel_ = view.numel_
    memcpy(self.sh, view.sh, view.nd * 8)
    memcpy(self.sd, view.sd, view.nd * 8)
    compute_keys(self)
    if self.keys & view.keys & K_FAKE:
        self._symbolic = view._symbolic


def undispatched(function, *args):
    """Call a function which no dispatch mode hears of."""
    cdef uint32_t tls = fk_tls_keys()
    fk_tls_set(tls & ~<uint32_t>K_DISPATCH)
    try:
        return function(*args)
    finally:
        fk_tls_set(tls)


cdef object reshape_inplace(Op op, tuple args, uint32_t k):
    """`t_`, `squeeze_`, ...: the tensor takes the geometry of its own view."""
    refuse_keeping()
    cdef Tensor self = args[0]
    cdef Tensor r
    cdef PyObject *slots[24]
    cdef Node n = None
    cdef int i
    if k & K_GRAD and not (k & K_NOGRAD):
        if self.keys & K_GRAD and (self.fn_ is None or self.keys & K_PIECE):
            check_inplace(op.name, self, k)
        n = formula_node(op, args, None)
    if k & K_DISPATCH and op.inplace is not None and dispatch_view_inplace(op, args):
        r = self
    else:
        if op.view_number:
            for i in range(op.nargs):
                slots[i] = <PyObject *>args[i]
            r = run_view(op.view_number, op, slots)
        else:
            r = op.impl(*args)
        take_geometry(self, r)
    if n is not None:
        formula_saved_result(n, r)
        bump(self)
        attach(self, n, 0)
        if self.hooks is not None and self.retains_grad: keep_gradient(self)
    return self


cdef int raise_inplace_shape(Op op, Tensor self, Tensor r) except -1:
    raise said(RuntimeError, "[%s_] a result of the shape of self was required: output with shape %s doesn't match the broadcast "
                       "shape %s" % (op.name, list(make_size(self.nd, self.sh)), list(make_size(r.nd, r.sh))) + "\nhint: use the form without the underscore, which returns a new tensor")


cdef int raise_inplace_cast(str op, int source, int target) except -1:
    raise said(RuntimeError, "[%s_] a result that self can hold was required: result type %s can't be cast to the desired output "
                       "type %s\nhint: convert self with .to(%s) first"
                       % (op, (<dtype>DTYPES[source]).type_word, (<dtype>DTYPES[target]).type_word, (<dtype>DTYPES[source]).name))


cdef inline bint same_broadcast(Tensor self, Tensor r):
    return False


cdef inline int check_inplace(str op, Tensor self, uint32_t tls) except -1:
    """The rules for a tensor that is about to be overwritten."""
    check_history(op, self, tls)
    return check_writable(op, self)


cdef inline int check_fill(str op, Tensor self, uint32_t tls) except -1:
    """The same for one value everywhere, which may be written to one place more than once."""
    check_history(op, self, tls)
    return check_memory(op, self)


cdef int raise_piece(str op, Tensor self) except -1:
    cdef str name = self.fn_.name().removesuffix("Backward0")
    if has_own_class(self.fn_):
        raise said(RuntimeError, "[%s_] a tensor with memory of its own was required: Output %d of %s is a view and is being modified inplace. "
                           "This view was created inside a custom Function (or because an input was returned as-is) and the autograd "
                           "logic to handle view+inplace would override the custom backward associated with the custom Function, "
                           "leading to incorrect gradients.\nhint: clone() the output of the custom Function" % (op, self.out_nr, name))
    raise said(RuntimeError, "[%s_] a view that came from a call alone was required: Output %d of %s is a view and is being modified inplace. "
                       "This view is the output of a function that returns multiple views. Such functions do not allow the output "
                       "views to be modified inplace. You should replace the inplace operation by an out-of-place one.\n"
                       "hint: x[i] and x.narrow(dim, start, length) give views that may be written to" % (op, self.out_nr, name))


cdef inline int check_history(str op, Tensor self, uint32_t tls) except -1:
    """The rules of the tape for a tensor that is about to be overwritten."""
    if self.keys & K_GRAD and not (tls & K_NOGRAD):
        if self.fn_ is None:
            raise said(RuntimeError, "[%s_] a tensor that is no leaf was required: a leaf Variable that requires grad is being used in "
                               "an in-place operation.\nhint: wrap the update in no_grad(), or work on x.clone()" % op)
        if self.keys & K_PIECE: raise_piece(op, self)
    if self.base is not None and not (tls & K_NOGRAD) and self.base.keys & K_GRAD and self.base.fn_ is None:
        raise said(RuntimeError, "[%s_] a view of no leaf was required: a view of a leaf Variable that requires grad is being used in "
                           "an in-place operation.\nhint: wrap the update in no_grad(), or work on x.clone()" % op)
    if self.base is not None and not (tls & K_NOGRAD) and self.base.keys & K_GRAD and not (self.keys & K_GRAD) and (
            KIND[self.dt] >= KIND_FLOAT):
        raise said(RuntimeError, "[%s_] a view with the history of its base was required: A view was created in no_grad mode and is being "
                           "modified inplace with grad mode enabled.\nhint: do both inside no_grad(), or both outside" % op)
    if self.keys & K_INFERENCE and not (tls & K_INFERENCE) and not (tls & K_NOGRAD):
        raise said(RuntimeError, "[%s_] a normal tensor was required: Inplace update to inference tensor outside InferenceMode is not "
                           "allowed.\nhint: clone it first" % op)
    return 0


cdef inline int check_memory(str op, Tensor self) except -1:
    """Memory that may be written to."""
    if self.st != NULL and self.st.flags & FK_READONLY:
        if self.st.flags & FK_LAZY: return own_bytes(self)
        raise said(RuntimeError, "[%s] writable memory was required: got a tensor on read-only memory (a NumPy array that is not "
                           "writable)\nhint: copy it first, for example facula.tensor(array)" % op)
    return 0


cdef inline int check_writable(str op, Tensor self) except -1:
    """Memory that may be written to, with a place for each element."""
    cdef int i
    check_memory(op, self)
    if self.keys & K_STRIDED and several_a_place(self):
        raise said(RuntimeError, "[%s] memory with one element a place was required: unsupported operation: more than one "
                           "element of the written-to tensor refers to a single memory location.\nhint: please clone() "
                           "the (expanded) tensor before performing the operation" % op)
    return 0
