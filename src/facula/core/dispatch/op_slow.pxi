# The slow way of a call: overrides, interpreters (modes and transforms), foreign devices.
#
# Takes a call that `op.pxi` would not run at once. Keeps true: overrides come before modes, modes before transforms, and
# each sees the call as the user wrote it.

FUNCTION_MODES = []        # active TorchFunctionModes
DISPATCH_MODES = []        # active TorchDispatchModes
TRANSFORMS = thread_local()   # `stack`: this thread's active function transforms, the innermost last


cdef inline list interpreter_stack():
    try:
        return <list>TRANSFORMS.stack
    except AttributeError:
        TRANSFORMS.stack = []
        return <list>TRANSFORMS.stack


def interpreters():
    """The active function transforms of this thread, the innermost last."""
    return interpreter_stack()


def swap_interpreters(list stack):
    """Put another stack of function transforms in place; gives the one that was."""
    cdef list previous = interpreter_stack()
    cdef uint32_t k = fk_tls_keys()
    TRANSFORMS.stack = stack
    fk_tls_set(k | K_INTERPRETER if stack else k & ~<uint32_t>K_INTERPRETER)
    return previous


cdef object raise_escaped(object function):
    raise said(RuntimeError, "[%s] a tensor of an active function transform was required: got one that outlived its vmap\nhint: return "
                       "it from the transformed function instead of keeping it" % getattr(function, "__name__", function))
# [0]: function(op, args, kwargs): what dispatch overrides hear of in the place of a call, or NotImplemented; [1]: loads it
HEARD = [None, None]
AUTOCAST = [None]          # function(op, args, kwargs) that casts and calls, or NotImplemented; set with the bit


cdef int expect_listener(object listener) except -1:
    """Load what listeners hear of, unless this one hears of the package's own operators."""
    if HEARD[0] is None and HEARD[1] is not None and not getattr(listener, "hears_own_operators", False): HEARD[1]()
    return 0


def listening_mode():
    """The innermost dispatch mode that would hear of a call now, or None."""
    return DISPATCH_MODES[len(DISPATCH_MODES) - 1] if fk_tls_keys() & K_DISPATCH and DISPATCH_MODES else None


cdef bint heard_by_others():
    """Whether the dispatch mode that would hear of a call now knows PyTorch's operators, not the package's own."""
    if HEARD[0] is None or not (fk_tls_keys() & K_DISPATCH and DISPATCH_MODES): return False
    return not getattr(DISPATCH_MODES[len(DISPATCH_MODES) - 1], "hears_own_operators", False)


cdef object slow_call(Op op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, int form, uint32_t k, object called):
    cdef tuple a = tuple([<object>args[i] for i in range(nargs)])
    cdef dict kw = {}
    if kwnames != NULL:
        for i, name in enumerate(<tuple>kwnames):
            kw[name] = <object>args[nargs + i]
    function = op if form == FORM_FUNCTIONAL else op.inplace
    return slow_dispatch(op, function, called, a, kw, k)


cdef object slow_dispatch(Op op, object function, object called, tuple a, dict kw, uint32_t k):
    if k & (K_OVERRIDE | K_FUNCTION_MODE):
        r = torch_function(called, a, kw, k)
        if r is not NotImplemented:
            return r
        k &= ~<uint32_t>(K_OVERRIDE | K_FUNCTION_MODE)
    if k & K_PROFILE:
        return recorded_call(function, a, kw)
    if k & K_AUTOCAST and op.autocasts and function is op:
        r = AUTOCAST[0](op, a, kw)
        if r is not NotImplemented:
            return r
    cdef list stack
    if k & K_SPARSE and k & K_INTERPRETER and SPARSE[2](a, kw):
        return SPARSE[0](op, function, a, kw)
    if k & K_INTERPRETER:
        stack = interpreter_stack()
        if stack:
            return stack[len(stack) - 1].process(function, a, kw)
    if k & K_TRANSFORM:
        raise_escaped(function)
    if k & K_SPARSE:
        return SPARSE[0](op, function, a, kw)
    if k & K_DISPATCH and function is op and HEARD[0] is not None:
        return HEARD[0](op, a, kw)
    return NotImplemented


cdef bint runs_through(Op op, uint32_t k):
    """Whether the innermost function transform sees the operators of this composite instead of the composite."""
    cdef list stack = interpreter_stack()
    return (k & K_INTERPRETER) and not (k & (K_OVERRIDE | K_FUNCTION_MODE)) and stack and not op.opaque and (
        getattr(stack[len(stack) - 1], "decomposes", False))


def bind_arguments(Op op, tuple args, dict kwargs):
    """The arguments of a call in schema order, as the implementation gets them; and what `out=` was."""
    cdef PyObject *given[64]
    cdef PyObject *slots[24]
    cdef PyObject *out = NULL
    cdef list owned = []
    cdef list bound = []
    cdef tuple names = tuple(kwargs)
    cdef int i
    values = args + tuple(kwargs.values())
    if len(values) > 64:
        raise said(TypeError, "[%s] at most 64 arguments were required: got %d" % (op.name, len(values)) + "\nhint: gather arguments in a list")
    for i in range(len(values)):
        given[i] = <PyObject *>values[i]
    read_arguments(op, given, len(args), <PyObject *>names if names else NULL, slots, &out, owned)
    for i in range(op.nargs):
        if slots[i] == NULL:
            bound.append(default_of(op, i))
        elif op.arguments[i].type == T_DTYPE or not (op.arguments[i].type == T_ANY):
            bound.append(normalise(op, i, <object>slots[i]))
        else:
            bound.append(<object>slots[i])
    return tuple(bound), (<object>out if out != NULL else None)


cdef object default_of(Op op, int i):
    value = <object>op.arguments[i].default_
    if op.arguments[i].type == T_INT and op.arguments[i].is_list and value is not None:
        return int_list(op, i, value)
    return tuple(value) if value.__class__ is list else value


def run_implementation(Op op, tuple args):
    """Run the body of a composite on arguments in schema order."""
    return op.impl(*args)


def overloaded_arguments(args, kwargs):
    """The arguments whose types override functions, subclasses before their bases."""
    cdef list found = []
    cdef list types = []
    for x in list(args) + list(kwargs.values()):
        for v in (x if isinstance(x, (list, tuple)) else (x,)):
            t = type(v)
            if t is not Tensor and t not in types and (
                    subclass_keys(t) & K_OVERRIDE if isinstance(v, Tensor) else overrides(v)):
                position = len(found)
                for j in range(len(found)):
                    if issubclass(t, types[j]):
                        position = j
                        break
                found.insert(position, v)
                types.insert(position, t)
    return found


cdef object torch_function(object function, tuple args, dict kwargs, uint32_t k):
    """Ask the function modes (innermost first), then the overriding arguments."""
    cdef uint32_t tls = fk_tls_keys()
    cdef list overloaded = [] if tls & K_PLAIN else overloaded_arguments(args, kwargs)
    cdef tuple types = tuple([type(v) for v in overloaded])
    if tls & K_FUNCTION_MODE and FUNCTION_MODES:
        mode = FUNCTION_MODES.pop()
        if not FUNCTION_MODES:
            fk_tls_set(fk_tls_keys() & ~<uint32_t>K_FUNCTION_MODE)
        try:
            r = mode.__torch_function__(function, types, args, kwargs)
        finally:
            FUNCTION_MODES.append(mode)
            fk_tls_set(fk_tls_keys() | K_FUNCTION_MODE)
        if r is not NotImplemented:
            return r
    if not overloaded:
        return NotImplemented
    for v in overloaded:
        r = type(v).__torch_function__(function, types, args, kwargs)
        if r is not NotImplemented:
            return r
    raise said(TypeError, "[%s] an implementation by one of the argument types was required: no implementation found for types "
                    "that implement __torch_function__: %s" % (getattr(function, "__name__", function), list(types)) + "\nhint: one class must handle the function: NotImplemented from all of them ends here")


cdef object with_complex_parameters(Op op, Variant v, list operands, list values, int form, object out):
    """Kernels take real parameters: complex ones are factors of tensors."""
    cdef Tensor r = op.complexes(*operands, **dict(zip(v.runtime, values)))
    if form == FORM_INPLACE:
        if not kind_fits(r.dt, (<Tensor>operands[0]).dt): raise_inplace_cast(op.name, r.dt, (<Tensor>operands[0]).dt)
        return m_copy_(<Tensor>operands[0], r)
    if out is None: return r
    copy_to_out(op, <Tensor?>out, r)
    return out
