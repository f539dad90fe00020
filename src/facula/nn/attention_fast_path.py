"""Transformer encoder layers at inference: one short chain of operators, and no work on padding.

Takes an encoder layer and its input.  Gives the layer's output, computed with few operators; with a
padding mask only the valid tokens go through the linear layers.
Keeps true: numbers are those of the ordinary path; padded positions of a whole encoder's output are
zero, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.nn import functional as F

_enabled = True
_count = 0


def get_fastpath_enabled() -> bool:
    """Whether the short chain may be taken."""
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Switch the short chain on or off."""
    global _enabled
    _enabled = value


def fastpath_count() -> int:
    """How many layers have taken the short chain so far."""
    return _count


def usable(layer: Any, src: core.Tensor) -> bool:
    """Whether the short chain applies to this layer and input."""
    attention = layer.self_attn
    if not _enabled or layer.training or src.dim() != 3 or not attention.batch_first:
        return False
    weight = attention.in_proj_weight
    if weight is None or attention.in_proj_bias is None:
        return False
    if weight.requires_grad and core.is_grad_enabled():
        return False
    if not layer.activation_relu_or_gelu or layer.norm1.bias is None:
        return False
    if (
        attention.bias_k is not None
        or attention.add_zero_attn
        or facula.is_autocast_enabled(src.device.type)
    ):
        return False
    # hooks inside would not run
    if any(m._forward_hooks or m._forward_pre_hooks for m in layer.modules()):
        return False
    tensors = (src, *layer.parameters())
    recording = core.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return not (recording or core.interpreters())


class TokenIndex:
    """Where the valid tokens of a padded batch are."""

    def __init__(self, padding_mask: Any) -> None:
        self.batch, self.length = padding_mask.shape
        self.mask = padding_mask
        self.positions = facula.nonzero(~padding_mask.reshape(-1)).reshape(-1)

    def pack(self, padded: core.Tensor) -> Any:
        """``[N, S, E]`` to ``[tokens, E]``."""
        return padded.reshape(self.batch * self.length, -1).index_select(0, self.positions)

    def pad(self, tokens: core.Tensor) -> Any:
        """``[tokens, E]`` to ``[N, S, E]`` with zeros."""
        flat = tokens.new_zeros(self.batch * self.length, tokens.size(-1))
        flat.index_copy_(0, self.positions, tokens)
        return flat.view(self.batch, self.length, -1)


def _attend(
    layer: Any, x: core.Tensor, shape: tuple, index: TokenIndex | None, mask: core.Tensor | None
) -> Any:
    attention = layer.self_attn
    batch, length, embed = shape
    heads = attention.num_heads
    qkv = F.linear(x, attention.in_proj_weight, attention.in_proj_bias)
    if index is not None:
        qkv = index.pad(qkv)
    q, k, v = qkv.view(batch, length, 3, heads, embed // heads).permute(2, 0, 3, 1, 4).unbind(0)
    out = F.scaled_dot_product_attention(q, k, v, mask)
    out = out.transpose(1, 2).reshape(batch, length, embed)
    if index is not None:
        out = index.pack(out)
    return F.linear(out, attention.out_proj.weight, attention.out_proj.bias)


def _feed_forward(layer: Any, x: core.Tensor) -> Any:
    hidden = F.linear(x, layer.linear1.weight, layer.linear1.bias)
    hidden = F.relu(hidden) if layer.activation_relu_or_gelu == 1 else F.gelu(hidden)
    return F.linear(hidden, layer.linear2.weight, layer.linear2.bias)


def _norm(norm: Any, x: core.Tensor) -> Any:
    return F.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def encoder_layer(
    layer: Any,
    x: Any,
    shape: tuple,
    index: TokenIndex | None = None,
    mask: core.Tensor | None = None,
) -> Any:
    """One layer over ``x``: ``[N, S, E]``, or ``[tokens, E]`` with ``index``.

    ``mask`` is what `scaled_dot_product_attention` takes: True (or 0) where attention is allowed.
    """
    global _count
    _count += 1
    if layer.norm_first:
        x = x + _attend(layer, _norm(layer.norm1, x), shape, index, mask)
        return x + _feed_forward(layer, _norm(layer.norm2, x))
    x = _norm(layer.norm1, x + _attend(layer, x, shape, index, mask))
    return _norm(layer.norm2, x + _feed_forward(layer, x))


def nested_layer(layer: Any, src: core.Tensor, *masks: Any) -> Any:
    """One layer over a nested tensor: linear layers see its rows alone."""
    if any(mask is not None for mask in masks) or not usable(layer, src):
        fail(
            RuntimeError,
            "TransformerEncoderLayer",
            "inference without masks was required of nested tensors (eval(), no gradients, batch_first)",
            "a mask" if any(mask is not None for mask in masks) else "another setting",
            hint="src.to_padded_tensor(0) with src_key_padding_mask serves in training",
        )
    lengths = core.as_tensor([shape[0] for shape in src._shapes])
    longest = int(lengths.max())
    padding = facula.arange(longest)[None] >= lengths[:, None]
    shape = (len(src._shapes), longest, src.size(-1))
    allowed = ~padding[:, None, None, :]
    return src._with(encoder_layer(layer, src._values, shape, TokenIndex(padding), allowed))


def combined_mask(attn_mask: Any, padding: Any) -> Any:
    """A ``[S, S]`` and an ``[N, S]`` mask, both to be added, as one; None where there is none."""
    if padding is None:
        return attn_mask
    padding = padding[:, None, None, :]
    return padding if attn_mask is None else attn_mask + padding


def encoder(layers: Any, src: core.Tensor, padding_mask: core.Tensor) -> Any:
    """A whole stack of layers on the valid tokens only."""
    index = TokenIndex(padding_mask)
    x = index.pack(src)
    allowed = ~padding_mask[:, None, None, :]
    shape = tuple(src.shape)
    for layer in layers:
        x = encoder_layer(layer, x, shape, index, allowed)
    return index.pad(x)
