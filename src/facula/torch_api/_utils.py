"""Where PyTorch keeps the exception that goes between processes, and what it asks of devices."""

from __future__ import annotations

from types import ModuleType

from facula.data.worker import ExceptionWrapper, KeyErrorMessage

from . import accelerator

__all__ = ["ExceptionWrapper", "KeyErrorMessage"]


def _get_available_device_type() -> str | None:
    """The type of the accelerator; None where there is only the CPU."""
    found = accelerator.current_accelerator()
    return None if found is None else found.type


def _get_device_module(device_type: str) -> ModuleType:
    """The module of a type of device, such as `facula.cpu`."""
    return accelerator.get_device_module(device_type)
