"""Images in files: reading, decoding, encoding, writing; by Pillow, an extra."""

from __future__ import annotations

from enum import Enum
from typing import Any

from facula import core
from facula.ops.table.registry import TABLE

from . import images as _images

__all__ = [
    "ImageReadMode", "decode_gif", "decode_image", "decode_jpeg", "decode_png", "decode_webp",
    "encode_jpeg", "encode_png", "read_file", "read_image", "write_file", "write_jpeg", "write_png",
]  # fmt: skip


class ImageReadMode(Enum):
    """Which channels a decoded image has."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


def _mode(mode: Any) -> int:
    return ImageReadMode[mode.upper()].value if isinstance(mode, str) else mode.value


def read_file(path: object) -> Any:
    """The bytes of a file."""
    return TABLE["image::read_file"](str(path))


def write_file(filename: object, data: object) -> None:
    """Bytes as a file, which is there whole or not at all."""
    _images.write_file(str(filename), data)


def decode_image(
    input: object, mode: object = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> Any:
    """An image, out of its bytes or from a file, as `[channels, height, width]`."""
    data = read_file(input) if not hasattr(input, "numel") else input
    return TABLE["image::decode_image"](data, _mode(mode), apply_exif_orientation)


read_image = decode_image


def decode_png(input: core.Tensor, mode: object = ImageReadMode.UNCHANGED) -> Any:
    """The image that the bytes of a PNG file hold."""
    return TABLE["image::decode_png"](input, _mode(mode))


def decode_jpeg(input: core.Tensor, mode: object = ImageReadMode.UNCHANGED) -> Any:
    """The image that the bytes of a JPEG file hold."""
    return TABLE["image::decode_jpeg"](input, _mode(mode))


def decode_webp(input: core.Tensor, mode: object = ImageReadMode.UNCHANGED) -> Any:
    """The image that the bytes of a WEBP file hold."""
    return TABLE["image::decode_webp"](input, _mode(mode))


def decode_gif(input: core.Tensor) -> Any:
    """The pictures that the bytes of a GIF file hold."""
    return TABLE["image::decode_gif"](input)


def encode_png(input: core.Tensor, compression_level: int = 6) -> Any:
    """An image as the bytes of a PNG file."""
    return TABLE["image::encode_png"](input, compression_level)


def encode_jpeg(input: core.Tensor, quality: int = 75) -> Any:
    """An image as the bytes of a JPEG file."""
    return TABLE["image::encode_jpeg"](input, quality)


def write_png(input: core.Tensor, filename: object, compression_level: int = 6) -> None:
    """An image as a PNG file."""
    write_file(filename, encode_png(input, compression_level))


def write_jpeg(input: core.Tensor, filename: object, quality: int = 75) -> None:
    """An image as a JPEG file."""
    write_file(filename, encode_jpeg(input, quality))
