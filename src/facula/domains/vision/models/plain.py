"""Networks without branches, or nearly: AlexNet, VGG, SqueezeNet, DenseNet."""

from __future__ import annotations

from typing import Any

from facula import core, nn
from facula.ops.table.registry import F

from .layers import flat, initialise, no_weights


class AlexNet(nn.Module):
    """Five convolutions and three linear layers. [Krizhevsky 2014]"""

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        sizes = [(3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1)]
        for i, (inputs, outputs, kernel, stride, padding) in enumerate(
            [*sizes, (256, 256, 3, 1, 1)]
        ):
            layers += [nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU(inplace=True)]
            if i in (0, 1, 4):
                layers.append(nn.MaxPool2d(3, 2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(256 * 36, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, num_classes),
        )

    def forward(self, x: core.Tensor) -> Any:
        return self.classifier(flat(self.avgpool(self.features(x))))


def alexnet(*, weights: object = None, progress: bool = True, **settings: Any) -> AlexNet:
    """The network AlexNet, with random weights."""
    no_weights("alexnet", weights)
    return AlexNet(**settings)


class VGG(nn.Module):
    """Convolutions of three by three, and linear layers. [Simonyan & Zisserman 2014]"""

    def __init__(
        self,
        features: nn.Module,
        num_classes: int = 1000,
        init_weights: bool = True,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 49, 4096),
            nn.ReLU(True),
            nn.Dropout(dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(True),
            nn.Dropout(dropout),
            nn.Linear(4096, num_classes),
        )
        if init_weights:
            initialise(self, linear=0.01)

    def forward(self, x: core.Tensor) -> Any:
        return self.classifier(flat(self.avgpool(self.features(x))))


#: convolutions of each of the five sizes
_VGG = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def _vgg(depth: int, norm: bool) -> Any:
    name = f"vgg{depth}{'_bn' if norm else ''}"

    def build(*, weights: object = None, progress: bool = True, **settings: Any) -> VGG:
        no_weights(name, weights)
        layers: list[nn.Module] = []
        inputs = 3
        for i, count in enumerate(_VGG[depth]):
            outputs = min(64 << i, 512)
            for _ in range(count):
                layers.append(nn.Conv2d(inputs, outputs, 3, padding=1))
                layers += [nn.BatchNorm2d(outputs)] if norm else []
                layers.append(nn.ReLU(inplace=True))
                inputs = outputs
            layers.append(nn.MaxPool2d(2, 2))
        return VGG(nn.Sequential(*layers), **settings)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"The network VGG of {depth} layers{' with batch norms' if norm else ''}."
    return build


_BUILT = {
    f"vgg{depth}{'_bn' * norm}": _vgg(depth, norm) for depth in _VGG for norm in (False, True)
}


class Fire(nn.Module):
    """A narrow layer, then two wide ones side by side."""

    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: core.Tensor) -> Any:
        x = self.squeeze_activation(self.squeeze(x))
        sides = (
            self.expand1x1_activation(self.expand1x1(x)),
            self.expand3x3_activation(self.expand3x3(x)),
        )
        return F.cat(list(sides), 1)


class SqueezeNet(nn.Module):
    """A network of few weights. [Iandola et al. 2016]"""

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        first = (96, 7) if version == "1_0" else (64, 3)
        pools = (2, 6) if version == "1_0" else (1, 3)
        layers: list[nn.Module] = [nn.Conv2d(3, first[0], first[1], 2), nn.ReLU(inplace=True)]
        layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
        inputs = first[0]
        for i in range(8):
            squeezed, expanded = 16 * (i // 2 + 1), 64 * (i // 2 + 1)
            layers.append(Fire(inputs, squeezed, expanded))
            inputs = 2 * expanded
            if i in pools:
                layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(512, num_classes, 1)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                if module is last:
                    nn.init.normal_(module.weight, 0.0, 0.01)
                else:
                    nn.init.kaiming_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, x: core.Tensor) -> Any:
        return flat(self.classifier(self.features(x)))


def squeezenet1_0(*, weights: object = None, progress: bool = True, **settings: Any) -> SqueezeNet:
    """The network SqueezeNet 1.0, with random weights."""
    no_weights("squeezenet1_0", weights)
    return SqueezeNet("1_0", **settings)


def squeezenet1_1(*, weights: object = None, progress: bool = True, **settings: Any) -> SqueezeNet:
    """The network SqueezeNet 1.1, with random weights."""
    no_weights("squeezenet1_1", weights)
    return SqueezeNet("1_1", **settings)


class _DenseLayer(nn.Module):
    def __init__(self, inputs: int, growth: int, bottleneck: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.relu1 = nn.BatchNorm2d(inputs), nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(inputs, bottleneck * growth, 1, bias=False)
        self.norm2, self.relu2 = nn.BatchNorm2d(bottleneck * growth), nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(bottleneck * growth, growth, 3, padding=1, bias=False)
        self.dropout = dropout

    def forward(self, features: list[Any]) -> Any:
        x = self.conv1(self.relu1(self.norm1(F.cat(features, 1))))
        x = self.conv2(self.relu2(self.norm2(x)))
        return nn.functional.dropout(x, self.dropout, self.training) if self.dropout else x


class _DenseBlock(nn.ModuleDict):
    def __init__(
        self, count: int, inputs: int, growth: int, bottleneck: int, dropout: float
    ) -> None:
        super().__init__()
        for i in range(count):
            layer = _DenseLayer(inputs + i * growth, growth, bottleneck, dropout)
            self.add_module(f"denselayer{i + 1}", layer)

    def forward(self, x: core.Tensor) -> Any:
        features = [x]
        for layer in self.values():
            features.append(layer(features))
        return F.cat(features, 1)


class _Transition(nn.Sequential):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm, self.relu = nn.BatchNorm2d(inputs), nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.pool = nn.AvgPool2d(2, 2)


class DenseNet(nn.Module):
    """Layers that see all layers before them. [Huang et al. 2017]"""

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: tuple[int, ...] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0.0,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        self.features = nn.Sequential()
        self.features.add_module("conv0", nn.Conv2d(3, num_init_features, 7, 2, 3, bias=False))
        self.features.add_module("norm0", nn.BatchNorm2d(num_init_features))
        self.features.add_module("relu0", nn.ReLU(inplace=True))
        self.features.add_module("pool0", nn.MaxPool2d(3, 2, 1))
        width = num_init_features
        for i, count in enumerate(block_config):
            block = _DenseBlock(count, width, growth_rate, bn_size, drop_rate)
            self.features.add_module(f"denseblock{i + 1}", block)
            width += count * growth_rate
            if i + 1 < len(block_config):
                self.features.add_module(f"transition{i + 1}", _Transition(width, width // 2))
                width //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(width))
        self.classifier = nn.Linear(width, num_classes)
        initialise(self, mode="fan_in")
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x: core.Tensor) -> Any:
        x = nn.functional.relu(self.features(x), inplace=True)
        return self.classifier(flat(nn.functional.adaptive_avg_pool2d(x, (1, 1))))


_DENSE: dict[str, tuple[int, tuple[int, ...], int]] = {
    "densenet121": (32, (6, 12, 24, 16), 64),
    "densenet161": (48, (6, 12, 36, 24), 96),
    "densenet169": (32, (6, 12, 32, 32), 64),
    "densenet201": (32, (6, 12, 48, 32), 64),
}


def _dense(name: str) -> Any:
    def build(*, weights: object = None, progress: bool = True, **settings: Any) -> DenseNet:
        no_weights(name, weights)
        return DenseNet(*_DENSE[name], **settings)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"The network {name}, with random weights."
    return build


_BUILT |= {name: _dense(name) for name in _DENSE}
globals().update(_BUILT)
__all__ = [
    "AlexNet", "DenseNet", "SqueezeNet", "VGG", "alexnet", "squeezenet1_0", "squeezenet1_1", *_BUILT,
]  # fmt: skip
