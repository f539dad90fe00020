"""Layers that only rearrange or resample: flatten, fold, pixel and channel shuffles, upsampling.

Takes a tensor.  Gives its elements in another shape, or interpolated.
Keeps true: constructor arguments, attribute names and printed forms are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn.modules.module import Module

__all__ = """Flatten Unflatten Fold Unfold PixelShuffle PixelUnshuffle ChannelShuffle Upsample
UpsamplingBilinear2d UpsamplingNearest2d""".split()


class Flatten(Module):
    """Joins the dimensions from ``start_dim`` to ``end_dim``, by default all but the batch.

    Args:
        start_dim: the first that is joined
        end_dim: the last that is joined

    Shape:
        ``[*, S_start, ..., S_end, *]`` to ``[*, product of S, *]``; a view where memory allows.

    Example:
        >>> facula.nn.Flatten()(facula.ones(2, 3, 4)).shape
        facula.Size([2, 12])
    """

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: core.Tensor) -> Any:
        """The input with fewer dimensions."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one dimension into several, the inverse of `Flatten`.

    Args:
        dim: the dimension, or its name
        unflattened_size: the sizes, a tuple of ints of which one may be -1; for a name, a tuple of
            (name, size) pairs

    Raises:
        TypeError: the sizes are no tuple of ints (or of pairs).

    Example:
        >>> facula.nn.Unflatten(1, (2, -1))(facula.ones(5, 6)).shape
        facula.Size([5, 2, 3])
    """

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim: Any, unflattened_size: Any) -> None:
        super().__init__()
        if isinstance(dim, int):
            self._require(
                unflattened_size, (tuple, list), int, "ints", "(2, 3) cuts a dimension of 6"
            )
        elif isinstance(dim, str):
            hint = "(('C', 2), ('H', 3)) names the sizes"
            self._require(unflattened_size, (tuple,), tuple, "tuples", hint)
        else:
            fail(
                TypeError,
                "Unflatten",
                "invalid argument type for dim parameter",
                hint="dim is an int, or a name together with named sizes",
            )
        self.dim = dim
        self.unflattened_size = unflattened_size

    @staticmethod
    def _require(sizes: Sequence[int], kinds: Any, item: type, several: str, hint: str) -> None:
        """Raise unless `sizes` is a tuple (or a list, where that is taken) of one kind of items."""
        if not isinstance(sizes, kinds):
            found = type(sizes).__name__
            said = f"unflattened_size must be a tuple of {several}, but found type {found}"
            fail(TypeError, "Unflatten", said, hint=hint)
        for i, element in enumerate(sizes):
            if not isinstance(element, item):
                found = f"{type(element).__name__} at pos {i}"
                said = f"unflattened_size must be tuple of {several}, but found element of type {found}"
                fail(TypeError, "Unflatten", said, hint=hint)

    def forward(self, input: core.Tensor) -> Any:
        """The input with more dimensions."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The dimension and its sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Fold(Module):
    """Adds up windows, given as columns, into an image; the transpose of `Unfold`.

    Where windows overlap their elements are summed, so that ``fold(unfold(x))`` is x times the
    number of windows at each position.

    Args:
        output_size: (height, width) of the result, int or pair
        kernel_size: of the windows, int or pair
        dilation: distance of a window's elements, int or pair
        padding: zeros that the windows were taken with, int or pair
        stride: distance of windows, int or pair

    Shape:
        ``[N, C * prod(kernel_size), L]`` to ``[N, C, *output_size]``, or both without N; L is the
        number of windows.

    Example:
        >>> fold = facula.nn.Fold((2, 3), kernel_size=2)
        >>> fold(facula.ones(1, 4, 2))
        tensor([[[[1., 2., 1.],
                  [1., 2., 1.]]]])
    """

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self,
        output_size: int | Sequence[int],
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: Any = 0,
        stride: int | Sequence[int] = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: core.Tensor) -> Any:
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
    """The windows of an image as columns (im2col).

    Args:
        kernel_size: of the windows, int or pair
        dilation: distance of a window's elements, int or pair
        padding: zeros on both sides, int or pair
        stride: distance of windows, int or pair

    Shape:
        ``[N, C, H, W]`` to ``[N, C * prod(kernel_size), L]``, or both without N; L is the product
        over both dimensions of ``floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) +
        1``.

    Example:
        >>> facula.nn.Unfold(2)(facula.arange(6.0).reshape(1, 1, 2, 3))
        tensor([[[0., 1.],
                 [1., 2.],
                 [3., 4.],
                 [4., 5.]]])
    """

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: Any = 0,
        stride: int | Sequence[int] = 1,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: core.Tensor) -> Any:
        """The columns."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The parameters."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class PixelShuffle(Module):
    """Channels to space: ``[*, C r^2, H, W]`` to ``[*, C, H r, W r]``. [Shi et al. 2016]

    Args:
        upscale_factor: r

    Raises:
        RuntimeError: at the call, where the channels are no multiple of ``r^2``.

    Example:
        >>> facula.nn.PixelShuffle(2)(facula.arange(4.0).reshape(1, 4, 1, 1))
        tensor([[[[0., 1.],
                  [2., 3.]]]])
    """

    __constants__ = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: core.Tensor) -> Any:
        """The larger image."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Space to channels: ``[*, C, H r, W r]`` to ``[*, C r^2, H, W]``, the inverse of `PixelShuffle`.

    Args:
        downscale_factor: r

    Example:
        >>> facula.nn.PixelUnshuffle(2)(facula.ones(1, 1, 4, 6)).shape
        facula.Size([1, 4, 2, 3])
    """

    __constants__ = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: core.Tensor) -> Any:
        """The smaller image."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Interleaves groups of channels: channel ``g * (C / groups) + i`` goes to ``i * groups + g``.
    [Zhang et al. 2018]

    Args:
        groups: a divisor of the number of channels

    Shape:
        ``[N, C, *]``, and the output has the same.

    Example:
        >>> facula.nn.ChannelShuffle(2)(facula.arange(4.0).reshape(1, 4, 1)).flatten()
        tensor([0., 2., 1., 3.])
    """

    __constants__ = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The number of groups."""
        return f"groups={self.groups}"


class Upsample(Module):
    """Resamples images to a size, or by a factor; see `functional.interpolate`.

    Args:
        size: of the result, int or tuple of one int a spatial dimension
        scale_factor: of the sizes, number or tuple; give it or ``size``
        mode: 'nearest', 'linear' (3-D inputs), 'bilinear' and 'bicubic' (4-D), 'trilinear' (5-D)
        align_corners: whether the corner elements of input and output lie upon each other; for the
            interpolating modes
        recompute_scale_factor: whether the factor is computed anew from the rounded sizes

    Shape:
        ``[N, C, *sizes]`` to ``[N, C, *new sizes]``; with a factor they are ``floor(size *
        factor)``.

    Example:
        >>> facula.nn.Upsample(scale_factor=2)(facula.tensor([[[1.0, 2.0]]]))
        tensor([[[1., 1., 2., 2.]]])
    """

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

    def forward(self, input: core.Tensor) -> Any:
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
    """Resamples images by the nearest element (older form of `Upsample`).

    Args:
        size: (height, width) of the result, int or pair
        scale_factor: of the sizes, number or pair; give it or ``size``

    Shape:
        ``[N, C, H, W]`` to ``[N, C, *new sizes]``.

    Example:
        >>> facula.nn.UpsamplingNearest2d(size=(1, 3))(facula.tensor([[[[0.0, 1.0]]]]))
        tensor([[[[0., 0., 1.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resamples images bilinearly, with corners aligned (older form of `Upsample`).

    Args:
        size: (height, width) of the result, int or pair
        scale_factor: of the sizes, number or pair; give it or ``size``

    Shape:
        ``[N, C, H, W]`` to ``[N, C, *new sizes]``.

    Example:
        >>> facula.nn.UpsamplingBilinear2d(size=(1, 3))(facula.tensor([[[[0.0, 1.0]]]]))
        tensor([[[[0.0000, 0.5000, 1.0000]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
