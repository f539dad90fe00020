"""Events of a profile, one by one and summed by name.

Takes what was measured of an operator. Gives `FunctionEvent` and `FunctionEventAvg` with PyTorch's
attributes; times are microseconds.
Keeps true: the time (and memory) of an event is its own plus that of its children.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from facula.autograd.profiler_formats import format_time
from facula.autograd.profiler_recorder import USER
from facula.core.errors import fail


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
