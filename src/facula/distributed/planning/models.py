"""The models that plans are made for.

Takes: sizes. Gives: `Decoder`, a stage of a language model of the Llama kind, and how its layers are cut.
Keeps true: parameters and products are those of the published models; a stage knows which layers it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from facula import core, nn
from facula.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from facula.distributed.tensor.placement_types import Replicate
from facula.ops.table.registry import F

__all__ = ["MODELS", "Config", "Decoder", "Layer", "parallel_plans"]


@dataclass(frozen=True)
class Config:
    """The sizes of a model. heads: of queries; shared_heads: of keys and values."""

    words: int
    width: int
    depth: int
    heads: int
    shared_heads: int
    hidden: int


MODELS = {
    "tiny": Config(256, 64, 4, 4, 4, 128),
    "llama-1b": Config(128256, 2048, 16, 32, 8, 8192),
    "llama-8b": Config(128256, 4096, 32, 32, 8, 14336),
    "llama-70b": Config(128256, 8192, 80, 64, 8, 28672),
    "llama-405b": Config(128256, 16384, 126, 128, 8, 53248),
}


class Layer(nn.Module):
    """Attention and a gated product."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, self.size = config.width, config.width // config.heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query = nn.Linear(width, config.heads * self.size, bias=False)
        self.key = nn.Linear(width, config.shared_heads * self.size, bias=False)
        self.value = nn.Linear(width, config.shared_heads * self.size, bias=False)
        self.result = nn.Linear(config.heads * self.size, width, bias=False)
        self.gate = nn.Linear(width, config.hidden, bias=False)
        self.up = nn.Linear(width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, width, bias=False)

    def forward(self, x: core.Tensor) -> Any:
        """Both, each added to what came."""
        x = x + self._attended(self.norm1(x))
        h = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))

    def _attended(self, x: Any) -> Any:
        batch, length = x.shape[0], x.shape[1]
        q, k, v = (
            part.view(batch, length, -1, self.size).transpose(1, 2)
            for part in (self.query(x), self.key(x), self.value(x))
        )
        y = nn.functional.scaled_dot_product_attention(
            _turned(q), _turned(k), v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1]
        )
        return self.result(y.transpose(1, 2).reshape(batch, length, -1))


def _turned(x: Any) -> Any:
    """Pairs of numbers, turned by an angle that grows with the place. [Su et al. 2021]"""
    half, length = x.shape[-1] // 2, x.shape[-2]
    place = F.arange(length, device=x.device, dtype=core.float32)
    speed = 10000.0 ** (F.arange(half, device=x.device, dtype=core.float32) / -half)
    angle = place[:, None] * speed
    cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    left, right = x[..., :half], x[..., half:]
    return F.cat([left * cosine - right * sine, left * sine + right * cosine], -1)


class Decoder(nn.Module):
    """Some layers of a model, with what stands before the first and behind the last.

    Args:
        first, last: which layers these are, [first, last)
    """

    def __init__(self, config: Config, first: int = 0, last: int | None = None) -> None:
        super().__init__()
        last = config.depth if last is None else last
        self.tokens = nn.Embedding(config.words, config.width) if first == 0 else None
        self.layers = nn.ModuleList([Layer(config) for _ in range(first, last)])
        self.norm: nn.Module | None = None
        self.head: nn.Module | None = None
        if last == config.depth:
            self.norm = nn.RMSNorm(config.width)
            self.head = nn.Linear(config.width, config.words, bias=False)

    def forward(self, x: core.Tensor) -> Any:
        """From tokens, or from what the stage before gives."""
        if self.tokens is not None:
            x = self.tokens(x)
        for layer in self.layers:
            x = layer(x)
        return x if self.norm is None or self.head is None else self.head(self.norm(x))


def parallel_plans() -> tuple[dict[str, Any], dict[str, Any]]:
    """How the parts of a layer, and those around the layers, lie on the ranks of tensor parallelism."""
    layer: dict[str, Any] = {n: ColwiseParallel() for n in ("query", "key", "value", "gate", "up")}
    layer |= {n: RowwiseParallel() for n in ("result", "down")}
    around = {
        "tokens": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }
    return layer, around
