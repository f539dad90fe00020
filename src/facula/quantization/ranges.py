"""Ranges of weights: the one whose levels lie closest to the numbers, and that of 16-bit floats.

Takes: float tensors. Gives: the ends of a range; weights that a 16-bit float has. Keeps true: the search never
ends at a range that is worse than the whole one.
"""

from __future__ import annotations

import warnings
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F, composite

__all__ = ["_saturate_weight_to_fp16", "choose_qparams_optimized"]

_LARGEST = 65504.0


def _check_floats(op: str, x: core.Tensor) -> None:
    if x.dtype is not core.float32:
        fail(RuntimeError, op, "expected scalar type Float: a tensor of float32 was required", x.dtype,
             hint="convert it with .float()")  # fmt: skip


def _distance(x: core.Tensor, low: core.Tensor, high: core.Tensor, bits: int) -> float:
    """The root of the summed squares of what the levels between two ends miss; ends and steps are 16-bit floats
    there, as tables of such rows keep them."""
    low = low.half().float()
    levels = (1 << bits) - 1
    step = ((high - low) / levels).half().float()
    if not step.item():
        step = F.ones_like(step)
    nearest = ((x - low) / step).round().clamp(0, levels) * step + low
    return float((x - nearest).double().square().sum().sqrt())


@composite(
    "quantization::choose_qparams_optimized(Tensor input, int numel, int n_bins, float ratio, int bit_width) "
    "-> (Tensor, Tensor)",
    names=("choose_qparams_optimized",),
    out=False,
    keeps=False,
)
def choose_qparams_optimized(
    input: core.Tensor, numel: int, n_bins: int, ratio: float, bit_width: int
) -> Any:
    """The ends of the range whose levels lie closest to the numbers: the greatest, then the least.

    From the whole range, the end that costs less comes in by one of `n_bins` steps, until no more than a part
    `1 - ratio` of the range is left; the first of the best places that such a walk has is taken."""
    op = "choose_qparams_optimized"
    _check_floats(op, input)
    if not 0 < numel <= input.numel() or n_bins < 1 or not 1 <= bit_width <= 16:
        fail(ValueError, op, f"a number of elements from 1 to {input.numel()}, of bins from 1, and of bits from 1 "
             "to 16 were required", f"numel={numel}, n_bins={n_bins}, bit_width={bit_width}",
             hint="input.numel(), 200 bins and 4 or 8 bits are usual")  # fmt: skip
    x = input.detach().reshape(-1)[:numel]
    low, high = x.amin(), x.amax()
    best = _distance(x, low, high, bit_width), high, low
    step = (high - low) / n_bins
    least = int(n_bins * (1.0 - ratio)) * step
    now = best[0]
    while (low + least < high).item():
        from_low = _distance(x, low + step, high, bit_width)
        from_high = _distance(x, low, high - step, bit_width)
        if now < from_low and now < from_high and now < best[0]:
            best = now, high, low
        if from_low < from_high:
            low, now = low + step, from_low
        else:
            high, now = high - step, from_high
    return best[1].reshape(1), best[2].reshape(1)


@composite(
    "quantization::_saturate_weight_to_fp16(Tensor weight) -> any",
    names=("_saturate_weight_to_fp16",),
    out=False,
    keeps=False,
)
def _saturate_weight_to_fp16(weight: core.Tensor) -> Any:
    """The weight itself, whose numbers beyond those of 16-bit floats have become the largest of these."""
    op = "_saturate_weight_to_fp16"
    _check_floats(op, weight)
    if weight.dim() < 2:
        fail(IndexError, op, "a matrix was required: Dimension out of range (expected to be in range of [-1, 0], "
             "but got 1)", f"{weight.dim()} dimensions", hint="weight.reshape(1, -1) is one")  # fmt: skip
    held = weight.detach()
    if (held.abs() > _LARGEST).any().item():
        warnings.warn(f"[{op}] FOUND weight out of range: numbers beyond {_LARGEST} become {_LARGEST}",
                      UserWarning, stacklevel=2)  # fmt: skip
        held.clamp_(-_LARGEST, _LARGEST)
    return weight
