"""Reading and writing images, under the names by which torchvision calls its compiled decoders.

Takes bytes as uint8 tensors, and files. Gives uint8 (or uint16) tensors `[channels, height, width]`,
by Pillow, an extra.
Keeps true: what is no image, or a broken one, is a RuntimeError that says which kind was expected;
files are written whole or not at all; importing this module defines the operators.
"""

from __future__ import annotations

import io
import struct
from typing import Any

from facula import core
from facula.core.errors import fail, said
from facula.ops.table.registry import TABLE, operator
from facula.serialization.files import written_atomically
from facula.torch_api import library

from .._extras import extra

#: modes as torchvision numbers them: 0 leaves an image as it is, and Pillow's names of the others
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_DECODE = "(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor"


class _Damaged(Exception):
    """What is wrong with an image that Pillow takes."""


def _bytes(op: str, data: Any) -> bytes:
    if data.dtype is not core.uint8 or data.dim() != 1 or not data.numel():
        required = "a one-dimensional uint8 tensor with bytes was required (Expected a non empty "
        required += "1-dimensional tensor)"
        got = f"{data.dtype} of shape {list(data.shape)}"
        fail(RuntimeError, op, required, got, hint="read_file() gives the bytes of a file")
    return bytes(data.contiguous().numpy())


def _opened(op: str, data: object, kinds: tuple[Any, ...], mode: int = 0) -> Any:
    """The image that the bytes hold, loaded."""
    raw, image_module = _bytes(op, data), extra("PIL.Image", op)
    try:
        image = image_module.open(io.BytesIO(raw), formats=kinds)
        if mode == 1 and image.format == "JPEG":
            image.draft("L", image.size)  # the file's own brightness, not one of colours out of it
        image.load()
    except image_module.DecompressionBombError as error:
        hint = "PIL.Image.MAX_IMAGE_PIXELS is the limit"
        fail(
            RuntimeError, op, "an image of a size that can be meant was required", error, hint=hint
        )
    except Exception as error:
        required = f"a whole image ({' or '.join(kinds)}) was required"
        hint = "the bytes are cut off, damaged, or of another format"
        fail(RuntimeError, op, required, f"{len(raw)} bytes: {said(error)}", hint=hint)
    return image


def _pixels(image: Any, mode: int) -> Any:
    """A decoded image as a tensor `[channels, height, width]` in a mode."""
    # lazily: importing facula imports no NumPy
    import numpy

    if image.mode in ("I;16", "I;16B", "I"):  # 16 bits a pixel
        values = numpy.asarray(image).astype(numpy.uint16)[None]
        channels = {3: 3, 4: 4}.get(mode, 1)
        return core.from_numpy(numpy.repeat(values, channels, 0).copy())
    wanted = _MODES.get(mode)
    if wanted is None and image.mode == "P" and image.format == "PNG":
        return core.from_numpy(numpy.array(image)[None])  # places in the palette: classes of a mask
    if wanted is None:
        plain = {"P": "RGB", "1": "L", "CMYK": "RGB", "YCbCr": "RGB", "PA": "RGBA"}
        transparent = image.mode == "P" and "transparency" in image.info
        wanted = "RGBA" if transparent else plain.get(image.mode, image.mode)
    if wanted in ("L", "LA") and image.format == "PNG" and image.mode in ("RGB", "RGBA", "P", "PA"):
        values = _brightness(numpy.array(image.convert("RGBA")))[..., : len(wanted)]
        return core.from_numpy(numpy.ascontiguousarray(values.transpose(2, 0, 1)))
    if image.mode != wanted:
        image = image.convert(wanted)
    values = numpy.array(image, dtype=numpy.uint8)
    values = values[None] if values.ndim == 2 else values.transpose(2, 0, 1)
    return core.from_numpy(numpy.ascontiguousarray(values))


def _brightness(pixels: Any) -> Any:
    """Brightness and opacity `[..., 2]` of colours `[..., 4]`, rounded down, as libpng makes it of 2**15ths."""
    weights = [int(part * 32768) for part in (0.2989, 0.587)]
    colours = pixels[..., :3].astype("int64")
    grey = colours @ [*weights, 32768 - sum(weights)] >> 15
    alike = (colours == colours[..., :1]).all(-1)
    pixels[..., 0] = grey * ~alike + colours[..., 0] * alike
    return pixels[..., ::3]


def decoded(op: str, kinds: Any, data: object, mode: int, turned: bool = False) -> Any:
    """An image of one of some formats as a tensor."""
    if mode and mode not in _MODES:
        fail(
            RuntimeError, op, "a mode from 0 to 4 was required", mode, hint="ImageReadMode has them"
        )
    image = _opened(op, data, kinds, mode)
    try:
        if turned:
            image = extra("PIL.ImageOps", op).exif_transpose(image)
        return _pixels(image, mode)
    except (EOFError, OSError, ValueError, SyntaxError, LookupError, struct.error) as error:
        hint = "the bytes are damaged: leave apply_exif_orientation out"
        return fail(
            RuntimeError, op, "an image that can be converted was required", error, hint=hint
        )


def _define(name: str, kinds: tuple[str, ...], schema: str) -> None:
    """Enter a decoder into the table."""

    class Decode:
        dynamic = True

        def cpu(data: Any, *settings: Any) -> Any:
            return decoded(name, kinds, data, *settings)

    Decode.__doc__ = f"An image ({', '.join(kinds)}) as a tensor [channels, height, width]."
    operator(f"image::{name}{schema}", names=(), out=False, inplace=False, serves=True)(Decode)


_define("decode_png", ("PNG",), _DECODE)
_define("decode_jpeg", ("JPEG",), _DECODE)
_define("decode_webp", ("WEBP",), "(Tensor data, int mode) -> Tensor")


@operator(f"image::decode_image{_DECODE}", names=(), out=False, inplace=False, serves=True)
class DecodeImage:
    """An image of any known format; a GIF with several pictures has one more dimension."""

    dynamic = True

    def cpu(data, mode, apply_exif_orientation):
        if _bytes("decode_image", data)[:3] == b"GIF":
            return TABLE["image::decode_gif"](data)
        kinds = ("PNG", "JPEG", "WEBP")
        return decoded("decode_image", kinds, data, mode, apply_exif_orientation)


@operator(
    "image::decode_gif(Tensor data) -> Tensor", names=(), out=False, inplace=False, serves=True
)
class DecodeGif:
    """The pictures of a GIF: [3, H, W], or [pictures, 3, H, W] where there are several."""

    dynamic = True

    def cpu(data):
        image = _opened("decode_gif", data, ("GIF",))
        try:
            canvas, count = image.size, getattr(image, "n_frames", 1)
            _check_pixels(count * image.width * image.height)
            frames = []
            for frame in range(count):
                image.seek(frame)
                if image.size != canvas:  # Pillow's memory is not what it says then
                    raise _Damaged(f"a picture of {image.size} in one of {canvas}")
                frames.append(_picture(image))
        except Exception as error:  # Pillow has many, its error for bombs among them
            required, hint = "whole pictures were required", "the bytes are cut off or damaged"
            fail(RuntimeError, "decode_gif", required, said(error), hint=hint)
        return frames[0] if len(frames) == 1 else TABLE["stack"](frames, 0)


def _picture(image: Any) -> Any:
    """The colours of one picture of a GIF, where nothing is drawn the background's."""
    import numpy  # lazily: importing facula imports no NumPy

    colours = numpy.array(image.convert("RGBA"))
    place, palette = image.info.get("background", 0), getattr(image, "global_palette", None)
    found = palette.getdata()[1][3 * place : 3 * place + 3] if palette is not None else b""
    back = numpy.frombuffer(bytes(found).ljust(3, b"\0"), numpy.uint8) if found else place
    values = numpy.where(colours[..., 3:] == 0, back, colours[..., :3]).astype(numpy.uint8)
    return core.from_numpy(numpy.ascontiguousarray(values.transpose(2, 0, 1)))


def _check_pixels(count: int) -> None:
    """A few bytes can stand for any number of large pictures."""
    limit = extra("PIL.Image", "decode_gif").MAX_IMAGE_PIXELS
    if limit is not None and count > 8 * limit:
        raise _Damaged(f"{count} pixels together, of 8 times PIL.Image.MAX_IMAGE_PIXELS")


def _encoded(op: str, data: core.Tensor, kind: str, **settings: object) -> Any:
    if data.dtype is not core.uint8 or data.dim() != 3 or data.shape[0] not in (1, 3):
        required = "a uint8 image [channels, height, width] of 1 or 3 channels was required"
        got = f"{data.dtype} of shape {list(data.shape)}"
        fail(RuntimeError, op, required, got, hint="(image * 255).to(uint8) for floats in [0, 1]")
    if not data.numel():
        fail(
            RuntimeError,
            op,
            "an image with pixels was required",
            list(data.shape),
            hint="none is empty",
        )
    # lazily: importing facula imports no NumPy
    import numpy

    values = data.contiguous().numpy()
    values = values[0] if len(values) == 1 else numpy.ascontiguousarray(values.transpose(1, 2, 0))
    stream = io.BytesIO()
    extra("PIL.Image", op).fromarray(values).save(stream, kind, **settings)
    return core.frombuffer(bytearray(stream.getvalue()), dtype=core.uint8)


@operator(
    "image::encode_png(Tensor data, int compression_level) -> Tensor",
    names=(),
    out=False,
    inplace=False,
    serves=True,
)
class EncodePng:
    """An image as the bytes of a PNG file."""

    dynamic = True

    def cpu(data, compression_level):
        if not 0 <= compression_level <= 9:
            required, hint = "a compression level from 0 to 9 was required", "6 is the default"
            fail(RuntimeError, "encode_png", required, compression_level, hint=hint)
        return _encoded("encode_png", data, "PNG", compress_level=compression_level)


@operator(
    "image::encode_jpeg(Tensor data, int quality) -> Tensor",
    names=(),
    out=False,
    inplace=False,
    serves=True,
)
class EncodeJpeg:
    """An image as the bytes of a JPEG file."""

    dynamic = True

    def cpu(data, quality):
        return _encoded("encode_jpeg", data, "JPEG", quality=quality)


@operator(
    "image::read_file(str filename) -> Tensor", names=(), out=False, inplace=False, serves=True
)
class ReadFile:
    """The bytes of a file."""

    dynamic = True

    def cpu(filename):
        try:
            with open(filename, "rb") as file:
                data = file.read()
        except OSError as error:
            required, hint = "a file that can be read was required", "check the path"
            fail(RuntimeError, "read_file", required, f"{filename}: {error.strerror}", hint=hint)
        if not data:
            hint = "the file may not be written yet"
            fail(RuntimeError, "read_file", "a file with bytes was required", filename, hint=hint)
        return core.frombuffer(bytearray(data), dtype=core.uint8)


def write_file(filename: str, data: object) -> None:
    """Bytes as a file, which is there whole or not at all."""
    content = _bytes("write_file", data)
    with written_atomically(filename) as file:
        file.write(content)


library.define("image::write_file", "(str filename, Tensor data) -> ()")
library.impl("image::write_file", "CompositeExplicitAutograd", write_file)
