"""Tensors in memory that does not move, for copies to a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from facula import core

__all__ = ["pin_memory"]


def pin_memory(data: Any, device: Any = None) -> Any:
    """The same data with its tensors pinned, inside of dictionaries and sequences too."""
    if isinstance(data, core.Tensor):
        return data.pin_memory() if device is None else data.pin_memory(device)
    if isinstance(data, (str, bytes)):
        return data
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, Mapping):
        return type(data)({key: pin_memory(value, device) for key, value in data.items()})  # type: ignore[call-arg]
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(value, device) for value in data))
    if isinstance(data, (list, tuple)):
        return type(data)(pin_memory(value, device) for value in data)
    return data
