"""Convolutions of integers with a sum behind them, as one layer.

Takes: the fused float layers `ConvAdd2d` and `ConvAddReLU2d`, observed. Gives: the layers of integers. Keeps true: the
sum is rounded once, after it was made of numbers.
"""

from __future__ import annotations

from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.quantization.modules import quantized

__all__ = ["ConvAdd2d", "ConvAddReLU2d"]


class ConvAdd2d(quantized._ConvNd):
    """A convolution of integers and the sum with others; ``forward(input, extra_input)``."""

    _float = nn.Conv2d
    _word = "QuantizedConvAdd2d"
    _relu = False

    def forward(self, input: core.Tensor, extra_input: core.Tensor) -> Any:
        """The sum."""
        return _sum(self, quantized._ops().conv2d_add, input, extra_input)


class ConvAddReLU2d(quantized._ConvNd):
    """relu of a convolution of integers and others; ``forward(input, extra_input)``."""

    _float = nn.Conv2d
    _word = "QuantizedConvAddReLU2d"
    _relu = True

    def forward(self, input: core.Tensor, extra_input: core.Tensor) -> Any:
        """relu of the sum."""
        return _sum(self, quantized._ops().conv2d_add_relu, input, extra_input)


def _sum(layer: Any, run: Any, input: core.Tensor, extra_input: core.Tensor) -> Any:
    if input.dim() != 4:
        fail(
            ValueError,
            "conv2d_add",
            "Input shape must be `(N, C, H, W)`!",
            f"{input.dim()} dimensions",
            hint="[batch, channels, height, width]",
        )
    if layer.padding_mode != "zeros":
        sides = layer._reversed_padding_repeated_twice
        input = nn.functional.pad(input, sides, layer.padding_mode)
    return run(input, extra_input, layer._packed_params, layer.scale, layer.zero_point)
