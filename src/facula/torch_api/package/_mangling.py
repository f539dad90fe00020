"""Names of modules that come from packages: `<torch_package_0>.module`, so that none shadows an installed one.

Takes and gives names. Keeps true: every importer has a prefix of its own, and a name is mangled once.
"""

from __future__ import annotations

import itertools
import re

__all__ = ["PackageMangler", "demangle", "get_mangle_prefix", "is_mangled"]

_COUNT = itertools.count()
_MANGLED = re.compile(r"<torch_package_\d+>")


class PackageMangler:
    """Gives the names of one importer's modules."""

    def __init__(self) -> None:
        self._parent = f"<torch_package_{next(_COUNT)}>"

    def mangle(self, name: str) -> str:
        """The name that a module of this package has in the process."""
        assert name, "a module has a name"
        return f"{self._parent}.{name}"

    def demangle(self, mangled: str) -> str:
        """The module's name in the package; names of other packages stay as they are."""
        prefix = self._parent + "."
        return mangled[len(prefix) :] if mangled.startswith(prefix) else mangled

    def parent_name(self) -> str:
        """The prefix of all names."""
        return self._parent


def is_mangled(name: str) -> bool:
    """Whether a name is that of a module from a package."""
    return bool(_MANGLED.match(name))


def demangle(name: str) -> str:
    """A module's name without the prefix of its package."""
    return name.partition(".")[2] if is_mangled(name) else name


def get_mangle_prefix(name: str) -> str:
    """The prefix of a mangled name; another name as it is."""
    return name.partition(".")[0] if is_mangled(name) else name
