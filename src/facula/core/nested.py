"""Tensors among nested arguments and results.

Takes: tuples (named ones too), lists and dicts, as deep as they are nested. Gives: `tensors_in` and `mapped`.
Keeps true: a structure has the classes that it had; classes of other libraries are leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core

__all__ = ["mapped", "tensors_in"]


def tensors_in(structure: object) -> list[Any]:
    """Every tensor in a structure, in order."""
    if isinstance(structure, core.Tensor):
        return [structure]
    if isinstance(structure, dict):
        structure = list(structure.values())
    if isinstance(structure, (tuple, list)):
        return [tensor for item in structure for tensor in tensors_in(item)]
    return []


def mapped(values: Any, function: Callable[[Any], Any], device: Any = None) -> Any:
    """A structure with a function applied to every tensor; accelerators named in it become `device` if given."""
    if isinstance(values, core.Tensor):
        return function(values)
    if isinstance(values, tuple) and hasattr(values, "_fields"):
        return type(values)(*[mapped(value, function, device) for value in values])
    if isinstance(values, (tuple, list)):
        return type(values)(mapped(value, function, device) for value in values)
    if isinstance(values, dict):
        return {key: mapped(value, function, device) for key, value in values.items()}
    accelerator = isinstance(values, core.device) and values.type not in ("cpu", "meta")
    return values if device is None or not accelerator else device
