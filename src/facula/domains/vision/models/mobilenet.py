"""Networks for small machines: MobileNet V2 and V3. [Sandler et al. 2018, Howard et al. 2019]"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from facula import core, nn

from .layers import (
    ConvNorm,
    SqueezeExcitation,
    divisible,
    flat,
    initialise,
    no_weights,
)

__all__ = [
    "MobileNetV2", "MobileNetV3", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small",
]  # fmt: skip


class InvertedResidual(nn.Module):
    """Wide in the middle, narrow at the ends; the middle convolution is channel by channel."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = round(inputs * expansion)
        wide = [ConvNorm(inputs, hidden, 1, activation=nn.ReLU6)] if expansion != 1 else []
        self.conv = nn.Sequential(
            *wide,
            ConvNorm(hidden, hidden, 3, stride, hidden, activation=nn.ReLU6),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.use_res_connect = stride == 1 and inputs == outputs
        self.out_channels = outputs

    def forward(self, x: core.Tensor) -> Any:
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """Inverted residuals."""

    #: expansion, channels, blocks, stride
    STAGES = (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    )  # fmt: skip

    def __init__(
        self, num_classes: int = 1000, width_mult: float = 1.0, dropout: float = 0.2
    ) -> None:
        super().__init__()
        inputs = divisible(32 * width_mult)
        self.last_channel = divisible(1280 * max(1.0, width_mult))
        features: list[nn.Module] = [ConvNorm(3, inputs, 3, 2, activation=nn.ReLU6)]
        for expansion, channels, count, stride in self.STAGES:
            outputs = divisible(channels * width_mult)
            for i in range(count):
                features.append(
                    InvertedResidual(inputs, outputs, stride if i == 0 else 1, expansion)
                )
                inputs = outputs
        features.append(ConvNorm(inputs, self.last_channel, 1, activation=nn.ReLU6))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(self.last_channel, num_classes)
        )
        initialise(self, linear=0.01)

    def forward(self, x: core.Tensor) -> Any:
        x = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(flat(x))


def mobilenet_v2(*, weights: object = None, progress: bool = True, **settings: Any) -> MobileNetV2:
    """The network MobileNet V2, with random weights."""
    no_weights("mobilenet_v2", weights)
    return MobileNetV2(**settings)


class Setting(NamedTuple):
    """A block of MobileNet V3."""

    inputs: int
    kernel: int
    hidden: int
    outputs: int
    squeeze: bool
    hard: bool
    stride: int
    dilation: int = 1


class BlockV3(nn.Module):
    """An inverted residual with squeeze and excitation."""

    def __init__(self, s: Setting, norm: Any) -> None:
        super().__init__()
        activation = nn.Hardswish if s.hard else nn.ReLU
        layers: list[nn.Module] = []
        if s.hidden != s.inputs:
            layers.append(ConvNorm(s.inputs, s.hidden, 1, norm=norm, activation=activation))
        stride = 1 if s.dilation > 1 else s.stride
        layers.append(
            ConvNorm(s.hidden, s.hidden, s.kernel, stride, s.hidden, norm, activation, s.dilation)
        )
        if s.squeeze:
            squeezed = divisible(s.hidden // 4)
            layers.append(SqueezeExcitation(s.hidden, squeezed, scale=nn.Hardsigmoid))
        layers.append(ConvNorm(s.hidden, s.outputs, 1, norm=norm, activation=None))
        self.block = nn.Sequential(*layers)
        self.use_res_connect = s.stride == 1 and s.inputs == s.outputs
        self.out_channels, self._is_cn = s.outputs, s.stride > 1

    def forward(self, x: core.Tensor) -> Any:
        return x + self.block(x) if self.use_res_connect else self.block(x)


#: kernel, hidden, outputs, squeeze, hard swish, stride; those from the last entry on may be dilated
_LARGE = (
    (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2),
    (5, 120, 40, 1, 0, 1), (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1),
    (3, 184, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1),
    (5, 672, 160, 1, 1, 2), (5, 960, 160, 1, 1, 1), (5, 960, 160, 1, 1, 1),
)  # fmt: skip
_SMALL = (
    (3, 16, 16, 1, 0, 2), (3, 72, 24, 0, 0, 2), (3, 88, 24, 0, 0, 1), (5, 96, 40, 1, 1, 2),
    (5, 240, 40, 1, 1, 1), (5, 240, 40, 1, 1, 1), (5, 120, 48, 1, 1, 1), (5, 144, 48, 1, 1, 1),
    (5, 288, 96, 1, 1, 2), (5, 576, 96, 1, 1, 1), (5, 576, 96, 1, 1, 1),
)  # fmt: skip


def settings_of(
    size: str, width_mult: float = 1.0, reduced_tail: bool = False, dilated: bool = False
) -> tuple[list[Setting], int]:
    """The blocks of a size, and the channels behind them."""
    rows = _LARGE if size == "large" else _SMALL
    last_from, divisor, dilation = len(rows) - 3, 2 if reduced_tail else 1, 2 if dilated else 1
    blocks, inputs = [], divisible(16 * width_mult)
    for i, (kernel, hidden, outputs, squeeze, hard, stride) in enumerate(rows):
        tail = i >= last_from
        share = (divisor if tail else 1, divisor if tail and i > last_from else 1)
        out = divisible(outputs // share[0] * width_mult)
        middle = divisible(hidden // share[1] * width_mult)
        spread = dilation if tail else 1
        blocks.append(
            Setting(inputs, kernel, middle, out, bool(squeeze), bool(hard), stride, spread)
        )
        inputs = out
    return blocks, divisible((1280 if size == "large" else 1024) // divisor * width_mult)


class MobileNetV3(nn.Module):
    """Blocks found by search, with hard activations."""

    def __init__(
        self,
        inverted_residual_setting: list[Setting],
        last_channel: int,
        num_classes: int = 1000,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        blocks = inverted_residual_setting
        stem = ConvNorm(3, blocks[0].inputs, 3, 2, norm=norm, activation=nn.Hardswish)
        width = 6 * blocks[-1].outputs
        last = ConvNorm(blocks[-1].outputs, width, 1, norm=norm, activation=nn.Hardswish)
        self.features = nn.Sequential(stem, *[BlockV3(s, norm) for s in blocks], last)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(width, last_channel),
            nn.Hardswish(inplace=True),
            nn.Dropout(dropout, inplace=True),
            nn.Linear(last_channel, num_classes),
        )
        initialise(self, linear=0.01)

    def forward(self, x: core.Tensor) -> Any:
        return self.classifier(flat(self.avgpool(self.features(x))))


def _v3(size: str, settings: dict[str, Any]) -> MobileNetV3:
    shape = {
        name: settings.pop("_" + name if name == "dilated" else name)
        for name in ("width_mult", "reduced_tail", "dilated")
        if ("_" + name if name == "dilated" else name) in settings
    }
    return MobileNetV3(*settings_of(size, **shape), **settings)


def mobilenet_v3_large(
    *, weights: object = None, progress: bool = True, **settings: object
) -> MobileNetV3:
    """The large network MobileNet V3, with random weights."""
    no_weights("mobilenet_v3_large", weights)
    return _v3("large", settings)


def mobilenet_v3_small(
    *, weights: object = None, progress: bool = True, **settings: object
) -> MobileNetV3:
    """The small network MobileNet V3, with random weights."""
    no_weights("mobilenet_v3_small", weights)
    return _v3("small", settings)
