"""Networks that classify every pixel: FCN, DeepLab V3, LR-ASPP.

Takes: images [N, 3, H, W]. Gives: `{"out": [N, classes, H, W]}`, with `aux` where there is a second head.
[Long et al. 2015, Chen et al. 2017, Howard et al. 2019]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core, nn
from facula.ops.table.registry import F

from .. import mobilenet, resnet
from .._utils import IntermediateLayerGetter
from ..layers import no_weights

__all__ = [
    "DeepLabV3", "FCN", "LRASPP", "deeplabv3_mobilenet_v3_large", "deeplabv3_resnet101",
    "deeplabv3_resnet50", "fcn_resnet101", "fcn_resnet50", "lraspp_mobilenet_v3_large",
]  # fmt: skip


def _resized(x: core.Tensor, size: Any) -> Any:
    return nn.functional.interpolate(x, size=size, mode="bilinear", align_corners=False)


class _Segmenter(nn.Module):
    """A backbone, a head, perhaps a second head; logits as large as the image."""

    def __init__(
        self, backbone: nn.Module, classifier: nn.Module, aux_classifier: Any = None
    ) -> None:
        super().__init__()
        self.backbone, self.classifier = backbone, classifier
        self.aux_classifier = aux_classifier

    def forward(self, x: core.Tensor) -> dict[str, Any]:
        features, size = self.backbone(x), x.shape[-2:]
        result = {"out": _resized(self.classifier(features["out"]), size)}
        if self.aux_classifier is not None:
            result["aux"] = _resized(self.aux_classifier(features["aux"]), size)
        return result


class FCN(_Segmenter):
    """A fully convolutional network."""


class DeepLabV3(_Segmenter):
    """Atrous convolutions side by side."""


class FCNHead(nn.Sequential):
    """A convolution, and one to classes."""

    def __init__(self, inputs: int, classes: int) -> None:
        middle = inputs // 4
        super().__init__(
            nn.Conv2d(inputs, middle, 3, padding=1, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Conv2d(middle, classes, 1),
        )


def _norm_relu(conv: nn.Module, channels: int) -> list[nn.Module]:
    return [conv, nn.BatchNorm2d(channels), nn.ReLU()]


class _Pooled(nn.Sequential):
    """What the whole image holds, at every place."""

    def __init__(self, inputs: int, outputs: int) -> None:
        conv = nn.Conv2d(inputs, outputs, 1, bias=False)
        super().__init__(nn.AdaptiveAvgPool2d(1), *_norm_relu(conv, outputs))

    def forward(self, x: core.Tensor) -> Any:
        size = x.shape[-2:]
        for module in self:
            x = module(x)
        return _resized(x, size)


class ASPP(nn.Module):
    """Convolutions of several dilations, and the image's mean, joined."""

    def __init__(self, inputs: int, rates: tuple[int, ...], outputs: int = 256) -> None:
        super().__init__()
        plain = nn.Sequential(*_norm_relu(nn.Conv2d(inputs, outputs, 1, bias=False), outputs))
        spread = [
            nn.Sequential(
                *_norm_relu(
                    nn.Conv2d(inputs, outputs, 3, padding=rate, dilation=rate, bias=False), outputs
                )
            )
            for rate in rates
        ]
        self.convs = nn.ModuleList([plain, *spread, _Pooled(inputs, outputs)])
        joined = nn.Conv2d(len(self.convs) * outputs, outputs, 1, bias=False)
        self.project = nn.Sequential(*_norm_relu(joined, outputs), nn.Dropout(0.5))

    def forward(self, x: core.Tensor) -> Any:
        return self.project(F.cat([conv(x) for conv in self.convs], 1))


class DeepLabHead(nn.Sequential):
    """Atrous pyramid, a convolution, and one to classes."""

    def __init__(self, inputs: int, classes: int, rates: tuple[int, ...] = (12, 24, 36)) -> None:
        super().__init__(
            ASPP(inputs, rates),
            nn.Conv2d(256, 256, 3, padding=1, bias=False),
            nn.BatchNorm2d(256),
            nn.ReLU(),
            nn.Conv2d(256, classes, 1),
        )


class LRASPPHead(nn.Module):
    """Classes from features of two sizes, the small one gated by the image's mean."""

    def __init__(self, low: int, high: int, classes: int, middle: int = 128) -> None:
        super().__init__()
        self.cbr = nn.Sequential(
            nn.Conv2d(high, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(inplace=True)
        )
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(high, middle, 1, bias=False), nn.Sigmoid()
        )
        self.low_classifier = nn.Conv2d(low, classes, 1)
        self.high_classifier = nn.Conv2d(middle, classes, 1)

    def forward(self, features: dict[str, Any]) -> Any:
        low, high = features["low"], features["high"]
        x = _resized(self.cbr(high) * self.scale(high), low.shape[-2:])
        return self.low_classifier(low) + self.high_classifier(x)


class LRASPP(nn.Module):
    """A small head for small machines."""

    def __init__(
        self, backbone: nn.Module, low_channels: int, high_channels: int, num_classes: int
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = LRASPPHead(low_channels, high_channels, num_classes)

    def forward(self, x: core.Tensor) -> dict[str, Any]:
        return {"out": _resized(self.classifier(self.backbone(x)), x.shape[-2:])}


def _checked(name: str, weights: Any, weights_backbone: Any) -> None:
    no_weights(name, weights)
    no_weights(name, weights_backbone)


def _on_resnet(kind: Any, head: Any, depth: int, num_classes: int | None, aux_loss: Any) -> Any:
    whole = getattr(resnet, f"resnet{depth}")(replace_stride_with_dilation=[False, True, True])
    layers = {"layer4": "out"} | ({"layer3": "aux"} if aux_loss else {})
    classes = 21 if num_classes is None else num_classes
    aux = FCNHead(1024, classes) if aux_loss else None
    return kind(IntermediateLayerGetter(whole, layers), head(2048, classes), aux)


def _constructor(name: str, kind: Callable[..., Any], head: Callable[..., Any], depth: int) -> Any:
    def build(
        *,
        weights: Any = None,
        progress: bool = True,
        num_classes: int | None = None,
        aux_loss: bool | None = None,
        weights_backbone: Any = None,
    ) -> Any:
        _checked(name, weights, weights_backbone)
        return _on_resnet(kind, head, depth, num_classes, aux_loss)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"The network {kind.__name__} on ResNet of {depth} layers, with random weights."
    return build


fcn_resnet50 = _constructor("fcn_resnet50", FCN, FCNHead, 50)
fcn_resnet101 = _constructor("fcn_resnet101", FCN, FCNHead, 101)
deeplabv3_resnet50 = _constructor("deeplabv3_resnet50", DeepLabV3, DeepLabHead, 50)
deeplabv3_resnet101 = _constructor("deeplabv3_resnet101", DeepLabV3, DeepLabHead, 101)


def _mobile() -> tuple[Any, list[int], list[int]]:
    """Dilated features of MobileNet V3, the places where it shrinks, and their channels."""
    features = mobilenet.mobilenet_v3_large(_dilated=True).features
    places = [
        0,
        *(i for i, b in enumerate(features) if getattr(b, "_is_cn", False)),
        len(features) - 1,
    ]
    return features, places, [features[i].out_channels for i in places]


def deeplabv3_mobilenet_v3_large(
    *,
    weights: Any = None,
    progress: bool = True,
    num_classes: int | None = None,
    aux_loss: bool | None = None,
    weights_backbone: Any = None,
) -> DeepLabV3:
    """The network DeepLab V3 on MobileNet V3, with random weights."""
    _checked("deeplabv3_mobilenet_v3_large", weights, weights_backbone)
    features, places, channels = _mobile()
    layers = {str(places[-1]): "out"} | ({str(places[-4]): "aux"} if aux_loss else {})
    classes = 21 if num_classes is None else num_classes
    aux = FCNHead(channels[-4], classes) if aux_loss else None
    backbone = IntermediateLayerGetter(features, layers)
    return DeepLabV3(backbone, DeepLabHead(channels[-1], classes), aux)


def lraspp_mobilenet_v3_large(
    *,
    weights: Any = None,
    progress: bool = True,
    num_classes: int | None = None,
    weights_backbone: Any = None,
) -> LRASPP:
    """The network LR-ASPP on MobileNet V3, with random weights."""
    _checked("lraspp_mobilenet_v3_large", weights, weights_backbone)
    features, places, channels = _mobile()
    layers = {str(places[-4]): "low", str(places[-1]): "high"}
    backbone = IntermediateLayerGetter(features, layers)
    classes = 21 if num_classes is None else num_classes
    return LRASPP(backbone, channels[-4], channels[-1], classes)
