"""Attention over sequences of several lengths that lie one behind the other, without padding.

Takes: tensors `(tokens, heads, size)` and where each sequence begins. Gives: `varlen_attn`, `varlen_attn_out`.
Keeps true: a token sees the keys of its own sequence only; gradients are those of the operators that it is made of.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import facula
from facula.core.errors import fail

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """What else attention is asked for.

    Args:
        lse: the logarithms of the sums of exponentials, `(heads, tokens)`.

    >>> from facula.nn.attention.varlen import AuxRequest
    >>> AuxRequest(lse=True)
    AuxRequest(lse=True)
    """

    lse: bool = False


def _keys_of(
    tensor: facula.Tensor,
    number: int,
    start: int,
    stop: int,
    block_table: facula.Tensor | None,
) -> facula.Tensor:
    """The keys, or values, of one sequence; with a table they lie in pages `(pages, length, heads, size)`."""
    if block_table is None:
        return tensor[start:stop]
    count = -(-(stop - start) // tensor.shape[1])
    pages = tensor[block_table[number, :count].long()]
    return pages.flatten(0, 1)[: stop - start]


def _one(
    query: facula.Tensor,
    key: facula.Tensor,
    value: facula.Tensor,
    scale: float,
    window: tuple[int, int],
) -> tuple[facula.Tensor, facula.Tensor]:
    """Attention of one sequence, and its logarithms; the last query stands at the last key."""
    scores = (query.transpose(0, 1).float() @ key.permute(1, 2, 0).float()) * scale
    rows = facula.arange(len(query), device=query.device)[:, None] + len(key) - len(query)
    away = facula.arange(len(key), device=query.device) - rows
    hidden = facula.zeros_like(away, dtype=facula.bool)
    if window[0] >= 0:
        hidden = hidden | (away < -window[0])
    if window[1] >= 0:
        hidden = hidden | (away > window[1])
    scores = scores.masked_fill(hidden, -math.inf)
    lse = scores.logsumexp(-1)
    # a query that sees no key gives zeros
    weights = (scores - lse.masked_fill(lse == -math.inf, 0.0)[..., None]).exp()
    out = weights @ value.transpose(0, 1).float()
    return out.transpose(0, 1).to(query.dtype), lse


def varlen_attn(
    query: facula.Tensor,
    key: facula.Tensor,
    value: facula.Tensor,
    cu_seq_q: facula.Tensor,
    cu_seq_k: facula.Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: facula.Tensor | None = None,
    block_table: facula.Tensor | None = None,
    num_splits: int | None = None,
) -> facula.Tensor | tuple[facula.Tensor, facula.Tensor]:
    """Attention of each sequence by itself.

    Args:
        query: `(tokens, heads, size)`, the sequences one behind the other.
        key, value: the same of the keys; `(pages, length, heads, size)` with a `block_table`.
        cu_seq_q, cu_seq_k: where each sequence begins, and where the last one ends; `cu_seq_k` may be
            None with a `block_table`.
        max_q, max_k: not looked at: the greatest lengths.
        return_aux: what else is wanted.
        scale: of the scores; None is one by the root of the size.
        window_size: how many keys to the left and to the right of its own place a query sees; -1 is
            all of them, and `(-1, 0)` is causal.
        enable_gqa: whether there may be fewer heads of keys, each for several of queries.
        seqused_k: how many keys of each sequence count.
        block_table: the pages in which the keys of each sequence lie, `(sequences, pages)`.
        num_splits: not looked at.

    Returns:
        The result, `(tokens, heads, size)`; with `AuxRequest(lse=True)` the logarithms as well.

    >>> from facula.nn.attention.varlen import varlen_attn
    >>> q, starts = facula.randn(5, 2, 8), facula.tensor([0, 2, 5])
    >>> varlen_attn(q, q, q, starts, starts, 3, 3, window_size=(-1, 0)).shape
    facula.Size([5, 2, 8])
    """
    heads, inner = query.shape[1], key.shape[-2]
    if heads != inner and not (enable_gqa and heads % inner == 0):
        fail(
            ValueError,
            "varlen_attn",
            "as many heads of keys as of queries"
            if not enable_gqa
            else "heads of queries that are a multiple of those of keys",
            f"{heads} and {inner}",
            hint="pass enable_gqa=True where a head of keys is for several of queries",
        )
    if cu_seq_k is None and seqused_k is None:
        fail(
            ValueError,
            "varlen_attn",
            "where the keys of each sequence begin, or how many there are",
            "neither cu_seq_k nor seqused_k",
            hint="cu_seq_k=cu_seq_q for attention to itself",
        )
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    left, right = window_size
    begins = cu_seq_q.tolist()
    starts = [0] * len(begins) if cu_seq_k is None else cu_seq_k.tolist()
    used = None if seqused_k is None else seqused_k.tolist()
    results = []
    for number in range(len(begins) - 1):
        start, stop = starts[number], starts[number + 1]
        if used is not None:
            stop = start + used[number]
        parts = [_keys_of(t, number, start, stop, block_table) for t in (key, value)]
        parts = [t.repeat_interleave(heads // inner, 1) if heads != inner else t for t in parts]
        rows = query[begins[number] : begins[number + 1]]
        results.append(_one(rows, parts[0], parts[1], scale, (left, right)))
    out = facula.cat([one for one, _ in results])
    if return_aux is not None and return_aux.lse:
        return out, facula.cat([lse for _, lse in results], dim=1)
    return out


def varlen_attn_out(
    out: facula.Tensor,
    query: facula.Tensor,
    key: facula.Tensor,
    value: facula.Tensor,
    cu_seq_q: facula.Tensor,
    cu_seq_k: facula.Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: facula.Tensor | None = None,
    block_table: facula.Tensor | None = None,
    num_splits: int | None = None,
) -> facula.Tensor | tuple[facula.Tensor, facula.Tensor]:
    """`varlen_attn` into a tensor that is there.

    Args:
        out: takes the result; no gradients go through it.
        query, key, value, cu_seq_q, cu_seq_k, max_q, max_k: as for `varlen_attn`.
        return_aux, scale, window_size, enable_gqa, seqused_k, block_table, num_splits: as there.

    >>> from facula.nn.attention.varlen import varlen_attn_out
    >>> q, starts = facula.ones(2, 1, 4), facula.tensor([0, 2])
    >>> out = facula.empty(2, 1, 4)
    >>> varlen_attn_out(out, q, q, q, starts, starts, 2, 2) is out
    True
    """
    with facula.no_grad():
        found = varlen_attn(
            query,
            key,
            value,
            cu_seq_q,
            cu_seq_k,
            max_q,
            max_k,
            return_aux=return_aux,
            scale=scale,
            window_size=window_size,
            enable_gqa=enable_gqa,
            seqused_k=seqused_k,
            block_table=block_table,
        )
        if isinstance(found, tuple):
            out.copy_(found[0])
            return out, found[1]
        return out.copy_(found)
