"""Small conversions that layers share.

Takes sizes and paddings as users write them.  Gives tuples of a known length.
Keeps true: an iterable is taken as it is, a single value is repeated.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Callable
from itertools import repeat
from typing import Any

from facula.core.errors import fail


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple]:
    """A function that repeats a single value ``n`` times and makes a tuple of an iterable."""

    def parse(x: object) -> tuple:
        if isinstance(x, collections.abc.Iterable):
            return tuple(x)
        return tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple, n: int) -> tuple:
    """The values of ``t`` from the last to the first, each ``n`` times: the order in which padding
    is given.
    """
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: list, defaults: list) -> Any:
    """``out_size`` with its None entries taken from the end of ``defaults``."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        fail(
            ValueError,
            "output_size",
            f"Input dimension should be at least {len(out_size) + 1}",
            hint="give one size for each dimension that is pooled",
        )
    tail = defaults[-len(out_size) :]
    return [d if v is None else v for v, d in zip(out_size, tail, strict=True)]


def consume_prefix_in_state_dict_if_present(state_dict: dict, prefix: str) -> None:
    """Take ``prefix`` off the keys of a state dictionary, in place and in order."""
    for key in list(state_dict.keys()):
        value = state_dict.pop(key)
        state_dict[key[len(prefix) :] if key.startswith(prefix) else key] = value
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in list(metadata.keys()):
            if len(key) == 0:
                continue
            value = metadata.pop(key)
            # the wrapped module's own entry is the prefix without its dot
            shorter = key.replace(prefix, "", 1) if key.startswith(prefix) else key
            metadata["" if key == prefix.rstrip(".") else shorter] = value
