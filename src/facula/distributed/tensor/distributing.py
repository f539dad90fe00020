"""Whole tensors and modules become distributed ones.

Takes: a tensor or a module, a mesh and placements. Gives: `distribute_tensor`, `distribute_module`.
Keeps true: one rank's elements count along each dimension of a mesh; where a tensor is cut, each rank gets its piece
only.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.device_mesh import DeviceMesh, _mesh_resources
from facula.distributed.engine import alike
from facula.distributed.tensor.collective_utils import mesh_broadcast, mesh_scatter, unpad_tensor
from facula.distributed.tensor.dtensor import DTensor, _placements
from facula.distributed.tensor.pieces import described
from facula.distributed.tensor.placement_types import Partial, Placement, Shard
from facula.nn import Module, Parameter

__all__ = ["distribute_module", "distribute_tensor"]


def distribute_tensor(
    tensor: Any,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A whole tensor, which all ranks give, distributed.

    Args:
        tensor: a leaf.
        device_mesh: the ranks (None: the mesh of the innermost `with`).
        placements: how it lies along each dimension of the mesh (None: replicated).
        src_data_rank: the rank along each dimension of the mesh whose elements count; None: each
            rank cuts its own, without communication.
    """
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    if not isinstance(tensor, core.Tensor) or not isinstance(mesh, DeviceMesh):
        fail(TypeError, "distribute_tensor", "a tensor and a mesh were required",
             f"{type(tensor).__name__} and {type(mesh).__name__}",
             "init_device_mesh('cpu', (world_size,)) makes a mesh of all ranks")  # fmt: skip
    if not tensor.is_leaf:
        fail(RuntimeError, "distribute_tensor", "a leaf was required (`distribute_tensor` should be used to distribute "
             "leaf tensors! but found non-leaf tensor!)", tensor.grad_fn, "tensor.detach()")  # fmt: skip
    chosen = _placements(placements, mesh, tensor.dim())
    if isinstance(tensor, DTensor):
        return _kept(tensor, mesh, chosen)
    piece = tensor.detach().clone()
    if mesh.get_coordinate() is None:
        piece = piece.new_empty((0,))
    else:
        with alike(described(tuple(tensor.shape), mesh.shape, chosen)):
            for mesh_dim, placement in enumerate(chosen):
                piece = _piece(piece, mesh, mesh_dim, placement, src_data_rank)
    made = DTensor._make(piece, tensor.shape, mesh, chosen)
    made.requires_grad_(tensor.requires_grad)
    return made


def _shard_tensor(
    full_tensor: Any, placements: Sequence[Placement], device_mesh: DeviceMesh | None = None
) -> DTensor:
    """This rank's piece of a whole tensor that is the same on all ranks; nothing is sent.

    Args:
        full_tensor: a leaf.
        placements: how it lies along each dimension of the mesh.
        device_mesh: the ranks (None: the mesh of the innermost `with`).
    """
    return distribute_tensor(full_tensor, device_mesh, placements, src_data_rank=None)


def _kept(tensor: DTensor, mesh: DeviceMesh, placements: tuple[Placement, ...]) -> DTensor:
    """A tensor that is distributed already, as it is asked for."""
    if tensor.device_mesh != mesh:
        fail(ValueError, "distribute_tensor", f"the mesh {tensor.device_mesh} was required (Cannot distribute a "
             "DTensor with device mesh to a different device mesh)", mesh, "full_tensor() first")  # fmt: skip
    if tensor.placements != placements:
        fail(ValueError, "distribute_tensor", f"the placements {tensor.placements} were required (Cannot distribute a "
             "DTensor with placements to a different placements)", placements, "call redistribute()")  # fmt: skip
    return tensor


def _piece(
    tensor: Any, mesh: DeviceMesh, mesh_dim: int, placement: Placement, source: int | None
) -> Any:
    """What this rank has of a tensor that all have along one dimension of the mesh."""
    if not isinstance(placement, Shard):
        if source is not None:
            mesh_broadcast(tensor, mesh, mesh_dim, group_src=source)
        return _part(tensor, mesh.size(mesh_dim), placement)
    count, place = mesh.size(mesh_dim), mesh.get_local_rank(mesh_dim)
    if source is None or tensor.is_meta:
        pieces, _ = placement._split_tensor(tensor, count, with_padding=False)
        return pieces[place].clone()
    pieces, filled = placement._split_tensor(tensor, count)
    made = tensor.new_empty(pieces[0].shape)
    mesh_scatter(made, pieces, mesh, mesh_dim, group_src=source)
    return unpad_tensor(made, placement.dim, filled[place]).contiguous()


def _part(tensor: Any, count: int, placement: Placement) -> Any:
    """A tensor that all have, as what each adds to a reduction."""
    if not isinstance(placement, Partial) or placement.reduce_op in ("avg", "min", "max"):
        return tensor
    if placement.reduce_op != "sum":
        fail(ValueError, "distribute_tensor", "a sum, a mean or an extremum was required (Replicate to "
             f"Partial({placement.reduce_op}) conversion is not supported.)", placement,
             "DTensor.from_local() takes what each rank adds")  # fmt: skip
    return tensor / count


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """A module whose parameters are distributed by a function; those that it leaves are replicated.

    Args:
        module: it is changed in place.
        device_mesh: the ranks (None: the mesh of the innermost `with`).
        partition_fn: ``(name, module, mesh)``, for each module.
        input_fn: ``(module, inputs, mesh)`` gives the inputs that `forward` gets.
        output_fn: ``(module, outputs, mesh)`` gives the result.
    """
    if getattr(module, "_distribute_module_applied", False):
        fail(RuntimeError, "distribute_module", "a module that was not distributed was required (distribute_module "
             "should only be called once on a module)", "one that was", "give all functions in one call")  # fmt: skip
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    for name, inner in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, inner, mesh)
        _replicate(inner, mesh)
    if input_fn is not None:
        prepare = _of_three(input_fn, "input_fn", "inputs", mesh)
        module.register_forward_pre_hook(lambda m, inputs: prepare(m, inputs))
    if output_fn is not None:
        finish = _of_three(output_fn, "output_fn", "outputs", mesh)
        module.register_forward_hook(lambda m, _, outputs: finish(m, outputs))
    module._distribute_module_applied = True
    return module


def _replicate(module: Module, mesh: DeviceMesh) -> None:
    """Distribute what is plain yet of a module itself."""
    for key, value in list(module._parameters.items()):
        if value is not None and not isinstance(value, DTensor):
            made = Parameter(distribute_tensor(value.data, mesh), value.requires_grad)
            module.register_parameter(key, made)
    for key, value in list(module._buffers.items()):
        if value is not None and not isinstance(value, DTensor):
            module._buffers[key] = distribute_tensor(value, mesh)


def _of_three(
    given: Callable[..., Any], name: str, what: str, mesh: DeviceMesh
) -> Callable[..., Any]:
    """A function of a module and values, of one that takes the mesh as well, and maybe no module."""
    count = len(inspect.signature(given).parameters)
    if count == 3:
        return lambda module, values: given(module, values, mesh)
    if count != 2:
        fail(ValueError, "distribute_module", f"a function of 3 arguments was required ({name} should take in 3 "
             f"arguments, but got {count} arguments!)", count, f"{name}(module, {what}, mesh)")  # fmt: skip
    warnings.warn(f"Deprecating {name} that takes two arguments ({what}, device_mesh), please use {name} that takes in "
                  f"(module, {what}, device_mesh) instead!", FutureWarning, stacklevel=3)  # fmt: skip
    return lambda module, values: given(values, mesh)
