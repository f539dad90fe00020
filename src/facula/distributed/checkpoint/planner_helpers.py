"""What the default planners and users' own are made from: items of plans.

Takes: entries of a state, and what a checkpoint holds. Gives: write items, read items; plans without what others write.
Keeps true: a piece that several ranks have is written once; what is read for a piece fills it once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed._shard.sharded_tensor.pieces import ShardedTensor
from facula.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from facula.distributed.checkpoint.pieces import chunks_of, has_pieces
from facula.distributed.checkpoint.planner import (
    LoadItemType,
    ReadItem,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from facula.distributed.tensor.dtensor import DTensor

__all__ = [
    "create_read_items", "create_read_items_for_chunk_list", "create_write_items", "dedup_save_plans",
    "overlap",
]  # fmt: skip


def create_write_items(fqn: str, value: Any) -> list[WriteItem]:
    """What this rank could write of an entry."""
    if not has_pieces(value):
        return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)]
    cut = isinstance(value, DTensor)
    kind = WriteItemType.SHARD if cut or isinstance(value, ShardedTensor) else WriteItemType.TENSOR
    if isinstance(value, ShardedTensor):
        properties = TensorProperties(value.dtype, requires_grad=value.requires_grad)
    else:
        properties = TensorProperties.create_from_tensor(value._local_tensor if cut else value)
    whole = core.Size(value.shape)
    return [
        WriteItem(
            MetadataIndex(fqn, chunk.offsets), kind, None, TensorWriteData(chunk, properties, whole)
        )
        for chunk in chunks_of(value)
        if math.prod(chunk.sizes) or not math.prod(whole)
    ]


def overlap(
    one: ChunkStorageMetadata, other: ChunkStorageMetadata
) -> tuple[list[int], list[int], list[int]] | None:
    """The part that two pieces have in common: where it begins in each of them, and its shape."""
    mine, theirs, sizes = [], [], []
    for a, n, b, m in zip(one.offsets, one.sizes, other.offsets, other.sizes, strict=True):
        low, high = max(a, b), min(a + n, b + m)
        if low >= high:
            return None
        mine.append(low - a)
        theirs.append(low - b)
        sizes.append(high - low)
    return mine, theirs, sizes


def create_read_items_for_chunk_list(
    fqn: str,
    checkpoint_md: TensorStorageMetadata,
    local_chunks: Sequence[ChunkStorageMetadata],
) -> list[ReadItem]:
    """What is to be read to fill pieces of a tensor, from whatever pieces were saved.

    Example:
        >>> from facula.distributed.checkpoint import metadata, planner_helpers
        >>> halves = [metadata.ChunkStorageMetadata((0,), (2,)), metadata.ChunkStorageMetadata((2,), (2,))]
        >>> saved = metadata.TensorStorageMetadata(metadata.TensorProperties(), (4,), halves)
        >>> middle = metadata.ChunkStorageMetadata((1,), (2,))
        >>> items = planner_helpers.create_read_items_for_chunk_list("x", saved, [middle])
        >>> [(tuple(i.dest_offsets), tuple(i.storage_offsets), tuple(i.lengths)) for i in items]
        [((0,), (1,), (1,)), ((1,), (0,), (1,))]
    """
    items = []
    for local in local_chunks:
        for number, saved in enumerate(checkpoint_md.chunks):
            common = overlap(local, saved)
            if common is None:
                continue
            into, out, sizes = common
            items.append(
                ReadItem(
                    LoadItemType.TENSOR,
                    MetadataIndex(fqn, local.offsets), core.Size(into),
                    MetadataIndex(fqn, saved.offsets, number), core.Size(out), core.Size(sizes),
                )
            )  # fmt: skip
    return items


def create_read_items(fqn: str, md: Any, value: object) -> list[ReadItem]:
    """What is to be read for an entry of a state."""
    if isinstance(md, BytesStorageMetadata):
        index, zero = MetadataIndex(fqn), core.Size([0])
        return [ReadItem(LoadItemType.BYTE_IO, index, zero, index, zero, zero)]
    if not has_pieces(value):
        fail(ValueError, "checkpoint.load", f"a tensor was required for {fqn}, which is one in the checkpoint "
             "(Invalid checkpoint metadata)", type(value).__name__,
             f"facula.empty({tuple(md.size)}, dtype={md.properties.dtype}) takes it")  # fmt: skip
    local = chunks_of(value)
    items = create_read_items_for_chunk_list(fqn, md, local)
    wanted = sum(math.prod(chunk.sizes) for chunk in local)
    left = wanted - sum(math.prod(item.lengths) for item in items)
    if left:
        fail(RuntimeError, "checkpoint.load", f"all of {fqn} was required, once", f"{abs(left)} elements "
             f"{'less' if left > 0 else 'more'}", "the checkpoint lacks pieces: load another one")  # fmt: skip
    return items


def dedup_save_plans(
    all_plans: list[SavePlan], save_to_lowest_rank: bool = False
) -> list[SavePlan]:
    """Plans in which each piece is written once: by the rank that has it and has least to write, or by the
    first one that has it."""
    who: dict[MetadataIndex, list[int]] = {}
    items: dict[MetadataIndex, WriteItem] = {}
    for rank, plan in enumerate(all_plans):
        for item in plan.items:
            if rank not in who.setdefault(item.index, []):
                who[item.index].append(rank)
            items.setdefault(item.index, item)
    load = [0] * len(all_plans)
    kept: list[set[MetadataIndex]] = [set() for _ in all_plans]
    for index, ranks in who.items():
        rank = ranks[0] if save_to_lowest_rank else min(ranks, key=lambda r: (load[r], r))
        data = items[index].tensor_data
        load[rank] += math.prod(data.chunk.sizes) * data.properties.dtype.itemsize if data else 1
        kept[rank].add(index)
    return [
        replace(plan, items=[item for item in plan.items if item.index in kept[rank]])
        for rank, plan in enumerate(all_plans)
    ]
