"""`load`.

Takes: a state that is to be filled, and where a checkpoint lies. Gives: the state, filled in place.
Keeps true: what was saved on some ranks is loaded on any others; a rank that can not read is named on every rank.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import core
from facula.core.errors import fail
from facula.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
)
from facula.distributed.checkpoint.filesystem import FileSystemReader
from facula.distributed.checkpoint.metadata import Metadata
from facula.distributed.checkpoint.planner import LoadPlan, LoadPlanner
from facula.distributed.checkpoint.ranks import Ranks
from facula.distributed.checkpoint.state_dict_saver import takes, value_of
from facula.distributed.checkpoint.stateful import Stateful
from facula.distributed.checkpoint.storage import StorageReader

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
) -> None:
    """Read a checkpoint into a state, in place: tensors are written, other values exchanged.

    Args:
        state_dict: entries; objects with `state_dict` and `load_state_dict` get theirs
        checkpoint_id: the folder. It may have been written by another number of ranks, on another mesh.
        storage_reader: where it is read; default: a `FileSystemReader` of the folder
        planner: who reads what; default: a `DefaultLoadPlanner`
        process_group: the ranks; default: all
        no_dist: whether this process reads alone

    Raises:
        CheckpointException: ranks that could not read, by name.

    Example:
        >>> checkpoint = facula.distributed.checkpoint
        >>> _ = checkpoint.save({"x": facula.ones(2)}, checkpoint_id="saved")
        >>> state = {"x": facula.zeros(2)}
        >>> checkpoint.load(state, checkpoint_id="saved")
        >>> state["x"]
        tensor([1., 1.])
    """
    state = {k: v.state_dict() if isinstance(v, Stateful) else v for k, v in state_dict.items()}
    reader = _storage(checkpoint_id, storage_reader)
    _load(state, reader, Ranks(process_group, no_dist), planner or DefaultLoadPlanner())
    for key, value in state_dict.items():
        if isinstance(value, Stateful):
            value.load_state_dict(state[key])
        else:
            state_dict[key] = state[key]


def load_state_dict(
    state_dict: dict[str, Any], storage_reader: StorageReader, process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: LoadPlanner | None = None,
) -> None:  # fmt: skip
    """`load` under its older name, into a state whose entries are values.

    Args:
        coordinator_rank: the rank that decides, a number of the group.
    """
    storage_reader.reset()
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


def _load_state_dict(
    state_dict: dict[str, Any], storage_reader: StorageReader, process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: LoadPlanner | None = None,
) -> None:  # fmt: skip
    """The same for a reader that stands at its checkpoint already."""
    ranks = Ranks(process_group, no_dist, coordinator_rank)
    _load(state_dict, storage_reader, ranks, planner or DefaultLoadPlanner())


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None, *, checkpoint_id: Any = None,
    storage_reader: StorageReader | None = None, process_group: ProcessGroup | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A state of its own with the entries of some names, or with all."""
    wanted = {keys} if isinstance(keys, str) else keys
    state: dict[str, Any] = {}
    reader = _storage(checkpoint_id, storage_reader)
    planner = _EmptyStateDictLoadPlanner(keys=wanted)
    _load(state, reader, Ranks(process_group, process_group is None), planner)
    return state


def _storage(checkpoint_id: Any, reader: StorageReader | None) -> StorageReader:
    if reader is not None:
        reader.reset(checkpoint_id)
        return reader
    if checkpoint_id is None:
        fail(ValueError, "checkpoint.load", "a checkpoint_id or a storage_reader was required", "neither",
             "for example checkpoint_id='checkpoints/step-100'")  # fmt: skip
    return FileSystemReader(checkpoint_id)


def _load(state: dict[str, Any], reader: StorageReader, ranks: Ranks, planner: LoadPlanner) -> None:
    """Ask the planner and the storage one after the other."""

    def local() -> LoadPlan:
        metadata, together = _contents(reader, ranks)
        planner.set_up_planner(state, metadata, ranks.is_first)
        if takes(reader.set_up_storage_reader, "kwargs"):
            reader.set_up_storage_reader(
                metadata, ranks.is_first, rank=ranks.rank, use_collectives=together
            )
        else:
            reader.set_up_storage_reader(metadata, ranks.is_first)
        return reader.prepare_local_plan(planner.create_local_plan())

    def decide(plans: list[LoadPlan]) -> list[LoadPlan]:
        return reader.prepare_global_plan(planner.create_global_plan(plans))

    def read(plan: LoadPlan) -> None:
        recording = core.set_grad_enabled(False)
        try:
            value_of(reader.read_data(planner.finish_plan(plan), planner))
        finally:
            core.set_grad_enabled(recording)

    central = ranks.scattered("load", _explained(local), decide)
    ranks.together("load", _explained(lambda: read(central)))


def _contents(reader: StorageReader, ranks: Ranks) -> tuple[Metadata, bool]:
    """The table of contents that all ranks wrote together, else what this rank wrote alone."""
    try:
        return reader.read_metadata(), True
    except RuntimeError:
        if not takes(reader.read_metadata, "kwargs"):
            raise
        try:
            return reader.read_metadata(rank=ranks.rank), False
        except RuntimeError:
            pass
        raise


def _explained(run: Callable[[], Any]) -> Callable[[], Any]:
    """A function whose errors of damaged files say so."""

    def explained() -> Any:
        try:
            return run()
        except (
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            if str(error).startswith("["):
                raise
            fail(RuntimeError, "checkpoint.load", "a whole checkpoint was required",
                 f"{type(error).__name__}: {error}", "it was changed, or a planner or a storage of your own "
                 "raised this: load another one")  # fmt: skip

    return explained
