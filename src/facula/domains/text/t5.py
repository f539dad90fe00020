"""T5: an encoder and a decoder that tell places by a bias of attention. [Raffel et al. 2020]

Takes: numbers of words `[batch, time]`. Gives: features of the decoder (of the encoder, where there is no other), or
scores of words.
Keeps true: padding is not attended to, and a word of the decoder sees none behind it; one table of biases serves
all layers of a side; names of parameters are torchtext's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.ops.table.registry import F

__all__ = ["T5Conf", "T5Model"]

Tensor = core.Tensor
#: keys and values of a layer: of its own words, and of the encoder's
Past = tuple[Tensor, Tensor, Tensor, Tensor]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: F.relu(x),
    "gelu": lambda x: F.gelu(x),
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
}


@dataclass
class T5Conf:
    """The sizes of a model. `feed_forward_proj` ("relu", "gated-gelu", ...) decides `activation` and
    `is_gated_act` where it is given.

    Example:
        >>> facula.text.models.T5Conf(feed_forward_proj="gated-gelu").activation
        'gelu_new'
    """

    encoder_only: bool = False
    linear_head: bool = False
    embedding_dim: int = 768
    qkv_dim: int = 64
    num_attention_heads: int = 12
    num_encoder_layers: int = 12
    num_decoder_layers: int = 12
    ffn_dimension: int = 3072
    dropout: float = 0.1
    activation: str | Callable[[Tensor], Tensor] = "relu"
    layer_norm_eps: float = 1e-6
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    padding_idx: int = 0
    max_seq_len: int = 512
    vocab_size: int = 32128
    training: bool = False
    feed_forward_proj: str | None = None
    is_gated_act: bool = False

    def __post_init__(self) -> None:
        if self.feed_forward_proj:
            gate, _, name = self.feed_forward_proj.rpartition("-")
            if gate not in ("", "gated"):
                fail(
                    ValueError,
                    "T5Conf",
                    "feed_forward_proj of the form 'gated-NAME' or 'NAME' was required",
                    got=repr(self.feed_forward_proj),
                    hint="'relu' is T5's, 'gated-gelu' that of T5 1.1",
                )
            self.is_gated_act = gate == "gated"
            self.activation = "gelu_new" if (gate, name) == ("gated", "gelu") else name
        if not callable(self.activation) and self.activation not in _ACTIVATIONS:
            fail(
                ValueError,
                "T5Conf",
                f"one of {sorted(_ACTIVATIONS)} was required as activation, or a function",
                got=repr(self.activation),
                hint="functions of nn.functional serve",
            )

    def activated(self, x: Tensor) -> Tensor:
        """The activation of `x`."""
        return (self.activation if callable(self.activation) else _ACTIVATIONS[self.activation])(x)


class _Norm(nn.Module):
    """Scales to a mean square of one; no mean is taken off, nothing is added."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(F.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def bucket(distance: Tensor, buckets: int, farthest: int, both_ways: bool) -> Tensor:
    """The bucket of a distance `key - query`: near ones have one each, farther ones share by their logarithm."""
    start: Any = 0
    if both_ways:
        buckets //= 2
        start = (distance > 0) * buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    near = buckets // 2
    share = F.log(distance.clamp(min=1) / near) / math.log(farthest / near)
    far = (near + (share * (buckets - near)).to(core.int64)).clamp(max=buckets - 1)
    return start + F.where(distance < near, distance, far)


class _Attention(nn.Module):
    """Attention whose scores are not scaled."""

    def __init__(self, conf: T5Conf, biased: bool, both_ways: bool) -> None:
        super().__init__()
        width, inner = conf.embedding_dim, conf.num_attention_heads * conf.qkv_dim
        for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
            setattr(self, name, nn.Parameter(nn.init.xavier_uniform_(core.empty((inner, width)))))
        self.out_proj = nn.Linear(inner, width, bias=False)
        if biased:
            table = conf.relative_attention_num_buckets
            self.relative_attention_bias = nn.Embedding(table, conf.num_attention_heads)
        self.conf, self.both_ways = conf, both_ways
        self.dropout = nn.Dropout(conf.dropout if conf.training else 0.0)

    def bias(self, queries: int, keys: int) -> Tensor:
        """What is added to the scores of the last `queries` of so many words, `[1, heads, queries, keys]`."""
        device = self.q_proj_weight.device
        places = F.arange(keys, device=device)
        distance = places - places[keys - queries :, None]
        conf = self.conf
        found = bucket(
            distance,
            conf.relative_attention_num_buckets,
            conf.relative_attention_max_distance,
            self.both_ways,
        )
        return self.relative_attention_bias(found).permute(2, 0, 1).unsqueeze(0)

    def projected(self, x: Tensor, weight: Tensor) -> Tensor:
        """`[batch, heads, time, width of a head]`."""
        return F.linear(x, weight).unflatten(2, (self.conf.num_attention_heads, -1)).transpose(1, 2)

    def forward(
        self, x: Tensor, key: Tensor, value: Tensor, added: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The result, and the weights of attention."""
        query = self.projected(x, self.q_proj_weight)
        weights = self.dropout(F.softmax(query @ key.transpose(2, 3) + added, -1))
        return self.out_proj((weights @ value).transpose(1, 2).flatten(2)), weights


class _Layer(nn.Module):
    def __init__(self, conf: T5Conf, first: bool, decodes: bool) -> None:
        super().__init__()
        width, inner = conf.embedding_dim, conf.ffn_dimension
        self.conf, self.decodes = conf, decodes
        self.self_attn = _Attention(conf, first, not decodes)
        if decodes:
            self.cross_attn = _Attention(conf, False, False)
            self.norm3 = _Norm(width, conf.layer_norm_eps)
        if conf.is_gated_act:
            self.linear1_0 = nn.Linear(width, inner, bias=False)
            self.linear1_1 = nn.Linear(width, inner, bias=False)
        else:
            self.linear1 = nn.Linear(width, inner, bias=False)
        self.linear2 = nn.Linear(inner, width, bias=False)
        self.norm1 = _Norm(width, conf.layer_norm_eps)
        self.norm2 = _Norm(width, conf.layer_norm_eps)
        self.dropout = nn.Dropout(conf.dropout if conf.training else 0.0)

    def feed_forward(self, x: Tensor) -> Tensor:
        """The network behind attention."""
        if self.conf.is_gated_act:
            y = self.conf.activated(self.linear1_0(x)) * self.linear1_1(x)
        else:
            y = self.conf.activated(self.linear1(x))
        return self.linear2(self.dropout(y))

    def forward(
        self,
        x: Tensor,
        added: Tensor,
        memory: Tensor | None,
        memory_added: Tensor | None,
        past: Past | None,
    ) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The result, the weights of attention, and keys and values to go on with."""
        y = self.norm1(x)
        own = self.self_attn
        key = own.projected(y, own.k_proj_weight)
        value = own.projected(y, own.v_proj_weight)
        if past is not None:
            key, value = F.cat((past[0], key), 2), F.cat((past[1], value), 2)
        y, weights = own(y, key, value, added)
        x = x + self.dropout(y)
        all_weights: tuple[Tensor, ...] = (weights,)
        kept: tuple[Tensor, ...] = (key, value)
        if memory is not None:
            cross = self.cross_attn
            if past is None:
                key = cross.projected(memory, cross.k_proj_weight)
                value = cross.projected(memory, cross.v_proj_weight)
            else:
                key, value = past[2:]
            y, weights = cross(self.norm3(x), key, value, memory_added)
            x, all_weights, kept = x + self.dropout(y), (*all_weights, weights), (*kept, key, value)
        return x + self.dropout(self.feed_forward(self.norm2(x))), all_weights, kept


def _addition(mask: Tensor | None, padding: Tensor | None) -> Any:
    """What is added to scores: -inf where a mask (true, or a number to add) or padding forbids."""
    added: Any = 0.0
    if mask is not None:
        added = F.where(mask, -math.inf, 0.0) if mask.dtype == core.bool else mask
    if padding is not None:
        # the least number, not -inf: a sentence of nothing but padding has weights all the same
        least = core.finfo(core.float32).min
        added = added + F.where(padding, least, 0.0)[:, None, None]
    return added


class _Side(nn.Module):
    """The layers of the encoder or of the decoder."""

    def __init__(self, conf: T5Conf, count: int, decodes: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(conf, i == 0, decodes) for i in range(count))
        self.norm = _Norm(conf.embedding_dim, conf.layer_norm_eps)
        rate = conf.dropout if conf.training else 0.0
        self.dropout1, self.dropout2 = nn.Dropout(rate), nn.Dropout(rate)

    def run(
        self,
        x: Tensor,
        mask: core.Tensor,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        past: Sequence[Past] | None = None,
    ) -> tuple[Tensor, tuple, Tensor, list, list]:
        """The result, states before each layer and at the end, the bias, weights, and keys and values."""
        before = past[0][0].shape[2] if past else 0
        bias = self.layers[0].self_attn.bias(x.shape[1], before + x.shape[1])
        x, states, weights, kept = self.dropout1(x), [], [], []
        for i, layer in enumerate(self.layers):
            states.append(x)
            x, found, keep = layer(x, bias + mask, memory, memory_mask, past[i] if past else None)
            weights.append(found)
            kept.append(keep)
        x = self.dropout2(self.norm(x))
        return x, (*states, x), bias, weights, kept


class _Encoder(_Side):
    def __init__(self, conf: T5Conf, token_embeddings: nn.Embedding) -> None:
        super().__init__(conf, conf.num_encoder_layers, False)
        self.token_embeddings = token_embeddings

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None
    ) -> dict[str, Any]:
        """Features of words, with states, bias and weights."""
        found = self.run(self.token_embeddings(src), _addition(mask, src_key_padding_mask))
        x, states, bias, weights, _ = found
        return {
            "encoder_output": x,
            "encoder_hidden_states": states,
            "encoder_position_bias": bias,
            "encoder_sa_scores": tuple(own for (own,) in weights),
        }


class _Decoder(_Side):
    def __init__(self, conf: T5Conf) -> None:
        super().__init__(conf, conf.num_decoder_layers, True)

    def forward(
        self,
        embedded: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        past_key_values: Sequence[Past] | None = None,
        return_past_key_values: bool = False,
    ) -> dict[str, Any]:
        """Features of words, with states, bias, weights, and keys and values."""
        count = embedded.shape[1]
        before = past_key_values[0][0].shape[2] if past_key_values else 0
        if tgt_mask is None:
            whole = F.ones((count, before + count), dtype=core.bool, device=embedded.device)
            tgt_mask = whole.triu(before + 1)
        x, states, bias, weights, kept = self.run(
            embedded,
            _addition(tgt_mask, tgt_key_padding_mask),
            memory,
            _addition(memory_mask, memory_key_padding_mask),
            past_key_values,
        )
        return {
            "decoder_output": x,
            "decoder_hidden_states": states,
            "decoder_position_bias": bias,
            "decoder_sa_scores": tuple(own for own, _ in weights),
            "decoder_ca_scores": tuple(cross for _, cross in weights),
            "past_key_values": kept if return_past_key_values else None,
        }


class T5Model(nn.Module):
    """An encoder and, unless it is the only part, a decoder.

    Args:
        config: the sizes
        freeze: whether no parameter asks for a gradient
        device: of the parameters
        dtype: of the parameters

    Shape:
        - encoder_tokens: `[batch, time]`; decoder_tokens: `[batch, words so far]`, the padding's number first
        - `decoder_output`: `[batch, words so far, embedding_dim]`, or `vocab_size` with `linear_head`

    Example:
        >>> conf = facula.text.models.T5Conf(
        ...     linear_head=True, embedding_dim=8, qkv_dim=4, num_attention_heads=2,
        ...     num_encoder_layers=1, num_decoder_layers=1, ffn_dimension=16, vocab_size=20,
        ... )
        >>> model = facula.text.models.T5Model(conf)
        >>> model(facula.tensor([[3, 7, 1, 0]]))["decoder_output"].shape
        facula.Size([1, 1, 20])
    """

    def __init__(
        self,
        config: T5Conf,
        freeze: bool = False,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.config, self.padding_idx = config, config.padding_idx
        self.token_embeddings = nn.Embedding(
            config.vocab_size, config.embedding_dim, config.padding_idx
        )
        self.encoder = _Encoder(config, self.token_embeddings)
        self.decoder = None if config.encoder_only else _Decoder(config)
        self.lm_head: nn.Module | None = None
        if config.linear_head:
            self.lm_head = nn.Linear(config.embedding_dim, config.vocab_size, bias=False)
        self.to(device=device, dtype=dtype)
        if freeze:
            self.requires_grad_(False)

    def get_encoder(self) -> nn.Module:
        """The encoder."""
        return self.encoder

    def get_decoder(self) -> nn.Module | None:
        """The decoder; None where there is none."""
        return self.decoder

    def _decode(
        self,
        decoder: nn.Module,
        encoded: dict[str, Any],
        tokens: Tensor | None,
        padding: Tensor | None,
        masks: dict[str, Any],
    ) -> dict[str, Any]:
        memory = encoded["encoder_output"]
        if tokens is None:
            shape = (memory.shape[0], 1)
            tokens = F.full(shape, self.padding_idx, dtype=core.int64, device=memory.device)
        if padding is None and masks["past_key_values"] is None:
            # the first word is the padding's number, and is there
            first = F.arange(tokens.shape[1], device=tokens.device) == 0
            padding = tokens.eq(self.padding_idx) & ~first
        embedded = self.token_embeddings(tokens)
        found = decoder(embedded, memory, tgt_key_padding_mask=padding, **masks)
        if self.lm_head is not None:
            # words are read and written by vectors of one scale
            scaled = found["decoder_output"] * self.config.embedding_dim**-0.5
            found["decoder_output"] = self.lm_head(scaled)
        return found

    def forward(
        self,
        encoder_tokens: Tensor | None = None,
        decoder_tokens: Tensor | None = None,
        encoder_mask: Tensor | None = None,
        decoder_mask: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        decoder_padding_mask: Tensor | None = None,
        encoder_outputs: dict[str, Any] | None = None,
        past_key_values: Sequence[Past] | None = None,
        return_past_key_values: bool = False,
    ) -> dict[str, Any]:
        """What encoder and decoder give, by name.

        Args:
            encoder_tokens: words to read; None where `encoder_outputs` is given
            decoder_tokens: words so far; None for the first one
            encoder_mask: `[time, time]`, true or -inf where a word may not look
            decoder_mask: the same of the decoder; None hides what comes later
            encoder_padding_mask: `[batch, time]`, true for padding; None finds it
            decoder_padding_mask: the same of the decoder
            encoder_outputs: of a call before
            past_key_values: of a call before, whose words `decoder_tokens` goes on from
            return_past_key_values: whether keys and values are given to go on with

        Raises:
            ValueError: there is nothing to read.
        """
        if encoder_outputs is None:
            if encoder_tokens is None:
                fail(
                    ValueError,
                    "T5Model",
                    "encoder_tokens were required, or encoder_outputs",
                    got="neither",
                    hint="encoder_outputs of a call before save reading the same words again",
                )
            if encoder_padding_mask is None:
                encoder_padding_mask = encoder_tokens.eq(self.padding_idx)
            encoder_outputs = self.encoder(encoder_tokens, encoder_mask, encoder_padding_mask)
        if self.decoder is None:
            return encoder_outputs
        masks = {
            "tgt_mask": decoder_mask,
            "memory_key_padding_mask": encoder_padding_mask,
            "past_key_values": past_key_values,
            "return_past_key_values": return_past_key_values,
        }
        found = self._decode(
            self.decoder, encoder_outputs, decoder_tokens, decoder_padding_mask, masks
        )
        return {**encoder_outputs, **found}
