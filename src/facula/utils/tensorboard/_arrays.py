"""Tensors as arrays and pictures as bytes.

Takes: tensors, arrays, numbers, figures. Gives: NumPy arrays, images of rows, columns and colors,
PNG and GIF files as bytes. Keeps true: bfloat16 and float8, which NumPy lacks, become float32.
"""

from __future__ import annotations

import io
import logging
import math
import struct
import zlib
from typing import Any

import numpy as np

from facula.core import Tensor
from facula.core.errors import fail

__all__ = ["array_of", "colors", "figure", "gif", "picture", "png", "tiles"]

_log = logging.getLogger("facula.utils.tensorboard")


def array_of(value: object) -> Any:
    """A NumPy array of a tensor, an array, a list or a number (which gets one dimension)."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        if value.dtype.is_floating_point and (
            value.dtype.itemsize == 1 or "bfloat" in str(value.dtype)
        ):
            value = value.float()
        array = value.resolve_conj().resolve_neg().numpy()
    elif isinstance(value, (list, tuple)):
        array = np.array([array_of(item) if isinstance(item, Tensor) else item for item in value])
    elif isinstance(value, np.ndarray):
        array = value
    elif np.isscalar(value):
        array = np.array([value])
    else:
        fail(
            NotImplementedError,
            "SummaryWriter",
            "an array, a tensor or a number was required (numpy array or torch tensor are expected)",
            type(value).__name__,
            "tensors of other kinds: .to_dense() first",
        )
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        _log.warning("NaN or Inf found in input tensor.")
    return array


def tiles(images: Any, columns: int = 8) -> Any:
    """Images (N, C, H, W) side by side in one image (3, rows, columns); one color is grey."""
    count, channels, high, wide = images.shape
    if channels not in (1, 3):
        fail(
            AssertionError,
            "add_images",
            "1 or 3 colors were required",
            channels,
            "dataformats says which dimension is which",
        )
    columns = min(count, columns)
    rows = math.ceil(count / columns)
    sheet = np.zeros((3, high * rows, wide * columns), dtype=images.dtype)
    for place, image in enumerate(images):
        top, left = place // columns * high, place % columns * wide
        sheet[:, top : top + high, left : left + wide] = image
    return sheet


def picture(array: Any, layout: str) -> Any:
    """An array whose dimensions `layout` names (of N, C, H, W) as rows, columns and colors."""
    layout = layout.upper()
    if (
        len(set(layout)) != len(layout)
        or not set(layout) <= set("NCHW")
        or len(layout) != array.ndim
    ):
        fail(
            AssertionError,
            "add_image",
            "a letter of N, C, H, W for each dimension was required "
            "(size of input tensor and input format are different)",
            f"dataformats {layout!r} for {array.ndim} dimensions",
            "CHW is an image with its colors first",
        )
    if layout not in ("HW",) and not set("CHW") <= set(layout):
        fail(
            AssertionError,
            "add_image",
            "the dimensions C, H and W were required",
            layout,
            "HW is a grey image",
        )
    if "N" in layout:
        array = tiles(array.transpose([layout.index(letter) for letter in "NCHW"]))
        return array.transpose(1, 2, 0)
    if layout == "HW":
        return np.stack([array] * 3, -1)
    array = array.transpose([layout.index(letter) for letter in "HWC"])
    return np.concatenate([array] * 3, 2) if array.shape[2] == 1 else array


def colors(array: Any) -> Any:
    """Bytes of an image: numbers from 0 to 1 become 0 to 255, bytes stay."""
    scale = 1 if array.dtype == np.uint8 else 255
    return (array.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(image: Any) -> bytes:
    """A PNG file of bytes (rows, columns, 1 to 4 colors)."""
    high, wide, channels = image.shape
    kind = {1: 0, 2: 4, 3: 2, 4: 6}.get(channels)
    if kind is None:
        fail(
            ValueError,
            "add_image",
            "1 to 4 colors were required",
            channels,
            "dataformats says which dimension is which",
        )
    # each row begins with its filter: none
    rows = np.zeros((high, 1 + wide * channels), dtype=np.uint8)
    rows[:, 1:] = image.reshape(high, wide * channels)
    head = struct.pack(">IIBBBBB", wide, high, 8, kind, 0, 0, 0)
    data = zlib.compress(rows.tobytes(), 6)
    return (
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")
    )


def pillow(function: str) -> Any:
    """The library Pillow, for what needs it."""
    try:
        # lazily: only moving, scaled and drawn-on images need it
        import PIL.Image
        import PIL.ImageDraw
    except ImportError as error:
        fail(
            ImportError,
            function,
            "the library Pillow was required",
            f"{type(error).__name__}: {error}",
            "pip install pillow",
        )
    return PIL


def gif(frames: Any, rate: float) -> bytes:
    """A GIF file of bytes (frames, rows, columns, colors) that shows so many a second."""
    make = pillow("add_video").Image.fromarray
    images = [make(frame.repeat(3, -1) if frame.shape[-1] == 1 else frame) for frame in frames]
    out = io.BytesIO()
    images[0].save(
        out, "GIF", save_all=True, append_images=images[1:], duration=1000 / rate, loop=0
    )
    return out.getvalue()


def figure(figures: Any, close: bool) -> Any:
    """Figures of matplotlib as one array: (colors, rows, columns), or with a first dimension."""
    # lazily: the figures come from these libraries
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def drawn(one: Any) -> Any:
        canvas = FigureCanvasAgg(one)
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[:, :, :3]
        if close:
            pyplot.close(one)
        return pixels.transpose(2, 0, 1)

    return (
        np.stack([drawn(one) for one in figures]) if isinstance(figures, list) else drawn(figures)
    )
