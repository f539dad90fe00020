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
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_device_module",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_index",
    "set_stream",
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


def get_device_module(device: core.device | str | int | None = None) -> Any:
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

    def __new__(cls, device: core.device | str | int | None = None, **options: object) -> Any:
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


def synchronize(device: core.device | str | int | None = None) -> None:
    """Waits for the device; nothing to wait for on the CPU."""
    found = current_accelerator()
    wait = getattr(core.BACKENDS[found.type], "synchronize", None) if found is not None else None
    if wait is not None:
        wait(device)


# ------------------------------------------------------------------ what a backend answers


def _of_backend(name: str) -> Any:
    """The function of the accelerator's backend, or of its module, that has a name."""
    found = current_accelerator()
    if found is None:
        fail(
            RuntimeError,
            name,
            "an accelerator was required (Cannot access accelerator device when none is available)",
            "none",
            hint="facula.accelerator.is_available() asks before",
        )
    module = getattr(sys.modules["facula"], found.type, None)
    answer = getattr(core.BACKENDS[found.type], name, None) or getattr(module, name, None)
    if hasattr(answer, "asks_backend"):  # it would answer as a machine without the device
        answer = None
    if answer is None:
        fail(
            RuntimeError,
            name,
            f"a backend that has {name} was required",
            found.type,
            hint="a backend's package defines it on its backend or its module",
        )
    return answer


def _index(device: core.device | str | int | None) -> int:
    """The index that a device, or a text for one, names."""
    if device is None:
        return current_device_index()
    return device if isinstance(device, int) else core.device(device).index or 0


def current_stream(device: core.device | str | int | None = None, /) -> Any:
    """The stream in which work is queued."""
    return _of_backend("current_stream")(_index(device))


def set_stream(stream: object) -> None:
    """Queue work in another stream."""
    _of_backend("set_stream")(stream)


def set_device_index(device: core.device | str | int | None, /) -> None:
    """Make another device of the accelerator's type the one in use."""
    set_index = _of_backend("set_device")
    set_index(_index(device))


def get_device_capability(device: core.device | str | int | None = None, /) -> dict[str, Any]:
    """What the device can do, by name."""
    found: dict[str, Any] = _of_backend("get_device_capability")(_index(device))
    return found


def empty_cache() -> None:
    """Give memory that the device's allocator keeps back to the system."""
    _of_backend("empty_cache")()


def empty_host_cache() -> None:
    """Give memory of the machine that is kept for copies back to the system."""
    _of_backend("empty_host_cache")()


def memory_stats(device_index: Any = None, /) -> dict[str, Any]:
    """What the device's allocator counts, by name."""
    found: dict[str, Any] = _of_backend("memory_stats")(_index(device_index))
    return found


def memory_allocated(device_index: Any = None, /) -> int:
    """How many bytes tensors hold."""
    return int(_of_backend("memory_allocated")(_index(device_index)))


def max_memory_allocated(device_index: Any = None, /) -> int:
    """How many bytes tensors held at most."""
    return int(_of_backend("max_memory_allocated")(_index(device_index)))


def memory_reserved(device_index: Any = None, /) -> int:
    """How many bytes the device's allocator holds."""
    return int(_of_backend("memory_reserved")(_index(device_index)))


def max_memory_reserved(device_index: Any = None, /) -> int:
    """How many bytes the device's allocator held at most."""
    return int(_of_backend("max_memory_reserved")(_index(device_index)))


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """How many bytes are free, and how many there are."""
    free, total = _of_backend("get_memory_info")(_index(device_index))
    return int(free), int(total)


def reset_accumulated_memory_stats(device_index: Any = None, /) -> None:
    """Count from zero what adds up."""
    _of_backend("reset_accumulated_memory_stats")(_index(device_index))


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Forget what was held at most."""
    _of_backend("reset_peak_memory_stats")(_index(device_index))


class device_index:  # noqa: N801 - PyTorch's name
    """A block in which another device of the accelerator's type is in use; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.index = device

    def __enter__(self) -> None:
        if self.index is not None:
            self.before = current_device_index()
            set_device_index(self.index)

    def __exit__(self, *exception: object) -> None:
        if self.index is not None:
            set_device_index(self.before)


#: PyTorch's older names
set_device_idx = set_device_index
current_device_idx = current_device_index
