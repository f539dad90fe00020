"""The device that functions which make tensors use, under the names of PyTorch's module.

Takes: devices. Gives: `DeviceContext`, a block in which tensors are made on a device, and `set_device`.
Keeps true: it is the block that `with facula.device(...)` opens, and the state of `set_default_device`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula import core
from facula.namespaces.switches import set_default_device as set_device

__all__ = ["DeviceContext", "device_decorator", "set_device"]


class DeviceContext:
    """A block in which functions that make tensors put them on a device.

    Args:
        device: the device, or its name

    Example:
        >>> with DeviceContext("meta"):
        ...     print(facula.ones(2).device)
        meta
    """

    def __init__(self, device: core.device | str) -> None:
        self.device = core.device(device)

    def __enter__(self) -> DeviceContext:
        self.device.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.device.__exit__(*exception)


def device_decorator(device: core.device | str, func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs with the device as the one of new tensors."""

    @functools.wraps(func)
    def on_device(*args: Any, **options: Any) -> Any:
        with DeviceContext(device):
            return func(*args, **options)

    return on_device


def __getattr__(name: str) -> Any:
    if name == "CURRENT_DEVICE":
        return core.DEVICE_STACK[-1] if core.DEVICE_STACK else None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
