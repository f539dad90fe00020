"""Dataclasses as plain dictionaries.

Takes: instances of dataclasses, nested in any way. Gives: `_dataclass_to_dict`. Keeps true: containers keep
their kind.
"""

from __future__ import annotations

import dataclasses
from typing import Any

__all__: list[str] = []


def _dataclass_to_dict(obj: object) -> Any:
    """The same with dictionaries in place of dataclasses."""
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        names = [field.name for field in dataclasses.fields(obj)]
        return {name: _dataclass_to_dict(getattr(obj, name)) for name in names}
    if isinstance(obj, (list, tuple)):
        return type(obj)(_dataclass_to_dict(item) for item in obj)
    if isinstance(obj, dict):
        return {key: _dataclass_to_dict(item) for key, item in obj.items()}
    return obj
