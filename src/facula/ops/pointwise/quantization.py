"""What quantization does to numbers, in numbers: the elementwise part of fake quantization.

Takes: numbers, scales and zero points (floats of integer value). Gives: `_fake_quantize`, whose
gradient passes where nothing was cut off, and `_fake_quantize_learnable`, which also has gradients of
scale and zero point. Keeps true: who fake-quantizes imports it (`facula.quantization.fake`), nobody else pays for it;
rounding is to the nearest, ties to even; NaN becomes the lowest value.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.ops.expr import scalar as s
from facula.ops.table.registry import pointwise


def _level(x: core.Tensor, scale: Any, zero_point: Any, whole: Any = None) -> Any:
    """The integer that stands for `x`, as if there were no range.

    Zero points that are floats (`whole` is 0.0) are added before the rounding, as PyTorch adds them."""
    steps = x * (1.0 / scale)
    apart = zero_point + s.round(steps)
    if whole is None:
        return apart
    return s.where(s.cast(whole, steps.dtype) == 0.0, s.round(steps + zero_point), apart)


def _limited(level: Any, low: Any, high: Any) -> Any:
    low, high = s.cast(low, level.dtype), s.cast(high, level.dtype)
    return s.where(level > low, s.where(level < high, level, high), low)


@pointwise(
    "_fake_quantize(Tensor self, Tensor scale, Tensor zero_point, float quant_min, float quant_max, "
    "float whole) -> Tensor",
    names=(),
    dtypes="float",
    inplace=False,
    out=False,
    convention="rounding passes the gradient on, as the identity does",
)
def _fake_quantize(x, scale, zero_point, *, quant_min, quant_max, whole):
    """The number that the nearest of the integers from `quant_min` to `quant_max` stands for."""
    level = _limited(_level(x, scale, zero_point, whole), quant_min, quant_max)
    return (level - zero_point) * scale


@_fake_quantize.backward
def _(grad, x, scale, zero_point, *, quant_min, quant_max, whole):
    """That of the identity inside of the range, nothing outside."""
    level = _level(x, scale, zero_point, whole)
    low, high = s.cast(quant_min, level.dtype), s.cast(quant_max, level.dtype)
    return s.where((level >= low) & (level <= high), grad, 0.0), None, None


@pointwise(
    "_fake_quantize_learnable(Tensor self, Tensor scale, Tensor zero_point, float quant_min, "
    "float quant_max, float grad_factor) -> Tensor",
    names=(),
    dtypes="float",
    inplace=False,
    out=False,
    convention="rounding passes the gradient on, as the identity does",
)
def _fake_quantize_learnable(x, scale, zero_point, *, quant_min, quant_max, grad_factor):
    """`_fake_quantize` with a zero point that is rounded and limited to the range."""
    zero = _limited(s.round(zero_point), quant_min, quant_max)
    return (_limited(_level(x, scale, zero), quant_min, quant_max) - zero) * scale


@_fake_quantize_learnable.backward
def _(grad, x, scale, zero_point, *, quant_min, quant_max, grad_factor):
    """Of scale and zero point too, times `grad_factor`. [Jain et al. 2019, TQT]"""
    zero = _limited(s.round(zero_point), quant_min, quant_max)
    level = _level(x, scale, zero)
    low, high = s.cast(quant_min, level.dtype), s.cast(quant_max, level.dtype)
    kept = (level >= low) & (level <= high)
    cut = s.where(level < low, low, high)
    factor = s.cast(grad_factor, level.dtype)
    inside = ((level - zero) * scale - x) * (1.0 / scale)
    of_scale = grad * s.where(kept, inside, cut - zero) * factor
    of_zero = s.where(kept, 0.0, grad * -1.0 * scale * factor)
    return s.where(kept, grad, 0.0), of_scale, of_zero
