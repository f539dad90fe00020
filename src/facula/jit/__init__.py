"""TorchScript's marks on Python code. facula runs the code as it stands.

Takes functions, methods and classes that programs mark for TorchScript's compiler. Gives the marks,
and the answers that are true here: nothing is scripted, nothing is traced. Keeps true: a mark
returns what it marks; asking for TorchScript itself is an error that says what to use instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NoReturn

from facula.core.errors import fail
from facula.nn import Module

__all__ = [
    "Attribute",
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "load",
    "save",
    "script",
    "script_if_tracing",
    "trace",
    "trace_module",
    "unused",
]


def _marks(function: Callable) -> Callable:
    """A mark that is written bare, with brackets, or with arguments."""

    @functools.wraps(function)
    def mark(marked: Any = None, /, **options: Any) -> Any:
        return marked if callable(marked) else lambda later: later

    return mark


@_marks
def ignore(drop: bool = False) -> None:
    """TorchScript would leave the function to Python."""


@_marks
def unused(fn: Any) -> None:
    """TorchScript would replace the function by an error."""


@_marks
def export(fn: Any) -> None:
    """TorchScript would compile the method beside `forward`."""


@_marks
def interface(obj: Any) -> None:
    """TorchScript would treat the class as an interface of modules."""


@_marks
def script_if_tracing(fn: Any) -> None:
    """TorchScript would compile the function once a trace comes by."""


_script_if_tracing = script_if_tracing


@_marks
def _overload(func: Any) -> None:
    """TorchScript would choose among the declarations by the arguments' types."""


@_marks
def _overload_method(func: Any) -> None:
    """The same for methods."""


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; TorchScript would take the type from here."""
    return the_value


class Attribute:
    """A value with the type that TorchScript would give it."""

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


class ScriptModule(Module):
    """The class of scripted modules: facula makes none."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        _refuse("ScriptModule")


class ScriptFunction:
    """The class of scripted functions: facula makes none."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        _refuse("ScriptFunction")


def is_scripting() -> bool:
    """Whether the code runs inside TorchScript: never."""
    return False


def is_tracing() -> bool:
    """Whether `trace` is recording: never."""
    return False


def _refuse(name: str) -> NoReturn:
    fail(
        NotImplementedError,
        f"jit.{name}",
        "code that runs without TorchScript",
        got="a request for TorchScript, which facula does not have",
        hint="call the function or module as it is, or facula.compile() it",
    )


def script(obj: Any, *arguments: Any, **options: Any) -> Any:
    """A class as it is, as in PyTorch, where it becomes a type that scripted code may use.

    Raises:
        NotImplementedError: anything else; there is no TorchScript.
    """
    if isinstance(obj, type) and not issubclass(obj, Module):
        return obj
    _refuse("script")


def trace(func: Any, *arguments: Any, **options: Any) -> Any:
    """Raises NotImplementedError: there is no TorchScript."""
    _refuse("trace")


def trace_module(mod: Any, *arguments: Any, **options: Any) -> Any:
    """Raises NotImplementedError: there is no TorchScript."""
    _refuse("trace_module")


def load(f: Any, *arguments: Any, **options: Any) -> Any:
    """Raises NotImplementedError: there is no TorchScript."""
    _refuse("load")


def save(m: Any, f: Any, *arguments: Any, **options: Any) -> None:
    """Raises NotImplementedError: there is no TorchScript."""
    _refuse("save")
