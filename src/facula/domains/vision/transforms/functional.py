"""Functions of images: geometry, colour, conversions.

Takes: tensors `[..., channels, height, width]` (floats in [0, 1], or uint8), or images of Pillow, which come back
as such.
Gives: new images. Keeps true: sizes are (height, width), `padding` is left, top, right, bottom.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.ops.table.registry import F

from ..._extras import extra
from .modes import InterpolationMode, mode_of

__all__ = [
    "InterpolationMode", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue",
    "adjust_saturation", "adjust_sharpness", "affine", "autocontrast", "center_crop",
    "convert_image_dtype", "crop", "equalize", "erase", "five_crop", "gaussian_blur",
    "get_dimensions", "get_image_num_channels", "get_image_size", "hflip", "invert", "normalize",
    "pad", "perspective", "pil_to_tensor", "posterize", "resize", "resized_crop", "rgb_to_grayscale",
    "rotate", "solarize", "ten_crop", "to_grayscale", "to_pil_image", "to_tensor", "vflip",
]  # fmt: skip


# ------------------------------------------------------------------ kinds of images


def _is_pil(image: object) -> bool:
    return type(image).__module__.startswith("PIL.")


def _either(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors that takes Pillow's images as well, and gives such."""

    @functools.wraps(function)
    def run(img: core.Tensor, *args: Any, **kwargs: Any) -> Any:
        if isinstance(img, core.Tensor):
            if img.dim() < 2:
                required = (
                    "an image [..., height, width] was required (Tensor is not a torch image.)"
                )
                fail(TypeError, function.__name__, required, list(img.shape), hint="channels first")
            return function(img, *args, **kwargs)
        if not _is_pil(img):
            required = "a tensor or an image of Pillow was required"
            hint = "to_tensor() takes arrays of NumPy"
            fail(TypeError, function.__name__, required, type(img).__name__, hint=hint)
        result = function(pil_to_tensor(img), *args, **kwargs)
        if isinstance(result, tuple):
            return tuple(to_pil_image(each) for each in result)
        return to_pil_image(result)

    return run


def pil_to_tensor(pic: object) -> Any:
    """An image of Pillow as `[channels, height, width]`, its numbers as they are."""
    # lazily: importing facula imports no NumPy
    import numpy

    if not _is_pil(pic):
        required, hint = "an image of Pillow was required", "to_tensor() takes arrays as well"
        fail(
            TypeError,
            "pil_to_tensor",
            required,
            f"{type(pic).__name__} (pic should be PIL Image)",
            hint=hint,
        )
    values = numpy.array(pic, copy=True)
    if values.dtype == numpy.bool_:
        values = values.astype(numpy.uint8) * 255
    values = values[None] if values.ndim == 2 else values.transpose(2, 0, 1)
    return core.from_numpy(numpy.ascontiguousarray(values))


def to_tensor(pic: Any) -> Any:
    """An image, or an array `[height, width, channels]`, as floats; bytes become numbers in [0, 1]."""
    if _is_pil(pic):
        x = pil_to_tensor(pic)
    elif type(pic).__module__.partition(".")[0] == "numpy" and pic.ndim in (2, 3):
        x = core.from_numpy(pic.copy())
        x = (x[..., None] if x.dim() == 2 else x).permute(2, 0, 1).contiguous()
    else:
        got = f"{type(pic).__name__} of {getattr(pic, 'ndim', 'no')} dimensions"
        required = "an image of Pillow, or an array of 2 or 3 dimensions, was required"
        fail(TypeError, "to_tensor", required, got, hint="(pic should be PIL Image or ndarray)")
    return x.to(core.get_default_dtype()) / 255 if x.dtype is core.uint8 else x


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor `[channels, height, width]` (floats in [0, 1], or bytes), or an array, as Pillow's."""
    images = extra("PIL.Image", "to_pil_image")
    if isinstance(pic, core.Tensor):
        x = pic[None] if pic.dim() == 2 else pic
        if x.dim() != 3 or x.shape[0] > 4:
            required = "an image of 1 to 4 channels was required (pic should be 2/3 dimensional)"
            fail(ValueError, "to_pil_image", required, list(pic.shape), hint="one image at a time")
        if x.dtype.is_floating_point and mode != "F":
            x = (x * 255).to(core.uint8)
        values = x.detach().cpu().permute(1, 2, 0).contiguous().numpy()
    else:
        values = pic[..., None] if pic.ndim == 2 else pic
    values = values[..., 0] if values.shape[-1] == 1 else values
    if values.ndim == 3 and values.shape[-1] == 2:
        return images.frombytes("LA", values.shape[1::-1], values.tobytes())
    made = images.fromarray(values)
    return made if mode in (None, made.mode) else made.convert(mode)


def get_dimensions(img: core.Tensor) -> list[int]:
    """Channels, height, width."""
    if isinstance(img, core.Tensor):
        return [1 if img.dim() == 2 else img.shape[-3], *img.shape[-2:]]
    return [len(img.getbands()), img.height, img.width]


def get_image_size(img: Any) -> list[int]:
    """Width, height."""
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img: Any) -> int:
    """How many channels there are."""
    return get_dimensions(img)[0]


def _most(dtype: core.dtype) -> float:
    return 1.0 if dtype.is_floating_point else core.iinfo(dtype).max


def convert_image_dtype(image: core.Tensor, dtype: core.dtype = core.float32) -> Any:
    """The same image in another dtype: floats are in [0, 1], integers fill their range."""
    if image.dtype is dtype:
        return image
    if image.dtype.is_floating_point:
        if dtype.is_floating_point:
            return image.to(dtype)
        return (image * (_most(dtype) + 1 - 1e-3)).to(dtype)
    if dtype.is_floating_point:
        return image.to(dtype) / _most(image.dtype)
    given, wanted = int(_most(image.dtype)), int(_most(dtype))
    if given > wanted:
        return (image // ((given + 1) // (wanted + 1))).to(dtype)
    return image.to(dtype) * ((wanted + 1) // (given + 1))


def _as_float(image: core.Tensor) -> Any:
    return image if image.dtype.is_floating_point else image.to(core.float32)


def _as_given(values: core.Tensor, image: core.Tensor) -> Any:
    """Numbers of an image's own range, in its dtype."""
    if image.dtype.is_floating_point:
        return values.to(image.dtype)
    return values.round().clamp(0, _most(image.dtype)).to(image.dtype)


# ------------------------------------------------------------------ geometry


@_either
def hflip(img: core.Tensor) -> Any:
    """Left and right changed."""
    return img.flip(-1)


@_either
def vflip(img: Any) -> Any:
    """Up and down changed."""
    return img.flip(-2)


@_either
def crop(img: core.Tensor, top: int, left: int, height: int, width: int) -> Any:
    """A part; what lies outside of the image is 0."""
    high, wide = img.shape[-2:]
    part = img[..., max(top, 0) : max(top + height, 0), max(left, 0) : max(left + width, 0)]
    border = [max(-left, 0), max(left + width - max(wide, left), 0)]
    border += [max(-top, 0), max(top + height - max(high, top), 0)]
    sizes = (height - part.shape[-2] - border[2], width - part.shape[-1] - border[0])
    if sizes == (0, 0) and not any(border):
        return part
    return nn.functional.pad(part, [border[0], sizes[1], border[2], sizes[0]])


def _two(size: int | Sequence[int]) -> list[int]:
    if isinstance(size, int):
        return [size, size]
    size = list(size)
    return size * 2 if len(size) == 1 else size


@_either
def center_crop(img: core.Tensor, output_size: int | Sequence[int]) -> Any:
    """The middle; a small image gets a border of 0."""
    height, width = _two(output_size)
    high, wide = img.shape[-2:]
    if height > high or width > wide:
        across, down = max(width - wide, 0), max(height - high, 0)
        border = [across // 2, (across + 1) // 2, down // 2, (down + 1) // 2]
        img = nn.functional.pad(img, border)
        high, wide = img.shape[-2:]
    return crop(img, round((high - height) / 2), round((wide - width) / 2), height, width)


@_either
def five_crop(img: core.Tensor, size: Any) -> Any:
    """The four corners and the middle."""
    height, width = _two(size)
    high, wide = img.shape[-2:]
    if height > high or width > wide:
        required = f"a size of at most {[high, wide]} was required (Requested crop size is bigger)"
        fail(ValueError, "five_crop", required, [height, width], hint="pad() the image first")
    places = [(0, 0), (0, wide - width), (high - height, 0), (high - height, wide - width)]
    corners = tuple(crop(img, *place, height, width) for place in places)
    return (*corners, center_crop(img, [height, width]))


@_either
def ten_crop(img: core.Tensor, size: object, vertical_flip: bool = False) -> Any:
    """Five parts of the image, and of its mirror image."""
    return (*five_crop(img, size), *five_crop(vflip(img) if vertical_flip else hflip(img), size))


_PADDINGS = {
    "edge": "replicate",
    "reflect": "reflect",
    "symmetric": "symmetric",
    "constant": "constant",
}


@_either
def pad(img: core.Tensor, padding: Any, fill: float = 0, padding_mode: str = "constant") -> Any:
    """A border: all sides, (left and right, top and bottom), or left, top, right, bottom."""
    sides = [padding] if isinstance(padding, int) else list(padding)
    if len(sides) not in (1, 2, 4):
        required, hint = "1, 2 or 4 widths were required", "left, top, right, bottom"
        fail(ValueError, "pad", required, padding, hint=hint)
    if padding_mode not in _PADDINGS:
        required = f"a padding mode out of {', '.join(_PADDINGS)} was required"
        fail(ValueError, "pad", required, repr(padding_mode), hint="'constant' is the default")
    left, top, right, bottom = (sides * 4)[:4] if len(sides) == 1 else (sides * 2)[:4]
    if padding_mode == "symmetric":
        rows, columns = (
            _mirrored(n, *ends)
            for n, ends in zip(img.shape[-2:], ((top, bottom), (left, right)), strict=True)
        )
        return img[..., rows, :][..., columns]
    border, mode = [left, right, top, bottom], _PADDINGS[padding_mode]
    if mode == "constant":
        return nn.functional.pad(img, border, mode, fill)
    flat = _as_float(img).reshape((-1, 1, *img.shape[-2:]))
    out = nn.functional.pad(flat, border, mode)
    return _as_given(out.reshape((*img.shape[:-2], *out.shape[-2:])), img)


def _mirrored(size: int, before: int, after: int) -> Any:
    """Positions of a line that is mirrored at its ends, the ends being repeated."""
    places = (F.arange(-before, size + after)) % (2 * size)
    return F.where(places < size, places, 2 * size - 1 - places)


def _short_side(img: core.Tensor, size: Any, max_size: int | None) -> list[int]:
    """The height and width that a size stands for: one number is that of the shorter side."""
    sizes = [size] if isinstance(size, int) else list(size)
    if len(sizes) == 2:
        return sizes
    high, wide = img.shape[-2:]
    short, long = min(high, wide), max(high, wide)
    wanted, other = sizes[0], int(sizes[0] * long / short)
    if max_size is not None:
        if max_size <= wanted:
            required = f"a max_size above {wanted}, the size of the shorter side, was required"
            fail(ValueError, "resize", required, max_size, hint="leave it out for no limit")
        if other > max_size:
            wanted, other = int(max_size * wanted / other), max_size
    return [wanted, other] if high <= wide else [other, wanted]


@_either
def resize(
    img: core.Tensor,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """Another size: (height, width), or that of the shorter side."""
    mode, wanted = mode_of("resize", interpolation), _short_side(img, size, max_size)
    if list(img.shape[-2:]) == wanted:
        return img
    flat = _as_float(img).reshape((-1, 1, *img.shape[-2:]))
    smooth = mode in ("bilinear", "bicubic")
    settings: dict[str, Any] = {}
    if smooth:
        settings = {"align_corners": False, "antialias": bool(antialias)}
    out = nn.functional.interpolate(flat, size=wanted, mode=mode, **settings)
    return _as_given(out.reshape((*img.shape[:-2], *wanted)), img)


@_either
def resized_crop(
    img: core.Tensor,
    top: int,
    left: int,
    height: int,
    width: int,
    size: object,
    interpolation: object = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """A part, in another size."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def _sampled(
    img: core.Tensor, grid: core.Tensor, interpolation: InterpolationMode, fill: Any, op: str
) -> Any:
    """The image at the places of a grid `[H, W, 2]`; `fill` where these lie outside."""
    flat = _as_float(img).reshape((1, -1, *img.shape[-2:]))
    grid, mode = grid[None].to(flat.dtype), mode_of(op, interpolation)
    inside = F.ones_like(flat[:, :1]) if fill is not None else None
    both = flat if inside is None else F.cat([flat, inside], 1)
    out = nn.functional.grid_sample(
        both, grid, mode=mode, padding_mode="zeros", align_corners=False
    )
    if inside is not None:
        share, out = out[:, -1:], out[:, :-1]
        values = [fill] if isinstance(fill, (int, float)) else list(fill)
        colour = core.tensor(values, dtype=out.dtype).reshape((1, -1, 1, 1))
        colour = colour.expand(1, img.shape[-3], 1, 1).repeat(
            1, out.shape[1] // img.shape[-3], 1, 1
        )
        known = share >= 0.5 if mode == "nearest" else share
        out = F.where(known, out, colour) if mode == "nearest" else out + (1 - known) * colour
    return _as_given(out.reshape((*img.shape[:-2], *out.shape[-2:])), img)


def _affine_grid(matrix: list[float], size: Sequence[int], out: tuple[Any, ...]) -> Any:
    """Places of an output in an image, for a map from pixels around its centre."""
    high, wide = out
    xs = F.arange(wide, dtype=core.float32) + 0.5 - wide / 2
    ys = F.arange(high, dtype=core.float32) + 0.5 - high / 2
    a, b, c, d, e, f = matrix
    x = a * xs[None] + b * ys[:, None] + c
    y = d * xs[None] + e * ys[:, None] + f
    return F.stack([x / (0.5 * size[1]), y / (0.5 * size[0])], -1)


def _inverse_affine(
    center: list[Any], angle: float, translate: Sequence[Any], scale: float, shear: list[Any]
) -> list[float]:
    """The map from places of the output to places of the input, around the centre."""
    turn, sx, sy = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    matrix = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0]
    for row in (0, 3):
        moved = matrix[row] * (-center[0] - translate[0]) + matrix[row + 1] * (
            -center[1] - translate[1]
        )
        matrix[row + 2] = moved + center[row // 3]
    return matrix


@_either
def affine(
    img: core.Tensor,
    angle: float,
    translate: Any,
    scale: float,
    shear: Any,
    interpolation: Any = InterpolationMode.NEAREST,
    fill: Any = None,
    center: Any = None,
) -> Any:
    """Turned (clockwise, in degrees), moved (across, down), scaled and sheared around the centre."""
    if scale <= 0:
        fail(
            ValueError, "affine", "a positive scale was required", scale, hint="1.0 keeps the size"
        )
    shears = [float(shear), 0.0] if isinstance(shear, (int, float)) else (list(shear) + [0.0])[:2]
    high, wide = img.shape[-2:]
    middle = [0.0, 0.0] if center is None else [center[0] - wide / 2, center[1] - high / 2]
    matrix = _inverse_affine(middle, angle, translate, scale, shears)
    grid = _affine_grid(matrix, (high, wide), (high, wide))
    return _sampled(img, grid, interpolation, fill, "affine")


@_either
def rotate(
    img: core.Tensor,
    angle: float,
    interpolation: InterpolationMode = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Any = None,
    fill: object = None,
) -> Any:
    """Turned against the clock, in degrees; with `expand` as large as is needed to hold all of it."""
    high, wide = img.shape[-2:]
    middle = [0.0, 0.0] if center is None else [center[0] - wide / 2, center[1] - high / 2]
    matrix = _inverse_affine(middle, -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    out = (high, wide)
    if expand:
        turn = math.radians(angle)
        cos, sin = abs(math.cos(turn)), abs(math.sin(turn))
        out = (math.ceil(high * cos + wide * sin - 1e-4), math.ceil(wide * cos + high * sin - 1e-4))
    return _sampled(img, _affine_grid(matrix, (high, wide), out), interpolation, fill, "rotate")


@_either
def perspective(
    img: core.Tensor,
    startpoints: Any,
    endpoints: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    fill: Any = None,
) -> Any:
    """Seen so that four points (x, y) of the image come to lie at four others."""
    rows, wanted = [], []
    for (x, y), (u, v) in zip(endpoints, startpoints, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
        wanted += [u, v]
    system = core.tensor(rows, dtype=core.float64), core.tensor(wanted, dtype=core.float64)
    a, b, c, d, e, f, g, h = F.linalg_solve(*system).tolist()
    high, wide = img.shape[-2:]
    xs = (F.arange(wide, dtype=core.float64) + 0.5)[None]
    ys = (F.arange(high, dtype=core.float64) + 0.5)[:, None]
    below = g * xs + h * ys + 1
    x, y = (a * xs + b * ys + c) / below, (d * xs + e * ys + f) / below
    grid = F.stack([x / (0.5 * wide) - 1, y / (0.5 * high) - 1], -1)
    return _sampled(img, grid, interpolation, fill, "perspective")


def erase(
    img: core.Tensor, i: int, j: int, h: int, w: int, v: object, inplace: bool = False
) -> Any:
    """A rectangle overwritten with a value."""
    img = img if inplace else img.clone()
    img[..., i : i + h, j : j + w] = v
    return img


# ------------------------------------------------------------------ numbers and colour


def normalize(tensor: core.Tensor, mean: object, std: Any, inplace: bool = False) -> Any:
    """Each channel less its mean, divided by its deviation."""
    if not isinstance(tensor, core.Tensor) or not tensor.dtype.is_floating_point:
        got = getattr(tensor, "dtype", type(tensor).__name__)
        required = "a tensor of floats was required (Input tensor should be a float tensor)"
        fail(TypeError, "normalize", required, got, hint="convert_image_dtype() makes one")
    means, deviations = (
        core.as_tensor(v, dtype=tensor.dtype).reshape((-1, 1, 1)) for v in (mean, std)
    )
    if bool((deviations == 0).any()):
        required, hint = "deviations other than 0 were required", "a constant channel has none"
        fail(ValueError, "normalize", required, list(std), hint=hint)
    if inplace:
        return tensor.sub_(means).div_(deviations)
    return (tensor - means) / deviations


_GREY = (0.2989, 0.587, 0.114)


def _grey(img: core.Tensor) -> Any:
    if img.shape[-3] not in (1, 3):
        required = "an image of 1 or 3 channels was required"
        fail(
            TypeError,
            "rgb_to_grayscale",
            required,
            img.shape[-3],
            hint="channels come before height",
        )
    if img.shape[-3] == 1:
        return img.clone()
    r, g, b = _as_float(img).unbind(-3)
    grey = _GREY[0] * r + _GREY[1] * g + _GREY[2] * b
    return (grey if img.dtype.is_floating_point else grey.floor()).to(img.dtype).unsqueeze(-3)


@_either
def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Brightness, in one channel or three equal ones."""
    grey = _grey(img)
    if num_output_channels == 3:
        return grey.expand((*grey.shape[:-3], 3, *grey.shape[-2:]))
    return grey


to_grayscale = rgb_to_grayscale


def _factor(op: str, name: str, value: float) -> None:
    if value < 0:
        required = f"{name} of at least 0 was required ({name} is not non-negative)"
        fail(ValueError, op, required, value, hint="1 keeps the image as it is")


def _blend(img: core.Tensor, other: Any, factor: float) -> Any:
    mixed = factor * _as_float(img) + (1 - factor) * other
    mixed = mixed.clamp(0, _most(img.dtype))
    return mixed.to(img.dtype)


@_either
def adjust_brightness(img: core.Tensor, brightness_factor: float) -> Any:
    """All numbers times a factor."""
    _factor("adjust_brightness", "brightness_factor", brightness_factor)
    return _blend(img, 0.0, brightness_factor)


@_either
def adjust_contrast(img: core.Tensor, contrast_factor: float) -> Any:
    """Distances from the mean brightness times a factor."""
    _factor("adjust_contrast", "contrast_factor", contrast_factor)
    mean = _as_float(_grey(img)).mean((-3, -2, -1), keepdim=True)
    return _blend(img, mean, contrast_factor)


@_either
def adjust_saturation(img: core.Tensor, saturation_factor: float) -> Any:
    """Distances from the grey image times a factor."""
    _factor("adjust_saturation", "saturation_factor", saturation_factor)
    return img if img.shape[-3] == 1 else _blend(img, _as_float(_grey(img)), saturation_factor)


@_either
def adjust_gamma(img: core.Tensor, gamma: float, gain: float = 1) -> Any:
    """Numbers in [0, 1] to a power."""
    _factor("adjust_gamma", "gamma", gamma)
    plain = convert_image_dtype(img, core.float32) if not img.dtype.is_floating_point else img
    return convert_image_dtype((gain * plain**gamma).clamp(0, 1), img.dtype)


@_either
def adjust_hue(img: core.Tensor, hue_factor: float) -> Any:
    """Colours moved around the circle, by a share of it from -0.5 to 0.5."""
    if not -0.5 <= hue_factor <= 0.5:
        required = "a hue_factor in [-0.5, 0.5] was required (is not in)"
        fail(ValueError, "adjust_hue", required, hue_factor, hint="0 keeps the colours")
    if img.shape[-3] == 1:
        return img
    plain = convert_image_dtype(img, core.float32) if not img.dtype.is_floating_point else img
    hue, saturation, value = _to_hsv(plain)
    out = _from_hsv((hue + hue_factor) % 1.0, saturation, value)
    return convert_image_dtype(out, img.dtype)


def _to_hsv(img: core.Tensor) -> tuple[Any, Any, Any]:
    r, g, b = img.unbind(-3)
    top, low = F.maximum(F.maximum(r, g), b), F.minimum(F.minimum(r, g), b)
    span = top - low
    safe = F.where(span == 0, F.ones_like(span), span)
    to = [(top - x) / safe for x in (r, g, b)]
    hue = F.where(top == r, to[2] - to[1], F.where(top == g, 2 + to[0] - to[2], 4 + to[1] - to[0]))
    saturation = span / F.where(top == 0, F.ones_like(top), top)
    return (hue / 6 + 1) % 1.0, saturation, top


def _from_hsv(hue: core.Tensor, saturation: core.Tensor, value: core.Tensor) -> Any:
    channels = []
    for shift in (5.0, 3.0, 1.0):  # red, green, blue
        k = (shift + hue * 6) % 6.0
        channels.append(value - value * saturation * F.minimum(k, 4 - k).clamp(0, 1))
    return F.stack(channels, -3).clamp(0, 1)


@_either
def invert(img: core.Tensor) -> Any:
    """The negative."""
    return _most(img.dtype) - img


@_either
def posterize(img: core.Tensor, bits: int) -> Any:
    """The upper bits of bytes."""
    if img.dtype is not core.uint8:
        required, hint = "a uint8 image was required", "convert_image_dtype(img, uint8)"
        fail(TypeError, "posterize", required, img.dtype, hint=hint)
    return img & (256 - (1 << (8 - bits)))


@_either
def solarize(img: core.Tensor, threshold: float) -> Any:
    """The negative of what is bright."""
    return F.where(img >= threshold, _most(img.dtype) - img, img)


@_either
def autocontrast(img: core.Tensor) -> Any:
    """Each channel stretched to the whole range."""
    x, most = _as_float(img), _most(img.dtype)
    low, high = x.amin((-2, -1), keepdim=True), x.amax((-2, -1), keepdim=True)
    flat = high == low
    span = F.where(flat, F.ones_like(high), high - low)
    out = F.where(flat, x, (x - low) * (most / span))
    return out.clamp(0, most).to(img.dtype)


@_either
def equalize(img: core.Tensor) -> Any:
    """Each channel changed so that its numbers are equally frequent."""
    if img.dtype is not core.uint8:
        required, hint = "a uint8 image was required", "convert_image_dtype(img, uint8)"
        fail(TypeError, "equalize", required, img.dtype, hint=hint)
    planes = [_equal(plane) for plane in img.reshape((-1, *img.shape[-2:]))]
    return F.stack(planes).reshape(img.shape)


def _equal(plane: core.Tensor) -> Any:
    counts = F.bincount(plane.flatten().to(core.int64), minlength=256)
    used = counts[counts != 0]
    step = int(used[:-1].sum()) // 255
    if step == 0:
        return plane
    table = (F.cumsum(counts, 0) + step // 2) // step
    table = F.cat([table.new_zeros((1,)), table[:-1]]).clamp(0, 255)
    return table[plane.to(core.int64)].to(core.uint8)


def _kernel(size: int, sigma: float, dtype: core.dtype) -> Any:
    places = F.arange(size, dtype=dtype) - (size - 1) / 2
    weights = F.exp(-0.5 * (places / sigma) ** 2)
    return weights / weights.sum()


@_either
def gaussian_blur(img: core.Tensor, kernel_size: Any, sigma: Any = None) -> Any:
    """Smoothed: sizes (across, down) of the kernel, and its deviations."""
    sizes = _two(kernel_size)
    if any(size % 2 == 0 or size < 1 for size in sizes):
        required = "odd and positive sizes were required (kernel_size should have odd and positive)"
        fail(ValueError, "gaussian_blur", required, sizes, hint="kernel_size=[5, 5]")
    given = [0.3 * ((size - 1) * 0.5 - 1) + 0.8 for size in sizes] if sigma is None else sigma
    widths = [float(given)] * 2 if isinstance(given, (int, float)) else (list(given) * 2)[:2]
    if min(widths) <= 0:
        required, hint = "positive deviations were required", "leave sigma out for one of the size"
        fail(ValueError, "gaussian_blur", required, widths, hint=hint)
    flat = _as_float(img).reshape((-1, 1, *img.shape[-2:]))
    across, down = (_kernel(n, w, flat.dtype) for n, w in zip(sizes, widths, strict=True))
    border = [sizes[0] // 2, sizes[0] // 2, sizes[1] // 2, sizes[1] // 2]
    out = nn.functional.pad(flat, border, "reflect")
    out = nn.functional.conv2d(out, across.reshape((1, 1, 1, -1)))
    out = nn.functional.conv2d(out, down.reshape((1, 1, -1, 1)))
    return _as_given(out.reshape(img.shape), img)


@_either
def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """Distances from a smoothed image times a factor; the outermost pixels stay."""
    _factor("adjust_sharpness", "sharpness_factor", sharpness_factor)
    if min(img.shape[-2:]) <= 2:
        return img
    x = _as_float(img)
    weights = F.ones((1, 1, 3, 3), dtype=x.dtype)
    weights[0, 0, 1, 1] = 5.0
    smooth = nn.functional.conv2d(x.reshape((-1, 1, *x.shape[-2:])), weights / 13.0)
    smooth = _as_float(_as_given(smooth, img))
    blurred = x.clone()
    blurred[..., 1:-1, 1:-1] = smooth.reshape((*x.shape[:-2], *smooth.shape[-2:]))
    return _blend(img, blurred, sharpness_factor)
