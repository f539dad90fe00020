"""Multi-head attention.

Takes queries, keys and values ``[T, N, E]`` (``[N, T, E]`` with ``batch_first``), or the same
without a batch.  Gives the attended values in the query's shape and, unless told otherwise, the
attention weights averaged over the heads.
Keeps true: one packed input projection where keys and values have the query's size, three separate
ones otherwise; boolean masks are True where attention is *not* allowed.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn import init
from facula.nn.functional_composites import _as_float_mask
from facula.nn.modules.linear import NonDynamicallyQuantizableLinear
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]


def _separate_weights(layer: MultiheadAttention) -> dict[str, Any]:
    """The weights of the three projections as the function wants them, where they are no one weight."""
    if layer._qkv_same_embed_dim:
        return {}
    return {
        "use_separate_proj_weight": True,
        "q_proj_weight": layer.q_proj_weight,
        "k_proj_weight": layer.k_proj_weight,
        "v_proj_weight": layer.v_proj_weight,
    }


class MultiheadAttention(Module):
    """Attention by several heads at once: ``softmax(q k^T / sqrt(d)) v`` for each, joined by a linear
    layer. [Vaswani et al. 2017]

    Query, key and value are first projected (``in_proj_weight`` of shape ``[3 E, E]``, or one
    weight each where ``kdim`` or ``vdim`` differ from ``embed_dim``); each of the ``num_heads``
    heads works on ``embed_dim // num_heads`` of the features.

    Args:
        embed_dim: E, the width of query and output
        num_heads: a divisor of ``embed_dim``
        dropout: probability with which attention weights are zeroed in training
        bias: whether projections have one
        add_bias_kv: whether a learned row is added to keys and values
        add_zero_attn: whether a row of zeros is added to keys and values
        kdim, vdim: widths of key and value; None for ``embed_dim``
        batch_first: whether tensors are ``[batch, length, width]`` and not ``[length, batch,
            width]``
        device, dtype: of the parameters

    Shape:
        query ``[T, N, E]``, key ``[S, N, kdim]``, value ``[S, N, vdim]``, or all without N, to the
        output ``[T, N, E]`` and the weights ``[N, T, S]`` (averaged over heads unless
        ``average_attn_weights=False``; None with ``need_weights=False``, which is faster).
        ``attn_mask`` is ``[T, S]`` or ``[N * num_heads, T, S]``, ``key_padding_mask`` is ``[N,
        S]``; boolean ones are True where attention is **not** allowed, the opposite of
        `functional.scaled_dot_product_attention`.

    Raises:
        AssertionError: ``embed_dim`` is no multiple of ``num_heads``.

    Example:
        >>> attention = facula.nn.MultiheadAttention(8, num_heads=2, batch_first=True)
        >>> x = facula.randn(4, 5, 8)
        >>> output, weights = attention(x, x, x)
        >>> output.shape, weights.shape
        (facula.Size([4, 5, 8]), facula.Size([4, 5, 5]))
    """

    __constants__ = ["batch_first"]
    bias_k: Any
    bias_v: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            fail(
                ValueError,
                "MultiheadAttention",
                (
                    f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} "
                    f"and num_heads={num_heads} instead"
                ),
                hint="num_heads=1 is plain attention",
            )
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            fail(
                AssertionError,
                "MultiheadAttention",
                "embed_dim must be divisible by num_heads",
                hint="every head gets embed_dim // num_heads values",
            )
        for name, shape in self._projection_shapes().items():
            value = None if shape is None else Parameter(facula.empty(shape, **where))
            self.register_parameter(name, value)
        value = Parameter(facula.empty(3 * embed_dim, **where)) if bias else None
        self.register_parameter("in_proj_bias", value)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **where)
        if add_bias_kv:
            self.bias_k = Parameter(facula.empty((1, 1, embed_dim), **where))
            self.bias_v = Parameter(facula.empty((1, 1, embed_dim), **where))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _projection_shapes(self) -> dict[str, Any]:
        """The shapes of the weights of the input projections, None where there is no such weight."""
        size = self.embed_dim
        each = {"q_proj_weight": size, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            return {"in_proj_weight": (3 * size, size), **dict.fromkeys(each)}
        return {**{name: (size, width) for name, width in each.items()}, "in_proj_weight": None}

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state: dict) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def merge_masks(
        self, attn_mask: Any, key_padding_mask: Any, query: core.Tensor
    ) -> tuple[Any, Any]:
        """The masks as one, and PyTorch's number for its kind (0 attention, 1 padding, 2 both)."""
        if key_padding_mask is None and attn_mask is None:
            return None, None
        if attn_mask is None:
            return key_padding_mask, 1
        batch, length = query.shape[:2]
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            padding = key_padding_mask.view(batch, 1, 1, length)
            merged = merged + padding.expand(-1, self.num_heads, -1, -1)
        return merged, 2

    def forward(
        self,
        query: core.Tensor,
        key: Any,
        value: Any,
        key_padding_mask: core.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: core.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """Attended values, and weights ``[N, T, S]`` (per head: ``[N, heads, T, S]``) or None."""
        key_padding_mask = _as_float_mask(key_padding_mask, "key_padding_mask", None, query.dtype)
        if self.batch_first and query.dim() == 3:
            # tensors that are one and the same stay so: their projections are then one product
            same = key is value, query is key
            query = query.transpose(1, 0)
            key = query if same[1] else key.transpose(1, 0)
            value = key if same[0] else value.transpose(1, 0)
            transposed = True
        else:
            transposed = False
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            **_separate_weights(self),
        )
        return (output.transpose(1, 0) if transposed else output), weights
