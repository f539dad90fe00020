"""What the convolutions of all dimensions share: their parameters, checks and printed form.

Takes the arguments of a layer, expanded to its dimensions.  Gives `_ConvNd` and `_ConvTransposeNd`.
Keeps true: weights are ``[out, in / groups, *kernel]`` (transposed: ``[in, out / groups,
*kernel]``); padding modes other than zeros pad first and then convolve without padding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn import init
from facula.nn.modules.module import Module
from facula.nn.modules.utils import _reverse_repeat_tuple
from facula.nn.parameter import Parameter

_PADDING_WORDS = {"same", "valid"}
_PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}


class _ConvNd(Module):
    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: Any
    bias: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: Any,
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_arguments(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._padding_for_pad()
        outer, inner = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        shape = (outer, inner // groups, *kernel_size)
        self.weight = Parameter(facula.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(facula.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _padding_for_pad(self) -> Any:
        """The padding in the order and form that ``F.pad`` takes."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        pads = [0, 0] * len(self.kernel_size)
        if self.padding == "same":
            sizes = zip(self.dilation, self.kernel_size, strict=True)
            for i, (dilation, kernel) in enumerate(reversed(list(sizes))):
                total = dilation * (kernel - 1)
                pads[2 * i] = total // 2
                pads[2 * i + 1] = total - total // 2
        return pads

    def reset_parameters(self) -> None:
        """Draw new weights."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """The parameters that differ from their defaults."""
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        ]
        n = len(self.kernel_size)
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * n:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * n:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"

    def _convolve(
        self,
        function: Callable[..., Any],
        zero: tuple,
        input: core.Tensor,
        weight: core.Tensor,
        bias: core.Tensor | None,
    ) -> Any:
        if self.padding_mode == "zeros":
            return function(
                input, weight, bias, self.stride, self.padding, self.dilation, self.groups
            )
        padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return function(padded, weight, bias, self.stride, zero, self.dilation, self.groups)


def _check_arguments(
    in_channels: int, out_channels: int, stride: tuple, padding: Any, groups: int, padding_mode: str
) -> None:
    if groups <= 0:
        fail(
            ValueError,
            "Conv",
            "groups must be a positive integer",
            hint="groups=1 connects all channels",
        )
    if in_channels % groups != 0:
        fail(
            ValueError,
            "Conv",
            "in_channels must be divisible by groups",
            hint="groups=1 connects all channels",
        )
    if out_channels % groups != 0:
        fail(
            ValueError,
            "Conv",
            "out_channels must be divisible by groups",
            hint="groups=1 connects all channels",
        )
    _check_padding(stride, padding, padding_mode)


def _check_padding(stride: tuple, padding: Sequence[int], padding_mode: str) -> None:
    if isinstance(padding, str):
        if padding not in _PADDING_WORDS:
            fail(
                ValueError,
                "Conv",
                f"Invalid padding string {padding!r}, should be one of {_PADDING_WORDS}",
                hint="a number pads by so many on every side",
            )
        if padding == "same" and any(s != 1 for s in stride):
            fail(
                ValueError,
                "Conv",
                "padding='same' is not supported for strided convolutions",
                hint="give the padding as a number, e.g. kernel_size // 2",
            )
    if padding_mode not in _PADDING_MODES:
        fail(
            ValueError,
            "Conv",
            f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode='{padding_mode}'",
            hint="'zeros' is the default",
        )


class _ConvTransposeNd(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple,
        stride: tuple,
        padding: tuple,
        dilation: tuple,
        transposed: bool,
        output_padding: tuple,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
    ) -> None:
        if padding_mode != "zeros":
            fail(
                ValueError,
                type(self).__name__,
                f'Only "zeros" padding mode is supported for {type(self).__name__}',
                hint="facula.nn.functional.pad() pads the input in other ways before",
            )
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(
        self,
        input: core.Tensor,
        output_size: Any,
        stride: Any,
        padding: Any,
        kernel_size: Any,
        num_spatial_dims: int,
        dilation: Any = None,
    ) -> Any:
        """The output padding that makes the result ``output_size``."""
        if output_size is None:
            return self.output_padding
        n = num_spatial_dims
        op = type(self).__name__
        output_size = list(output_size)
        if len(output_size) == input.dim():
            output_size = output_size[-n:]
        if len(output_size) != n:
            fail(
                ValueError,
                op,
                f"output_size of {n} or {input.dim()} elements",
                got=f"{len(output_size)}",
                hint="leave output_size out to have it by output_padding",
            )
        smallest, extra = [], []
        for d in range(n):
            span = 1 if dilation is None else dilation[d]
            size = (input.size(d + input.dim() - n) - 1) * stride[d]
            size += span * (kernel_size[d] - 1) + 1 - 2 * padding[d]
            smallest.append(size)
            extra.append(output_size[d] - size)
        if any(not 0 <= e < s for e, s in zip(extra, stride, strict=True)):
            largest = [m + s - 1 for m, s in zip(smallest, stride, strict=True)]
            fail(
                ValueError,
                op,
                f"output_size from {smallest} to {largest}",
                got=output_size,
                hint="leave output_size out to have it by output_padding",
            )
        return extra
