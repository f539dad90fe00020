"""The errors of scripted code: what PyTorch's programs catch, and what the same code raises in Python.

Takes exceptions and their classes. Gives `ScriptError`, and classes that are both.
Keeps true: every error of scripted code is a `RuntimeError`; one that has another class in Python has
that one as well. What reaches the caller names the lines of the script that were under way.
"""

from __future__ import annotations

from typing import Any

__all__ = ["ScriptError", "as_runtime_error", "described", "note_place", "script_error"]


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


def _both(kind: type, base: type) -> Any:
    if (kind, base) not in _MADE:
        make: Any = type
        names = {"__module__": kind.__module__, "_python": kind}
        if kind.__str__ in (BaseException.__str__, KeyError.__str__):
            names["__str__"] = Exception.__str__  # the text as it is: KeyError shows it in quotes
        _MADE[kind, base] = make(kind.__name__, (base, kind), names)
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
    vars(made).update(vars(error))
    return made.with_traceback(error.__traceback__)


def note_place(error: Exception, place: Any, function: str) -> None:
    """Remember one more place in the script that an exception came through, from the inside out."""
    vars(error).setdefault("_script_frames", []).append((place, function))


def described(error: Exception) -> Exception:
    """The exception with the lines of the script that were under way in its text."""
    frames = vars(error).pop("_script_frames", None)
    if not frames or type(error).__str__ not in (BaseException.__str__, Exception.__str__):
        return error
    python = getattr(type(error), "_python", None) or (
        RuntimeError if isinstance(error, ScriptError) else type(error)
    )
    raised = isinstance(error, ScriptError)
    name = f"{python.__module__}.{python.__qualname__}" if raised else python.__name__
    lines = ["The following operation failed in the TorchScript interpreter.",
             "Traceback of TorchScript (most recent call last):"]  # fmt: skip
    lines += [place.shown(function) for place, function in reversed(frames)]
    error.args = ("\n".join([*lines, f"{name}: {error}"]),)
    return error
