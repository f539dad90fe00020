"""Pieces that several models are made of.

Takes: sizes. Gives: modules whose children are numbered and named as in torchvision, so that its weights load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core, nn
from facula.core.errors import fail

__all__ = [
    "ConvNorm", "SqueezeExcitation", "StochasticDepth", "divisible", "flat", "initialise", "no_weights",
]  # fmt: skip


def no_weights(name: str, weights: object) -> None:
    """Models start from random numbers: weights are files, and the caller's."""
    if weights:
        required = "weights=None was required"
        hint = "load a file into the model: model.load_state_dict(facula.load(path))"
        fail(ValueError, name, required, repr(weights), hint=hint)


def divisible(value: float, divisor: int = 8) -> int:
    """The nearest multiple, but not less than nine tenths of the value."""
    near = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * value else near


class ConvNorm(nn.Sequential):
    """A convolution that keeps the size (with stride 1), a norm, an activation: children 0, 1, 2."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 3,
        stride: int = 1,
        groups: int = 1,
        norm: Callable[[int], nn.Module] | None = nn.BatchNorm2d,
        activation: Callable[..., nn.Module] | None = nn.ReLU,
        dilation: int = 1,
        bias: bool | None = None,
    ) -> None:
        padding = (kernel - 1) // 2 * dilation
        biased = norm is None if bias is None else bias
        layers: list[nn.Module] = [
            nn.Conv2d(
                inputs,
                outputs,
                kernel,
                stride,
                padding,
                dilation=dilation,
                groups=groups,
                bias=biased,
            )
        ]
        if norm is not None:
            layers.append(norm(outputs))
        if activation is not None:
            layers.append(activation(inplace=True))
        super().__init__(*layers)
        self.out_channels = outputs


class SqueezeExcitation(nn.Module):
    """Channels scaled by what is seen of all of them. [Hu et al. 2018]"""

    def __init__(
        self,
        channels: int,
        squeezed: int,
        activation: Callable[[], nn.Module] = nn.ReLU,
        scale: Callable[[], nn.Module] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation, self.scale_activation = activation(), scale()

    def forward(self, x: core.Tensor) -> Any:
        scale = self.fc2(self.activation(self.fc1(self.avgpool(x))))
        return self.scale_activation(scale) * x


class StochasticDepth(nn.Module):
    """In training, drops whole rows of a batch, and scales the others up. [Huang et al. 2016]"""

    def __init__(self, p: float, mode: str = "row") -> None:
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, x: core.Tensor) -> Any:
        if not self.training or self.p == 0:
            return x
        shape = [x.shape[0] if self.mode == "row" else 1] + [1] * (x.dim() - 1)
        keep = x.new_empty(shape).bernoulli_(1 - self.p)
        return x * (keep / (1 - self.p) if self.p < 1 else keep)

    def extra_repr(self) -> str:
        """What is set."""
        return f"p={self.p}, mode={self.mode}"


def initialise(model: nn.Module, mode: str = "fan_out", linear: float | None = None) -> None:
    """Convolutions by He's rule, norms at one, linear layers with a deviation, biases at zero."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, (nn.BatchNorm2d, nn.GroupNorm)):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear) and linear is not None:
            nn.init.normal_(module.weight, 0.0, linear)
            nn.init.zeros_(module.bias)


def flat(x: core.Tensor) -> Any:
    """`[N, ...]` as rows."""
    return x.flatten(1)
