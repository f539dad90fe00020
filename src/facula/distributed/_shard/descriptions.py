"""What a tensor of pieces is besides its elements.

Takes: pieces, a shape, a dtype. Gives: `ShardedTensorMetadata`, `TensorProperties`.
Keeps true: these are data alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from facula import core
from facula.distributed._shard.metadata import ShardMetadata

__all__ = ["ShardedTensorMetadata", "TensorProperties"]


@dataclass
class TensorProperties:
    """What a tensor is besides its shape."""

    dtype: Any = field(default_factory=core.get_default_dtype)
    layout: Any = core.strided
    requires_grad: bool = False
    memory_format: Any = core.contiguous_format
    pin_memory: bool = False

    @classmethod
    def create_from_tensor(cls, tensor: core.Tensor) -> Self:
        """Those of a tensor."""
        return cls(tensor.dtype, tensor.layout, tensor.requires_grad)


@dataclass
class ShardedTensorMetadata:
    """The pieces of a tensor, its whole shape, and what else it is."""

    shards_metadata: list[ShardMetadata] = field(default_factory=list)
    size: Any = field(default_factory=lambda: core.Size([]))
    tensor_properties: Any = field(default_factory=TensorProperties)
