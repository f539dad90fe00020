"""Interpolation, and sampling by a grid.

Takes and gives what `onnx.table` says.
Keeps true: positions and weights follow the operator's rules, for which ONNX has a name each.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.onnx.graph import Value
from facula.onnx.table import Call, translation
from facula.onnx.translations.pooling import batched
from facula.ops.table.registry import F

_NEAREST, _EXACT, _LINEAR, _CUBIC = range(4)
_GRID_MODES = ("linear", "nearest", "cubic")
#: the names that versions of the operator before 20 have
_OLD_GRID_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def _rule(method: int, align_corners: bool) -> dict[str, Any]:
    """Where an element of the result lies in the image, and what it is made of."""
    if method == _NEAREST:
        return {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                "nearest_mode": "floor"}  # fmt: skip
    if method == _EXACT:
        return {"mode": "nearest", "coordinate_transformation_mode": "half_pixel",
                "nearest_mode": "round_prefer_ceil"}  # fmt: skip
    position = "align_corners" if align_corners else "half_pixel"
    if method == _LINEAR:
        return {"mode": "linear", "coordinate_transformation_mode": position}
    return {"mode": "cubic", "coordinate_transformation_mode": position, "cubic_coeff_a": -0.75}


@translation("_resample")
def resample(
    call: Call, x: Value, sizes: Any, method: int, align_corners: bool, antialias: bool, scales: Any
) -> Any:
    """Separable interpolation to other sizes."""
    space, dtype = len(sizes), x.dtype
    if method <= _EXACT and not dtype.is_floating_point:
        return _picked(call, x, sizes, method, scales)
    if not dtype.is_floating_point:
        x = Value(call.graph.cast(x, core.float32).name, core.float32, x.shape)
    if antialias:
        found = _weighed(call, x, sizes, method, align_corners, scales)
    else:
        found = batched(call, x, space, lambda image: _resized(
            call, image, sizes, scales, align_corners, _rule(method, align_corners)))  # fmt: skip
    if not dtype.is_floating_point:
        limits = core.iinfo(dtype)
        found = call.op("Clip", call.op("Round", found), float(limits.min), float(limits.max))
    return call.graph.cast(found, dtype)


def _resized(
    call: Call, image: Any, sizes: Any, scales: Any, align_corners: bool, settings: dict[str, Any]
) -> Any:
    """One node, told the scale where the operator was, else the sizes."""
    if all(scales) and not align_corners:
        factors = call.graph.constant(core.tensor([1.0, 1.0, *scales], dtype=core.float32))
        return call.op("Resize", image, None, factors, **settings)
    lead = [call.graph.size(image, d) for d in range(2)]
    return call.op("Resize", image, None, None, call.graph.sizes([*lead, *sizes]), **settings)


def _fixed(call: Call, x: Value, sizes: Any) -> list[tuple[int, int, int]]:
    """Dimensions with their sizes before and after, which have to be known."""
    space, rank = len(sizes), x.rank
    before = [call.graph.size(x, rank - space + d) for d in range(space)]
    numbers = call.static("size of images, for this dtype or with antialias,", [*before, *sizes])
    return [(rank - space + d, numbers[d], numbers[space + d]) for d in range(space)]


def _picked(call: Call, x: Value, sizes: Any, method: int, scales: Any) -> Any:
    """The nearest of whole numbers, which ONNX's node does not take: gathered by the places that the
    operator itself reads."""
    for (d, before, after), scale in zip(_fixed(call, x, sizes), scales, strict=True):
        numbers = F.arange(before, dtype=core.float64).reshape(1, 1, before)
        places = F._resample(numbers, [after], method, False, False, [scale]).reshape(-1)
        x = call.op("Gather", x, places.to(core.int64), axis=d)
    return x


def _weighed(
    call: Call, x: Value, sizes: Any, method: int, align_corners: bool, scales: Any
) -> Any:
    """Interpolation as a product with weights for each dimension: those that the operator gives the
    unit vectors. Runtimes smooth otherwise."""
    rank = x.rank
    for (d, before, after), scale in zip(_fixed(call, x, sizes), scales, strict=True):
        units = F.eye(before, dtype=core.float64).reshape(1, before, before)
        weights = F._resample(units, [after], method, align_corners, True, [scale])
        order = [*(e for e in range(rank) if e != d), d]
        turned = call.graph.transpose(x, order)
        product = call.op("MatMul", turned, weights.reshape(before, after).to(x.dtype))
        x = call.graph.transpose(product, [order.index(e) for e in range(rank)])
    return x


@translation("grid_sampler")
def grid_sampler(
    call: Call, x: Value, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """An image read at places."""
    new = call.graph.opset >= 20
    if x.rank == 5 and not new:
        call.unsupported("opset_version of at least 20 was required for volumes", call.graph.opset,
                         "pass opset_version=20")  # fmt: skip
    mode = (_GRID_MODES if new else _OLD_GRID_MODES)[interpolation_mode]
    return call.op("GridSample", x, grid, mode=mode, padding_mode=_PADDINGS[padding_mode],
                   align_corners=int(align_corners))  # fmt: skip
