"""Exponentials, logarithms, and their stable combinations.

Takes: tensors.
Gives: operators `exp`, `exp2`, `expm1`, `log`, `log2`, `log10`, `log1p`, `logaddexp`, `logaddexp2`, `xlogy`, `xlog1py`,
`sigmoid`, `logit`, `ldexp`, `frexp`.
Keeps true: integers compute in the default dtype; limits at 0 and infinity are the functions'.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from facula import core
from facula.ops.expr import scalar as s
from facula.ops.pointwise.naming import RUNTIME, functions_and_methods
from facula.ops.table.pointwise_rules import one_node
from facula.ops.table.registry import F, composite, pointwise

LN2, LN10 = math.log(2), math.log(10)


@pointwise(
    "exp(Tensor self) -> Tensor",
    result="float",
    reference="numpy.exp",
    autocast="accelerator float32",
)
def exp(x):
    """``e ** self``."""
    return s.exp(x)


@pointwise(
    "exp2(Tensor self) -> Tensor",
    names=functions_and_methods("exp2", special=("exp2",)),
    result="float",
    reference="numpy.exp2",
)
def exp2(x):
    """``2 ** self``."""
    return s.exp2(x)


@pointwise(
    "expm1(Tensor self) -> Tensor",
    names=functions_and_methods("expm1", special=("expm1",)),
    result="float",
    reference="numpy.expm1",
    autocast="accelerator float32",
)
def expm1(x):
    """``e ** self - 1``, exact near zero."""
    return s.expm1(x)


@pointwise(
    "log(Tensor self) -> Tensor",
    result="float",
    domain=(0, None),
    reference="numpy.log",
    autocast="accelerator float32",
)
def log(x):
    """Natural logarithm."""
    return s.log(x)


@pointwise(
    "log2(Tensor self) -> Tensor",
    result="float",
    domain=(0, None),
    reference="numpy.log2",
    autocast="accelerator float32",
)
def log2(x):
    """Logarithm to base 2."""
    return s.log2(x)


@pointwise(
    "log10(Tensor self) -> Tensor",
    result="float",
    domain=(0, None),
    reference="numpy.log10",
    autocast="accelerator float32",
)
def log10(x):
    """Logarithm to base 10."""
    return s.log10(x)


@pointwise(
    "log1p(Tensor self) -> Tensor",
    names=functions_and_methods("log1p", special=("log1p",)),
    result="float",
    domain=(-1, None),
    reference="numpy.log1p",
    autocast="accelerator float32",
)
def log1p(x):
    """``log(1 + self)``, exact near zero."""
    return s.log1p(x)


def _log_add(
    x: s.Scalar, y: s.Scalar, grow: Callable[..., Any], shrink: Callable[..., Any]
) -> s.Scalar:
    top = s.maximum(x, y)
    same = s.logical_and(x == y, s.isinf(x))
    return s.where(same, x, top + grow(shrink(-s.abs(x - y))))


def _gap(x: s.Scalar, y: s.Scalar) -> s.Scalar:
    """``y - x``, 0 of equal infinities: only there a constant, since shares are differentiated again."""
    return s.where(s.logical_and(x == y, s.isinf(x)), 0.0, y - x)


@pointwise(
    "logaddexp(Tensor self, Tensor other) -> Tensor",
    dtypes="float complex",
    reference="numpy.logaddexp",
)
def logaddexp(x, y):
    """``log(exp(self) + exp(other))`` without overflow."""
    if x.is_complex:
        # lazily: for complex numbers only
        from facula.ops.expr.complex_sums import log_add

        return log_add(x, y)
    return _log_add(x, y, s.log1p, s.exp)


@logaddexp.backward
def _(grad, x, y):
    """One logistic function each; a half each where both are infinite."""
    if x.is_complex:
        return grad / (1.0 + s.exp(s.conj(y - x))), grad / (1.0 + s.exp(s.conj(x - y)))
    gap = _gap(x, y)
    return grad / (1.0 + s.exp(gap)), grad / (1.0 + s.exp(-gap))


@pointwise(
    "logaddexp2(Tensor self, Tensor other) -> Tensor", dtypes="float", reference="numpy.logaddexp2"
)
def logaddexp2(x, y):
    """``log2(2 ** self + 2 ** other)`` without overflow."""
    return _log_add(x, y, lambda v: s.log1p(v) * (1 / LN2), s.exp2)


@logaddexp2.backward
def _(grad, x, y):
    """One logistic function each; a half each where both are infinite."""
    gap = _gap(x, y)
    return grad / (1.0 + s.exp2(gap)), grad / (1.0 + s.exp2(-gap))


@pointwise(
    "xlogy(Operand self, Operand other) -> Tensor",
    names=functions_and_methods("xlogy", special=("xlogy",)),
    result="float",
    dtypes="bool int float",
    domain=(0, None),
    reference="scipy.special.xlogy",
    in_common_dtype=True,
)
def xlogy(x, y):
    """``self * log(other)``, 0 where `self` is 0 (NaN where `other` is)."""
    return s.where(s.isnan(y), math.nan, s.where(x == 0, 0.0, x * s.log(y)))


@xlogy.backward
def _(grad, x, y):
    """PyTorch's values where `x` is zero and the logarithm is not finite."""
    nothing = s.logical_or(s.logical_and(x == 0, y <= 0), grad == 0)
    return s.where(nothing, 0.0, grad * s.log(y)), grad * x / y


@pointwise(
    "special_xlog1py(Operand self, Operand other) -> Tensor",
    names=("special.xlog1py",),
    result="float",
    dtypes="bool int float",
    domain=(0, None),
    inplace=False,
    reference="scipy.special.xlog1py",
    in_common_dtype=True,
)
def special_xlog1py(x, y):
    """``self * log1p(other)``, 0 where `self` is 0 (NaN where `other` is)."""
    return s.where(s.isnan(y), math.nan, s.where(x == 0, 0.0, x * s.log1p(y)))


@special_xlog1py.backward
def _(grad, x, y):
    """PyTorch's values where `x` is zero and the logarithm is not finite."""
    nothing = s.logical_or(s.logical_and(x == 0, y <= -1), grad == 0)
    return s.where(nothing, 0.0, grad * s.log1p(y)), grad * x / (y + 1.0)


@pointwise(
    "sigmoid(Tensor self) -> Tensor",
    names=functions_and_methods("sigmoid", special=("expit",)) + ("nn.functional.sigmoid",),
    result="float",
    reference="scipy.special.expit",
    quantized="unit",
    steps=None,
)
def sigmoid(x):
    """Logistic function ``1 / (1 + exp(-self))``."""
    return s.sigmoid(x)


@sigmoid.backward
def _(grad, result):
    """From the result, so that the input need not be kept, and no exponential is taken again."""
    r = s.conj(result)
    return grad * ((1.0 - r) * r)


@pointwise(
    "logit(Tensor self, float? eps=None) -> Tensor",
    names=functions_and_methods("logit", special=("logit",)),
    result="float",
    dtypes="bool int float",
    domain=(0, 1),
    prebuilt=({"eps": RUNTIME},),
    reference="scipy.special.logit",
)
def logit(x, *, eps):
    """``log(self / (1 - self))``, `self` clamped to ``[eps, 1 - eps]`` first where `eps` is given."""
    if eps is not None:
        low = s.cast(eps, x.dtype)
        x = s.where(x < low, low, s.where(x > 1.0 - low, 1.0 - low, x))
    return s.log(x / (1.0 - x))


@logit.backward
def _(grad, x, *, eps):
    """PyTorch's values outside of the domain: NaN, and nothing where `eps` clamps."""
    slope = grad / (x * (1.0 - x))
    if eps is None:
        return s.where((x < 0) | (x > 1), math.nan, slope)
    low = s.cast(eps, x.dtype)
    return s.where((x >= low) & (x <= 1.0 - low), slope, 0.0)


@composite(
    "ldexp(Tensor self, Tensor other) -> Tensor",
    inplace=True,
    node="LdexpBackward0",
    overload="Tensor",
    out_cast=True,
)
def ldexp(self, other):
    """``self * 2 ** other``, rounded once; whole exponents keep the dtype of `self`."""
    whole = not (other.is_floating_point() or other.is_complex() or other.dtype is core.bool_)
    if one_node(self, other):
        return F._ldexp(self, other)
    if not (whole and self.is_floating_point()):
        return F.mul(self, F.exp2(other))
    double = self.dtype is core.float64
    limit = 2200 if double else 1000  # beyond it all numbers go to zero or infinity
    other = F.clamp(other, -limit, limit) if other.dtype.itemsize > 1 else other
    result = self.to(core.float64)
    # a power of its own would leave the range where the product does not
    for part in _thirds(other) if double else (other,):
        result = F.mul(result, F.exp2(part.to(core.float64)))
    return result.to(self.dtype)


def _thirds(x: core.Tensor) -> tuple[Any, ...]:
    third = F.div(x, 3, rounding_mode="floor")
    return third, third, F.sub(x, F.mul(third, 2))


@pointwise(
    "_frexp_exponent(Tensor self) -> Tensor",
    names=(),
    dtypes="float",
    differentiable=False,
    inplace=False,
    out=False,
)
def _frexp_exponent(x):
    """The exponent that puts the mantissa into [0.5, 1), as a float; 0 for 0, infinity and NaN."""
    size = s.abs(x)
    lifted = s.where(size < 1e-30, size * 2.0**100, size)
    guess = s.floor(s.log2(lifted)) + 1.0
    half = s.floor(guess * 0.5)
    mantissa = lifted * s.exp2(-half) * s.exp2(half - guess)
    fixed = guess + s.where(mantissa >= 1.0, 1.0, s.where(mantissa < 0.5, -1.0, 0.0))
    ordinary = s.logical_and(s.isfinite(x), x != 0)
    return s.where(ordinary, s.where(size < 1e-30, fixed - 100.0, fixed), 0.0)


@composite("frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)", overload="Tensor")
def frexp(self):
    """Mantissa in ``[0.5, 1)`` (with the sign) and integer exponent, ``self == mantissa * 2 ** exponent``."""
    if not self.is_floating_point():
        core.errors.fail(RuntimeError, "frexp", "a floating-point tensor", got=self.dtype)
    exponent = F._frexp_exponent(self.detach())
    half = F.floor(exponent * 0.5)
    mantissa = self * F.exp2(-half) * F.exp2(half - exponent)
    return mantissa, exponent.to(core.int32)
