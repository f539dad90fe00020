"""Transforms of images as objects: made once, called on each image.

Takes: settings. Gives: callables over tensors and Pillow's images; the functions stand in `functional`.
Keeps true: random numbers come from facula's generator, so a seed decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.ops.table.registry import F as _F

from . import functional
from .modes import InterpolationMode

__all__ = [
    "CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype", "FiveCrop", "GaussianBlur",
    "Grayscale", "InterpolationMode", "Lambda", "Normalize", "PILToTensor", "Pad", "RandomAdjustSharpness",
    "RandomAffine", "RandomApply", "RandomAutocontrast", "RandomChoice", "RandomCrop", "RandomEqualize",
    "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomOrder",
    "RandomPerspective", "RandomPosterize", "RandomResizedCrop", "RandomRotation", "RandomSolarize",
    "RandomVerticalFlip", "Resize", "TenCrop", "ToPILImage", "ToTensor", "functional",
]  # fmt: skip


def _uniform(low: float, high: float) -> float:
    return float(core.empty((1,), dtype=core.float32).uniform_(low, high).item())


def _integer(low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return int(_F.randint(low, high + 1, (1,)).item())


class Compose:
    """Transforms one after the other."""

    def __init__(self, transforms: Any) -> None:
        self.transforms = transforms

    def __call__(self, img: core.Tensor) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return "\n    ".join(["Compose(", *map(repr, self.transforms)]) + "\n)"


class Lambda:
    """A function as a transform."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            required, hint = "a function was required", "Lambda(lambda img: img)"
            fail(TypeError, "Lambda", required, type(lambd).__name__, hint=hint)
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)


class ToTensor:
    """See `functional.to_tensor`."""

    def __call__(self, pic: Any) -> Any:
        return functional.to_tensor(pic)

    def __repr__(self) -> str:
        return "ToTensor()"


class PILToTensor:
    """See `functional.pil_to_tensor`."""

    def __call__(self, pic: Any) -> Any:
        return functional.pil_to_tensor(pic)


class ToPILImage:
    """See `functional.to_pil_image`."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return functional.to_pil_image(pic, self.mode)


class _Transform(nn.Module):
    """A transform that is a module; what is set is shown."""

    def extra_repr(self) -> str:
        """What is set."""
        shown = {k: v for k, v in vars(self).items() if not k.startswith("_") and k != "training"}
        return ", ".join(f"{name}={value}" for name, value in shown.items())


class ConvertImageDtype(_Transform):
    """See `functional.convert_image_dtype`."""

    def __init__(self, dtype: core.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Any) -> Any:
        return functional.convert_image_dtype(image, self.dtype)


class Normalize(_Transform):
    """See `functional.normalize`."""

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor: core.Tensor) -> Any:
        return functional.normalize(tensor, self.mean, self.std, self.inplace)


class Resize(_Transform):
    """See `functional.resize`."""

    def __init__(
        self,
        size: Any,
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size, self.interpolation = size, interpolation
        self.max_size, self.antialias = max_size, antialias

    def forward(self, img: Any) -> Any:
        return functional.resize(img, self.size, self.interpolation, self.max_size, self.antialias)


class CenterCrop(_Transform):
    """See `functional.center_crop`."""

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = size

    def forward(self, img: Any) -> Any:
        return functional.center_crop(img, self.size)


class FiveCrop(_Transform):
    """See `functional.five_crop`."""

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = size

    def forward(self, img: Any) -> Any:
        return functional.five_crop(img, self.size)


class TenCrop(_Transform):
    """See `functional.ten_crop`."""

    def __init__(self, size: Any, vertical_flip: bool = False) -> None:
        super().__init__()
        self.size, self.vertical_flip = size, vertical_flip

    def forward(self, img: Any) -> Any:
        return functional.ten_crop(img, self.size, self.vertical_flip)


class Pad(_Transform):
    """See `functional.pad`."""

    def __init__(self, padding: Any, fill: float = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, img: Any) -> Any:
        return functional.pad(img, self.padding, self.fill, self.padding_mode)


class Grayscale(_Transform):
    """See `functional.rgb_to_grayscale`."""

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return functional.rgb_to_grayscale(img, self.num_output_channels)


# ------------------------------------------------------------------ by chance


def _sometimes(name: str, function: Callable[..., Any], *settings: str, p: float = 0.5) -> type:
    """A transform that does something to a share of the images."""

    def __init__(self: Any, *values: Any, p: float = p, **named: Any) -> None:
        nn.Module.__init__(self)
        given = dict(zip((*settings, "p"), values, strict=False)) | named
        missing = [s for s in settings if s not in given]
        if missing or len(values) > len(settings) + 1:
            required = f"the arguments {', '.join([*settings, 'p'])} were required"
            fail(TypeError, name, required, f"{len(values)} of them", hint="p is a share of 1")
        vars(self).update({"p": p, **given})

    def forward(self: Any, img: core.Tensor) -> Any:
        if _uniform(0, 1) >= self.p:
            return img
        return function(img, *[getattr(self, s) for s in settings])

    doc = f"Does `functional.{function.__name__}` to a share `p` of the images."
    return type(
        name,
        (_Transform,),
        {"__init__": __init__, "forward": forward, "__doc__": doc, "__module__": __name__},
    )


RandomHorizontalFlip = _sometimes("RandomHorizontalFlip", functional.hflip)
RandomVerticalFlip = _sometimes("RandomVerticalFlip", functional.vflip)
RandomInvert = _sometimes("RandomInvert", functional.invert)
RandomPosterize = _sometimes("RandomPosterize", functional.posterize, "bits")
RandomSolarize = _sometimes("RandomSolarize", functional.solarize, "threshold")
RandomAutocontrast = _sometimes("RandomAutocontrast", functional.autocontrast)
RandomEqualize = _sometimes("RandomEqualize", functional.equalize)
RandomAdjustSharpness = _sometimes(
    "RandomAdjustSharpness", functional.adjust_sharpness, "sharpness_factor"
)


class RandomGrayscale(_Transform):
    """Takes the colour out of a share `p` of the images."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        if _uniform(0, 1) >= self.p:
            return img
        return functional.rgb_to_grayscale(img, functional.get_image_num_channels(img))


class RandomApply(_Transform):
    """Several transforms, for a share `p` of the images."""

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms, self.p = transforms, p

    def forward(self, img: Any) -> Any:
        if self.p > _uniform(0, 1):
            for transform in self.transforms:
                img = transform(img)
        return img


class RandomOrder:
    """Several transforms, in another order each time."""

    def __init__(self, transforms: Any) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for i in _F.randperm(len(self.transforms)).tolist():
            img = self.transforms[i](img)
        return img


class RandomChoice:
    """One of several transforms; `p` gives their weights."""

    def __init__(self, transforms: Any, p: Any = None) -> None:
        self.transforms, self.p = transforms, p

    def __call__(self, img: Any) -> Any:
        weights = core.tensor([1.0] * len(self.transforms) if self.p is None else list(self.p))
        return self.transforms[int(_F.multinomial(weights, 1).item())](img)


def _pair(size: int) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    sizes = tuple(size)
    return sizes * 2 if len(sizes) == 1 else sizes


class RandomCrop(_Transform):
    """A part of a size, from anywhere in the image."""

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: float = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size, self.padding, self.pad_if_needed = _pair(size), padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    @staticmethod
    def get_params(img: core.Tensor, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Top, left, height and width of a part."""
        _, high, wide = functional.get_dimensions(img)
        height, width = output_size
        if high < height or wide < width:
            required = f"an image of at least {height} by {width} was required (Required crop size "
            required += "is larger than input image size)"
            hint = "pad_if_needed=True pads smaller ones"
            fail(ValueError, "RandomCrop", required, (high, wide), hint=hint)
        return _integer(0, high - height), _integer(0, wide - width), height, width

    def forward(self, img: core.Tensor) -> Any:
        if self.padding is not None:
            img = functional.pad(img, self.padding, self.fill, self.padding_mode)
        _, high, wide = functional.get_dimensions(img)
        if self.pad_if_needed:
            across, down = max(self.size[1] - wide, 0), max(self.size[0] - high, 0)
            if across or down:
                img = functional.pad(img, [across, down], self.fill, self.padding_mode)
        return functional.crop(img, *self.get_params(img, self.size))


class RandomResizedCrop(_Transform):
    """A part of any size and proportion, brought to one size. [Szegedy et al. 2015]"""

    def __init__(
        self,
        size: Any,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: Any = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size, self.scale, self.ratio = _pair(size), scale, ratio
        self.interpolation, self.antialias = interpolation, antialias

    @staticmethod
    def get_params(img: core.Tensor, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
        """Top, left, height and width of a part."""
        _, high, wide = functional.get_dimensions(img)
        for _ in range(10):
            area = high * wide * _uniform(*scale)
            shape = math.exp(_uniform(math.log(ratio[0]), math.log(ratio[1])))
            width, height = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if 0 < width <= wide and 0 < height <= high:
                return _integer(0, high - height), _integer(0, wide - width), height, width
        shape = wide / high  # the largest part in the middle that has a proportion
        height = min(high, round(wide / ratio[0])) if shape < ratio[0] else high
        width = min(wide, round(high * ratio[1])) if shape > ratio[1] else wide
        return (high - height) // 2, (wide - width) // 2, height, width

    def forward(self, img: core.Tensor) -> Any:
        part = self.get_params(img, self.scale, self.ratio)
        return functional.resized_crop(img, *part, self.size, self.interpolation, self.antialias)


class RandomRotation(_Transform):
    """Turned by an angle from a range, in degrees."""

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.degrees = _range("RandomRotation", "degrees", degrees)
        self.interpolation, self.expand = interpolation, expand
        self.center, self.fill = center, fill

    def forward(self, img: Any) -> Any:
        angle = _uniform(*self.degrees)
        return functional.rotate(
            img, angle, self.interpolation, self.expand, self.center, self.fill
        )


def _range(op: str, name: str, value: Any, center: float = 0.0) -> tuple[float, float]:
    """A pair, or one number for the range around a centre."""
    if isinstance(value, (int, float)):
        if value < 0:
            fail(
                ValueError,
                op,
                f"{name} of at least 0 was required",
                value,
                hint="or a pair of numbers",
            )
        return center - value, center + value
    if len(value) != 2 or value[0] > value[1]:
        fail(ValueError, op, f"{name} (low, high) was required", value, hint="or one number")
    return float(value[0]), float(value[1])


class RandomAffine(_Transform):
    """Turned, moved, scaled and sheared by chance."""

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = 0,
        center: Any = None,
    ) -> None:
        super().__init__()
        self.degrees = _range("RandomAffine", "degrees", degrees)
        self.translate, self.scale = translate, scale
        plain = isinstance(shear, (int, float))
        self.shear = None if shear is None else [-shear, shear] if plain else list(shear)
        self.interpolation, self.fill, self.center = interpolation, fill, center

    def forward(self, img: core.Tensor) -> Any:
        _, high, wide = functional.get_dimensions(img)
        angle, moved = _uniform(*self.degrees), (0, 0)
        if self.translate is not None:
            across, down = self.translate[0] * wide, self.translate[1] * high
            moved = (round(_uniform(-across, across)), round(_uniform(-down, down)))
        scale = _uniform(*self.scale) if self.scale is not None else 1.0
        shear = [0.0, 0.0]
        if self.shear is not None:
            shear = [_uniform(*self.shear[i : i + 2]) for i in range(0, len(self.shear), 2)]
        settings = (self.interpolation, self.fill, self.center)
        return functional.affine(img, angle, moved, scale, (shear + [0.0])[:2], *settings)


class RandomPerspective(_Transform):
    """Seen from elsewhere, for a share `p` of the images."""

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Any = InterpolationMode.BILINEAR,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.distortion_scale, self.p = distortion_scale, p
        self.interpolation, self.fill = interpolation, fill

    def forward(self, img: core.Tensor) -> Any:
        if _uniform(0, 1) >= self.p:
            return img
        _, high, wide = functional.get_dimensions(img)
        corners = [[0, 0], [wide - 1, 0], [wide - 1, high - 1], [0, high - 1]]
        reach = [int(self.distortion_scale * side / 2) for side in (wide, high)]
        ends = []
        for corner in corners:
            inward = [1 if place == 0 else -1 for place in corner]
            ends.append(
                [c + s * _integer(0, r) for c, s, r in zip(corner, inward, reach, strict=True)]
            )
        return functional.perspective(img, corners, ends, self.interpolation, self.fill)


class RandomErasing(_Transform):
    """A rectangle overwritten in a share `p` of the images. [Zhong et al. 2017]"""

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        self.p, self.scale, self.ratio, self.value, self.inplace = p, scale, ratio, value, inplace

    def forward(self, img: core.Tensor) -> Any:
        if _uniform(0, 1) >= self.p:
            return img
        channels, high, wide = img.shape[-3:]
        for _ in range(10):
            area = high * wide * _uniform(*self.scale)
            shape = math.exp(_uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            h, w = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if not (0 < h < high and 0 < w < wide):
                continue
            if self.value == "random":
                value = core.empty((channels, h, w), dtype=img.dtype).normal_()
            else:
                values = self.value if isinstance(self.value, (tuple, list)) else [self.value]
                value = core.tensor(list(values), dtype=img.dtype).reshape((-1, 1, 1))
            place = (_integer(0, high - h), _integer(0, wide - w), h, w)
            return functional.erase(img, *place, value, self.inplace)
        return img


class ColorJitter(_Transform):
    """Brightness, contrast, saturation and hue changed by chance, in any order."""

    def __init__(
        self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0
    ) -> None:
        super().__init__()
        self.brightness = self._reach("brightness", brightness)
        self.contrast = self._reach("contrast", contrast)
        self.saturation = self._reach("saturation", saturation)
        self.hue = _range("ColorJitter", "hue", hue)
        if self.hue[0] < -0.5 or self.hue[1] > 0.5:
            fail(
                ValueError,
                "ColorJitter",
                "a hue in [-0.5, 0.5] was required",
                hue,
                hint="0 keeps it",
            )

    @staticmethod
    def _reach(name: str, value: core.Tensor) -> tuple[float, float]:
        low, high = _range("ColorJitter", name, value, 1.0)
        return max(low, 0.0), high

    def forward(self, img: core.Tensor) -> Any:
        steps = [
            (functional.adjust_brightness, self.brightness, 1.0),
            (functional.adjust_contrast, self.contrast, 1.0),
            (functional.adjust_saturation, self.saturation, 1.0),
            (functional.adjust_hue, self.hue, 0.0),
        ]
        for i in _F.randperm(4).tolist():
            function, reach, still = steps[i]
            if reach != (still, still):
                img = function(img, _uniform(*reach))
        return img


class GaussianBlur(_Transform):
    """Smoothed with a deviation from a range."""

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = _pair(kernel_size)
        self.sigma = (sigma, sigma) if isinstance(sigma, (int, float)) else tuple(sigma)

    def forward(self, img: core.Tensor) -> Any:
        sigma = _uniform(*self.sigma)
        return functional.gaussian_blur(img, self.kernel_size, [sigma, sigma])
