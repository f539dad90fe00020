"""`forward` of attention, of encoders made of it and of recurrent cells as scripted code.

Takes nothing. Gives `STOCK_ATTENTION`: a class of modules, and the function that stands for its `forward`.
Keeps true: as in `stock_modules`.
"""

from __future__ import annotations

from typing import Any  # noqa: UP035

import facula
from facula import Tensor, nn
from facula.nn import functional as F

__all__ = ["STOCK_ATTENTION"]


def _added(mask: Tensor, like: Tensor) -> Tensor:
    """A mask as what is added to scores: booleans say where attention is not allowed."""
    if mask.dtype == facula.bool:
        return facula.zeros_like(mask, dtype=like.dtype).masked_fill(mask, float("-inf"))
    return mask.to(like.dtype)


def _merged(
    mask: Tensor | None, padding: Tensor | None, like: Tensor, batch: int, heads: int
) -> Tensor | None:
    """Both masks as one of `[batch, heads, T, S]`, or sizes that broadcast to that."""
    made: Tensor | None = None
    if mask is not None:
        whole = _added(mask, like)
        if whole.dim() == 3:
            made = whole.view(batch, heads, whole.size(1), whole.size(2))
        else:
            made = whole.unsqueeze(0).unsqueeze(0)
    if padding is not None:
        rows = _added(padding, like).view(batch, 1, 1, padding.size(1))
        made = rows if made is None else made + rows
    return made


def _wider(mask: Tensor | None) -> Tensor | None:
    """A mask for one key more, which may be looked at."""
    return None if mask is None else F.pad(mask, [0, 1])


def _heads(x: Tensor, heads: int) -> Tensor:
    """`[L, N, E]` as `[N, heads, L, E / heads]`."""
    return x.reshape(x.size(0), x.size(1), heads, -1).permute(1, 2, 0, 3)


def _weighed(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropped: float
) -> tuple[Tensor, Tensor]:
    """The values by their weights, and these."""
    scores = facula.matmul(q / float(q.size(3)) ** 0.5, k.transpose(-2, -1))
    if mask is not None:
        scores = scores + mask
    weights = F.dropout(scores.softmax(-1), dropped)
    return facula.matmul(weights, v), weights


def _check_causal(is_causal: bool, mask: Tensor | None) -> None:
    if is_causal and mask is None:
        raise RuntimeError(
            "[MultiheadAttention] Need attn_mask if specifying the is_causal hint.\n"
            "hint: nn.Transformer.generate_square_subsequent_mask(n) makes one"
        )


def _attention(
    self: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    _check_causal(is_causal, attn_mask)
    batched = query.dim() == 3
    if batched and self.batch_first:
        query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    if self.in_proj_weight is not None:
        wq, wk, wv = self.in_proj_weight.chunk(3)
    else:
        wq, wk, wv = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
    if self.in_proj_bias is not None:
        bq, bk, bv = self.in_proj_bias.chunk(3)
        q, k, v = F.linear(query, wq, bq), F.linear(key, wk, bk), F.linear(value, wv, bv)
    else:
        q, k, v = F.linear(query, wq), F.linear(key, wk), F.linear(value, wv)
    if self.bias_k is not None and self.bias_v is not None:
        k = facula.cat([k, self.bias_k.repeat(1, k.size(1), 1)])
        v = facula.cat([v, self.bias_v.repeat(1, v.size(1), 1)])
        attn_mask, key_padding_mask = _wider(attn_mask), _wider(key_padding_mask)
    if self.add_zero_attn:
        none = facula.zeros([1, k.size(1), k.size(2)], dtype=k.dtype, device=k.device)
        k, v = facula.cat([k, none]), facula.cat([v, none])
        attn_mask, key_padding_mask = _wider(attn_mask), _wider(key_padding_mask)
    mask = _merged(attn_mask, key_padding_mask, q, q.size(1), self.num_heads)
    q4, k4, v4 = _heads(q, self.num_heads), _heads(k, self.num_heads), _heads(v, self.num_heads)
    dropped = self.dropout if self.training else 0.0
    weights: Tensor | None = None
    if need_weights:
        made, each = _weighed(q4, k4, v4, mask, dropped)
        weights = each.mean(1) if average_attn_weights else each
    else:
        made = F.scaled_dot_product_attention(q4, k4, v4, mask, dropped)
    joined = made.permute(2, 0, 1, 3).flatten(2)
    out = F.linear(joined, self.out_proj.weight, self.out_proj.bias)
    if not batched:
        return out.squeeze(1), None if weights is None else weights.squeeze(0)
    return out.transpose(0, 1) if self.batch_first else out, weights


def _encoder_layer(
    self: Any,
    src: Tensor,
    src_mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    x = self.norm1(src) if self.norm_first else src
    seen = self.self_attn(
        x, x, x, key_padding_mask=src_key_padding_mask, need_weights=False, attn_mask=src_mask
    )[0]
    y = src + self.dropout1(seen)
    if self.norm_first:
        fed = self.linear2(self.dropout(self.activation(self.linear1(self.norm2(y)))))
        return y + self.dropout2(fed)
    y = self.norm1(y)
    fed = self.linear2(self.dropout(self.activation(self.linear1(y))))
    return self.norm2(y + self.dropout2(fed))


def _encoder(
    self: Any,
    src: Tensor,
    mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None,
    is_causal: bool | None = None,
) -> Tensor:
    output = src
    for layer in self.layers:
        output = layer(output, src_mask=mask, src_key_padding_mask=src_key_padding_mask)
    if self.norm is not None:
        output = self.norm(output)
    return output


def _decoder(
    self: Any,
    tgt: Tensor,
    memory: Tensor,
    tgt_mask: Tensor | None = None,
    memory_mask: Tensor | None = None,
    tgt_key_padding_mask: Tensor | None = None,
    memory_key_padding_mask: Tensor | None = None,
    tgt_is_causal: bool | None = None,
    memory_is_causal: bool = False,
) -> Tensor:
    output = tgt
    for layer in self.layers:
        output = layer(
            output,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
        )
    if self.norm is not None:
        output = self.norm(output)
    return output


def _transformer(
    self: Any,
    src: Tensor,
    tgt: Tensor,
    src_mask: Tensor | None = None,
    tgt_mask: Tensor | None = None,
    memory_mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None,
    tgt_key_padding_mask: Tensor | None = None,
    memory_key_padding_mask: Tensor | None = None,
    src_is_causal: bool | None = None,
    tgt_is_causal: bool | None = None,
    memory_is_causal: bool = False,
) -> Tensor:
    if src.dim() == 3:
        batch = 0 if self.batch_first else 1
        if src.size(batch) != tgt.size(batch):
            raise RuntimeError(
                "[Transformer] the batch number of src and tgt must be equal\n"
                "hint: batch_first=True says that batches are the first dimension"
            )
    if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
        raise RuntimeError(
            "[Transformer] the feature number of src and tgt must be equal to d_model\n"
            "hint: d_model is the first argument of nn.Transformer"
        )
    memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask)
    return self.decoder(
        tgt,
        memory,
        tgt_mask=tgt_mask,
        memory_mask=memory_mask,
        tgt_key_padding_mask=tgt_key_padding_mask,
        memory_key_padding_mask=memory_key_padding_mask,
    )


# ------------------------------------------------------------------ recurrent cells


def _lstm_cell(
    self: Any, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    if input.dim() != 1 and input.dim() != 2:
        raise ValueError(
            "[LSTMCell] Expected input to be 1D or 2D\n"
            "hint: a cell takes one step: [batch, input_size] or [input_size]"
        )
    batched = input.dim() == 2
    if not batched:
        input = input.unsqueeze(0)
    if hx is None:
        zeros = facula.zeros(
            [input.size(0), self.hidden_size], dtype=input.dtype, device=input.device
        )
        states = [zeros, zeros]
    elif batched:
        states = [hx[0], hx[1]]
    else:
        states = [hx[0].unsqueeze(0), hx[1].unsqueeze(0)]
    h, c = facula.lstm_cell(
        input, states, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
    )
    return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


def _gru_cell(self: Any, input: Tensor, hx: Tensor | None = None) -> Tensor:
    if input.dim() != 1 and input.dim() != 2:
        raise ValueError(
            "[GRUCell] Expected input to be 1D or 2D\n"
            "hint: a cell takes one step: [batch, input_size] or [input_size]"
        )
    batched = input.dim() == 2
    if not batched:
        input = input.unsqueeze(0)
    if hx is None:
        state = facula.zeros(
            [input.size(0), self.hidden_size], dtype=input.dtype, device=input.device
        )
    else:
        state = hx if batched else hx.unsqueeze(0)
    h = facula.gru_cell(input, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    return h if batched else h.squeeze(0)


def _rnn_cell(self: Any, input: Tensor, hx: Tensor | None = None) -> Tensor:
    if input.dim() != 1 and input.dim() != 2:
        raise ValueError(
            "[RNNCell] Expected input to be 1D or 2D\n"
            "hint: a cell takes one step: [batch, input_size] or [input_size]"
        )
    batched = input.dim() == 2
    if not batched:
        input = input.unsqueeze(0)
    if hx is None:
        state = facula.zeros(
            [input.size(0), self.hidden_size], dtype=input.dtype, device=input.device
        )
    else:
        state = hx if batched else hx.unsqueeze(0)
    if self.nonlinearity == "relu":
        h = facula.rnn_relu_cell(
            input, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
    else:
        h = facula.rnn_tanh_cell(
            input, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
    return h if batched else h.squeeze(0)


STOCK_ATTENTION: dict[Any, Any] = {
    nn.MultiheadAttention: _attention, nn.TransformerEncoderLayer: _encoder_layer,
    nn.TransformerEncoder: _encoder, nn.TransformerDecoder: _decoder, nn.Transformer: _transformer,
    nn.LSTMCell: _lstm_cell,
    nn.GRUCell: _gru_cell, nn.RNNCell: _rnn_cell,
}  # fmt: skip
