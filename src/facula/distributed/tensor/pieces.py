"""Moving the pieces of a distributed tensor from one placement to another.

Takes: this rank's piece, a mesh, and placements before and after. Gives: this rank's new piece.
Keeps true: all ranks of the mesh call it with the same placements, and are told where they do not; pieces are exchanged
only where a rank needs what it does not hold.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed import operations
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.engine import alike
from facula.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
    _StridedShard,
)
from facula.distributed.traffic import functional
from facula.distributed.types import ReduceOp
from facula.ops.table.registry import F

__all__ = ["described", "moved", "split"]


@functools.lru_cache(maxsize=512)
def described(
    shape: tuple[int, ...], mesh: tuple[int, ...], *placements: tuple[Placement, ...]
) -> str:
    """What all ranks of a mesh must say of a tensor alike: pieces of other placements may be of the same size.

    Args:
        shape: of the whole tensor.
        mesh: the mesh's.
        placements: how it lies; before and after, where that changes.
    """
    return f"of a DTensor {shape} on a mesh {mesh}, {' to '.join(map(str, placements))}"


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
    parts = [core.empty(tuple(shape), dtype=piece.dtype, device=piece.device) for _ in range(count)]
    operations.all_gather(parts, padded, mesh.get_group(mesh_dim))
    return F.cat(parts, dim).narrow(dim, 0, total).contiguous()


def _reduced(piece: Any, mesh: DeviceMesh, mesh_dim: int, placement: Partial) -> Any:
    if placement.reduce_op.startswith("norm"):
        order = float(placement.reduce_op.removeprefix("norm"))
        total = piece.detach().abs() ** order
        operations.all_reduce(total, ReduceOp.SUM, mesh.get_group(mesh_dim))
        return total ** (1.0 / order)
    total = piece.detach().clone()
    operations.all_reduce(
        total, getattr(ReduceOp, placement.reduce_op.upper()), mesh.get_group(mesh_dim)
    )
    return total


def _order(placements: Sequence[Placement]) -> list[int]:
    """The dimensions of the mesh in the order in which they cut."""
    strided = [d for d, p in enumerate(placements) if isinstance(p, _StridedShard)]
    return [d for d in range(len(placements)) if d not in strided] + strided


def _sizes_before(
    shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> dict[int, list[int]]:
    """The shape that is cut along each dimension of the mesh, by this rank's place in those before."""
    place = mesh.get_coordinate() or [0] * mesh.ndim
    current, found = list(shape), {}
    for mesh_dim in _order(placements):
        placement = placements[mesh_dim]
        found[mesh_dim] = list(current)
        if isinstance(placement, Shard):
            current[placement.dim] = Shard.local_shard_size_and_offset(
                current[placement.dim], mesh.size(mesh_dim), place[mesh_dim]
            )[0]
    return found


def _scattered(piece: Any, mesh: DeviceMesh, mesh_dim: int, placement: Partial, dim: int) -> Any:
    """This rank's part of the reduction: each rank gets its own only."""
    count, total = mesh.size(mesh_dim), piece.shape[dim]
    full = -(-total // count)
    parts = []
    for rank in range(count):
        size, start = Shard.local_shard_size_and_offset(total, count, rank)
        part = piece.narrow(dim, start, size)
        if size < full:
            shape = [*piece.shape]
            shape[dim] = full
            padded = piece.new_zeros(shape)
            padded.narrow(dim, 0, size).copy_(part)
            part = padded
        parts.append(part.contiguous())
    made = core.empty(tuple(parts[0].shape), dtype=piece.dtype, device=piece.device)
    kind = getattr(ReduceOp, placement.reduce_op.upper())
    operations.reduce_scatter(made, parts, kind, mesh.get_group(mesh_dim))
    size, _ = Shard.local_shard_size_and_offset(total, count, mesh.get_local_rank(mesh_dim))
    return made.narrow(dim, 0, size).contiguous()


def _exchanged(
    piece: Any, mesh: DeviceMesh, mesh_dim: int, before: int, after: int, total: int
) -> Any:
    """Pieces along one dimension become pieces along another: each rank sends each other one its part."""
    count, me = mesh.size(mesh_dim), mesh.get_local_rank(mesh_dim)
    sent, came = [], []
    mine, _ = Shard.local_shard_size_and_offset(piece.shape[after], count, me)
    for rank in range(count):
        size, start = Shard.local_shard_size_and_offset(piece.shape[after], count, rank)
        sent.append(piece.narrow(after, start, size).contiguous())
        shape = [*piece.shape]
        shape[after] = mine
        shape[before], _ = Shard.local_shard_size_and_offset(total, count, rank)
        came.append(core.empty(tuple(shape), dtype=piece.dtype, device=piece.device))
    operations.all_to_all(came, sent, mesh.get_group(mesh_dim))
    return F.cat(came, before)


def _short(
    piece: Any, shape: Sequence[int], mesh: DeviceMesh, before: Sequence[Placement],
    after: Sequence[Placement],
) -> Any:  # fmt: skip
    """The new piece where one collective does it; None otherwise."""
    changed = [d for d in range(mesh.ndim) if before[d] != after[d]]
    if len(changed) != 1:
        return None
    (mesh_dim,) = changed
    old, new = before[mesh_dim], after[mesh_dim]
    touched = {p.dim for p in (old, new) if isinstance(p, Shard)}
    if type(new) is not Shard or any(
        isinstance(p, Shard) and p.dim in touched for d, p in enumerate(before) if d != mesh_dim
    ):
        return None
    if isinstance(old, Partial) and not old.reduce_op.startswith("norm"):
        return _scattered(piece, mesh, mesh_dim, old, new.dim)
    if type(old) is Shard:
        return _exchanged(piece, mesh, mesh_dim, old.dim, new.dim, shape[old.dim])
    return None


def _first_only(piece: Any, mesh: DeviceMesh, mesh_dim: int) -> Any:
    """A tensor that all ranks have, as parts of a sum: one rank's counts."""
    return piece if mesh.get_local_rank(mesh_dim) == 0 else piece.new_zeros(piece.shape)


@functional()
def moved(
    piece: Any,
    shape: Sequence[int],
    mesh: DeviceMesh,
    before: Sequence[Placement],
    after: Sequence[Placement],
    *,
    into_sums: bool = False,
) -> Any:
    """This rank's piece under other placements of a tensor of a global shape.

    Args:
        into_sums: whether what is replicated may become parts of a sum.
    """
    if tuple(before) == tuple(after) or mesh.get_coordinate() is None:
        return piece  # a rank that is in no mesh has none of the elements
    _check_wanted(before, after, into_sums)
    with alike(described(tuple(shape), mesh.shape, tuple(before), tuple(after))):
        quick = _short(piece, shape, mesh, before, after)
        return _through_whole(piece, shape, mesh, before, after) if quick is None else quick


def _through_whole(
    piece: Any, shape: Sequence[int], mesh: DeviceMesh, before: Sequence[Placement],
    after: Sequence[Placement],
) -> Any:  # fmt: skip
    """The new piece: what changes is joined along each dimension of the mesh, and cut again."""
    # what was cut last is joined first; what changes is whole in between
    cut, cuts, keep = _order(before), _order(after), 0
    while keep < mesh.ndim and cut[keep] == cuts[keep] and before[cut[keep]] == after[cut[keep]]:
        keep += 1
    sizes = _sizes_before(shape, mesh, before)
    for mesh_dim in reversed(cut[keep:]):
        old = before[mesh_dim]
        if isinstance(old, Shard):
            piece = _joined(piece, mesh, mesh_dim, old.dim, sizes[mesh_dim][old.dim])
        elif isinstance(old, Partial) and old != after[mesh_dim]:
            piece = _reduced(piece, mesh, mesh_dim, old)
    for mesh_dim in cuts[keep:]:
        new = after[mesh_dim]
        if isinstance(new, Shard):
            piece = split(piece, mesh, mesh_dim, new.dim)
        elif isinstance(new, Partial) and new != before[mesh_dim]:
            piece = _first_only(piece, mesh, mesh_dim)
    return piece


def _check_wanted(before: Sequence[Placement], after: Sequence[Placement], into_sums: bool) -> None:
    for old, new in zip(before, after, strict=True):
        if not isinstance(new, (Shard, Replicate, Partial)):
            fail(TypeError, "redistribute", "Shard, Replicate or Partial was required",
                 type(new).__name__, "Shard(0) cuts the first dimension")  # fmt: skip
        if (
            isinstance(new, Partial)
            and new != old
            and not (into_sums and isinstance(old, Replicate) and new.reduce_op == "sum")
        ):
            hint = "Partial placements come out of operations, or from DTensor.from_local()"
            required = "Shard and Replicate were required (Can not redistribute to Partial)"
            fail(RuntimeError, "redistribute", required, list(after), hint)
