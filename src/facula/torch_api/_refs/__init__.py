"""Reference implementations: every public operator by core operators.

Takes names.  Gives functions that compute what the operator of that name does by its decompositions.
Keeps true: results have the dtype, shape and device that the operator gives.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from facula.core.errors import no_attribute as _no_attribute
from facula.lower.decompositions.level import decomposed
from facula.ops.table.registry import PLACES, TABLE

_PARTS = ("nn", "special", "linalg", "fft", "_conversions")


def reference(place: str, name: str) -> Any:
    """The reference of an operator at a place of the public API.

    Raises:
        AttributeError: there is no operator of that name.
    """
    found = PLACES.get(place, {}).get(name)
    if found is None and not place:
        found = PLACES.get("nn.functional", {}).get(name) or TABLE.get(name)
        found = found or PLACES.get("Tensor", {}).get(name)
    if found is None:
        raise _no_attribute(__name__, name)
    return decomposed(found)


def names_at(place: str) -> list[str]:
    """The operators that have a reference at a place."""
    return sorted(n for n in PLACES.get(place, {}) if not n.startswith("_") and n[-1] != "_")


__all__ = names_at("")  # pyright: ignore


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"facula._refs.{name}")
    if name.startswith("__"):
        raise AttributeError(name)
    value = globals()[name] = reference("", name)
    return value


def __dir__() -> list[str]:
    return [*__all__, *_PARTS]
