"""Names that captured programs look up in classes, modules and functions, to be looked up again.

Takes: look-ups as capture does them. Gives: what the core checks before a segment runs
(`core.NameWatch`), and for a failed check the reason.
Keeps true: a class, a module's globals, or a function's code can be changed by anybody at any time,
the framework's and the standard library's included; what can not be changed is not watched. A check
costs one comparison for each class, module and function, whatever the number of names.
"""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

from facula import core

#: a class whose attributes Python does not let anybody set
IMMUTABLE = 1 << 8
#: says that there was nothing under a name
ABSENT = object()


class Watched:
    """The names that one segment has looked up."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        self._codes: dict[int, tuple[FunctionType, CodeType]] = {}

    def name(self, owner: object, name: str, value: object) -> None:
        """A look-up in a class (with its bases) or in a dictionary; `ABSENT` where nothing was."""
        if isinstance(owner, type) and owner.__flags__ & IMMUTABLE:
            return
        self._names.setdefault((id(owner), name), (owner, name, value))

    def attribute(self, cls: type, name: str) -> Any:
        """What a class or its bases have under a name, watched; `ABSENT` where there is nothing."""
        found = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), ABSENT)
        self.name(cls, name, found)
        return found

    def code(self, function: FunctionType) -> None:
        """A function whose code is followed."""
        self._codes.setdefault(id(function), (function, function.__code__))

    def program(self) -> Any:
        """What checks all of it; None where there is nothing."""
        if not self._names and not self._codes:
            return None
        names = [
            (owner, name, value, value is not ABSENT) for owner, name, value in self._names.values()
        ]
        make: Any = core.NameWatch
        return make(names, list(self._codes.values()))

    def reason(self) -> str | None:
        """Why it does not hold; None where it does."""
        for owner, name, value in self._names.values():
            if isinstance(owner, type):
                shown = f"{owner.__qualname__}.{name}"
                found = next(
                    (b.__dict__[name] for b in owner.__mro__ if name in b.__dict__), ABSENT
                )
            else:
                shown = f"{name} of module {owner.get('__name__', '?')}"
                found = owner.get(name, ABSENT)
            if found is not value and not (type(found) is type(value) and found == value):
                return f"{shown} is another object now"
        for function, code in self._codes.values():
            if function.__code__ is not code:
                return f"{function.__qualname__}.__code__ is another one now"
        return None

    def labels(self) -> list[str]:
        """What is watched, as a user reads it: by class and module, the functions as a number."""
        shown: dict[str, list[str]] = {}
        for owner, name, _ in self._names.values():
            kind = owner.__qualname__ if isinstance(owner, type) else owner.get("__name__", "?")
            shown.setdefault(str(kind), []).append(name)
        return [f"{kind}: {', '.join(names)} are the same" for kind, names in shown.items()]
