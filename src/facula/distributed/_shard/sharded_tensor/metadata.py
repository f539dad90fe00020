"""What a tensor of pieces is besides its elements, under PyTorch's name of the module.

Takes: nothing. Gives: `ShardMetadata`, `ShardedTensorMetadata`, `TensorProperties`.
Keeps true: these are data alone.
"""

from __future__ import annotations

from facula.distributed._shard.descriptions import ShardedTensorMetadata, TensorProperties
from facula.distributed._shard.metadata import ShardMetadata

__all__ = ["ShardMetadata", "ShardedTensorMetadata", "TensorProperties"]
