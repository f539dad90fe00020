"""Operators that pool regions of whole pixels, under torchvision's names: `roi_pool`, `ps_roi_pool`.

Takes feature maps `[N, C, H, W]` and regions `[K, 5]` (image, x1, y1, x2, y2).
Gives definitions in the operator table, gradients included.
Keeps true: half precision is computed in float32; regions name images that exist.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import TABLE, operator

from .operators import (
    _ROI_ALIGN,
    _SIZES,
    _batched,
    _planes,
    check_bins,
    check_images,
    check_regions,
    like,
    of_maps,
    plain,
    put,
)


def _numbers(shape: core.Size, rois: core.Tensor, height: int, width: int) -> tuple[int, ...]:
    return (*shape[1:], height, width, rois.shape[0], shape[0])


def _pool(
    name: str,
    out: core.Tensor,
    input: core.Tensor,
    rois: core.Tensor,
    scale: float,
    bins: tuple[Any, ...],
) -> None:
    if not out[0].numel():
        return
    check_images("roi_pool", rois, input.shape[0])
    maps, regions = plain(input, rois)

    def run(target: object) -> None:
        core.kernel(f"vision.{name}:{maps.dtype.code}")(
            (target, out[1], maps, regions),
            _numbers(maps.shape, regions, *bins),
            (scale,),
        )

    put(out[0], run)


def _pool_grad(
    name: str, out: core.Tensor, grad: core.Tensor, rois: Any, scale: float, bins: Any, where: Any
) -> None:
    check_bins("roi_pool", *bins)
    if not out.numel():
        return
    check_images("roi_pool", rois, out.shape[0])
    given, regions = plain(grad, rois)
    more, split = (
        ((), {})
        if where is None
        else (
            (where.contiguous(),),
            {"total": out.shape[1], "grain": 1},
        )
    )

    def run(target: core.Tensor) -> None:
        core.kernel(f"vision.{name}.grad:{given.dtype.code}")(
            (target, given, regions, *more),
            _numbers(out.shape, regions, *bins),
            (scale,),
            **split,
        )

    put(out, run)


def _pooled(name: str) -> Any:
    """The kernel of a pooling."""

    def cpu(
        out: core.Tensor,
        input: core.Tensor,
        rois: core.Tensor,
        spatial_scale: float,
        pooled_height: int,
        pooled_width: int,
    ) -> None:
        _pool(name, out, input, rois, spatial_scale, (pooled_height, pooled_width))

    return cpu


def _to_maps(name: str) -> Any:
    """The gradient of a pooling in its maps, by the operator of that name."""

    def backward(
        grads: Any,
        input_meta: Any,
        rois: core.Tensor,
        spatial_scale: object,
        pooled_height: object,
        pooled_width: object,
        result_1: core.Tensor,
    ) -> Any:
        if grads[0] is None:
            return None, None
        settings = (spatial_scale, pooled_height, pooled_width)
        to_input = TABLE[f"torchvision::{name}"](
            grads[0], rois, result_1, *settings, *input_meta.shape
        )
        return to_input, None

    return backward


def _transposed(name: str, chosen: bool) -> Any:
    """The kernel of such a gradient; `chosen` where it reads which places were the largest."""

    def cpu(
        out: core.Tensor,
        grad: core.Tensor,
        rois: Any,
        places: object,
        spatial_scale: Any,
        pooled_height: object,
        pooled_width: object,
        *shape: object,
    ) -> None:
        bins = (pooled_height, pooled_width)
        _pool_grad(name, out, grad, rois, spatial_scale, bins, places if chosen else None)

    return cpu


def _no_second(op: str) -> Any:
    hint = "roi_align has gradients of every order"
    required = f"first derivatives were required: double backwards on {op} not supported"
    fail(RuntimeError, op, required, hint=hint)


@operator(
    f"torchvision::roi_pool(Tensor input, Tensor rois, {_ROI_ALIGN}) "
    "-> (Tensor output, Tensor argmax)",
    names=(),
    out=False,
    inplace=False,
    serves=True,
    nondifferentiable=(1,),
)
class RoiPool:
    """The largest value in each bin of regions, and where it is. [Girshick 2015]"""

    def vmap(batch, *args):
        return _batched(batch, TABLE["torchvision::roi_pool"], *args)

    def meta(input, rois, spatial_scale, pooled_height, pooled_width):
        check_regions("roi_pool", input, rois, pooled_height, pooled_width)
        shape = (rois.shape[0], input.shape[1], pooled_height, pooled_width)
        return like(shape, input), like(shape, input, core.int32)

    cpu = _pooled("largest")
    backward = _to_maps("_roi_pool_backward")

    def samples(S):
        rois = core.tensor([[0.0, 0.0, 1.0, 3.0, 3.0], [1.0, 1.0, 0.0, 5.0, 4.0]])
        yield (S(2, 3, 5, 6), rois.to(S(1).dtype), 1.0, 2, 2), {}


@operator(
    f"torchvision::_roi_pool_backward(Tensor grad_output, Tensor rois, Tensor argmax, {_ROI_ALIGN}, "
    f"{_SIZES}) -> Tensor",
    names=(),
    out=False,
    inplace=False,
    serves=True,
)
class RoiPoolBackward:
    """The gradient of `roi_pool`: to the places that held the largest values."""

    meta = of_maps
    cpu = _transposed("largest", True)

    def backward(grad, rois):
        _no_second("roi_pool")


@operator(
    f"torchvision::ps_roi_pool(Tensor input, Tensor rois, {_ROI_ALIGN}) "
    "-> (Tensor output, Tensor channel_mapping)",
    names=(),
    out=False,
    inplace=False,
    serves=True,
    nondifferentiable=(1,),
)
class PsRoiPool:
    """The mean of each bin of regions, from channels of its own. [Dai et al. 2016]"""

    def vmap(batch, *args):
        return _batched(batch, TABLE["torchvision::ps_roi_pool"], *args)

    def meta(input, rois, spatial_scale, pooled_height, pooled_width):
        check_regions("ps_roi_pool", input, rois, pooled_height, pooled_width)
        planes = _planes("ps_roi_pool", input, pooled_height * pooled_width)
        shape = (rois.shape[0], planes, pooled_height, pooled_width)
        return like(shape, input), like(shape, input, core.int32)

    cpu = _pooled("mean")
    backward = _to_maps("_ps_roi_pool_backward")

    def samples(S):
        rois = core.tensor([[0.0, 0.0, 1.0, 3.0, 3.0], [1.0, 1.0, 0.0, 5.0, 4.0]])
        yield (S(2, 8, 5, 6), rois.to(S(1).dtype), 1.0, 2, 2), {}


@operator(
    f"torchvision::_ps_roi_pool_backward(Tensor grad_output, Tensor rois, Tensor channel_mapping, "
    f"{_ROI_ALIGN}, {_SIZES}) -> Tensor",
    names=(),
    out=False,
    inplace=False,
    serves=True,
)
class PsRoiPoolBackward:
    """The transpose of `ps_roi_pool` in its maps."""

    meta = of_maps
    cpu = _transposed("mean", False)

    def backward(grad, rois, spatial_scale, pooled_height, pooled_width):
        settings = (spatial_scale, pooled_height, pooled_width)
        return TABLE["torchvision::ps_roi_pool"](grad, rois, *settings)[0], None, None
