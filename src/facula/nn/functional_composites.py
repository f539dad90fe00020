"""Functions of `nn.functional` that are long compositions of operators: attention of a whole layer,
and the loss of a linear layer without its logits.

Takes tensors and weights.  Gives what PyTorch's functions of the same names give.
Keeps true: no operator node of their own; gradients follow from the operators inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import facula
from facula import core
from facula.autograd.checkpoint import checkpoint
from facula.core.errors import fail
from facula.ops.table.registry import PLACES, TABLE

#: the operators of `nn.functional`
F = SimpleNamespace(**PLACES["nn.functional"])

_ATTENTION = "multi_head_attention_forward"


def _as_float_mask(
    mask: core.Tensor | None, name: str, other_dtype: object, target_dtype: core.dtype
) -> Any:
    """A boolean mask (True: leave out) as one to be added; a float mask as it is."""
    if mask is None:
        return None
    if mask.dtype == core.bool:
        return facula.zeros_like(mask, dtype=target_dtype).masked_fill_(mask, float("-inf"))
    if not mask.is_floating_point():
        fail(
            AssertionError,
            _ATTENTION,
            f"{name} of a bool or float dtype",
            got=mask.dtype,
            hint="True in a bool mask leaves a position out, a float mask is added to the scores",
        )
    return mask


def _check_mask_shape(
    query: core.Tensor, key: core.Tensor, mask: core.Tensor | None, heads: int, op: str, dims: int
) -> None:
    if mask is not None and mask.dim() not in (2, 3):
        fail(
            AssertionError,
            op,
            "attn_mask of 2 or 3 dimensions was required",
            got=f"expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor instead",
            hint="the mask is [target length, source length], or one for each head",
        )
    if dims == 2 and mask is not None and mask.dim() == 3:
        expected = (heads, query.shape[0], key.shape[0])
        if tuple(mask.shape) != expected:
            fail(
                AssertionError,
                op,
                f"attn_mask of shape {expected} was required",
                got=f"Expected `attn_mask` shape to be {expected} but got {tuple(mask.shape)}",
                hint="a mask of two dimensions serves all heads",
            )


def _check_shapes(
    query: core.Tensor, key: core.Tensor, value: core.Tensor, padding: Any, mask: Any, heads: int
) -> bool:
    """Whether the inputs are batched; raises where dimensions disagree."""
    op = _ATTENTION
    dims = query.dim()
    if dims not in (2, 3):
        fail(
            AssertionError,
            op,
            "an unbatched 2-D or batched 3-D query",
            got=f"{dims}-D",
            hint="the shape is [length, batch, width] or [length, width]",
        )
    if key.dim() != dims or value.dim() != dims:
        fail(
            AssertionError,
            op,
            "key and value of as many dimensions as the query were required",
            got=f"For {'batched' if dims == 3 else 'unbatched'} ({dims}-D) `query`, expected `key` and `value` "
            f"to be {dims}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively",
            hint="unsqueeze(1) adds a batch dimension",
        )
    if padding is not None and padding.dim() != dims - 1:
        fail(
            AssertionError,
            op,
            f"key_padding_mask of {dims - 1} dimensions",
            got=f"expected `key_padding_mask` to be `None` or {dims - 1}-D but found {padding.dim()}-D tensor instead",
            hint="the mask is [batch, source length], or [source length] without a batch",
        )
    _check_mask_shape(query, key, mask, heads, op, dims)
    return dims == 3


def _project_each(
    q: core.Tensor,
    k: core.Tensor,
    v: core.Tensor,
    weights: tuple[Any, Any, Any],
    bias: core.Tensor | None,
) -> tuple[Any, Any, Any]:
    """The three projections, each by a weight of its own."""
    if k.shape[:2] != v.shape[:2]:
        fail(
            AssertionError,
            _ATTENTION,
            f"the value's length and batch as the key's, {tuple(k.shape[:2])}",
            got=tuple(v.shape[:2]),
            hint="cut or pad value and key alike",
        )
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    inputs = zip((q, k, v), weights, biases, strict=True)
    projected = [F.linear(x, weight, own) for x, weight, own in inputs]
    return projected[0], projected[1], projected[2]


def _project_packed(
    q: core.Tensor, k: core.Tensor, v: core.Tensor, weight: core.Tensor, bias: core.Tensor | None
) -> tuple[Any, Any, Any]:
    """The three projections from one weight ``[3 E, E]``, in as few products as the inputs allow."""
    if k.shape != v.shape:
        fail(
            AssertionError,
            _ATTENTION,
            f"a value of the key's shape {k.shape}",
            got=v.shape,
            hint="use_separate_proj_weight=True takes another width of value; lengths are equal",
        )
    embed = q.size(-1)
    if k is v:
        if q is k:
            query, key, value = F.linear(q, weight, bias).split(embed, -1)
            return query, key, value
        w_q, w_kv = weight.split([embed, 2 * embed])
        b_q, b_kv = (None, None) if bias is None else bias.split([embed, 2 * embed])
        key, value = F.linear(k, w_kv, b_kv).split(embed, -1)
        return F.linear(q, w_q, b_q), key, value
    weights = weight.chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    projected = [F.linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases, strict=True)]
    return projected[0], projected[1], projected[2]


def _heads(x: core.Tensor, batch: int, heads: int, head_dim: int) -> Any:
    """``[T, N, E]`` to ``[N, heads, T, head_dim]``."""
    return (
        x.reshape(x.size(0), batch * heads, head_dim)
        .transpose(0, 1)
        .view(batch, heads, x.size(0), head_dim)
    )


def _merge_masks(
    attn_mask: core.Tensor | None,
    padding: core.Tensor,
    batch: int,
    heads: int,
    source: int,
    target: int,
) -> Any:
    """One mask to be added, broadcastable to ``[N, heads, T, S]``."""
    if attn_mask is not None:
        expected = (target, source) if attn_mask.dim() == 2 else (batch * heads, target, source)
        if tuple(attn_mask.shape) != expected:
            fail(
                RuntimeError,
                _ATTENTION,
                f"attn_mask of shape {expected}",
                got=tuple(attn_mask.shape),
                hint="a mask of two dimensions serves all heads",
            )
        if attn_mask.dim() == 2:
            attn_mask = attn_mask.view(1, 1, target, source)
        else:
            attn_mask = attn_mask.view(batch, heads, target, source)
    if padding is None:
        return attn_mask
    if tuple(padding.shape) != (batch, source):
        fail(
            AssertionError,
            _ATTENTION,
            f"key_padding_mask of shape {(batch, source)}",
            got=tuple(padding.shape),
            hint="the mask is [batch, source length] with and without batch_first",
        )
    padding = padding.view(batch, 1, 1, source)
    return padding if attn_mask is None else attn_mask + padding


def _extend(x: core.Tensor, batch: int, heads: int, extra: core.Tensor | None, zero: bool) -> Any:
    """Add the learned and the zero position at the end of keys or values ``[N, heads, S, D]``."""
    parts = [x]
    if extra is not None:
        row = extra.view(1, heads, 1, x.size(-1))
        parts.append(row.expand(batch, heads, 1, x.size(-1)))
    if zero:
        parts.append(x.new_zeros(batch, heads, 1, x.size(-1)))
    return parts[0] if len(parts) == 1 else facula.cat(parts, 2)


def _longer(mask: core.Tensor | None, added: int) -> Any:
    """A mask with room for positions that were added at the end: they take part."""
    return F.pad(mask, (0, added)) if added and mask is not None else mask


def _mask_beside_hint(
    attn_mask: core.Tensor | None, is_causal: bool, by_hint: bool, dtype: core.dtype
) -> Any:
    """The mask to be added; None where the hint says all of it."""
    if is_causal and attn_mask is None:
        fail(
            RuntimeError,
            _ATTENTION,
            "attn_mask where is_causal is given: it is a hint about the mask",
            got="None",
            hint="Transformer.generate_square_subsequent_mask(n) makes a causal mask",
        )
    return None if by_hint else _as_float_mask(attn_mask, "attn_mask", None, dtype)


def _attend(
    q: core.Tensor, k: core.Tensor, v: core.Tensor, mask: core.Tensor | None, dropout: float
) -> tuple[Any, Any]:
    """Attention written out, and its weights."""
    scores = (q * math.sqrt(1.0 / q.size(-1))) @ k.transpose(-2, -1)
    weights = F.softmax(scores if mask is None else scores + mask, dim=-1)
    if dropout > 0.0:
        weights = F.dropout(weights, dropout)
    return weights @ v, weights


def _head_size(embed: int, promised: int, heads: int) -> int:
    """The width of a head, checked."""
    if embed != promised:
        fail(
            AssertionError,
            _ATTENTION,
            f"an embedding dimension of {promised}",
            got=embed,
            hint="make the module with the width of the query as embed_dim",
        )
    if embed % heads:
        fail(
            AssertionError,
            _ATTENTION,
            f"embed_dim {embed} divisible by num_heads",
            got=heads,
            hint="num_heads divides embed_dim",
        )
    return embed // heads


def _with_batch(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """A batch of one; operands that are one tensor stay one."""
    first, last = query is key, key is value
    key = key.unsqueeze(1)
    return key if first else query.unsqueeze(1), key, key if last else value.unsqueeze(1)


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: core.Tensor | None,
    bias_v: core.Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: core.Tensor,
    out_proj_bias: core.Tensor,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: core.Tensor | None = None,
    k_proj_weight: core.Tensor | None = None,
    v_proj_weight: core.Tensor | None = None,
    static_k: object = None,
    static_v: object = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """What `nn.MultiheadAttention` computes, as a function of its weights.

    Args:
        query, key, value: ``[T, N, E]``, ``[S, N, *]`` and ``[S, N, *]``, or all without N
        embed_dim_to_check: E
        num_heads: a divisor of E
        in_proj_weight, in_proj_bias: ``[3 E, E]`` and ``[3 E]``, or None
        bias_k, bias_v: rows that are added to keys and values, or None
        add_zero_attn: whether a row of zeros is added
        dropout_p: probability with which attention weights are zeroed in training
        out_proj_weight, out_proj_bias: of the last layer
        training: whether there is dropout
        key_padding_mask: ``[N, S]``, True where a key does not count
        need_weights: whether the attention weights are a result
        attn_mask: ``[T, S]`` or ``[N * num_heads, T, S]``, True where attention is not allowed, or
            added to the scores
        use_separate_proj_weight: whether the next three stand in place of ``in_proj_weight``
        q_proj_weight, k_proj_weight, v_proj_weight: ``[E, *]`` each
        static_k, static_v: keys and values that are given as they are
        average_attn_weights: whether the weights are averaged over heads
        is_causal: whether ``attn_mask`` is the causal one

    Returns:
        the output ``[T, N, E]``, and the weights or None.

    Example:
        >>> m, x = facula.nn.MultiheadAttention(4, 2), facula.randn(3, 1, 4)
        >>> projections = (m.in_proj_weight, m.in_proj_bias, None, None, False, 0.0)
        >>> last = (m.out_proj.weight, m.out_proj.bias)
        >>> output, _ = facula.nn.functional.multi_head_attention_forward(x, x, x, 4, 2, *projections, *last)
        >>> facula.allclose(output, m(x, x, x)[0])
        True
    """
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    # where it is merged with other masks, or weights are asked for, the mask itself is what counts
    by_hint = is_causal and key_padding_mask is None and not need_weights
    attn_mask = _mask_beside_hint(attn_mask, is_causal, by_hint, query.dtype)
    key_padding_mask = _as_float_mask(key_padding_mask, "key_padding_mask", None, query.dtype)
    if not batched:
        query, key, value = _with_batch(query, key, value)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    target, batch, embed = query.shape
    head_dim = _head_size(embed, embed_dim_to_check, num_heads)
    if use_separate_proj_weight:
        separate = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _project_each(query, key, value, separate, in_proj_bias)
    else:
        q, k, v = _project_packed(query, key, value, in_proj_weight, in_proj_bias)
    q = _heads(q, batch, num_heads, head_dim)
    k = _static_or_heads(static_k, k, batch, num_heads, head_dim, bias_k)
    v = _static_or_heads(static_v, v, batch, num_heads, head_dim, bias_v)
    k = _extend(k, batch, num_heads, bias_k, add_zero_attn)
    v = _extend(v, batch, num_heads, bias_v, add_zero_attn)
    added = (bias_k is not None) + bool(add_zero_attn)
    attn_mask, key_padding_mask = _longer(attn_mask, added), _longer(key_padding_mask, added)
    mask = _merge_masks(attn_mask, key_padding_mask, batch, num_heads, k.size(2), target)
    dropout = dropout_p if training else 0.0
    weights = None
    if need_weights:
        out, weights = _attend(q, k, v, mask, dropout)
    else:
        out = F.scaled_dot_product_attention(q, k, v, mask, dropout, by_hint)
    out = out.permute(2, 0, 1, 3).reshape(target, batch, embed)
    out = F.linear(out, out_proj_weight, out_proj_bias)
    if weights is not None and average_attn_weights:
        weights = weights.mean(dim=1)
    if batched:
        return out, weights
    return out.squeeze(1), None if weights is None else weights.squeeze(0)


def _static_or_heads(
    static: Any, x: core.Tensor, batch: int, heads: int, head_dim: int, bias: Any
) -> Any:
    if static is None:
        return _heads(x, batch, heads, head_dim)
    if bias is not None:  # its rows go behind keys and values that are projected here
        fail(
            AssertionError,
            _ATTENTION,
            "no static keys and values beside bias_k and bias_v were required",
            "bias cannot be added to static key.",
            hint="leave out the one or the other",
        )
    if static.size(0) != batch * heads or static.size(2) != head_dim:
        fail(
            AssertionError,
            _ATTENTION,
            f"static keys and values of shape ({batch * heads}, S, {head_dim})",
            got=tuple(static.shape),
            hint="heads are folded into the batch: [batch * heads, source length, width of a head]",
        )
    return static.view(batch, heads, static.size(1), head_dim)


@dataclass
class LinearCrossEntropyOptions:
    """How `LinearCrossEntropyLoss` and `functional.linear_cross_entropy` work through a batch: in
    chunks of rows, recomputed in the backward pass.

    Args:
        allow_retain_graph: no effect: graphs may be kept here in any case
        batch_chunk_size: rows of a chunk; None for a number by the sizes
        chunking_method, acc_policy, acc_dtype: accepted for PyTorch's sake, without effect

    Example:
        >>> facula.nn.LinearCrossEntropyOptions(batch_chunk_size=64).batch_chunk_size
        64
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


def _logits(input: core.Tensor, weight: core.Tensor, bias: core.Tensor | None) -> Any:
    """``[N, C, d_1, ...]`` for a weight ``[C, d_1, ..., features]``."""
    if weight.dim() == 2:
        return F.linear(input, weight, bias)
    flat_bias = None if bias is None else bias.reshape(-1)
    flat = F.linear(input, weight.reshape(-1, weight.size(-1)), flat_bias)
    return flat.view(*input.shape[:-1], *weight.shape[:-1])


def _check_linear_ranks(input: core.Tensor, weight: core.Tensor, op: str) -> None:
    if input.dim() not in (1, 2):
        fail(
            RuntimeError,
            op,
            f"expected input with dimensionality 1 or 2, got {input.dim()}",
            got=input.dim(),
            hint="input.flatten(0, -2) merges leading dimensions",
        )
    if weight.dim() < 2:
        fail(
            RuntimeError,
            op,
            f"expected linear_weight with dimensionality at least 2, got {weight.dim()}",
            got=weight.dim(),
            hint="linear_weight is [classes, in_features]",
        )


def _check_linear_cross_entropy(input: core.Tensor, weight: core.Tensor, bias: Any) -> None:
    """Raise for shapes that do not make a linear layer of one, or a batch of, vectors."""
    op = "linear_cross_entropy"
    _check_linear_ranks(input, weight, op)
    if input.size(-1) != weight.size(-1):
        fail(
            RuntimeError,
            op,
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.size(-1)} and {weight.size(-1)}, respectively",
            got=f"{input.size(-1)} and {weight.size(-1)}",
            hint=f"linear_weight is [classes, {input.size(-1)}] for this input",
        )
    if bias is not None and bias.shape != weight.shape[:-1]:
        fail(
            RuntimeError,
            op,
            f"expected linear_bias shape {tuple(weight.shape[:-1])}, got {tuple(bias.shape)}",
            got=tuple(bias.shape),
            hint="linear_bias has one element for each row of linear_weight; leave it out for none",
        )
    if weight.dim() > 2 and input.dim() == 1:
        fail(
            RuntimeError,
            op,
            f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires batched "
            f"input, (N, {weight.size(-1)}), got unbatched input with shape {tuple(input.shape)}",
            got=tuple(input.shape),
            hint="input[None] adds a batch dimension",
        )


def linear_cross_entropy(
    input: core.Tensor,
    linear_weight: core.Tensor,
    target: core.Tensor,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Any:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)``; with ``options`` the
    logits never exist as a whole.

    Args:
        input: features ``[N, in_features]`` or ``[in_features]``
        linear_weight: ``[classes, in_features]``, or with further sizes between
        target: classes ``[N]``, or probabilities
        linear_bias: ``[classes]``; None for none
        weight: of each class; None for 1
        reduction: 'mean', 'sum', or 'none' for the loss of each element
        ignore_index: a target class that does not count; None for -100
        label_smoothing: the share of the target's probability that is spread over all classes
        options: a `LinearCrossEntropyOptions`; None for the whole batch at once

    Raises:
        RuntimeError: shapes do not fit, or ``ignore_index`` is given with probabilities.

    Example:
        >>> x, w = facula.ones(2, 3), facula.zeros(4, 3)
        >>> facula.nn.functional.linear_cross_entropy(x, w, facula.tensor([0, 3]))
        tensor(1.3863)
    """
    _check_linear_cross_entropy(input, linear_weight, linear_bias)
    if ignore_index is not None and target.is_floating_point():
        fail(
            RuntimeError,
            "linear_cross_entropy",
            "ignore_index cannot be specified when target contains probabilities",
            got=ignore_index,
            hint="leave ignore_index out",
        )
    ignore = -100 if ignore_index is None else ignore_index

    def part(rows: core.Tensor, answers: core.Tensor, how: str) -> Any:
        return F.cross_entropy(
            _logits(rows, linear_weight, linear_bias),
            answers,
            weight=weight,
            reduction=how,
            ignore_index=ignore,
            label_smoothing=label_smoothing,
        )

    if options is None or input.dim() < 2:
        return part(input, target, reduction)
    classes = linear_weight.size(0)
    size = options.batch_chunk_size or max(1, 2 * input.size(0) * input.size(1) // max(classes, 1))
    how = "none" if reduction == "none" else "sum"
    losses = [
        checkpoint(part, rows, answers, how, use_reentrant=False)
        for rows, answers in zip(input.split(size), target.split(size), strict=True)
    ]
    if reduction == "none":
        return facula.cat(losses)
    total = facula.stack(losses).sum()
    return total if reduction == "sum" else total / _row_count(target, classes, weight, ignore)


def _row_count(target: core.Tensor, classes: int, weight: Any, ignore: int) -> Any:
    """By what the mean of losses divides: the rows that count, each by its class's weight."""
    if target.is_floating_point():
        return target.numel() // classes
    kept = target != ignore
    if weight is None:
        return kept.sum()
    return (weight[target.masked_fill(~kept, 0)] * kept).sum()


def _fractional_starts(sample: core.Tensor, size: int, out: int, kernel: int) -> Any:
    """Where the windows of one dimension start: ``[N, C, out]`` from uniform samples ``[N, C]``."""
    if out == 1:
        starts = sample.new_full((*sample.shape, 1), size - kernel)
        return starts.to(core.int64)
    alpha = (size - kernel) / (out - 1)
    steps = facula.arange(out, dtype=sample.dtype, device=sample.device)
    u = sample.unsqueeze(-1)
    starts = ((steps + u) * alpha).to(core.int64) - (u * alpha).to(core.int64)
    starts[..., -1] = size - kernel  # the last window ends with the input
    return starts


def _fractional_windows(
    samples: core.Tensor, x: core.Tensor, kernel: tuple[Any, ...], out: tuple[Any, ...]
) -> Any:
    """The flat positions in ``x [N, C, *sizes]`` of each window: ``[N, C, *out, window]``."""
    dims = len(kernel)
    flat: Any = 0
    for d, size in enumerate(x.shape[2:]):
        # in two dimensions the width's samples come first, in three the depth's
        sample = samples[..., 1 - d if dims == 2 else d]
        starts = _fractional_starts(sample, size, out[d], kernel[d])
        places = starts.unsqueeze(-1) + facula.arange(kernel[d], device=x.device)
        shape = [*x.shape[:2], *[1] * (2 * dims)]
        shape[2 + d], shape[2 + dims + d] = out[d], kernel[d]
        flat = flat * size + places.reshape(shape)
    return flat.flatten(2 + dims)


def _check_fractional_sizes(
    op: str, kernel: tuple[Any, ...], sizes: Sequence[int], out: tuple[Any, ...]
) -> None:
    for name, given in (("kernel_size", kernel), ("output_size", out)):
        if len(given) != len(sizes):
            fail(
                RuntimeError,
                op,
                f"{name} must either be a single int, or a tuple of {len(sizes)} ints",
                got=given,
                hint="one int stands for all dimensions",
            )
    names = ("time", "height", "width")[-len(sizes) :]
    for name, n, k, o in zip(names, sizes, kernel, out, strict=True):
        if o + k - 1 > n or o < 0:
            fail(
                RuntimeError,
                op,
                f"an output size with which windows of {k} fit an input of {n}",
                got=f"{o} (pool {name} {k} too large relative to input {name} {n})",
                hint=f"for windows of {k} the output size goes from 0 to {n - k + 1}"
                if n >= k
                else "take a smaller kernel_size",
            )


def _fractional_batch(op: str, dims: int, input: core.Tensor) -> core.Tensor:
    """The input as a batch, of elements that there are."""
    if input.dim() not in (dims + 1, dims + 2):
        fail(
            RuntimeError,
            op,
            f"an input of {dims + 1} or {dims + 2} dimensions",
            got=input.dim(),
            hint="shapes are [N, C, *spatial] or [C, *spatial]",
        )
    x = input if input.dim() == dims + 2 else input.unsqueeze(0)
    if 0 in x.shape[1:]:
        fail(
            RuntimeError,
            op,
            "Expected input to have non-zero size for non-batch dimensions",
            got=f"the shape {list(input.shape)}",
            hint="only the number of samples, N, may be 0",
        )
    return x


def _fractional_max_pool(
    dims: int,
    input: core.Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int],
    output_ratio: tuple[Any, ...] | None,
    return_indices: bool,
    samples: core.Tensor | None,
) -> Any:
    op = f"fractional_max_pool{dims}d"
    if output_size is None and output_ratio is None:
        fail(
            ValueError,
            op,
            "output_size or output_ratio",
            got="neither",
            hint="output_ratio=0.5 halves every size",
        )
    kernel = (kernel_size,) * dims if isinstance(kernel_size, int) else tuple(kernel_size)
    batched = input.dim() == dims + 2
    x = _fractional_batch(op, dims, input)
    sizes = x.shape[2:]
    if output_size is None:
        ratios = (output_ratio,) * dims if isinstance(output_ratio, float) else output_ratio
        output_size = [int(n * r) for n, r in zip(sizes, ratios, strict=True)]
    out = (output_size,) * dims if isinstance(output_size, int) else tuple(output_size)
    _check_fractional_sizes(op, kernel, sizes, out)
    if samples is None:
        samples = facula.rand(*x.shape[:2], dims, dtype=x.dtype, device=x.device)
    if 0 in out:
        places = facula.zeros((*x.shape[:2], *out), dtype=core.int64, device=x.device)
        none = TABLE["_plane_gather"](x, places, dims)
        return _fractional_results(none, places, batched, return_indices)
    samples = samples[: x.size(0)]  # a module's may be for larger batches
    windows = _fractional_windows(samples, x, kernel, out)
    taken = x.detach().flatten(2).gather(2, windows.flatten(2)).view(windows.shape)
    indices = windows.gather(-1, taken.argmax(-1, keepdim=True)).squeeze(-1)
    values = TABLE["_plane_gather"](x, indices, dims)
    return _fractional_results(values, indices, batched, return_indices)


def _fractional_results(
    values: core.Tensor, indices: core.Tensor, batched: bool, return_indices: bool
) -> Any:
    """What the user asked for, without the dimension that was added."""
    if not batched:
        values, indices = values.squeeze(0), indices.squeeze(0)
    return (values, indices) if return_indices else values


def fractional_max_pool2d(
    input: core.Tensor,
    kernel_size: int | Sequence[int],
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """The largest elements of windows at random distances. [Graham 2014]

    Args:
        input: ``[N, C, *sizes]`` or ``[C, *sizes]``
        kernel_size: of the window, int or pair of ints
        output_size: of the result, int or pair of ints
        output_ratio: of the result's sizes to the input's; give it or ``output_size``
        return_indices: whether flat positions are given, too

    Raises:
        ValueError: neither a size nor a ratio is given.

    Example:
        >>> result = facula.nn.functional.fractional_max_pool2d(facula.randn(1, 1, 6, 6), 2, output_ratio=0.5)
        >>> result.shape
        facula.Size([1, 1, 3, 3])
    """
    return _fractional_max_pool(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


def fractional_max_pool3d(
    input: core.Tensor,
    kernel_size: int | Sequence[int],
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """The largest elements of windows at random distances. [Graham 2014]

    Args:
        input: ``[N, C, *sizes]`` or ``[C, *sizes]``
        kernel_size: of the window, int or triple of ints
        output_size: of the result, int or triple of ints
        output_ratio: of the result's sizes to the input's; give it or ``output_size``
        return_indices: whether flat positions are given, too

    Raises:
        ValueError: neither a size nor a ratio is given.

    Example:
        >>> result = facula.nn.functional.fractional_max_pool3d(facula.randn(1, 1, 6, 6, 6), 2, output_ratio=0.5)
        >>> result.shape
        facula.Size([1, 1, 3, 3, 3])
    """
    return _fractional_max_pool(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


def fractional_max_pool2d_with_indices(
    input: core.Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: object = None,
    return_indices: bool = False,
    _random_samples: object = None,
) -> Any:
    """The largest elements of windows at random distances, and their flat positions. [Graham 2014]

    Args:
        input: ``[N, C, *sizes]`` or ``[C, *sizes]``
        kernel_size: of the window, int or pair of ints
        output_size: of the result, int or pair of ints
        output_ratio: of the result's sizes to the input's; give it or ``output_size``
        return_indices: whether flat positions are given, too

    Raises:
        ValueError: neither a size nor a ratio is given.

    Example:
        >>> F, x = facula.nn.functional, facula.randn(1, 1, 6, 6)
        >>> F.fractional_max_pool2d_with_indices(x, 2, output_ratio=0.5)[0].shape
        facula.Size([1, 1, 3, 3])
    """
    return fractional_max_pool2d(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )


def fractional_max_pool3d_with_indices(
    input: core.Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: object = None,
    return_indices: bool = False,
    _random_samples: object = None,
) -> Any:
    """The largest elements of windows at random distances, and their flat positions. [Graham 2014]

    Args:
        input: ``[N, C, *sizes]`` or ``[C, *sizes]``
        kernel_size: of the window, int or triple of ints
        output_size: of the result, int or triple of ints
        output_ratio: of the result's sizes to the input's; give it or ``output_size``
        return_indices: whether flat positions are given, too

    Raises:
        ValueError: neither a size nor a ratio is given.

    Example:
        >>> F, x = facula.nn.functional, facula.randn(1, 1, 6, 6, 6)
        >>> F.fractional_max_pool3d_with_indices(x, 2, output_ratio=0.5)[0].shape
        facula.Size([1, 1, 3, 3, 3])
    """
    return fractional_max_pool3d(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
