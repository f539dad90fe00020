"""Nestings of tuples, lists and dictionaries, flattened and put together again.

Takes any nesting.  Gives its leaves in order, and a structure that rebuilds it from other leaves.
Keeps true: two nestings have equal structures exactly when one can hold the other's leaves; named
tuples, ordered and default dictionaries keep their class.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any


class Structure:
    """The shape of a nesting; `kind` None is a leaf. `leaves` says how many leaves there are."""

    __slots__ = ("factory", "keys", "kind", "leaves", "parts")

    def __init__(
        self, kind: Any, keys: tuple[Any, ...] = (), parts: Any = (), factory: Any = None
    ) -> None:
        self.kind = kind
        self.keys = keys
        self.parts = tuple(parts)
        self.factory = factory
        self.leaves = 1 if kind is None else sum([part.leaves for part in self.parts])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Structure) and (self.kind, self.keys, self.parts) == (
            other.kind,
            other.keys,
            other.parts,
        )

    __hash__ = None  # type: ignore[assignment]

    def build(self, values: Iterable[Any]) -> Any:
        """The nesting with these leaves."""
        return self._build(iter(values))

    def _build(self, values: Any) -> Any:
        if self.kind is None:
            return next(values)
        made = [part._build(values) for part in self.parts]
        if self.kind is defaultdict:
            return defaultdict(self.factory, zip(self.keys, made, strict=True))
        if issubclass(self.kind, dict):
            return self.kind(zip(self.keys, made, strict=True))
        if hasattr(self.kind, "_fields"):
            return self.kind(*made)
        return self.kind(made)

    def __repr__(self) -> str:
        return "*" if self.kind is None else f"{self.kind.__name__}{list(self.parts)}"


LEAF = Structure(None)


def _is_node(value: object) -> bool:
    kind = type(value)
    return kind in (tuple, list, dict, OrderedDict, defaultdict) or (
        isinstance(value, tuple) and hasattr(value, "_fields")
    )


def flatten(value: object) -> tuple[list[Any], Structure]:
    """The leaves of a nesting, and its structure."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves)


def _flatten(value: Any, leaves: list[Any]) -> Structure:
    if not _is_node(value):
        leaves.append(value)
        return LEAF
    kind = type(value)
    if isinstance(value, dict):
        parts = [_flatten(v, leaves) for v in value.values()]
        return Structure(kind, tuple(value), parts, getattr(value, "default_factory", None))
    return Structure(kind, (), [_flatten(v, leaves) for v in value])


def map_leaves(function: Callable[[Any], Any], value: object) -> Any:
    """The nesting with `function` applied to every leaf."""
    leaves, structure = flatten(value)
    return structure.build([function(leaf) for leaf in leaves])


def broadcast(prefix: Any, structure: Structure) -> list[Any] | None:
    """One value a leaf from a nesting that may stop early; None where it does not fit."""
    if not _is_node(prefix):
        return [prefix] * structure.leaves
    if structure.kind is None:
        return None
    if isinstance(prefix, dict):
        if not issubclass(structure.kind, dict) or set(prefix) != set(structure.keys):
            return None
        items = [prefix[key] for key in structure.keys]
    else:
        if type(prefix) is not structure.kind or len(prefix) != len(structure.parts):
            return None
        items = list(prefix)
    found: list[Any] = []
    for item, part in zip(items, structure.parts, strict=True):
        inner = broadcast(item, part)
        if inner is None:
            return None
        found += inner
    return found
