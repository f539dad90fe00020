"""Circular and hyperbolic functions and their inverses.

Takes: tensors, angles in radians.
Gives: operators `sin`, `cos`, `tan`, `asin`, `acos`, `atan`, `atan2`, `sinh`, `cosh`, `tanh`,
`asinh`, `acosh`, `atanh`,
`sinc`, `deg2rad`, `rad2deg`.
Keeps true: arguments of any size are reduced exactly; complex functions take principal values.
"""

from __future__ import annotations

import math
from typing import Any

from facula.ops.expr import scalar as s
from facula.ops.pointwise.naming import functions_and_methods
from facula.ops.table.registry import pointwise

PI = math.pi


@pointwise("sin(Tensor self) -> Tensor", result="float", reference="numpy.sin")
def sin(x):
    """Sine."""
    return s.sin(x)


@pointwise("cos(Tensor self) -> Tensor", result="float", reference="numpy.cos")
def cos(x):
    """Cosine."""
    return s.cos(x)


@pointwise(
    "tan(Tensor self) -> Tensor",
    result="float",
    reference="numpy.tan",
    autocast="accelerator float32",
)
def tan(x):
    """Tangent."""
    return s.tan(x)


def _slope_of_asin(z: s.Complex) -> Any:
    """``1 / sqrt(1 - z z)``; of complex numbers in two factors, which keep the side of the cut: the sign
    of a zero imaginary part is lost in a sum with zero."""
    if not z.is_complex:
        return s.rsqrt(1.0 - z * z)
    return s.rsqrt(s.Complex(1.0 - z.re, -z.im)) * s.rsqrt(s.Complex(1.0 + z.re, z.im))


@pointwise(
    "asin(Tensor self) -> Tensor",
    names=functions_and_methods("asin", "arcsin"),
    result="float",
    domain=(-1, 1),
    reference="numpy.arcsin",
    autocast="accelerator float32",
)
def asin(x):
    """Inverse sine, in [-pi/2, pi/2]."""
    return s.asin(x)


@asin.backward
def _(grad, x):
    """By two factors that keep the side of the cut (`_slope_of_asin`)."""
    return grad * _slope_of_asin(s.conj(x))


@pointwise(
    "acos(Tensor self) -> Tensor",
    names=functions_and_methods("acos", "arccos"),
    result="float",
    domain=(-1, 1),
    reference="numpy.arccos",
    autocast="accelerator float32",
)
def acos(x):
    """Inverse cosine, in [0, pi]."""
    return s.acos(x)


@acos.backward
def _(grad, x):
    """By two factors that keep the side of the cut (`_slope_of_asin`)."""
    return -(grad * _slope_of_asin(s.conj(x)))


@pointwise(
    "atan(Tensor self) -> Tensor",
    names=functions_and_methods("atan", "arctan"),
    result="float",
    reference="numpy.arctan",
)
def atan(x):
    """Inverse tangent, in [-pi/2, pi/2]."""
    return s.atan(x)


@pointwise(
    "atan2(Operand self, Operand other) -> Tensor",
    names=functions_and_methods("atan2", "arctan2"),
    strict=("self", "other"),
    result="float",
    dtypes="bool int float",
    reference="numpy.arctan2",
    autocast="accelerator widest",
    in_common_dtype=True,
)
def atan2(y, x):
    """Angle of the point (other, self), in [-pi, pi]."""
    return s.atan2(y, x)


@pointwise(
    "sinh(Tensor self) -> Tensor",
    result="float",
    reference="numpy.sinh",
    autocast="accelerator float32",
)
def sinh(x):
    """Hyperbolic sine."""
    return s.sinh(x)


@pointwise(
    "cosh(Tensor self) -> Tensor",
    result="float",
    reference="numpy.cosh",
    autocast="accelerator float32",
)
def cosh(x):
    """Hyperbolic cosine."""
    return s.cosh(x)


@pointwise(
    "tanh(Tensor self) -> Tensor",
    names=(*functions_and_methods("tanh"), "nn.functional.tanh"),
    result="float",
    reference="numpy.tanh",
    quantized="signed unit",
    steps=None,
)
def tanh(x):
    """Hyperbolic tangent."""
    return s.tanh(x)


@pointwise(
    "asinh(Tensor self) -> Tensor",
    names=functions_and_methods("asinh", "arcsinh"),
    result="float",
    reference="numpy.arcsinh",
)
def asinh(x):
    """Inverse hyperbolic sine."""
    return s.asinh(x)


@asinh.backward
def _(grad, x):
    """By two factors that keep the side of the cut (`_slope_of_asin`)."""
    z = s.conj(x)
    if not x.is_complex:
        return grad * s.rsqrt(z * z + 1.0)
    return grad * _slope_of_asin(s.Complex(-z.im, z.re))


@pointwise(
    "acosh(Tensor self) -> Tensor",
    names=functions_and_methods("acosh", "arccosh"),
    result="float",
    domain=(1, None),
    reference="numpy.arccosh",
)
def acosh(x):
    """Inverse hyperbolic cosine, not negative; NaN below 1."""
    return s.acosh(x)


@acosh.backward
def _(grad, x):
    """By two factors that keep the side of the cut, as in `_slope_of_asin`."""
    z = s.conj(x)
    if not x.is_complex:
        return grad * s.rsqrt(z * z - 1.0)
    minus, plus = s.Complex(z.re - 1.0, z.im), s.Complex(z.re + 1.0, z.im)  # as in _slope_of_asin
    return grad * (s.rsqrt(minus) * s.rsqrt(plus))


@pointwise(
    "atanh(Tensor self) -> Tensor",
    names=functions_and_methods("atanh", "arctanh"),
    result="float",
    domain=(-1, 1),
    reference="numpy.arctanh",
)
def atanh(x):
    """Inverse hyperbolic tangent."""
    return s.atanh(x)


@pointwise(
    "sinc(Tensor self) -> Tensor",
    names=functions_and_methods("sinc", special=("sinc",)),
    result="float",
    reference="numpy.sinc",
)
def sinc(x):
    """``sin(pi self) / (pi self)``, 1 at 0."""
    return s.where(x == 0, 1.0, s.sin(PI * x) / (PI * x))


@sinc.backward
def _(grad, x):
    """A series near zero, where the two terms of the derivative cancel."""
    z = s.conj(x)
    turn = PI * z
    small = s.abs(turn) < 0.1
    apart = s.where(small, 1.0, z)  # nothing is divided by zero, in derivatives of this neither
    slope = (PI * apart * s.cos(PI * apart) - s.sin(PI * apart)) / (PI * apart * apart)
    square = turn * turn  # the series where the difference would cancel
    near = turn * (-PI / 3 + square * (PI / 30 - square * (PI / 840 - square * (PI / 45360))))
    return grad * s.where(small, near, slope)


@pointwise(
    "deg2rad(Tensor self) -> Tensor",
    result="float",
    dtypes="bool int float",
    reference="numpy.deg2rad",
)
def deg2rad(x):
    """Degrees to radians."""
    return x * (PI / 180)


@pointwise(
    "rad2deg(Tensor self) -> Tensor",
    result="float",
    dtypes="bool int float",
    reference="numpy.rad2deg",
)
def rad2deg(x):
    """Radians to degrees."""
    return x * (180 / PI)
