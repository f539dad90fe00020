"""Networks for text: an encoder in RoBERTa's shape, and T5 (`t5`), with torchtext's names of parameters.

Takes: numbers of words `[batch, time]`. Gives: features, or logits of a head. [Liu et al. 2019]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from facula import core, nn
from facula.ops.table.registry import F

from .t5 import T5Conf, T5Model

__all__ = [
    "RobertaClassificationHead",
    "RobertaEncoder",
    "RobertaEncoderConf",
    "RobertaModel",
    "T5Conf",
    "T5Model",
]


@dataclass
class RobertaEncoderConf:
    """The sizes of an encoder."""

    vocab_size: int = 50265
    embedding_dim: int = 768
    ffn_dimension: int = 3072
    padding_idx: int = 1
    max_seq_len: int = 514
    num_attention_heads: int = 12
    num_encoder_layers: int = 12
    dropout: float = 0.1
    normalize_before: bool = False


class _Places(nn.Module):
    """A vector for each place; padding has one of its own, and places are counted from behind its number."""

    def __init__(self, count: int, width: int, padding: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(count, width, padding)
        self.pad_index = padding

    def forward(self, tokens: core.Tensor) -> Any:
        used = tokens.ne(self.pad_index).to(tokens.dtype)
        return self.embedding(F.cumsum(used, 1) * used + self.pad_index)


class _Layers(nn.Module):
    def __init__(self, conf: RobertaEncoderConf) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            conf.embedding_dim,
            conf.num_attention_heads,
            conf.ffn_dimension,
            conf.dropout,
            activation="gelu",
            batch_first=True,
            norm_first=conf.normalize_before,
        )
        self.layers = nn.TransformerEncoder(
            layer, conf.num_encoder_layers, enable_nested_tensor=False
        )
        self.positional_embedding = _Places(conf.max_seq_len, conf.embedding_dim, conf.padding_idx)
        self.token_embedding = nn.Embedding(conf.vocab_size, conf.embedding_dim, conf.padding_idx)
        self.embedding_layer_norm = nn.LayerNorm(conf.embedding_dim)
        self.dropout = nn.Dropout(conf.dropout)
        self.padding_idx, self.before = conf.padding_idx, conf.normalize_before

    def forward(self, tokens: core.Tensor) -> Any:
        unused = tokens.eq(self.padding_idx)
        x = self.token_embedding(tokens) + self.positional_embedding(tokens)
        x = x if self.before else self.embedding_layer_norm(x)
        x = self.dropout(x) * (1 - unused.unsqueeze(-1).to(x.dtype))
        x = self.layers(x, src_key_padding_mask=unused)
        return self.embedding_layer_norm(x) if self.before else x


class RobertaEncoder(nn.Module):
    """Features `[batch, time, width]` of words."""

    def __init__(self, conf: RobertaEncoderConf | None = None) -> None:
        super().__init__()
        self.encoder_conf = conf or RobertaEncoderConf()
        self.transformer = _Layers(self.encoder_conf)

    def forward(self, tokens: core.Tensor) -> Any:
        return self.transformer(tokens)


class RobertaClassificationHead(nn.Module):
    """Classes, out of the features of the first word."""

    def __init__(
        self, num_classes: int, input_dim: int, inner_dim: int | None = None, dropout: float = 0.1
    ) -> None:
        super().__init__()
        inner = inner_dim or input_dim
        self.dense, self.dropout = nn.Linear(input_dim, inner), nn.Dropout(dropout)
        self.out_proj, self.activation_fn = nn.Linear(inner, num_classes), nn.ReLU()

    def forward(self, features: core.Tensor) -> Any:
        x = self.activation_fn(self.dense(self.dropout(features[:, 0])))
        return self.out_proj(self.dropout(x))


class RobertaModel(nn.Module):
    """An encoder, with a head where there is one."""

    def __init__(
        self,
        encoder_conf: RobertaEncoderConf,
        head: nn.Module | None = None,
        freeze_encoder: bool = False,
    ) -> None:
        super().__init__()
        self.encoder, self.head = RobertaEncoder(encoder_conf), head
        if freeze_encoder:
            self.encoder.requires_grad_(False)

    def forward(self, tokens: core.Tensor) -> Any:
        features = self.encoder(tokens)
        return features if self.head is None else self.head(features)
