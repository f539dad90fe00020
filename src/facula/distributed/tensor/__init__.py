"""Distributed tensors: `DTensor`, its placements, and factories.

Re-exports. Keeps true: importing this opens nothing.
"""

from __future__ import annotations

from facula.distributed.device_mesh import DeviceMesh, init_device_mesh
from facula.distributed.tensor.distributing import distribute_module, distribute_tensor
from facula.distributed.tensor.dtensor import DTensor
from facula.distributed.tensor.factories import empty, full, ones, rand, randn, zeros
from facula.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "init_device_mesh",
    "ones",
    "rand",
    "randn",
    "zeros",
]
