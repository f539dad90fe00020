"""`rearrange`: dimensions of a tensor by names, split, merged and put in another order.

Takes a tensor, or several of one shape, and a pattern as `"b (h two) c -> (b two) h c"`. Gives a view where it can.
Keeps true: every name of one side stands on the other side once; `...` is any number of dimensions; `1` and `()` are
dimensions of one element.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F

__all__ = ["rearrange"]

#: what stands for the dimensions of `...`
_REST = "..."
_WORD = re.compile(r"\s*(\.\.\.|\(|\)|[^\s().]+|\.)")


def _refuse(required: str, got: object, hint: str) -> NoReturn:
    fail(ValueError, "rearrange", required, got, hint)


def _parsed(side: str, pattern: str) -> list[list[str]]:
    """The groups of one side of a pattern, each a list of names; a name without brackets is a group of its own."""
    groups: list[list[str]] = []
    inside = False
    for word in _WORD.findall(side):
        if word == "(":
            if inside:
                _refuse(
                    "brackets inside of no other brackets were required",
                    pattern,
                    "merge in two steps",
                )
            groups.append([])
            inside = True
        elif word == ")":
            if not inside:
                _refuse(
                    "an opening bracket for each closing one was required", pattern, "remove ')'"
                )
            inside = False
        elif inside:
            groups[-1] += _checked(word, pattern)
        else:
            groups.append(_checked(word, pattern))
    if inside:
        _refuse("a closing bracket for each opening one was required", pattern, "add ')'")
    names = [name for group in groups for name in group]
    if len(set(names)) != len(names):
        _refuse("each name once on a side was required", pattern, "a dimension has one name")
    return groups


def _checked(word: str, pattern: str) -> list[str]:
    if word == "1":
        return []
    if word != _REST and (not word.isidentifier() or word[0] == "_" or word[-1] == "_"):
        _refuse(
            "names, '1', '...' and brackets were required",
            f"{word!r} in {pattern!r}",
            "a name begins with a letter and neither begins nor ends with '_'",
        )
    return [word]


def _sides(pattern: str) -> tuple[list[list[str]], list[list[str]]]:
    parts = pattern.split("->")
    if len(parts) != 2:
        _refuse("one '->' between two sides was required", pattern, "'h w -> w h' transposes")
    left, right = (_parsed(part, pattern) for part in parts)
    if re.search(r"\([^)]*\.\.\.", parts[0]):
        _refuse(
            "'...' outside of brackets was required on the left",
            pattern,
            "name the dimensions of the group",
        )
    here, there = ({name for group in side for name in group} for side in (left, right))
    if here != there:
        _refuse(
            "the same names on both sides were required",
            f"{sorted(here ^ there)} on one side of {pattern!r}",
            "no dimension comes or goes: repeat(), sum() and expand() do that",
        )
    return left, right


def _lengths(
    shape: Sequence[int], left: list[list[str]], given: dict[str, int], pattern: str
) -> dict[str, tuple[int, ...]]:
    """The sizes of each name, several for `...`."""
    fixed = sum(group != [_REST] for group in left)
    free = len(shape) - fixed
    if free < 0 or (free and [_REST] not in left):
        _refuse(
            f"a tensor of the dimensions of {pattern!r} was required",
            list(shape),
            "'...' stands for any number of them",
        )
    found: dict[str, tuple[int, ...]] = {}
    position = 0
    for group in left:
        if group == [_REST]:
            found[_REST] = tuple(shape[position : position + free])
            position += free
            continue
        size = shape[position]
        position += 1
        known = {name: given[name] for name in group if name in given}
        product, open_names = (
            math.prod(known.values()),
            [name for name in group if name not in given],
        )
        if len(open_names) > 1:
            _refuse(
                f"the sizes of all but one of {open_names} were required",
                pattern,
                "pass them by name: h=2",
            )
        fits = size == product if not open_names else product != 0 and size % product == 0
        if not fits:
            _refuse(
                f"sizes that make {size} were required for the group {group}",
                known or "()",
                "their product is the size",
            )
        found.update({name: (length,) for name, length in known.items()})
        found.update({name: (size // product,) for name in open_names})
    return found


def rearrange(
    tensor: core.Tensor | Sequence[core.Tensor], pattern: str, **axes_lengths: int
) -> core.Tensor:
    """The dimensions of a tensor in another order, split or merged, as a pattern says.

    Args:
        tensor: the tensor; several of one shape are put together along a new first dimension
        pattern: names of dimensions on both sides of ``->``; brackets merge, or on the left split
        **axes_lengths: sizes of names

    Raises:
        ValueError: the pattern is malformed, or does not fit the tensor.

    Example:
        >>> x = facula.arange(6).reshape(2, 3)
        >>> facula.func.rearrange(x, "h w -> w h").shape
        facula.Size([3, 2])
        >>> facula.func.rearrange(x, "h (a b) -> (h a) b", b=1).shape
        facula.Size([6, 1])
    """
    x: Any = tensor if isinstance(tensor, core.Tensor) else F.stack(tuple(tensor), 0)
    left, right = _sides(pattern)
    names = [name for group in left for name in group]
    for name in axes_lengths:
        if name not in names:
            _refuse(
                "sizes of names of the pattern were required",
                f"{name!r} for {pattern!r}",
                "remove it, or name a dimension so",
            )
    sizes = _lengths(tuple(x.shape), left, axes_lengths, pattern)
    split = x.reshape([n for name in names for n in sizes[name]])
    places: dict[str, list[int]] = {}
    for name in names:
        start = sum(len(p) for p in places.values())
        places[name] = list(range(start, start + len(sizes[name])))
    order = [d for group in right for name in group for d in places[name]]
    shape: list[int] = []
    for group in right:
        if group == [_REST] and _open_rest(pattern):
            shape += sizes[_REST]
        else:
            shape.append(math.prod(n for name in group for n in sizes[name]))
    return split.permute(order).reshape(shape)


def _open_rest(pattern: str) -> bool:
    """Whether `...` stands outside of brackets on the right."""
    return not re.search(r"\([^)]*\.\.\.", pattern.split("->")[1])
