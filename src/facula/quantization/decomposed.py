"""`ops.quantized_decomposed.*`: quantization of plain integer tensors, as graphs of PT2E have it.

Takes: float tensors, scales, zero points, a range and a dtype; or integers. Gives: integer tensors, or numbers.
Keeps true:
they are composites of elementwise operators, so that compiled graphs fuse them with what stands beside.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F, composite
from facula.quantization import create
from facula.quantization.create import _extremes, channel_axis, check_bounds, choose_qparams


def _define(schema: str) -> Any:
    return composite(f"quantized_decomposed::{schema}", names=(), out=False)


def _levels(
    x: core.Tensor, scale: Any, zero: object, low: int, high: int, dtype: core.dtype
) -> Any:
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


def _is_plain(x: core.Tensor, scale: Any, zero: object, dtype: core.dtype) -> bool:
    """Whether bytes are asked for by numbers, without gradients: one operator, which compiled graphs know."""
    numbers = isinstance(scale, (int, float)) and isinstance(zero, (int, float))
    recorded = x.requires_grad and core.is_grad_enabled()
    return numbers and not recorded and dtype in (core.uint8, core.int8) and scale > 0


def _fits(low: int, high: int, dtype: core.dtype) -> bool:
    """Whether a dtype of bytes has all integers of a range."""
    least = -128 if dtype is core.int8 else 0
    return least <= low <= high <= least + 255


def _shape(x: core.Tensor, axis: int) -> list[int]:
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


# ------------------------------------------------------------------ rows (tokens), and groups of a row


def _check_tokens(op: str, x: core.Tensor, scales: core.Tensor, zeros: core.Tensor) -> None:
    """AssertionError unless there is a scale and a zero point for each row."""
    rows = x.numel() // x.shape[-1] if x.dim() and x.shape[-1] else 0
    if scales.numel() != rows or zeros.numel() != rows:
        fail(
            AssertionError,
            f"quantized_decomposed::{op}",
            f"a scale and a zero point for each of {rows} rows were required",
            f"{list(scales.shape)} and {list(zeros.shape)}",
            hint="choose_qparams_per_token(x, facula.int8) gives both",
        )


def _check_levels(op: str, low: int, high: int, dtype: core.dtype) -> None:
    if low > high or (dtype in (core.int8, core.uint8) and not _fits(low, high, dtype)):
        fail(
            AssertionError,
            f"quantized_decomposed::{op}",
            f"a range of integers that {dtype} has was required: quant_min out of bound, or quant_max",
            f"{low} to {high}",
            hint="-128 to 127 are those of int8, 0 to 255 those of uint8",
        )


@_define("choose_qparams_per_token(Tensor input, dtype dtype) -> (Tensor, Tensor)")
def choose_qparams_per_token(input, dtype):
    """For each row the scale by its greatest size, and zero points of 0."""
    if dtype is not core.int8:
        fail(
            NotImplementedError,
            "quantized_decomposed::choose_qparams_per_token",
            "the dtype int8 was required: unsupported dtype in choose_qparams_per_token",
            dtype,
            hint="choose_qparams_per_token_asymmetric takes others",
        )
    sizes = input.abs().amax(-1, keepdim=True)
    sizes = sizes.float() if sizes.dtype is core.float16 else sizes
    scales = sizes.clamp(min=1e-5) / 127
    return scales, F.zeros_like(scales)


def _of_tokens(x: core.Tensor) -> tuple[Any, Any]:
    """Scale and zero point of each row: the end that would be rounded by more lies on a level."""
    low, high = x.amin(-1, keepdim=True).clamp(max=0), x.amax(-1, keepdim=True).clamp(min=0)
    scale = ((high - low) / 255.0).clamp(min=2.0**-23)
    below, above = low / scale, high / scale
    by_low = (below - 128) + (above + 127) > 0
    zero = F.where(by_low, -128 - below, 127 - above).clamp(-128, 127).round()
    return scale.to(core.float64), zero.to(core.int64)


@_define("_choose_qparams_per_token_asymmetric_impl(Tensor input, dtype dtype) -> (Tensor, Tensor)")
def _choose_qparams_per_token_asymmetric_impl(input, dtype):
    """Scale and zero point of each row of signed bytes, by its extremes."""
    return _of_tokens(input)


@_define("choose_qparams_per_token_asymmetric(Tensor input, dtype dtype) -> (Tensor, Tensor)")
def choose_qparams_per_token_asymmetric(input, dtype):
    """Scale and zero point of each row of signed bytes, by its extremes."""
    return _of_tokens(input)


def _per_token_quant_qparam_dim_check(input, scales, zero_points):
    """Raises where there is not a scale and a zero point for each token."""
    _check_tokens("quantize_per_token", input, scales, zero_points)


@_define(
    "quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, "
    "int quant_max, dtype dtype) -> Tensor"
)
def quantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype):
    """The integers of rows that have a scale and a zero point each."""
    _check_levels("quantize_per_token", quant_min, quant_max, dtype)
    _check_tokens("quantize_per_token", input, scales, zero_points)
    levels = (input * (1.0 / scales) + zero_points).round()
    return levels.clamp(quant_min, quant_max).to(dtype)


@_define(
    "dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, "
    "int quant_max, dtype dtype, dtype output_dtype) -> Tensor"
)
def dequantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype, output_dtype):
    """The numbers of rows that have a scale and a zero point each."""
    _check_tokens("dequantize_per_token", input, scales, zero_points)
    return ((input - zero_points) * scales).to(output_dtype)


def _groups(op: str, x: core.Tensor, scales: core.Tensor, size: int) -> Any:
    """A matrix as rows of one group each."""
    fits = x.dim() == 2 and size > 1 and x.shape[-1] % size == 0
    if not fits or scales.numel() * size != x.numel():
        fail(
            AssertionError,
            f"quantized_decomposed::{op}",
            f"a matrix whose rows are groups of {size}, and a scale for each group, were required",
            f"{list(x.shape)} and scales {list(scales.shape)}",
            hint="pad the rows with zeros, or take smaller groups",
        )
    return x.reshape(-1, size)


@_define(
    "quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, "
    "int quant_max, dtype dtype, int group_size) -> Tensor"
)
def quantize_per_channel_group(input, scales, zero_points, quant_min, quant_max, dtype, group_size):
    """The integers of groups of a row that have a scale and a zero point each."""
    op = "quantize_per_channel_group"
    _check_levels(op, quant_min, quant_max, dtype)
    rows = _groups(op, input, scales, group_size)
    levels = rows * (1.0 / scales.reshape(-1, 1)) + zero_points.reshape(-1, 1)
    return levels.round().clamp(quant_min, quant_max).to(dtype).reshape(input.shape)


@_define(
    "dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, "
    "int quant_max, dtype dtype, int group_size, dtype output_dtype) -> Tensor"
)
def dequantize_per_channel_group(
    input, scales, zero_points, quant_min, quant_max, dtype, group_size, output_dtype
):
    """The numbers of groups of a row that have a scale and a zero point each."""
    rows = _groups("dequantize_per_channel_group", input, scales, group_size)
    zeros = 0 if zero_points is None else zero_points.reshape(-1, 1)
    return ((rows - zeros) * scales.reshape(-1, 1)).to(output_dtype).reshape(input.shape)
