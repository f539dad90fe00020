"""`ops.quantized_decomposed.*`: quantization of plain integer tensors, as graphs of PT2E have it.

Takes: float tensors, scales, zero points, a range and a dtype; or integers. Gives: integer tensors, or numbers.
Keeps true:
they are composites of elementwise operators, so that compiled graphs fuse them with what stands beside.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.registry import F, composite
from facula.quantization import create
from facula.quantization.create import _extremes, channel_axis, check_bounds, choose_qparams


def _define(schema: str) -> Any:
    return composite(f"quantized_decomposed::{schema}", names=(), out=False)


def _levels(x: Any, scale: Any, zero: Any, low: int, high: int, dtype: Any) -> Any:
    if not isinstance(scale, core.Tensor) and not scale:
        fail(
            RuntimeError,
            "quantized_decomposed::quantize_per_tensor",
            "a scale other than zero was required",
            scale,
            hint="the scale is the step between neighbouring levels",
        )
    inverse = 1.0 / scale
    return F.clamp(F.round(x * inverse) + zero, low, high).to(dtype)


def _is_plain(x: Any, scale: Any, zero: Any, dtype: Any) -> bool:
    """Whether bytes are asked for by numbers, without gradients: one operator, which compiled graphs know."""
    numbers = isinstance(scale, (int, float)) and isinstance(zero, (int, float))
    recorded = x.requires_grad and core.is_grad_enabled()
    return numbers and not recorded and dtype in (core.uint8, core.int8) and scale > 0


def _fits(low: int, high: int, dtype: Any) -> bool:
    """Whether a dtype of bytes has all integers of a range."""
    least = -128 if dtype is core.int8 else 0
    return least <= low <= high <= least + 255


def _shape(x: Any, axis: int) -> list[int]:
    shape = [1] * x.dim()
    shape[channel_axis("quantized_decomposed", axis, x.dim())] = -1
    return shape


@_define(
    "quantize_per_tensor(Tensor input, Operand scale, Operand zero_point, int quant_min, "
    "int quant_max, dtype dtype) -> Tensor"
)
def quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype):
    """The integers that stand for numbers."""
    x = input.to(core.float32)
    if _is_plain(x, scale, zero_point, dtype) and _fits(quant_min, quant_max, dtype):
        given = (float(scale), float(zero_point), False, quant_min, quant_max, dtype)
        return create.to_integers(x, *given)
    return _levels(x, scale, zero_point, quant_min, quant_max, dtype)


@_define(
    "dequantize_per_tensor(Tensor input, Operand scale, Operand zero_point, int quant_min, "
    "int quant_max, dtype dtype, *, dtype? out_dtype=None) -> Tensor"
)
def dequantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, out_dtype):
    """The numbers that integers stand for."""
    kind = out_dtype or core.float32
    if kind is core.float32 and _is_plain(input, scale, zero_point, input.dtype):
        return create.to_numbers(input, float(scale), float(zero_point))
    return ((input.to(kind) - zero_point) * scale).to(kind)


@_define(
    "quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, "
    "int quant_min, int quant_max, dtype dtype) -> Tensor"
)
def quantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype):
    """The same with parameters for each place along an axis."""
    shape = _shape(input, axis)
    scale, zero = scales.to(core.float32).reshape(shape), zero_points.reshape(shape)
    return _levels(input.to(core.float32), scale, zero, quant_min, quant_max, dtype)


@_define(
    "dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, "
    "int quant_min, int quant_max, dtype dtype, *, dtype? out_dtype=None) -> Tensor"
)
def dequantize_per_channel(
    input, scales, zero_points, axis, quant_min, quant_max, dtype, out_dtype
):
    """The same with parameters for each place along an axis."""
    axis = channel_axis("quantized_decomposed", axis, input.dim())
    if out_dtype in (None, core.float32) and _is_plain(scales, 1.0, 0, input.dtype):
        return create.channel_numbers(input, scales, zero_points, axis)
    shape = _shape(input, axis)
    values = input.to(out_dtype or core.float32)
    if zero_points is not None:
        values = values - zero_points.to(values.dtype).reshape(shape)
    return values * scales.to(values.dtype).reshape(shape)


@_define(
    "choose_qparams(Tensor input, int quant_min, int quant_max, float eps, dtype dtype) -> (Tensor, Tensor)"
)
def choose_qparams_op(input, quant_min, quant_max, eps, dtype):
    """Scale and zero point by the range of the numbers, as tensors."""
    low, high = _extremes("quantized_decomposed::choose_qparams", input)
    scale, zero = choose_qparams(low, high, quant_min, quant_max)
    scale = max(scale, eps)
    return core.tensor([scale], dtype=core.float64), core.tensor([zero], dtype=core.int64)


@_define(
    "choose_qparams_symmetric(Tensor input, int quant_min, int quant_max, float eps, dtype dtype) -> (Tensor, Tensor)"
)
def choose_qparams_symmetric(input, quant_min, quant_max, eps, dtype):
    """The same with zero in the middle."""
    low, high = _extremes("quantized_decomposed::choose_qparams_symmetric", input)
    check_bounds(low, high, quant_min, quant_max)
    scale = max(max(-min(low, 0.0), max(high, 0.0)) / ((quant_max - quant_min) / 2), eps)
    zero = 0 if quant_min < 0 else (quant_min + quant_max + 1) // 2
    return core.tensor([scale], dtype=core.float64), core.tensor([zero], dtype=core.int64)


@_define(
    "fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, "
    "int quant_min, int quant_max) -> Tensor"
)
def fake_quant_per_channel(input, scales, zero_points, axis, quant_min, quant_max):
    """`fake_quantize_per_channel_affine`."""
    # lazily: it stands beside this module
    from facula.quantization.fake import fake_quantize_per_channel_affine

    return fake_quantize_per_channel_affine(input, scales, zero_points, axis, quant_min, quant_max)
