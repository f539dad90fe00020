"""The ranks that write or read a checkpoint together.

Takes: functions that each rank runs, and what the first rank makes of their values. Gives: `Ranks`.
Keeps true: where a function raised on some ranks, all ranks raise, and the message names them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from facula.distributed import world
from facula.distributed.checkpoint.api import CheckpointException, Failure, wrapped
from facula.distributed.object_operations import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    scatter_object_list,
)

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


__all__ = ["Ranks"]


class Ranks:
    """The ranks of a group; this process alone, where there is no group."""

    def __init__(self, group: ProcessGroup | None, alone: bool, first: int = 0) -> None:
        together = not alone and world.is_initialized()
        self.group = world.own_group(group, "checkpoint") if together else None
        self.rank = self.group.rank() if self.group is not None else 0
        self.size = self.group.size() if self.group is not None else 1
        #: the rank that decides
        self.first = first if self.group is not None else 0

    @property
    def is_first(self) -> bool:
        """Whether this rank decides."""
        return self.rank == self.first

    def together(self, what: str, run: Callable[[], Any]) -> list[Any]:
        """Each rank's value of a function, on all ranks."""
        found: list[Any] = [_tried(run)]
        if self.group is not None:
            mine, found = found[0], [None] * self.size
            all_gather_object(found, mine, self.group)
        self._raise(what, _failures(found))
        return [value for _, value in found]

    def scattered(
        self, what: str, run: Callable[[], Any], decide: Callable[[list[Any]], Sequence[Any]]
    ) -> Any:
        """What the first rank decides for this one, from all ranks' values of a function."""
        decided = self._decided(run, decide)
        held: list[Any] = [decided]
        if self.group is not None:
            parts = None
            if decided is not None:
                failures, values = decided
                parts = [(failures, None if failures else value) for value in values]
            held = [None]
            scatter_object_list(held, parts, group=self.group, group_src=self.first)
            self._raise(what, held[0][0])
            return held[0][1]
        assert decided is not None
        self._raise(what, decided[0])
        return decided[1][0]

    def concluded(
        self, what: str, run: Callable[[], Any], decide: Callable[[list[Any]], Any]
    ) -> Any:
        """What the first rank decides for all, from all ranks' values of a function."""
        held = [self._decided(run, decide)]
        if self.group is not None:
            broadcast_object_list(held, group=self.group, group_src=self.first)
        assert held[0] is not None
        self._raise(what, held[0][0])
        return held[0][1]

    def _decided(
        self, run: Callable[[], Any], decide: Callable[[list[Any]], Any]
    ) -> tuple[dict[int, Failure], Any] | None:
        """On the first rank: who failed, and what was decided (something for each rank, after a failure)."""
        found: list[Any] = [_tried(run)]
        if self.group is not None:
            mine, found = found[0], [None] * self.size
            gather_object(mine, found, group=self.group, group_dst=self.first)
            if not self.is_first:
                return None
        failures = _failures(found)
        if not failures:
            good, value = _tried(lambda: decide([value for _, value in found]))
            if good:
                return {}, value
            failures = {self.first: value}
        return failures, [None] * self.size

    def _raise(self, what: str, failures: dict[int, Failure]) -> None:
        if not failures:
            return
        told = "\n  ".join(
            f"rank {rank}: {type(error).__name__}: {error}" for rank, (error, _) in failures.items()
        )
        raise CheckpointException(
            f"[checkpoint.{what}] success on all ranks was required: got failures on "
            f"{len(failures)} of {self.size}\n  {told}\nhint: the checkpoint before is whole",
            failures,
        )


def _tried(run: Callable[[], Any]) -> tuple[bool, Any]:
    """Whether a function gave something, and what; or the exception, as it can be sent."""
    try:
        return True, run()
    except Exception as error:
        found = wrapped(error)
        try:
            pickle.loads(pickle.dumps(found))
        except Exception:  # an exception of the user's may be made of anything
            found = RuntimeError(f"{type(error).__name__}: {error}"), found[1]
        return False, found


def _failures(found: Sequence[Any]) -> dict[int, Failure]:
    return {rank: value for rank, (good, value) in enumerate(found) if not good}
