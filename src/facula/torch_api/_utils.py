"""Where PyTorch keeps the exception that goes between processes, and what it asks of devices."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from facula.core.errors import fail
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


def _set_obj_state(obj: object, state: object) -> Any:
    """An object with the state of a pickle: its dictionary, or a pair of it and what stands in slots."""
    if isinstance(state, tuple) and len(state) != 2:
        fail(RuntimeError, "_set_obj_state", "a dictionary, or a pair of two, was required (Invalid serialized state)",
             f"{len(state)} entries", hint="copyreg.__reduce_ex__ makes such pairs")  # fmt: skip
    inside, slots = state if isinstance(state, tuple) else (state, None)
    obj.__dict__.update(inside or {})
    for name, value in (slots or {}).items():
        setattr(obj, name, value)
    return obj
