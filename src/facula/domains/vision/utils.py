"""Several images as one picture."""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.ops.table.registry import F

from .transforms.functional import to_pil_image

__all__ = ["make_grid", "save_image"]


def _scaled(image: Any, limits: Any) -> Any:
    low, high = limits or (float(image.min()), float(image.max()))
    return (image.clamp(low, high) - low) / max(high - low, 1e-5)


def make_grid(
    tensor: Any,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Any:
    """Images `[N, C, H, W]`, or a list of them, beside and below each other, with borders between."""
    images = F.stack(list(tensor), 0) if isinstance(tensor, (list, tuple)) else tensor
    while images.dim() < 4:
        images = images[None]
    if images.shape[1] == 1:
        images = F.cat([images] * 3, 1)
    if normalize:
        each = [_scaled(image, value_range) for image in images] if scale_each else None
        images = F.stack(each) if each else _scaled(images, value_range)
    count, channels, high, wide = images.shape
    if count == 1:
        return images[0]
    columns = min(nrow, count)
    rows = math.ceil(count / columns)
    shape = (channels, (high + padding) * rows + padding, (wide + padding) * columns + padding)
    grid = F.full(shape, pad_value, dtype=images.dtype, device=images.device)
    for i in range(count):
        top = i // columns * (high + padding) + padding
        left = i % columns * (wide + padding) + padding
        grid[:, top : top + high, left : left + wide] = images[i]
    return grid


def save_image(tensor: core.Tensor, fp: object, format: str | None = None, **settings: Any) -> None:
    """Images as one picture in a file."""
    grid = make_grid(tensor, **settings)
    pixels = (grid * 255 + 0.5).clamp(0, 255).to(core.uint8)
    to_pil_image(pixels).save(fp, format=format)
