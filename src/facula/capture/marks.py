"""Marks on functions: never captured, or captured as one node.

Takes: functions. Gives: whether they carry a mark.
Keeps true: a mark stands on the function itself, so that it goes away with it.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

#: compiled function -> the function; on the side, since `functools.wraps` copies attributes
_ORIGINALS: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_ALLOWED: dict[int, Any] = {}
_BREAKS: dict[int, Any] = {}


def set_original(compiled: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Note what a compiled function is made of."""
    _ORIGINALS[compiled] = function


def original_of(function: Any) -> Any:
    """What a compiled function (or method) is made of; None for others."""
    if isinstance(function, types.MethodType):
        inner = original_of(function.__func__)
        return None if inner is None else types.MethodType(inner, function.__self__)
    if not isinstance(function, types.FunctionType):
        return None
    return _ORIGINALS.get(function)


def disable(function: Any, reason: str | None = None) -> None:
    """Never capture this function."""
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = reason


def is_disabled(function: Callable[..., Any]) -> bool:
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


def is_allowed_in_graph(function: Callable[..., Any]) -> bool:
    """Whether calls of the function are one node."""
    return id(function) in _ALLOWED
