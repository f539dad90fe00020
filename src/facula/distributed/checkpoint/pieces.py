"""The pieces that this rank has of the tensors of a state.

Takes: a tensor, perhaps a distributed one. Gives: where each piece begins, and the tensor that holds it.
Keeps true: pieces are views of what the tensor holds, so that what is written to them is written to the tensor.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed._shard.sharded_tensor.pieces import ShardedTensor
from facula.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
from facula.distributed.tensor._utils import compute_local_shape_and_global_offset
from facula.distributed.tensor.dtensor import DTensor
from facula.distributed.tensor.placement_types import Partial, Replicate, Shard
from facula.fx._pytree import tree_map

__all__ = ["chunks_of", "find_state_dict_object", "has_pieces", "is_here", "settled"]


def has_pieces(value: object) -> bool:
    """Whether a value is written as pieces of its elements: others, sparse and quantized tensors among
    them, are written as `facula.save` does."""
    if isinstance(value, DTensor | ShardedTensor):
        return True
    if not isinstance(value, core.Tensor):
        return False
    return value.layout is core.strided and not value.is_quantized


def is_here(value: object) -> bool:
    """Whether this rank has anything of a value: ranks outside of a tensor's mesh have nothing."""
    return not isinstance(value, DTensor) or value.device_mesh.get_coordinate() is not None


def settled(state: dict[str, Any]) -> dict[str, Any]:
    """A state whose distributed tensors are pieces of the whole, not sums that are still to be made; all
    ranks call this."""

    def made(value: object) -> Any:
        if not isinstance(value, DTensor) or not any(
            isinstance(p, Partial) for p in value.placements
        ):
            return value
        kept = [p if isinstance(p, Shard) else Replicate() for p in value.placements]
        return value.redistribute(placements=kept)

    return {name: tree_map(made, value) for name, value in state.items()}


def chunks_of(value: Any) -> list[ChunkStorageMetadata]:
    """The pieces that this rank has; one without elements where it has none of them."""
    if isinstance(value, ShardedTensor):
        held = [shard.metadata for shard in value.local_shards()]
        return [ChunkStorageMetadata(core.Size(m.shard_offsets), core.Size(m.shard_sizes)) for m in held]  # fmt: skip
    if not isinstance(value, DTensor):
        return [ChunkStorageMetadata(core.Size([0] * value.dim()), core.Size(value.shape))]
    if not is_here(value):
        return []
    if any(isinstance(p, Partial) for p in value.placements):
        fail(ValueError, "checkpoint", "tensors that are replicated or cut were required",
             f"placements {value.placements}", "redistribute() makes the sum first")  # fmt: skip
    shape, offset = compute_local_shape_and_global_offset(
        value.shape, value.device_mesh, value.placements
    )
    return [ChunkStorageMetadata(core.Size(offset), core.Size(shape))]


def find_state_dict_object(state_dict: dict[str, Any], index: MetadataIndex) -> Any:
    """The value of an entry; of a tensor, the piece that begins where the index says."""
    if index.fqn not in state_dict:
        fail(ValueError, "checkpoint", "the name of an entry was required (Could not find FQN)", repr(index.fqn),
             f"the state has {sorted(state_dict)[:5]}")  # fmt: skip
    value = state_dict[index.fqn]
    if not has_pieces(value):
        if index.offset is not None and not isinstance(value, core.Tensor):
            fail(ValueError, "checkpoint", f"a tensor was required for {index.fqn}, of which a piece is asked for",
                 type(value).__name__, "an index without an offset names other values")  # fmt: skip
        return value
    starts = [chunk.offsets for chunk in chunks_of(value)]
    if index.offset is not None and index.offset not in starts:
        fail(ValueError, "checkpoint", f"the beginning of a piece of {index.fqn} was required (FQN: could not "
             "find shard)", tuple(index.offset), f"this rank's begins at {starts}")  # fmt: skip
    if isinstance(value, ShardedTensor):
        return value.local_shards()[
            starts.index(index.offset) if index.offset else 0
        ].tensor.detach()
    return value._local_tensor.detach() if isinstance(value, DTensor) else value.detach()
