"""Products of numbers of 8 bits with scales: `_scaled_mm`.

Takes: matrices of float8, and a scale for each of them, or for each row of the first and column of the second.
Gives: their product. Keeps true: products and sums are those of float32; one rounding ends it.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail, product_hint
from facula.ops.table.registry import F, composite

_FLOAT8 = (core.float8_e4m3fn, core.float8_e5m2)


def _is_scale(scale: core.Tensor, rows: tuple[int, int]) -> bool:
    whole = scale.numel() == 1
    return scale.dtype is core.float32 and (whole or tuple(scale.shape) == rows)


def _check(a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any) -> None:
    op = "_scaled_mm"
    for name, value in (("mat_a", a), ("mat_b", b)):
        if value.dim() != 2:
            fail(RuntimeError, op, f"{name} must be a matrix", f"{value.dim()} dimensions",
                 hint="take one matrix of a batch at a time")  # fmt: skip
        if value.dtype not in _FLOAT8:
            fail(ValueError, op, f"float8 was required for {name} (Invalid scaling configuration.)", value.dtype,
                 hint=cast_hint(value, core.float8_e4m3fn))  # fmt: skip
    if a.shape[1] != b.shape[0]:
        fail(RuntimeError, op, f"{a.shape[1]} rows were required in mat2 (mat_a and mat_b shapes cannot be multiplied "
             f"({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]}))", b.shape[0],
             hint=product_hint(a.shape, b.shape))  # fmt: skip
    rows, columns = (a.shape[0], 1), (1, b.shape[1])
    for name, scale, shape in (("scale_a", scale_a, rows), ("scale_b", scale_b, columns)):
        if not _is_scale(scale, shape):
            fail(ValueError, op, f"one float32 number, or {list(shape)} of them, was required as {name} (Invalid "
                 "scaling configuration.)", f"{scale.dtype}, {list(scale.shape)}",
                 hint="scales of rows stand in a column, those of columns in a row")  # fmt: skip
    if bias is not None and tuple(bias.shape) != (b.shape[1],):
        fail(RuntimeError, op, f"Bias must be size {b.shape[1]}", list(bias.shape),
             hint="a number for each column of mat2")  # fmt: skip


@composite(
    "quantization::_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, "
    "Tensor? scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor",
    names=("_scaled_mm",),
    out=False,
)
def _scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum):
    """``(self * scale_a) @ (mat2 * scale_b) + bias`` of float8 matrices, times ``scale_result`` where the result is
    float8; sums are those of float32, whether a fast accumulator is allowed or not."""
    _check(self, mat2, scale_a, scale_b, bias)
    kind = self.dtype if out_dtype is None else out_dtype
    product = F.mm(self.to(core.float32), mat2.to(core.float32)) * (
        scale_a.reshape(-1, 1) * scale_b.reshape(1, -1)
    )
    if bias is not None:
        product = product + bias.to(core.float32)
    if scale_result is not None and kind in _FLOAT8:
        product = product * scale_result
    if kind in _FLOAT8:
        limit = core.finfo(kind).max
        product = product.clamp(-limit, limit)
    return product.to(kind)
