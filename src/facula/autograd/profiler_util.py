"""Lists of the events of a profile, which print as tables.

Takes raw events (`profiler_recorder`). Gives `EventList`, and the events that it holds (`profiler_events`).
Keeps true: a list that is summed by name counts the time of each event once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from facula.autograd.profiler_events import FunctionEvent, FunctionEventAvg, Interval, Kernel
from facula.autograd.profiler_recorder import MEMORY_EVENT_NAME, RawEvent, Recorder
from facula.autograd.profiler_table import build_table
from facula.autograd.profiler_trace import write_trace
from facula.core.errors import fail

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MEMORY_EVENT_NAME",
]


class EventList(list):
    """Events, or sums of events; prints as a table."""

    def __init__(
        self,
        *args: Any,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
        start_wall: int = 0,
    ) -> None:
        super().__init__(*args)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops
        self._start_wall = start_wall

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, each counted once."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text.

        sort_by: an attribute such as `cpu_time_total`, `self_cpu_memory_usage`, `count`; the
        largest stand first. row_limit: -1 for all. time_unit: `s`, `ms` or `us` for all times.
        """
        return build_table(
            self,
            total=self.self_cpu_time_total,
            with_memory=self._profile_memory,
            with_flops=self._with_flops,
            sort_by=sort_by,
            row_limit=row_limit,
            widths=(max_name_column_width, max_shapes_column_width, max_src_column_width),
            header=header,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
        )

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing and Perfetto."""
        write_trace(path, self, self._start_wall, {})

    def supported_export_stacks_metrics(self) -> list[str]:
        """What `export_stacks` can sum up."""
        return "self_cpu_time_total self_cuda_time_total self_xpu_time_total".split()

    def export_stacks(self, path: str, metric: str) -> None:
        """Write `outer;inner;... microseconds` lines, as flame graph tools read them."""
        if metric not in self.supported_export_stacks_metrics():
            fail(
                ValueError,
                "export_stacks",
                f"metric should be one of: {self.supported_export_stacks_metrics()}",
                metric,
                hint="'self_cpu_time_total' counts time on the cpu",
            )
        metric = metric.replace("cuda", "device").replace("xpu", "device")
        unsafe = str.maketrans(" ;\t\n", "____")
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                value = getattr(event, metric)
                if event.stack and int(value) > 0:
                    frames = ";".join(frame.translate(unsafe) for frame in reversed(event.stack))
                    file.write(f"{frames} {int(value)}\n")

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sums over the events of one name (and one node, thread kind, shapes and stack)."""
        sums: dict[tuple[Any, ...], FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for event in self:
            key: list[Any] = [event.key, event.node_id, event.is_async, event.scope]
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            if group_by_overload_name:
                key.append(event.overload_name)
            key.extend(event.stack[:group_by_stack_n])
            sums[tuple(key)].add(event)
        result = EventList(
            sums.values(),
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )
        for average in result:
            average.stack = average.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
            if not group_by_overload_name:
                average.overload_name = ""
        return result

    def total_average(self) -> FunctionEventAvg:
        """The sum over all events."""
        total = FunctionEventAvg()
        for event in self:
            total.key = None
            total.add(event)
        total.key = "Total"
        return total


def _thread_numbers(events: list[RawEvent]) -> Callable[[int], int]:
    """Threads counted from 1, in the order in which they are seen."""
    numbers: dict[int, int] = {}
    for event in events:
        numbers.setdefault(event.thread, len(numbers) + 1)
    return numbers.__getitem__


def event_list(recorder: Recorder) -> EventList:
    """The finished events of a recorder, with parents, children and forward threads."""
    raw = sorted(recorder.events, key=lambda event: event.start)
    number = _thread_numbers(raw)
    made: dict[int, FunctionEvent] = {}
    forward: dict[int, int] = {}
    for position, event in enumerate(raw, 1):
        result = FunctionEvent(
            position,
            event.name,
            number(event.thread),
            (event.start - recorder.start) / 1e3,
            (event.end - recorder.start) / 1e3,
            input_shapes=event.shapes,
            stack=event.stack,
            scope=event.scope,
            cpu_memory_usage=event.memory,
            sequence_nr=event.sequence,
            node_id=event.node_id,
            is_async=event.is_async,
            flops=event.flops,
            concrete_inputs=event.concrete,
            input_dtypes=event.dtypes,
        )
        made[id(event)] = result
        parent = made.get(id(event.parent)) if event.parent is not None else None
        if parent is not None and not event.is_async:
            result.set_cpu_parent(parent)
            parent.append_cpu_child(result)
        if event.sequence >= 0 and event.scope == 0:
            forward.setdefault(event.sequence, result.thread)
        elif event.sequence >= 0:
            result.fwd_thread = forward.get(event.sequence)
    return EventList(
        made.values(),
        profile_memory=recorder.profile_memory,
        with_flops=recorder.with_flops,
        start_wall=recorder.start_wall,
    )
