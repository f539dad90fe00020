"""Sizes that may change, as users name them.

Takes: names and bounds. Gives: `Dim`, `dims`, and the hints `Dim.AUTO`, `Dim.DYNAMIC` and `Dim.STATIC`.
Keeps true: a size that follows from another is an increasing linear function of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from facula.core.errors import fail
from facula.export.ranges import UNBOUNDED

__all__ = ["Dim", "DimHint", "dims"]


@dataclass(frozen=True)
class DimHint:
    """What becomes of a size without a name: `AUTO`, `DYNAMIC` or `STATIC`."""

    kind: str
    min: int | None = None
    max: int | None = None

    def __call__(self, min: int | None = None, max: int | None = None) -> DimHint:  # noqa: A002
        """The same with bounds."""
        return DimHint(self.kind, min, max)

    def __repr__(self) -> str:
        return f"DimHint({self.kind})"


class Dim:
    """A size that may change: a name, and the least and largest value.

    ``2 * Dim("half")`` and ``Dim("n") + 1`` are sizes that follow from another. ``Dim.AUTO``,
    ``Dim.DYNAMIC`` and ``Dim.STATIC`` say the same without a name.

    Args:
        name: in programs and messages
        min, max: bounds; None for any

    Example:
        >>> batch = facula.export.Dim("batch", min=2, max=1024)
        >>> layer, x = facula.nn.Linear(2, 1), facula.ones(3, 2)
        >>> program = facula.export.export(layer, (x,), dynamic_shapes=({0: batch},))
        >>> program.module()(facula.ones(7, 2)).shape
        facula.Size([7, 1])
    """

    AUTO = DimHint("AUTO")
    DYNAMIC = DimHint("DYNAMIC")
    STATIC = DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:  # noqa: A002
        if not name.isidentifier():
            fail(
                ValueError,
                "Dim",
                "a name that is an identifier was required",
                repr(name),
                hint="for example Dim('batch')",
            )
        self.__name__ = name
        self.min = 0 if min is None else min
        self.max = UNBOUNDED if max is None else max
        #: the size is `factor * root + offset`
        self.root, self.factor, self.offset = self, 1, 0
        if self.max <= self.min:
            fail(
                AssertionError,
                "Dim",
                "a largest value above the least was required: Cannot create Dim with inconsistent",
                f"min={self.min}, max={self.max}",
                hint="leave max out for any size",
            )

    def _derived(self, factor: int, offset: int) -> Dim:
        if type(factor) is not int or type(offset) is not int or factor * self.factor <= 0:
            fail(
                NotImplementedError,
                "Dim",
                "an increasing linear function with whole numbers was required (Attempted to "
                f"derive from {self.__name__})",
                f"{factor} * {self.__name__} + {offset}",
                hint="for example 2 * dim + 1",
            )
        made = object.__new__(Dim)
        made.root = self.root
        made.factor, made.offset = factor * self.factor, factor * self.offset + offset
        made.min = made.factor * self.root.min + made.offset
        made.max = min(UNBOUNDED, made.factor * self.root.max + made.offset)
        scaled = made.root.__name__ if made.factor == 1 else f"{made.factor}*{made.root.__name__}"
        sign = "-" if made.offset < 0 else "+"
        made.__name__ = f"{scaled} {sign} {abs(made.offset)}" if made.offset else scaled
        return made

    def __add__(self, other: int) -> Dim:
        return self._derived(1, other)

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        return self._derived(1, -other)

    def __mul__(self, other: int) -> Dim:
        return self._derived(other, 0)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        if self.root is not self:
            return self.__name__
        top = "" if self.max >= UNBOUNDED else f", max={self.max}"
        return f"Dim('{self.__name__}', min={self.min}{top})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:  # noqa: A002
    """Several `Dim`s with the same bounds.

    Args:
        *names: of each
        min, max: bounds; None for any

    Example:
        >>> rows, columns = facula.export.dims("rows", "columns", min=2)
        >>> rows.__name__, columns.__name__
        ('rows', 'columns')
    """
    return tuple(Dim(name, min=min, max=max) for name in names)
