"""The size of a ragged dimension: a symbol, since entries have different ones.

Takes: the lengths of entries. Gives: `Ragged`, which tensors of the same lengths and origin share, and `NestedInt`,
the number that `shape` shows for it (`j1`).
Keeps true: two such numbers are equal when they come from the same offsets, and none equals a plain number; what
follows for every length (`j1 >= 2` as PyTorch defines it) has an answer, everything else is an error.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, cast

from facula import core
from facula.core.errors import fail
from facula.fx.symbols import SymInt

_NUMBERS = itertools.count(1)
#: by the identity of a tensor of offsets, which lives as long as the lengths
_OF_OFFSETS: weakref.WeakValueDictionary[int, Ragged] = weakref.WeakValueDictionary()


class Ragged:
    """The lengths of entries, with an identity."""

    def __init__(self, lengths: tuple[int, ...]) -> None:
        self.lengths = lengths
        self.number = next(_NUMBERS)
        #: the size as `shape` shows it
        self.size = NestedInt(self, 1)
        self._offsets: Any = None

    def offsets(self) -> core.Tensor:
        """Where entries begin, and the end of the last one; one tensor for all who ask."""
        if self._offsets is None:
            ends = [0, *itertools.accumulate(self.lengths)]
            # whatever thread mode is on, these are plain numbers
            self._offsets = core.run_without_overrides(core.tensor, (ends,), {})
            _OF_OFFSETS[id(self._offsets)] = self
        return self._offsets


def ragged_of(offsets: Any, lengths: tuple[int, ...]) -> Ragged:
    """The lengths that were made of this tensor of offsets before, or new ones."""
    known = _OF_OFFSETS.get(id(offsets))
    if known is not None and known.lengths == lengths:
        return known
    made = Ragged(lengths)
    if isinstance(offsets, core.Tensor):
        made._offsets = offsets
        _OF_OFFSETS[id(offsets)] = made
    return made


class NestedInt(SymInt):
    """The size of a ragged dimension, or a multiple of it; as a plain number it counts the longest entry."""

    ragged: Ragged
    coeff: int

    def __new__(cls, ragged: Ragged, coeff: int = 1, env: object = None) -> NestedInt:
        made: Any = super().__new__(cls, coeff * max(ragged.lengths, default=0))
        made.ragged, made.coeff = ragged, coeff
        return cast("NestedInt", made)

    def nested_int(self) -> int:
        """The number behind the `j`."""
        return self.ragged.number

    def nested_int_coeff(self) -> int:
        """How many times the size is counted."""
        return self.coeff

    def is_nested_int(self) -> bool:
        """True: it is none that an example gives a value to."""
        return True

    def _same(self, other: object) -> bool:
        return isinstance(other, NestedInt) and other.ragged is self.ragged

    def __eq__(self, other: object) -> bool:
        return self._same(other) and self.coeff == other.coeff  # type: ignore[attr-defined]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((id(self.ragged), self.coeff))

    def __ge__(self, other: Any) -> bool:
        if self._same(other):
            return self.coeff >= int(other.coeff)
        if not isinstance(other, NestedInt) and other <= 2:
            return True
        return bool(
            fail(
                ValueError,
                "nested_int",
                f"a comparison that holds for every length was required (ge: relation is indeterminate): {self}",
                str(other),
                hint="x.offsets().diff() has the lengths of the entries",
            )
        )

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __gt__(self, other: Any) -> bool:
        return self.coeff > other.coeff if self._same(other) else self >= other + 1

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __mul__(self, other: Any) -> Any:
        if type(other) is int:
            return NestedInt(self.ragged, self.coeff * other)
        return NotImplemented

    __rmul__ = __mul__

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"{'' if self.coeff == 1 else f'{self.coeff}*'}j{self.ragged.number}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)
