"""Profiling a block of code: `profile`, and ranges that users name.

Takes switches for what to record. Gives the events of the block as an `EventList`.
Keeps true: without a running profiler `record_function` costs two look-ups; a profile is taken once.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from typing import Any

from facula import core
from facula.autograd.profiler_ranges import emit_itt, emit_nvtx
from facula.autograd.profiler_recorder import MEMORY_EVENT_NAME, Recorder, current
from facula.autograd.profiler_util import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
    event_list,
)
from facula.core.errors import fail

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MEMORY_EVENT_NAME",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
]


def kineto_available() -> bool:
    """True: traces in Kineto's format can be written."""
    return True


class record_function(contextlib.ContextDecorator):
    """A range of the given name in profiles: a context manager, or a decorator.

    args: text that traces show beside the name.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True
        self._open: list[tuple[Recorder, Any]] = []

    def __enter__(self) -> record_function:
        recorder = current()
        if recorder is not None:
            self._open.append((recorder, recorder.enter_range(self.name, self.args)))
        return self

    def __exit__(self, *exception: object) -> None:
        if self.run_callbacks_on_exit and self._open:
            recorder, event = self._open.pop()
            recorder.leave(event)

    def __call__(self, function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def wrapped(*args: object, **kwargs: object) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return wrapped

    def _call_end_callbacks_on_future(self, future: Any) -> Any:
        """End the range when the future is done instead of at the end of the block."""
        if not self.run_callbacks_on_exit:
            fail(
                RuntimeError,
                "record_function",
                "at most one future was required for a range",
                hint="make a record_function for every future",
            )
        self.run_callbacks_on_exit = False
        if not self._open:
            return future
        recorder, event = self._open.pop()
        recorder.detach(event)

        def end(done: Any) -> Any:
            recorder.leave(event)
            return done.value() if hasattr(done, "value") else done.result()

        return future._mapped(end)


class profile:
    """Records the operators, backward nodes and ranges of a `with` block (of its thread).

    record_shapes: also the shapes of arguments. with_flops: an estimate of the floating-point
    operations of products, convolutions and elementwise operators. profile_memory: bytes that came
    and went. with_stack: where the program called from. use_cpu: whether operators are recorded.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = True,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        self.enabled = enabled
        self.use_device = "cuda" if use_cuda else use_device
        self.use_cpu = use_cpu
        self.record_shapes = record_shapes or with_flops
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.acc_events = acc_events
        self.entered = False
        self.function_events: EventList | None = None
        self.recorder: Recorder | None = None

    def _prepare_trace(self) -> None:
        self.recorder = Recorder(
            self.record_shapes, self.profile_memory, self.with_stack, self.with_flops, self.use_cpu
        )
        self.recorder.begin()

    def _start_trace(self) -> None:
        """Forget what the warm-up recorded."""
        self.entered = True
        assert self.recorder is not None
        self.recorder.restart()

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            fail(
                RuntimeError,
                "profile",
                "Profiler context manager is not reentrant",
                hint="make another profiler for the inner range",
            )
        self._prepare_trace()
        self._start_trace()
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.enabled or self.recorder is None:
            return
        self.recorder.finish()
        made = event_list(self.recorder)
        if self.acc_events and self.function_events is not None:
            made[:0] = self.function_events
        self.function_events = made
        self.recorder = None

    def _events(self) -> EventList:
        if self.function_events is None:
            fail(
                RuntimeError,
                "profile",
                "a finished profile was required: Profiler didn't finish running",
                hint="ask for results after the `with` block",
            )
        return self.function_events

    def __repr__(self) -> str:
        if self.function_events is None:
            return "<unfinished profile>"
        return repr(self.function_events)

    def __str__(self) -> str:
        return "<unfinished profile>" if self.function_events is None else str(self._events())

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """The events as text, see `EventList.table`."""
        return self._events().table(sort_by=sort_by, row_limit=row_limit, **options)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing and Perfetto."""
        self._events().export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks with their times, as flame graph tools read them."""
        if not self.with_stack:
            fail(
                ValueError,
                "export_stacks",
                "export_stacks() requires with_stack=True",
                hint="profile(with_stack=True) records them",
            )
        self._events().export_stacks(path, metric)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sums over events of one name (and shapes, and the innermost frames)."""
        return self._events().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def total_average(self) -> FunctionEventAvg:
        """The sum over all events."""
        return self._events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, each counted once."""
        return self._events().self_cpu_time_total

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Pause or go on while the profile runs."""
        if self.recorder is not None:
            core.set_profiling(enabled)
