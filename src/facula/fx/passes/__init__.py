"""`facula.fx.passes`: what is done to graphs. Each module holds one pass, and is imported when asked for."""

from importlib import import_module as _import_module
from pkgutil import iter_modules as _iter_modules
from typing import Any as _Any

_MODULES = frozenset(module.name for module in _iter_modules(__path__))


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _import_module(f"facula.fx.passes.{name}")
    raise AttributeError(f"module 'facula.fx.passes' has no attribute {name!r}")
