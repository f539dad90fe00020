"""Layers that only rearrange or resample: flatten, fold, pixel and channel shuffles, upsampling.

Takes a tensor.  Gives its elements in another shape, or interpolated.
Keeps true: constructor arguments, attribute names and printed forms are PyTorch's.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn.modules.module import Module

__all__ = """Flatten Unflatten Fold Unfold PixelShuffle PixelUnshuffle ChannelShuffle Upsample
UpsamplingBilinear2d UpsamplingNearest2d""".split()


class Flatten(Module):
    """Joins the dimensions from ``start_dim`` to ``end_dim``."""

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Any:
        """The input with fewer dimensions."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits dimension ``dim`` into ``unflattened_size``."""

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim: Any, unflattened_size: Any) -> None:
        super().__init__()
        if isinstance(dim, int):
            self._require_tuple_int(unflattened_size)
        elif isinstance(dim, str):
            self._require_tuple_tuple(unflattened_size)
        else:
            fail(
                TypeError,
                "Unflatten",
                "invalid argument type for dim parameter",
                hint="dim is an int, or a name together with named sizes",
            )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def _require_tuple_tuple(self, input: Any) -> None:
        if not isinstance(input, tuple):
            fail(
                TypeError,
                "Unflatten",
                (
                    "unflattened_size must be a tuple of tuples, but found type "
                    f"{type(input).__name__}"
                ),
                hint="(('C', 2), ('H', 3)) names the sizes",
            )
        for i, element in enumerate(input):
            if not isinstance(element, tuple):
                fail(
                    TypeError,
                    "Unflatten",
                    (
                        "unflattened_size must be tuple of tuples, but found element of type "
                        f"{type(element).__name__} at pos {i}"
                    ),
                    hint="(('C', 2), ('H', 3)) names the sizes",
                )

    def _require_tuple_int(self, input: Any) -> None:
        if not isinstance(input, (tuple, list)):
            fail(
                TypeError,
                "Unflatten",
                (
                    "unflattened_size must be a tuple of ints, but found type "
                    f"{type(input).__name__}"
                ),
                hint="(2, 3) cuts a dimension of 6",
            )
        for i, element in enumerate(input):
            if not isinstance(element, int):
                fail(
                    TypeError,
                    "Unflatten",
                    (
                        "unflattened_size must be tuple of ints, but found element of type "
                        f"{type(element).__name__} at pos {i}"
                    ),
                    hint="(2, 3) cuts a dimension of 6",
                )

    def forward(self, input: Any) -> Any:
        """The input with more dimensions."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The dimension and its sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Fold(Module):
    """Adds windows ``[N, C * window, L]`` back into an image ``[N, C, *output_size]``."""

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any,
        dilation: Any = 1,
        padding: Any = 0,
        stride: Any = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Any) -> Any:
        """The image."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        """The parameters."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class Unfold(Module):
    """The windows of an image as columns ``[N, C * window, L]``."""

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Any) -> Any:
        """The columns."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The parameters."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class PixelShuffle(Module):
    """``[..., C * r^2, H, W]`` to ``[..., C, H * r, W * r]``."""

    __constants__ = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Any:
        """The larger image."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """``[..., C, H * r, W * r]`` to ``[..., C * r^2, H, W]``."""

    __constants__ = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Any:
        """The smaller image."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Interleaves ``groups`` of channels."""

    __constants__ = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Any:
        """The same shape."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The number of groups."""
        return f"groups={self.groups}"


class Upsample(Module):
    """Interpolates to ``size``, or by ``scale_factor``."""

    __constants__ = [
        "size",
        "scale_factor",
        "mode",
        "align_corners",
        "name",
        "recompute_scale_factor",
    ]

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Any) -> Any:
        """The resampled input."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def __setstate__(self, state: dict) -> None:
        state = {"recompute_scale_factor": True, **state}
        super().__setstate__(state)

    def extra_repr(self) -> str:
        """The size or factor, and the mode."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Nearest neighbours of ``[N, C, H, W]``."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Bilinear interpolation of ``[N, C, H, W]`` with corners aligned."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
