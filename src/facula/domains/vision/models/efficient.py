"""Networks scaled in width, depth and size together: EfficientNet and its second version.

[Tan & Le 2019, 2021]
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

from facula import core, nn

from .layers import (
    ConvNorm,
    SqueezeExcitation,
    StochasticDepth,
    divisible,
    flat,
    initialise,
    no_weights,
)


class Stage(NamedTuple):
    """Blocks of one kind: `fused` ones have one convolution where others have two."""

    fused: bool
    expansion: int
    kernel: int
    stride: int
    inputs: int
    outputs: int
    blocks: int

    def scaled(self, width: float, depth: float) -> Stage:
        """Wider and deeper."""
        inputs, outputs = divisible(self.inputs * width), divisible(self.outputs * width)
        return self._replace(inputs=inputs, outputs=outputs, blocks=math.ceil(self.blocks * depth))


class MBConv(nn.Module):
    """An inverted residual, with squeeze and excitation unless it is fused."""

    def __init__(self, stage: Stage, stride: int, drop: float, norm: Any) -> None:
        super().__init__()
        hidden = divisible(stage.inputs * stage.expansion)
        conv = partial(ConvNorm, norm=norm)
        act = nn.SiLU
        layers: list[nn.Module] = []
        if stage.fused and hidden == stage.inputs:
            layers.append(conv(stage.inputs, stage.outputs, stage.kernel, stride, activation=act))
        elif stage.fused:
            layers.append(conv(stage.inputs, hidden, stage.kernel, stride, activation=act))
            layers.append(conv(hidden, stage.outputs, 1, activation=None))
        else:
            if hidden != stage.inputs:
                layers.append(conv(stage.inputs, hidden, 1, activation=act))
            layers.append(conv(hidden, hidden, stage.kernel, stride, hidden, activation=act))
            squeezed = max(1, stage.inputs // 4)
            layers.append(SqueezeExcitation(hidden, squeezed, partial(nn.SiLU, inplace=True)))
            layers.append(conv(hidden, stage.outputs, 1, activation=None))
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(drop, "row")
        self.use_res_connect = stride == 1 and stage.inputs == stage.outputs

    def forward(self, x: core.Tensor) -> Any:
        out = self.block(x)
        return self.stochastic_depth(out) + x if self.use_res_connect else out


class EfficientNet(nn.Module):
    """A stem, stages of inverted residuals, a last convolution, classes."""

    def __init__(
        self,
        inverted_residual_setting: list[Stage],
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: Any = nn.BatchNorm2d,
        last_channel: int | None = None,
    ) -> None:
        super().__init__()
        stages, norm = inverted_residual_setting, norm_layer
        stem = ConvNorm(3, stages[0].inputs, 3, 2, norm=norm, activation=nn.SiLU)
        layers: list[nn.Module] = [stem]
        total, done = sum(stage.blocks for stage in stages), 0
        for stage in stages:
            blocks = []
            for i in range(stage.blocks):
                one = stage if i == 0 else stage._replace(inputs=stage.outputs)
                drop = stochastic_depth_prob * done / total
                blocks.append(MBConv(one, stage.stride if i == 0 else 1, drop, norm))
                done += 1
            layers.append(nn.Sequential(*blocks))
        width = last_channel or 4 * stages[-1].outputs
        layers.append(ConvNorm(stages[-1].outputs, width, 1, norm=norm, activation=nn.SiLU))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout, inplace=True), nn.Linear(width, num_classes)
        )
        initialise(self)
        bound = 1 / math.sqrt(num_classes)
        nn.init.uniform_(self.classifier[1].weight, -bound, bound)
        nn.init.zeros_(self.classifier[1].bias)

    def forward(self, x: core.Tensor) -> Any:
        return self.classifier(flat(self.avgpool(self.features(x))))


_FIRST = [
    Stage(False, *row)
    for row in (
        (1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3),
        (6, 5, 1, 80, 112, 3), (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1),
    )
]  # fmt: skip
#: width, depth, dropout
_SCALES = {
    "b0": (1.0, 1.0, 0.2), "b1": (1.0, 1.1, 0.2), "b2": (1.1, 1.2, 0.3), "b3": (1.2, 1.4, 0.3),
    "b4": (1.4, 1.8, 0.4), "b5": (1.6, 2.2, 0.4), "b6": (1.8, 2.6, 0.5), "b7": (2.0, 3.1, 0.5),
}  # fmt: skip
#: dropout, and the stages, of which the first three are fused
_SECOND: dict[str, tuple[float, tuple[tuple[int, ...], ...]]] = {
    "v2_s": (0.2, ((1, 3, 1, 24, 24, 2), (4, 3, 2, 24, 48, 4), (4, 3, 2, 48, 64, 4),
                   (4, 3, 2, 64, 128, 6), (6, 3, 1, 128, 160, 9), (6, 3, 2, 160, 256, 15))),
    "v2_m": (0.3, ((1, 3, 1, 24, 24, 3), (4, 3, 2, 24, 48, 5), (4, 3, 2, 48, 80, 5),
                   (4, 3, 2, 80, 160, 7), (6, 3, 1, 160, 176, 14), (6, 3, 2, 176, 304, 18),
                   (6, 3, 1, 304, 512, 5))),
    "v2_l": (0.4, ((1, 3, 1, 32, 32, 4), (4, 3, 2, 32, 64, 7), (4, 3, 2, 64, 96, 7),
                   (4, 3, 2, 96, 192, 10), (6, 3, 1, 192, 224, 19), (6, 3, 2, 224, 384, 25),
                   (6, 3, 1, 384, 640, 7))),
}  # fmt: skip


def _parts(size: str) -> dict[str, Any]:
    """The settings of a size."""
    if size in _SCALES:
        width, depth, dropout = _SCALES[size]
        narrow = size in ("b5", "b6", "b7")
        norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01) if narrow else nn.BatchNorm2d
        stages = [stage.scaled(width, depth) for stage in _FIRST]
        return {"inverted_residual_setting": stages, "dropout": dropout, "norm_layer": norm}
    dropout, rows = _SECOND[size]
    return {
        "inverted_residual_setting": [Stage(i < 3, *row) for i, row in enumerate(rows)],
        "dropout": dropout,
        "norm_layer": partial(nn.BatchNorm2d, eps=1e-3),
        "last_channel": 1280,
    }


def _constructor(size: str) -> Any:
    name = f"efficientnet_{size}"

    def build(*, weights: object = None, progress: bool = True, **settings: object) -> EfficientNet:
        no_weights(name, weights)
        return EfficientNet(**{**_parts(size), **settings})

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"The network EfficientNet {size}, with random weights."
    return build


_BUILT = {f"efficientnet_{size}": _constructor(size) for size in (*_SCALES, *_SECOND)}
globals().update(_BUILT)
__all__ = ["EfficientNet", *_BUILT]
