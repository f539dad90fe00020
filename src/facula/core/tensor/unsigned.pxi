# Numbers that the kernel of a call would misread: uint64 beyond 2**63 in int64, Python's integers beyond a kernel's dtype.
#
# Takes: a variant, the common dtype and the operands of a call.
# Gives: `check_unsigned` and `raise_number`, which refuse; `beyond_32_bits`, which asks for a wider kernel; `refuse_unsigned`
# for operators with kernels of their own.
# Keeps true: which operators are refused follows from their expressions (`ops/table/pointwise_rules.py`), not from a list.

#: slot: function(variant) -> which uint64 operands its int64 kernel serves, see facula.ops
UNSIGNED_RULE = [None]


cdef int check_unsigned(Variant v, int common, list operands) except -1:
    """Raise where uint64 operands meet a kernel for int64 that would take their highest bit for a sign."""
    cdef int i
    cdef Tensor t
    if KIND[common] > KIND_INT: return 0
    if not v.unsigned_rule: v.unsigned_rule = 1 + <int>UNSIGNED_RULE[0](v)
    if v.unsigned_rule == 1: return 0
    if common == U64:
        if v.unsigned_rule == 3: raise_unsigned(v.op.name)
        return 0
    for i in range(v.op.ntensors):
        t = <Tensor>operands[i]
        if t is None or t.dt != U64 or v.op.fixed[i] != NO_DTYPE: continue
        if not (t.keys & K_WRAPPED): raise_promotion(U64, common)
        raise said(RuntimeError, "[%s] a number that fits %s was required: got %s (value cannot be converted to type int64_t without "
                                 "overflow)\nhint: pass a float, or make a uint64 tensor of it"
                   % (v.op.name, (<dtype>DTYPES[common]).name, item(t)))
    return 0


cdef int raise_unsigned(str name) except -1:
    raise said(NotImplementedError, "[%s] a dtype other than uint64 was required: its highest bit would count as a sign (\"%s\" not "
                                    "implemented for 'UInt64')\nhint: sort(), topk() and unique() take uint64; .long() serves where all "
                                    "values are below 2**63" % (name, name))


def refuse_unsigned(str name, x):
    """Raise where an operator that needs the order of numbers is asked for that of uint64."""
    if (<Tensor?>x).dt == U64: raise_unsigned(name)


cdef inline bint beyond_32_bits(Tensor t):
    """Whether an operand is a number that an int32 kernel would cut."""
    return t.keys & K_WRAPPED and t.dt == I64 and not -0x80000000 <= (<int64_t *>t.data_)[0] <= 0x7fffffff


cdef int raise_number(Variant v, int i, object x, str wanted) except -1:
    raise said(OverflowError, "[%s] a number that fits %s was required for '%s': got one of %d bits\nhint: pass a float, or a smaller "
                              "number" % (v.op.name, wanted, v.runtime[i], x.bit_length()))
