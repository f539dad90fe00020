"""Operators on boxes and regions, under the names by which torchvision calls its compiled ones.

Takes boxes as corners `[n, 4]`, feature maps `[N, C, H, W]` and regions `[K, 5]` (image, x1, y1, x2, y2).
Gives definitions in the operator table: importing this module is what loading torchvision's compiled
library does under PyTorch.
Keeps true: half precision is computed in float32; regions name images that exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.autocast import is_autocast_enabled
from facula.core.errors import cast_hint, fail
from facula.ops.table.registry import TABLE, F, operator
from facula.torch_api import library

__all__ = ["plain"]

_HALF = (core.float16, core.bfloat16)


def plain(*tensors: Any) -> list[Any]:
    """Contiguous tensors; half precision as float32."""
    return [(t.to(core.float32) if t.dtype in _HALF else t).contiguous() for t in tensors]


def of_maps(grad: core.Tensor, *rest: object) -> Any:
    """What a gradient in maps lies in: their shape is the last four arguments."""
    return like(rest[-4:], grad)


def like(shape: object, x: core.Tensor, dtype: core.dtype | None = None) -> Any:
    """A new tensor where `x` lies."""
    return core.empty(shape, dtype=dtype or x.dtype, device=x.device)


def put(out: core.Tensor, run: Callable[..., Any]) -> None:
    """Run a kernel into `out`, by way of float32 where that is half precision."""
    if out.dtype not in _HALF:
        run(out)
        return
    wide = core.empty(out.shape, dtype=core.float32)
    run(wide)
    out.copy_(wide)


def _float(op: str, *tensors: Any) -> None:
    for t in tensors:
        if not t.dtype.is_floating_point:
            required, hint = "a floating-point tensor was required", "convert it with .float()"
            fail(NotImplementedError, op, required, t.dtype, hint=hint)


# ------------------------------------------------------------------ boxes


def check_boxes(op: str, boxes: core.Tensor, scores: core.Tensor) -> None:
    """What `nms` asks of its arguments."""
    if boxes.dim() != 2 or boxes.shape[1] != 4:
        required = "boxes [n, 4] were required (boxes should be a 2d tensor)"
        hint = "a box is (x1, y1, x2, y2); box_convert() changes other forms"
        fail(RuntimeError, op, required, list(boxes.shape), hint=hint)
    if scores.dim() != 1 or scores.shape[0] != boxes.shape[0]:
        required = f"a score for each of {boxes.shape[0]} boxes was required"
        hint = "scores is one-dimensional and as long as boxes"
        fail(RuntimeError, op, required, list(scores.shape), hint=hint)
    if boxes.dtype is not scores.dtype and not is_autocast_enabled("cpu"):
        required = f"dets should have the same type as scores, {scores.dtype}, was required"
        fail(RuntimeError, op, required, boxes.dtype, hint=cast_hint("boxes", scores.dtype))
    _float(op, boxes)


@operator(
    "torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    names=(),
    out=False,
    inplace=False,
    serves=True,
    nondifferentiable=(0,),
)
class NMS:
    """The boxes that no better box overlaps by more than a share, the best first. [n, 4] corners."""

    dynamic = True

    def meta(dets, scores, iou_threshold):
        check_boxes("nms", dets, scores)
        return like((dets.shape[0],), dets, core.int64)

    def cpu(dets, scores, iou_threshold):
        check_boxes("nms", dets, scores)
        count = dets.shape[0]
        if not count:
            return core.empty((0,), dtype=core.int64)
        boxes, ranks = plain(dets, scores)
        order = F.sort(ranks.to(boxes.dtype), stable=True, dim=0, descending=True)[1]
        keep = core.empty((count + 1,), dtype=core.int64)
        sorted_boxes = F.index_select(boxes, 0, order)
        kernel = core.kernel(f"vision.nms:{boxes.dtype.code}")
        kernel((keep, sorted_boxes), (count,), (float(iou_threshold),))
        return F.index_select(order, 0, keep[1 : 1 + keep[0].item()])

    def samples(S):
        corner = S(6, 2)
        yield (F.cat([corner, corner + S(6, 2).abs()], 1), S(6), 0.3), {}

    def errors(S):
        yield (S(3, 5), S(3), 0.5), {}, RuntimeError, "boxes should be a 2d tensor"
        yield (S(3, 4), S(2), 0.5), {}, RuntimeError, "a score for each of 3 boxes"


@operator(
    "torchvision::box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    names=(),
    out=False,
    inplace=False,
    serves=True,
    nondifferentiable=(0,),
)
class BoxIouRotated:
    """The share of the union that two boxes (x, y, width, height, degrees) have in common, in pairs."""

    def meta(boxes1, boxes2):
        for boxes in (boxes1, boxes2):
            if boxes.dim() != 2 or boxes.shape[1] != 5:
                required, hint = "boxes [n, 5] were required", "(x, y, width, height, degrees)"
                fail(RuntimeError, "box_iou_rotated", required, list(boxes.shape), hint=hint)
        _float("box_iou_rotated", boxes1, boxes2)
        return like((boxes1.shape[0], boxes2.shape[0]), boxes1, core.float32)

    def cpu(out, boxes1, boxes2):
        first, second = plain(boxes1, boxes2.to(boxes1.dtype))

        def run(target: core.Tensor) -> None:
            core.kernel(f"vision.iou.rotated:{first.dtype.code}")(
                (target, first, second), target.shape, (), total=target.shape[0], grain=16
            )

        if out.numel():
            wide = core.empty(out.shape, dtype=first.dtype)
            run(wide)
            out.copy_(wide)

    def samples(S):
        yield (S(3, 5).abs() + 0.5, S(4, 5).abs() + 0.5), {}


# ------------------------------------------------------------------ regions


def check_regions(op: str, input: core.Tensor, rois: core.Tensor, height: int, width: int) -> None:
    """What all pooling of regions asks of its arguments."""
    if input.dim() != 4:
        required, hint = "feature maps [N, C, H, W] were required", "input[None] adds a batch"
        fail(RuntimeError, op, required, list(input.shape), hint=hint)
    if rois.dim() != 2 or rois.shape[1] != 5:
        required = "rois must have shape as Tensor[K, 5]"
        hint = "a region is (image, x1, y1, x2, y2); a list of boxes for each image does as well"
        fail(RuntimeError, op, required, list(rois.shape), hint=hint)
    if input.dtype is not rois.dtype and not is_autocast_enabled("cpu"):
        required = "Expected tensor for input to have the same type as tensor for rois"
        got, hint = f"{input.dtype} and {rois.dtype}", cast_hint("rois", input.dtype)
        fail(RuntimeError, op, required, got, hint=hint)
    _float(op, input)
    check_bins(op, height, width)
    if rois.shape[0] and 0 in input.shape[2:]:
        required, hint = "maps with pixels were required", "an empty map has nothing to pool"
        fail(RuntimeError, op, required, list(input.shape), hint=hint)


def check_bins(op: str, height: int, width: int) -> None:
    """Whether there are bins to pool into."""
    if height < 1 or width < 1:
        required, hint = "a size of at least one bin was required", "output_size=(7, 7)"
        fail(RuntimeError, op, required, (height, width), hint=hint)


def check_images(op: str, rois: core.Tensor, images: int) -> None:
    """Whether regions name images that exist."""
    if rois.dim() != 2 or rois.shape[1] != 5:
        required, hint = (
            "rois must have shape as Tensor[K, 5]",
            "a region is (image, x1, y1, x2, y2)",
        )
        fail(RuntimeError, op, required, list(rois.shape), hint=hint)
    if not rois.shape[0]:
        return
    low, high = (x.item() for x in F.aminmax(rois[:, 0]))
    if not (0 <= low and high < images):
        required = f"regions of images 0 to {images - 1} were required"
        got, hint = f"{low:g} to {high:g}", "the first column of rois is the number of the image"
        fail(RuntimeError, op, required, got, hint=hint)


def _planes(op: str, input: core.Tensor, bins: int) -> int:
    if input.shape[1] % bins:
        required = "input channels must be a multiple of pooling height * pooling width"
        hint = "each bin has channels of its own"
        fail(RuntimeError, op, required, f"{input.shape[1]} channels, {bins} bins", hint=hint)
    return input.shape[1] // bins


def _check_samples(samples: int) -> None:
    if samples > _SAMPLES:
        required = f"a sampling_ratio of at most {_SAMPLES} was required"
        fail(
            RuntimeError,
            "roi_align",
            required,
            samples,
            hint="2 is usual, -1 chooses by the region",
        )


def _align(
    out: core.Tensor,
    input: core.Tensor,
    rois: core.Tensor,
    bins: tuple[Any, ...],
    settings: tuple[Any, ...],
) -> None:
    """Launch the forward kernel. settings: scale, samples, aligned, position-sensitive."""
    scale, samples, *flags = settings
    _check_samples(samples)
    maps, regions = plain(input, rois.to(input.dtype) if input.dtype is not rois.dtype else rois)
    numbers = (*maps.shape, regions.shape[0], *bins, max(samples, 0), *map(int, flags))

    def run(target: object) -> None:
        core.kernel(f"vision.align:{maps.dtype.code}")((target, maps, regions), numbers, (scale,))

    if out.numel():
        check_images("roi_align", rois, input.shape[0])
        put(out, run)


def _align_grad(
    out: core.Tensor,
    grad: core.Tensor,
    rois: core.Tensor,
    bins: tuple[Any, ...],
    settings: tuple[Any, ...],
) -> None:
    scale, samples, *flags = settings
    _check_samples(samples)
    check_bins("roi_align", *bins)
    check_images("roi_align", rois, out.shape[0])
    given, regions = plain(grad, rois.to(grad.dtype) if grad.dtype is not rois.dtype else rois)
    numbers = (*out.shape, regions.shape[0], *bins, max(samples, 0), *map(int, flags))

    def run(target: core.Tensor) -> None:
        kernel = core.kernel(f"vision.align.grad:{given.dtype.code}")
        kernel((target, given, regions), numbers, (scale,))

    if out.numel():
        put(out, run)


def _batched(
    batch: Any,
    function: Callable[..., Any],
    input: core.Tensor,
    rois: core.Tensor,
    *settings: object,
) -> Any:
    """A batch of maps and regions: its images stand one behind the other."""
    full = batch.full(input) if batch.has(input) else None
    images = input.shape[0]
    maps = full.flatten(0, 1) if full is not None else input
    regions = batch.full(rois)
    if full is not None:
        step = F.arange(batch.size, dtype=rois.dtype, device=rois.device) * images
        first = regions[..., :1] + step.reshape(-1, 1, 1)
        regions = F.cat([first, regions[..., 1:]], -1)
    results = function(maps, regions.flatten(0, 1), *settings)

    def parted(x: core.Tensor) -> Any:
        return x.reshape((batch.size, x.shape[0] // max(batch.size, 1), *x.shape[1:]))

    return tuple(map(parted, results)) if isinstance(results, tuple) else parted(results)


#: samples of a bin along an axis: more take long, and change nothing that can be seen
_SAMPLES = 1_000_000

_ROI_ALIGN = "float spatial_scale, int pooled_height, int pooled_width"
_SIZES = "int batch_size, int channels, int height, int width"


@operator(
    f"torchvision::roi_align(Tensor input, Tensor rois, {_ROI_ALIGN}, int sampling_ratio, "
    "bool aligned) -> Tensor",
    names=(),
    out=False,
    inplace=False,
    serves=True,
)
class RoiAlign:
    """Means of bilinear samples in the bins of regions. [He et al. 2017]"""

    def vmap(batch, *args):
        return _batched(batch, TABLE["torchvision::roi_align"], *args)

    def meta(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
        check_regions("roi_align", input, rois, pooled_height, pooled_width)
        return like((rois.shape[0], input.shape[1], pooled_height, pooled_width), input)

    def cpu(out, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
        settings = (spatial_scale, sampling_ratio, aligned, False)
        _align(out, input, rois, (pooled_height, pooled_width), settings)

    def backward(
        grad, input_meta, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned
    ):
        settings = (spatial_scale, pooled_height, pooled_width)
        to_input = TABLE["torchvision::_roi_align_backward"](
            grad, rois, *settings, *input_meta.shape, sampling_ratio, aligned
        )
        return to_input, None

    def samples(S):
        rois = core.tensor([[0.0, 0.2, 0.5, 3.1, 2.9], [1.0, 1.0, 0.1, 2.0, 3.5]])
        for aligned in (False, True):
            yield (S(2, 3, 5, 6), rois.to(S(1).dtype), 0.8, 2, 3, 2, aligned), {}

    def errors(S):
        yield (S(1, 2, 4, 4), S(3, 4), 1.0, 2, 2, 2, True), {}, RuntimeError, r"Tensor\[K, 5\]"


@operator(
    f"torchvision::_roi_align_backward(Tensor grad_output, Tensor rois, {_ROI_ALIGN}, {_SIZES}, "
    "int sampling_ratio, bool aligned) -> Tensor",
    names=(),
    out=False,
    inplace=False,
    serves=True,
)
class RoiAlignBackward:
    """The transpose of `roi_align` in its maps."""

    def meta(
        grad,
        rois,
        spatial_scale,
        pooled_height,
        pooled_width,
        batch_size,
        channels,
        height,
        width,
        sampling_ratio,
        aligned,
    ):
        return like((batch_size, channels, height, width), grad)

    def cpu(
        out,
        grad,
        rois,
        spatial_scale,
        pooled_height,
        pooled_width,
        batch_size,
        channels,
        height,
        width,
        sampling_ratio,
        aligned,
    ):
        settings = (spatial_scale, sampling_ratio, aligned, False)
        _align_grad(out, grad, rois, (pooled_height, pooled_width), settings)

    def backward(grad, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
        settings = (spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
        return TABLE["torchvision::roi_align"](grad, rois, *settings), None


@operator(
    f"torchvision::ps_roi_align(Tensor input, Tensor rois, {_ROI_ALIGN}, int sampling_ratio) "
    "-> (Tensor output, Tensor channel_mapping)",
    names=(),
    out=False,
    inplace=False,
    serves=True,
    nondifferentiable=(1,),
)
class PsRoiAlign:
    """Means of bilinear samples, each bin from channels of its own. [Li et al. 2018]"""

    def vmap(batch, *args):
        return _batched(batch, TABLE["torchvision::ps_roi_align"], *args)

    def meta(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
        check_regions("ps_roi_align", input, rois, pooled_height, pooled_width)
        planes = _planes("ps_roi_align", input, pooled_height * pooled_width)
        shape = (rois.shape[0], planes, pooled_height, pooled_width)
        return like(shape, input), like(shape, input, core.int32)

    def cpu(out, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
        settings = (spatial_scale, sampling_ratio, True, True)
        _align(out[0], input, rois, (pooled_height, pooled_width), settings)
        sources = F.arange(input.shape[1], dtype=core.int32).reshape(out[1].shape[1:])
        out[1].copy_(sources.expand(out[1].shape))

    def backward(
        grads,
        input_meta,
        rois,
        spatial_scale,
        pooled_height,
        pooled_width,
        sampling_ratio,
        result_1,
    ):
        if grads[0] is None:
            return None, None
        settings = (spatial_scale, pooled_height, pooled_width, sampling_ratio)
        to_input = TABLE["torchvision::_ps_roi_align_backward"](
            grads[0], rois, result_1, *settings, *input_meta.shape
        )
        return to_input, None

    def samples(S):
        rois = core.tensor([[0.0, 0.2, 0.5, 3.1, 2.9], [1.0, 1.0, 0.1, 2.0, 3.5]])
        yield (S(2, 8, 5, 6), rois.to(S(1).dtype), 0.8, 2, 2, 2), {}


@operator(
    f"torchvision::_ps_roi_align_backward(Tensor grad_output, Tensor rois, Tensor channel_mapping, "
    f"{_ROI_ALIGN}, int sampling_ratio, {_SIZES}) -> Tensor",
    names=(),
    out=False,
    inplace=False,
    serves=True,
)
class PsRoiAlignBackward:
    """The transpose of `ps_roi_align` in its maps."""

    meta = of_maps

    def cpu(
        out, grad, rois, mapping, spatial_scale, pooled_height, pooled_width, sampling_ratio, *shape
    ):
        settings = (spatial_scale, sampling_ratio, True, True)
        _align_grad(out, grad, rois, (pooled_height, pooled_width), settings)

    def backward(grad, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
        settings = (spatial_scale, pooled_height, pooled_width, sampling_ratio)
        return TABLE["torchvision::ps_roi_align"](grad, rois, *settings)[0], None, None


# ------------------------------------------------------------------ integers


@operator(
    "torchvision::qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    names=(),
    out=False,
    inplace=False,
    serves=True,
)
class QuantizedNMS:
    """`nms` of whole numbers: their scale changes nothing."""

    dynamic = True

    def cpu(dets, scores, iou_threshold):
        wide = [x.to(core.float32) for x in (dets, scores)]
        return TABLE["torchvision::nms"](*wide, iou_threshold)


@operator(
    "torchvision::qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, "
    f"float rois_scale, int rois_zero_point, {_ROI_ALIGN}, int sampling_ratio, bool aligned) -> Tensor",
    names=(),
    out=False,
    inplace=False,
    serves=True,
)
class QuantizedRoiAlign:
    """`roi_align` of whole numbers that stand for floats, rounded to such numbers."""

    def meta(input, rois, scale, zero, rois_scale, rois_zero, *settings):
        check_regions("qroi_align", input.to(core.float32), rois.to(core.float32), *settings[1:3])
        return like((rois.shape[0], input.shape[1], *settings[1:3]), input)

    def cpu(out, input, rois, scale, zero, rois_scale, rois_zero, *settings):
        maps = (input.to(core.float32) - zero) * scale
        regions = (rois.to(core.float32) - rois_zero) * rois_scale
        found = TABLE["torchvision::roi_align"](maps, regions, *settings)
        whole = F.round(found / scale) + zero
        limits = core.iinfo(out.dtype)
        out.copy_(whole.clamp(limits.min, limits.max))


library.define("torchvision::_cuda_version", "() -> int")
library.impl("torchvision::_cuda_version", "CompositeExplicitAutograd", lambda: -1)
