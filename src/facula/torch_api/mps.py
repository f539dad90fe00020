"""PyTorch's questions about MPS devices, answered by whether a backend package offers them.

Takes: nothing. Gives: `is_available`, `device_count`, `synchronize`, `empty_cache`, ...
Keeps true: without a device the answers are those of a machine without one.
"""

from facula.devices.questions import Questions

__all__ = [
    "current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache",
    "is_available", "is_current_stream_capturing", "is_initialized", "manual_seed",
    "recommended_max_memory", "synchronize",
]  # fmt: skip

_QUESTIONS = Questions("mps")

is_available = _QUESTIONS.is_available
is_initialized = _QUESTIONS.is_initialized
device_count = _QUESTIONS.device_count
synchronize = _QUESTIONS.synchronize
empty_cache = _QUESTIONS.empty_cache
is_current_stream_capturing = _QUESTIONS.is_current_stream_capturing
manual_seed = _QUESTIONS.manual_seed


def current_allocated_memory() -> int:
    """Bytes of tensors on the device."""
    return _QUESTIONS.memory("current_allocated_memory")


def driver_allocated_memory() -> int:
    """Bytes held from the device."""
    return _QUESTIONS.memory("driver_allocated_memory")


def recommended_max_memory() -> int:
    """Bytes that the device is best used up to."""
    return _QUESTIONS.memory("recommended_max_memory")
