"""How the inputs of a program share memory.

Takes: inputs. Gives: `sharing`, what a program that writes to its inputs is made for, and `first_places`.
Keeps true: a program serves other inputs of the same answer: what it takes in the place of inputs on one
memory (their base, or the whole memory) has the layout that it was made for, and they lie at the same
places in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from facula import core


def sharing(inputs: Sequence[Any]) -> tuple[Any, ...] | None:
    """Which tensors lie on one memory, where in it, and as views of what; None where each has its own."""
    tensors = [x for x in inputs if isinstance(x, core.Tensor) and x.layout is core.strided]
    keys = list(map(core.storage_key, tensors))
    first = first_places(keys)
    if len(first) == len(keys):
        return None
    number = Counter(keys)
    wholes = [x if x._base is None else x._base for x in tensors]
    views_of = first_places(list(map(id, wholes)))
    return tuple(
        (first[key], x.storage_offset(), views_of[id(whole)], *_layout(whole))
        if number[key] > 1
        else (first[key],)
        for key, x, whole in zip(keys, tensors, wholes, strict=True)
    )


def first_places(keys: list[Any]) -> dict[Any, int]:
    """Where each is for the first time."""
    return {key: i for i, key in reversed(list(enumerate(keys)))}


def _layout(whole: core.Tensor) -> tuple[Any, ...]:
    """Of what inputs are views of, and programs take in their place: all that a program is made for."""
    place = (tuple(whole.shape), tuple(whole.stride()), whole.storage_offset())
    return (whole.dtype, *place, whole.requires_grad, whole.untyped_storage().nbytes())
