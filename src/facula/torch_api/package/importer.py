"""Where modules come from: the interpreter, a package, or several places in an order.

Takes names of modules, and objects. Gives modules, and the names under which objects are found.
Keeps true: a name is given only where the object itself is found under it.
"""

from __future__ import annotations

import importlib
import pickle
from abc import ABC, abstractmethod
from types import ModuleType
from typing import Any

from facula.core.errors import fail

from ._mangling import demangle, get_mangle_prefix, is_mangled

__all__ = ["Importer", "ObjMismatchError", "ObjNotFoundError", "OrderedImporter", "sys_importer"]


class ObjNotFoundError(Exception):
    """An importer does not find an object under its name."""


class ObjMismatchError(Exception):
    """An importer finds another object under an object's name."""


class Importer(ABC):
    """An environment to import modules from.

    Example:
        >>> from facula.package import sys_importer
        >>> sys_importer.import_module("math").sqrt(4)
        2.0
    """

    modules: dict[str, Any]

    @abstractmethod
    def import_module(self, module_name: str) -> ModuleType:
        """The module of a name, as `importlib.import_module` gives it."""

    def get_name(self, obj: object, name: str | None = None) -> tuple[str, str]:
        """The module and the name under which this environment has an object.

        Raises:
            ObjNotFoundError: there is none.
            ObjMismatchError: another object has that name here.
        """
        name = name or _own_name(obj)
        module_name = self.whichmodule(obj, name)
        plain = demangle(module_name)
        hint = "name the importer that it came from: PackageExporter(f, importer=(importer, sys_importer))"
        try:
            found: Any = self.import_module(plain)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, KeyError, AttributeError):
            fail(
                ObjNotFoundError,
                "package",
                f"an object that can be imported as {plain}.{name} was required",
                repr(obj),
                hint=hint,
            )
        if found is not obj:
            places = f"{get_mangle_prefix(module_name)} and {_place(found)}"
            fail(
                ObjMismatchError,
                "package",
                f"the object that is imported as {plain}.{name} was required",
                f"another of this name ({places})",
                hint=hint,
            )
        return module_name, name

    def whichmodule(self, obj: object, name: str) -> str:
        """The name of the module that has an object; "__main__" where none is found."""
        module_name = getattr(obj, "__module__", None)
        if module_name is not None:
            return str(module_name)
        for module_name, module in list(self.modules.items()):
            if module is not None and getattr(module, name, None) is obj:
                return module_name
        return "__main__"


def _own_name(obj: Any) -> str:
    """The name that an object says it has."""
    # functions have the one of `object`, which refuses
    own = not isinstance(obj, type) and type(obj).__reduce__ is not object.__reduce__
    reduced = obj.__reduce__() if own else None
    if isinstance(reduced, str):
        return reduced
    return str(getattr(obj, "__qualname__", None) or obj.__name__)


def _place(obj: object) -> str:
    module = str(getattr(obj, "__module__", ""))
    return get_mangle_prefix(module) if is_mangled(module) else "the interpreter"


class _SysImporter(Importer):
    """The interpreter's own modules."""

    def import_module(self, module_name: str) -> ModuleType:
        return importlib.import_module(module_name)

    def whichmodule(self, obj: object, name: str) -> str:
        found: str = vars(pickle)["whichmodule"](obj, name)
        return found


#: imports what is installed
sys_importer = _SysImporter()


class OrderedImporter(Importer):
    """Several environments: the first one that has a module gives it."""

    def __init__(self, *args: Importer) -> None:
        self._importers = list(args)

    def import_module(self, module_name: str) -> ModuleType:
        """The module that the first importer has."""
        found: ModuleNotFoundError | None = None
        for importer in self._importers:
            try:
                return importer.import_module(module_name)
            except ModuleNotFoundError as error:
                found = error
        if found is not None:
            raise found
        return fail(
            ModuleNotFoundError,
            "OrderedImporter",
            "an importer was required",
            "none",
            hint="OrderedImporter(sys_importer)",
        )

    def whichmodule(self, obj: object, name: str) -> str:
        """What the first importer says that finds the object's module."""
        for importer in self._importers:
            module_name = importer.whichmodule(obj, name)
            if module_name != "__main__":
                return module_name
        return "__main__"

    def get_source(self, module_name: str) -> str | None:
        """The source of a module, from the first importer that keeps sources."""
        for importer in self._importers:
            get = getattr(importer, "get_source", None)
            if get is not None:
                try:
                    found: str = get(module_name)
                except ImportError:
                    continue
                return found
        return None
