"""Where checkpoints lie: the protocol of storages.

Takes: plans. Gives: `StorageWriter` and `StorageReader`, which users derive from.
Keeps true: a method is called on all ranks, or on the first one, as it says.
"""

from __future__ import annotations

import abc
import os
from dataclasses import dataclass
from typing import Any

from facula.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from facula.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


@dataclass(frozen=True)
class WriteResult:
    """What was written: which entry, how many bytes, and what the reader needs to find it."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Writes what planners decide; users derive from it, or from `FileSystemWriter`."""

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A new checkpoint begins, at another place where one is named."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: object, **kwargs: object) -> None:
        """Called on all ranks, with `rank` and `use_collectives` where it takes them."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """This rank's plan, which may be given storage data; called on all ranks."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """All ranks' plans; called on the first rank."""

    @abc.abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        """Write a plan's items, each as `planner.resolve_data` gives it; gives a future of `WriteResult`s."""

    @abc.abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """All ranks have written: make it the checkpoint; called on the first rank."""

    def give_up(self) -> None:
        """Some rank could not write: take back what this one wrote; called on all ranks."""
        return

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether a checkpoint of this name can lie here."""

    def storage_meta(self) -> StorageMeta | None:
        """Which checkpoint this is."""
        return None


class StorageReader(abc.ABC):
    """Reads what planners decide; users derive from it, or from `FileSystemReader`."""

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Another checkpoint is about to be read."""

    @abc.abstractmethod
    def read_metadata(self, *args: object, **kwargs: object) -> Metadata:
        """What the checkpoint holds."""

    @abc.abstractmethod
    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: object, **kwargs: object
    ) -> None:
        """Called on all ranks."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """This rank's plan; called on all ranks."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """All ranks' plans; called on the first rank."""

    @abc.abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Any:
        """Read a plan's items: bytes go to `planner.load_bytes`, elements into what `planner.resolve_tensor`
        gives, and `planner.commit_tensor` hears of it; gives a future."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether a checkpoint of this name can lie here."""
