"""Values that ranks exchange, with a guard: who failed is known on all, and ranks that are at different places notice.

Takes: a value, or a function that makes it. Gives: `broadcast`, `all_gather`, `all_gather_object_enforce_type`.
Keeps true: a failure on one rank is an error on all of the group; without a group this process is alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from facula.core.errors import fail
from facula.distributed.object_operations import all_gather_object, broadcast_object_list

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup

T = TypeVar("T")

__all__ = ["SyncPayload", "all_gather", "all_gather_object_enforce_type", "broadcast"]


@dataclass
class SyncPayload(Generic[T]):
    """What a rank tells: at which stage it is, and its value or why it has none."""

    stage_name: str | None
    success: bool
    payload: T | None
    exception: Exception | None = None


def _made(data_or_fn: Any, stage: str | None) -> SyncPayload[Any]:
    """A value, or what came of the function that was to make it."""
    if not callable(data_or_fn):
        return SyncPayload(stage, True, data_or_fn)
    try:
        return SyncPayload(stage, True, data_or_fn())
    except Exception as error:
        return SyncPayload(stage, False, None, error)


def broadcast(
    data_or_fn: Any, *, success: bool = True, stage_name: str | None = None, rank: int = 0,
    pg: ProcessGroup | None = None,
) -> Any:  # fmt: skip
    """The value of one rank, on all.

    Args:
        data_or_fn: the value, or a function, which is called on that rank alone
        success: whether that rank has it; otherwise this raises on all
        stage_name: a word for errors
        rank: which rank; a number of the group
        pg: the ranks; None: this process alone

    Raises:
        RuntimeError: that rank has no value.
    """
    told: SyncPayload[Any] = SyncPayload(stage_name, success, None)
    if success and (pg is None or pg.rank() == rank):
        told = _made(data_or_fn, stage_name)
    if pg is not None:
        held: list[Any] = [told]
        broadcast_object_list(held, group=pg, group_src=rank)
        told = held[0]
    if not told.success:
        stage = "" if told.stage_name is None else f" at stage {told.stage_name}"
        raise RuntimeError(
            f"[broadcast] a value of rank {rank} was required{stage} (Rank {rank} failed): got {told.exception}\n"
            "hint: the error on that rank is the cause"
        ) from told.exception
    return told.payload


def all_gather(
    data_or_fn: Any, stage_name: str | None = None, pg: ProcessGroup | None = None
) -> list[Any]:
    """The values of all ranks, on all.

    Args:
        data_or_fn: this rank's value, or a function that makes it
        stage_name: where this rank is: all must be at the same place
        pg: the ranks; None: this process alone

    Raises:
        RuntimeError: ranks have no value, or are elsewhere; the message names them.
    """
    mine = _made(data_or_fn, stage_name)
    every: list[Any] = [mine]
    if pg is not None:
        every = [None] * pg.size()
        all_gather_object_enforce_type(pg, every, mine)
    elsewhere = [r for r, one in enumerate(every) if one.stage_name != every[0].stage_name]
    failed = [r for r, one in enumerate(every) if not one.success]
    if elsewhere or failed:
        lines = [f"rank {r} is at stage {every[r].stage_name}" for r in elsewhere]
        lines += [
            f"rank {r} failed: {type(every[r].exception).__name__}: {every[r].exception}"
            for r in failed
        ]
        raise RuntimeError(
            f"[all_gather] a value of each rank at stage {every[0].stage_name} was required: got "
            f"{'; '.join(lines)}\nhint: the errors on those ranks are the cause"
        ) from (every[failed[0]].exception if failed else None)
    return [one.payload for one in every]


def all_gather_object_enforce_type(
    pg: ProcessGroup, object_list: list[Any], obj: Any,
    type_checker: Callable[[Any, Any], bool] = lambda x, y: type(x) is type(y),
) -> None:  # fmt: skip
    """`all_gather_object`, then a look whether all values are of the first one's type.

    Args:
        type_checker: whether a value is as the first one

    Raises:
        TypeError: one is not.
    """
    all_gather_object(object_list, obj, pg)
    for rank, value in enumerate(object_list):
        if not type_checker(object_list[0], value):
            fail(TypeError, "all_gather_object_enforce_type", f"values like that of rank 0, a "
                 f"{type(object_list[0]).__name__}, were required (Object type at index {rank})",
                 type(value).__name__, hint="ranks are at different places of the program")  # fmt: skip
