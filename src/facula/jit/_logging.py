"""Counters that scripts and traces add to while they run: `torch.jit._logging`.

Takes names and numbers. Gives loggers, which hold a counter by name.
Keeps true: one logger is heard at a time; the one that is set at first keeps nothing.
"""

from __future__ import annotations

import enum
import threading
import time

from facula.core.errors import fail
from facula.jit.marks import TRACING

__all__ = [
    "AggregationType",
    "LockingLogger",
    "NoopLogger",
    "add_stat_value",
    "get_logger",
    "set_logger",
    "time_point",
]


class AggregationType(enum.Enum):
    """What a counter says: the sum of its numbers, or their mean."""

    SUM = 0
    AVG = 1


class NoopLogger:
    """A logger that keeps nothing.

    Example:
        >>> NoopLogger().get_counter_val("any")
        0
    """

    def add(self, name: str, value: int) -> None:
        """Nothing."""

    def get_counter_val(self, name: str) -> int:
        """Zero."""
        return 0


class LockingLogger(NoopLogger):
    """A logger that several threads may add to.

    Example:
        >>> logger = LockingLogger()
        >>> logger.add("calls", 2)
        >>> logger.get_counter_val("calls")
        2
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[int, int]] = {}
        self._kinds: dict[str, AggregationType] = {}

    def add(self, name: str, value: int) -> None:
        """Add a number to a counter."""
        with self._lock:
            total, count = self._held.get(name, (0, 0))
            self._held[name] = total + value, count + 1

    def set_aggregation_type(self, name: str, kind: AggregationType) -> None:
        """Say whether a counter is a sum, as all are at first, or a mean."""
        if not isinstance(kind, AggregationType):
            fail(TypeError, "jit._logging", "an AggregationType was required", kind,
                 hint="AggregationType.SUM or AggregationType.AVG")  # fmt: skip
        self._kinds[name] = kind

    def get_counter_val(self, name: str) -> int:
        """The sum or mean; 0 where nothing was added."""
        total, count = self._held.get(name, (0, 0))
        mean = self._kinds.get(name) is AggregationType.AVG and count
        return total // count if mean else total


_LOGGER: list[NoopLogger] = [NoopLogger()]


def get_logger() -> NoopLogger:
    """The logger that is heard.

    Example:
        >>> type(get_logger()).__name__
        'NoopLogger'
    """
    return _LOGGER[0]


def set_logger(logger: NoopLogger) -> NoopLogger:
    """Make a logger the one that is heard.

    Args:
        logger: the new one

    Returns:
        the one before

    Example:
        >>> before = set_logger(LockingLogger())
        >>> type(set_logger(before)).__name__
        'LockingLogger'
    """
    before, _LOGGER[0] = _LOGGER[0], logger
    return before


def add_stat_value(name: str, value: int) -> None:
    """Add a number to a counter of the logger; scripts and traces do so whenever they run.

    Args:
        name: the counter's
        value: what is added

    Example:
        >>> add_stat_value("calls", 1)
    """
    if TRACING:
        TRACING[-1].count(name, value)
    _LOGGER[0].add(name, value)


def time_point() -> int:
    """The time in nanoseconds, from a start that stays the same.

    Example:
        >>> time_point() <= time_point()
        True
    """
    return time.perf_counter_ns()
