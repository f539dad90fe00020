"""What of a state this rank writes, and what it reads.

Takes: a state (nested dictionaries and lists). Gives: its entries by name, and of a tensor the pieces that this
rank has: where each begins, and the tensor.
Keeps true: a name is that of the path, joined by dots; pieces are views of what the tensor holds, so that what is
written to them is written to the tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

from facula import core
from facula.distributed.tensor._utils import compute_local_shape_and_global_offset
from facula.distributed.tensor.dtensor import DTensor
from facula.distributed.tensor.placement_types import Partial, Replicate, Shard, _StridedShard

__all__ = ["entries", "pieces_of", "put"]

Path = tuple[Any, ...]


def entries(state: Any, path: Path = ()) -> Iterator[tuple[str, Path, Any]]:
    """The entries of a nested state: name, path, value."""
    if isinstance(state, MutableMapping) and (state or not path):
        for key, value in state.items():
            yield from entries(value, (*path, key))
    elif isinstance(state, list) and any(_holds_tensors(v) for v in state):
        for i, value in enumerate(state):
            yield from entries(value, (*path, i))
    else:
        yield ".".join(map(str, path)), path, state


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, core.Tensor):
        return True
    many = value.values() if isinstance(value, MutableMapping) else value
    return isinstance(value, (MutableMapping, list)) and any(_holds_tensors(v) for v in many)


def put(state: Any, path: Path, value: Any) -> None:
    """Exchange the entry at a path."""
    for key in path[:-1]:
        state = state[key]
    state[path[-1]] = value


def pieces_of(value: Any) -> tuple[tuple[int, ...], list[tuple[tuple[int, ...], Any]]]:
    """The whole shape of a tensor, and the pieces that this rank has, with where they begin."""
    if not isinstance(value, DTensor):
        return tuple(value.shape), [((0,) * value.dim(), value.detach())]
    if any(isinstance(p, Partial) for p in value.placements):
        whole = [p if isinstance(p, Shard) else Replicate() for p in value.placements]
        value = value.redistribute(placements=whole)
    shape, offset = _place(value)
    local = value._local_tensor.detach()
    assert tuple(local.shape) == tuple(shape), (local.shape, shape)
    return tuple(value.shape), [(tuple(offset), local)]


def _place(value: DTensor) -> tuple[Sequence[int], Sequence[int]]:
    """Shape and beginning of this rank's piece, whatever cut first."""
    mesh, placements = value.device_mesh, value.placements
    if not any(isinstance(p, _StridedShard) for p in placements):
        return compute_local_shape_and_global_offset(value.shape, mesh, placements)
    place = mesh.get_coordinate() or [0] * mesh.ndim
    order = [d for d, p in enumerate(placements) if not isinstance(p, _StridedShard)]
    order += [d for d, p in enumerate(placements) if isinstance(p, _StridedShard)]
    shape, offset = list(value.shape), [0] * value.dim()
    for mesh_dim in order:
        placement = placements[mesh_dim]
        if isinstance(placement, Shard):
            size, start = Shard.local_shard_size_and_offset(
                shape[placement.dim], mesh.size(mesh_dim), place[mesh_dim]
            )
            shape[placement.dim], offset[placement.dim] = size, offset[placement.dim] + start
    return shape, offset
