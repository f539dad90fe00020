# Variants of elementwise operators: an operator with its string, bool and optional arguments fixed, and its kernels.
#
# Takes: the slots of a call. Gives: `Variant`, `choose_variant`, which finds a call's, and `kernel_of`.
# Keeps true: one kernel a variant and compute dtype, whose operands are those of its registration.


cdef class Variant:
    """An operator with its string, bool and optional attributes fixed."""
    cdef readonly Op op
    cdef readonly str key
    cdef readonly dict attributes      # fixed values; runtime parameters are left out
    cdef readonly tuple runtime        # names of the runtime parameters in order
    cdef readonly tuple present        # which tensor arguments are given
    cdef fk_map kernels[20]
    cdef unsigned char tried[20]
    cdef unsigned char unsigned_rule   # 0: not asked yet; 1 + what UNSIGNED_RULE said
    cdef list plans

    def __cinit__(self):
        self.plans = [None] * FK_DTYPES_N


#: name -> address of every loaded kernel, and its kind
KERNELS = {}
#: slot: function(definition, variant, compute code) -> address of a kernel made now, or None (see facula.runtime)
MISSING_KERNEL = [None]
#: slot: function(definition, variant, compute code, part) -> uses of the gradients, see facula.ops
GRADIENT_RULES = [None]
#: slot: function(variant, compute code, tensors, parameters) -> result by other operators
EVALUATE = [None]
#: slot: function(variant, compute code, wrt, values by use, parameters) -> gradient by other operators
EVALUATE_GRADIENT = [None]


cdef str kernel_name(Variant v, int cd, str part):
    cdef str name = v.op.name
    if v.key:
        name = name + "." + v.key
    if part:
        name = name + "." + part
    return name + ":" + (<dtype>DTYPES[cd]).code


cdef fk_map find_kernel(Variant v, int cd, str part, list dtypes) except *:
    """The elementwise kernel of a variant or of a part of its gradient, whose operands must have these dtypes."""
    address = KERNELS.get(kernel_name(v, cd, part))
    if address is None and MISSING_KERNEL[0] is not None:
        address = MISSING_KERNEL[0](v.op.definition, v, (<dtype>DTYPES[cd]).code, part)
    if address is None:
        return NULL
    check_map(kernel(kernel_name(v, cd, part)), dtypes)
    return <fk_map><void *><uintptr_t>address


cdef int check_map(Kernel k, list dtypes) except -1:
    """Raise where an elementwise kernel is not one for operands of these dtypes, the result first."""
    cdef list found = list(k.contract.dtypes)
    if found != dtypes or k.form != c'm':
        raise_fault(k.name, "an elementwise kernel for operands of %s was required: got one for %s" % (dtypes, found))
    return 0


cdef list map_dtypes(Variant v, int cd):
    """What the kernel of a variant writes and reads: the result, then the arguments that are present."""
    cdef list dtypes = [<object>DTYPES[output_compute(v.op, cd)]]
    cdef int i
    for i in range(v.op.ntensors):
        if v.present[i]: dtypes.append(<object>DTYPES[cd if v.op.fixed[i] == NO_DTYPE else v.op.fixed[i]])
    return dtypes


cdef inline fk_map kernel_of(Variant v, int cd) except *:
    if not v.tried[cd]:
        v.tried[cd] = 1
        v.kernels[cd] = find_kernel(v, cd, "", map_dtypes(v, cd))
    return v.kernels[cd]


cdef Variant choose_variant(Op op, PyObject **slots, fk_scalar *attrs, list values):
    """The variant that a call's attributes ask for; runtime attributes go to `values` (and later to `attrs`)."""
    cdef int i, given = 0
    cdef Variant v
    for i in range(op.nargs):
        if slots[i] == NULL: continue
        if op.arguments[i].type > T_OPERAND: return variant_of_attributes(op, slots, attrs, values)
        if op.arguments[i].optional and <object>slots[i] is not None: given |= 1 << i
    if given == 0 and op.default_variant is not None: return op.default_variant
    v = op.by_presence.get(given)
    if v is None:
        v = variant_of_attributes(op, slots, attrs, values)
        op.by_presence[given] = v
    return v


cdef Variant variant_of_attributes(Op op, PyObject **slots, fk_scalar *attrs, list values):
    """The same of any call."""
    cdef int i
    cdef Argument *a
    cdef list key = []
    cdef list runtime = []
    cdef list present = []
    cdef dict fixed = {}
    cdef str text
    cdef Variant v
    for i in range(op.nargs):
        a = &op.arguments[i]
        name = <object>a.name
        value = slot_value(op, slots, i)
        if a.type <= T_OPERAND:
            if a.optional:
                if value is not None: key.append(name)
            elif value is None:
                raise wrong_type(op, i, None, "Tensor")
            present.append(value is not None)
            continue
        value = normalise(op, i, value)
        default = <object>a.default_ if a.default_ != NULL else None
        if a.type == T_STR:
            if value != default:
                key.append(value)
            fixed[name] = value
        elif a.type == T_BOOL:
            if value is not default:
                key.append(name if value else "no_" + name)
            fixed[name] = value
        elif value is None:
            if default is not None: key.append("no_" + name)
            fixed[name] = None
        elif a.type in (T_INT, T_FLOAT, T_NUMBER):
            if a.default_ != NULL and type(value) is not complex and value == default and default is not None:
                fixed[name] = default
            else:
                if a.default_ != NULL: key.append(name)
                runtime.append(name)
                values.append(value)
        else:
            fixed[name] = value
            if value != default: key.append(str(value))
    if op.check is not None:
        op.check(**fixed, **dict(zip(runtime, values)))
    text = ".".join(key)
    v = op.variants.get(text)
    if v is None:
        v = Variant.__new__(Variant)
        v.op = op; v.key = text; v.attributes = fixed; v.runtime = tuple(runtime); v.present = tuple(present)
        op.variants[text] = v
        if not text and not runtime and all(present):
            op.default_variant = v
    return v


def pointwise_variant(Op op, tuple args):
    """The variant that a call with these arguments (in schema order) asks for, and its runtime attributes."""
    cdef PyObject *slots[24]
    cdef fk_scalar attrs[8]
    cdef list values = []
    cdef int i
    for i in range(op.nargs):
        slots[i] = <PyObject *>args[i]
        if op.arguments[i].default_ != NULL and args[i] is <object>op.arguments[i].default_:
            slots[i] = NULL
    v = choose_variant(op, slots, attrs, values)
    return v, values


def prepare_pointwise(Op op):
    """Make the default variant of an operator whose attributes all have defaults, so that calls find it."""
    cdef PyObject *slots[24]
    cdef fk_scalar attrs[8]
    cdef int i
    for i in range(op.nargs):
        slots[i] = NULL
        if op.arguments[i].default_ == NULL:
            if op.arguments[i].type > T_OPERAND:
                return
            slots[i] = <PyObject *>0 if False else <PyObject *>op
    # tensors are stood in for by the operator itself: only presence matters here
    choose_variant(op, slots, attrs, [])
