"""What PyTorch's module of a device answers, for a device that a package may add.

Takes: the name of the device. Gives: `Questions`, whose methods are the functions of that module.
Keeps true: without a device the answers are those of a machine without one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.devices.registry import load, registered

__all__ = ["Questions"]


def _named(function: Callable[..., Any], name: str, text: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    function.asks_backend = True  # type: ignore[attr-defined]
    return function


class Questions:
    """The questions about one type of device."""

    def __init__(self, name: str) -> None:
        self.name = name

    def is_available(self) -> bool:
        """Whether tensors can be put on such a device."""
        return self.name in registered() or load(self.name)

    def is_initialized(self) -> bool:
        """Whether such a device is in use."""
        return self.name in registered()

    def device_count(self) -> int:
        """How many such devices there are."""
        if not self.is_available():
            return 0
        counted = getattr(core.BACKENDS[self.name], "device_count", None)
        return counted() if counted is not None else 1

    def needing(self, name: str, does: str) -> Callable[..., Any]:
        """A function that the backend has; where there is no device, or it has none, an error."""

        def function(*args: object, **options: object) -> Any:
            answer = getattr(core.BACKENDS[self.name], name, None) if self.is_available() else None
            if answer is None:
                fail(
                    AssertionError,
                    f"{self.name}.{name}",
                    f"a device '{self.name}' was required (facula not compiled with "
                    f"{self.name.upper()} enabled)",
                    "none" if not self.is_available() else "a backend without this function",
                    hint=f"facula.{self.name}.is_available() asks before",
                )
            return answer(*args, **options)

        return _named(function, name, f"{does}; raises AssertionError without a device.")

    def answering(self, name: str, absent: Callable[[], Any], does: str) -> Callable[..., Any]:
        """A function that the backend has; without a device it gives what `absent` gives."""

        def function(*args: object, **options: object) -> Any:
            in_use = self.is_initialized()
            answer = getattr(core.BACKENDS[self.name], name, None) if in_use else None
            return absent() if answer is None else answer(*args, **options)

        return _named(function, name, f"{does}; harmless without a device.")

    def synchronize(self, device: core.device | str | int | None = None) -> None:
        """Waits for the device."""
        if not self.is_available():
            fail(
                RuntimeError,
                f"{self.name}.synchronize",
                f"a device '{self.name}' was required",
                "none",
                hint=f"facula.{self.name}.is_available() asks before",
            )
        core.BACKENDS[self.name].synchronize(device)

    def empty_cache(self) -> None:
        """Gives cached memory back; nothing to do without a device."""
        if self.is_initialized():
            core.BACKENDS[self.name].empty_cache()

    def is_current_stream_capturing(self) -> bool:
        """Whether a graph is being captured: never."""
        return False

    def manual_seed(self, seed: int) -> None:
        """Random numbers do not depend on the device: `facula.manual_seed` seeds all of them."""

    def memory(self, name: str) -> int:
        """A number of bytes that the backend tells; none without one."""
        return getattr(core.BACKENDS[self.name], name)() if self.is_initialized() else 0
