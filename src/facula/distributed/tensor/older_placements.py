"""Placements and specs together, as PyTorch's older name of the package has them. Re-exports.

Takes and gives nothing of its own. Keeps true: the classes are those of `placement_types` and `specs`.
"""

from __future__ import annotations

from facula.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
    _StridedShard,
)
from facula.distributed.tensor.specs import DTensorSpec, TensorMeta

__all__ = [
    "DTensorSpec",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "TensorMeta",
    "_StridedShard",
]
