"""Networks after the transformer: ViT, and convolutions in its manner, ConvNeXt.

[Dosovitskiy et al. 2021, Liu et al. 2022]
"""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import partial
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.ops.table.registry import F

from .layers import StochasticDepth, no_weights


class _Block(nn.Module):
    def __init__(
        self,
        heads: int,
        width: int,
        hidden: int,
        dropout: float,
        attention_dropout: float,
        norm: Any,
    ) -> None:
        super().__init__()
        self.ln_1 = norm(width)
        self.self_attention = nn.MultiheadAttention(
            width, heads, dropout=attention_dropout, batch_first=True
        )
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, width),
            nn.Dropout(dropout),
        )
        for layer in (self.mlp[0], self.mlp[3]):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)

    def forward(self, x: core.Tensor) -> Any:
        y = self.ln_1(x)
        x = self.dropout(self.self_attention(y, y, y, need_weights=False)[0]) + x
        return x + self.mlp(self.ln_2(x))


class _Encoder(nn.Module):
    def __init__(
        self, length: int, layers: int, width: int, dropout: float, block: Any, norm: Any
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(F.empty((1, length, width)).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        named = OrderedDict((f"encoder_layer_{i}", block()) for i in range(layers))
        self.layers = nn.Sequential(named)
        self.ln = norm(width)

    def forward(self, x: core.Tensor) -> Any:
        return self.ln(self.layers(self.dropout(x + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """Patches of an image as the words of a sequence."""

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            required = (
                f"an image size that patches of {patch_size} divide was required (Input shape "
            )
            required += "indivisible by patch size!)"
            hint = f"{image_size // patch_size * patch_size} does"
            fail(ValueError, "VisionTransformer", required, image_size, hint=hint)
        self.image_size, self.patch_size, self.hidden_dim = image_size, patch_size, hidden_dim
        norm = partial(nn.LayerNorm, eps=1e-6)
        self.conv_proj = nn.Conv2d(3, hidden_dim, patch_size, patch_size)
        self.class_token = nn.Parameter(F.zeros((1, 1, hidden_dim)))
        length = (image_size // patch_size) ** 2 + 1
        block = partial(_Block, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm)
        self.encoder = _Encoder(length, num_layers, hidden_dim, dropout, block, norm)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(hidden_dim, num_classes)))
        nn.init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / (3 * patch_size**2)))
        nn.init.zeros_(self.conv_proj.bias)
        nn.init.zeros_(self.heads.head.weight)
        nn.init.zeros_(self.heads.head.bias)

    def forward(self, x: core.Tensor) -> Any:
        if tuple(x.shape[2:]) != (self.image_size,) * 2:
            required = (
                f"images of {self.image_size} by {self.image_size} were required (Wrong image "
            )
            required += "height or width!)"
            fail(
                RuntimeError, "VisionTransformer", required, list(x.shape), hint="resize them first"
            )
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = F.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1)
        return self.heads(self.encoder(x)[:, 0])


#: patch, layers, heads, width, hidden
_VIT = {
    "vit_b_16": (16, 12, 12, 768, 3072), "vit_b_32": (32, 12, 12, 768, 3072),
    "vit_l_16": (16, 24, 16, 1024, 4096), "vit_l_32": (32, 24, 16, 1024, 4096),
    "vit_h_14": (14, 32, 16, 1280, 5120),
}  # fmt: skip


def _vit(name: str) -> Any:
    def build(
        *, weights: object = None, progress: bool = True, **settings: Any
    ) -> VisionTransformer:
        no_weights(name, weights)
        size = settings.pop("image_size", 224)
        return VisionTransformer(size, *_VIT[name], **settings)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"The network {name}, with random weights."
    return build


class LayerNorm2d(nn.LayerNorm):
    """A norm over the channels of images."""

    def forward(self, x: core.Tensor) -> Any:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Permute(nn.Module):
    """Dimensions in another order."""

    def __init__(self, dims: list[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: core.Tensor) -> Any:
        return x.permute(self.dims)


class _ConvBlock(nn.Module):
    def __init__(self, width: int, layer_scale: float, drop: float) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(width, width, 7, padding=3, groups=width),
            Permute([0, 2, 3, 1]),
            nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            Permute([0, 3, 1, 2]),
        )
        self.layer_scale = nn.Parameter(F.ones((width, 1, 1)) * layer_scale)
        self.stochastic_depth = StochasticDepth(drop, "row")

    def forward(self, x: core.Tensor) -> Any:
        return self.stochastic_depth(self.layer_scale * self.block(x)) + x


class ConvNeXt(nn.Module):
    """Large convolutions channel by channel, then linear layers at every place.

    Args:
        block_setting: width and number of blocks of each stage.
    """

    def __init__(
        self,
        block_setting: list[tuple[int, int]],
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        norm = partial(LayerNorm2d, eps=1e-6)
        first = block_setting[0][0]
        layers: list[nn.Module] = [nn.Sequential(nn.Conv2d(3, first, 4, 4), norm(first))]
        total, done = sum(count for _, count in block_setting), 0
        for i, (width, count) in enumerate(block_setting):
            blocks = []
            for _ in range(count):
                drop = stochastic_depth_prob * done / max(total - 1.0, 1.0)
                blocks.append(_ConvBlock(width, layer_scale, drop))
                done += 1
            layers.append(nn.Sequential(*blocks))
            if i + 1 < len(block_setting):
                wider = block_setting[i + 1][0]
                layers.append(nn.Sequential(norm(width), nn.Conv2d(width, wider, 2, 2)))
        last = block_setting[-1][0]
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(norm(last), nn.Flatten(1), nn.Linear(last, num_classes))
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, x: core.Tensor) -> Any:
        return self.classifier(self.avgpool(self.features(x)))


#: width of the first stage, blocks, stochastic depth
_NEXT = {
    "convnext_tiny": (96, (3, 3, 9, 3), 0.1), "convnext_small": (96, (3, 3, 27, 3), 0.4),
    "convnext_base": (128, (3, 3, 27, 3), 0.5), "convnext_large": (192, (3, 3, 27, 3), 0.5),
}  # fmt: skip


def _next(name: str) -> Any:
    def build(*, weights: object = None, progress: bool = True, **settings: Any) -> ConvNeXt:
        no_weights(name, weights)
        width, counts, drop = _NEXT[name]
        stages = [(width << i, count) for i, count in enumerate(counts)]
        return ConvNeXt(stages, settings.pop("stochastic_depth_prob", drop), **settings)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"The network {name}, with random weights."
    return build


_BUILT = {name: _vit(name) for name in _VIT} | {name: _next(name) for name in _NEXT}
globals().update(_BUILT)
__all__ = ["ConvNeXt", "VisionTransformer", *_BUILT]
