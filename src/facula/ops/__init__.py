"""The operator table: importing this package defines every operator.

Takes: the core. Gives: `TABLE`, `F` and `PLACES` filled, Python's operators bound, the methods of Tensor attached.
Keeps true: a family is one module (or package) of definitions; nothing here names an operator but by deriving it.
"""

import os
from importlib import import_module
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.core.errors import no_attribute as _no_attribute
from facula.ops.table import overloads, pointwise_rules
from facula.ops.table.registry import PLACES, TABLE, F

#: what definitions are made of: imported by them, and by the code generator
_WITHOUT_OPERATORS = ("expr", "programs", "table")


def _modules(folder: str) -> list[str]:
    """The modules and packages in a folder, by name."""
    found = {name.partition(".")[0] for name in os.listdir(folder)}
    return sorted(name for name in found if not name.startswith("_"))


def _define(package: Any) -> None:
    """Import every module of a package, but those that it gives on demand."""
    later = getattr(package, "ON_DEMAND", ())
    for name in _modules(package.__path__[0]):
        if name not in later:
            import_module(f"{package.__name__}.{name}")


_PACKAGES = _modules(__path__[0])

for _package in _PACKAGES:
    if _package not in _WITHOUT_OPERATORS:
        _define(import_module(f"facula.ops.{_package}"))

core.bind_operators(TABLE)
core.HEARD[1] = lambda: import_module("facula.ops.table.heard_layers")
core.SUM[0] = TABLE["sum"]
pointwise_rules.STEPWISE[0] = lambda: (
    import_module("facula.ops.pointwise.steps"),
    import_module("facula.ops.table.stepwise"),
)[1]
pointwise_rules.NARROW[0] = lambda: import_module("facula.ops.forms.narrow")


def _attach_methods() -> None:
    """Put the operators that are methods onto Tensor."""
    for name, operator in PLACES.get("Tensor", {}).items():
        core.set_type_attribute(core.Tensor, name, operator)


_attach_methods()


#: the packages whose compiled operators were refused: functions that they register for them have no object
REFUSED_LIBRARIES: set[str] = set()

#: compiled libraries (`package/file`) whose operators facula defines itself: the module with the definitions.
#: The root package fills it.
SERVED_LIBRARIES: dict[str, str] = {}

#: a text in libraries that are built with facula's headers for C++, and the module that loads them
EXTENSION_MARK = b"facula C++ extension 1"
EXTENSION_LOADER = "facula.utils.cpp_extension.build"


def load_library(path: Any) -> None:
    """Loads a library of operators that was built with facula's headers for C++ (`utils.cpp_extension`), or defines
    the operators of a compiled library of PyTorch's that facula has definitions for.

    Raises OSError for all others: they are compiled against PyTorch's own code. Packages catch this and go
    on without theirs.
    """
    if _is_extension(path):
        import_module(EXTENSION_LOADER).load_shared(os.fspath(path))
        return
    *folders, file = os.path.abspath(str(path)).split(os.sep)
    name = file.partition(".")[0]
    for package in reversed(folders[-2:]):
        served = SERVED_LIBRARIES.get(f"{package}/{name}")
        if served is not None:
            import_module(served)
            return
    REFUSED_LIBRARIES.add(folders[-1])
    fail(
        OSError,
        "ops.load_library",
        f"a library of operators for facula was required (Could not load this library: {path})",
        got=path,
        hint="build it with facula.utils.cpp_extension, or define the operators with facula.library",
    )


def _is_extension(path: Any) -> bool:
    """Whether a file has the mark of a library for facula: nothing else is loaded."""
    try:
        with open(path, "rb") as file:
            return EXTENSION_MARK in file.read()
    except OSError:
        return False


def __getattr__(name: str) -> Any:
    """A module that was not imported above, or `facula.ops.<namespace>`, see `ops.table.overloads`."""
    if name.startswith("__"):
        raise _no_attribute(__name__, name)
    if name in _PACKAGES:
        return import_module(f"facula.ops.{name}")
    # an attribute of the module from now on, which may be deleted as PyTorch's may
    return globals().setdefault(name, overloads.namespace(name))


__all__ = ["PLACES", "TABLE", "F", "overloads", "pointwise_rules"]
