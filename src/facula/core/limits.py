"""The numeric limits of dtypes: `finfo` and `iinfo`.

Takes a dtype; gives the attributes that PyTorch documents, computed from the numbers of bits of exponent and mantissa.
Keeps true: values are Python floats and ints, exact.
"""

from __future__ import annotations

from typing import Any

from facula.core import _core
from facula.core.errors import fail

#: dtype name -> bits of the exponent, bits of the mantissa, whether the largest exponent means infinity
_FLOATS = {
    "float16": (5, 10, True),
    "bfloat16": (8, 7, True),
    "float32": (8, 23, True),
    "float64": (11, 52, True),
    "float8_e5m2": (5, 2, True),
    "float8_e4m3fn": (4, 3, False),
}
#: those of one zero: all exponents are numbers, and the bias is one more
_ONE_ZERO = {"float8_e4m3fnuz": (4, 3), "float8_e5m2fnuz": (5, 2)}


class finfo:
    """Limits of a floating-point dtype, or of a complex one's parts: ``bits eps max min tiny
    smallest_normal resolution``.

    Args:
        type: the dtype; None for the default one

    Example:
        >>> facula.finfo(facula.float32).eps
        1.1920928955078125e-07
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: Any = None) -> None:
        dtype = _core.get_default_dtype() if type is None else type
        if not isinstance(dtype, _core.dtype) or not (dtype.is_floating_point or dtype.is_complex):
            fail(
                TypeError,
                "finfo",
                "a floating-point or complex dtype was required",
                got=dtype,
                hint="use iinfo for integers",
            )
        dtype = dtype.to_real() if dtype.is_complex else dtype
        self.dtype = dtype.name
        self.bits = dtype.itemsize * 8
        if dtype.name in _ONE_ZERO:
            exponent, mantissa = _ONE_ZERO[dtype.name]
            bias = 2 ** (exponent - 1)
            self.eps = 2.0**-mantissa
            self.max = (2.0 - self.eps) * 2.0 ** (bias - 1)
        else:
            exponent, mantissa, infinite = _FLOATS[dtype.name]
            bias = 2 ** (exponent - 1) - 1
            self.eps = 2.0**-mantissa
            top = 2.0 - self.eps if infinite else 2.0 - 2 * self.eps
            self.max = top * 2.0 ** (bias if infinite else bias + 1)
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** (1 - bias)
        digits = int(mantissa * 0.30103)
        self.resolution = 10.0**-digits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((finfo, self.dtype))

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype: ``bits max min``.

    Args:
        type: the dtype

    Example:
        >>> facula.iinfo(facula.int8).max
        127
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: Any) -> None:
        if (
            not isinstance(type, _core.dtype)
            or type.is_floating_point
            or type.is_complex
            or type.name == "bool"
        ):
            fail(
                TypeError,
                "iinfo",
                "an integer dtype was required",
                got=type,
                hint="use finfo for floats",
            )
        self.dtype = type.name
        self.bits = type.itemsize * 8
        self.min = -(2 ** (self.bits - 1)) if type.has_sign else 0
        self.max = 2 ** (self.bits - 1) - 1 if type.has_sign else 2**self.bits - 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((iinfo, self.dtype))

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
