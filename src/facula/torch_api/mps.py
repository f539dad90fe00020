"""PyTorch's questions about MPS devices, answered by whether a backend package offers them.

Takes: nothing. Gives: `is_available`, `device_count`, `synchronize`, `empty_cache`, ...
Keeps true: without a device the answers are those of a machine without one.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.devices import load, registered

__all__ = [
    "current_allocated_memory",
    "driver_allocated_memory",
    "recommended_max_memory",
    "device_count", "empty_cache", "is_available", "is_current_stream_capturing", "is_initialized",
    "manual_seed", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether tensors can be put on such a device."""
    return "mps" in registered() or load("mps")


def is_initialized() -> bool:
    """Whether such a device is in use."""
    return "mps" in registered()


def device_count() -> int:
    """How many such devices there are."""
    if not is_available():
        return 0
    counted = getattr(core.BACKENDS["mps"], "device_count", None)
    return counted() if counted is not None else 1


def synchronize(device: Any = None) -> None:
    """Waits for the device."""
    if not is_available():
        fail(
            RuntimeError,
            "mps.synchronize",
            "a device 'mps' was required",
            "none",
            hint="facula.mps.is_available() asks before",
        )
    core.BACKENDS["mps"].synchronize(device)


def empty_cache() -> None:
    """Gives cached memory back; nothing to do without a device."""
    if is_initialized():
        core.BACKENDS["mps"].empty_cache()


def is_current_stream_capturing() -> bool:
    """Whether a graph is being captured: never."""
    return False


def manual_seed(seed: int) -> None:
    """Random numbers do not depend on the device: `facula.manual_seed` seeds all of them."""


def _memory(name: str) -> int:
    """A number of bytes that the backend tells; none without one."""
    return getattr(core.BACKENDS["mps"], name)() if is_initialized() else 0


def current_allocated_memory() -> int:
    """Bytes of tensors on the device."""
    return _memory("current_allocated_memory")


def driver_allocated_memory() -> int:
    """Bytes held from the device."""
    return _memory("driver_allocated_memory")


def recommended_max_memory() -> int:
    """Bytes that the device is best used up to."""
    return _memory("recommended_max_memory")
