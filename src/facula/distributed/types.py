"""What collectives are told and give: `ReduceOp`, `Work`, `P2POp`, options.

Takes and gives plain values. Keeps true: a `Work` ends once, with a result or an exception, and tells
everyone who waits.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import core
from facula.core.errors import fail
from facula.distributed.errors import DistBackendError
from facula.distributed.stores import seconds_of
from facula.namespaces.futures import Future
from facula.ops.registry import F

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


Tensor = core.Tensor

__all__ = ["P2POp", "ReduceOp", "Work", "reduce_op"]


class ReduceOp:
    """How the tensors of ranks become one.

    `SUM`, `AVG`, `PRODUCT`, `MIN`, `MAX`, `BAND`, `BOR` and `BXOR` are the ways.

    Example:
        >>> facula.distributed.ReduceOp.MAX
        <RedOpType.MAX>
    """

    class RedOpType:
        """A way, by name; equal by name."""

        def __init__(self, name: str, combine: Callable[[Any, Any], Any] | None) -> None:
            self.name, self.combine = name, combine

        def __repr__(self) -> str:
            return f"<RedOpType.{self.name}>"

        def __eq__(self, other: object) -> bool:
            return getattr(other, "name", None) == self.name

        def __hash__(self) -> int:
            return hash(self.name)

    SUM = RedOpType("SUM", lambda a, b: a + b)
    AVG = RedOpType("AVG", lambda a, b: a + b)
    PRODUCT = RedOpType("PRODUCT", lambda a, b: a * b)
    MIN = RedOpType("MIN", F.minimum)
    MAX = RedOpType("MAX", F.maximum)
    BAND = RedOpType("BAND", F.bitwise_and)
    BOR = RedOpType("BOR", F.bitwise_or)
    BXOR = RedOpType("BXOR", F.bitwise_xor)


reduce_op = ReduceOp


class Work:
    """Something under way among ranks.

    Args:
        name: of the operation, for errors
        default_seconds: how long it may take

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = facula.ones(2)
        >>> work = dist.all_reduce(x, async_op=True)
        >>> _ = work.wait()
        >>> work.is_completed()
        True
        >>> dist.destroy_process_group()
    """

    def __init__(self, name: str, default_seconds: float) -> None:
        self.name = name
        self.default_seconds = default_seconds
        self._future: Future = Future()
        self._source = -1
        self._lock = threading.Lock()
        #: makes the error for a wait that is over
        self.late: Callable[[float], BaseException] | None = None
        #: where set, is told once of the error that a wait ends with
        self.failing: Callable[[BaseException], None] | None = None
        #: whether somebody waits for it now
        self.awaited = False
        #: where set, runs what lies before it, if the thread that waits is the one that would have to
        self.help: Callable[[Work], None] | None = None

    def finish(self, value: Any, source: int = -1) -> None:
        """It is done; once."""
        with self._lock:
            if self._future.done():
                return
            self._source = source
            self._future.set_result(value)

    def break_off(self, error: BaseException) -> None:
        """It failed; once."""
        with self._lock:
            if not self._future.done():
                self._future.set_exception(error)

    def is_completed(self) -> bool:
        """Whether it has ended."""
        return self._future.done()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._future.done() and self._future.exception() is None

    def exception(self) -> BaseException | None:
        """What went wrong, if it has."""
        return self._future.exception() if self._future.done() else None

    def source_rank(self) -> int:
        """Where a received message came from."""
        return self._source

    def wait(self, timeout: datetime.timedelta | float | None = None) -> bool:
        """Wait for the end.

        Raises:
            DistBackendError: a rank is missing or gone; the message names it.
        """
        seconds = seconds_of(timeout, 0.0) or self.default_seconds
        if self.help is not None:
            self.help(self)
        self.awaited = True
        try:
            ended = self._future.wait_done(seconds)
        finally:
            self.awaited = False
        if not ended:
            late = self.late
            error = (
                late(seconds)
                if late is not None
                else DistBackendError(f"[{self.name}] an end within {seconds:g} s was required")
            )
            self.break_off(error)
        failure = self._future.exception()
        if failure is not None:
            told, self.failing = self.failing, None
            if told is not None:
                told(failure)
            raise failure
        return True

    def synchronize(self) -> None:
        """The same as `wait()`."""
        self.wait()

    def result(self) -> Any:
        """What it gave: a list of tensors."""
        return self._future.wait()

    def get_future(self) -> Future:
        """A future of the list of tensors that were written."""
        return self._future

    def abort(self) -> None:
        """Stop waiting for it."""
        self.break_off(DistBackendError(f"[{self.name}] it was aborted"))


class P2POp:
    """One of several messages that are started together: `isend` or `irecv`, a tensor, a rank.

    Args:
        op: `isend` or `irecv`
        tensor: what is sent, or written to
        peer: the other rank, a number of the world
        group: the ranks; None for all
        tag: tells messages of two ranks apart
        group_peer: the other rank as a number of the group

    Raises:
        ValueError: `op` is another function, or there is no such rank.

    Example:
        >>> dist = facula.distributed
        >>> try:
        ...     dist.P2POp(dist.broadcast, facula.ones(1), 1)
        ... except ValueError:
        ...     print("isend or irecv")
        isend or irecv
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: core.Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if getattr(op, "__name__", "") not in ("isend", "irecv"):
            fail(
                ValueError,
                "P2POp",
                "distributed.isend or distributed.irecv was required (Invalid op)",
                op,
                hint="pass the function itself",
            )
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.group_peer = group_peer

    def start(self) -> Work | None:
        """Start it."""
        return self.op(self.tensor, self.peer, group=self.group, tag=self.tag, **self._group_peer())

    def _group_peer(self) -> dict[str, Any]:
        if self.group_peer is None:
            return {}
        name = "group_dst" if self.op.__name__ == "isend" else "group_src"
        return {name: self.group_peer}
