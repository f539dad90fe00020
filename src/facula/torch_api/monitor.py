"""Counters and events of a running program: `facula.monitor`.

Takes: numbers that a program adds to a `Stat`, and `Event`s that it logs. Gives: each event to every
handler that is registered, a stat's summary as an event when its window closes.
Keeps true: handlers are called in the order of their registration, by the thread that logs; a handler that
was taken away hears nothing more; a stat that goes away says what it still holds.
The names and what they mean are those of PyTorch's `torch.monitor` (since 1.11).
"""

from __future__ import annotations

import enum
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from facula.core.errors import fail

__all__ = [
    "Aggregation",
    "Event",
    "EventHandlerHandle",
    "Stat",
    "TensorboardEventHandler",
    "data_value_t",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]

data_value_t = str | float | int | bool


class Aggregation(enum.Enum):
    """What a `Stat` says of the numbers of a window.

    Example:
        >>> facula.monitor.Aggregation.SUM.name
        'SUM'
    """

    VALUE = 0  # the last
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


@dataclass
class Event:
    """Something that happened: a name, a time and values by name.

    Args:
        name: what happened; a name with dots, as ``"my.program.Step"``.
        timestamp: when (a `datetime`).
        data: texts, numbers and truth values by name.

    Example:
        >>> from datetime import datetime
        >>> facula.monitor.Event("program.Step", datetime(2024, 1, 2), {"loss": 0.5}).data
        {'loss': 0.5}
    """

    name: str
    timestamp: datetime
    data: dict[str, data_value_t] = field(default_factory=dict)


class EventHandlerHandle:
    """What `register_event_handler` gives and `unregister_event_handler` takes.

    Example:
        >>> handle = facula.monitor.register_event_handler(print)
        >>> type(handle).__name__
        'EventHandlerHandle'
        >>> facula.monitor.unregister_event_handler(handle)
    """

    def __init__(self, handler: Callable[[Event], None]) -> None:
        self.handler = handler


_handlers: list[EventHandlerHandle] = []


def register_event_handler(callback: Callable[[Event], None]) -> EventHandlerHandle:
    """Have a function called with every event that is logged from now on.

    Args:
        callback: takes an `Event`; should be quick, since the thread that logs waits for it.

    Example:
        >>> seen = []
        >>> handle = facula.monitor.register_event_handler(seen.append)
        >>> from datetime import datetime
        >>> facula.monitor.log_event(facula.monitor.Event("program.Step", datetime(2024, 1, 2), {}))
        >>> facula.monitor.unregister_event_handler(handle)
        >>> [event.name for event in seen]
        ['program.Step']
    """
    if not callable(callback):
        fail(TypeError, "register_event_handler", "a function that takes an event was required",
             type(callback).__name__, hint="register_event_handler(lambda event: ...)")  # fmt: skip
    handle = EventHandlerHandle(callback)
    _handlers.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Take a handler away; one that is not there any more is left alone.

    Args:
        handler: what `register_event_handler` gave.

    Example:
        >>> facula.monitor.unregister_event_handler(facula.monitor.register_event_handler(print))
    """
    if handler in _handlers:
        _handlers.remove(handler)


def log_event(event: Event) -> None:
    """Hand an event to every handler.

    Args:
        event: what happened.

    Example:
        >>> from datetime import datetime
        >>> facula.monitor.log_event(facula.monitor.Event("program.Step", datetime(2024, 1, 2), {}))
    """
    for handle in list(_handlers):
        handle.handler(event)


_SUMMARIES: dict[Aggregation, Callable[[_Window], float]] = {
    Aggregation.VALUE: lambda window: window.last,
    Aggregation.MEAN: lambda window: window.total / window.count if window.count else 0.0,
    Aggregation.COUNT: lambda window: float(window.count),
    Aggregation.SUM: lambda window: window.total,
    Aggregation.MAX: lambda window: window.largest,
    Aggregation.MIN: lambda window: window.least,
}


@dataclass
class _Window:
    """The numbers that came in since the window opened, summed up."""

    number: int = 0
    count: int = 0
    last: float = 0.0
    total: float = 0.0
    largest: float = 0.0
    least: float = 0.0

    def add(self, value: float) -> None:
        self.largest = max(self.largest, value) if self.count else value
        self.least = min(self.least, value) if self.count else value
        self.count, self.last, self.total = self.count + 1, value, self.total + value


class Stat:
    """Numbers summed up over windows of time; each window is logged as an event ``torch.monitor.Stat``.

    Args:
        name: in the event's data each value is called ``name.aggregation``, as ``loss.mean``.
        aggregations: what to say of a window, a sequence of `Aggregation`.
        window_size: how long a window is, a `timedelta` of at least a millisecond.
        max_samples: after so many numbers a window is logged at once, and what comes before its end is dropped.

    Example:
        >>> from datetime import timedelta
        >>> kinds = facula.monitor.Aggregation
        >>> stat = facula.monitor.Stat("loss", (kinds.SUM, kinds.MAX), timedelta(hours=1))
        >>> stat.add(1.5)
        >>> stat.count
        1
    """

    def __init__(self, name: str, aggregations: Sequence[Aggregation], window_size: timedelta,
                 max_samples: int = sys.maxsize) -> None:  # fmt: skip
        self._window = _Window()  # first: __del__ reads it whatever follows
        self.name = name
        self._lock = threading.Lock()
        unknown = [kind for kind in aggregations if kind not in _SUMMARIES]
        if unknown:
            fail(ValueError, "Stat", "kinds of Aggregation were required", unknown[0],
                 hint=f"one of {', '.join(kind.name for kind in _SUMMARIES)}")  # fmt: skip
        self._milliseconds = window_size // timedelta(milliseconds=1)
        if self._milliseconds < 1 or max_samples < 1:
            fail(ValueError, "Stat", "a window of a millisecond or more and at least one sample were required",
                 f"{window_size} and {max_samples}", hint="timedelta(seconds=60) is usual")  # fmt: skip
        self._aggregations = tuple(aggregations)
        self._max_samples = max_samples
        self._full = False
        self._logged = self._summary()
        self._window.number = self._now()

    def _now(self) -> int:
        return time.monotonic_ns() // 1_000_000 // self._milliseconds

    def add(self, v: float) -> None:
        """Add a number to the window that is open; the window before it is logged if it has ended.

        Args:
            v: a number."""
        with self._lock:
            events = []
            if (now := self._now()) != self._window.number:
                events.append(self._end())
                self._window.number, self._full = now, False
            if not self._full:
                self._window.add(float(v))
                self._full = self._window.count >= self._max_samples
                events.append(self._end() if self._full else None)
        for event in events:
            if event is not None:
                log_event(event)

    def get(self) -> dict[Aggregation, float]:
        """What the last window that was logged amounts to; zeros before that."""
        with self._lock:
            return dict(self._logged)

    @property
    def count(self) -> int:
        """How many numbers the open window has."""
        return self._window.count

    def _summary(self) -> dict[Aggregation, float]:
        return {kind: _SUMMARIES[kind](self._window) for kind in self._aggregations}

    def _end(self) -> Event | None:
        """Begins anew, and gives the event for what was there; None for an empty window."""
        if not self._window.count:
            return None
        self._logged = self._summary()
        self._window = _Window(number=self._window.number)
        data: dict[str, data_value_t] = {
            f"{self.name}.{kind.name.lower()}": value for kind, value in self._logged.items()
        }
        return Event("torch.monitor.Stat", datetime.now(), data)

    def __del__(self) -> None:
        event = self._end() if self._window.count else None
        if event is not None:
            log_event(event)


class TensorboardEventHandler:
    """A handler that writes stats into the event files that TensorBoard shows.

    Args:
        writer: a `utils.tensorboard.SummaryWriter`; numbers are written under their names, at the event's time.

    Example:
        >>> class Writer:
        ...     def add_scalar(self, name, value, walltime):
        ...         print(name, value)
        >>> handler = facula.monitor.TensorboardEventHandler(Writer())
        >>> from datetime import datetime
        >>> handler(facula.monitor.Event("torch.monitor.Stat", datetime(2024, 1, 2), {"loss.mean": 0.5}))
        loss.mean 0.5
    """

    def __init__(self, writer: object) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name != "torch.monitor.Stat":
            return
        for name, value in event.data.items():
            self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())  # type: ignore[attr-defined]


class _WaitCounter:
    """Counts and times waits: how many were begun, and for how long they lasted altogether, in seconds."""

    def __init__(self, key: str) -> None:
        self.key, self.waits, self.seconds = key, 0, 0.0

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Measures its block."""
        start = time.perf_counter()
        self.waits += 1
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - start
