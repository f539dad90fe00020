"""`ShardedTensor`: a tensor of which each rank has pieces, and knows where the others lie.

Takes: this rank's pieces, or a way to cut. Gives: `Shard`, `ShardedTensor`, and functions that make one.
Keeps true: the pieces of all ranks cover the tensor and lie apart, which is looked at when it is made; it is no
`Tensor`: operators take its pieces.
"""

from __future__ import annotations

from facula.distributed._shard.sharded_tensor.metadata import (
    ShardedTensorMetadata,
    ShardMetadata,
    TensorProperties,
)
from facula.distributed._shard.sharded_tensor.pieces import (
    Shard,
    ShardedTensor,
    empty,
    full,
    init_from_local_shards,
    ones,
    zeros,
)

__all__ = [
    "Shard", "ShardMetadata", "ShardedTensor", "ShardedTensorMetadata", "TensorProperties", "empty", "full",
    "init_from_local_shards", "ones", "zeros",
]  # fmt: skip
