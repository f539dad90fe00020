"""Tensors in memory that does not move, for copies to a device."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from threading import Event
from typing import Any

from facula import core
from facula.data.worker import ExceptionWrapper

__all__ = ["pin_memory"]


def pin_memory(data: object, device: core.device | str | int | None = None) -> Any:
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


def _pin_memory_loop(
    in_queue: queue.Queue,
    out_queue: queue.Queue,
    device_id: int,
    done_event: Event,
    device: core.device | str | int | None,
) -> None:
    """What a thread of other packages' loaders does: pin the batches of one queue for the other one.

    It ends when it is told; a batch that cannot be pinned goes on as an `ExceptionWrapper`.
    """
    core.set_num_threads(1)
    while not done_event.is_set():
        try:
            number, data = in_queue.get(timeout=0.1)
        except queue.Empty:
            continue
        if not done_event.is_set() and not isinstance(data, ExceptionWrapper):
            try:
                data = pin_memory(data, device or None)
            except Exception:
                data = ExceptionWrapper(where=f"in pin memory thread for device {device_id}")
        while not done_event.is_set():
            try:
                out_queue.put((number, data), timeout=0.1)
                break
            except queue.Full:
                continue
