"""Boxes, regions, deformable convolutions, losses: torchvision's `ops`.

Takes: boxes as corners `[n, 4]`, feature maps `[N, C, H, W]`. Gives: functions and modules over the operators of
`facula.vision.definitions`.
"""

from __future__ import annotations

from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.ops.table.registry import TABLE, F

from .. import definitions as _definitions
from ..models.layers import SqueezeExcitation, StochasticDepth
from .boxes import (
    batched_nms,
    box_area,
    box_convert,
    box_iou,
    clip_boxes_to_image,
    complete_box_iou,
    distance_box_iou,
    generalized_box_iou,
    masks_to_boxes,
    nms,
    remove_small_boxes,
)
from .losses import (
    complete_box_iou_loss,
    distance_box_iou_loss,
    generalized_box_iou_loss,
    sigmoid_focal_loss,
)

__all__ = [
    "DeformConv2d", "FrozenBatchNorm2d", "PSRoIAlign", "PSRoIPool", "RoIAlign", "RoIPool",
    "SqueezeExcitation", "StochasticDepth", "batched_nms", "box_area", "box_convert", "box_iou",
    "clip_boxes_to_image", "complete_box_iou", "complete_box_iou_loss", "deform_conv2d",
    "distance_box_iou", "distance_box_iou_loss", "generalized_box_iou", "generalized_box_iou_loss",
    "masks_to_boxes", "nms", "ps_roi_align", "ps_roi_pool", "remove_small_boxes", "roi_align",
    "roi_pool", "sigmoid_focal_loss", "stochastic_depth",
]  # fmt: skip

assert _definitions


def _pair(value: Any) -> tuple[Any, Any]:
    return (value, value) if isinstance(value, (int, float)) else tuple(value)


def _regions(op: str, boxes: object) -> Any:
    """Regions `[K, 5]`, out of these or of a list with the boxes of each image."""
    if not isinstance(boxes, (list, tuple)):
        return boxes
    for each in boxes:
        if each.dim() != 2 or each.shape[1] != 4:
            required = "boxes [n, 4] were required of each image"
            fail(ValueError, op, required, list(each.shape), hint="or one tensor [K, 5]")
    rows = [F.cat([F.full_like(each[:, :1], i), each], 1) for i, each in enumerate(boxes)]
    return F.cat(rows, 0)


def roi_align(
    input: core.Tensor,
    boxes: core.Tensor,
    output_size: object,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Any:
    """Means of bilinear samples in the bins of regions. [He et al. 2017]"""
    settings = (spatial_scale, *_pair(output_size), sampling_ratio, aligned)
    return TABLE["torchvision::roi_align"](input, _regions("roi_align", boxes), *settings)


def roi_pool(
    input: core.Tensor, boxes: core.Tensor, output_size: object, spatial_scale: float = 1.0
) -> Any:
    """The largest value in each bin of regions. [Girshick 2015]"""
    settings = (spatial_scale, *_pair(output_size))
    return TABLE["torchvision::roi_pool"](input, _regions("roi_pool", boxes), *settings)[0]


def ps_roi_align(
    input: core.Tensor,
    boxes: core.Tensor,
    output_size: object,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
) -> Any:
    """Means of bilinear samples, each bin from channels of its own. [Li et al. 2018]"""
    settings = (spatial_scale, *_pair(output_size), sampling_ratio)
    return TABLE["torchvision::ps_roi_align"](input, _regions("ps_roi_align", boxes), *settings)[0]


def ps_roi_pool(
    input: core.Tensor, boxes: core.Tensor, output_size: object, spatial_scale: float = 1.0
) -> Any:
    """The mean of each bin of regions, from channels of its own. [Dai et al. 2016]"""
    settings = (spatial_scale, *_pair(output_size))
    return TABLE["torchvision::ps_roi_pool"](input, _regions("ps_roi_pool", boxes), *settings)[0]


def deform_conv2d(
    input: core.Tensor,
    offset: core.Tensor,
    weight: core.Tensor,
    bias: core.Tensor | None = None,
    stride: object = (1, 1),
    padding: object = (0, 0),
    dilation: object = (1, 1),
    mask: core.Tensor | None = None,
) -> Any:
    """A convolution whose taps are displaced at every place. [Dai et al. 2017, Zhu et al. 2018]"""
    taps = weight.shape[2] * weight.shape[3]
    groups = offset.shape[1] // (2 * taps)
    if not groups:
        required = f"a multiple of {2 * taps} planes of offsets was required"
        fail(
            RuntimeError, "deform_conv2d", required, offset.shape[1], hint="two planes for each tap"
        )
    factors = input.new_zeros((input.shape[0], 1)) if mask is None else mask
    added = input.new_zeros((weight.shape[0],)) if bias is None else bias
    steps = (*_pair(stride), *_pair(padding), *_pair(dilation))
    shares = (input.shape[1] // weight.shape[1], groups, mask is not None)
    call = TABLE["torchvision::deform_conv2d"]
    return call(input, weight, offset, factors, added, *steps, *shares)


def stochastic_depth(input: core.Tensor, p: float, mode: str, training: bool = True) -> Any:
    """In training, drops whole rows of a batch, and scales the others up. [Huang et al. 2016]"""
    if not 0 <= p <= 1 or mode not in ("batch", "row"):
        required = "a probability and the mode 'batch' or 'row' were required"
        fail(
            ValueError,
            "stochastic_depth",
            required,
            f"p={p}, mode={mode!r}",
            hint="p=0.2, mode='row'",
        )
    return StochasticDepth(p, mode).train(training)(input)


class _Region(nn.Module):
    """A function of maps and regions with its settings."""

    def __init__(self, *settings: object) -> None:
        super().__init__()
        names = type(self).settings
        vars(self).update(dict(zip(names, settings, strict=True)))

    settings: tuple[str, ...] = ()
    function: Any = None

    def forward(self, input: core.Tensor, rois: core.Tensor) -> Any:
        values = [getattr(self, name) for name in type(self).settings]
        return type(self).function(input, rois, *values)

    def extra_repr(self) -> str:
        """What is set."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in type(self).settings)


class RoIAlign(_Region):
    """See `roi_align`."""

    settings = ("output_size", "spatial_scale", "sampling_ratio", "aligned")
    function = staticmethod(roi_align)

    def __init__(
        self, output_size: object, spatial_scale: float, sampling_ratio: int, aligned: bool = False
    ) -> None:
        super().__init__(output_size, spatial_scale, sampling_ratio, aligned)


class RoIPool(_Region):
    """See `roi_pool`."""

    settings = ("output_size", "spatial_scale")
    function = staticmethod(roi_pool)


class PSRoIAlign(_Region):
    """See `ps_roi_align`."""

    settings = ("output_size", "spatial_scale", "sampling_ratio")
    function = staticmethod(ps_roi_align)


class PSRoIPool(_Region):
    """See `ps_roi_pool`."""

    settings = ("output_size", "spatial_scale")
    function = staticmethod(ps_roi_pool)


class DeformConv2d(nn.Conv2d):
    """A convolution whose taps a second argument displaces, and a third one scales."""

    def forward(
        self, input: core.Tensor, offset: core.Tensor, mask: core.Tensor | None = None
    ) -> Any:
        steps = (self.stride, self.padding, self.dilation)
        return deform_conv2d(input, offset, self.weight, self.bias, *steps, mask=mask)


class FrozenBatchNorm2d(nn.Module):
    """A batch norm whose statistics and factors stay as they are."""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for name, fill in (("weight", F.ones), ("bias", F.zeros)):
            self.register_buffer(name, fill((num_features,)))
        for name, fill in (("running_mean", F.zeros), ("running_var", F.ones)):
            self.register_buffer(name, fill((num_features,)))

    def forward(self, x: core.Tensor) -> Any:
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale.reshape((1, -1, 1, 1)) + shift.reshape((1, -1, 1, 1))
