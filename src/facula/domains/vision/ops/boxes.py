"""Boxes: areas, overlaps, forms, suppression.

Takes: boxes as corners `[n, 4]` (x1, y1, x2, y2). Gives: tensors.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import TABLE, F

from ..definitions import operators as _operators

assert _operators


def nms(boxes: core.Tensor, scores: core.Tensor, iou_threshold: float) -> Any:
    """The boxes that no better box overlaps by more than a share, the best first."""
    return TABLE["torchvision::nms"](boxes, scores, iou_threshold)


def batched_nms(
    boxes: core.Tensor, scores: core.Tensor, idxs: core.Tensor, iou_threshold: float
) -> Any:
    """`nms` within each class: boxes of different classes are moved apart."""
    if not boxes.numel():
        return core.empty((0,), dtype=core.int64, device=boxes.device)
    apart = idxs.to(boxes.dtype) * (boxes.max() - boxes.min() + 1)
    return nms(boxes + apart.unsqueeze(1), scores, iou_threshold)


def box_area(boxes: core.Tensor) -> Any:
    """Areas."""
    boxes = _wide(boxes)
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def _wide(boxes: core.Tensor) -> Any:
    """Half precision and small integers where products fit."""
    if boxes.dtype.is_floating_point:
        return boxes if boxes.dtype in (core.float32, core.float64) else boxes.to(core.float32)
    return boxes if boxes.dtype in (core.int32, core.int64) else boxes.to(core.int32)


def _common(boxes1: core.Tensor, boxes2: core.Tensor) -> tuple[Any, Any]:
    """Areas of intersections and unions of all pairs."""
    corner = F.maximum(boxes1[:, None, :2], boxes2[:, :2])
    other = F.minimum(boxes1[:, None, 2:], boxes2[:, 2:])
    size = _wide(other - corner).clamp(min=0)
    both = size[..., 0] * size[..., 1]
    return both, box_area(boxes1)[:, None] + box_area(boxes2) - both


def box_iou(boxes1: core.Tensor, boxes2: core.Tensor, fmt: str = "xyxy") -> Any:
    """The share of the union that two boxes have in common, in pairs."""
    both, union = _common(*(box_convert(boxes, fmt, "xyxy") for boxes in (boxes1, boxes2)))
    return both / union


def _hull(boxes1: core.Tensor, boxes2: core.Tensor) -> Any:
    corner = F.minimum(boxes1[:, None, :2], boxes2[:, :2])
    other = F.maximum(boxes1[:, None, 2:], boxes2[:, 2:])
    return _wide(other - corner).clamp(min=0)


def generalized_box_iou(boxes1: core.Tensor, boxes2: core.Tensor) -> Any:
    """`box_iou` less what the common hull has beside both. [Rezatofighi et al. 2019]"""
    both, union = _common(boxes1, boxes2)
    size = _hull(boxes1, boxes2)
    hull = size[..., 0] * size[..., 1]
    return both / union - (hull - union) / hull


def distance_box_iou(boxes1: core.Tensor, boxes2: core.Tensor, eps: float = 1e-7) -> Any:
    """`box_iou` less the distance of the centres, as a share of the hull's diagonal. [Zheng 2020]"""
    boxes1, boxes2 = (_wide(boxes) for boxes in (boxes1, boxes2))
    both, union = _common(boxes1, boxes2)
    diagonal = (_hull(boxes1, boxes2) ** 2).sum(-1) + eps
    centres = [(boxes[:, :2] + boxes[:, 2:]) / 2 for boxes in (boxes1, boxes2)]
    apart = ((centres[0][:, None] - centres[1]) ** 2).sum(-1)
    return both / union - apart / diagonal


def complete_box_iou(boxes1: Any, boxes2: Any, eps: float = 1e-7) -> Any:
    """`distance_box_iou` less what the proportions differ. [Zheng et al. 2020]"""
    boxes1, boxes2 = (_wide(boxes) for boxes in (boxes1, boxes2))
    both, union = _common(boxes1, boxes2)
    share = both / union
    angles = [
        F.atan((boxes[:, 2] - boxes[:, 0]) / (boxes[:, 3] - boxes[:, 1]))
        for boxes in (boxes1, boxes2)
    ]
    unlike = (4 / math.pi**2) * (angles[0][:, None] - angles[1]) ** 2
    weight = unlike / (1 - share + unlike + eps)
    return distance_box_iou(boxes1, boxes2, eps) - weight.detach() * unlike


_FORMS = ("xyxy", "xywh", "cxcywh")


def box_convert(boxes: core.Tensor, in_fmt: str, out_fmt: str) -> Any:
    """Boxes in another form: `xyxy` (corners), `xywh` (corner and size), `cxcywh` (centre and size)."""
    for form in (in_fmt, out_fmt):
        if form not in _FORMS:
            required = f"a form out of {', '.join(_FORMS)} was required (Unsupported Bounding Box Conversions)"
            fail(ValueError, "box_convert", required, repr(form), hint="corners are 'xyxy'")
    if in_fmt == out_fmt:
        return boxes.clone() if in_fmt != "xyxy" else boxes
    a, b, c, d = boxes.unbind(-1)
    if in_fmt == "xywh":
        a, b, c, d = a, b, a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d
    if out_fmt == "xywh":
        c, d = c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return F.stack([a, b, c, d], -1)


def clip_boxes_to_image(boxes: core.Tensor, size: tuple[int, int]) -> Any:
    """Boxes cut at the borders of an image (height, width)."""
    height, width = size
    xs, ys = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
    return F.stack([xs, ys], -1).reshape(boxes.shape)


def remove_small_boxes(boxes: core.Tensor, min_size: float) -> Any:
    """The positions of boxes whose sides are that long at least."""
    wide, high = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    return F.logical_and(wide >= min_size, high >= min_size).nonzero()[:, 0]


def masks_to_boxes(masks: core.Tensor) -> Any:
    """The boxes around what is not zero in masks `[n, H, W]`; corners are pixels of the mask."""
    found = F.zeros((masks.shape[0], 4), device=masks.device)
    for i, mask in enumerate(masks):
        ys, xs = mask.nonzero().unbind(1)
        if not len(ys):
            required, hint = "masks with a pixel were required", "leave out empty masks"
            fail(RuntimeError, "masks_to_boxes", required, f"an empty one at {i}", hint=hint)
        found[i] = F.stack([xs.min(), ys.min(), xs.max(), ys.max()]).to(found.dtype)
    return found
