"""`wrap`: functions of which a trace records the call instead of what they do.

Takes functions, or their names, at the top level of a module. Gives `wrap`, and the table of what is
wrapped.
Keeps true: a function is known by the globals in which it stands and its name there, since that is
what a trace replaces.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail

__all__ = ["WRAPPED", "is_wrapped", "wrap"]

#: functions that are recorded as calls: (name of the module's globals, name) -> the globals
WRAPPED: dict[tuple[int, str], dict[str, Any]] = {}


def is_wrapped(target: object) -> bool:
    """Whether a function stands behind `wrap`."""
    place = (getattr(target, "__module__", None) or "", getattr(target, "__name__", ""))
    return any(place == (scope.get("__name__", ""), name) for (_, name), scope in WRAPPED.items())


def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Has calls of a function recorded as one step instead of being traced into; a decorator.

    Args:
        fn_or_name: the function, or its name, at the top level of a module

    Raises:
        RuntimeError: neither is given, or it is not at the top level of a module.

    Example:
        >>> @facula.fx.wrap
        ... def opaque(x):
        ...     return x * len(x)
        >>> opaque(facula.ones(2))
        tensor([2., 2.])
    """
    if callable(fn_or_name) and not isinstance(fn_or_name, str):
        name = fn_or_name.__name__
    elif isinstance(fn_or_name, str):
        name = fn_or_name
    else:
        fail(RuntimeError, "wrap", "a function or its name was required: Unsupported type for global "
             "function! Must be either a callable or string name", got=type(fn_or_name).__name__,
             hint="wrap(function) or wrap('name')")  # fmt: skip
    frame: Any = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        fail(NotImplementedError, "wrap", "the top level of a module was required: wrap must be called at "
             "the top level of a module", got=f"a call in {frame.f_code.co_name}",
             hint="move the call out of the function")  # fmt: skip
    WRAPPED[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name
