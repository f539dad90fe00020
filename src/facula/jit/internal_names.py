"""`torch._jit_internal`: the marks and types of scripts under the names that libraries import from there.

Takes functions, annotations and classes. Gives marks, and answers about them.
Keeps true: nothing here differs from `facula.jit`; what only PyTorch's compiler asks is absent.
"""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035

from facula.jit.annotations import BroadcastingList1, BroadcastingList2, BroadcastingList3
from facula.jit.functions import caller_names
from facula.jit.marks import (
    _marked,
    export,
    ignore,
    is_scripting,
    mark_of,
    unused,
)
from facula.jit.marks import _overload as _overload
from facula.jit.marks import _overload_method as _overload_method
from facula.jit.python_types import qualified_name
from facula.jit.questions import check_empty_containers
from facula.namespaces.futures import Future
from facula.nn.functional_scaled import boolean_dispatch

__all__ = [
    "Any",
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Dict",
    "Final",
    "FunctionModifiers",
    "Future",
    "List",
    "Optional",
    "Tuple",
    "Union",
    "boolean_dispatch",
    "check_empty_containers",
    "createResolutionCallbackFromFrame",
    "export",
    "get_callable_argument_names",
    "get_torchscript_modifier",
    "ignore",
    "is_dict",
    "is_final",
    "is_future",
    "is_ignored_fn",
    "is_list",
    "is_optional",
    "is_scripting",
    "is_tuple",
    "is_union",
    "should_drop",
    "unused",
]


class FunctionModifiers:
    """The marks of functions, as `_torchscript_modifier` holds them."""

    UNUSED = "unused"
    IGNORE = "ignore"
    EXPORT = "export"
    DEFAULT = ""
    COPY_TO_SCRIPT_WRAPPER = "copied"


def get_torchscript_modifier(fn: object) -> str | None:
    """The mark of a function; None of what is no function."""
    return mark_of(fn) if callable(fn) else None


def is_ignored_fn(fn: Any) -> bool:
    """Whether scripted code leaves the function to Python, or may not call it."""
    return mark_of(fn) in ("ignore", "unused")


def should_drop(fn: Any) -> bool:
    """Whether scripted code may not call the function."""
    return mark_of(fn) == "unused"


def _copy_to_script_wrapper(fn: Any) -> Any:
    """Marks a method that the scripted module keeps for Python."""
    return _marked(fn, FunctionModifiers.COPY_TO_SCRIPT_WRAPPER)


def createResolutionCallbackFromFrame(frames_up: int = 0) -> Callable[[str], Any]:
    """A way to look names up as the caller's code does."""
    names = caller_names(frames_up + 1)
    return lambda name: names.get(name, getattr(typing, name, None))


def get_callable_argument_names(fn: Callable[..., Any]) -> list[str]:
    """The names of the arguments that may be given by position and by name; none where a function has no signature."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


def is_optional(ann: object) -> bool:
    """Whether an annotation is an `Optional`."""
    return type(None) in typing.get_args(ann) and is_union(ann)


def is_union(ann: object) -> bool:
    """Whether an annotation is a `Union`."""
    return typing.get_origin(ann) in (typing.Union, type(int | None))


def is_tuple(ann: object) -> bool:
    """Whether an annotation is a tuple."""
    return typing.get_origin(ann) is tuple


def is_list(ann: object) -> bool:
    """Whether an annotation is a list."""
    return typing.get_origin(ann) is list


def is_dict(ann: object) -> bool:
    """Whether an annotation is a dictionary."""
    return typing.get_origin(ann) is dict


def is_final(ann: object) -> bool:
    """Whether an annotation is a constant's."""
    return typing.get_origin(ann) is Final or ann is Final


def is_future(ann: object) -> bool:
    """Whether an annotation is a future."""
    return typing.get_origin(ann) is Future or ann is Future


@contextlib.contextmanager
def _disable_emit_hooks() -> Iterator[None]:
    """Nothing looks on while scripts are made, with or without this block."""
    yield


_qualified_name = qualified_name
