"""Handlers, streams of values, and a decorator that counts and times calls.

Takes: values under names and groups. Gives: what `metrics` exports.
Keeps true: a value goes to the handler of its group, else to the default one; a decorated function gives and raises
what it did before.
"""

from __future__ import annotations

import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from facula.core.logs import get_logger

__all__ = [
    "ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricStream", "MetricsConfig", "NullMetricHandler",
    "configure", "getStream", "get_elapsed_time_ms", "prof", "profile", "publish_metric", "put_metric",
]  # fmt: skip

_GROUP = "torchelastic"


class MetricData(NamedTuple):
    """A value: when, of which group, under which name."""

    timestamp: float
    group_name: str
    name: str
    value: int


class MetricsConfig:
    """What handlers are told.

    Args:
        params: texts by name
    """

    __slots__ = ["params"]

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params = {} if params is None else params


class MetricHandler(ABC):
    """Where values go."""

    @abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take a value."""


class ConsoleMetricHandler(MetricHandler):
    """Prints values."""

    def emit(self, metric_data: MetricData) -> None:
        """Print a value."""
        when, group, name, value = metric_data
        print(f"[{when}][{group}]: {name}={value}")


class NullMetricHandler(MetricHandler):
    """Lets values go."""

    def emit(self, metric_data: MetricData) -> None:
        """Nothing."""


class MetricStream:
    """The values of a group.

    Args:
        group_name: the group
        handler: where they go
    """

    def __init__(self, group_name: str, handler: MetricHandler) -> None:
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name: str, metric_value: int) -> None:
        """Tell a value."""
        self.handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))


_HANDLERS: dict[str, MetricHandler] = {}
_DEFAULT: list[MetricHandler] = [NullMetricHandler()]


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Choose where values go.

    Args:
        group: whose values; default: those of all groups that have no handler of their own
    """
    if group is None:
        _DEFAULT[0] = handler
    else:
        _HANDLERS[group] = handler


def getStream(group: str) -> MetricStream:  # noqa: N802 - PyTorch's name
    """The stream of a group."""
    return MetricStream(group, _HANDLERS.get(group, _DEFAULT[0]))


def _get_metric_name(fn: Callable[..., Any]) -> str:
    """What the values of a function are called: class and method, or module and function."""
    qualified = fn.__qualname__.split(".")
    if len(qualified) == 1:
        module = (fn.__module__ or "").rpartition(".")[2]
        return f"{module}.{qualified[0]}" if module else qualified[0]
    return ".".join(qualified[-2:])


def prof(fn: Callable[..., Any] | None = None, group: str = _GROUP) -> Any:
    """A function that counts its calls: `NAME.success`, `NAME.failure`, and times them: `NAME.duration.ms`.

    >>> @prof(group="training")
    ... def epoch(): ...

    Args:
        fn: the function; without it this gives a decorator
        group: the group of the values
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        name = _get_metric_name(function)

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            began, how = time.time(), "failure"
            try:
                result = function(*args, **kwargs)
                how = "success"
                return result
            finally:
                put_metric(f"{name}.{how}", 1, group)
                put_metric(f"{name}.duration.ms", get_elapsed_time_ms(began), group)

        return timed

    return decorated if fn is None else decorated(fn)


def profile(group: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`prof` under its older name, without a group of its own."""
    return prof(group=group or _GROUP)


def put_metric(metric_name: str, metric_value: int, metric_group: str = _GROUP) -> None:
    """Tell a value.

    Args:
        metric_name: its name
        metric_value: the value
        metric_group: its group
    """
    getStream(metric_group).add_value(metric_name, metric_value)


def publish_metric(metric_group: str, metric_name: str, metric_value: int) -> None:
    """`put_metric` under its older name; says so in the log."""
    get_logger("distributed").warning("publish_metric is an older name of put_metric")
    put_metric(metric_name, metric_value, metric_group)


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """How many milliseconds have gone since a time of `time.time`."""
    return int((time.time() - start_time_in_seconds) * 1000)
