"""PyTorch's questions about XPU devices, answered by whether a backend package offers them.

Takes: nothing. Gives: `is_available`, `device_count`, `synchronize`, `empty_cache`, ...
Keeps true: without a device the answers are those of a machine without one.
"""

from facula.devices.questions import Questions

__all__ = [
    "device_count", "empty_cache", "is_available", "is_current_stream_capturing", "is_initialized",
    "manual_seed", "synchronize",
]  # fmt: skip

_QUESTIONS = Questions("xpu")

is_available = _QUESTIONS.is_available
is_initialized = _QUESTIONS.is_initialized
device_count = _QUESTIONS.device_count
synchronize = _QUESTIONS.synchronize
empty_cache = _QUESTIONS.empty_cache
is_current_stream_capturing = _QUESTIONS.is_current_stream_capturing
manual_seed = _QUESTIONS.manual_seed
