"""Losses of regression, element by element.

Takes: predictions and targets.
Gives: operators `_smooth_l1_loss` and `_huber_loss`; their sums and means stand in `loss_composites`.
Keeps true: computed in one pass and rounded once; the second derivative at a difference of zero is that of the square.
"""

from __future__ import annotations

from facula.ops import scalar as s
from facula.ops.pointwise.naming import RUNTIME
from facula.ops.registry import pointwise


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
