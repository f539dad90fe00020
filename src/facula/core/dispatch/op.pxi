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
    cdef object method           # the method of Tensor that it is, as overrides are told of Python's own operators; or None
    cdef object sign             # what they are told of Python's own operator instead: `Tensor.__eq__`; or None
    cdef object inplace_sign     # the same of the one that writes: `Tensor.__iand__`; or None
    cdef object reflected        # what they are told where the tensor stands on the right: `Tensor.__rsub__`; or None
    cdef object check            # Python: raises for attributes (by name) out of range, or None
    cdef int dtype_at            # where `dtype` stands in a factory: out= decides it where it is not given; else -1
    cdef object impl             # Python: runs the operator on normalised arguments
    cdef public object autograd  # or None: runs the operator where it must be recorded, see `facula.library`
    cdef public object older     # or None: runs a call with more positional arguments than the schema has, as PyTorch once took them
    cdef public object complexes # or None, elementwise: the same with a complex number as a parameter, of operators
    cdef bint shows              # its results show the elements of its first argument
    cdef bint makes_tensors      # it takes a device: dispatch overrides see it even where it is a composite
    cdef object direct           # Python: the in-place form without a copy; gives whether it served
    # pointwise
    cdef int ntensors, nattrs
    cdef unsigned char tensor_at[8]
    cdef unsigned char attr_at[8]
    cdef unsigned char fixed[8]  # a tensor argument's own compute dtype, or NO_DTYPE
    cdef unsigned char fit[8]    # by tensor argument: which dtypes a number in its place must fit, see `fitting.pxi`
    cdef bint fits_some
    cdef int rule, mask
    cdef uint32_t strict         # bit i: argument i must be a tensor in a call by name (a number is for formulas)
    cdef bint differentiable, chooses_dtype, checks_divisor, checks_exponent, refuses_bools
    cdef bint opaque             # a composite that function transforms treat as a whole
    cdef Variant default_variant
    cdef dict variants
    cdef dict by_presence        # of calls without attributes: the variant by the optional tensors that are given, as bits
    # others
    cdef object formula          # how to run the backward, see `Formula`
    cdef int view_number, fast_number
    cdef void *drivers[20]
    cdef unsigned char looked[20]
    cdef bint of_numbers         # numbers alone will do
    cdef bint apart, expanded    # of the in-place form, see `ops/table/definition.py`
    cdef bint in_common_dtype    # operands are rounded to the dtype that they promote to
    cdef bint out_exact          # an elementwise result goes to an out= of its own dtype only
    cdef bint keeps, successes   # its launches may be kept, see `replay.pxi`; some were
    cdef int refusals
    cdef list kept
    cdef str node_text           # the default name of its nodes
    cdef object node_of          # a name of its own, or a function of a NodeCall, or None
    cdef object edges_of         # the operands whose edges Python sees, or a function of a NodeCall, or None

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
        self.apart = definition.apart
        self.expanded = definition.expanded
        self.autocasts = definition.autocast is not None
        if len(schema.parameters) > MAX_ARGS:
            raise said(ValueError, "[%s] at most %d arguments were required" % (self.name, MAX_ARGS) + "\nhint: gather arguments in a list, or split the operator")
        for p in schema.parameters:
            if p.name == "dtype" and definition.out_cast:
                self.dtype_at = self.nargs
            self.add_argument(p)
        self.kind = {"pointwise": KIND_POINTWISE, "view": KIND_VIEW, "composite": KIND_COMPOSITE}.get(
            definition.kind, KIND_OPERATOR)
        self.shows = self.kind == KIND_VIEW or bool(definition.copied)
        for i in range(self.nargs):
            if self.arguments[i].type == T_DEVICE:
                self.makes_tensors = True
        if self.kind == KIND_POINTWISE:
            self.setup_pointwise(definition)
        else:
            self.view_number = _VIEW_NUMBERS.get(definition.geometry, 0) if self.kind == KIND_VIEW else 0
            self.fast_number = _FAST_NUMBERS.get(definition.fast, 0)
            prepare = OPERATOR_SETUP.get(definition.kind)
            if prepare is not None:
                prepare(self, definition)
        self.direct = definition.cpu_inplace
        self.opaque = definition.opaque
        self.keeps = self.kind >= KIND_OPERATOR and definition.keeps
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
        self.out_exact = definition.out_exact
        self.in_common_dtype = definition.in_common_dtype
        self.of_numbers = definition.of_numbers
        self.check = definition.check
        self.chooses_dtype = definition.result_of is not None
        self.refuses_bools = definition.refuses_bools
        self.checks_divisor = definition.nonzero_divisor
        self.checks_exponent = definition.nonnegative_exponent
        for name in definition.strict:
            self.strict |= 1 << [<object>self.arguments[i].name for i in range(self.nargs)].index(name)
        for i in range(self.nargs):
            if self.arguments[i].type <= T_OPERAND:
                self.tensor_at[self.ntensors] = i
                code = fixed.get(<object>self.arguments[i].name)
                self.fixed[self.ntensors] = NO_DTYPE if code is None else (<dtype>DTYPE_BY_CODE[code]).index
                self.fit[self.ntensors] = FIT_WORDS[definition.fits.get(<object>self.arguments[i].name, "none")]
                self.fits_some |= self.fit[self.ntensors] != 0
                self.ntensors += 1
            else:
                self.attr_at[self.nattrs] = i
                self.nattrs += 1
        self.variants = {}
        self.by_presence = {}
        if self.ntensors > 6 or self.nattrs > 8:
            raise said(ValueError, "[%s] at most 6 tensors and 8 attributes were required of a pointwise operator" % self.name + "\nhint: split the operator, or define it with @operator")
        return 0

    def set_impl(self, impl, formula=None):
        """Give the Python function that runs the operator on normalised arguments, and its gradient formula."""
        self.impl = impl
        self.formula = formula
        self.kept = None

    def backward(self, body):
        """Decorator: an explicit gradient of a pointwise operator, see `ops.table.registry`."""
        self.definition.explicit_backward = body
        return self

    cdef str backward_name(self, Node n):
        if self.node_text is None:
            self.node_of = self.definition.node or None
            self.node_text = "".join([w.title() for w in self.name.replace("::", "_").split("_") if w]) + "Backward0"
        if self.node_of is None:
            return self.node_text
        if isinstance(self.node_of, str):
            return self.node_of
        return self.node_of(node_call(n))

    cdef list edge_order(self, Node n):
        """The places of the operands that a definition names for its `edges`, or None."""
        if self.edges_of is None:
            self.edges_of = self.definition.edges
        if not self.edges_of:
            return None
        tensors = [<object>self.arguments[i].name for i in range(self.nargs) if self.arguments[i].type <= T_OPERAND]
        names = self.edges_of if isinstance(self.edges_of, tuple) else self.edges_of(node_call(n))
        return [tensors.index(name) for name in names]

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __repr__(self):
        return shown_function(self, self.name)

    def __getattr__(self, name):
        found = OP_ATTRIBUTES.get(name)
        if found is None:
            raise AttributeError("operator '%s' has no attribute '%s'" % (self.name, name))
        return found(self)

    def __reduce__(self):
        # a name below `__module__`: "relu" for "nn.functional.relu", "Tensor.add_" as it stands
        names = self.definition.names
        if not names:
            return self.name
        return names[0] if names[0].startswith("Tensor.") else self.definition.called[1]

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    @property
    def __name__(self):
        return self.definition.called[1]

    @property
    def __qualname__(self):
        return self.definition.called[1]

    @property
    def __module__(self):
        return self.definition.called[0]

    @property
    def __doc__(self):
        doc = self.definition.doc
        return spoken(doc) if isinstance(doc, str) else doc

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
    cdef object method           # as in `Op`
    cdef dict __dict__

    def __cinit__(self, Op op):
        self.vectorcall = <vectorcallfunc>inplace_vectorcall

    def __init__(self, Op op):
        self.op = op

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __repr__(self):
        return shown_function(self, self.op.name + "_")

    def __deepcopy__(self, memo):
        return self

    @property
    def definition(self):
        return self.op.definition

    @property
    def __name__(self):
        return self.op.definition.called[1] + "_"

    @property
    def __qualname__(self):
        return self.__name__

    @property
    def __module__(self):
        return self.op.definition.called[0]

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
        rest = fk_object_tuple(NULL, nargs - op.variadic, args + op.variadic)
        owned.append(rest)
        for i in range(op.variadic):
            slots[i] = args[i]
        slots[op.variadic] = <PyObject *>rest
    elif op.variadic >= 0 and nargs > op.variadic and (
            not is_sequence(args[op.variadic]) or (nargs > op.npos and (
                op.arguments[op.variadic].type == T_ANY or isinstance(<object>args[op.variadic], Tensor)))) and (
            nargs > op.npos or nargs > op.variadic + 1 or is_single(op, args[op.variadic])):
        # view(2, 3) and permute(0, 1): the rest of the positions are one list
        if nargs > op.variadic + 1 or is_single(op, args[op.variadic]):
            rest = fk_object_tuple(NULL, nargs - op.variadic, args + op.variadic)
            owned.append(rest)
            for i in range(op.variadic):
                slots[i] = args[i]
            slots[op.variadic] = <PyObject *>rest
        else:
            for i in range(<int>nargs):
                slots[i] = args[i]
    else:
        if nargs > op.npos:
            raise said(TypeError, "[%s] at most %d positional arguments were required: got %d\nhint: %s() is %s"
                            % (op.name, op.npos, nargs, op.name, op.definition.schema.text))
        for i in range(<int>nargs):
            slots[i] = args[i]
    if kwnames != NULL:
        for k in range(len(<tuple>kwnames)):
            key = <PyObject *>(<tuple>kwnames)[k]
            i = find_argument(op, key)
            if i >= 0:
                if slots[i] != NULL:
                    raise said(TypeError, "[%s] each argument once was required: got multiple values for '%s'" % (op.name, <object>key) + "\nhint: pass it by position or by name, not both")
                slots[i] = args[nargs + k]
            elif <object>key == "out" and op.has_out:
                out[0] = args[nargs + k]
                if <object>out[0] is None: out[0] = NULL
            else:
                unknown_keyword(op, <object>key, <object>args[nargs + k], slots)
                i = find_argument(op, key)
    for i in range(n):
        if slots[i] == NULL and op.arguments[i].default_ == NULL:
            raise said(TypeError, "[%s] the argument '%s' was required: got none (missing 1 required argument)\nhint: %s() is %s"
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
    raise said(TypeError, "[%s] a known argument was required: got an unexpected keyword argument '%s'\nhint: %s() is %s"
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
    r = op_call(<Op>self, args, fk_nargs(nargsf), kwnames, FORM_FUNCTIONAL, self)
    Py_INCREF(r)
    return <PyObject *>r


cdef PyObject *inplace_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) except NULL:
    r = op_call((<InplaceOp>self).op, args, fk_nargs(nargsf), kwnames, FORM_INPLACE, self)
    Py_INCREF(r)
    return <PyObject *>r


cdef object op_call(Op op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, int form, PyObject *called):
    """Run an operator, or its in-place form; `called` is the name by which: itself, or an alias."""
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
    if op.older is not None and nargs > op.npos:
        return op.older(op.inplace if form == FORM_INPLACE else op, *[<object>args[i] for i in range(nargs)],
                        **({} if kwnames == NULL else {name: <object>args[nargs + i] for i, name in enumerate(<tuple>kwnames)}))
    cdef list owned = []
    read_arguments(op, args, nargs, kwnames, slots, &out, owned)
    if form == FORM_INPLACE and not isinstance(slot_value(op, slots, 0), Tensor) and not overrides(slot_value(op, slots, 0)):
        raise said(TypeError, "[%s_] a tensor was required as the first argument: got %s" % (op.name, type(slot_value(op, slots, 0)).__name__) + "\nhint: the in-place form changes a tensor: facula.as_tensor(x) makes one")
    for i in range(op.nargs):
        if slots[i] != NULL and op.arguments[i].type <= T_OPERAND:
            k |= keys_of(<object>slots[i])
    if op.nargs and slots[0] != NULL and op.arguments[0].type == T_ANY:
        k |= keys_of(<object>slots[0]) & K_OVERRIDE
    i = op.nargs - 1
    if i > 0 and op.arguments[i].variadic and op.arguments[i].type == T_ANY and slots[i] != NULL:
        more = <object>slots[i]                   # einsum("ij,jk", a, b), and einsum("ij,jk", [a, b])
        for each in (more if isinstance(more, (list, tuple)) else (more,)):
            k |= keys_of(each) & K_OVERRIDE
    if out != NULL:
        k |= keys_of(<object>out)
    if k & K_PROFILE:
        recorded = (k & K_PROFILED) != 0
        if recorded:
            k = take_recorded(k)
        elif op.kind == KIND_POINTWISE and not (k & (K_OVERRIDE | K_FUNCTION_MODE)):
            check_tensors(op, slots, owned)
    if k & K_SLOW and ((k & K_SLOW) != K_AUTOCAST or op.autocasts):
        if op.kind == KIND_COMPOSITE and form == FORM_FUNCTIONAL and out == NULL and runs_through(op, k):
            return general_call(op, slots, form, None, k)
        r = slow_call(op, args, nargs, kwnames, form, k, <object>called)
        if r is not NotImplemented:
            return r
    if op.kind == KIND_POINTWISE:
        if not recorded:
            check_tensors(op, slots, owned)
        return pointwise_call(op, slots, form, <object>out if out != NULL else None)
    if form == FORM_FUNCTIONAL and out == NULL:
        if op.view_number:
            return view_call(op, slots, k)
        if op.fast_number and not (k & (K_DISPATCH | K_FOREIGN | K_KEEP)):
            r = run_fast(op.fast_number, op, slots, k)
            if r is not None:
                return r
    return general_call(op, slots, form, <object>out if out != NULL else None, k)


cdef int check_tensors(Op op, PyObject **slots, list owned) except -1:
    """At least one tensor, and tensors where the public form of the operator wants them."""
    cdef int i
    cdef bint found = False
    for i in range(op.ntensors):
        x = slot_value(op, slots, op.tensor_at[i])
        if isinstance(x, Tensor):
            found = True
        elif op.strict & (1 << op.tensor_at[i]) and x is not None:
            raise wrong_type(op, op.tensor_at[i], x, "Tensor")
    if not found and op.of_numbers and slots[0] != NULL and isinstance(<object>slots[0], (int, float, complex)):
        x = tensor(<object>slots[0])              # PyTorch's arithmetic takes numbers alone
        owned.append(x)
        slots[0] = <PyObject *>x
    elif not found:
        raise said(TypeError, "[%s] a tensor was required: %s() received an invalid combination of arguments - got (%s)\nhint: %s() is %s"
                        % (op.name, op.name, ", ".join([slot_value(op, slots, op.tensor_at[i]).__class__.__name__ for i in range(op.ntensors)]),
                           op.name, op.definition.schema.text))
    return 0
