"""The errors of scripted code: what PyTorch's programs catch, and what the same code raises in Python.

Takes exceptions and their classes. Gives `ScriptError`, and classes that are both.
Keeps true: every error of scripted code is a `RuntimeError`; one that has another class in Python has
that one as well.
"""

from __future__ import annotations

from typing import Any

__all__ = ["ScriptError", "as_runtime_error", "script_error"]


class ScriptError(RuntimeError):
    """An exception that scripted code raised.

    Example:
        >>> issubclass(facula.jit.Error, Exception)
        True
    """


def script_error(kind: Any) -> Any:
    """The class for `raise kind(...)` in scripted code."""
    return ScriptError if issubclass(ScriptError, kind) else _both(kind, ScriptError)


_MADE: dict[Any, Any] = {}


def _both(kind: Any, base: Any) -> Any:
    if (kind, base) not in _MADE:
        make: Any = type
        _MADE[kind, base] = make(kind.__name__, (base, kind), {"__module__": kind.__module__})
    return _MADE[kind, base]


def as_runtime_error(error: Exception) -> Exception:
    """What an operator raised, as a `RuntimeError` of the same text."""
    kind = type(error)
    if isinstance(error, RuntimeError) or kind.__module__ != "builtins":
        return error
    try:
        made: Exception = _both(kind, RuntimeError)(*error.args)
    except TypeError:  # its class takes other arguments than it keeps
        return error
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    return made.with_traceback(error.__traceback__)
