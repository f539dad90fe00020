"""Losses of detectors: of boxes, row by row, and of rare classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.ops.table.registry import F

from .boxes import complete_box_iou, distance_box_iou


def _reduced(op: str, loss: core.Tensor, reduction: str) -> Any:
    if reduction not in ("none", "mean", "sum"):
        required = "the reduction 'none', 'mean' or 'sum' was required"
        fail(ValueError, op, required, repr(reduction), hint="'none' gives a loss for each")
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean() if loss.numel() else 0.0 * loss.sum()
    return loss.sum()


def sigmoid_focal_loss(
    inputs: core.Tensor,
    targets: core.Tensor,
    alpha: float = 0.25,
    gamma: float = 2,
    reduction: str = "none",
) -> Any:
    """Binary cross entropy in which what is right already counts little. [Lin et al. 2017]"""
    if not (0 <= alpha <= 1 or alpha == -1):
        required = "alpha from 0 to 1, or -1 for none, was required"
        fail(ValueError, "sigmoid_focal_loss", required, alpha, hint="0.25 is the default")
    plain = nn.functional.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    p = F.sigmoid(inputs)
    right = p * targets + (1 - p) * (1 - targets)
    loss = plain * (1 - right) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return _reduced("sigmoid_focal_loss", loss, reduction)


def _rows(function: Callable[..., Any], boxes1: Any, boxes2: Any, *settings: object) -> Any:
    """A function of pairs for boxes of the same row."""
    first, second = boxes1.reshape((-1, 1, 4)), boxes2.reshape((-1, 1, 4))
    rows = [function(a, b, *settings)[0, 0] for a, b in zip(first, second, strict=True)]
    return F.stack(rows) if rows else boxes1.new_zeros((0,))


def _row_areas(a: core.Tensor, b: core.Tensor, eps: float) -> tuple[Any, Any]:
    low, high = F.maximum(a[..., :2], b[..., :2]), F.minimum(a[..., 2:], b[..., 2:])
    both = (high - low).clamp(min=0).prod(-1)
    union = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - both
    return both / (union + eps), union


def generalized_box_iou_loss(
    boxes1: core.Tensor, boxes2: core.Tensor, reduction: str = "none", eps: float = 1e-7
) -> Any:
    """1 less the generalised overlap, row by row. [Rezatofighi et al. 2019]"""
    share, union = _row_areas(boxes1, boxes2, eps)
    low, high = (
        F.minimum(boxes1[..., :2], boxes2[..., :2]),
        F.maximum(boxes1[..., 2:], boxes2[..., 2:]),
    )
    hull = (high - low).prod(-1)
    return _reduced(
        "generalized_box_iou_loss", 1 - share + (hull - union) / (hull + eps), reduction
    )


def distance_box_iou_loss(
    boxes1: object, boxes2: object, reduction: str = "none", eps: float = 1e-7
) -> Any:
    """1 less the overlap, and the distance of the centres, row by row. [Zheng et al. 2020]"""
    loss = 1 - _rows(distance_box_iou, boxes1, boxes2, eps)
    return _reduced("distance_box_iou_loss", loss, reduction)


def complete_box_iou_loss(
    boxes1: object, boxes2: object, reduction: str = "none", eps: float = 1e-7
) -> Any:
    """`distance_box_iou_loss` with what the proportions differ. [Zheng et al. 2020]"""
    loss = 1 - _rows(complete_box_iou, boxes1, boxes2, eps)
    return _reduced("complete_box_iou_loss", loss, reduction)
