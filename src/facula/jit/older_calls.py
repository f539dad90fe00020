"""Operators as files of earlier versions mean them.

Takes: the version of a file's format. Gives: `OlderOperators`: the operators that its code names, in which calls whose
meaning changed later are calls of functions that do what they did.
Keeps true: a loaded program computes what it computed where it was written; saved again, it says so itself.
"""

from __future__ import annotations

import inspect
from typing import Any

import facula
from facula.jit.special_units import LibraryUnit
from facula.jit.values import Operators, Unit

__all__ = ["NEWEST", "OlderOperators"]


def _divided_exactly(self: Any, other: Any) -> bool:
    """Whether a quotient was exact: one side is no integer."""
    if isinstance(other, facula.Tensor):
        exact = other.is_floating_point() or other.is_complex()
    else:
        exact = not isinstance(other, int)
    return exact or self.is_floating_point() or self.is_complex()


def div(self: Any, other: Any, *, out: Any = None) -> Any:
    """Division, which rounded towards zero where both sides were integers."""
    if _divided_exactly(self, other):
        if out is None:
            return facula.true_divide(self, other)
        return facula.true_divide(self, other, out=out)
    if out is None:
        return facula.div(self, other, rounding_mode="trunc")
    return facula.div(self, other, rounding_mode="trunc", out=out)


def div_(self: Any, other: Any) -> Any:
    """The same, in place."""
    if _divided_exactly(self, other):
        return self.true_divide_(other)
    return self.div_(other, rounding_mode="trunc")


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Any:
    """A filled tensor, whose dtype did not follow from the value."""
    if dtype is None:
        return facula.full(
            size, float(fill_value), layout=layout, device=device, pin_memory=pin_memory
        )
    return facula.full(
        size, fill_value, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory
    )


def linspace(
    start: Any,
    end: Any,
    steps: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Any:
    """Numbers at equal distances, of which there were a hundred where nobody said how many."""
    count = 100 if steps is None else steps
    return facula.linspace(
        start, end, count, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory
    )


def logspace(
    start: Any,
    end: Any,
    steps: Any = None,
    base: Any = 10.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Any:
    """Powers at equal distances, a hundred as well."""
    count = 100 if steps is None else steps
    return facula.logspace(
        start, end, count, base, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory
    )


#: by the last version of the format in which they meant this
_CHANGED: dict[int, tuple[Any, ...]] = {3: (div, div_), 4: (full,), 7: (linspace,), 8: (logspace,)}
#: the last version in which anything differs
NEWEST = max(_CHANGED)


class _Older:
    """An operator that meant something else."""

    def __init__(self, function: Any) -> None:
        self.name, self.signature = function.__name__, inspect.signature(function)
        self.unit = LibraryUnit(function)

    def lower_call(self, builder: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of the function; of today's operator for forms that did not change."""
        given, named = builder.plain(args, kwargs)
        try:
            first = next(iter(self.signature.bind(*given, **named).arguments.values()))
        except TypeError:
            first = None
        # numbers were always divided exactly
        if first is None or self.name.startswith("div") and first.type.kind != "Tensor":
            return builder.call(f"aten::{self.name}", given, named)
        return self.unit.lower_call(builder, given, named)


class OlderOperators(Operators):
    """The operators of a file.

    Args:
        version: of the file's format
    """

    def __init__(self, version: int) -> None:
        super().__init__("aten")
        self._changed = {
            function.__name__: Unit(_Older(function))
            for last, functions in _CHANGED.items()
            if version <= last
            for function in functions
        }

    def part(self, name: str) -> Any:
        """An operator by its name."""
        return self._changed.get(name) or super().part(name)
