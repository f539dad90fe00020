"""PyTorch's questions about XPU devices, answered by whether a backend package offers them.

Takes: nothing. Gives: `is_available`, `device_count`, `synchronize`, `empty_cache`, ...
Keeps true: without a device the answers are those of a machine without one.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.devices import load, registered

__all__ = [
    "device_count", "empty_cache", "is_available", "is_current_stream_capturing", "is_initialized",
    "manual_seed", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether tensors can be put on such a device."""
    return "xpu" in registered() or load("xpu")


def is_initialized() -> bool:
    """Whether such a device is in use."""
    return "xpu" in registered()


def device_count() -> int:
    """How many such devices there are."""
    if not is_available():
        return 0
    counted = getattr(core.BACKENDS["xpu"], "device_count", None)
    return counted() if counted is not None else 1


def synchronize(device: Any = None) -> None:
    """Waits for the device."""
    if not is_available():
        fail(
            RuntimeError,
            "xpu.synchronize",
            "a device 'xpu' was required",
            "none",
            hint="facula.xpu.is_available() asks before",
        )
    core.BACKENDS["xpu"].synchronize(device)


def empty_cache() -> None:
    """Gives cached memory back; nothing to do without a device."""
    if is_initialized():
        core.BACKENDS["xpu"].empty_cache()


def is_current_stream_capturing() -> bool:
    """Whether a graph is being captured: never."""
    return False


def manual_seed(seed: int) -> None:
    """Random numbers do not depend on the device: `facula.manual_seed` seeds all of them."""
