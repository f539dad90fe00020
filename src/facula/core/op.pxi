# Operators: reading the arguments of a call by its schema, and choosing the way the call goes.
#
# Keeps true: `Op` (functional), `InplaceOp` and the `out=` form read arguments by the same table; a call looks at
# `keys` once and leaves the fast way only for overrides, modes, transforms and foreign devices.

cdef enum:
    KIND_POINTWISE, KIND_VIEW, KIND_OPERATOR, KIND_COMPOSITE
    T_TENSOR, T_OPERAND, T_INT, T_FLOAT, T_BOOL, T_NUMBER, T_STR, T_DTYPE, T_DEVICE, T_ANY
    FORM_FUNCTIONAL, FORM_INPLACE, FORM_OUT

cdef dict _TYPE_CODES = {"Tensor": T_TENSOR, "Operand": T_OPERAND, "int": T_INT, "float": T_FLOAT, "bool": T_BOOL,
                         "Number": T_NUMBER, "str": T_STR, "dtype": T_DTYPE, "device": T_DEVICE}
cdef dict _RESULT_RULES = {"same": 0, "float": 1, "bool": 2, "real": 3, "real_float": 4}
cdef dict _KIND_MASK = {"bool": 1 << KIND_BOOL, "int": 1 << KIND_INT, "float": 1 << KIND_FLOAT, "complex": 1 << KIND_COMPLEX}

cdef struct Argument:
    PyObject *name               # interned, borrowed from the schema
    PyObject *default_           # borrowed; NULL when required
    unsigned char type, optional, optional_items, is_list, variadic, length


cdef class Op:
    """An operator, callable in its functional form."""
    cdef vectorcallfunc vectorcall
    cdef readonly object definition
    cdef readonly str name
    cdef readonly int kind
    cdef dict __dict__
    cdef Argument arguments[24]
    cdef int nargs, npos, variadic
    cdef bint autocasts          # has an autocast policy
    cdef list keep               # what `arguments` borrows
    cdef bint has_out
    cdef readonly object inplace
    cdef object check            # Python: raises for attributes (by name) out of range, or None
    cdef int dtype_at            # where `dtype` stands in a factory: out= decides it where it is not given; else -1
    cdef object impl             # Python: runs the operator on normalised arguments
    cdef public object autograd  # or None: runs the operator where it must be recorded, see `facula.library`
    cdef bint makes_tensors      # it takes a device: dispatch overrides see it even where it is a composite
    cdef object direct           # Python: the in-place form without a copy; gives whether it served
    # pointwise
    cdef int ntensors, nattrs
    cdef unsigned char tensor_at[8]
    cdef unsigned char attr_at[8]
    cdef unsigned char fixed[8]  # a tensor argument's own compute dtype, or NO_DTYPE
    cdef int rule, mask
    cdef uint32_t strict         # bit i: argument i must be a tensor in a call by name (a number is for formulas)
    cdef bint differentiable, chooses_dtype, checks_divisor
    cdef bint opaque             # a composite that function transforms treat as a whole
    cdef Variant default_variant
    cdef dict variants
    # others
    cdef object formula          # how to run the backward, see `Formula`
    cdef int view_number, fast_number
    cdef void *drivers[18]
    cdef unsigned char looked[18]
    cdef str node_text

    def __cinit__(self, definition=None):
        self.vectorcall = <vectorcallfunc>op_vectorcall

    def __init__(self, definition):
        cdef int i
        schema = definition.schema
        self.definition = definition
        self.name = definition.name
        self.keep = []
        self.variadic = self.dtype_at = -1
        self.has_out = definition.out
        self.autocasts = definition.autocast is not None
        if len(schema.parameters) > MAX_ARGS:
            raise ValueError("[%s] at most %d arguments were required" % (self.name, MAX_ARGS))
        for p in schema.parameters:
            if p.name == "dtype" and definition.out_cast:
                self.dtype_at = self.nargs
            self.add_argument(p)
        self.kind = {"pointwise": KIND_POINTWISE, "view": KIND_VIEW, "composite": KIND_COMPOSITE}.get(
            definition.kind, KIND_OPERATOR)
        for i in range(self.nargs):
            if self.arguments[i].type == T_DEVICE:
                self.makes_tensors = True
        if self.kind == KIND_POINTWISE:
            self.setup_pointwise(definition)
        else:
            self.view_number = _VIEW_NUMBERS.get(definition.geometry, 0) if self.kind == KIND_VIEW else 0
            self.fast_number = _FAST_NUMBERS.get(getattr(definition, "fast", None), 0)
            prepare = OPERATOR_SETUP.get(definition.kind)
            if prepare is not None:
                prepare(self, definition)
        self.direct = getattr(definition, "cpu_inplace", None)
        self.opaque = definition.opaque
        if definition.inplace:
            self.inplace = InplaceOp(self)

    cdef int add_argument(self, object p) except -1:
        cdef Argument *a = &self.arguments[self.nargs]
        name = p.name
        self.keep.append(name)
        a.name = <PyObject *>name
        a.default_ = NULL
        if p.has_default:
            default = p.default
            self.keep.append(default)
            a.default_ = <PyObject *>default
        a.type = _TYPE_CODES.get(p.type, T_ANY)
        a.optional = p.optional
        a.optional_items = p.optional_items
        a.is_list = p.is_list
        a.length = p.length
        a.variadic = p.variadic
        if p.variadic:
            self.variadic = self.nargs
        self.nargs += 1
        if not p.keyword_only:
            self.npos = self.nargs
        return 0

    cdef int setup_pointwise(self, object definition) except -1:
        cdef int i
        fixed = definition.compute or {}
        self.rule = _RESULT_RULES[definition.result]
        self.mask = 0
        for word in definition.dtypes.split():
            self.mask |= _KIND_MASK[word]
        self.differentiable = definition.differentiable
        self.check = definition.check
        self.chooses_dtype = definition.result_of is not None
        self.checks_divisor = definition.nonzero_divisor
        for name in definition.strict:
            self.strict |= 1 << [<object>self.arguments[i].name for i in range(self.nargs)].index(name)
        for i in range(self.nargs):
            if self.arguments[i].type <= T_OPERAND:
                self.tensor_at[self.ntensors] = i
                code = fixed.get(<object>self.arguments[i].name)
                self.fixed[self.ntensors] = NO_DTYPE if code is None else (<dtype>DTYPE_BY_CODE[code]).index
                self.ntensors += 1
            else:
                self.attr_at[self.nattrs] = i
                self.nattrs += 1
        self.variants = {}
        if self.ntensors > 6 or self.nattrs > 8:
            raise ValueError("[%s] at most 6 tensors and 8 attributes were required of a pointwise operator" % self.name)
        return 0

    def set_impl(self, impl, formula=None):
        """Give the Python function that runs the operator on normalised arguments, and its gradient formula."""
        self.impl = impl
        self.formula = formula

    def backward(self, body):
        """Decorator: an explicit gradient of a pointwise operator, see `ops.registry`."""
        self.definition.explicit_backward = body
        return self

    cdef str backward_name(self):
        if self.node_text is None:
            self.node_text = "".join([w.capitalize() for w in self.name.replace("::", "_").split("_") if w]) + "Backward0"
        return self.node_text

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __repr__(self):
        return "<operator %s>" % self.name

    def __getattr__(self, name):
        found = OP_ATTRIBUTES.get(name)
        if found is None:
            raise AttributeError("operator '%s' has no attribute '%s'" % (self.name, name))
        return found(self)

    def __reduce__(self):
        return self.definition.names[0] if self.definition.names else self.name

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    @property
    def __name__(self):
        return self.definition.public_name

    @property
    def __qualname__(self):
        return self.definition.public_name

    @property
    def __module__(self):
        return self.definition.public_module

    @property
    def __doc__(self):
        return self.definition.doc

    @property
    def __signature__(self):
        return self.definition.signature()

    @property
    def __wrapped_definition__(self):
        return self.definition


cdef class InplaceOp:
    """The in-place form `name_` of an operator."""
    cdef vectorcallfunc vectorcall
    cdef readonly Op op
    cdef dict __dict__

    def __cinit__(self, Op op):
        self.vectorcall = <vectorcallfunc>inplace_vectorcall

    def __init__(self, Op op):
        self.op = op

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __repr__(self):
        return "<in-place operator %s_>" % self.op.name

    def __deepcopy__(self, memo):
        return self

    @property
    def definition(self):
        return self.op.definition

    @property
    def __name__(self):
        return self.op.definition.public_name + "_"

    @property
    def __qualname__(self):
        return self.__name__

    @property
    def __module__(self):
        return self.op.definition.public_module

    @property
    def __doc__(self):
        return "In-place form of `%s`: writes to its first argument and returns it." % self.op.name

    @property
    def __signature__(self):
        return self.op.definition.signature(inplace=True)

#: slot: further attributes of operators, each a function of the operator; `facula.ops.namespaces` fills it
OP_ATTRIBUTES = {}
#: kind -> function(op, definition) that completes an operator; `facula.ops` fills it
OPERATOR_SETUP = {}

cdef object S_OUT = "out"


cdef int read_arguments(Op op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **slots,
                        PyObject **out, list owned) except -1:
    """Sort positional and keyword arguments into slots (borrowed; NULL where the default holds)."""
    cdef int i, n = op.nargs
    cdef Py_ssize_t k
    cdef PyObject *key
    memset(slots, 0, n * sizeof(PyObject *))
    if op.variadic >= 0 and op.arguments[op.variadic].type == T_TENSOR and nargs > op.variadic and isinstance(
            <object>args[op.variadic], Tensor):
        # meshgrid(a, b): the tensors are one list
        rest = tuple([<object>args[k] for k in range(op.variadic, nargs)])
        owned.append(rest)
        for i in range(op.variadic):
            slots[i] = args[i]
        slots[op.variadic] = <PyObject *>rest
    elif op.variadic >= 0 and nargs > op.variadic and (
            not is_sequence(args[op.variadic]) or (nargs > op.npos and isinstance(<object>args[op.variadic], Tensor))) and (
            nargs > op.npos or nargs > op.variadic + 1 or is_single(op, args[op.variadic])):
        # view(2, 3) and permute(0, 1): the rest of the positions are one list
        if nargs > op.variadic + 1 or is_single(op, args[op.variadic]):
            rest = tuple([<object>args[k] for k in range(op.variadic, nargs)])
            owned.append(rest)
            for i in range(op.variadic):
                slots[i] = args[i]
            slots[op.variadic] = <PyObject *>rest
        else:
            for i in range(<int>nargs):
                slots[i] = args[i]
    else:
        if nargs > op.npos:
            raise TypeError("[%s] at most %d positional arguments were required: got %d\nhint: %s() is %s"
                            % (op.name, op.npos, nargs, op.name, op.definition.schema.text))
        for i in range(<int>nargs):
            slots[i] = args[i]
    if kwnames != NULL:
        for k in range(len(<tuple>kwnames)):
            key = <PyObject *>(<tuple>kwnames)[k]
            i = find_argument(op, key)
            if i >= 0:
                if slots[i] != NULL:
                    raise TypeError("[%s] each argument once was required: got multiple values for '%s'" % (op.name, <object>key))
                slots[i] = args[nargs + k]
            elif <object>key == "out" and op.has_out:
                out[0] = args[nargs + k]
                if <object>out[0] is None: out[0] = NULL
            else:
                unknown_keyword(op, <object>key, <object>args[nargs + k], slots)
                i = find_argument(op, key)
    for i in range(n):
        if slots[i] == NULL and op.arguments[i].default_ == NULL:
            raise TypeError("[%s] the argument '%s' was required: got none (missing 1 required argument)\nhint: %s() is %s"
                            % (op.name, <object>op.arguments[i].name, op.name, op.definition.schema.text))
    return 0


cdef inline int find_argument(Op op, PyObject *key) except -2:
    cdef int i
    for i in range(op.nargs):
        if op.arguments[i].name == key:
            return i
    for i in range(op.nargs):
        if <object>op.arguments[i].name == <object>key:
            return i
    return -1


#: keyword spellings that PyTorch takes everywhere
_KEYWORD_ALIASES = {"input": "self", "self": "input", "axis": "dim", "keepdims": "keepdim", "x": "self", "x1": "self",
                    "x2": "other", "axes": "dim"}


cdef int unknown_keyword(Op op, object key, object value, PyObject **slots) except -1:
    cdef int i
    other = _KEYWORD_ALIASES.get(key)
    if op.definition.keyword_aliases is not None:
        other = op.definition.keyword_aliases.get(key, other)
    if other is not None:
        i = find_argument(op, <PyObject *>other)
        if i < 0 and key == "input" and op.nargs and op.arguments[0].type <= T_OPERAND:
            i = 0
        if i < 0 and key in ("axis", "axes"):
            i = find_argument(op, <PyObject *>"dims")
        if i >= 0 and slots[i] == NULL:
            slots[i] = <PyObject *>value
            return 0
    raise TypeError("[%s] a known argument was required: got an unexpected keyword argument '%s'\nhint: %s() is %s"
                    % (op.name, key, op.name, op.definition.schema.text))


cdef inline bint is_sequence(PyObject *o):
    return isinstance(<object>o, (tuple, list)) or (isinstance(<object>o, Tensor) and (<Tensor>o).nd == 1)


cdef inline bint is_single(Op op, PyObject *o):
    """Whether the only value for a trailing list is its one element: an index, and no tensor where any may stand."""
    return is_index(o) and not (op.arguments[op.variadic].type == T_ANY and isinstance(<object>o, Tensor))


cdef inline bint is_index(PyObject *o):
    return PyLong_CheckExact(<object>o) or (PyIndex_Check(<object>o) and not isinstance(<object>o, Tensor)) or (
        isinstance(<object>o, Tensor) and (<Tensor>o).nd == 0 and KIND[(<Tensor>o).dt] == KIND_INT)


cdef inline object slot_value(Op op, PyObject **slots, int i):
    return <object>slots[i] if slots[i] != NULL else <object>op.arguments[i].default_


cdef inline uint32_t keys_of(object x):
    cdef uint32_t k = 0
    if isinstance(x, Tensor):
        return (<Tensor>x).keys
    if isinstance(x, (list, tuple)):
        for v in x:
            if isinstance(v, Tensor):
                k |= (<Tensor>v).keys
            elif overrides(v):
                k |= K_OVERRIDE
        return k
    return K_OVERRIDE if overrides(x) else 0


cdef inline bint overrides(object x):
    """Whether something that is no tensor wants to handle functions itself."""
    if x is None or PyFloat_CheckExact(x) or PyLong_CheckExact(x) or x is True or x is False:
        return False
    found = getattr(type(x), "__torch_function__", None)
    return found is not None and found is not _disabled_torch_function_impl


cdef PyObject *op_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) except NULL:
    r = op_call(<Op>self, args, fk_nargs(nargsf), kwnames, FORM_FUNCTIONAL)
    Py_INCREF(r)
    return <PyObject *>r


cdef PyObject *inplace_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) except NULL:
    r = op_call((<InplaceOp>self).op, args, fk_nargs(nargsf), kwnames, FORM_INPLACE)
    Py_INCREF(r)
    return <PyObject *>r


cdef object op_call(Op op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, int form):
    cdef PyObject *slots[24]
    cdef PyObject *out = NULL
    cdef uint32_t k = fk_tls_keys()
    cdef int i
    cdef bint recorded = False
    cdef Tensor x, y
    if op.kind == KIND_POINTWISE and kwnames == NULL and op.default_variant is not None and nargs == op.ntensors and (
            nargs == 2 or nargs == 1):
        if type(<object>args[0]) is Tensor:
            x = <Tensor>args[0]
            if nargs == 1:
                if not ((x.keys | k) & (K_SLOW | K_META | K_STRIDED | K_WRAPPED)):
                    return unary_fast(op, x, k, form)
            elif type(<object>args[1]) is Tensor:
                y = <Tensor>args[1]
                if form == FORM_FUNCTIONAL and not ((x.keys | y.keys | k) & (K_SLOW | K_META | K_STRIDED | K_WRAPPED)) and x.dt == y.dt and same_shape(x, y):
                    r = binary_fast(op, x, y, k)
                    if r is not None:
                        return r
            elif op.arguments[1].type == T_OPERAND and not (op.strict & 2) and not (
                    (x.keys | k) & (K_SLOW | K_META | K_STRIDED | K_WRAPPED)):
                r = number_fast(op, x, <object>args[1], False, k, form)
                if r is not None:
                    return r
    elif op.view_number == 1 and form == FORM_FUNCTIONAL and kwnames == NULL and nargs > 1 and type(<object>args[0]) is Tensor:
        x = <Tensor>args[0]
        if not ((x.keys | k) & (K_SLOW | K_GRAD | K_STRIDED)):
            r = view_ints(op, x, args + 1, nargs - 1)
            if r is not None:
                return r
    cdef list owned = []
    read_arguments(op, args, nargs, kwnames, slots, &out, owned)
    if form == FORM_INPLACE and not isinstance(slot_value(op, slots, 0), Tensor):
        raise TypeError("[%s_] a tensor was required as the first argument: got %s" % (op.name, type(slot_value(op, slots, 0)).__name__))
    for i in range(op.nargs):
        if slots[i] != NULL and op.arguments[i].type <= T_OPERAND:
            k |= keys_of(<object>slots[i])
    if out != NULL:
        k |= keys_of(<object>out)
    if k & K_PROFILE:
        recorded = (k & K_PROFILED) != 0
        if recorded:
            k = take_recorded(k)
        elif op.kind == KIND_POINTWISE and not (k & (K_OVERRIDE | K_FUNCTION_MODE)):
            check_tensors(op, slots)
    if k & K_SLOW and ((k & K_SLOW) != K_AUTOCAST or op.autocasts):
        if op.kind == KIND_COMPOSITE and form == FORM_FUNCTIONAL and out == NULL and runs_through(op, k):
            return general_call(op, slots, form, None, k)
        r = slow_call(op, args, nargs, kwnames, form, k)
        if r is not NotImplemented:
            return r
    if op.kind == KIND_POINTWISE:
        if not recorded:
            check_tensors(op, slots)
        return pointwise_call(op, slots, form, <object>out if out != NULL else None)
    if form == FORM_FUNCTIONAL and out == NULL:
        if op.view_number:
            return view_call(op, slots, k)
        if op.fast_number and not (k & (K_DISPATCH | K_FOREIGN)):
            r = run_fast(op.fast_number, op, slots, k)
            if r is not None:
                return r
    return general_call(op, slots, form, <object>out if out != NULL else None, k)


cdef int check_tensors(Op op, PyObject **slots) except -1:
    """At least one tensor, and tensors where the public form of the operator wants them."""
    cdef int i
    cdef bint found = False
    for i in range(op.ntensors):
        x = slot_value(op, slots, op.tensor_at[i])
        if isinstance(x, Tensor):
            found = True
        elif op.strict & (1 << op.tensor_at[i]) and x is not None:
            raise wrong_type(op, op.tensor_at[i], x, "Tensor")
    if not found:
        raise TypeError("[%s] a tensor was required: %s() received an invalid combination of arguments - got (%s)\nhint: %s() is %s"
                        % (op.name, op.name, ", ".join([slot_value(op, slots, op.tensor_at[i]).__class__.__name__ for i in range(op.ntensors)]),
                           op.name, op.definition.schema.text))
    return 0


# ------------------------------------------------------------------ the slow way: overrides, modes, transforms, devices

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
    raise RuntimeError("[%s] a tensor of an active function transform was required: got one that outlived its vmap\nhint: return "
                       "it from the transformed function instead of keeping it" % getattr(function, "__name__", function))
AUTOCAST = [None]          # function(op, args, kwargs) that casts and calls, or NotImplemented; set with the bit


cdef object slow_call(Op op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, int form, uint32_t k):
    cdef tuple a = tuple([<object>args[i] for i in range(nargs)])
    cdef dict kw = {}
    if kwnames != NULL:
        for i, name in enumerate(<tuple>kwnames):
            kw[name] = <object>args[nargs + i]
    function = op if form == FORM_FUNCTIONAL else op.inplace
    return slow_dispatch(op, function, a, kw, k)


cdef object slow_dispatch(Op op, object function, tuple a, dict kw, uint32_t k):
    if k & (K_OVERRIDE | K_FUNCTION_MODE):
        r = torch_function(function, a, kw, k)
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
    if k & K_INTERPRETER:
        stack = interpreter_stack()
        if stack:
            return stack[len(stack) - 1].process(function, a, kw)
    if k & K_TRANSFORM:
        raise_escaped(function)
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
        raise TypeError("[%s] at most 64 arguments were required: got %d" % (op.name, len(values)))
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
                    (<Tensor>v).keys & K_OVERRIDE if isinstance(v, Tensor) else overrides(v)):
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
    raise TypeError("[%s] an implementation by one of the argument types was required: no implementation found for types "
                    "that implement __torch_function__: %s" % (getattr(function, "__name__", function), list(types)))


# ------------------------------------------------------------------ operators that run in Python

cdef object normalise(Op op, int i, object v):
    """An argument as the implementation gets it: right type, lists as tuples."""
    cdef Argument *a = &op.arguments[i]
    cdef int t = a.type
    if v is None:
        if a.optional or a.default_ == <PyObject *>None:
            return None
        raise TypeError("[%s] a value was required for '%s': got None" % (op.name, <object>a.name))
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
        if PyLong_CheckExact(v):
            return v
        if isinstance(v, (float, complex, str)) or not (hasattr(v, "__index__")):
            raise wrong_type(op, i, v, "int")
        return v.__index__()
    if t == T_FLOAT:
        if a.is_list:
            return tuple([float(x) for x in v]) if isinstance(v, (list, tuple)) else (float(v),)
        if PyFloat_CheckExact(v):
            return v
        if isinstance(v, (str, list, tuple, complex)):
            raise wrong_type(op, i, v, "float")
        return float(v)
    if t == T_BOOL:
        if a.is_list:
            return tuple([bool(x) for x in v])
        if v is True or v is False:
            return v
        if isinstance(v, (int, Tensor)) or hasattr(v, "__bool__") and not isinstance(v, (str, list, tuple, float)):
            return bool(v)
        raise wrong_type(op, i, v, "bool")
    if t == T_NUMBER:
        if a.is_list:
            return tuple(v) if isinstance(v, (list, tuple)) else (v,)
        if isinstance(v, (float, int, complex)):
            return v
        if isinstance(v, Tensor):
            return scalar_of(v, op.name)
        return number_like(op, i, v)
    if t == T_STR:
        if not isinstance(v, str):
            raise wrong_type(op, i, v, "str")
        return v
    if t == T_DTYPE:
        return as_dtype(v)
    if t == T_DEVICE:
        return <object>DEVICES[device_number(v)]
    return v


cdef object wrong_type(Op op, int i, object v, str wanted):
    return TypeError("[%s] %s was required: argument '%s' (position %d) must be %s, not %s"
                     % (op.name, wanted, <object>op.arguments[i].name, i + 1, wanted, type(v).__name__))


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
            raise TypeError("[%s] tensors were required: expected Tensor as element %d in argument '%s', but got %s"
                            % (op.name, n, <object>op.arguments[i].name, type(t).__name__))
    return tuple(v)


cdef object int_list(Op op, int i, object v):
    cdef Argument *a = &op.arguments[i]
    cdef bint clean = True
    if isinstance(v, (tuple, list)):
        if len(v) == 1 and isinstance(v[0], (tuple, list)) and a.variadic:
            v = v[0]
        for x in v:
            if not PyLong_CheckExact(x):
                clean = False
                break
        if not clean:
            values = []
            for x in v:
                if isinstance(x, (float, complex, str)) or not hasattr(x, "__index__"):
                    raise wrong_type(op, i, x, "tuple of ints")
                values.append(x.__index__())
            return tuple(values)
        if a.length and len(v) == 1 and a.length > 1:
            return tuple(v) * a.length
        return tuple(v)
    if isinstance(v, Tensor) and (<Tensor>v).nd == 1:
        return tuple(v.tolist())
    if isinstance(v, (float, complex, str)) or not hasattr(v, "__index__"):
        raise wrong_type(op, i, v, "tuple of ints")
    return (v.__index__(),) * (a.length or 1)


cdef object general_call(Op op, PyObject **slots, int form, object out, uint32_t k):
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
    if op.kind == KIND_COMPOSITE and form == FORM_FUNCTIONAL and out is None and not (k & K_DISPATCH and op.makes_tensors):
        return op.impl(*args)
    return run_general(op, tuple(args), form, out, k)


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
            return r
    if k & K_FOREIGN and op.kind != KIND_VIEW:
        return foreign_call(op, args)
    return op.impl(*args)


cdef object torch_dispatch(Op op, object function, tuple args):
    """Offer an operator (`function`: itself, or its in-place form) to the dispatch overrides."""
    args, kwargs = op.definition.trim(args)
    return dispatch(function, args, kwargs)


cdef object dispatch_view(Op op, tuple args):
    """Offer a view to the dispatch overrides, below the tape."""
    cdef uint32_t tls = fk_tls_keys()
    fk_tls_set(tls | K_NOGRAD)
    try:
        return torch_dispatch(op, op, args)
    finally:
        fk_tls_set(tls)


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


cdef object dispatch(object function, tuple args, dict kwargs):
    """Ask the dispatch modes (innermost first), then the arguments whose types override dispatch."""
    cdef list overloaded = []
    cdef uint32_t tls = fk_tls_keys()
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
        raise TypeError("[%s] an implementation by one of the argument types was required: no implementation found for types "
                        "that implement __torch_dispatch__: %s" % (getattr(function, "__name__", function), list(types)))
    return NotImplemented


cdef object store_out(Op op, tuple args, object out, uint32_t k):
    """Compute, then copy into `out` (resized where it may be)."""
    if keys_of(out) & K_GRAD and not (fk_tls_keys() & K_NOGRAD) or ((k & K_GRAD) and not (k & K_NOGRAD)):
        raise RuntimeError("[%s] tensors without gradients were required with out=: functions with out=... arguments don't "
                           "support automatic differentiation, but one of the arguments requires grad\nhint: use no_grad(), or "
                           "the form without out=" % op.name)
    if op.dtype_at >= 0 and isinstance(out, Tensor):
        args = typed_by_out(op, args, <Tensor>out)
    r = run_general(op, args, FORM_FUNCTIONAL, None, k)
    if isinstance(r, tuple):
        outs = tuple(out)
        if len(outs) != len(r):
            raise TypeError("[%s] %d output tensors were required: got %d" % (op.name, len(r), len(outs)))
        for a, b in zip(outs, r):
            check_out(op, a, args)
            copy_to_out(op, a, b)
        return r.__class__(*outs) if hasattr(r, "_fields") else (r.__class__(outs) if r.__class__ is not tuple else outs)
    if isinstance(out, (tuple, list)) and len(out) == 1:
        out = out[0]
    if not isinstance(out, Tensor):
        raise TypeError("[%s] a tensor was required as out=: argument 'out' must be Tensor, not %s" % (op.name, type(out).__name__))
    check_out(op, out, args)
    copy_to_out(op, out, r)
    return out


cdef tuple typed_by_out(Op op, tuple args, Tensor out):
    """The arguments of a factory, with the dtype of `out`."""
    given = args[op.dtype_at]
    if given is not None and (<dtype>given).index != out.dt:
        raise RuntimeError("[%s] dtype= and out= of one dtype were required: dtype %s does not match dtype of out parameter (%s)"
                           % (op.name, (<dtype>given).type_word, (<dtype>DTYPES[out.dt]).type_word))
    return args[:op.dtype_at] + (DTYPES[out.dt],) + args[op.dtype_at + 1:]


cdef int check_out(Op op, object out, tuple args) except -1:
    """An output must not lie partly over itself or over an input."""
    if not isinstance(out, Tensor):
        raise TypeError("[%s] a tensor was required as out=: got %s" % (op.name, type(out).__name__))
    check_writable(op.name, <Tensor>out)
    for x in args:
        for v in (x if isinstance(x, tuple) else (x,)):
            if isinstance(v, Tensor) and (<Tensor>v).st == (<Tensor>out).st and overlaps(<Tensor>v, <Tensor>out) and (
                    is_dense(<Tensor>v) and is_dense(<Tensor>out)):
                raise_overlap(op.name)
    return 0


cdef int copy_to_out(Op op, Tensor out, Tensor r) except -1:
    if not kind_fits(r.dt, out.dt):
        raise RuntimeError("[%s] an out= of a dtype that holds %s was required: result type %s can't be cast to the desired "
                           "output type %s" % (op.name, (<dtype>DTYPES[r.dt]).name, (<dtype>DTYPES[r.dt]).type_word,
                                               (<dtype>DTYPES[out.dt]).type_word))
    if out.dt != r.dt and not getattr(op.definition, "out_cast", False):
        raise RuntimeError("[%s] an out= of dtype %s was required: got %s (Expected out tensor to have dtype %s, but got %s instead)"
                           % (op.name, (<dtype>DTYPES[r.dt]).name, (<dtype>DTYPES[out.dt]).name,
                              (<dtype>DTYPES[r.dt]).name, (<dtype>DTYPES[out.dt]).name))
    if out.dev != r.dev:
        raise RuntimeError("[%s] an out= on %s was required: got %s" % (op.name, DEVICES[r.dev], DEVICES[out.dev]))
    if not same_shape(out, r):
        resize_out(op, out, r.nd, r.sh)
    check_writable(op.name, out)
    copy_into(out, r)
    bump(out)
    return 0


cdef int resize_out(Op op, Tensor out, int nd, const int64_t *sh) except -1:
    """`out=` of another shape is resized, with a warning unless it is empty."""
    if out.numel_ != 0:
        import warnings
        warnings.warn("[%s] An output with one or more elements was resized since it had shape %s, which does not match the "
                      "required output shape %s. This behavior is deprecated; resize it to zero elements first."
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
    check_inplace(op.name, self, tls)
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
    if k & K_DISPATCH and not recording and op.inplace is not None:
        fk_tls_set(tls | K_NOGRAD)
        try:
            if torch_dispatch(op, op.inplace, args) is not NotImplemented:
                return self
        finally:
            fk_tls_set(tls)
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
        n = formula_node(op, args, r)
    copy_into(self, r)
    bump(self)
    if n is not None:
        rebase(self, n)
        formula_saved_result(n, self)
    return self


cdef bint direct_inplace(Op op, Tensor self, tuple args, uint32_t k, bint recording) except *:
    """Write where the elements are, for operators that offer it; False where the ordinary way must serve."""
    cdef uint32_t tls = fk_tls_keys()
    cdef Node n = None
    if recording:
        n = formula_node(op, args, None)
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


cdef object reshape_inplace(Op op, tuple args, uint32_t k):
    """`t_`, `squeeze_`, ...: the tensor takes the geometry of its own view."""
    cdef Tensor self = args[0]
    cdef Tensor r
    cdef PyObject *slots[24]
    cdef Node n = None
    cdef int i
    if k & K_GRAD and not (k & K_NOGRAD):
        if self.fn_ is None and self.keys & K_GRAD:
            check_inplace(op.name, self, k)
        n = formula_node(op, args, None)
    if op.view_number:
        for i in range(op.nargs):
            slots[i] = <PyObject *>args[i]
        r = run_view(op.view_number, op, slots)
    else:
        r = op.impl(*args)
    if n is not None:
        formula_saved_result(n, r)
    self.nd = r.nd
    self.data_ = r.data_
    self.numel_ = r.numel_
    memcpy(self.sh, r.sh, r.nd * 8)
    memcpy(self.sd, r.sd, r.nd * 8)
    compute_keys(self)
    if n is not None:
        bump(self)
        attach(self, n, 0)
    return self


cdef int raise_inplace_shape(Op op, Tensor self, Tensor r) except -1:
    raise RuntimeError("[%s_] a result of the shape of self was required: output with shape %s doesn't match the broadcast "
                       "shape %s" % (op.name, list(make_size(self.nd, self.sh)), list(make_size(r.nd, r.sh))))


cdef int raise_inplace_cast(str op, int source, int target) except -1:
    raise RuntimeError("[%s_] a result that self can hold was required: result type %s can't be cast to the desired output "
                       "type %s\nhint: convert self with .to(%s) first"
                       % (op, (<dtype>DTYPES[source]).type_word, (<dtype>DTYPES[target]).type_word, (<dtype>DTYPES[source]).name))


cdef inline bint same_broadcast(Tensor self, Tensor r):
    return False


cdef inline int check_inplace(str op, Tensor self, uint32_t tls) except -1:
    """The rules for a tensor that is about to be overwritten."""
    if self.keys & K_GRAD and not (tls & K_NOGRAD):
        if self.fn_ is None:
            raise RuntimeError("[%s_] a tensor that is no leaf was required: a leaf Variable that requires grad is being used in "
                               "an in-place operation.\nhint: wrap the update in no_grad(), or work on x.clone()" % op)
    if self.base is not None and not (tls & K_NOGRAD) and self.base.keys & K_GRAD and self.base.fn_ is None:
        raise RuntimeError("[%s_] a view of no leaf was required: a view of a leaf Variable that requires grad is being used in "
                           "an in-place operation.\nhint: wrap the update in no_grad(), or work on x.clone()" % op)
    if self.base is not None and not (tls & K_NOGRAD) and self.base.keys & K_GRAD and not (self.keys & K_GRAD) and (
            KIND[self.dt] >= KIND_FLOAT):
        raise RuntimeError("[%s_] a view with the history of its base was required: A view was created in no_grad mode and is being "
                           "modified inplace with grad mode enabled.\nhint: do both inside no_grad(), or both outside" % op)
    if self.keys & K_INFERENCE and not (tls & K_INFERENCE) and not (tls & K_NOGRAD):
        raise RuntimeError("[%s_] a normal tensor was required: Inplace update to inference tensor outside InferenceMode is not "
                           "allowed.\nhint: clone it first" % op)
    return check_writable(op, self)


cdef inline int check_writable(str op, Tensor self) except -1:
    cdef int i
    if self.st != NULL and self.st.flags & FK_READONLY:
        raise RuntimeError("[%s] writable memory was required: got a tensor on read-only memory (a NumPy array that is not "
                           "writable)\nhint: copy it first, for example facula.tensor(array)" % op)
    if self.keys & K_STRIDED:
        for i in range(self.nd):
            if self.sd[i] == 0 and self.sh[i] > 1:
                raise RuntimeError("[%s] memory with one element a place was required: unsupported operation: more than one "
                                   "element of the written-to tensor refers to a single memory location.\nhint: please clone() "
                                   "the (expanded) tensor before performing the operation" % op)
    return 0
