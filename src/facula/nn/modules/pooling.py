"""Pooling layers.

Takes ``[N, C, ...]`` or ``[C, ...]``.  Gives each channel reduced over windows, or to a fixed size.
Keeps true: ``stride=None`` means the kernel size; maximum layers give indices too where asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn.modules.module import Module
from facula.nn.modules.utils import _pair, _single, _triple

__all__ = """MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d AvgPool1d AvgPool2d
AvgPool3d FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d AdaptiveMaxPool1d
AdaptiveMaxPool2d AdaptiveMaxPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d""".split()


class _MaxPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    return_indices: bool
    ceil_mode: bool

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: object = None,
        padding: object = 0,
        dilation: int | Sequence[int] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """The parameters."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )

    def _pool(self, function: Callable[..., Any], input: core.Tensor) -> Any:
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


class MaxPool1d(_MaxPoolNd):
    """The largest element of each window of ``[N, C, L]``.

    Args:
        kernel_size: of the window, int
        stride: distance of windows, int; None for ``kernel_size``
        padding: minus infinity on both sides, at most half the kernel
        dilation: distance of a window's elements
        return_indices: whether the result is (maxima, their flat positions), as `MaxUnpool1d` takes
            them
        ceil_mode: whether sizes are rounded up, so that windows may reach over the end

    Shape:
        ``[N, C, L]`` or ``[C, L]``, to the same with sizes ``floor((size + 2 padding - dilation
        (kernel - 1) - 1) / stride) + 1``.

    Example:
        >>> facula.nn.MaxPool1d(2)(facula.tensor([[[1.0, 4.0, 2.0, 3.0]]]))
        tensor([[[4., 3.]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The maxima, and their positions where asked."""
        return self._pool(F.max_pool1d, input)


class MaxPool2d(_MaxPoolNd):
    """The largest element of each window of ``[N, C, H, W]``.

    Args:
        kernel_size: of the window, int or pair of ints
        stride: distance of windows, int or pair of ints; None for ``kernel_size``
        padding: minus infinity on both sides, at most half the kernel
        dilation: distance of a window's elements
        return_indices: whether the result is (maxima, their flat positions), as `MaxUnpool2d` takes
            them
        ceil_mode: whether sizes are rounded up, so that windows may reach over the end

    Shape:
        ``[N, C, H, W]`` or ``[C, H, W]``, to the same with sizes ``floor((size + 2 padding -
        dilation (kernel - 1) - 1) / stride) + 1``.

    Example:
        >>> facula.nn.MaxPool2d(2)(facula.arange(16.0).reshape(1, 1, 4, 4))
        tensor([[[[ 5.,  7.],
                  [13., 15.]]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The maxima, and their positions where asked."""
        return self._pool(F.max_pool2d, input)


class MaxPool3d(_MaxPoolNd):
    """The largest element of each window of ``[N, C, D, H, W]``.

    Args:
        kernel_size: of the window, int or triple of ints
        stride: distance of windows, int or triple of ints; None for ``kernel_size``
        padding: minus infinity on both sides, at most half the kernel
        dilation: distance of a window's elements
        return_indices: whether the result is (maxima, their flat positions), as `MaxUnpool3d` takes
            them
        ceil_mode: whether sizes are rounded up, so that windows may reach over the end

    Shape:
        ``[N, C, D, H, W]`` or ``[C, D, H, W]``, to the same with sizes ``floor((size + 2 padding -
        dilation (kernel - 1) - 1) / stride) + 1``.

    Example:
        >>> facula.nn.MaxPool3d(2)(facula.arange(8.0).reshape(1, 1, 2, 2, 2))
        tensor([[[[[7.]]]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The maxima, and their positions where asked."""
        return self._pool(F.max_pool3d, input)


class _MaxUnpoolNd(Module):
    _expand: Any = None

    def __init__(
        self, kernel_size: int | Sequence[int], stride: object = None, padding: object = 0
    ) -> None:
        super().__init__()
        expand = type(self)._expand
        self.kernel_size = expand(kernel_size)
        self.stride = expand(stride if stride is not None else kernel_size)
        self.padding = expand(padding)

    def extra_repr(self) -> str:
        """The parameters."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts maxima back where `MaxPool1d` found them, zeros elsewhere.

    Args:
        kernel_size: of the window, int
        stride: distance of windows; None for ``kernel_size``
        padding: as it was for the maxima

    Shape:
        values and ``indices`` ``[N, C, L]`` or ``[C, L]``, to sizes ``(size - 1) stride - 2 padding
        + kernel``, or to ``output_size`` where the call gives one.

    Example:
        >>> pool = facula.nn.MaxPool1d(2, return_indices=True)
        >>> values, indices = pool(facula.tensor([[[1.0, 4.0, 2.0, 3.0]]]))
        >>> facula.nn.MaxUnpool1d(2)(values, indices)
        tensor([[[0., 4., 0., 3.]]])
    """

    _expand = staticmethod(_single)

    def forward(self, input: core.Tensor, indices: core.Tensor, output_size: Any = None) -> Any:
        """``[N, C, L]``."""
        return F.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts maxima back where `MaxPool2d` found them, zeros elsewhere.

    Args:
        kernel_size: of the window, int or pair of ints
        stride: distance of windows; None for ``kernel_size``
        padding: as it was for the maxima

    Shape:
        values and ``indices`` ``[N, C, H, W]`` or ``[C, H, W]``, to sizes ``(size - 1) stride - 2
        padding + kernel``, or to ``output_size`` where the call gives one.

    Example:
        >>> pool = facula.nn.MaxPool2d(2, return_indices=True)
        >>> values, indices = pool(facula.arange(16.0).reshape(1, 1, 4, 4))
        >>> facula.nn.MaxUnpool2d(2)(values, indices)
        tensor([[[[ 0.,  0.,  0.,  0.],
                  [ 0.,  5.,  0.,  7.],
                  [ 0.,  0.,  0.,  0.],
                  [ 0., 13.,  0., 15.]]]])
    """

    _expand = staticmethod(_pair)

    def forward(self, input: core.Tensor, indices: core.Tensor, output_size: Any = None) -> Any:
        """``[N, C, H, W]``."""
        return F.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts maxima back where `MaxPool3d` found them, zeros elsewhere.

    Args:
        kernel_size: of the window, int or triple of ints
        stride: distance of windows; None for ``kernel_size``
        padding: as it was for the maxima

    Shape:
        values and ``indices`` ``[N, C, D, H, W]`` or ``[C, D, H, W]``, to sizes ``(size - 1) stride
        - 2 padding + kernel``, or to ``output_size`` where the call gives one.

    Example:
        >>> pool = facula.nn.MaxPool3d(2, return_indices=True)
        >>> values, indices = pool(facula.arange(8.0).reshape(1, 1, 2, 2, 2))
        >>> facula.nn.MaxUnpool3d(2)(values, indices)
        tensor([[[[[0., 0.],
                   [0., 0.]],
        <BLANKLINE>
                  [[0., 0.],
                   [0., 7.]]]]])
    """

    _expand = staticmethod(_triple)

    def forward(self, input: core.Tensor, indices: core.Tensor, output_size: Any = None) -> Any:
        """``[N, C, D, H, W]``."""
        return F.max_unpool3d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class _AvgPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self) -> str:
        """The parameters."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of ``[N, C, L]``.

    Args:
        kernel_size: of the window, int
        stride: distance of windows, int; None for ``kernel_size``
        padding: zeros on both sides, at most half the kernel
        ceil_mode: whether sizes are rounded up, so that windows may reach over the end
        count_include_pad: whether padded zeros count in the mean

    Shape:
        ``[N, C, L]`` or ``[C, L]``, to the same with sizes ``floor((size + 2 padding - kernel) /
        stride) + 1``.

    Example:
        >>> facula.nn.AvgPool1d(2)(facula.tensor([[[1.0, 4.0, 2.0, 3.0]]]))
        tensor([[[2.5000, 2.5000]]])
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: object = None,
        padding: object = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: core.Tensor) -> Any:
        """The means."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class AvgPool2d(_AvgPoolNd):
    """The mean of each window of ``[N, C, H, W]``.

    Args:
        kernel_size: of the window, int or pair of ints
        stride: distance of windows, int or pair of ints; None for ``kernel_size``
        padding: zeros on both sides, at most half the kernel
        ceil_mode: whether sizes are rounded up, so that windows may reach over the end
        count_include_pad: whether padded zeros count in the mean
        divisor_override: what sums are divided by in place of the window's size

    Shape:
        ``[N, C, H, W]`` or ``[C, H, W]``, to the same with sizes ``floor((size + 2 padding -
        kernel) / stride) + 1``.

    Example:
        >>> facula.nn.AvgPool2d(2)(facula.arange(16.0).reshape(1, 1, 4, 4))
        tensor([[[[ 2.5000,  4.5000],
                  [10.5000, 12.5000]]]])
    """

    __constants__ = [*_AvgPoolNd.__constants__, "divisor_override"]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: object = None,
        padding: object = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    _function = "avg_pool2d"

    def forward(self, input: core.Tensor) -> Any:
        """The means."""
        return getattr(F, self._function)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool3d(AvgPool2d):
    """The mean of each window of ``[N, C, D, H, W]``.

    Args:
        kernel_size: of the window, int or triple of ints
        stride: distance of windows, int or triple of ints; None for ``kernel_size``
        padding: zeros on both sides, at most half the kernel
        ceil_mode: whether sizes are rounded up, so that windows may reach over the end
        count_include_pad: whether padded zeros count in the mean
        divisor_override: what sums are divided by in place of the window's size

    Shape:
        ``[N, C, D, H, W]`` or ``[C, D, H, W]``, to the same with sizes ``floor((size + 2 padding -
        kernel) / stride) + 1``.

    Example:
        >>> facula.nn.AvgPool3d(2)(facula.arange(8.0).reshape(1, 1, 2, 2, 2))
        tensor([[[[[3.5000]]]]])
    """

    _function = "avg_pool3d"

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding", 0)
        self.__dict__.setdefault("ceil_mode", False)
        self.__dict__.setdefault("count_include_pad", True)


class _FractionalMaxPoolNd(Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _expand: Any = None

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        output_size: object = None,
        output_ratio: object = None,
        return_indices: bool = False,
        _random_samples: object = None,
    ) -> None:
        super().__init__()
        expand, name = type(self)._expand, type(self).__name__
        self.kernel_size = expand(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = expand(output_size) if output_size is not None else None
        self.output_ratio = expand(output_ratio) if output_ratio is not None else None
        if output_size is None and output_ratio is None:
            fail(
                ValueError,
                name,
                f"{name} requires specifying either an output size, or a pooling ratio",
                hint="output_ratio=0.5 halves every size",
            )
        if output_size is not None and output_ratio is not None:
            fail(
                ValueError,
                name,
                "only one of output_size and output_ratio may be specified",
                hint="leave output_ratio out",
            )
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            fail(
                ValueError,
                name,
                f"output_ratio must be between 0 and 1 (got {output_ratio})",
                hint="output_ratio=0.5 halves every size",
            )

    def _pool(self, function: Callable[..., Any], input: core.Tensor) -> Any:
        return function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The largest elements of windows at random distances, for an output of a given size or ratio.
    [Graham 2014]

    Args:
        kernel_size: of the window, int or pair of ints
        output_size: of the result, int or pair of ints
        output_ratio: of the result's sizes to the input's, number between 0 and 1 or tuple; give it
            or ``output_size``
        return_indices: whether the result is (maxima, their flat positions)

    Shape:
        ``[N, C, H, W]`` or ``[C, H, W]``, to the same with the sizes asked for.

    Raises:
        ValueError: both or none of ``output_size`` and ``output_ratio`` are given, or a ratio is
            not in (0, 1).

    Example:
        >>> facula.nn.FractionalMaxPool2d(2, output_ratio=0.5)(facula.randn(1, 3, 8, 8)).shape
        facula.Size([1, 3, 4, 4])
    """

    _expand = staticmethod(_pair)

    def forward(self, input: core.Tensor) -> Any:
        """The maxima, and their positions where asked."""
        return self._pool(F.fractional_max_pool2d, input)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The largest elements of windows at random distances, for an output of a given size or ratio.
    [Graham 2014]

    Args:
        kernel_size: of the window, int or triple of ints
        output_size: of the result, int or triple of ints
        output_ratio: of the result's sizes to the input's, number between 0 and 1 or tuple; give it
            or ``output_size``
        return_indices: whether the result is (maxima, their flat positions)

    Shape:
        ``[N, C, D, H, W]`` or ``[C, D, H, W]``, to the same with the sizes asked for.

    Raises:
        ValueError: both or none of ``output_size`` and ``output_ratio`` are given, or a ratio is
            not in (0, 1).

    Example:
        >>> facula.nn.FractionalMaxPool3d(2, output_ratio=0.5)(facula.randn(1, 3, 8, 8, 8)).shape
        facula.Size([1, 3, 4, 4, 4])
    """

    _expand = staticmethod(_triple)

    def forward(self, input: core.Tensor) -> Any:
        """The maxima, and their positions where asked."""
        return self._pool(F.fractional_max_pool3d, input)


class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(
        self,
        norm_type: float,
        kernel_size: int | Sequence[int],
        stride: object = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """The parameters."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )

    def _pool(self, function: Callable[..., Any], input: core.Tensor) -> Any:
        return function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPoolNd):
    """``(sum x^p)^(1/p)`` over each window of ``[N, C, L]``: the sum for p = 1, towards the maximum
    for large p.

    Args:
        norm_type: p
        kernel_size: of the window, int
        stride: distance of windows, int; None for ``kernel_size``
        ceil_mode: whether sizes are rounded up

    Shape:
        ``[N, C, L]`` or ``[C, L]``, to the same with sizes ``floor((size - kernel) / stride) + 1``.

    Example:
        >>> facula.nn.LPPool1d(2, 2)(facula.tensor([[[1.0, 4.0, 2.0, 3.0]]]))
        tensor([[[4.1231, 3.6056]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The norms."""
        return self._pool(F.lp_pool1d, input)


class LPPool2d(_LPPoolNd):
    """``(sum x^p)^(1/p)`` over each window of ``[N, C, H, W]``: the sum for p = 1, towards the maximum
    for large p.

    Args:
        norm_type: p
        kernel_size: of the window, int or pair of ints
        stride: distance of windows, int or pair of ints; None for ``kernel_size``
        ceil_mode: whether sizes are rounded up

    Shape:
        ``[N, C, H, W]`` or ``[C, H, W]``, to the same with sizes ``floor((size - kernel) / stride)
        + 1``.

    Example:
        >>> facula.nn.LPPool2d(2, 2)(facula.arange(16.0).reshape(1, 1, 4, 4))
        tensor([[[[ 6.4807,  9.8995],
                  [21.4009, 25.3377]]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The norms."""
        return self._pool(F.lp_pool2d, input)


class LPPool3d(_LPPoolNd):
    """``(sum x^p)^(1/p)`` over each window of ``[N, C, D, H, W]``: the sum for p = 1, towards the
    maximum for large p.

    Args:
        norm_type: p
        kernel_size: of the window, int or triple of ints
        stride: distance of windows, int or triple of ints; None for ``kernel_size``
        ceil_mode: whether sizes are rounded up

    Shape:
        ``[N, C, D, H, W]`` or ``[C, D, H, W]``, to the same with sizes ``floor((size - kernel) /
        stride) + 1``.

    Example:
        >>> facula.nn.LPPool3d(2, 2)(facula.arange(8.0).reshape(1, 1, 2, 2, 2))
        tensor([[[[[11.8322]]]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The norms."""
        return self._pool(F.lp_pool3d, input)


class _AdaptiveMaxPoolNd(Module):
    __constants__ = ["output_size", "return_indices"]
    return_indices: bool

    def __init__(self, output_size: object, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        """The output size."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest element of windows that cover ``[N, C, L]`` evenly, for an output of a given size.

    Window i of n covers ``floor(i size / n)`` up to ``ceil((i + 1) size / n)``.

    Args:
        output_size: n, int
        return_indices: whether the result is (maxima, their flat positions)

    Shape:
        ``[N, C, L]`` or ``[C, L]``, to the same with ``output_size``.

    Example:
        >>> facula.nn.AdaptiveMaxPool1d(2)(facula.tensor([[[1.0, 4.0, 2.0, 3.0]]]))
        tensor([[[4., 3.]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The maxima, and their positions where asked."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest element of windows that cover ``[N, C, H, W]`` evenly, for an output of a given
    size.

    Window i of n covers ``floor(i size / n)`` up to ``ceil((i + 1) size / n)``.

    Args:
        output_size: n, int or pair of ints (None in it keeps the input's size)
        return_indices: whether the result is (maxima, their flat positions)

    Shape:
        ``[N, C, H, W]`` or ``[C, H, W]``, to the same with ``output_size``.

    Example:
        >>> facula.nn.AdaptiveMaxPool2d(1)(facula.arange(16.0).reshape(1, 1, 4, 4))
        tensor([[[[15.]]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The maxima, and their positions where asked."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest element of windows that cover ``[N, C, D, H, W]`` evenly, for an output of a given
    size.

    Window i of n covers ``floor(i size / n)`` up to ``ceil((i + 1) size / n)``.

    Args:
        output_size: n, int or triple of ints (None in it keeps the input's size)
        return_indices: whether the result is (maxima, their flat positions)

    Shape:
        ``[N, C, D, H, W]`` or ``[C, D, H, W]``, to the same with ``output_size``.

    Example:
        >>> facula.nn.AdaptiveMaxPool3d(1)(facula.arange(8.0).reshape(1, 1, 2, 2, 2))
        tensor([[[[[7.]]]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The maxima, and their positions where asked."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(Module):
    __constants__ = ["output_size"]

    def __init__(self, output_size: object) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """The output size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The mean of windows that cover ``[N, C, L]`` evenly, for an output of a given size.

    Window i of n covers ``floor(i size / n)`` up to ``ceil((i + 1) size / n)``.

    Args:
        output_size: n, int

    Shape:
        ``[N, C, L]`` or ``[C, L]``, to the same with ``output_size``.

    Example:
        >>> facula.nn.AdaptiveAvgPool1d(2)(facula.tensor([[[1.0, 4.0, 2.0, 3.0]]]))
        tensor([[[2.5000, 2.5000]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The means."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The mean of windows that cover ``[N, C, H, W]`` evenly, for an output of a given size.

    Window i of n covers ``floor(i size / n)`` up to ``ceil((i + 1) size / n)``.

    Args:
        output_size: n, int or pair of ints (None in it keeps the input's size)

    Shape:
        ``[N, C, H, W]`` or ``[C, H, W]``, to the same with ``output_size``.

    Example:
        >>> facula.nn.AdaptiveAvgPool2d(1)(facula.arange(16.0).reshape(1, 1, 4, 4))
        tensor([[[[7.5000]]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The means."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The mean of windows that cover ``[N, C, D, H, W]`` evenly, for an output of a given size.

    Window i of n covers ``floor(i size / n)`` up to ``ceil((i + 1) size / n)``.

    Args:
        output_size: n, int or triple of ints (None in it keeps the input's size)

    Shape:
        ``[N, C, D, H, W]`` or ``[C, D, H, W]``, to the same with ``output_size``.

    Example:
        >>> facula.nn.AdaptiveAvgPool3d(1)(facula.arange(8.0).reshape(1, 1, 2, 2, 2))
        tensor([[[[[3.5000]]]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The means."""
        return F.adaptive_avg_pool3d(input, self.output_size)
