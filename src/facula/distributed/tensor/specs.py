"""A distributed tensor without its elements.

Takes: a mesh, placements, and what is known of the whole tensor. Gives: `DTensorSpec`.
Keeps true: specs are equal where mesh, placements and the whole tensor are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from facula import core
from facula.core.errors import fail
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensorSpec", "TensorMeta"]


class TensorMeta(NamedTuple):
    """What is known of a whole tensor without its elements."""

    shape: core.Size
    stride: tuple[int, ...]
    dtype: core.dtype


@dataclass
class DTensorSpec:
    """A distributed tensor without its elements, as rules get it."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta | None = None

    def __post_init__(self) -> None:
        self.placements = tuple(self.placements)

    @property
    def shape(self) -> core.Size:
        """The sizes of the whole tensor."""
        return self._known().shape

    @property
    def stride(self) -> tuple[int, ...]:
        """The strides of the whole tensor."""
        return self._known().stride

    @property
    def ndim(self) -> int:
        """How many dimensions the tensor has."""
        return len(self.shape)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh on whose ranks the pieces lie."""
        return self.mesh

    @property
    def num_shards(self) -> int:
        """Into how many pieces the tensor is cut."""
        return math.prod(self.mesh.size(d) for d, p in enumerate(self.placements) if p.is_shard())

    @property
    def dim_map(self) -> list[int]:
        """For each dimension of the tensor, the dimension of the mesh that cuts it; -1: none does."""
        found = [-1] * self.ndim
        for mesh_dim, placement in enumerate(self.placements):
            if not isinstance(placement, Shard):
                continue
            dim = placement.dim % max(self.ndim, 1)
            if found[dim] > -1:
                fail(ValueError, "DTensorSpec", "dimensions that one dimension of the mesh cuts were required "
                     "(can't shard the same tensor dimension twice with a dim_map)", self.placements,
                     "use placements")  # fmt: skip
            found[dim] = mesh_dim
        return found

    @property
    def num_shards_map(self) -> list[int]:
        """For each dimension of the tensor, into how many pieces it is cut."""
        found = [1] * self.ndim
        for mesh_dim, placement in enumerate(self.placements):
            if isinstance(placement, Shard):
                found[placement.dim] *= self.mesh.size(mesh_dim)
        return found

    @property
    def sums(self) -> list[int]:
        """The dimensions of the mesh whose ranks hold parts of a reduction."""
        return [d for d, placement in enumerate(self.placements) if placement.is_partial()]

    @classmethod
    def from_dim_map(
        cls, mesh: DeviceMesh, dim_map: Sequence[int], sums: Sequence[int], tensor_meta: TensorMeta | None = None
    ) -> DTensorSpec:  # fmt: skip
        """A spec by what cuts each dimension of the tensor.

        Args:
            dim_map: for each dimension of the tensor, the dimension of the mesh that cuts it; -1: none does.
            sums: the dimensions of the mesh whose ranks hold parts of a sum.
            tensor_meta: what is known of the whole tensor.
        """
        placements: list[Placement] = [Replicate()] * mesh.ndim
        for mesh_dim in sums:
            placements[mesh_dim] = Partial()
        for dim, mesh_dim in enumerate(dim_map):
            if mesh_dim < 0:
                continue
            if not placements[mesh_dim].is_replicate():
                fail(RuntimeError, "DTensorSpec", "one use of each dimension of the mesh was required "
                     f"(DeviceMesh dimension can't be mapped to two dimensions: {mesh_dim})", dim_map,
                     "-1 stands for a dimension that is not cut")  # fmt: skip
            placements[mesh_dim] = Shard(dim)
        return cls(mesh, tuple(placements), tensor_meta)

    def is_replicated(self) -> bool:
        """Whether each rank has the whole tensor."""
        return all(placement.is_replicate() for placement in self.placements)

    def is_sharded(self) -> bool:
        """Whether any dimension is cut."""
        return any(placement.is_shard() for placement in self.placements)

    def shallow_copy_with_tensor_meta(self, tensor_meta: TensorMeta | None) -> DTensorSpec:
        """The same placements for another tensor.

        Args:
            tensor_meta: what is known of it.
        """
        return DTensorSpec(self.mesh, self.placements, tensor_meta)

    def _known(self) -> TensorMeta:
        if self.tensor_meta is None:
            hint = "DTensorSpec(mesh, placements, TensorMeta(shape, stride, dtype))"
            fail(ValueError, "DTensorSpec", "tensor_meta was required", None, hint)
        return self.tensor_meta

    def __hash__(self) -> int:
        known = self.tensor_meta
        shape = None if known is None else (tuple(known.shape), tuple(known.stride), known.dtype)
        return hash((self.mesh, self.placements, shape))

    def __str__(self) -> str:
        places = "".join(map(str, self.placements))
        shape = "unknown shape" if self.tensor_meta is None else tuple(self.shape)
        return f"Spec({places} on {shape})"
