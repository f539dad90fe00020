"""The state of an optimizer out of a checkpoint, cut as the model's is.

Takes: the model's state, and where the checkpoint lies. Gives: the optimizer's state, nested as it was saved.
Keeps true: each rank reads its pieces alone; an entry that belongs to no distributed parameter is read whole.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.checkpoint._traverse import set_element
from facula.distributed.checkpoint.default_planner import DefaultLoadPlanner
from facula.distributed.checkpoint.metadata import BytesStorageMetadata, TensorStorageMetadata
from facula.distributed.checkpoint.planner import LoadPlanner
from facula.distributed.checkpoint.state_dict_loader import _load_state_dict
from facula.distributed.checkpoint.storage import StorageReader
from facula.distributed.tensor.dtensor import DTensor
from facula.distributed.tensor.factories import empty as distributed_empty

__all__ = ["load_sharded_optimizer_state_dict"]


def load_sharded_optimizer_state_dict(
    model_state_dict: dict[str, Any], optimizer_key: str, storage_reader: StorageReader,
    planner: LoadPlanner | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Read the state of an optimizer that was saved beside a model's.

    Entries of a parameter that is a distributed tensor in the model's state become distributed tensors of the
    same layout; others are whole.

    Args:
        model_state_dict: the model's state, as it is on these ranks
        optimizer_key: the entry of the checkpoint that is the optimizer's state
        storage_reader: where the checkpoint is read
        planner: who reads what; default: a `DefaultLoadPlanner`

    Raises:
        ValueError: the checkpoint has no such entry.
    """
    metadata = storage_reader.read_metadata()
    paths = metadata.planner_data or {}
    wanted = {
        name: tuple(paths[name])
        for name in metadata.state_dict_metadata
        if name in paths and tuple(paths[name])[0] == optimizer_key
    }
    if not wanted:
        known = sorted({str(path[0]) for path in paths.values()})
        fail(ValueError, "load_sharded_optimizer_state_dict", "the key of an entry of the checkpoint was required",
             repr(optimizer_key), hint=f"it has {known[:6]}")  # fmt: skip
    flat = {
        name: _place_for(metadata.state_dict_metadata[name], path, model_state_dict)
        for name, path in wanted.items()
    }
    _load_state_dict(flat, storage_reader, planner=planner or DefaultLoadPlanner())
    nested: dict[str, Any] = {}
    for name, path in wanted.items():
        set_element(nested, path, flat[name])
    return nested


def _place_for(md: Any, path: tuple[Any, ...], model: dict[str, Any]) -> Any:
    """What an entry is read into."""
    if isinstance(md, BytesStorageMetadata):
        return "<to be read>"
    assert isinstance(md, TensorStorageMetadata)
    owner = next(
        (model[part] for part in path[1:] if isinstance(part, str) and part in model), None
    )
    if isinstance(owner, DTensor) and tuple(owner.shape) == tuple(md.size):
        mesh, placements = owner.device_mesh, owner.placements
        return distributed_empty(
            tuple(md.size), dtype=md.properties.dtype, device_mesh=mesh, placements=placements
        )
    return core.empty(tuple(md.size), dtype=md.properties.dtype)
