"""`save` and `async_save`.

Takes: a state, whose entries may be distributed, and where it goes. Gives: a checkpoint, and what is in it.
Keeps true: each piece of a tensor is written by one of the ranks that have it; a rank that can not write is named on
every rank, and the checkpoint before stays.
"""

from __future__ import annotations

import inspect
import os
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from facula.core.errors import fail
from facula.distributed import world
from facula.distributed.checkpoint.api import CheckpointException
from facula.distributed.checkpoint.default_planner import DefaultSavePlanner
from facula.distributed.checkpoint.filesystem import FileSystemWriter
from facula.distributed.checkpoint.metadata import Metadata
from facula.distributed.checkpoint.planner import SavePlan, SavePlanner
from facula.distributed.checkpoint.ranks import Ranks
from facula.distributed.checkpoint.staging import (
    AsyncStager,
    BlockingAsyncStager,
)
from facula.distributed.checkpoint.stateful import Stateful
from facula.distributed.checkpoint.storage import StorageWriter

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


def _state_of(state: dict[str, Any]) -> dict[str, Any]:
    """The state, with that of objects that have one."""
    return {k: v.state_dict() if isinstance(v, Stateful) else v for k, v in state.items()}


def _storage(checkpoint_id: Any, writer: StorageWriter | None, op: str) -> StorageWriter:
    if writer is not None:
        writer.reset(checkpoint_id)
        return writer
    if checkpoint_id is None:
        fail(ValueError, f"checkpoint.{op}", "a checkpoint_id or a storage_writer was required", "neither",
             "for example checkpoint_id='checkpoints/step-100'")  # fmt: skip
    return FileSystemWriter(checkpoint_id)


def takes(function: Any, name: str) -> bool:
    """Whether a user's method takes an argument that came later to the protocol."""
    return name in inspect.signature(function).parameters


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write a state, in which tensors may be distributed; all ranks call this. Gives what was written.

    Args:
        state_dict: entries; objects with `state_dict` and `load_state_dict` give theirs
        checkpoint_id: a folder. A checkpoint in it stays until the new one is whole.
        storage_writer: where it is written; default: a `FileSystemWriter` of the folder
        planner: who writes what; default: a `DefaultSavePlanner`
        process_group: the ranks; default: all
        no_dist: whether this process writes alone
        use_collectives: False where each rank writes a checkpoint of its own, of what it has

    Raises:
        CheckpointException: ranks that could not write, by name.

    Example:
        >>> checkpoint = facula.distributed.checkpoint
        >>> _ = checkpoint.save({"x": facula.ones(2), "step": 3}, checkpoint_id="step-3")
        >>> state = {"x": facula.zeros(2), "step": 0}
        >>> checkpoint.load(state, checkpoint_id="step-3")
        >>> state
        {'x': tensor([1., 1.]), 'step': 3}
    """
    writer = _storage(checkpoint_id, storage_writer, "save")
    ranks = Ranks(process_group, no_dist)
    return _saved(_state_of(state_dict), writer, ranks, planner, use_collectives)


def save_state_dict(
    state_dict: dict[str, Any], storage_writer: StorageWriter, process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: SavePlanner | None = None,
) -> Metadata:  # fmt: skip
    """`save` under its older name, of a state whose entries are values.

    Args:
        coordinator_rank: the rank that decides, a number of the group.
    """
    storage_writer.reset()
    ranks = Ranks(process_group, no_dist, coordinator_rank)
    return _saved(state_dict, storage_writer, ranks, planner, True)


def _saved(
    state: dict[str, Any], writer: StorageWriter, ranks: Ranks, planner: SavePlanner | None,
    use_collectives: bool,
) -> Metadata:  # fmt: skip
    """Ask the planner and the storage one after the other."""
    chosen = planner or DefaultSavePlanner()
    if not use_collectives:
        return _saved_alone(state, writer, ranks, chosen)
    held: list[Metadata] = []

    def decide(plans: list[SavePlan]) -> list[SavePlan]:
        plans, metadata = chosen.create_global_plan(plans)
        held.append(metadata)
        return writer.prepare_global_plan(plans)

    def conclude(results: list[Any]) -> Metadata:
        writer.finish(held[0], results)
        return held[0]

    try:
        central = ranks.scattered(
            "save", lambda: _local_plan(state, writer, ranks, chosen, True), decide
        )
        return ranks.concluded("save", lambda: _write(central, writer, chosen), conclude)
    except CheckpointException:  # all ranks know it; else another may publish what lies here
        writer.give_up()
        raise


def _saved_alone(
    state: dict[str, Any], writer: StorageWriter, ranks: Ranks, planner: SavePlanner
) -> Metadata:
    """This rank's own checkpoint, beside those of the others."""
    alone = Ranks(None, True)

    def run() -> Metadata:
        plan = _local_plan(state, writer, ranks, planner, False)
        plans, metadata = planner.create_global_plan([plan])
        results = _write(writer.prepare_global_plan(plans)[0], writer, planner)
        writer.finish(metadata, [results])
        return metadata

    try:
        return alone.together("save", run)[0]
    except BaseException:
        writer.give_up()
        raise


def _local_plan(
    state: dict[str, Any], writer: StorageWriter, ranks: Ranks, planner: SavePlanner, together: bool
) -> SavePlan:
    first = ranks.is_first or not together
    if takes(planner.set_up_planner, "storage_meta"):
        planner.set_up_planner(state, storage_meta=writer.storage_meta(), is_coordinator=first)
    else:
        planner.set_up_planner(state, is_coordinator=first)
    if takes(writer.set_up_storage_writer, "kwargs"):
        writer.set_up_storage_writer(first, rank=ranks.rank, use_collectives=together)
    else:
        writer.set_up_storage_writer(first)
    return writer.prepare_local_plan(planner.create_local_plan())


def _write(plan: SavePlan, writer: StorageWriter, planner: SavePlanner) -> Any:
    written = writer.write_data(planner.finish_plan(plan), planner)
    return value_of(written)


def value_of(future: Any) -> Any:
    """What a storage's future gives: one of `facula.futures`, or of `concurrent.futures`."""
    return future.result() if isinstance(future, Future) else future.wait()


# ------------------------------------------------------------------ while training goes on


class AsyncCheckpointerType(Enum):
    """Where `async_save` writes."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """Futures of the copy, and of the checkpoint."""

    staging_completion: Future[None]
    upload_completion: Future[None]


_GROUPS: dict[int, Any] = {}


def _own_group(process_group: ProcessGroup | None, no_dist: bool) -> Any:
    """A group for a thread's collectives: ranks would be out of step in one that training uses too."""
    if no_dist or not world.is_initialized():
        return None
    source = world.own_group(process_group, "async_save")
    key = id(world.default_group())
    if _GROUPS.get(key, (None,))[0] is not source:
        _GROUPS[key] = source, world.new_group(source.ranks)
    return _GROUPS[key][1]


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: ProcessGroup | None = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: AsyncStager | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Any] | AsyncSaveResponse:
    """`save` of a copy, in a thread: training may go on.

    Args:
        async_checkpointer_type: only `THREAD`.
        async_stager: makes the copy; default: the storage where it does so, else one that copies at once. Where it
            gives a future, so does this of the copy, in an `AsyncSaveResponse`.

    Returns a future, whose `result` is what was written.

    Example:
        >>> checkpoint = facula.distributed.checkpoint
        >>> weights = facula.ones(2)
        >>> future = checkpoint.async_save({"w": weights}, checkpoint_id="while-training")
        >>> _ = weights.zero_()
        >>> sorted(future.result().state_dict_metadata)
        ['w']
    """
    if async_checkpointer_type is not AsyncCheckpointerType.THREAD:
        fail(NotImplementedError, "checkpoint.async_save", "AsyncCheckpointerType.THREAD was required",
             async_checkpointer_type, "a thread writes files without holding up training")  # fmt: skip
    stager = async_stager
    if stager is None:
        stager = (
            storage_writer if isinstance(storage_writer, AsyncStager) else BlockingAsyncStager()
        )
    staged = stager.stage(_state_of(state_dict))
    group = _own_group(process_group, no_dist)
    future: Future[Any] = Future()

    def run() -> None:
        try:
            state = staged.result() if isinstance(staged, Future) else staged
            future.set_result(
                save(state, checkpoint_id=checkpoint_id, storage_writer=storage_writer, planner=planner,
                     process_group=group, no_dist=no_dist, use_collectives=use_collectives)
            )  # fmt: skip
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="facula-checkpoint").start()
    if isinstance(staged, Future):
        copy: Future[None] = Future()
        staged.add_done_callback(lambda done: _passed_on(done, copy))
        return AsyncSaveResponse(copy, future)
    if stager.should_synchronize_after_execute:
        stager.synchronize_staging()
    return future


def _passed_on(done: Future[Any], into: Future[None]) -> None:
    error = done.exception()
    if error is None:
        into.set_result(None)
    else:
        into.set_exception(error)
