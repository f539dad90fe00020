"""Convolutions and transposed convolutions in one, two and three dimensions, and their lazy forms.

Takes ``[N, C, ...]`` or ``[C, ...]``.  Gives the same with ``out_channels`` channels.
Keeps true: weights are ``[out, in / groups, *kernel]`` (transposed: ``[in, out / groups,
*kernel]``); padding modes other than zeros pad first and then convolve without padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn.modules.conv_base import _ConvNd, _ConvTransposeNd
from facula.nn.modules.lazy import LazyModuleMixin
from facula.nn.modules.utils import _pair, _single, _triple
from facula.nn.parameter import UninitializedParameter

__all__ = """Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d
LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d""".split()


def _plain(expand: Callable[..., Any], function_name: str, dims: int) -> Any:
    """The shared constructor and forward of the convolutions in ``dims`` dimensions."""

    class _Plain(_ConvNd):
        def __init__(
            self,
            in_channels: int,
            out_channels: int,
            kernel_size: int | Sequence[int],
            stride: int | Sequence[int] = 1,
            padding: object = 0,
            dilation: int | Sequence[int] = 1,
            groups: int = 1,
            bias: bool = True,
            padding_mode: str = "zeros",
            device: core.device | str | int | None = None,
            dtype: core.dtype | None = None,
        ) -> None:
            padding = padding if isinstance(padding, str) else expand(padding)
            super().__init__(
                in_channels, out_channels, expand(kernel_size), expand(stride), padding, expand(dilation),
                False, expand(0), groups, bias, padding_mode, device, dtype,
            )  # fmt: skip

        def _conv_forward(
            self, input: core.Tensor, weight: core.Tensor, bias: core.Tensor | None
        ) -> Any:
            return self._convolve(getattr(F, function_name), expand(0), input, weight, bias)

        def forward(self, input: core.Tensor) -> Any:
            """``[N, C_in, ...]`` to ``[N, C_out, ...]``."""
            return self._conv_forward(input, self.weight, self.bias)

    _Plain.__name__ = _Plain.__qualname__ = f"_Plain{dims}d"
    return _Plain


class Conv1d(_plain(_single, "conv1d", 1)):  # type: ignore[misc]
    """Convolution (cross-correlation) of ``[N, C_in, L]`` with a learned kernel.

    ``weight`` is ``[out_channels, in_channels / groups, kernel_size]`` and ``bias``
    ``[out_channels]``; both start uniform in ``[-b, b]`` with ``b = 1 / sqrt(fan_in)``, fan_in the
    number of weights for one output.

    Args:
        in_channels: channels of the input
        out_channels: channels of the output
        kernel_size: of the window, int
        stride: distance of windows, int
        padding: added on both sides, int; 'valid' for none, 'same' for an output of the input's
            size (stride 1 only)
        dilation: distance of a window's elements, int
        groups: channels are split into so many groups that do not see each other; ``in_channels``
            for a depthwise convolution
        bias: whether something is added
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'
        device, dtype: of the parameters

    Shape:
        ``[N, C_in, L]`` or ``[C_in, L]`` to the same with C_out and sizes ``floor((size + 2 padding
        - dilation (kernel - 1) - 1) / stride) + 1``.

    Raises:
        ValueError: ``groups`` is no divisor of both channels, or ``padding`` or its mode is
            unknown.
        RuntimeError: at the call, where the input's channels or dtype do not fit the weight.

    Example:
        >>> layer = facula.nn.Conv1d(3, 8, kernel_size=3, stride=2, padding=1)
        >>> layer(facula.randn(4, 3, 16)).shape
        facula.Size([4, 8, 8])
        >>> layer.weight.shape
        facula.Size([8, 3, 3])
    """


class Conv2d(_plain(_pair, "conv2d", 2)):  # type: ignore[misc]
    """Convolution (cross-correlation) of ``[N, C_in, H, W]`` with a learned kernel.

    ``weight`` is ``[out_channels, in_channels / groups, kernel_size[0], kernel_size[1]]`` and
    ``bias`` ``[out_channels]``; both start uniform in ``[-b, b]`` with ``b = 1 / sqrt(fan_in)``,
    fan_in the number of weights for one output.

    Args:
        in_channels: channels of the input
        out_channels: channels of the output
        kernel_size: of the window, int or pair of ints
        stride: distance of windows, int or pair of ints
        padding: added on both sides, int or pair of ints; 'valid' for none, 'same' for an output of
            the input's size (stride 1 only)
        dilation: distance of a window's elements, int or pair of ints
        groups: channels are split into so many groups that do not see each other; ``in_channels``
            for a depthwise convolution
        bias: whether something is added
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'
        device, dtype: of the parameters

    Shape:
        ``[N, C_in, H, W]`` or ``[C_in, H, W]`` to the same with C_out and sizes ``floor((size + 2
        padding - dilation (kernel - 1) - 1) / stride) + 1``.

    Raises:
        ValueError: ``groups`` is no divisor of both channels, or ``padding`` or its mode is
            unknown.
        RuntimeError: at the call, where the input's channels or dtype do not fit the weight.

    Example:
        >>> layer = facula.nn.Conv2d(3, 8, kernel_size=3, stride=2, padding=1)
        >>> layer(facula.randn(4, 3, 16, 16)).shape
        facula.Size([4, 8, 8, 8])
        >>> layer.weight.shape
        facula.Size([8, 3, 3, 3])
    """


class Conv3d(_plain(_triple, "conv3d", 3)):  # type: ignore[misc]
    """Convolution (cross-correlation) of ``[N, C_in, D, H, W]`` with a learned kernel.

    ``weight`` is ``[out_channels, in_channels / groups, kernel_size[0], kernel_size[1],
    kernel_size[2]]`` and ``bias`` ``[out_channels]``; both start uniform in ``[-b, b]`` with ``b =
    1 / sqrt(fan_in)``, fan_in the number of weights for one output.

    Args:
        in_channels: channels of the input
        out_channels: channels of the output
        kernel_size: of the window, int or triple of ints
        stride: distance of windows, int or triple of ints
        padding: added on both sides, int or triple of ints; 'valid' for none, 'same' for an output
            of the input's size (stride 1 only)
        dilation: distance of a window's elements, int or triple of ints
        groups: channels are split into so many groups that do not see each other; ``in_channels``
            for a depthwise convolution
        bias: whether something is added
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'
        device, dtype: of the parameters

    Shape:
        ``[N, C_in, D, H, W]`` or ``[C_in, D, H, W]`` to the same with C_out and sizes ``floor((size
        + 2 padding - dilation (kernel - 1) - 1) / stride) + 1``.

    Raises:
        ValueError: ``groups`` is no divisor of both channels, or ``padding`` or its mode is
            unknown.
        RuntimeError: at the call, where the input's channels or dtype do not fit the weight.

    Example:
        >>> layer = facula.nn.Conv3d(3, 8, kernel_size=3, stride=2, padding=1)
        >>> layer(facula.randn(4, 3, 8, 8, 8)).shape
        facula.Size([4, 8, 4, 4, 4])
        >>> layer.weight.shape
        facula.Size([8, 3, 3, 3, 3])
    """


class _Transposed(_ConvTransposeNd):
    """The shared constructor and forward of the transposed convolutions."""

    _expand: Any
    _function_name: str
    _dims: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: object = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            self._expand(kernel_size),
            self._expand(stride),
            self._expand(padding),
            self._expand(dilation),
            True,
            self._expand(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: core.Tensor, output_size: Any = None) -> Any:
        """``[N, C_in, ...]`` to ``[N, C_out, ...]``, of size ``output_size`` where it is given."""
        output_padding = self._output_padding(
            input,
            output_size,
            self.stride,
            self.padding,
            self.kernel_size,
            self._dims,
            self.dilation,
        )
        return getattr(F, self._function_name)(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )


def _transposed(expand: Callable[..., Any], function_name: str, dims: int) -> Any:
    """The base class of the transposed convolution in ``dims`` dimensions."""
    fields = {"_expand": staticmethod(expand), "_function_name": function_name, "_dims": dims}
    return type(f"_Transposed{dims}d", (_Transposed,), {"__module__": __name__, **fields})


class ConvTranspose1d(_transposed(_single, "conv_transpose1d", 1)):  # type: ignore[misc]
    """Transposed convolution: the gradient of `Conv1d` with respect to its input, as a layer.

    Each input element adds a scaled kernel to the output. ``weight`` is ``[in_channels,
    out_channels / groups, ...]``.

    Args:
        in_channels: channels of the input
        out_channels: channels of the output
        kernel_size: of the kernel, int
        stride: distance of kernels in the output, int
        padding: taken off both sides of the output, int
        output_padding: added to one side of the output, int, less than stride or dilation; it picks
            one of the sizes that the convolution maps to the same
        groups: channels are split into so many groups that do not see each other
        bias: whether something is added
        dilation: distance of a kernel's elements, int
        padding_mode: 'zeros', nothing else
        device, dtype: of the parameters

    Shape:
        ``[N, C_in, L]`` or ``[C_in, L]`` to the same with C_out and sizes ``(size - 1) stride - 2
        padding + dilation (kernel - 1) + output_padding + 1``; ``forward(input, output_size)`` asks
        for one of them.

    Raises:
        ValueError: ``groups`` is no divisor of both channels, the padding mode is another, or
            ``output_size`` can not be reached.

    Example:
        >>> layer = facula.nn.ConvTranspose1d(8, 3, kernel_size=4, stride=2, padding=1)
        >>> layer(facula.randn(4, 8, 16)).shape
        facula.Size([4, 3, 32])
    """


class ConvTranspose2d(_transposed(_pair, "conv_transpose2d", 2)):  # type: ignore[misc]
    """Transposed convolution: the gradient of `Conv2d` with respect to its input, as a layer.

    Each input element adds a scaled kernel to the output. ``weight`` is ``[in_channels,
    out_channels / groups, ...]``.

    Args:
        in_channels: channels of the input
        out_channels: channels of the output
        kernel_size: of the kernel, int or pair of ints
        stride: distance of kernels in the output, int or pair of ints
        padding: taken off both sides of the output, int or pair of ints
        output_padding: added to one side of the output, int or pair of ints, less than stride or
            dilation; it picks one of the sizes that the convolution maps to the same
        groups: channels are split into so many groups that do not see each other
        bias: whether something is added
        dilation: distance of a kernel's elements, int or pair of ints
        padding_mode: 'zeros', nothing else
        device, dtype: of the parameters

    Shape:
        ``[N, C_in, H, W]`` or ``[C_in, H, W]`` to the same with C_out and sizes ``(size - 1) stride
        - 2 padding + dilation (kernel - 1) + output_padding + 1``; ``forward(input, output_size)``
        asks for one of them.

    Raises:
        ValueError: ``groups`` is no divisor of both channels, the padding mode is another, or
            ``output_size`` can not be reached.

    Example:
        >>> layer = facula.nn.ConvTranspose2d(8, 3, kernel_size=4, stride=2, padding=1)
        >>> layer(facula.randn(4, 8, 16, 16)).shape
        facula.Size([4, 3, 32, 32])
    """


class ConvTranspose3d(_transposed(_triple, "conv_transpose3d", 3)):  # type: ignore[misc]
    """Transposed convolution: the gradient of `Conv3d` with respect to its input, as a layer.

    Each input element adds a scaled kernel to the output. ``weight`` is ``[in_channels,
    out_channels / groups, ...]``.

    Args:
        in_channels: channels of the input
        out_channels: channels of the output
        kernel_size: of the kernel, int or triple of ints
        stride: distance of kernels in the output, int or triple of ints
        padding: taken off both sides of the output, int or triple of ints
        output_padding: added to one side of the output, int or triple of ints, less than stride or
            dilation; it picks one of the sizes that the convolution maps to the same
        groups: channels are split into so many groups that do not see each other
        bias: whether something is added
        dilation: distance of a kernel's elements, int or triple of ints
        padding_mode: 'zeros', nothing else
        device, dtype: of the parameters

    Shape:
        ``[N, C_in, D, H, W]`` or ``[C_in, D, H, W]`` to the same with C_out and sizes ``(size - 1)
        stride - 2 padding + dilation (kernel - 1) + output_padding + 1``; ``forward(input,
        output_size)`` asks for one of them.

    Raises:
        ValueError: ``groups`` is no divisor of both channels, the padding mode is another, or
            ``output_size`` can not be reached.

    Example:
        >>> layer = facula.nn.ConvTranspose3d(8, 3, kernel_size=4, stride=2, padding=1)
        >>> layer(facula.randn(4, 8, 8, 8, 8)).shape
        facula.Size([4, 3, 16, 16, 16])
    """


class _LazyConvXdMixin(LazyModuleMixin):
    """Reads ``in_channels`` off the first input."""

    def reset_parameters(self) -> None:
        """Draw new weights once there are any."""
        module: Any = self
        if not self.has_uninitialized_params() and module.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: core.Tensor, *args: Any, **kwargs: Any) -> None:
        """Make the weights for ``input``."""
        if not self.has_uninitialized_params():
            return
        module: Any = self
        with no_grad():
            module.in_channels = self._get_in_channels(input)
            if module.in_channels % module.groups != 0:
                fail(
                    ValueError,
                    "Conv",
                    "in_channels must be divisible by groups",
                    hint="groups=1 connects all channels",
                )
            outer, inner = module.out_channels, module.in_channels
            if module.transposed:
                outer, inner = inner, outer
            module.weight.materialize((outer, inner // module.groups, *module.kernel_size))
            if module.bias is not None:
                module.bias.materialize((module.out_channels,))
            module.reset_parameters()

    def _get_in_channels(self, input: core.Tensor) -> int:
        unbatched = self._get_num_spatial_dims() + 1
        if input.dim() not in (unbatched, unbatched + 1):
            fail(
                RuntimeError,
                type(self).__name__,
                (
                    f"Expected {unbatched}D (unbatched) or {unbatched + 1}D (batched) input to "
                    f"{type(self).__name__}, but got input of size: {input.shape}"
                ),
                hint="unsqueeze(0) adds a batch of one",
            )
        return input.shape[1] if input.dim() == unbatched + 1 else input.shape[0]

    def _get_num_spatial_dims(self) -> int:
        return len(self.kernel_size)  # type: ignore[attr-defined]

    def _forget_weights(
        self, out_channels: int, bias: bool, device: core.device | str | int | None, dtype: Any
    ) -> None:
        module: Any = self
        module.weight = UninitializedParameter(device=device, dtype=dtype)
        module.out_channels = out_channels
        if bias:
            module.bias = UninitializedParameter(device=device, dtype=dtype)


class _LazyPlain(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: object,
        stride: object = 1,
        padding: object = 0,
        dilation: object = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._forget_weights(out_channels, bias, device, dtype)


class _LazyTransposed(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: object,
        stride: object = 1,
        padding: object = 0,
        output_padding: object = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: object = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        self._forget_weights(out_channels, bias, device, dtype)


class LazyConv1d(_LazyPlain, Conv1d):
    """`Conv1d` that reads ``in_channels`` off its first input, and becomes a `Conv1d` then.

    Args:
        out_channels: channels of the output
        kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as of
            `Conv1d`

    Raises:
        RuntimeError: at the first call, where the input has not 2 or 3 dimensions.

    Example:
        >>> layer = facula.nn.LazyConv1d(8, 3)
        >>> layer(facula.ones(1, 3, 16)).shape
        facula.Size([1, 8, 14])
        >>> layer
        Conv1d(3, 8, kernel_size=(3,), stride=(1,))
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyPlain, Conv2d):
    """`Conv2d` that reads ``in_channels`` off its first input, and becomes a `Conv2d` then.

    Args:
        out_channels: channels of the output
        kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as of
            `Conv2d`

    Raises:
        RuntimeError: at the first call, where the input has not 3 or 4 dimensions.

    Example:
        >>> layer = facula.nn.LazyConv2d(8, 3)
        >>> layer(facula.ones(1, 3, 16, 16)).shape
        facula.Size([1, 8, 14, 14])
        >>> layer
        Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyPlain, Conv3d):
    """`Conv3d` that reads ``in_channels`` off its first input, and becomes a `Conv3d` then.

    Args:
        out_channels: channels of the output
        kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as of
            `Conv3d`

    Raises:
        RuntimeError: at the first call, where the input has not 4 or 5 dimensions.

    Example:
        >>> layer = facula.nn.LazyConv3d(8, 3)
        >>> layer(facula.ones(1, 3, 8, 8, 8)).shape
        facula.Size([1, 8, 6, 6, 6])
        >>> layer
        Conv3d(3, 8, kernel_size=(3, 3, 3), stride=(1, 1, 1))
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """`ConvTranspose1d` that reads ``in_channels`` off its first input, and becomes one then.

    Args:
        out_channels: channels of the output
        kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode, device,
            dtype: as of `ConvTranspose1d`

    Example:
        >>> layer = facula.nn.LazyConvTranspose1d(8, 2, stride=2)
        >>> layer(facula.ones(1, 3, 16)).shape
        facula.Size([1, 8, 32])
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """`ConvTranspose2d` that reads ``in_channels`` off its first input, and becomes one then.

    Args:
        out_channels: channels of the output
        kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode, device,
            dtype: as of `ConvTranspose2d`

    Example:
        >>> layer = facula.nn.LazyConvTranspose2d(8, 2, stride=2)
        >>> layer(facula.ones(1, 3, 16, 16)).shape
        facula.Size([1, 8, 32, 32])
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """`ConvTranspose3d` that reads ``in_channels`` off its first input, and becomes one then.

    Args:
        out_channels: channels of the output
        kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode, device,
            dtype: as of `ConvTranspose3d`

    Example:
        >>> layer = facula.nn.LazyConvTranspose3d(8, 2, stride=2)
        >>> layer(facula.ones(1, 3, 8, 8, 8)).shape
        facula.Size([1, 8, 16, 16, 16])
    """

    cls_to_become = ConvTranspose3d
