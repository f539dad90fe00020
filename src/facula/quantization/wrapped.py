"""`ops._quantized`: linear layers of numbers that quantize what they take, and give numbers again.

Takes: numbers, scales and zero points as tensors. Gives: numbers. Keeps true: integers are those of `ops.quantized`.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F, composite
from facula.quantization.create import dequantize, quantize_per_tensor
from facula.quantization.linear import linear, linear_prepack


def _check(op: str, weight: core.Tensor, out_channel: int) -> None:
    if weight.dim() != 2 or weight.shape[0] != out_channel:
        fail(RuntimeError, op, f"a matrix with {out_channel} rows was required as weight", tuple(weight.shape),
             hint="out_channel is the number of results")  # fmt: skip


@composite(
    "_quantized::wrapped_quantized_linear(Tensor X, Tensor X_scale, Tensor X_zero_point, Tensor W, Tensor W_scale, "
    "Tensor W_zero_point, Tensor B, Tensor output_scale, Tensor output_zero_point, int out_channel) -> Tensor",
    names=(),
    out=False,
    keeps=False,
)
def wrapped_quantized_linear(
    X, X_scale, X_zero_point, W, W_scale, W_zero_point, B, output_scale, output_zero_point, out_channel
):  # fmt: skip
    """A linear layer of bytes between numbers: everything is quantized by the given scales and zero points."""
    _check("_quantized::wrapped_quantized_linear", W, out_channel)
    given = quantize_per_tensor(X, X_scale, X_zero_point, core.quint8)
    packed: Any = linear_prepack(quantize_per_tensor(W, W_scale, W_zero_point, core.qint8), B)
    return dequantize(linear(given, packed, output_scale.item(), int(output_zero_point.item())))


@composite(
    "_quantized::wrapped_fbgemm_pack_gemm_matrix_fp16(Tensor W) -> Tensor", names=(), out=False
)
def wrapped_fbgemm_pack_gemm_matrix_fp16(W):
    """The weight of a linear layer, rounded to floats of 16 bits."""
    return W.to(core.float16)


@composite(
    "_quantized::wrapped_fbgemm_linear_fp16_weight(Tensor X, Tensor W, Tensor B, int out_channel) -> Tensor",
    names=(),
    out=False,
)
def wrapped_fbgemm_linear_fp16_weight(X, W, B, out_channel):
    """A linear layer with a weight of 16 bits, computed in 32."""
    _check("_quantized::wrapped_fbgemm_linear_fp16_weight", W, out_channel)
    return F.linear(X, W.to(X.dtype), B)


@composite(
    "quantized::linear_dynamic_fp16_unpacked_weight(Tensor X, Tensor weight, Tensor? bias) -> Tensor",
    names=(),
    out=False,
)
def linear_dynamic_fp16_unpacked_weight(X, weight, bias):
    """A linear layer whose weight is rounded to floats of 16 bits, computed in 32."""
    return F.linear(X, weight.to(core.float16).to(X.dtype), bias)
