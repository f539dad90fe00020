"""Events of a profile: one by one, summed by name, and as lists that print as tables.

Takes raw events (`profiler_recorder`). Gives `FunctionEvent`, `FunctionEventAvg` and `EventList`
with PyTorch's attributes; times are microseconds.
Keeps true: the time (and memory) of an event is its own plus that of its children.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from facula.autograd.profiler_formats import format_time
from facula.autograd.profiler_recorder import MEMORY_EVENT_NAME, USER, RawEvent, Recorder
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


class Interval:
    """A time from `start` to `end`."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """The length."""
        return self.end - self.start


class Kernel:
    """A kernel that ran on an accelerator for an event."""

    def __init__(self, name: str, device: int, duration: float) -> None:
        self.name = name
        self.device = device
        self.duration = duration


class _Formatted:
    """Times as text: `cpu_time_str` and its kin; averages over `count`; names of older versions."""

    count: int
    cpu_time_total: float
    device_time_total: float

    @property
    def cpu_time(self) -> float:
        """The average CPU time."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """The average time on the accelerator."""
        return self.device_time_total / self.count if self.count else 0.0

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_str") and "time" in name:
            return format_time(getattr(self, name[:-4]))
        if "cuda_" in name:
            return getattr(self, name.replace("cuda_", "device_"))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class FunctionEvent(_Formatted):
    """One event of a profile."""

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        *,
        input_shapes: Iterable[Any] = (),
        stack: Iterable[str] = (),
        scope: int = 0,
        cpu_memory_usage: int = 0,
        sequence_nr: int = -1,
        node_id: int = -1,
        is_async: bool = False,
        flops: int | None = None,
        concrete_inputs: Iterable[Any] = (),
        input_dtypes: Iterable[str] = (),
    ) -> None:
        self.id = id
        self.name = self.trace_name = self.key = name
        self.overload_name = ""
        self.thread = thread
        self.fwd_thread: int | None = None
        self.time_range = Interval(start_us, end_us)
        self.input_shapes = list(input_shapes)
        self.concrete_inputs = list(concrete_inputs)
        self.input_dtypes = list(input_dtypes)
        self.kwinputs: dict[str, Any] = {}
        self.stack = list(stack)
        self.scope = scope
        self.cpu_memory_usage = cpu_memory_usage
        self.device_memory_usage = 0
        self.sequence_nr = sequence_nr
        self.node_id = node_id
        self.is_async = is_async
        self.is_remote = self.is_legacy = self.is_python_function = False
        self.is_user_annotation = scope == USER
        self.flops = flops or None
        self.count = 1
        self.kernels: list[Kernel] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.use_device: str | None = None
        self.device_type = "cpu"
        self.device_index = self.device_resource_id = 0

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Note that `child` ran inside of this event."""
        self.cpu_children.append(child)

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Note a kernel that this event started on an accelerator."""
        self.kernels.append(Kernel(name, device, duration))

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Note the event inside of which this one ran."""
        self.cpu_parent = parent

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Time from beginning to end."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:
        """Time outside of the children."""
        if self.is_async:
            return 0.0
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes allocated (less those freed) outside of the children."""
        if self.is_async:
            return 0
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """Time of the kernels of this event and its children."""
        own = sum(kernel.duration for kernel in self.kernels)
        return own + sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """Time of the kernels of this event alone."""
        return sum(kernel.duration for kernel in self.kernels)

    @property
    def self_device_memory_usage(self) -> int:
        """Bytes on the accelerator, outside of the children."""
        inner = sum(child.device_memory_usage for child in self.cpu_children)
        return self.device_memory_usage - inner

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} node_id={self.node_id} "
            f"cpu_time={self.cpu_time_str} start_us={self.time_range.start:.3f} "
            f"end_us={self.time_range.end:.3f} cpu_children={[c.id for c in self.cpu_children]} "
            f"thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} is_async={self.is_async} "
            f"seq_nr={self.sequence_nr}>"
        )


_SUMMED = """cpu_time_total device_time_total self_cpu_time_total self_device_time_total
cpu_memory_usage device_memory_usage self_cpu_memory_usage self_device_memory_usage count""".split()
_SHARED = """key node_id is_async is_remote is_legacy use_device device_type scope input_shapes stack
overload_name is_user_annotation""".split()


class FunctionEventAvg(_Formatted):
    """The sum over events that count as the same."""

    cpu_time_total = 0.0
    device_time_total = 0.0

    def __init__(self) -> None:
        self.key: str | None = None
        self.node_id = 0
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.use_device: str | None = None
        self.device_type = "cpu"
        self.input_shapes: Any = None
        self.overload_name = ""
        self.stack: list[str] | None = None
        self.scope: int | None = None
        self.flops = 0
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None
        for name in _SUMMED:
            setattr(self, name, 0)

    def add(self, other: Any) -> FunctionEventAvg:
        """Add an event, or the sum over others, of the same key."""
        if self.key is None:
            for name in _SHARED:
                setattr(self, name, getattr(other, name))
            self.cpu_parent = other.cpu_parent
            self.cpu_children = other.cpu_children
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)) or other.key != self.key:
            fail(
                ValueError,
                "add",
                f"an event of the key {self.key!r} was required",
                other,
                hint="key_averages() adds the events of equal keys up",
            )
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops += other.flops or 0
        return self

    def __iadd__(self, other: Any) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} self_device_time={self.self_device_time_total_str} "
            f"device_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} "
            f"device_memory_usage={self.device_memory_usage}>"
        )


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
