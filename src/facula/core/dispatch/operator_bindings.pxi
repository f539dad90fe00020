# Operator bindings: the operators behind Python's own syntax, and those that fast paths in the core end in.
#
# Takes: the operator table, once it is complete (`bind_operators`). Gives: the `OP_` names. Keeps true: None until then.

cdef Op OP_ADD = None, OP_SUB = None, OP_MUL = None, OP_DIV = None, OP_FLOOR_DIVIDE = None, OP_REMAINDER = None, OP_POW = None
cdef Op OP_AND = None, OP_OR = None, OP_XOR = None, OP_LSHIFT = None, OP_RSHIFT = None
cdef Op OP_EQ = None, OP_NE = None, OP_LT = None, OP_LE = None, OP_GT = None, OP_GE = None
cdef Op OP_SQUARE = None
cdef object METHOD_NEG = None, METHOD_ABS = None, METHOD_NOT = None, METHOD_POSITIVE = None, METHOD_MATMUL = None
cdef object OP_MATMUL = None
cdef Op OP_EMPTY = None, OP_EMPTY_STRIDED = None, OP_EMPTY_LIKE = None, OP_ZEROS_LIKE = None, OP_LIFT = None
#: slot: (wrapper, dtype, device) -> unset elements like those behind a function transform's wrapper
WRAPPER_EMPTY = [None]
#: slot: (nested numbers, dtype) -> a tensor of them where some are known only where a program runs; else None
UNKNOWN_NUMBERS = [None]
#: slot: tensor -> its text
PRINTER = [object.__repr__]


cdef object method_of(Op op):
    """An operator as the method of Tensor that Python's own syntax calls."""
    return op if op.method is None else op.method


def bind_operators(table):
    """Give Python's operators their operators, by name from the table."""
    global OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOOR_DIVIDE, OP_REMAINDER, OP_POW, OP_AND, OP_OR, OP_XOR, OP_LSHIFT, OP_RSHIFT
    global OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_SQUARE, OP_MATMUL, OP_MM, OP_VIEW
    global OP_INDEX, OP_INDEX_PUT, OP_MASKED_FILL, METHOD_NEG, METHOD_ABS, METHOD_NOT, METHOD_POSITIVE, METHOD_MATMUL
    global OP_EMPTY, OP_EMPTY_STRIDED, OP_EMPTY_LIKE, OP_ZEROS_LIKE, OP_LIFT
    OP_ADD = table["add"]; OP_SUB = table["sub"]; OP_MUL = table["mul"]; OP_DIV = table["div"]
    OP_FLOOR_DIVIDE = table["floor_divide"]; OP_REMAINDER = table["remainder"]; OP_POW = table["pow"]
    OP_AND = table["bitwise_and"]; OP_OR = table["bitwise_or"]; OP_XOR = table["bitwise_xor"]
    OP_LSHIFT = table["bitwise_left_shift"]; OP_RSHIFT = table["bitwise_right_shift"]
    OP_EQ = table["eq"]; OP_NE = table["ne"]; OP_LT = table["lt"]; OP_LE = table["le"]; OP_GT = table["gt"]; OP_GE = table["ge"]
    ONES_LIKE[0] = table["ones_like"]
    OP_EMPTY = table["empty"]; OP_EMPTY_STRIDED = table["empty_strided"]; OP_EMPTY_LIKE = table["empty_like"]
    OP_ZEROS_LIKE = table["zeros_like"]; OP_LIFT = table["lift_fresh_copy"]
    METHOD_NEG = method_of(table["neg"]); METHOD_ABS = method_of(table["abs"]); METHOD_NOT = method_of(table["bitwise_not"])
    METHOD_POSITIVE = method_of(table["positive"]); METHOD_MATMUL = method_of(table["matmul"])
    OP_SQUARE = table["square"]; OP_MATMUL = table["matmul"]; OP_MM = table["mm"]; OP_VIEW = table["view"]
    OP_SUB.reflected = Tensor.__rsub__; OP_DIV.reflected = Tensor.__rtruediv__; OP_FLOOR_DIVIDE.reflected = Tensor.__rfloordiv__
    OP_REMAINDER.reflected = Tensor.__rmod__; OP_POW.reflected = Tensor.__rpow__
    OP_LSHIFT.reflected = Tensor.__rlshift__; OP_RSHIFT.reflected = Tensor.__rrshift__
    bind_sign(OP_FLOOR_DIVIDE, Tensor.__floordiv__, None)
    bind_sign(OP_POW, Tensor.__pow__, Tensor.__ipow__)
    bind_sign(OP_EQ, Tensor.__eq__, None)
    bind_sign(OP_AND, Tensor.__and__, Tensor.__iand__)
    bind_sign(OP_OR, Tensor.__or__, Tensor.__ior__)
    bind_sign(OP_XOR, Tensor.__xor__, Tensor.__ixor__)
    bind_sign(OP_LSHIFT, Tensor.__lshift__, Tensor.__ilshift__)
    bind_sign(OP_RSHIFT, Tensor.__rshift__, Tensor.__irshift__)
    SIGNS[Tensor.__invert__] = table["bitwise_not"]
    OP_INDEX = table["index"]; OP_INDEX_PUT = table["index_put_"]; OP_MASKED_FILL = table["masked_fill"]


cdef inline bint dispatches_creation():
    """Whether a dispatch mode must hear of tensors that are made."""
    return (fk_tls_keys() & K_DISPATCH) != 0 and OP_EMPTY is not None
