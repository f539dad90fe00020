"""Convolutions of integers with a sum behind them, as one layer.

Takes: the fused float layers `ConvAdd2d` and `ConvAddReLU2d`, observed. Gives: the layers of integers. Keeps true: the
sum is rounded once, after it was made of numbers.
"""

from __future__ import annotations

from typing import Any

from facula import core, nn
from facula.quantization.modules import quantized

__all__ = ["ConvAdd2d", "ConvAddReLU2d"]


def _forward(run: Any) -> Any:
    """`forward` of a convolution and a sum, as scripts compile it, too."""

    def forward(self: Any, input: core.Tensor, extra_input: core.Tensor) -> Any:
        if input.dim() != 4:
            raise ValueError(
                f"[conv2d_add] Input shape must be `(N, C, H, W)`!: got {input.dim()} of 4 dimensions"
                "\nhint: [batch, channels, height, width]"
            )
        if self.padding_mode != "zeros":
            input = nn.functional.pad(
                input, self._reversed_padding_repeated_twice, self.padding_mode
            )
        return run(input, extra_input, self._packed_params, self.scale, self.zero_point)

    forward.__doc__ = "The sum of the convolution and of `extra_input`."
    return forward


class ConvAdd2d(quantized._ConvNd):
    """A convolution of integers and the sum with others; ``forward(input, extra_input)``."""

    _FLOAT_MODULE = nn.Conv2d
    _word = "QuantizedConvAdd2d"
    forward = _forward(quantized._ops().conv2d_add)


class ConvAddReLU2d(quantized._ConvNd):
    """relu of a convolution of integers and others; ``forward(input, extra_input)``."""

    _FLOAT_MODULE = nn.Conv2d
    _word = "QuantizedConvAddReLU2d"
    forward = _forward(quantized._ops().conv2d_add_relu)
