"""Moving the pieces of a distributed tensor from one placement to another.

Takes: this rank's piece, a mesh, and placements before and after. Gives: this rank's new piece.
Keeps true: all ranks of the mesh call it with the same placements; pieces are exchanged only where a
rank needs what it does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed import operations
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from facula.distributed.types import ReduceOp
from facula.ops.registry import F

__all__ = ["moved", "split"]


def split(piece: Any, mesh: DeviceMesh, mesh_dim: int, dim: int) -> Any:
    """This rank's part, along one dimension of the mesh, of what all of its ranks hold."""
    size, start = Shard.local_shard_size_and_offset(
        piece.shape[dim], mesh.size(mesh_dim), mesh.get_local_rank(mesh_dim)
    )
    return piece.narrow(dim, start, size).contiguous()


def _joined(piece: Any, mesh: DeviceMesh, mesh_dim: int, dim: int, total: int) -> Any:
    """The pieces of all ranks along one dimension of the mesh, one behind the other."""
    count = mesh.size(mesh_dim)
    full = -(-total // count)
    shape = [*piece.shape]
    shape[dim] = full
    padded = piece.new_zeros(shape)  # pieces that are sent have one size
    padded.narrow(dim, 0, piece.shape[dim]).copy_(piece)
    parts = [core.empty(tuple(shape), dtype=piece.dtype) for _ in range(count)]
    operations.all_gather(parts, padded, mesh.get_group(mesh_dim))
    return F.cat(parts, dim).narrow(dim, 0, total).contiguous()


def _reduced(piece: Any, mesh: DeviceMesh, mesh_dim: int, placement: Partial) -> Any:
    total = piece.detach().clone()
    operations.all_reduce(
        total, getattr(ReduceOp, placement.reduce_op.upper()), mesh.get_group(mesh_dim)
    )
    return total


def _sizes_before(
    shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> list[list[int]]:
    """The shape that is cut along each dimension of the mesh, by this rank's place in those before."""
    place = mesh.get_coordinate() or [0] * mesh.ndim
    current, found = list(shape), []
    for mesh_dim, placement in enumerate(placements):
        found.append(list(current))
        if isinstance(placement, Shard):
            current[placement.dim] = Shard.local_shard_size_and_offset(
                current[placement.dim], mesh.size(mesh_dim), place[mesh_dim]
            )[0]
    return found


def moved(
    piece: Any,
    shape: Sequence[int],
    mesh: DeviceMesh,
    before: Sequence[Placement],
    after: Sequence[Placement],
) -> Any:
    """This rank's piece under other placements of a tensor of a global shape."""
    if tuple(before) == tuple(after):
        return piece
    if any(isinstance(new, Partial) and new != old for new, old in zip(after, before, strict=True)):
        hint = "Partial placements come out of operations, or from DTensor.from_local()"
        required = "Shard and Replicate were required (Can not redistribute to Partial)"
        fail(RuntimeError, "redistribute", required, list(after), hint)
    # what was cut last is joined first; what changes is whole in between
    keep = 0
    while keep < mesh.ndim and before[keep] == after[keep]:
        keep += 1
    sizes = _sizes_before(shape, mesh, before)
    for mesh_dim in reversed(range(keep, mesh.ndim)):
        old = before[mesh_dim]
        if isinstance(old, Shard):
            piece = _joined(piece, mesh, mesh_dim, old.dim, sizes[mesh_dim][old.dim])
        elif isinstance(old, Partial) and not isinstance(after[mesh_dim], Partial):
            piece = _reduced(piece, mesh, mesh_dim, old)
    for mesh_dim in range(keep, mesh.ndim):
        new = after[mesh_dim]
        if isinstance(new, Shard):
            piece = split(piece, mesh, mesh_dim, new.dim)
        elif not isinstance(new, (Replicate, Partial)):
            fail(TypeError, "redistribute", "Shard, Replicate or Partial was required",
                 type(new).__name__, "Shard(0) cuts the first dimension")  # fmt: skip
    return piece
