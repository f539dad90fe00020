# Python's numbers that become elements of a dtype, and those that do not fit it.
#
# Takes: a number, a dtype and which kinds of dtypes are looked at. Gives: `number_fits`, which answers, and `check_fit`, which
# raises. Keeps true: what fits is PyTorch's: infinities and NaN are of every floating dtype, an integer below zero stands for
# the unsigned one that ends in the same bits, fractions are cut, and a number that depends on sizes is not asked.

cdef enum:
    FIT_WHOLE = 1                # integers
    FIT_SMALL = 2                # floats of 8 and 16 bits
    FIT_WIDE = 4                 # wider floats, and complex numbers
    FIT_COMPUTED = 8             # small floats compute in float32: its range is theirs

#: what a definition says of an argument (`Pointwise.fits`) -> which dtypes are looked at
FIT_WORDS = {"all": FIT_WHOLE | FIT_SMALL | FIT_WIDE, "narrow": FIT_WHOLE | FIT_SMALL, "wide": FIT_WHOLE | FIT_WIDE,
             "computed": FIT_WHOLE | FIT_WIDE | FIT_COMPUTED, "none": 0}
cdef int FIT_ALL = FIT_WHOLE | FIT_SMALL | FIT_WIDE
cdef double MOST_F32 = 3.4028234663852886e38
cdef dict _MOST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f8e4m3": 448.0, "f8e5m2": 57344.0, "f8e4m3z": 240.0,
                   "f8e5m2z": 57344.0, "f32": MOST_F32, "c64": MOST_F32, "c32": 65504.0}
#: PyTorch's words for the types of elements, which programs look for in the message
cdef dict _C_WORDS = {"u8": "uint8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int", "i64": "int64_t", "u16": "uint16_t",
                      "u32": "uint32_t", "u64": "uint64_t", "f16": "c10::Half", "bf16": "c10::BFloat16", "f32": "float",
                      "f64": "double", "c64": "c10::complex<float>", "c128": "c10::complex<double>",
                      "c32": "c10::complex<c10::Half>"}


cdef inline bint is_small_float(int dt):
    return KIND[dt] == KIND_FLOAT and ITEMSIZE[dt] < 4


cdef bint number_fits(object x, int dt, int kinds) except -1:
    """Whether a number is one of the dtype's, as far as such dtypes are looked at."""
    cdef double most, f
    if KIND[dt] == KIND_BOOL: return True
    if not PyFloat_CheckExact(x) and not PyLong_CheckExact(x) and (x is True or x is False or getattr(x, "_is_symbolic", False)):
        return True
    if KIND[dt] == KIND_INT:
        return not kinds & FIT_WHOLE or whole_fits(x, dt)
    if is_small_float(dt):
        if not kinds & (FIT_SMALL | FIT_COMPUTED): return True
        most = MOST_F32 if kinds & FIT_COMPUTED else <double>_MOST[(<dtype>DTYPES[dt]).code]
    elif not kinds & FIT_WIDE:
        return True
    else:
        most = _MOST.get((<dtype>DTYPES[dt]).code, float("inf"))
    if isinstance(x, complex):
        if KIND[dt] != KIND_COMPLEX: return x.imag == 0 and number_fits(x.real, dt, kinds)
        return in_range(x.real, most) and in_range(x.imag, most)
    if isinstance(x, int):
        return -most <= x <= most
    return not isinstance(x, float) or in_range(x, most)


cdef inline bint in_range(double f, double most):
    return f != f or f - f != 0 or -most <= f <= most


cdef bint whole_fits(object x, int dt) except -1:
    cdef int bits = ITEMSIZE[dt] * 8
    cdef bint signed = (<dtype>DTYPES[dt]).is_signed
    cdef uint64_t ones = 0xffffffffffffffff
    high = <object>(ones >> (64 - bits + signed))
    if isinstance(x, complex):
        if x.imag != 0: return False
        x = x.real
    if isinstance(x, float):
        return (-high - 1 if signed else 0) <= x <= high
    return not isinstance(x, int) or (-high - 1 if signed else -high) <= x <= high


cdef int check_fit(str op, str argument, object x, int dt, int kinds) except -1:
    """Raise where a number does not fit."""
    if number_fits(x, dt, kinds): return 0
    d = <dtype>DTYPES[F32 if kinds & FIT_COMPUTED and is_small_float(dt) else dt]
    raise said(RuntimeError, "[%s] a number that fits %s was required as '%s': value cannot be converted to type %s without overflow: "
                             "got %s\nhint: convert the tensor to a wider dtype first"
                       % (op, d.name, argument, _C_WORDS.get(d.code, "c10::" + d.type_word), x if not isinstance(x, int) or x.bit_length() < 200 else "one of %d bits" % x.bit_length()))


cdef inline object number_held(Tensor t):
    """The number that was wrapped; it is the same in every run of a call that is noted, so that reading it hinders nothing."""
    return load_element(t.data_, t.dt) if t.dict_ == NULL else t.symbolic_number


cdef int check_numbers(Variant v, list operands, list values, int common) except -1:
    """Raise where a number, as an operand or a parameter, is none of the common dtype."""
    cdef Op op = v.op
    cdef int i
    if op.fits_some:
        for i in range(op.ntensors):
            if op.fit[i] and operands[i] is not None and (<Tensor>operands[i]).keys & K_WRAPPED:
                check_fit(op.name, <object>op.arguments[op.tensor_at[i]].name, number_held(<Tensor>operands[i]), common, op.fit[i])
    for i in range(len(values)):
        if isinstance(values[i], int) and not -0x8000000000000000 <= values[i] <= 0xffffffffffffffff: continue   # `raise_number`
        name = v.runtime[i]
        word = op.definition.fits.get(name, "none" if parameter_is_float(op, name) else "computed")
        check_fit(op.name, name, values[i], common, FIT_WORDS[word])
    return 0


def fits(x, to, str kinds="all"):
    """Whether a number becomes an element of a dtype without overflow."""
    return number_fits(x, as_dtype(to).index, FIT_WORDS[kinds])


def check_number(str op, str argument, x, to, str kinds="all"):
    """Raise where the number that an operator got cannot become an element of a dtype."""
    check_fit(op, argument, x, as_dtype(to).index, FIT_WORDS[kinds])
