"""Sizes for which a program launches the same, and its numbers there as expressions of the sizes.

Takes: what a program launches at given sizes (a function), and the ranges of the sizes. Gives: `regions`.
Keeps true: all sizes of all ranges are in exactly one region; where an operator takes another path from
some size on, a region ends; numbers are those that were noted at each point that was tried: corners,
neighbours of powers of two, and a spread (every size, where a number follows no formula).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from facula.core.errors import fail
from facula.deploy.fitting import Expression, Fitter, Point
from facula.deploy.noting import Noted

Ranges = tuple[tuple[int, int], ...]
#: regions of one program, points of one region
MOST, EXHAUSTIVE = 64, 4096


@dataclass(slots=True)
class Region:
    """Launches for sizes of ranges; `numbers` are those of `noted`, or expressions."""

    ranges: Ranges
    noted: Noted
    numbers: list[int | Expression]


def regions(
    note_at: Callable[[Point], Noted],
    ranges: Sequence[tuple[int, int]],
    known: Callable[[], Iterable[Expression]] = tuple,
) -> list[Region]:
    """The regions of a program; `known`: expressions that its numbers may be."""
    cover = _Cover(note_at, known)
    cover.add(tuple(ranges))
    return cover.found


class _Cover:
    def __init__(self, note_at: Callable[[Point], Noted], expressions: Callable[..., Any]) -> None:
        self.note_at, self.expressions = note_at, expressions
        self.known: dict[Point, Noted] = {}
        self.kinds: dict[Point, int] = {}
        self.structures: list[Any] = []
        self.found: list[Region] = []

    def at(self, point: Point) -> Noted:
        if point not in self.known:
            noted = self.known[point] = self.note_at(point)
            structure = noted.structure()
            if structure not in self.structures:
                self.structures.append(structure)
            self.kinds[point] = self.structures.index(structure)
        return self.known[point]

    def kind(self, point: Point) -> int:
        self.at(point)
        return self.kinds[point]

    def add(self, ranges: Ranges) -> None:
        """Regions for the sizes of these ranges."""
        points = sample(ranges)
        split = self._boundary(ranges, points)
        if split is None and self._fitted(ranges, points):
            return
        spans = [most - least for least, most in ranges]
        if split is None and 0 < max(spans) < EXHAUSTIVE:
            points = sorted({*points, *_swept(ranges, points[0])})
            split = self._boundary(ranges, points)
            if split is None and self._fitted(ranges, points):
                return
        if split is None:
            axis = max(range(len(ranges)), key=spans.__getitem__)
            split = axis, ranges[axis][0] + (spans[axis] + 1) // 2
        if len(self.found) >= MOST:
            fail(
                NotImplementedError,
                "package",
                f"sizes for which the program launches the same, in at most {MOST} ranges, were required",
                f"more between {ranges[0]}",
                hint="give Dim(min=, max=) a narrower range",
            )
        axis, border = split
        least, most = ranges[axis]
        for part in ((least, border - 1), (border, most)):
            self.add((*ranges[:axis], part, *ranges[axis + 1 :]))

    def _boundary(self, ranges: Ranges, points: Sequence[Point]) -> tuple[int, int] | None:
        """Where the launches become others: the axis, and the first size of the second part."""
        first = points[0]
        for point in points:
            if self.kind(point) == self.kind(first):
                continue
            for axis in range(len(ranges)):  # from the first point to this one, a symbol at a time
                there = (*first[:axis], point[axis], *first[axis + 1 :])
                if self.kind(there) != self.kind(first):
                    return axis, self._border(first, axis, point[axis])
                first = there
        return None

    def _border(self, point: Point, axis: int, other: int) -> int:
        """The first size, seen from the smaller one, at which the launches are not those of it."""
        low, high = sorted((point[axis], other))

        def kind(size: int) -> int:
            return self.kind((*point[:axis], size, *point[axis + 1 :]))

        start = kind(low)
        while high - low > 1:
            middle = (low + high) // 2
            if kind(middle) == start:
                low = middle
            else:
                high = middle
        return high

    def _fitted(self, ranges: Ranges, points: Sequence[Point]) -> bool:
        """Whether each number is an expression of the sizes; enters the region then."""
        notes = [self.at(point) for point in points]
        fitter = Fitter(points, ranges, self.expressions())
        numbers: list[int | Expression] = []
        for k in range(len(notes[0].numbers)):
            found = fitter.fit([noted.numbers[k] for noted in notes], k in notes[0].free)
            if found is None:
                return False
            numbers.append(found)
        self.found.append(Region(ranges, notes[0], numbers))
        return True


def _swept(ranges: Ranges, start: Point) -> list[Point]:
    """Every size of each symbol, the others where they are."""
    return [
        (*start[:axis], size, *start[axis + 1 :])
        for axis, (least, most) in enumerate(ranges)
        for size in range(least, most + 1)
    ]


def sample(ranges: Ranges) -> list[Point]:
    """Points of ranges at which a program is tried."""
    if not ranges:
        return [()]
    if len(ranges) == 1:
        return [(size,) for size in _sizes(ranges[0], 40)]
    most = {2: 7, 3: 4}.get(len(ranges), 3)
    return list(itertools.product(*(_sizes(each, most) for each in ranges)))


def _sizes(span: tuple[int, int], most: int) -> list[int]:
    least, high = span
    if high - least < most:
        return list(range(least, high + 1))
    ends = [least, high, least + 1, high - 1]
    spread = [least + (high - least) * k // (most // 2 + 1) for k in range(1, most // 2 + 1)]
    powers = [1 << k for k in range(24)]
    near = [n + d for n in powers for d in (0, 1, -1)]
    wanted = [*ends, *spread, *near] if most > 8 else [least, high, least + 1, *spread]
    return sorted({n for n in wanted if least <= n <= high})
