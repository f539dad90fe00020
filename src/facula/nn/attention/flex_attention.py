"""Attention whose scores and masks are functions that the caller writes.

Takes queries, keys and values, a function of one score and its place, and the blocks that a mask
leaves. Gives attention, differentiable in all of them.
Keeps true: the functions are mapped over whole scores (`vmap`), so that they may index other
tensors; blocks say only what the mask function says again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import facula
from facula import core
from facula.core.errors import fail

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

Modification = Callable[..., Any]


#: rows and columns of a block of a mask, where nothing else is asked for
_DEFAULT_SPARSE_BLOCK_SIZE = 128


class FlexKernelOptions(TypedDict, total=False):
    """What PyTorch's kernels can be told; they have no effect here."""

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    BACKEND: str


@dataclass(frozen=True)
class AuxRequest:
    """What `flex_attention` gives beside its result.

    Args:
        lse: whether the logarithm of each row's sum
        max_scores: whether the largest score of each row

    Example:
        >>> from facula.nn.attention import flex_attention as fa
        >>> q = facula.ones(1, 1, 2, 4)
        >>> result, aux = fa.flex_attention(q, q, q, return_aux=fa.AuxRequest(lse=True))
        >>> aux.lse.shape
        facula.Size([1, 1, 2])
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by `AuxRequest`; None for what was not.

    Args:
        lse: the logarithm of each row's sum
        max_scores: the largest score of each row

    Example:
        >>> from facula.nn.attention import flex_attention as fa
        >>> fa.AuxOutput().lse is None
        True
    """

    lse: Any = None
    max_scores: Any = None


def _identity(score: Any, batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """The scores as they are."""
    return score


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """The mask of everything.

    Args:
        batch, head, token_q, token_kv: tensors of indices

    Example:
        >>> from facula.nn.attention import flex_attention as fa
        >>> zero = facula.tensor(0)
        >>> fa.noop_mask(zero, zero, zero, zero)
        tensor(True)
    """
    return batch.new_ones(size=(), dtype=facula.bool, device=batch.device)


def and_masks(*mask_mods: Modification) -> Modification:
    """The mask of what all given masks leave.

    Args:
        *mask_mods: functions of (batch, head, query, key)

    Example:
        >>> from facula.nn.attention import flex_attention as fa
        >>> band = fa.and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k <= 1)
        >>> fa.create_mask(band, None, None, 3, 3, device="cpu")[0, 0]
        tensor([[ True, False, False],
                [ True,  True, False],
                [False,  True,  True]])
    """
    return _joined(mask_mods, facula.logical_and, True)


def or_masks(*mask_mods: Modification) -> Modification:
    """The mask of what any given mask leaves.

    Args:
        *mask_mods: functions of (batch, head, query, key)

    Example:
        >>> from facula.nn.attention import flex_attention as fa
        >>> either = fa.or_masks(lambda b, h, q, k: q == k, lambda b, h, q, k: k == 0)
        >>> fa.create_mask(either, None, None, 3, 3, device="cpu")[0, 0]
        tensor([[ True, False, False],
                [ True,  True, False],
                [ True, False,  True]])
    """
    return _joined(mask_mods, facula.logical_or, False)


def _joined(masks: tuple[Modification, ...], join: Callable[..., Any], start: bool) -> Modification:
    if not all(callable(mask) for mask in masks):
        fail(
            RuntimeError,
            "flex_attention",
            "All inputs should be callable mask_mods",
            masks,
            hint="a mask_mod is a function of batch, head, query and key index that gives bools",
        )

    def mask(b: Any, h: Any, q: Any, k: object) -> Any:
        result = b.new_full((), start, dtype=facula.bool)
        for part in masks:
            result = join(result, part(b, h, q, k))
        return result

    return mask


def _mapped(function: Modification, leading: int) -> Callable[..., Any]:
    """A function of one place as one of all places [B, H, Q, K]; `leading` whole arguments come
    first.
    """
    for at in (3, 2, 1, 0):  # the innermost map is over keys
        places: list[Any] = [None, None, None, None]
        places[at] = 0
        function = facula.vmap(function, in_dims=(*[0] * leading, *places))
    return function


def _places(shape: tuple[int, int, int, int], device: Any) -> list[Any]:
    return [facula.arange(n, device=device) for n in shape]


def create_mask(
    mod_fn: Modification,
    B: int | None,  # noqa: N803 - PyTorch's names
    H: int | None,  # noqa: N803
    Q_LEN: int,  # noqa: N803
    KV_LEN: int,  # noqa: N803
    device: core.device | str | int | None = None,
) -> Any:
    """The mask ``[B, H, Q_LEN, KV_LEN]`` that a function of (batch, head, query, key) describes.

    Args:
        mod_fn: gives True where a query looks at a key
        B, H: batch and heads; None for 1
        Q_LEN, KV_LEN: queries and keys
        device: None for the CPU

    Example:
        >>> from facula.nn.attention import flex_attention as fa
        >>> fa.create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2, device="cpu")
        tensor([[[[ True, False],
                  [ True,  True]]]])
    """
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    found = _mapped(mod_fn, 0)(*_places(shape, device))
    if found.dtype is not facula.bool:
        fail(
            TypeError,
            "create_mask",
            "a function that gives bools was required",
            found.dtype,
            hint="compare, for example q_idx >= kv_idx, instead of giving a score",
        )
    return found


def _ordered(dense: Any) -> tuple[Any, Any]:
    """How many blocks each row of blocks has, and which: those first, then the others, in order."""
    whole = dense.to(facula.int32)
    order = facula.argsort(whole, dim=-1, descending=True, stable=True)
    return whole.sum(-1).to(facula.int32), order.to(facula.int32)


def _dense(counts: Any, indices: core.Tensor, columns: int) -> Any:
    """The inverse of `_ordered`."""
    used = facula.arange(indices.shape[-1], device=counts.device) < counts.unsqueeze(-1)
    zero = counts.new_zeros((*counts.shape, columns))
    return zero.scatter_add(-1, indices.long(), used.to(counts.dtype))


def _check_blocks(indices: core.Tensor) -> None:
    if indices.dim() < 2:
        fail(
            RuntimeError,
            "BlockMask",
            "BlockMask must have at least 2 dimensions",
            hint="create_block_mask() makes block masks of functions",
        )


class BlockMask:
    """Which blocks of scores are looked at: in part (the mask function decides), in full, or not."""

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any,
        full_kv_indices: Any,
        q_num_blocks: Any,
        q_indices: Any,
        full_q_num_blocks: Any,
        full_q_indices: Any,
        BLOCK_SIZE: tuple[int, int] = (128, 128),  # noqa: N803
        mask_mod: Modification = noop_mask,
        *,
        dq_write_order: Any = None,
        dq_write_order_full: Any = None,
        dq_kv_order: Any = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        _check_blocks(kv_indices)
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE, self.mask_mod = BLOCK_SIZE, mask_mod
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        BLOCK_SIZE: int | tuple[int, int] = 128,  # noqa: N803
        mask_mod: Modification | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        *,
        dq_write_order: Any = None,
        dq_write_order_full: Any = None,
        dq_kv_order: Any = None,
    ) -> BlockMask:
        """A mask out of the blocks of keys that each block of queries looks at."""
        _check_blocks(kv_indices)
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
        rows, columns = kv_indices.shape[-2:]
        some: tuple[Any, Any] = (None, None)
        full: tuple[Any, Any] = (None, None)
        if compute_q_blocks:
            some = _ordered(_dense(kv_num_blocks, kv_indices, columns).mT)
            if full_kv_num_blocks is not None:
                full = _ordered(_dense(full_kv_num_blocks, full_kv_indices, columns).mT)
        lengths = (rows * size[0], columns * size[1]) if seq_lengths is None else seq_lengths
        own = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices)
        return cls(
            lengths,
            *own,
            *some,
            *full,
            BLOCK_SIZE=size,  # type: ignore[arg-type]
            mask_mod=mask_mod or noop_mask,
            dq_write_order=dq_write_order,
            dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order,
        )

    _TENSORS = (
        "kv_num_blocks kv_indices full_kv_num_blocks full_kv_indices q_num_blocks q_indices "
        "full_q_num_blocks full_q_indices"
    ).split()

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """The parts of the mask, as the constructor takes them."""
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        size = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        return (*lengths, *(getattr(self, n) for n in self._TENSORS), *size, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """[B, H, queries, keys]."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many scores there are."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    def sparsity(self) -> float:
        """How much of the scores lies in blocks that nobody looks at, in percent."""
        looked = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            looked += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - looked * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Any:
        """The blocks that are looked at as a matrix of ones and zeros."""
        columns = self.kv_indices.shape[-1]
        dense = _dense(self.kv_num_blocks, self.kv_indices, columns)
        if self.full_kv_num_blocks is not None:
            dense = dense + _dense(self.full_kv_num_blocks, self.full_kv_indices, columns)
        return dense

    def to_string(self, grid_size: Any = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks."""
        dense = self.to_dense().flatten(0, -3)[:limit].tolist()
        rows = ["".join("█" if v else " " for v in row) for matrix in dense for row in matrix]
        return "\n".join(rows)

    def to(self, device: core.device | str | int | None) -> BlockMask:
        """The mask on another device."""
        moved = {
            name: None if getattr(self, name) is None else getattr(self, name).to(device)
            for name in self._TENSORS
        }
        return BlockMask(
            self.seq_lengths, **moved, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod
        )

    def __getitem__(self, index: Any) -> BlockMask:
        """Some of the batches, heads and blocks of queries."""
        index = index if isinstance(index, tuple) else (index,)
        kept = tuple(slice(i, i + 1) if isinstance(i, int) and i >= 0 else i for i in index)
        names = self._TENSORS[:4]
        parts = {name: getattr(self, name) for name in names}
        picked: dict[str, Any] = {n: None if x is None else x[kept] for n, x in parts.items()}
        queries = picked["kv_indices"].shape[-2] * self.BLOCK_SIZE[0]
        return BlockMask.from_kv_blocks(
            **picked,
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod if len(kept) < 3 else noop_mask,
            seq_lengths=(min(queries, self.seq_lengths[0]), self.seq_lengths[1]),
        )

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(
    mask_mod: Modification,
    B: int | None,  # noqa: N803
    H: int | None,  # noqa: N803
    Q_LEN: int,  # noqa: N803
    KV_LEN: int,  # noqa: N803
    device: core.device | str | int | None = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,  # noqa: N803
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """The blocks of the mask that a function of (batch, head, query, key) describes, for
    `flex_attention`.

    Args:
        mask_mod: gives True where a query looks at a key
        B, H: batch and heads; None for one mask for all
        Q_LEN, KV_LEN: queries and keys
        device: None for the CPU
        BLOCK_SIZE: of blocks, an int or (queries, keys)
        separate_full_blocks: whether blocks without gaps are listed apart
        compute_dq_write_order, dq_kv_order: kept as in PyTorch

    Example:
        >>> from facula.nn.attention import flex_attention as fa
        >>> mask = fa.create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256, device="cpu")
        >>> mask.shape
        (1, 1, 256, 256)
    """
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    padded = facula.nn.functional.pad(mask, (0, -KV_LEN % columns, 0, -Q_LEN % rows))
    blocks = padded.unflatten(-2, (-1, rows)).unflatten(-1, (-1, columns)).transpose(-3, -2)
    counts = blocks.sum((-2, -1))
    some, full = counts > 0, counts == rows * columns
    if not separate_full_blocks:
        full = facula.zeros_like(full)
    partial = _ordered(some & ~full)
    whole: tuple[Any, Any] = _ordered(full) if separate_full_blocks else (None, None)
    return BlockMask.from_kv_blocks(
        *partial,
        *whole,
        BLOCK_SIZE=(rows, columns),
        mask_mod=mask_mod,
        seq_lengths=(Q_LEN, KV_LEN),
    )


def _check_heads(query: Any, key: Any, enable_gqa: bool, op: str) -> None:
    heads, groups = query.shape[1], key.shape[1]
    if heads != groups and not enable_gqa:
        fail(
            ValueError,
            op,
            "Expect query and key/value to have the same number of heads",
            f"{heads} and {groups}",
            "try setting enable_gqa=True for GQA",
        )
    if heads % groups:
        fail(
            ValueError,
            op,
            "a number of query heads that those of keys divide",
            (heads, groups),
            hint="repeat_interleave(n, dim=1) repeats the heads of keys and values",
        )


def _check(query: Any, key: Any, value: Any, enable_gqa: bool) -> None:
    op = "flex_attention"
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 4:
            fail(
                ValueError,
                op,
                f"a 4-d {name} was required",
                f"{x.dim()}-d",
                hint="the shape is [batch, heads, length, width]; unsqueeze() adds what is missing",
            )
    if key.shape[-2] != value.shape[-2] or key.shape[1] != value.shape[1]:
        fail(
            ValueError,
            op,
            "keys and values of one length",
            (key.shape, value.shape),
            hint="every key goes with one value: cut or pad both alike",
        )
    if query.shape[-1] != key.shape[-1]:
        fail(
            ValueError,
            op,
            "Expect query and key/value to have the same embedding dimension",
            f"{query.shape[-1]} and {key.shape[-1]}",
            hint="only value may have another last size",
        )
    _check_heads(query, key, enable_gqa, op)


def _looked_at(block_mask: BlockMask, shape: tuple[int, int, int, int], device: Any) -> Any:
    """The dense mask of the blocks, and within partial ones of the mask function."""
    rows, columns = block_mask.BLOCK_SIZE
    _, _, queries, keys = shape
    count = block_mask.kv_indices.shape[-1]

    def spread(counts: Any, indices: core.Tensor) -> Any:
        dense = _dense(counts, indices, count).bool()
        dense = dense.repeat_interleave(rows, -2).repeat_interleave(columns, -1)
        return dense[..., :queries, :keys]

    partial = spread(block_mask.kv_num_blocks, block_mask.kv_indices)
    wanted = _mapped(block_mask.mask_mod, 0)(*_places(shape, device))
    looked = partial & wanted
    if block_mask.full_kv_num_blocks is not None:
        looked = looked | spread(block_mask.full_kv_num_blocks, block_mask.full_kv_indices)
    return looked


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Modification | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """``softmax(score_mod(query key^T scale)) value`` over what the mask leaves; 0 where it leaves
    nothing. [Dong et al. 2024]

    Args:
        query: ``[B, H, Q, E]``
        key: ``[B, G, K, E]``; G is H, or a divisor with ``enable_gqa``
        value: ``[B, G, K, F]``
        score_mod: of (score, batch, head, query, key), to a score; None to leave it
        block_mask: as `create_block_mask` makes it; None for all
        scale: None for ``1 / sqrt(E)``
        enable_gqa: whether several heads share keys and values
        return_lse: whether the logarithm of each row's sum is a second result
        kernel_options: kept as in PyTorch
        return_aux: an `AuxRequest` of further results

    Returns:
        ``[B, H, Q, F]``.

    Example:
        >>> from facula.nn.attention import flex_attention as fa
        >>> q = facula.randn(1, 2, 4, 8)
        >>> causal = fa.create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, device="cpu")
        >>> fa.flex_attention(q, q, q, block_mask=causal).shape
        facula.Size([1, 2, 4, 8])
    """
    _check(query, key, value, enable_gqa)
    heads, groups = query.shape[1], key.shape[1]
    if heads != groups:
        key = key.repeat_interleave(heads // groups, 1)
        value = value.repeat_interleave(heads // groups, 1)
    if key.shape[0] != query.shape[0]:
        key, value = (x.expand((query.shape[0], *x.shape[1:])) for x in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    wide = facula.float32 if query.dtype.itemsize == 2 else query.dtype
    scores = (query.to(wide) @ key.to(wide).mT) * factor
    shape = tuple(scores.shape)
    if score_mod is not None:
        scores = _mapped(score_mod, 1)(scores, *_places(shape, query.device)).to(wide)
    if block_mask is not None:
        looked = _looked_at(block_mask, shape, query.device)
        scores = scores.masked_fill(~looked, float("-inf"))
    largest = scores.amax(-1, True)
    safe = largest.detach().masked_fill(largest.detach() == float("-inf"), 0)
    powers = (scores - safe).exp()
    total = powers.sum(-1, True)
    result = (powers / total.masked_fill(total == 0, 1)) @ value.to(wide)
    result = result.to(query.dtype)
    logarithm = (total.log() + safe).squeeze(-1)
    if return_aux is not None:
        return result, AuxOutput(
            logarithm if return_aux.lse else None,
            largest.squeeze(-1) if return_aux.max_scores else None,
        )
    return (result, logarithm) if return_lse else result
