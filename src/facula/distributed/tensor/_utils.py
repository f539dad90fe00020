"""Where a rank's piece of a distributed tensor begins.

Takes: shapes, meshes and placements. Gives: sizes and offsets. Keeps true: nothing is communicated.
"""

from __future__ import annotations

from collections.abc import Sequence

from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.tensor.placement_types import Placement, Shard, _StridedShard

__all__ = ["compute_local_shape_and_global_offset", "piece_at"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this rank's piece and where it begins; of a rank outside of the mesh, nothing."""
    place = mesh.get_coordinate()
    if place is None:
        return (0,), ()
    return piece_at(global_shape, mesh, place, placements)


def piece_at(
    global_shape: Sequence[int],
    mesh: DeviceMesh,
    place: Sequence[int],
    placements: Sequence[Placement],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of the piece of a rank at some place of the mesh, and where it begins."""
    shape, offset = list(global_shape), [0] * len(global_shape)
    # what is cut by strides is cut last
    for mesh_dim in sorted(
        range(len(placements)), key=lambda d: isinstance(placements[d], _StridedShard)
    ):
        placement = placements[mesh_dim]
        if isinstance(placement, Shard):
            size, start = Shard.local_shard_size_and_offset(
                shape[placement.dim], mesh.size(mesh_dim), place[mesh_dim]
            )
            shape[placement.dim] = size
            offset[placement.dim] += start
    return tuple(shape), tuple(offset)
