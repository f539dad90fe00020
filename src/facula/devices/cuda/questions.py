"""What `facula.cuda` asks a backend: names, memory, streams, events.

Takes: machines. Gives: `Answers`, a base of the backend; `Stream`, `Event`, `Properties`.
Keeps true: an answer is the driver's, or a count of this process.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from ctypes import c_float, c_void_p
from typing import Any, NamedTuple

from facula.core.errors import fail
from facula.devices.cuda.machine import Machine

__all__ = ["Answers", "Event", "Properties", "Stream"]


class Properties(NamedTuple):
    """What a device is."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int


class Stream:
    """A queue of work: what is put on it runs in order, beside other streams."""

    def __init__(self, machine: Machine, handle: int | None = None) -> None:
        self.machine, self._own = machine, handle is None
        self.cuda_stream = handle if handle is not None else machine.driver_stream()

    def synchronize(self) -> None:
        """Wait until all of it is done."""
        self.machine.call("cuStreamSynchronize", self.cuda_stream)

    def query(self) -> bool:
        """Whether all of it is done."""
        return self.machine.ask("cuStreamQuery", self.cuda_stream)

    def record_event(self, event: Any = None) -> Any:
        """Put a mark behind what is on it."""
        event = Event(self.machine) if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Any) -> None:
        """What comes from now on waits for a mark."""
        self.machine.call("cuStreamWaitEvent", self.cuda_stream, event.handle, 0)

    def wait_stream(self, other: Any) -> None:
        """What comes from now on waits for what another stream has."""
        self.wait_event(other.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"<facula.cuda.Stream device=cuda:{self.machine.index} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A mark in a stream, with the time at which the device came to it."""

    def __init__(self, machine: Machine, enable_timing: bool = False) -> None:
        self.machine, self.timed = machine, enable_timing
        made = c_void_p()
        machine.call("cuEventCreate", ctypes.byref(made), 0 if enable_timing else 2)
        self.handle = made.value or 0

    def record(self, stream: Any = None) -> None:
        """Put the mark behind what is on a stream, by default the current one."""
        handle = self.machine.stream if stream is None else stream.cuda_stream
        self.machine.call("cuEventRecord", self.handle, handle)

    def wait(self, stream: Any = None) -> None:
        """What comes on a stream from now on waits for the mark."""
        handle = self.machine.stream if stream is None else stream.cuda_stream
        self.machine.call("cuStreamWaitEvent", handle, self.handle, 0)

    def synchronize(self) -> None:
        """Wait until the device has come to it."""
        self.machine.call("cuEventSynchronize", self.handle)

    def query(self) -> bool:
        """Whether the device has come to it."""
        return self.machine.ask("cuEventQuery", self.handle)

    def elapsed_time(self, end: Any) -> float:
        """The milliseconds from this mark to another one.

        Raises:
            ValueError: one of them has no time.
        """
        if not (self.timed and end.timed):
            required = "events with times were required"
            hint = "facula.cuda.Event(enable_timing=True)"
            fail(ValueError, "Event.elapsed_time", required, "one without", hint)
        found = c_float()
        self.machine.call("cuEventElapsedTime", ctypes.byref(found), self.handle, end.handle)
        return found.value

    def __del__(self) -> None:
        handle, self.handle = getattr(self, "handle", 0), 0
        if handle:
            self.machine.ask("cuEventDestroy_v2", handle)


class Answers:
    """The questions, by the names of the functions that ask."""

    machines: list[Machine]
    host: Any
    default: int

    def machine(self, device: Any = None) -> Machine:
        """The machine behind a device."""
        raise NotImplementedError  # the backend has it

    # --- devices
    def init(self) -> None:
        """CUDA has started when there is a backend."""

    def device_count(self) -> int:
        """How many devices there are."""
        return len(self.machines)

    def current_device(self) -> int:
        """The device that is used by default."""
        return self.default

    def set_device(self, device: Any) -> None:
        """Use another device by default."""
        self.default = self.machine(device).index

    def get_device_name(self, device: Any = None) -> str:
        """The name of a device."""
        return self.machine(device).name()

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """What a device can, as (9, 0)."""
        machine = self.machine(device)
        return machine.attribute("major"), machine.attribute("minor")

    def get_device_properties(self, device: Any = None) -> Properties:
        """What a device is."""
        machine = self.machine(device)
        words = ("multi_processor_count", "warp_size")
        numbers = [machine.attribute(word) for word in words]
        capability = self.get_device_capability(device)
        return Properties(machine.name(), *capability, machine.total_memory(), *numbers)

    def is_bf16_supported(self) -> bool:
        """Whether tensor cores multiply bfloat16."""
        return self.get_device_capability()[0] >= 8

    def synchronize(self, device: Any = None) -> None:
        """Wait until a device has done all."""
        self.machine(device).synchronize()

    # --- memory
    def empty_cache(self) -> None:
        """Give memory that no tensor uses back."""
        for machine in self.machines:
            machine.empty_cache()

    def memory_allocated(self, device: Any = None) -> int:
        """Bytes of tensors."""
        return self.machine(device).counts["allocated"]

    def max_memory_allocated(self, device: Any = None) -> int:
        """The most bytes of tensors."""
        return self.machine(device).counts["most_allocated"]

    def memory_reserved(self, device: Any = None) -> int:
        """Bytes held from the device."""
        return self.machine(device).counts["reserved"]

    def max_memory_reserved(self, device: Any = None) -> int:
        """The most bytes held."""
        return self.machine(device).counts["most_reserved"]

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Start the peaks anew."""
        counts = self.machine(device).counts
        counts["most_allocated"], counts["most_reserved"] = counts["allocated"], counts["reserved"]

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """Free and all bytes of a device."""
        return self.machine(device).memory()

    # --- streams
    def Stream(self, device: Any = None, priority: int = 0, **options: Any) -> Any:  # noqa: N802
        """A new stream."""
        return Stream(self.machine(device))

    def Event(self, enable_timing: bool = False, **options: Any) -> Event:  # noqa: N802
        """A new mark."""
        return Event(self.machine(), enable_timing)

    def current_stream(self, device: Any = None) -> Any:
        """The stream that this thread's work goes to."""
        machine = self.machine(device)
        return Stream(machine, machine.stream)

    def default_stream(self, device: Any = None) -> Any:
        """The stream that a device has from the beginning."""
        return Stream(self.machine(device), 0)

    def set_stream(self, stream: Any) -> None:
        """Have this thread's work go to a stream."""
        stream.machine.set_stream(stream.cuda_stream)

    def enter_stream(self, stream: Any) -> None:
        """A block begins whose work goes to a stream."""
        stream.before = stream.machine.stream
        self.set_stream(stream)

    def exit_stream(self, stream: Any) -> None:
        """The block ends."""
        stream.machine.set_stream(stream.before)

    def is_current_stream_capturing(self) -> bool:
        """Graphs are not captured."""
        return False

    # --- the processor in the place of missing kernels
    def set_host_fallback(self, mode: str) -> None:
        """What happens where there is no kernel: `warn`, `allow` or `error`."""
        self.host.set_mode(mode)

    def host_fallbacks(self) -> Counter[str]:
        """How often the processor computed an operator."""
        return Counter(self.host.calls)
