"""The device that programs should prefer to the CPU, if a backend offers one.

Takes: nothing. Gives: `current_accelerator`, `is_available`, `device_count`, ...
Keeps true: it is the first registered backend with elements, or one that an installed package offers.
"""

from __future__ import annotations

import sys
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.devices import load, registered

__all__ = [
    "Event",
    "Stream",
    "current_accelerator",
    "current_device_index",
    "device_count",
    "get_device_module",
    "is_available",
    "synchronize",
]

_KNOWN = ("cuda", "mps", "xpu")


def current_accelerator(check_available: bool = False) -> core.device | None:
    """The device to prefer, None where there is only the CPU."""
    for name in registered():
        if getattr(core.BACKENDS[name], "has_data", True):
            return core.device(name)
    for name in _KNOWN:
        if load(name):
            return core.device(name)
    return None


def is_available() -> bool:
    """Whether there is a device to prefer to the CPU."""
    return current_accelerator() is not None


def get_device_module(device: Any = None) -> Any:
    """The module of a device's own functions, such as ``facula.cpu``.

    Args:
        device: a device, its type, or None for the one to prefer

    Example:
        >>> facula.get_device_module("cpu").__name__.rpartition(".")[2]
        'cpu'
    """
    if device is None:
        device = current_accelerator() or core.device("cpu")
    name = core.device(device).type
    module = getattr(sys.modules["facula"], name, None)
    if module is None:
        fail(
            RuntimeError,
            "get_device_module",
            f"Device '{name}' does not have a corresponding module registered as 'facula.{name}'",
            hint="a backend's package registers one with facula._register_device_module",
        )
    return module


# asked once where a program is captured
get_device_module._facula_constant_result = True  # type: ignore[attr-defined]


def _register_device_module(device_type: str, module: Any) -> None:
    """Make a module that of a device's own functions, as `facula.<device_type>`."""
    name = core.device(device_type).type
    root = sys.modules["facula"]
    if hasattr(root, name):
        fail(
            RuntimeError,
            "_register_device_module",
            f"a device without a module was required: '{name}' has been registered already",
            getattr(root, name),
            hint="register it once, when the backend's package is imported",
        )
    setattr(root, name, module)
    sys.modules[f"facula.{name}"] = module


def device_count() -> int:
    """How many such devices there are."""
    found = current_accelerator()
    if found is None:
        return 0
    counted = getattr(core.BACKENDS[found.type], "device_count", None)
    return counted() if counted is not None else 1


def current_device_index() -> int:
    """The index of the one in use.

    Raises:
        RuntimeError: there is none.
    """
    found = current_accelerator()
    if found is None:
        fail(
            RuntimeError,
            "accelerator",
            "an accelerator was required",
            "none",
            hint="facula.accelerator.is_available() asks before",
        )
    return found.index or 0


class _OfAccelerator:
    """What only an accelerator can make: its backend does."""

    def __new__(cls, device: Any = None, **options: Any) -> Any:
        found = core.device(device) if device is not None else current_accelerator()
        backend = core.BACKENDS[found.type] if found is not None and found.type != "cpu" else None
        make = getattr(backend, cls.__name__, None)
        if make is None:
            required = "a device with streams was required (no accelerator is available)"
            hint = "the CPU runs each operator before the next one begins: no stream is needed"
            fail(RuntimeError, cls.__name__, required, found or "none", hint)
        return make(found, **options)


class Stream(_OfAccelerator):
    """A queue of work of the accelerator; on the CPU work is done when a call comes back.

    Args:
        device: None for the accelerator

    Raises:
        RuntimeError: the device has no streams.

    Example:
        >>> try:
        ...     facula.Stream("cpu")
        ... except RuntimeError:
        ...     print("the CPU has none")
        the CPU has none
    """


class Event(_OfAccelerator):
    """A mark in a stream of the accelerator.

    Args:
        device: None for the accelerator

    Raises:
        RuntimeError: the device has no streams.

    Example:
        >>> try:
        ...     facula.Event("cpu")
        ... except RuntimeError:
        ...     print("the CPU has none")
        the CPU has none
    """


def synchronize(device: Any = None) -> None:
    """Waits for the device; nothing to wait for on the CPU."""
    found = current_accelerator()
    wait = getattr(core.BACKENDS[found.type], "synchronize", None) if found is not None else None
    if wait is not None:
        wait(device)
