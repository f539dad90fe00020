"""Attention whose projections are layers that are observed: PyTorch's `ao.nn.quantizable.MultiheadAttention`.

Takes: queries, keys and values ``[T, N, E]``. Gives: results and weights, as `nn.MultiheadAttention` does. Keeps true:
products of queries, keys and values are of numbers; what goes in and comes out may be integers.
"""

from __future__ import annotations

from typing import Any, NoReturn

import facula.nn as nn
from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F
from facula.quantization import eager
from facula.quantization.create import quantize_per_tensor
from facula.quantization.modules.functional import FloatFunctional
from facula.quantization.modules.stubs import DeQuantStub, QuantStub

__all__ = ["MultiheadAttention"]


class MultiheadAttention(nn.MultiheadAttention):
    """Attention by several heads, of layers that are observed.

    Args:
        embed_dim: the width of query and result
        num_heads: a divisor of it
        dropout: probability with which weights are zeroed in training
        bias: whether projections have one
        add_bias_kv: whether a learned row is added to keys and values
        add_zero_attn: whether a row of zeros is added to them
        kdim, vdim: widths of key and value; None for ``embed_dim``
        batch_first: whether tensors are ``[batch, length, width]``
        device, dtype: of the parameters

    Example:
        >>> layer = facula.ao.nn.quantizable.MultiheadAttention(4, 2)
        >>> x = facula.ones(3, 1, 4)
        >>> [made.shape for made in layer(x, x, x)]
        [facula.Size([3, 1, 4]), facula.Size([1, 3, 3])]
    """

    _FLOAT_MODULE: Any = nn.MultiheadAttention

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype,
        )  # fmt: skip
        for name, width in (("linear_Q", embed_dim), ("linear_K", self.kdim), ("linear_V", self.vdim),
                            ("out_proj", embed_dim)):  # fmt: skip
            setattr(self, name, nn.Linear(width, embed_dim, bias=bias, device=device, dtype=dtype))
        self.q_scaling_product = FloatFunctional()
        self.quant_attn_output, self.quant_attn_output_weights = QuantStub(), QuantStub()
        self.dequant_q, self.dequant_k, self.dequant_v = DeQuantStub(), DeQuantStub(), DeQuantStub()

    def _get_name(self) -> str:
        return "QuantizableMultiheadAttention"

    @classmethod
    def from_float(cls, other: Any) -> Any:
        """The layers of a float attention, with observers."""
        if type(other) is not cls._FLOAT_MODULE or getattr(other, "qconfig", None) is None:
            fail(AssertionError, "MultiheadAttention.from_float", f"Expected type {cls._FLOAT_MODULE} with 'qconfig' "
                 "(The float module must have 'qconfig')", type(other).__name__,
                 hint="prepare() calls it for layers that have a qconfig")  # fmt: skip
        made = cls(
            other.embed_dim, other.num_heads, other.dropout, other.in_proj_bias is not None,
            other.bias_k is not None, other.add_zero_attn, other.kdim, other.vdim, other.batch_first,
        )  # fmt: skip
        made.bias_k, made.bias_v, made.qconfig = other.bias_k, other.bias_v, other.qconfig
        made.out_proj.weight, made.out_proj.bias = other.out_proj.weight, other.out_proj.bias
        for name, weight, bias in zip("QKV", *_projections(other), strict=True):
            layer = getattr(made, f"linear_{name}")
            layer.weight = nn.Parameter(weight.detach())
            layer.bias = None if bias is None else nn.Parameter(bias.detach())
        return eager.prepare(made.eval(), inplace=True)

    @classmethod
    def from_observed(cls, other: Any) -> NoReturn:
        """Raises NotImplementedError: the class of integers has it."""
        fail(NotImplementedError, "MultiheadAttention.from_observed", "It looks like you are trying to prepare an MHA "
             "module", type(other).__name__,
             hint="ao.nn.quantized.MultiheadAttention.from_observed makes integers")  # fmt: skip

    def dequantize(self) -> Any:
        """The float attention with the numbers of the integers."""
        layers = [self.linear_Q, self.linear_K, self.linear_V, self.out_proj]
        parts = [layer._weight_bias() for layer in layers]
        weights = [nn.Parameter(weight.dequantize()) for weight, _ in parts]
        biases = [bias for _, bias in parts]
        made = nn.MultiheadAttention(
            self.embed_dim, self.num_heads, self.dropout, biases[0] is not None, self.bias_k is not None,
            self.add_zero_attn, self.kdim, self.vdim, self.batch_first,
        )  # fmt: skip
        for name in ("bias_k", "bias_v"):
            row = getattr(self, name)
            if row is not None:
                setattr(made, name, nn.Parameter(row.dequantize()))
        made.out_proj.weight = weights[3]
        if biases[3] is not None:
            made.out_proj.bias = nn.Parameter(biases[3].detach())
        if made._qkv_same_embed_dim:
            made.in_proj_weight = nn.Parameter(F.cat([w.detach() for w in weights[:3]], 0))
        else:
            made.q_proj_weight, made.k_proj_weight, made.v_proj_weight = weights[:3]
        if biases[0] is not None:
            made.in_proj_bias = nn.Parameter(F.cat([b.detach() for b in biases[:3]], 0))
        return made

    # ---- the steps
    def forward(
        self, query: Any, key: Any, value: Any, key_padding_mask: Any = None, need_weights: bool = True,
        attn_mask: Any = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Any, Any]:  # fmt: skip
        """The result, and the weights (of all heads, or their average), unless they are not needed."""
        if is_causal:
            required = "a mask was required (causal mask not supported by AO MHA module)"
            hint = "attn_mask=Transformer.generate_square_subsequent_mask(n)"
            fail(AssertionError, "quantizable.MultiheadAttention", required, is_causal, hint=hint)
        if self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        length, batch, _ = query.shape
        masks = _masks(attn_mask, key_padding_mask, (length, key.size(0)), batch, self.num_heads)
        q = self.q_scaling_product.mul_scalar(
            self.linear_Q(query), float(self.embed_dim // self.num_heads) ** -0.5
        )
        q, k, v = self._heads(q, self.linear_K(key), self.linear_V(value), batch)
        q, k, v = self.dequant_q(q), self.dequant_k(k), self.dequant_v(v)
        weights = F.softmax(_masked(F.bmm(q, k.transpose(1, 2)), masks, k.size(1)), -1)
        weights = nn.functional.dropout(weights, self.dropout, self.training)
        made = F.bmm(weights, v).transpose(0, 1).contiguous().view(length, batch, self.embed_dim)
        made = self.out_proj(self.quant_attn_output(made))
        weights = self.quant_attn_output_weights(weights)
        made = made.transpose(0, 1) if self.batch_first else made
        if not need_weights:
            return made, None
        weights = weights.view(batch, self.num_heads, length, k.size(1))
        return made, weights.mean(1) if average_attn_weights else weights

    def _heads(self, q: Any, k: Any, v: Any, batch: int) -> tuple[Any, Any, Any]:
        """Queries, keys and values of each head, with the rows that are added."""
        if self.bias_k is not None and self.bias_v is not None:
            k = F.cat([k, self.bias_k.repeat(1, batch, 1)], 0)
            v = F.cat([v, self.bias_v.repeat(1, batch, 1)], 0)
        width = self.embed_dim // self.num_heads
        q, k, v = (
            x.contiguous().view(-1, batch * self.num_heads, width).transpose(0, 1)
            for x in (q, k, v)
        )
        if self.add_zero_attn:
            k, v = (F.cat([x, _zeros_like(x)], 1) for x in (k, v))
        return q, k, v


def _projections(other: Any) -> tuple[list[Any], list[Any]]:
    """Weights and biases of the three projections of a float attention."""
    if other._qkv_same_embed_dim:
        weights = list(other.in_proj_weight.chunk(3, 0))
    else:
        weights = [other.q_proj_weight, other.k_proj_weight, other.v_proj_weight]
    bias = other.in_proj_bias
    return weights, [None] * 3 if bias is None else list(bias.chunk(3, 0))


def _zeros_like(x: Any) -> Any:
    zeros = F.zeros((x.size(0), 1, x.size(2)))
    return (
        quantize_per_tensor(zeros, x.q_scale(), x.q_zero_point(), x.dtype)
        if x.is_quantized
        else zeros
    )


def _masks(
    attended: Any, padding: Any, lengths: tuple[int, int], batch: int, heads: int
) -> list[Any]:
    """The masks, each to be added, for all heads; entries for rows that are added to keys come later."""
    found = []
    if attended is not None:
        shapes = {2: list(lengths), 3: [batch * heads, *lengths]}
        if list(attended.shape) != shapes.get(attended.dim()):
            fail(RuntimeError, "quantizable.MultiheadAttention", f"The size of the {attended.dim()}D attn_mask is not "
                 f"correct: {shapes.get(attended.dim(), 'two dimensions or three')} was required",
                 list(attended.shape), hint="[T, S], or [N * heads, T, S]")  # fmt: skip
        found.append(_added(attended))
    if padding is not None:
        if list(padding.shape) != [batch, lengths[1]]:
            fail(AssertionError, "quantizable.MultiheadAttention", f"a key_padding_mask of {[batch, lengths[1]]} was "
                 "required", list(padding.shape), hint="[N, S]")  # fmt: skip
        found.append(_added(padding).repeat_interleave(heads, 0).unsqueeze(1))
    return found


def _added(mask: Any) -> Any:
    """A mask as numbers to add."""
    if mask.is_floating_point():
        return mask
    zeros = F.zeros(mask.shape)
    return zeros.masked_fill(mask.to(core.bool), float("-inf"))


def _masked(products: Any, masks: list[Any], length: int) -> Any:
    for mask in masks:
        wide = nn.functional.pad(mask, (0, length - mask.size(-1)))
        products = products + wide
    return products
