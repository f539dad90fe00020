"""Residual networks: ResNet, ResNeXt and wide ones. [He et al. 2015, Xie et al. 2017, Zagoruyko 2016]"""

from __future__ import annotations

from typing import Any

from facula import core, nn

from .layers import flat, initialise, no_weights


def _conv3(inputs: int, outputs: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> Any:
    return nn.Conv2d(
        inputs, outputs, 3, stride, dilation, dilation=dilation, groups=groups, bias=False
    )


class BasicBlock(nn.Module):
    """Two convolutions around which the input goes."""

    expansion = 1

    def __init__(
        self,
        inputs: int,
        planes: int,
        stride: int,
        downsample: Any,
        groups: int,
        base: int,
        dilation: int,
    ) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv3(inputs, planes, stride), nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = _conv3(planes, planes), nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x: core.Tensor) -> Any:
        beside = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + beside)


class Bottleneck(nn.Module):
    """Three convolutions, the middle one narrow (with the stride, as in version 1.5)."""

    expansion = 4

    def __init__(
        self,
        inputs: int,
        planes: int,
        stride: int,
        downsample: Any,
        groups: int,
        base: int,
        dilation: int,
    ) -> None:
        super().__init__()
        width, outputs = planes * base // 64 * groups, planes * self.expansion
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv3(width, width, stride, groups, dilation)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: core.Tensor) -> Any:
        beside = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.relu(self.bn3(self.conv3(out)) + beside)


class ResNet(nn.Module):
    """A stem, four stages of residual blocks, the mean over the image, classes.

    Args:
        replace_stride_with_dilation: of the last three stages, those that keep their size.
    """

    def __init__(
        self,
        block: Any,
        layers: list[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: list[bool] | None = None,
    ) -> None:
        super().__init__()
        self.inplanes, self.dilation = 64, 1
        self.groups, self.base_width = groups, width_per_group
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        dilated = [False, *(replace_stride_with_dilation or [False] * 3)]
        for i, count in enumerate(layers):
            stage = self._stage(block, 64 << i, count, 1 if i == 0 else 2, dilated[i])
            setattr(self, f"layer{i + 1}", stage)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        initialise(self)
        if zero_init_residual:
            for module in self.modules():
                if isinstance(module, (BasicBlock, Bottleneck)):
                    last = module.bn3 if isinstance(module, Bottleneck) else module.bn2
                    nn.init.zeros_(last.weight)

    def _stage(self, block: Any, planes: int, count: int, stride: int, dilate: bool) -> Any:
        before, outputs = self.dilation, planes * block.expansion
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        down = None
        if stride != 1 or self.inplanes != outputs:
            down = nn.Sequential(
                nn.Conv2d(self.inplanes, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
        shape = (self.groups, self.base_width)
        blocks = [block(self.inplanes, planes, stride, down, *shape, before)]
        self.inplanes = outputs
        blocks += [block(outputs, planes, 1, None, *shape, self.dilation) for _ in range(1, count)]
        return nn.Sequential(*blocks)

    def forward(self, x: core.Tensor) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(flat(self.avgpool(x)))


#: name -> block, blocks of each stage, groups, width of a group
_SIZES: dict[str, tuple[type, list[int], int, int]] = {
    "resnet18": (BasicBlock, [2, 2, 2, 2], 1, 64),
    "resnet34": (BasicBlock, [3, 4, 6, 3], 1, 64),
    "resnet50": (Bottleneck, [3, 4, 6, 3], 1, 64),
    "resnet101": (Bottleneck, [3, 4, 23, 3], 1, 64),
    "resnet152": (Bottleneck, [3, 8, 36, 3], 1, 64),
    "resnext50_32x4d": (Bottleneck, [3, 4, 6, 3], 32, 4),
    "resnext101_32x8d": (Bottleneck, [3, 4, 23, 3], 32, 8),
    "resnext101_64x4d": (Bottleneck, [3, 4, 23, 3], 64, 4),
    "wide_resnet50_2": (Bottleneck, [3, 4, 6, 3], 1, 128),
    "wide_resnet101_2": (Bottleneck, [3, 4, 23, 3], 1, 128),
}


def _constructor(name: str) -> Any:
    def build(*, weights: Any = None, progress: bool = True, **settings: Any) -> ResNet:
        no_weights(name, weights)
        block, layers, groups, width = _SIZES[name]
        settings = {"groups": groups, "width_per_group": width, **settings}
        return ResNet(block, layers, **settings)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"The network {name}, with random weights."
    return build


_BUILT = {name: _constructor(name) for name in _SIZES}
globals().update(_BUILT)
__all__ = ["ResNet", *_BUILT]
