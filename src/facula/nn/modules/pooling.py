"""Pooling layers.

Takes ``[N, C, ...]`` or ``[C, ...]``.  Gives each channel reduced over windows, or to a fixed size.
Keeps true: ``stride=None`` means the kernel size; maximum layers give indices too where asked.
"""

from __future__ import annotations

from typing import Any

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
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
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

    def _pool(self, function: Any, input: Any) -> Any:
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
    """Maxima over windows of ``[N, C, L]``."""

    def forward(self, input: Any) -> Any:
        """The maxima, and their positions where asked."""
        return self._pool(F.max_pool1d, input)


class MaxPool2d(_MaxPoolNd):
    """Maxima over windows of ``[N, C, H, W]``."""

    def forward(self, input: Any) -> Any:
        """The maxima, and their positions where asked."""
        return self._pool(F.max_pool2d, input)


class MaxPool3d(_MaxPoolNd):
    """Maxima over windows of ``[N, C, D, H, W]``."""

    def forward(self, input: Any) -> Any:
        """The maxima, and their positions where asked."""
        return self._pool(F.max_pool3d, input)


class _MaxUnpoolNd(Module):
    _expand: Any = None

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        expand = type(self)._expand
        self.kernel_size = expand(kernel_size)
        self.stride = expand(stride if stride is not None else kernel_size)
        self.padding = expand(padding)

    def extra_repr(self) -> str:
        """The parameters."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts maxima back where `MaxPool1d` found them; zeros elsewhere."""

    _expand = staticmethod(_single)

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """``[N, C, L]``."""
        return F.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts maxima back where `MaxPool2d` found them; zeros elsewhere."""

    _expand = staticmethod(_pair)

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """``[N, C, H, W]``."""
        return F.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts maxima back where `MaxPool3d` found them; zeros elsewhere."""

    _expand = staticmethod(_triple)

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
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
    """Means over windows of ``[N, C, L]``."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Any:
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
    """Means over windows of ``[N, C, H, W]``."""

    __constants__ = [*_AvgPoolNd.__constants__, "divisor_override"]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
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

    def forward(self, input: Any) -> Any:
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
    """Means over windows of ``[N, C, D, H, W]``."""

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
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
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

    def _pool(self, function: Any, input: Any) -> Any:
        return function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Maxima over windows at random steps that reach a given size. [Graham 2014]"""

    _expand = staticmethod(_pair)

    def forward(self, input: Any) -> Any:
        """The maxima, and their positions where asked."""
        return self._pool(F.fractional_max_pool2d, input)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Maxima over windows at random steps that reach a given size. [Graham 2014]"""

    _expand = staticmethod(_triple)

    def forward(self, input: Any) -> Any:
        """The maxima, and their positions where asked."""
        return self._pool(F.fractional_max_pool3d, input)


class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
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

    def _pool(self, function: Any, input: Any) -> Any:
        return function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPoolNd):
    """``(sum x^p)^(1/p)`` over windows of ``[N, C, L]``."""

    def forward(self, input: Any) -> Any:
        """The norms."""
        return self._pool(F.lp_pool1d, input)


class LPPool2d(_LPPoolNd):
    """``(sum x^p)^(1/p)`` over windows of ``[N, C, H, W]``."""

    def forward(self, input: Any) -> Any:
        """The norms."""
        return self._pool(F.lp_pool2d, input)


class LPPool3d(_LPPoolNd):
    """``(sum x^p)^(1/p)`` over windows of ``[N, C, D, H, W]``."""

    def forward(self, input: Any) -> Any:
        """The norms."""
        return self._pool(F.lp_pool3d, input)


class _AdaptiveMaxPoolNd(Module):
    __constants__ = ["output_size", "return_indices"]
    return_indices: bool

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        """The output size."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima over windows that cover ``[N, C, L]`` evenly."""

    def forward(self, input: Any) -> Any:
        """The maxima, and their positions where asked."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima over windows that cover ``[N, C, H, W]`` evenly."""

    def forward(self, input: Any) -> Any:
        """The maxima, and their positions where asked."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima over windows that cover ``[N, C, D, H, W]`` evenly."""

    def forward(self, input: Any) -> Any:
        """The maxima, and their positions where asked."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(Module):
    __constants__ = ["output_size"]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """The output size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means over windows that cover ``[N, C, L]`` evenly."""

    def forward(self, input: Any) -> Any:
        """The means."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means over windows that cover ``[N, C, H, W]`` evenly."""

    def forward(self, input: Any) -> Any:
        """The means."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means over windows that cover ``[N, C, D, H, W]`` evenly."""

    def forward(self, input: Any) -> Any:
        """The means."""
        return F.adaptive_avg_pool3d(input, self.output_size)
