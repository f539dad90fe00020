"""`facula.fx.passes`: what is done to graphs. Each module holds one pass, and is imported when asked for."""

from importlib import import_module as _import_module
from pkgutil import iter_modules as _iter_modules
from typing import Any as _Any

from facula.core.errors import no_attribute as _no_attribute

_MODULES = frozenset(module.name for module in _iter_modules(__path__))


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _import_module(f"facula.fx.passes.{name}")
    raise _no_attribute(__name__, name)
