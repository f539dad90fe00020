"""Who writes and reads what: the protocol of planners.

Takes: a state on each rank. Gives: `SavePlanner` and `LoadPlanner`, which users derive from, and what plans consist of.
Keeps true: plans are data alone. `save` calls `set_up_planner` and `create_local_plan` on all ranks,
`create_global_plan` on the first one, `finish_plan` on all, then `resolve_data` for each item; `load` the same, then
`load_bytes`, or `resolve_tensor` and `commit_tensor`.
"""

from __future__ import annotations

import abc
import io
import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from facula import core
from facula.core.errors import fail
from facula.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
)

__all__ = [
    "BytesIOWriteData", "LoadItemType", "LoadPlan", "LoadPlanner", "ReadItem", "SavePlan", "SavePlanner",
    "TensorWriteData", "WriteItem", "WriteItemType",
]  # fmt: skip


class WriteItemType(Enum):
    """A whole tensor, a piece of one, or bytes."""

    TENSOR = 1
    SHARD = 2
    BYTE_IO = 3


class LoadItemType(Enum):
    """A part of a tensor, or bytes."""

    TENSOR = 1
    BYTE_IO = 2


@dataclass(frozen=True)
class BytesIOWriteData:
    """How many bytes are written."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """Which piece of a tensor of which shape is written."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Any


@dataclass(frozen=True)
class WriteItem:
    """One thing that a rank writes."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """Bytes of the whole tensor; None where it is none."""
        if self.tensor_data is None:
            return None
        return math.prod(self.tensor_data.size) * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """One thing that a rank reads: a part of a piece in the checkpoint, into a part of a piece in the state."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Any
    storage_index: MetadataIndex
    storage_offsets: Any
    lengths: Any


@dataclass(frozen=True)
class SavePlan:
    """What a rank writes.

    usable: False where the plan before is still the right one.
    """

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What a rank reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Decides what is written; users derive from it, or from `DefaultSavePlanner`.

    Example:
        >>> class Halves(facula.distributed.checkpoint.DefaultSavePlanner):
        ...     def resolve_data(self, write_item):
        ...         found = super().resolve_data(write_item)
        ...         return found if write_item.tensor_data is None else found * 0.5
        >>> checkpoint = facula.distributed.checkpoint
        >>> _ = checkpoint.save({"x": facula.ones(2)}, checkpoint_id="halves", planner=Halves())
        >>> state = {"x": facula.zeros(2)}
        >>> checkpoint.load(state, checkpoint_id="halves")
        >>> state["x"]
        tensor([0.5000, 0.5000])
    """

    #: plans of planners that keep them, by the name of the planner
    _cached_save_plan: ClassVar[dict[str, SavePlan]] = {}
    _cached_final_save_plan: ClassVar[dict[str, SavePlan]] = {}
    _cached_all_plans: ClassVar[dict[str, list[SavePlan]]] = {}
    _cached_global_plan: ClassVar[dict[str, list[SavePlan]]] = {}
    _cached_metadata: ClassVar[dict[str, Metadata]] = {}

    @abc.abstractmethod
    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """A checkpoint begins; called on all ranks."""

    @abc.abstractmethod
    def create_local_plan(self) -> SavePlan:
        """What this rank would write."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """What each rank is to write, and what the checkpoint holds; called on the first rank."""

    @abc.abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """This rank's part of the global plan came; gives what is written."""

    @abc.abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Any:
        """The tensor, or the `io.BytesIO`, that is written for an item; perhaps in several threads."""


class LoadPlanner(abc.ABC):
    """Decides what is read, and where it goes; users derive from it, or from `DefaultLoadPlanner`."""

    @abc.abstractmethod
    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """A checkpoint is about to be read; called on all ranks."""

    @abc.abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """What this rank reads."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """What each rank is to read; called on the first rank."""

    @abc.abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """This rank's part of the global plan came; gives what is read."""

    @abc.abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Bytes came."""

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Where bytes are written to."""
        return fail(NotImplementedError, "LoadPlanner", "a planner with resolve_bytes was required",
                    type(self).__name__, "storages call load_bytes")  # fmt: skip

    @abc.abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Any:
        """The tensor that an item is written to; `commit_tensor` gets it."""

    @abc.abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: core.Tensor) -> None:
        """The tensor that `resolve_tensor` gave was written to."""
