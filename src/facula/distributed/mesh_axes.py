"""The dimensions of a grid of ranks as steps in the order of the grid that it was cut from.

Takes: the sizes of a grid, and what is asked of it. Gives: axes, tuples of steps that begin with 0: member `i` of an
axis lies `axis[i]` places behind its first one, wherever the others stand.
Keeps true: the places of a grid are all sums of one step from each axis; grids of the same axes do not meet.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

__all__ = ["Axis", "axes_of", "copies", "merged", "overlaps", "places", "split", "stride"]

Axis = tuple[int, ...]


def axes_of(shape: Sequence[int]) -> list[Axis]:
    """The axes of a whole grid."""
    return [
        tuple(i * math.prod(shape[dim + 1 :]) for i in range(size))
        for dim, size in enumerate(shape)
    ]


def stride(axis: Axis) -> int:
    """How far members of an axis lie apart; of several that were merged, the last one's."""
    return axis[1] - axis[0] if len(axis) > 1 else 1


def places(axes: Sequence[Axis]) -> list[int]:
    """How far all members of a grid lie behind its first one, in order."""
    return [sum(steps) for steps in itertools.product(*axes)]


def merged(axes: Sequence[Axis]) -> Axis:
    """One axis in the place of several."""
    return tuple(places(axes))


def split(axis: Axis, sizes: Sequence[int]) -> list[Axis]:
    """Several axes in the place of one, of which each member is a sum of theirs."""
    return [tuple(axis[i] for i in steps) for steps in axes_of(sizes)]


def overlaps(axes: Sequence[Axis]) -> bool:
    """Whether two sums of steps are the same place."""
    found = places(axes)
    return len(set(found)) != len(found)


def copies(axes: Sequence[Axis], total: int) -> list[list[int]]:
    """All grids of these axes, by the places of their members; each place is in one of them."""
    steps, left, found = places(axes), set(range(total)), []
    for base in range(total):
        if base in left:
            found.append([base + step for step in steps])
            left -= set(found[-1])
    return found
