"""What collectives are told and give: `ReduceOp`, `Work`, options.

Takes and gives plain values. Keeps true: a `Work` ends once, with a result or an exception, and tells
everyone who waits.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.distributed.errors import DistBackendError
from facula.distributed.stores import seconds_of
from facula.namespaces.futures import Future, collect_all
from facula.ops.table.registry import F

Tensor = core.Tensor

__all__ = ["ReduceOp", "Work", "reduce_op"]


class _Ways(type):
    """The class of `ReduceOp`, of which each way is an instance."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, ReduceOp.RedOpType)


class ReduceOp(metaclass=_Ways):
    """How the tensors of ranks become one.

    `SUM`, `AVG`, `PRODUCT`, `MIN`, `MAX`, `BAND`, `BOR` and `BXOR` are the ways; `PREMUL_SUM` is a name that
    no engine serves. A sum of truth values says whether there is a true one.

    Example:
        >>> facula.distributed.ReduceOp.MAX
        <RedOpType.MAX>
    """

    def __new__(cls, op: Any) -> Any:
        """The way that is named."""
        return op

    class RedOpType:
        """A way, by name; equal by name."""

        def __init__(self, name: str, combine: Callable[[Any, Any], Any] | None) -> None:
            self.name, self.combine = name, combine

        @property
        def op(self) -> ReduceOp.RedOpType:
            """The way itself: what `ReduceOp(way)` gives has it under this name."""
            return self

        def __repr__(self) -> str:
            return f"<RedOpType.{self.name}>"

        def __eq__(self, other: object) -> bool:
            return getattr(other, "name", None) == self.name

        def __hash__(self) -> int:
            return hash(self.name)

        def __reduce__(self) -> tuple[Any, ...]:
            return getattr, (ReduceOp, self.name)

    SUM = RedOpType("SUM", lambda a, b: a + b)
    AVG = RedOpType("AVG", lambda a, b: a + b)
    PRODUCT = RedOpType("PRODUCT", lambda a, b: a * b)
    MIN = RedOpType("MIN", F.minimum)
    MAX = RedOpType("MAX", F.maximum)
    BAND = RedOpType("BAND", F.bitwise_and)
    BOR = RedOpType("BOR", F.bitwise_or)
    BXOR = RedOpType("BXOR", F.bitwise_xor)
    PREMUL_SUM = RedOpType("PREMUL_SUM", None)


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

    def __init__(self, name: str = "work", default_seconds: float = 1800.0) -> None:
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

    @classmethod
    def of_future(cls, future: Future) -> Work:
        """The work that ends as a future does; its value is a tensor or a list of tensors."""
        made = cls()
        made._future = future
        return made

    def finish(self, value: object, source: int = -1) -> None:
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

    def _source_rank(self) -> int:
        """The same as `source_rank()`."""
        return self.source_rank()

    def abort(self) -> None:
        """Stop waiting for it."""
        self.break_off(DistBackendError(f"[{self.name}] it was aborted"))


def together(works: Sequence[Work], tensors: Any) -> Work:
    """The work that is done when all of these are; its result are the tensors."""
    made = Future()

    def ended(_: Future) -> None:
        failed = [error for work in works if (error := work.exception()) is not None]
        if failed:
            made.set_exception(failed[0])
        else:
            made.set_result(tensors)

    collect_all([work.get_future() for work in works])._when_done(ended)
    work = Work.of_future(made)
    work.default_seconds = max((one.default_seconds for one in works), default=work.default_seconds)
    return work
