"""What a module keeps for its backward pass, cut over ranks that all have the same.

Takes: a module whose inputs are replicated, a mesh, a dimension. Gives: the module.
Keeps true: results and gradients are as before; what is kept takes a part of the memory on each rank, and is
gathered when it is needed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from facula import nn
from facula.autograd.graph import saved_tensors_hooks
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.tensor.dtensor import DTensor
from facula.distributed.tensor.placement_types import Replicate, Shard

__all__ = ["input_reshard"]


def input_reshard(
    module: nn.Module, tp_device_mesh: DeviceMesh, input_reshard_dim: int | None = None
) -> nn.Module:
    """Have a module keep pieces of the tensors that its backward pass needs.

    Args:
        module: its inputs are the same on all ranks of the mesh
        tp_device_mesh: of one dimension
        input_reshard_dim: the dimension along which tensors are cut; None: they are kept whole
    """
    if input_reshard_dim is None:
        return module
    open_ones: list[Any] = []

    def begin(inner: nn.Module, inputs: Any) -> None:
        hooks = saved_tensors_hooks(
            partial(_pack_hook_tp, tp_device_mesh, input_reshard_dim),
            partial(_unpack_hook_tp, tp_device_mesh, input_reshard_dim),
        )
        hooks.__enter__()
        open_ones.append(hooks)

    def end(inner: nn.Module, inputs: Any, result: Any) -> None:
        open_ones.pop().__exit__(None, None, None)

    module.register_forward_pre_hook(begin)
    # also after an error: what the block chose is taken back
    module.register_forward_hook(end, always_call=True)
    return module


def _pack_hook_tp(mesh: DeviceMesh, input_reshard_dim: int, x: Any) -> Any:
    """A tensor that all ranks have, as a piece of it; others, and parameters, as they are."""
    if isinstance(x, DTensor):
        whole = all(placement.is_replicate() for placement in x.placements)
        return x.redistribute(mesh, [Shard(input_reshard_dim)]) if whole else x
    if isinstance(x, nn.Parameter) or x.dim() <= input_reshard_dim or x.numel() == 0:
        return x
    cut = DTensor.from_local(x.detach(), mesh, [Replicate()], run_check=False)
    return _Kept(cut.redistribute(mesh, [Shard(input_reshard_dim)]))


def _unpack_hook_tp(mesh: DeviceMesh, input_reshard_dim: int, x: Any) -> Any:
    """The whole tensor again."""
    if isinstance(x, _Kept):
        return x.piece.redistribute(mesh, [Replicate()]).to_local()
    if isinstance(x, DTensor) and tuple(x.placements) == (Shard(input_reshard_dim),):
        return x.redistribute(mesh, [Replicate()])
    return x


class _Kept:
    """The piece of a plain tensor."""

    def __init__(self, piece: DTensor) -> None:
        self.piece = piece
