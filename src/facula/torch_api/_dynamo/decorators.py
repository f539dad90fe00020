"""Marks on tensors: which sizes may change.

Takes: a tensor and dimensions. Gives nothing. Keeps true: a mark is an attribute of the tensor, and of the
parts of its shape where a tensor is made of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core


def _mark(tensor: core.Tensor, attribute: str, index: int | Sequence[int]) -> None:
    indices = [index] if isinstance(index, int) else list(index)
    known = getattr(tensor, attribute, None) or set()
    setattr(tensor, attribute, {*known, *(i % max(tensor.dim(), 1) for i in indices)})
    for name in tensor.__tensor_flatten__()[0] if hasattr(tensor, "__tensor_flatten__") else ():
        part = getattr(tensor, name)
        if part.shape == tensor.shape:
            _mark(part, attribute, index)


def mark_dynamic(
    t: Any,
    index: int | Sequence[int],
    *,
    min: int | None = None,
    max: int | None = None,
    **more: object,
) -> None:
    """The size may change from the first call on; a program that fixes it is an error.

    min, max: other sizes are captured anew.
    """
    _mark(t, "_dynamo_dynamic_indices", index)
    if min is not None or max is not None:
        ranges = dict(getattr(t, "_dynamo_dynamic_range", None) or {})
        for i in [index] if isinstance(index, int) else index:
            ranges[i % t.dim()] = (min, max)
        t._dynamo_dynamic_range = ranges


def maybe_mark_dynamic(t: Any, index: int | Sequence[int]) -> None:
    """The size may change, where nothing in the program asks for a certain one."""
    _mark(t, "_dynamo_weak_dynamic_indices", index)


def mark_unbacked(t: Any, index: int | Sequence[int], **more: object) -> None:
    """The size may change, and nothing in the program may depend on it."""
    _mark(t, "_dynamo_unbacked_indices", index)


def mark_static(t: Any, index: int | Sequence[int] | None = None) -> None:
    """The size is compiled in; without an index, all of them are."""
    if isinstance(t, type):
        return
    _mark(t, "_dynamo_static_indices", list(range(t.dim())) if index is None else index)


def mark_static_address(t: object, guard: bool = True) -> None:
    """Says that the tensor stays where it is, which nothing here depends on."""


__all__ = [
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
]
