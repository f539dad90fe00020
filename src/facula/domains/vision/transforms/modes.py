"""How pixels between pixels are found."""

from __future__ import annotations

from enum import Enum

from facula.core.errors import fail


class InterpolationMode(Enum):
    """How pixels between pixels are found."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


#: the numbers that Pillow has for some
_PIL = {0: "nearest", 2: "bilinear", 3: "bicubic"}
_TAKEN = ("nearest", "nearest-exact", "bilinear", "bicubic")


def mode_of(op: str, interpolation: InterpolationMode) -> str:
    """The word that `interpolate` and `grid_sample` know."""
    if isinstance(interpolation, InterpolationMode):
        word = interpolation.value
    else:
        word = _PIL.get(interpolation, interpolation)
    if word not in _TAKEN:
        required = f"an interpolation out of {', '.join(_TAKEN)} was required"
        fail(ValueError, op, required, repr(interpolation), hint="InterpolationMode.BILINEAR")
    return word
