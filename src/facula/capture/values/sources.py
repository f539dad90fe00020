"""Sources: how a value that existed before a segment is read again, in Python text.

Takes: a base source and a step. Gives: text for the generated function, and the value itself for
explaining why a guard failed.
Keeps true: equal sources are equal objects for dictionaries; a source never has side effects.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from keyword import iskeyword
from types import CodeType
from typing import Any, NamedTuple

LITERALS = (int, float, bool, str, bytes, complex, type(None))


class Source(NamedTuple):
    """One step from `base`: a slot of the frame, a held object, an attribute, an item or a call."""

    base: Any
    kind: str
    key: Any

    def attr(self, name: str) -> Source:
        """The source of an attribute."""
        return Source(self, "attr", name)

    def item(self, key: Any | str) -> Source:
        """The source of an item."""
        if not isinstance(key, LITERALS):
            key = Held(key)
        return Source(self, "item", (type(key), key))

    def apply(self, function: Callable[..., Any], *more: object) -> Source:
        """The source of `function(value, *more)`."""
        return Source(self, "apply", (Held(function), more))

    def read(self, slots: dict[str, Any]) -> Any:
        """The value that the source names now."""
        if self.kind == "slot":
            return slots[self.key]
        if self.kind == "held":
            return self.key.value
        owner = self.base.read(slots)
        if self.kind == "attr":
            return getattr(owner, self.key)
        if self.kind == "item":
            key = self.key[1].value if isinstance(self.key[1], Held) else self.key[1]
            return dict.__getitem__(owner, key) if isinstance(owner, dict) else owner[key]
        return self.key[0].value(owner, *self.key[1])

    def label(self) -> str:
        """The source as a user reads it."""
        if self.kind == "slot":
            return str(self.key)
        if self.kind == "held":
            value = self.key.value
            return getattr(value, "__name__", None) or type(value).__name__
        inner = self.base.label()
        if self.kind == "attr":
            return f"{inner}.{self.key}"
        if self.kind == "item":
            key = self.key[1]
            shown = getattr(key.value, "__name__", "...") if isinstance(key, Held) else repr(key)
            for table in ("_modules", "_parameters", "_buffers"):
                if inner.endswith(f".__dict__['{table}']") and isinstance(key, str):
                    inner = inner.removesuffix(f".__dict__['{table}']")
                    return f"{inner}.{key}" if key.isidentifier() else f"{inner}[{key}]"
            if inner.endswith(".__dict__") and isinstance(key, str):
                return f"{inner.removesuffix('.__dict__')}.{key}"
            return f"{inner}[{shown}]"
        return f"{self.key[0].value.__name__}({inner})"


class Held:
    """An object that the generated function holds; equal to another only if it is the same object."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def slot(name: str) -> Source:
    """The source of a slot of the frame's state."""
    return Source(None, "slot", name)


def held(value: object) -> Source:
    """The source of an object that is held, whatever the frame is given."""
    return Source(None, "held", Held(value))


class Text:
    """Writes sources as Python, each step once, and holds what the text refers to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[Source, str] = {}
        self.held: dict[str, Any] = {}
        self._held_names: dict[int, str] = {}
        self._count = 0

    def fresh(self, stem: str = "v") -> str:
        """A new name."""
        self._count += 1
        return f"{stem}{self._count}"

    def hold(self, value: object, stem: str = "K") -> str:
        """The name under which the text finds an object."""
        known = self._held_names.get(id(value))
        if known is None:
            known = self._held_names[id(value)] = self.fresh(stem)
            self.held[known] = value
        return known

    def literal(self, value: object) -> str:
        """An object as an expression."""
        if value is None or value is True or value is False or type(value) in (str, bytes):
            return repr(value)
        if type(value) is int and abs(value) < 10**18:
            return repr(value) if value >= 0 else f"({value!r})"
        return self.hold(value)

    def step(self, source: Source) -> str:
        """One step of a source, its base by name."""
        if source.kind == "slot":
            return source.key
        if source.kind == "held":
            return self.hold(source.key.value)
        base = self.source(source.base)
        if source.kind == "attr":
            if source.key.isidentifier() and not iskeyword(source.key):
                return f"{base}.{source.key}"
            return f"{self.hold(getattr)}({base}, {source.key!r})"
        if source.kind == "item":
            key = source.key[1]
            return f"{base}[{self.hold(key.value) if isinstance(key, Held) else self.literal(key)}]"
        more = "".join(f", {self.literal(value)}" for value in source.key[1])
        return f"{self.hold(source.key[0].value)}({base}{more})"

    def source(self, source: Source) -> str:
        """The name that holds the value of a source."""
        if source.kind in ("slot", "held"):
            return self.step(source)
        known = self.names.get(source)
        if known is None:
            text = self.step(source)
            known = self.names[source] = self.fresh()
            self.lines.append(f"{known} = {text}")
        return known


class Line(NamedTuple):
    """A place in the user's program."""

    file: str
    line: int
    function: str
    text: str

    @staticmethod
    def of(code: CodeType, line: int) -> Line:
        """The place in a code object."""
        text = linecache.getline(code.co_filename, line).strip()
        return Line(code.co_filename, line, code.co_qualname, text)

    def __str__(self) -> str:
        shown = f'File "{self.file}", line {self.line}, in {self.function}'
        return f"{shown}\n    {self.text}" if self.text else shown
