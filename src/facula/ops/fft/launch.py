"""Launches of Fourier transforms along a dimension: geometry, scale, the order of several dimensions.

Takes tensors of float32, float64 or their complex dtypes with any strides, and results of the same
kind. Gives nothing: it writes the results. Keeps true: no operand is copied to be rearranged; of
several dimensions the first transform reads the operand, the others work in the result's place.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from facula import core
from facula.ops.fft import plan as fft_plan
from facula.ops.fft.plan import COMPLEX, HALF, REAL

#: batch dimensions of a kernel's geometry
DIMS = 18


def _batch(out: core.Tensor, x: core.Tensor, dim: int) -> list[tuple[int, int, int]]:
    """(size, stride in, stride out) of all other dimensions, joined where both run on."""
    joined: list[tuple[int, int, int]] = []
    for d, size in enumerate(x.shape):
        if d == dim or size == 1:
            continue
        one = (size, x.stride(d), out.stride(d))
        if joined and joined[-1][1:] == (one[1] * size, one[2] * size):
            one = (joined.pop()[0] * size, *one[1:])
        joined.append(one)
    return joined


def _padded(values: list[int]) -> list[int]:
    return values + [0] * (DIMS - len(values))


def one_dimension(
    out: Any, x: core.Tensor, dim: int, kind: int, scale: float, forward: bool
) -> None:
    """Write the scaled transform of `x` along a dimension; `out` may be `x` where both are complex."""
    count = x.shape[dim] if kind == REAL else out.shape[dim]
    taken = count // 2 + 1 if kind == HALF else count
    batch = _batch(out, x, dim)
    rows = 1
    for size, _, _ in batch:
        rows *= size
    code = "f32" if x.dtype.code in ("f32", "c64") else "f64"
    inner = batch[-1][0] if batch and batch[-1][1:] == (1, 1) else 0
    group = inner if 2 * inner >= fft_plan.lanes_of(code) else rows
    straight = x.stride(dim) == 1 or count == 1
    chosen = fft_plan.way(count, kind, code, rows, group, straight)
    plan = fft_plan.plan(count, kind, code, chosen)
    core.lasting(plan.table)
    geometry = [kind, count, taken, out.shape[dim], x.stride(dim), out.stride(dim), group, rows]
    strides = [_padded([entry[i] for entry in batch]) for i in range(3)]
    core.kernel(f"fft.{chosen}:{code}")(
        (out, x, plan.table),
        (*geometry, len(batch), *strides[0], *strides[1], *strides[2], *plan.passes),
        (float(scale), 1.0 if forward else -1.0),
    )


def scale_of(normalization: int, sizes: list[int]) -> float:
    """The factor of a normalization: 1, 1 / sqrt(n) or 1 / n."""
    count = 1
    for size in sizes:
        count *= size
    return (1.0, 1 / sqrt(count), 1 / count)[normalization]


def complex_to_complex(
    out: core.Tensor, x: core.Tensor, dims: Any, scale: float, forward: bool
) -> None:
    """Write the transform along dimensions; the last ones first, whose elements are near."""
    for d in sorted((d % x.dim() for d in dims), reverse=True):
        one_dimension(out, x, d, COMPLEX, scale, forward)
        x, scale = out, 1.0


def real_to_complex(out: core.Tensor, x: core.Tensor, dims: Any, scale: float) -> None:
    """Write the transform of real numbers, all of it or half of the last dimension."""
    one_dimension(out, x, dims[-1] % x.dim(), REAL, scale, True)
    complex_to_complex(out, out, dims[:-1], 1.0, True)


def half_to_real(out: object, x: core.Tensor, dims: Any, scale: float) -> None:
    """Write the real inverse transform of half a spectrum."""
    if len(dims) > 1:
        whole = core.empty(x.shape, dtype=x.dtype, device=x.device)
        complex_to_complex(whole, x, dims[:-1], 1.0, False)
        x = whole
    one_dimension(out, x, dims[-1] % x.dim(), HALF, scale, False)
