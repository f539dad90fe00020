"""How the primitives of scalar expressions are written in Triton.

Takes: a primitive's name and the dtype it computes in. Gives: `form`, a text with `{0}`, `{1}` in the places of
its arguments; `HELPERS`, the functions that such texts call, as source.
Keeps true: results are those of IEEE where the processor's kernels have them too (quotients and roots are rounded
correctly, NaN wins in extremes); a primitive without a form is `Unprintable`, never something near it.

Functions come from libdevice, the library of the CUDA compiler, which Triton brings.
"""

from __future__ import annotations

__all__ = ["HELPERS", "TYPES", "Unprintable", "form"]


class Unprintable(NotImplementedError):
    """An expression that Triton has no words for."""


#: dtypes of registers, and of elements in memory
TYPES = {
    "f32": "tl.float32", "f64": "tl.float64", "i32": "tl.int32", "i64": "tl.int64", "b8": "tl.int1",
    "bf16": "tl.bfloat16", "f16": "tl.float16", "i16": "tl.int16", "i8": "tl.int8", "u8": "tl.uint8",
    "u16": "tl.uint16", "u32": "tl.uint32", "u64": "tl.uint64",
}  # fmt: skip

#: for every dtype
_COMMON = {
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "neg": "(-{0})",
    "abs": "tl.abs({0})", "sign": "(({0} > 0).to({t}) - ({0} < 0).to({t}))",
    "lt": "({0} < {1})", "le": "({0} <= {1})", "gt": "({0} > {1})", "ge": "({0} >= {1})",
    "eq": "({0} == {1})", "ne": "({0} != {1})",
    "bitwise_and": "({0} & {1})", "bitwise_or": "({0} | {1})", "bitwise_xor": "({0} ^ {1})",
}  # fmt: skip
_BOOL = {
    "logical_and": "({0} & {1})", "logical_or": "({0} | {1})", "logical_xor": "({0} ^ {1})",
    "logical_not": "({0} == 0)", "bitwise_not": "({0} == 0)",
    "maximum": "({0} | {1})", "minimum": "({0} & {1})",
}  # fmt: skip
_INTEGER = {
    "signbit": "({0} < 0)", "bitwise_not": "(~{0})",
    "maximum": "tl.where({0} > {1}, {0}, {1})", "minimum": "tl.where({0} < {1}, {0}, {1})",
    "fmax": "tl.where({0} > {1}, {0}, {1})", "fmin": "tl.where({0} < {1}, {0}, {1})",
    "integer_divide": "({0} // {1})", "fmod": "({0} % {1})",
    "remainder": "floored_remainder({0}, {1})", "floor_divide": "floored_divide({0}, {1})",
    "pow": "integer_power({0}, {1})",
}  # fmt: skip
_FLOAT = {
    "neg": "({0} * -1.0)",  # Triton's own minus is 0 - x, which has no negative zero
    "isnan": "({0} != {0})", "isinf": '(tl.abs({0}) == float("inf"))',
    "isfinite": '(tl.abs({0}) < float("inf"))',
    "maximum": "tl.where(({0} > {1}) | ({0} != {0}), {0}, {1})",
    "minimum": "tl.where(({0} < {1}) | ({0} != {0}), {0}, {1})",
    "fmax": "tl.where(({0} >= {1}) | ({1} != {1}), {0}, {1})",
    "fmin": "tl.where(({0} <= {1}) | ({1} != {1}), {0}, {1})",
    "round": "libdevice.rint({0})", "remainder": "float_remainder({0}, {1})",
    "floor_divide": "float_floor_divide({0}, {1})", "ndtri": "libdevice.normcdfinv({0})",
    "i0": "libdevice.cyl_bessel_i0({0})", "i1": "libdevice.cyl_bessel_i1({0})",
    "bessel_j0": "libdevice.j0({0})", "bessel_j1": "libdevice.j1({0})",
    "bessel_y0": "libdevice.y0({0})", "bessel_y1": "libdevice.y1({0})",
}  # fmt: skip
_SINGLE = {
    "div": "tl.div_rn({0}, {1})", "reciprocal": "tl.div_rn({one}, {0})", "sqrt": "tl.sqrt_rn({0})",
    "signbit": "({0}.to(tl.int32, bitcast=True) < 0)",
}  # fmt: skip
_DOUBLE = {
    "div": "({0} / {1})", "reciprocal": "({one} / {0})", "sqrt": "libdevice.sqrt({0})",
    "signbit": "({0}.to(tl.int64, bitcast=True) < 0)",
}  # fmt: skip
_SHIFTS = {
    "bitwise_left_shift": "shifted_left({0}, {1}, {bits})",
    "bitwise_right_shift": "shifted_right({0}, {1}, {bits})",
}
#: functions that libdevice has under the same name
_SAME = frozenset(
    "floor ceil trunc fmod copysign nextafter rsqrt pow exp exp2 expm1 log log2 log10 log1p hypot sin cos tan asin "
    "acos atan sinh cosh tanh asinh acosh atanh atan2 erf erfc erfcx erfinv lgamma".split()
)
_BITS = {"i32": 32, "i64": 64}

HELPERS = {
    "floored_remainder": """\
@triton.jit
def floored_remainder(a, b):
    r = a % b
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
""",
    "floored_divide": """\
@triton.jit
def floored_divide(a, b):
    q = a // b
    r = a - q * b
    return tl.where((r != 0) & ((r < 0) != (b < 0)), q - 1, q)
""",
    "float_remainder": """\
@triton.jit
def float_remainder(a, b):
    r = libdevice.fmod(a, b)
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
""",
    "float_floor_divide": """\
@triton.jit
def float_floor_divide(a, b):
    r = libdevice.fmod(a, b)
    q = (a - r) / b
    q = tl.where((r != 0) & ((r < 0) != (b < 0)), q - 1, q)
    whole = libdevice.floor(q)
    whole = tl.where(q - whole > 0.5, whole + 1, whole)
    whole = tl.where(q == 0, libdevice.copysign(q, a / b), whole)
    return tl.where(b == 0, a / b, whole)
""",
    "integer_power": """\
@triton.jit
def integer_power(a, b):
    found = a * 0 + 1
    base = a + b * 0
    left = b + a * 0
    odd = (left & 1) != 0
    for _ in range(64):
        found = tl.where((left & 1) != 0, found * base, found)
        base = base * base
        left = tl.where(left > 0, left >> 1, 0)
    inverse = tl.where(a == 1, 1, tl.where(a == -1, tl.where(odd, -1, 1), 0))
    return tl.where(b < 0, inverse.to(found.dtype), found)
""",
    "shifted_left": """\
@triton.jit
def shifted_left(a, b, BITS: tl.constexpr):
    fits = (b >= 0) & (b < BITS)
    return tl.where(fits, a << tl.where(fits, b, 0), 0)
""",
    "shifted_right": """\
@triton.jit
def shifted_right(a, b, BITS: tl.constexpr):
    fits = (b >= 0) & (b < BITS)
    return a >> tl.where(fits, b, BITS - 1)
""",
}


def form(name: str, dtype: str) -> str:
    """How a primitive over a dtype is written.

    Args:
        name: of a primitive
        dtype: of its first argument

    Raises:
        Unprintable: Triton and libdevice do not have it.
    """
    if dtype == "b8" and name in _BOOL:
        return _BOOL[name]
    if dtype in _BITS:
        found = _INTEGER.get(name) or _COMMON.get(name) or _SHIFTS.get(name)
        if found is not None:
            return found.replace("{bits}", str(_BITS[dtype]))
    elif dtype in ("f32", "f64"):
        own = _SINGLE if dtype == "f32" else _DOUBLE
        found = own.get(name) or _FLOAT.get(name) or _COMMON.get(name)
        if found is None and name in _SAME:
            places = "{0}, {1}" if name in _OF_TWO else "{0}"
            found = f"libdevice.{name}({places})"
        if found is not None:
            return found
    elif name in _COMMON:
        return _COMMON[name]
    raise Unprintable(f"[triton] the function {name} of {dtype}")


_OF_TWO = frozenset(["fmod", "copysign", "nextafter", "pow", "hypot", "atan2"])
