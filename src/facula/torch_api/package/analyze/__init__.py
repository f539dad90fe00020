"""What an object, a package or a call needs.

Takes objects, errors of packaging, and callables. Gives the names of modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType, ModuleType
from typing import Any

from .._mangling import is_mangled
from ..errors import PackagingError

__all__ = ["find_first_use_of_broken_modules", "is_from_package", "trace_dependencies"]


def is_from_package(obj: object) -> bool:
    """Whether a module, or an object by its class, came from a package."""
    name = obj.__name__ if isinstance(obj, ModuleType) else getattr(type(obj), "__module__", "")
    return is_mangled(str(name))


def find_first_use_of_broken_modules(exc: PackagingError) -> dict[str, list[str]]:
    """For each module that cannot be packaged, a chain of modules that ends with it."""
    graph = exc.dependency_graph
    return {
        name: graph.first_path(name)
        for name, attributes in graph.nodes.items()
        if attributes.get("error") is not None
    }


def trace_dependencies(
    callable: Callable[..., Any], inputs: Iterable[tuple[Any, ...]]
) -> list[str]:
    """The modules whose Python functions ran while a callable was called.

    Args:
        inputs: the arguments of each call.
    """
    found: set[str] = set()

    def seen(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            name = frame.f_globals.get("__name__")
            if isinstance(name, str):
                found.add(name)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        for given in inputs:
            callable(*given)
    finally:
        sys.setprofile(before)
    found.discard(__name__)
    return sorted(found)
