"""Checkpoints of `save` as files of `facula.save`, and back.

Takes: a folder or a file. Gives: the other one; readers that need no folder.
Keeps true: one process has all tensors in its memory.
"""

from __future__ import annotations

import os
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed import world
from facula.distributed.checkpoint._nested_dict import flatten_state_dict
from facula.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
)
from facula.distributed.checkpoint.filesystem import (
    FileSystemReader,
    FileSystemWriter,
    done,
    give,
)
from facula.distributed.checkpoint.metadata import (
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from facula.distributed.checkpoint.pieces import chunks_of
from facula.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner
from facula.distributed.checkpoint.state_dict_loader import _load_state_dict
from facula.distributed.checkpoint.state_dict_saver import save_state_dict
from facula.distributed.checkpoint.storage import StorageReader
from facula.distributed.object_operations import broadcast_object_list
from facula.distributed.operations import broadcast
from facula.namespaces.futures import Future
from facula.serialization import load as load_file
from facula.serialization import save as save_file

__all__ = [
    "BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp",
]  # fmt: skip


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Write a checkpoint's state with `facula.save`.

    Args:
        dcp_checkpoint_dir: the folder that is read
        torch_save_path: the file that is written
    """
    state: dict[str, Any] = {}
    reader = FileSystemReader(dcp_checkpoint_dir)
    _load_state_dict(state, reader, planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    save_file(state, torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Write what `facula.save` wrote as a checkpoint.

    Args:
        torch_save_path: the file that is read
        dcp_checkpoint_dir: the folder that is written
    """
    save_state_dict(load_file(torch_save_path), FileSystemWriter(dcp_checkpoint_dir), no_dist=True)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Reads all tensors of a state, where the file does not say what is in it."""

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Describe the checkpoint from the state that is to be filled."""
        super().set_up_planner(state_dict, metadata, is_coordinator)
        found: dict[str, Any] = {}
        for name, value in self.state_dict.items():
            if not isinstance(value, core.Tensor):
                fail(RuntimeError, "checkpoint.load", f"a tensor was required for {name} (Non-tensor value "
                     "identified)", type(value).__name__, "load tensors alone in this way")  # fmt: skip
            found[name] = TensorStorageMetadata(
                TensorProperties(value.dtype), core.Size(value.shape), chunks_of(value)
            )
        self.metadata = Metadata(found)


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of `facula.save` on one rank, which sends tensor by tensor; with `DynamicMetaLoadPlanner`.

    Args:
        checkpoint_id: the file
        coordinator_rank: the rank that reads it
    """

    def __init__(
        self, checkpoint_id: str | os.PathLike[str] | None = None, coordinator_rank: int = 0
    ) -> None:
        self.checkpoint_id, self.coordinator_rank = checkpoint_id, coordinator_rank
        self.is_coordinator = False

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Another file is about to be read."""
        self.checkpoint_id = checkpoint_id or self.checkpoint_id

    def read_metadata(self, *args: object, **kwargs: object) -> Metadata:
        """Nothing: the planner describes the file."""
        return Metadata({})

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: object, **kwargs: object
    ) -> None:
        """Hear whether this rank reads."""
        self.is_coordinator = is_coordinator
        if self.checkpoint_id is None:
            fail(ValueError, "checkpoint.load", "a file was required (checkpoint_id must be set)", "none",
                 "pass checkpoint_id='model.pt'")  # fmt: skip

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Send tensor by tensor; each rank takes its part."""
        assert self.checkpoint_id is not None
        by_name: dict[str, list[Any]] = {}
        for item in plan.items:
            if item.type is LoadItemType.BYTE_IO:
                fail(RuntimeError, "checkpoint.load", "tensors were required (Non-tensor value identified)",
                     item.storage_index.fqn, "load tensors alone in this way")  # fmt: skip
            by_name.setdefault(item.storage_index.fqn, []).append(item)
        tensors: dict[str, Any] = {}
        if self.is_coordinator:
            tensors, _ = flatten_state_dict(load_file(self.checkpoint_id, map_location="cpu"))
        alone = not world.is_initialized()
        for name in by_name if alone else self._all_names(by_name, tensors):
            whole = tensors.get(name) if alone else self._sent(tensors.get(name))
            for item in by_name.get(name, ()):
                give(item, whole, planner)
        return done(None)

    def _all_names(self, by_name: dict[str, Any], tensors: dict[str, Any]) -> list[str]:
        """The tensors that are sent: what the file has, in its order."""
        held: list[Any] = [[n for n, v in tensors.items() if isinstance(v, core.Tensor)]]
        broadcast_object_list(held, src=self.coordinator_rank)
        missing = sorted(set(by_name) - set(held[0]))
        if missing:
            fail(RuntimeError, "checkpoint.load", f"entries {missing[:3]} were required (Missing key)",
                 f"{len(held[0])} others", "load a state with the keys that were saved")  # fmt: skip
        return held[0]

    def _sent(self, tensor: Any) -> Any:
        described: list[Any] = [None if tensor is None else (tuple(tensor.shape), tensor.dtype)]
        broadcast_object_list(described, src=self.coordinator_rank)
        shape, dtype = described[0]
        whole = core.empty(shape, dtype=dtype) if tensor is None else tensor.contiguous()
        broadcast(whole, src=self.coordinator_rank)
        return whole

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a file."""
        return os.path.isfile(checkpoint_id)
