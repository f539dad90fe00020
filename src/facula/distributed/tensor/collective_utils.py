"""Collectives along a dimension of a mesh.

Takes: tensors, a mesh, and one of its dimensions. Gives: what `distributed` gives for the group there, and what it
costs to bring a tensor under other placements.
Keeps true: a mesh dimension's first rank is the source unless another is named; tensors without elements are not sent.
"""

from __future__ import annotations

import math
from typing import Any

from facula.distributed import operations
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.tensor.pieces import moved
from facula.distributed.tensor.placement_types import Shard, padded
from facula.distributed.tensor.rules import change_cost
from facula.distributed.tensor.specs import DTensorSpec

__all__ = [
    "mesh_broadcast",
    "mesh_scatter",
    "pad_tensor",
    "redistribute_cost",
    "shard_dim_alltoall",
    "spec_to_bytes",
    "unpad_tensor",
]


def mesh_scatter(
    output: Any, scatter_list: list[Any], mesh: DeviceMesh, mesh_dim: int = 0, async_op: bool = False, *,
    group_src: int = 0,
) -> Any:  # fmt: skip
    """Give each rank along a dimension of a mesh its tensor of a list.

    Args:
        output: where this rank's is put.
        scatter_list: the tensors; only the source's count.
        mesh: the ranks.
        mesh_dim: the dimension.
        async_op: return a work instead of waiting.
        group_src: whose list it is, as a number along the dimension.
    """
    if output.is_meta:
        return None
    group = mesh.get_group(mesh_dim)
    given = scatter_list if group.rank() == group_src else None
    return operations.scatter(output, given, group=group, async_op=async_op, group_src=group_src)


def mesh_broadcast(
    tensor: Any, mesh: DeviceMesh, mesh_dim: int = 0, async_op: bool = False, *, group_src: int = 0
) -> Any:  # fmt: skip
    """Put one rank's tensor into those of all along a dimension of a mesh.

    Args:
        tensor: what is sent, or where it is put.
        mesh: the ranks.
        mesh_dim: the dimension.
        async_op: return a work instead of waiting.
        group_src: whose tensor it is, as a number along the dimension.
    """
    if tensor.is_meta:
        return None
    group = mesh.get_group(mesh_dim)
    return operations.broadcast(tensor, group=group, async_op=async_op, group_src=group_src)


def shard_dim_alltoall(
    input: Any, gather_dim: int, shard_dim: int, mesh: DeviceMesh, mesh_dim: int
) -> Any:
    """Have a tensor that is cut along one dimension cut along another.

    Args:
        input: this rank's piece.
        gather_dim: the dimension that is whole afterwards.
        shard_dim: the dimension that is cut afterwards.
        mesh: the ranks.
        mesh_dim: the dimension of the mesh that cuts.
    """
    line = DeviceMesh.from_group(mesh.get_group(mesh_dim), mesh.device_type)
    shape = list(input.shape)
    shape[gather_dim] *= line.size()
    return moved(input, shape, line, [Shard(gather_dim)], [Shard(shard_dim)])


def pad_tensor(tensor: Any, pad_dim: int, pad_size: int) -> Any:
    """A tensor with so many zeros behind it along a dimension.

    Args:
        tensor: the tensor.
        pad_dim: the dimension.
        pad_size: how many.
    """
    return padded(tensor, pad_dim, pad_size)


def unpad_tensor(tensor: Any, pad_dim: int, pad_size: int) -> Any:
    """A tensor without so many elements at the end of a dimension.

    Args:
        tensor: the tensor.
        pad_dim: the dimension.
        pad_size: how many.
    """
    return tensor.narrow(pad_dim, 0, tensor.shape[pad_dim] - pad_size) if pad_size else tensor


def spec_to_bytes(spec: DTensorSpec) -> int:
    """How many bytes the whole tensor has.

    Args:
        spec: the tensor.
    """
    known = spec._known()
    return known.dtype.itemsize * math.prod(spec.shape)


def redistribute_cost(current_spec: DTensorSpec, target_spec: DTensorSpec) -> float:
    """The bytes that a rank sends to bring a tensor under other placements, by which rules choose; infinity where it
    can not be done.

    Args:
        current_spec: how it lies.
        target_spec: how it is to lie.
    """
    if current_spec.mesh != target_spec.mesh:
        return math.inf
    size, total = float(spec_to_bytes(current_spec)), 0.0
    for mesh_dim, placement in enumerate(current_spec.placements):
        if placement.is_shard():
            size /= current_spec.mesh.size(mesh_dim)
    pairs = zip(current_spec.placements, target_spec.placements, strict=True)
    for mesh_dim, (before, after) in enumerate(pairs):
        count = current_spec.mesh.size(mesh_dim)
        if before.is_shard() and not after.is_shard():
            size *= count
        total += change_cost(before, after, size, count)
        if after.is_shard() and not before.is_shard():
            size /= count
    return total
