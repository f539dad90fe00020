"""Choosing one of several values: extremes, bounds, conditions.

Takes: tensors and numbers.
Gives: operators `maximum`, `minimum`, `fmax`, `fmin`, `clamp`, `clamp_min`, `clamp_max`, `where`,
`nan_to_num`, `heaviside`, `_smooth_l1_loss`, `_huber_loss`.
Keeps true: NaN passes through `maximum`, `minimum` and `clamp`, and loses against a number in
`fmax` and `fmin`; the value
not chosen has gradient zero, whatever it is.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.expr import scalar as s
from facula.ops.pointwise.naming import RUNTIME, functions_and_methods
from facula.ops.table.registry import F, composite, pointwise


@pointwise(
    "maximum(Operand self, Operand other) -> Tensor",
    dtypes="bool int float",
    strict=("self", "other"),
    reference="numpy.maximum",
    quantized="moves",
)
def maximum(x, y):
    """The larger value; NaN where one is NaN. At a tie each gets half of the gradient."""
    return s.maximum(x, y)


@pointwise(
    "minimum(Operand self, Operand other) -> Tensor",
    dtypes="bool int float",
    strict=("self", "other"),
    reference="numpy.minimum",
    quantized="moves",
)
def minimum(x, y):
    """The smaller value; NaN where one is NaN. At a tie each gets half of the gradient."""
    return s.minimum(x, y)


@pointwise(
    "fmax(Operand self, Operand other) -> Tensor",
    dtypes="bool int float",
    strict=("self", "other"),
    reference="numpy.fmax",
)
def fmax(x, y):
    """The larger value; the number where the other one is NaN."""
    return x | y if x.is_bool else s.fmax(x, y)


@pointwise(
    "fmin(Operand self, Operand other) -> Tensor",
    dtypes="bool int float",
    strict=("self", "other"),
    reference="numpy.fmin",
)
def fmin(x, y):
    """The smaller value; the number where the other one is NaN."""
    return x & y if x.is_bool else s.fmin(x, y)


@pointwise(
    "clamp(Tensor self, Operand? min=None, Operand? max=None) -> Tensor",
    names=functions_and_methods("clamp", "clip"),
    dtypes="int float",
    prebuilt=({"min": True}, {"max": True}, {"min": True, "max": True}),
    fits={"min": "all", "max": "all"},
    quantized="same range",
    quantizers={"fx": "shared", "xnnpack": "shared"},
    node=lambda call: "ClampBackward1" if {"min", "max"} <= call.aside else "ClampBackward0",
    overload="min:Tensor=Tensor, max:Tensor=Tensor, default",
)
def clamp(x, low, high):
    """``min(max(self, min), max)``; a bound that is not given does not bind."""
    if low is None and high is None:
        fail(
            RuntimeError,
            "clamp",
            "at least one of 'min' and 'max' was required",
            "none (torch.clamp: At least one of 'min' or 'max' must not be None)",
            hint="clamp(x, min=0) has no negative elements",
        )
    return s.clamp(x, low, high)


@clamp.backward
def _(grad, x, low, high):
    """All of it at a bound, as in PyTorch; a bound gets what the value loses."""
    if low is None:
        return s.where(x <= high, grad, 0.0), None, s.where(x > high, grad, 0.0)
    if high is None:
        return s.where(x >= low, grad, 0.0), s.where(x < low, grad, 0.0), None
    inside = s.logical_and(x >= low, x <= high)
    below = s.logical_and(low < high, x < low)
    above = s.logical_or(x > high, high < low)
    return (
        s.where(inside, grad, 0.0),
        s.where(below, grad, 0.0),
        s.where(above, grad, 0.0),
    )


@composite(
    "clamp_min(Tensor self, Operand min) -> Tensor",
    quantized="same range",
    overload="min:Tensor=Tensor, default",
)
def clamp_min(self, min):
    """``max(self, min)``."""
    if core.result_type(self, min) is core.bool_:
        return F.logical_or(self, min if isinstance(min, core.Tensor) else F.full_like(self, min))
    return F.clamp(self, min, None)


@composite(
    "clamp_max(Tensor self, Operand max) -> Tensor",
    quantized="same range",
    overload="max:Tensor=Tensor, default",
)
def clamp_max(self, max):
    """``min(self, max)``."""
    if core.result_type(self, max) is core.bool_:
        return F.logical_and(self, max if isinstance(max, core.Tensor) else F.full_like(self, max))
    return F.clamp(self, None, max)


@composite("clamp_min_(Tensor self, Operand min) -> Tensor", out=False)
def clamp_min_(self, min):
    """In-place form of `clamp_min`."""
    if core.result_type(self, min) is core.bool_:
        return self.copy_(F.clamp_min(self, min))
    return F.clamp.inplace(self, min, None)


@composite("clamp_max_(Tensor self, Operand max) -> Tensor", out=False)
def clamp_max_(self, max):
    """In-place form of `clamp_max`."""
    if core.result_type(self, max) is core.bool_:
        return self.copy_(F.clamp_max(self, max))
    return F.clamp.inplace(self, None, max)


@pointwise(
    "where(Tensor condition, Operand self, Operand other) -> Tensor",
    overload="self:number+other:number=Scalar, self:number=ScalarSelf, other:number=ScalarOther, self",
    fits={"self": "wide", "other": "wide"},
    names=(),
    compute={"condition": "b8"},
    inplace=False,
    reference="numpy.where",
    quantized="moves",
)
def where(condition, x, y):
    """`self` where the condition holds, `other` elsewhere."""
    return s.where(condition, x, y)


@composite(
    "_where(Tensor condition, Operand? self=None, Operand? other=None) -> Tensor", names=("where",)
)
def _where(condition, self, other):
    """`self` where the condition holds, `other` elsewhere; with a condition alone, the indices where it holds."""
    if self is None and other is None:
        return F.nonzero(condition, as_tuple=True)
    if self is None or other is None:
        core.errors.fail(TypeError, "where", "both values, or none", got="one of them")
    return F.where(condition, self, other)


@composite(
    "_tensor_where(Tensor self, Tensor condition, Operand other) -> Tensor",
    names=("Tensor.where",),
    out=False,
)
def _tensor_where(self, condition, other):
    """`self` where the condition holds, `other` elsewhere."""
    return F.where(condition, self, other)


@pointwise(
    "_nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    names=(),
    dtypes="bool int float",
    prebuilt=(
        {"posinf": RUNTIME, "neginf": RUNTIME},
        {"nan": RUNTIME, "posinf": RUNTIME, "neginf": RUNTIME},
    ),
)
def _nan_to_num(x, *, nan, posinf, neginf):
    """NaN, infinity and minus infinity replaced by numbers (0 and the extremes of the compute dtype by default)."""
    if not x.is_float:
        return x
    largest = 3.4028234663852886e38 if x.dtype == "f32" else 1.7976931348623157e308
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf
    x = s.where(s.isnan(x), 0.0 if nan is None else nan, x)
    return s.where(x == math.inf, high, s.where(x == -math.inf, low, x))


@_nan_to_num.backward
def _(grad, x, *, nan, posinf, neginf):
    """All of it for finite numbers, and nothing for those that are replaced."""
    return s.where(s.isfinite(x), grad, 0.0)


def _extremes(self: core.Tensor, posinf: float | None, neginf: float | None) -> tuple[Any, Any]:
    """The dtype's own extremes where it computes in a wider one."""
    if self.dtype in (core.float16, core.bfloat16):
        limits = core.finfo(self.dtype)
        posinf = limits.max if posinf is None else posinf
        neginf = limits.min if neginf is None else neginf
    return posinf, neginf


@composite(
    "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    elementwise=True,
)
def nan_to_num(self, nan, posinf, neginf):
    """NaN, infinity and minus infinity replaced by numbers (0 and the extremes of the dtype by default)."""
    if self.is_complex():  # each part by itself
        return F.view_as_complex(F.nan_to_num(F.view_as_real(self), nan, posinf, neginf))
    posinf, neginf = _extremes(self, posinf, neginf)
    return F._nan_to_num(self, nan, posinf, neginf)


@composite(
    "nan_to_num_(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    out=False,
)
def nan_to_num_(self, nan, posinf, neginf):
    """In-place form of `nan_to_num`."""
    posinf, neginf = _extremes(self, posinf, neginf)
    return F._nan_to_num.inplace(self, nan, posinf, neginf)


@pointwise(
    "heaviside(Tensor self, Tensor values) -> Tensor",
    out_exact=True,
    dtypes="bool int float",
    differentiable=False,
    reference="numpy.heaviside",
)
def heaviside(x, values):
    """Step function: 0 below zero, 1 above, `values` at zero."""
    if x.is_bool:
        return x | values
    return s.where(x == 0, values, s.where(x > 0, s.constant(1, x.dtype), s.constant(0, x.dtype)))


# losses of regression, a square near zero and a line beyond: one pass, rounded once; their sums and means stand in
# `loss_composites`. The second derivative at a difference of zero is that of the square.
@pointwise(
    "_smooth_l1_loss(Tensor self, Tensor target, float beta=1.0) -> Tensor",
    names=(),
    dtypes="float",
    prebuilt=({"beta": RUNTIME},),
    inplace=False,
    out=False,
)
def _smooth_l1_loss(x, y, *, beta):
    """``d ** 2 / (2 beta)`` where ``|d| < beta``, else ``|d| - beta / 2``, of ``d = self - target``."""
    difference = x - y
    size = s.abs(difference)
    return s.where(size < beta, 0.5 * difference * difference / beta, size - 0.5 * beta)


@_smooth_l1_loss.backward
def _(grad, x, y, *, beta):
    """By one comparison for each side, so that NaN passes through."""
    difference = x - y
    outside = s.where(difference >= beta, 1.0, difference / beta)
    slope = grad * s.where(difference <= -beta, -1.0, outside)
    return slope, -slope


@pointwise(
    "_huber_loss(Tensor self, Tensor target, float delta=1.0) -> Tensor",
    names=(),
    dtypes="float",
    prebuilt=({"delta": RUNTIME},),
    inplace=False,
    out=False,
)
def _huber_loss(x, y, *, delta):
    """``d ** 2 / 2`` where ``|d| < delta``, else ``delta (|d| - delta / 2)``, of ``d = self - target``."""
    difference = x - y
    size = s.abs(difference)
    return s.where(size < delta, 0.5 * difference * difference, delta * (size - 0.5 * delta))


@_huber_loss.backward
def _(grad, x, y, *, delta):
    """By one comparison for each side, so that NaN passes through."""
    difference = x - y
    outside = s.where(difference >= delta, delta, difference)
    slope = grad * s.where(difference <= -delta, -delta, outside)
    return slope, -slope
