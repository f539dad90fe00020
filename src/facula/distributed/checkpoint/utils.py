"""Helpers of planners and storages, under PyTorch's name of the module.

Takes: states and indices. Gives: `find_state_dict_object`, `find_tensor_shard`.
Keeps true: what is given is a view: what is written to it is written to the state.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed._shard.sharded_tensor.pieces import ShardedTensor
from facula.distributed.checkpoint.metadata import MetadataIndex
from facula.distributed.checkpoint.pieces import chunks_of, find_state_dict_object
from facula.distributed.tensor.dtensor import DTensor

__all__ = ["find_state_dict_object", "find_tensor_shard"]


def find_tensor_shard(tensor: core.Tensor, index: MetadataIndex) -> core.Tensor:
    """The piece of a tensor that this rank has, where an index says that it begins.

    Args:
        tensor: a distributed tensor, or a plain one, which has one piece at its beginning
        index: the piece

    Raises:
        ValueError: no piece of this rank begins there.
    """
    starts: list[Any] = [tuple(chunk.offsets) for chunk in chunks_of(tensor)]
    if index.offset is not None and tuple(index.offset) not in starts:
        fail(ValueError, "find_tensor_shard", f"the beginning of a piece of {index.fqn} was required (FQN: could not "
             "find shard)", tuple(index.offset), hint=f"this rank's begins at {starts}")  # fmt: skip
    if isinstance(tensor, ShardedTensor):
        return tensor.local_shards()[
            starts.index(tuple(index.offset)) if index.offset else 0
        ].tensor
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor
