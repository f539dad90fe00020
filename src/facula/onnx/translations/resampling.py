"""Interpolation, and sampling by a grid.

Takes and gives what `onnx.table` says.
Keeps true: positions and weights follow the operator's rules, for which ONNX has a name each.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.onnx.table import Call, translation
from facula.onnx.translations.pooling import batched

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
    call: Call, x: Any, sizes: Any, method: int, align_corners: bool, antialias: bool, scales: Any
) -> Any:
    """Separable interpolation to other sizes."""
    space = len(sizes)
    settings = _rule(method, align_corners)
    if antialias:
        settings["antialias"] = 1
    if antialias and call.graph.opset < 18:
        call.unsupported("opset_version of at least 18 was required for antialias=True",
                         call.graph.opset, "pass opset_version=18")  # fmt: skip

    def resize(image: Any) -> Any:
        if all(scales) and not align_corners:
            factors = call.graph.constant(_floats([1.0, 1.0, *scales]))
            return call.op("Resize", image, None, factors, **settings)
        lead = [call.graph.size(image, d) for d in range(2)]
        return call.op("Resize", image, None, None, call.graph.sizes([*lead, *sizes]), **settings)

    return batched(call, x, space, resize)


def _floats(values: list[float]) -> Any:
    return core.tensor(values, dtype=core.float32)


@translation("grid_sampler")
def grid_sampler(
    call: Call, x: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """An image read at places."""
    new = call.graph.opset >= 20
    if x.rank == 5 and not new:
        call.unsupported("opset_version of at least 20 was required for volumes", call.graph.opset,
                         "pass opset_version=20")  # fmt: skip
    mode = (_GRID_MODES if new else _OLD_GRID_MODES)[interpolation_mode]
    return call.op("GridSample", x, grid, mode=mode, padding_mode=_PADDINGS[padding_mode],
                   align_corners=int(align_corners))  # fmt: skip

