"""Sums of products of integers, and what becomes of them: the ground of quantized layers.

Takes: bytes that stand for numbers, weights as signed bytes. Gives: `Weights`, a weight matrix with what its products
need, `sums`, exact 32-bit sums of ``(x - zero) * (w - zero)``, and `finished`, which makes integers or numbers of them.
Keeps true: sums are exact on every instruction set; rounding happens once, in float32, as PyTorch's x86 engine does it:
``round((sum + bias / (x_scale * w_scale)) * (x_scale * w_scale / y_scale)) + zero``.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.matmul import _gemm_numbers
from facula.ops.registry import F
from facula.quantization.tensor import PER_CHANNEL, RANGES, Quantizer, per_tensor_affine, wrap

__all__ = ["Weights", "checked_output", "finished", "sums"]


class Weights:
    """A matrix of signed bytes, a row for each result, with its scales and zero points."""

    def __init__(self, rows: Any, scales: Any, zeros: Any) -> None:
        self.rows = rows  # [results, inner]
        self.columns = rows.t().contiguous()  # as the kernel takes them fastest
        self.scales = scales  # float32, one for each result
        self.zeros = zeros  # int32, one for each result
        self.symmetric = not bool((zeros != 0).any())
        self.totals = rows.to(core.int32).sum(1, dtype=core.int32)
        self._shifts: dict[int, Any] = {}

    def shift(self, zero_point: int) -> Any:
        """What the zero points of both operands add to the sums of a row, but for those of weights."""
        if zero_point not in self._shifts:
            inner = self.rows.shape[1]
            if len(self._shifts) > 64:
                self._shifts.clear()
            self._shifts[zero_point] = -(self.totals - self.zeros * inner) * zero_point
        return self._shifts[zero_point]


def channels_of(op: str, weight: Any) -> tuple[Any, Any]:
    """Scales (float32) and zero points (int32) of a weight, one for each place along its first dimension."""
    quantizer: Quantizer = weight._quantizer
    count = weight.shape[0]
    if quantizer.scheme in PER_CHANNEL:
        if quantizer.axis != 0:
            fail(
                RuntimeError,
                op,
                "a weight quantized along its first dimension was required",
                quantizer.axis,
                hint="quantize_per_channel(..., axis=0)",
            )
        return quantizer.scale.to(core.float32), quantizer.zero_point.to(core.int32)
    scales = F.full((count,), quantizer.scale, dtype=core.float32)
    return scales, F.full((count,), int(quantizer.zero_point), dtype=core.int32)


def sums(x: Any, zero_point: int, weights: Weights) -> Any:
    """``(x - zero_point) @ (w - zeros).T`` of rows of bytes, as 32-bit integers."""
    out = core.empty((x.shape[0], weights.rows.shape[0]), dtype=core.int32)
    if not out.numel():
        return out
    if not x.shape[1]:
        return out.zero_()
    columns = weights.columns
    numbers = _gemm_numbers(out, x, columns)
    core.kernel("gemm:u8i8")((out, x, columns, weights.shift(zero_point)), numbers, (1, 0))
    if not weights.symmetric:
        out -= x.to(core.int32).sum(1, keepdim=True, dtype=core.int32) * weights.zeros
    return out


def bytes_of(op: str, x: Any) -> tuple[Any, int]:
    """The integers of an activation as unsigned bytes, and their zero point."""
    if not getattr(x, "is_quantized", False):
        fail(
            RuntimeError,
            op,
            "a quantized input was required: expected scalar type QUInt8",
            x.dtype,
            hint="quantize_per_tensor(x, scale, zero_point, facula.quint8) makes one",
        )
    if x.dtype is core.quint8:
        return x._integers, x.q_zero_point()
    if x.dtype is core.qint8:
        return (x._integers.to(core.int16) + 128).to(core.uint8), x.q_zero_point() + 128
    fail(
        RuntimeError,
        op,
        "an input of dtype quint8 or qint8 was required",
        x.dtype,
        hint="requantize with quantize_per_tensor(x.dequantize(), ...)",
    )


def checked_output(op: str, scale: Any, zero_point: Any, kind: Any) -> Quantizer:
    """The quantizer of a result."""
    # lazily: it imports the modules that this one is below
    from facula.quantization.create import checked_quantizer

    return checked_quantizer(op, scale, zero_point, kind)


def finished(
    totals: Any,
    x_scale: float,
    scales: Any,
    bias: Any,
    quantizer: Quantizer,
    kind: Any,
    low: int | None = None,
    high: int | None = None,
) -> Any:
    """Integers of dtype `kind` (and not below `low`) out of sums [rows, results]."""
    both = scales * core.tensor(x_scale, dtype=core.float32)
    multiplier = both / core.tensor(quantizer.scale, dtype=core.float32)
    shift = F.zeros(both.shape) if bias is None else bias.detach() / both
    kept, least, most = RANGES[kind]
    out = core.empty(totals.shape, dtype=kept)
    if out.numel():
        least = least if low is None else max(least, low)
        limits = (float(quantizer.zero_point), float(least), float(most if high is None else high))
        columns = totals.shape[-1]
        core.kernel(f"requantize:{kept.code}")(
            (out, totals, multiplier, shift),
            (columns, columns, columns),
            limits,
            total=totals.numel() // columns,
            grain=max(1, 16384 // columns),
        )
    return out


def as_numbers(totals: Any, x_scale: float, scales: Any, bias: Any, relu: bool) -> Any:
    """Numbers out of sums [rows, results]."""
    multiplier = scales * core.tensor(x_scale, dtype=core.float32)
    shift = F.zeros(multiplier.shape) if bias is None else bias.detach()
    out = core.empty(totals.shape)
    if out.numel():
        columns = totals.shape[-1]
        core.kernel("requantize:f32")(
            (out, totals, multiplier, shift),
            (columns, columns, columns),
            (0.0 if relu else float("-inf"),),
            total=totals.numel() // columns,
            grain=max(1, 16384 // columns),
        )
    return out


def quantized(integers: Any, kind: Any, scale: float, zero_point: int) -> Any:
    """The tensor that integers and the parameters of a result make."""
    return wrap(integers, kind, Quantizer(per_tensor_affine, float(scale), int(zero_point)))
