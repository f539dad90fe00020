"""PyTorch's questions about XPU devices, answered by whether a backend package offers them.

Takes: nothing. Gives: `is_available`, `device_count`, `synchronize`, `empty_cache`, ...
Keeps true: without a device the answers are those of a machine without one.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from facula import core
from facula.devices.questions import Questions

_QUESTIONS = Questions("xpu")
default_generators: tuple[Any, ...] = ()

is_available = _QUESTIONS.is_available
is_initialized = _QUESTIONS.is_initialized
device_count = _QUESTIONS.device_count
synchronize = _QUESTIONS.synchronize
empty_cache = _QUESTIONS.empty_cache
is_current_stream_capturing = _QUESTIONS.is_current_stream_capturing
manual_seed = _QUESTIONS.manual_seed
manual_seed_all = _QUESTIONS.manual_seed
seed = _QUESTIONS.answering("seed", lambda: None, "Seeds from chance")
seed_all = _QUESTIONS.answering("seed_all", lambda: None, "Seeds all devices from chance")

#: what raises without a device
_NEEDING = {
    "can_device_access_peer": "Whether one device reads another's memory",
    "clock_rate": "The clock of the device in MHz",
    "current_device": "The index of the device that is used by default",
    "current_stream": "The stream that work is put on",
    "device_memory_used": "Bytes in use on the device",
    "get_device_capability": "What the device can do",
    "get_device_name": "The name of the device",
    "get_device_properties": "The properties of the device",
    "get_per_process_memory_fraction": "The part of the memory that the process may use",
    "get_rng_state": "The state of the device's generator",
    "get_stream_from_external": "A stream that another library made",
    "graph_pool_handle": "A pool of memory for captured graphs",
    "init": "Starts the device",
    "initial_seed": "The seed of the device",
    "make_graphed_callables": "Captured forms of functions",
    "mem_get_info": "(free bytes, all bytes) of the device",
    "memory_usage": "How busy the memory was, in percent",
    "power_draw": "The power that the device takes, in W",
    "set_device": "Sets the device that is used by default",
    "set_per_process_memory_fraction": "Sets the part of the memory that the process may use",
    "set_rng_state": "Restores the state of the device's generator",
    "set_stream": "Sets the stream that work is put on",
    "temperature": "The temperature of the device in degrees Celsius",
    "utilization": "How busy the device was, in percent",
}
#: what has an answer on a machine without a device
_ANSWERING: dict[str, tuple[Any, str]] = {
    "get_arch_list": (list, "The architectures that there is code for"),
    "get_gencode_flags": (str, "The compiler's flags for them"),
    "get_rng_state_all": (list, "The states of all devices' generators"),
    "is_bf16_supported": (bool, "Whether the device computes in bfloat16"),
    "is_tf32_supported": (bool, "Whether products may be computed in tf32"),
    "max_memory_allocated": (int, "The most bytes that tensors took"),
    "max_memory_reserved": (int, "The most bytes held from the device"),
    "memory_allocated": (int, "Bytes of tensors on the device"),
    "memory_reserved": (int, "Bytes held from the device"),
    "memory_snapshot": (list, "The state of the allocator"),
    "memory_stats": (OrderedDict, "Numbers about the allocator"),
    "memory_stats_as_nested_dict": (dict, "Numbers about the allocator, nested"),
    "reset_accumulated_memory_stats": (lambda: None, "Starts the sums of the allocator anew"),
    "reset_peak_memory_stats": (lambda: None, "Starts the peaks of the allocator anew"),
    "set_rng_state_all": (lambda: None, "Restores the states of all devices' generators"),
}
globals().update({name: _QUESTIONS.needing(name, does) for name, does in _NEEDING.items()})
globals().update({name: _QUESTIONS.answering(name, *how) for name, how in _ANSWERING.items()})


class device:  # noqa: N801 - PyTorch's name
    """A block in which another device is used by default; None or a negative index changes nothing."""

    def __init__(self, device: Any) -> None:
        index = getattr(device, "index", device)
        self.index = -1 if index is None else index

    def __enter__(self) -> None:
        if self.index >= 0:
            self.before = globals()["current_device"]()
            globals()["set_device"](self.index)

    def __exit__(self, *exception: object) -> None:
        if self.index >= 0:
            globals()["set_device"](self.before)


class device_of(device):  # noqa: N801 - PyTorch's name
    """A block in which the device of a tensor is used by default; one of another kind changes nothing."""

    def __init__(self, obj: core.Tensor) -> None:
        super().__init__(obj.device.index if obj.device.type == "xpu" else None)


class _NeedsDevice:
    """What cannot be made without a device."""

    def __new__(cls, *args: object, **options: object) -> Any:
        return _QUESTIONS.needing(cls.__name__, cls.__doc__ or "")(*args, **options)


class Stream(_NeedsDevice):
    """A queue of work of the device."""


class Event(_NeedsDevice):
    """A mark in a stream."""


class XPUGraph(_NeedsDevice):
    """Captured work."""


class graph(_NeedsDevice):  # noqa: N801 - PyTorch's name
    """A block that is captured."""


class MemPool(_NeedsDevice):
    """Memory that a program keeps apart."""


class StreamContext:
    """A block whose work goes to a stream; None changes nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            _QUESTIONS.needing("enter_stream", "Begins a block")(self.stream)

    def __exit__(self, *exception: object) -> None:
        if self.stream is not None:
            _QUESTIONS.needing("exit_stream", "Ends a block")(self.stream)


def stream(stream: Any) -> StreamContext:
    """A block whose work goes to a stream; None changes nothing."""
    return StreamContext(stream)


__all__ = [
    "Event", "MemPool", "Stream", "StreamContext", "XPUGraph", "default_generators", "device", "device_count",
    "device_of", "empty_cache", "graph", "is_available", "is_current_stream_capturing", "is_initialized",
    "manual_seed", "manual_seed_all", "seed", "seed_all", "stream", "synchronize", *_NEEDING, *_ANSWERING,
]  # fmt: skip
