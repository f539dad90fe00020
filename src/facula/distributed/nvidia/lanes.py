"""Messages of one rank to another on devices: a thread and a communicator of their own for each direction.

Takes: a group, two of its ranks. Gives: `Pair`, the two as an exchange knows groups; `Lane`, what delivers.
Keeps true: messages of a direction go one behind the other, in the order in which they were asked for; those of other
directions do not wait for them; the communicator is touched by the lane's thread alone, which ends it, too.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from facula.distributed.errors import DistBackendError
from facula.distributed.nvidia.communicator import Communicator

__all__ = ["Lane", "Pair"]

#: seconds in which a communicator ends in good order
_FAREWELL = 5.0


@dataclass
class Pair:
    """Who sends and who receives, as a group of two in which the sender is rank 0.

    Args:
        group: to which both belong
        ranks: sender and receiver, as numbers of the world
        me: this process's number in the world
    """

    group: Any
    ranks: list[int]
    me: int

    def __post_init__(self) -> None:
        #: the group's
        self.number: int = self.group.number

    def rank(self) -> int:
        """Whether this process sends (0) or receives (1)."""
        return self.ranks.index(self.me)

    def size(self) -> int:
        """Two."""
        return 2

    def describe(self) -> str:
        """Both in words."""
        return f"from rank {self.ranks[0]} to rank {self.ranks[1]}, {self.group.describe()}"

    @property
    def status(self) -> dict[str, Any]:
        """What this process does in the group."""
        found: dict[str, Any] = self.group.status
        return found


class Lane:
    """What delivers the messages of a direction.

    Args:
        pair: sender and receiver
        deliver: called as `deliver(lane, job)` in the lane's thread; what it raises ends the lane
        failed: called as `failed(pair, error)` after that
    """

    def __init__(
        self, pair: Pair, deliver: Callable[[Lane, Any], None], failed: Callable[[Pair, Any], None]
    ) -> None:
        self.pair, self._deliver, self._failed = pair, deliver, failed
        self.communicator: Communicator | None = None
        #: how many messages went before
        self.count = 0
        #: why nothing more is delivered
        self.stopped: str | None = None
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        name = f"facula-{pair.ranks[0]}-to-{pair.ranks[1]}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, work: Any, job: Any) -> None:
        """Deliver something behind what was asked for before; `work` ends with it."""
        self._jobs.put((work, job))

    def stop(self, why: str) -> None:
        """End what is under way, and all that waits."""
        self.stopped = self.stopped or why
        self._jobs.put(None)

    def close(self) -> None:
        """End in good order once all was delivered, unless that takes too long."""
        self._jobs.put(None)
        self._thread.join(_FAREWELL)
        if self._thread.is_alive():
            self.stop("[close] the group was left while messages were under way")
            self._thread.join(_FAREWELL)

    def check(self) -> None:
        """Raise where the lane was stopped."""
        if self.stopped is not None:
            raise DistBackendError(self.stopped)

    def _run(self) -> None:
        while (found := self._jobs.get()) is not None:
            work, job = found
            try:
                self.check()
                self._deliver(self, job)
            except BaseException as error:
                first, self.stopped = self.stopped is None, self.stopped or str(error)
                if first:  # the others are told before the program ends by this error
                    self._failed(self.pair, error)
                work.break_off(error)
            else:
                self.count += 1
                work.finish(*job.given())
        self._end()

    def _end(self) -> None:
        made, self.communicator = self.communicator, None
        while not self._jobs.empty():  # asked for after the end
            found = self._jobs.get()
            if found is not None:
                why = self.stopped or "[message] a group in use was required: got one that was left"
                found[0].break_off(DistBackendError(why))
        if made is None:
            return
        if self.stopped is not None:
            made.abort()
            return
        with contextlib.suppress(RuntimeError, TimeoutError):
            made.close(time.monotonic() + _FAREWELL)
