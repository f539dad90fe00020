"""Marks on functions: never captured, or captured as one node.

Takes: functions. Gives: whether they carry a mark.
Keeps true: a mark stands on the function itself, so that it goes away with it.
"""

from __future__ import annotations

from typing import Any

_ALLOWED: dict[int, Any] = {}
_BREAKS: dict[int, Any] = {}


def disable(function: Any, reason: str | None = None) -> None:
    """Never capture this function."""
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = reason


def is_disabled(function: Any) -> bool:
    """Whether the function is never captured."""
    return bool(getattr(function, "_torchdynamo_disable", False)) or id(function) in _BREAKS


def allow_in_graph(function: Any) -> None:
    """Take calls of this function as one node."""
    _ALLOWED[id(function)] = function
    _BREAKS.pop(id(function), None)


def disallow_in_graph(function: Any) -> None:
    """Break at calls of this function."""
    _BREAKS[id(function)] = function
    _ALLOWED.pop(id(function), None)


def is_allowed_in_graph(function: Any) -> bool:
    """Whether calls of the function are one node."""
    return id(function) in _ALLOWED
