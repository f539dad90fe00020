"""PyTorch's questions about MTIA devices, answered by whether a backend package offers them.

Takes: nothing. Gives: `is_available`, `device_count`, `synchronize`, `empty_cache`, ...
Keeps true: without a device the answers are those of a machine without one.
"""

from collections.abc import Callable
from typing import Any

from facula.devices.questions import Questions

_QUESTIONS = Questions("mtia")

is_available = _QUESTIONS.is_available
is_initialized = _QUESTIONS.is_initialized
device_count = _QUESTIONS.device_count
synchronize = _QUESTIONS.synchronize
empty_cache = _QUESTIONS.empty_cache
manual_seed = _QUESTIONS.manual_seed
manual_seed_all = _QUESTIONS.manual_seed

#: what raises without a device
_NEEDING = {
    "current_device": "The index of the device that is used by default",
    "current_stream": "The stream that work is put on",
    "default_stream": "The stream of the device",
    "get_device_capability": "What the device can do",
    "get_device_properties": "The properties of the device",
    "get_rng_state": "The state of the device's generator",
    "set_device": "Sets the device that is used by default",
    "set_rng_state": "Restores the state of the device's generator",
    "set_stream": "Sets the stream that work is put on",
}
#: what has an answer on a machine without a device
_ANSWERING: dict[str, tuple[Callable[[], Any], str]] = {
    "max_memory_allocated": (int, "The most bytes that tensors took"),
    "memory_allocated": (int, "Bytes of tensors on the device"),
    "memory_stats": (dict, "Numbers about the allocator"),
    "reset_peak_memory_stats": (lambda: None, "Starts the peaks of the allocator anew"),
}
globals().update({name: _QUESTIONS.needing(name, does) for name, does in _NEEDING.items()})
globals().update({name: _QUESTIONS.answering(name, *how) for name, how in _ANSWERING.items()})

__all__ = sorted(
    name
    for name in globals()
    if not name.startswith("_") and name not in ("Any", "Callable", "Questions")
)
