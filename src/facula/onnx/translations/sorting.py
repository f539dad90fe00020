"""Sorting, and what is found by it.

Takes and gives what `onnx.table` says.
Keeps true: everything is one TopK; of equal elements the first stands first.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.onnx.graph import Value
from facula.onnx.table import Call, translation
from facula.onnx.translations.reduction import orderable


def top(call: Call, x: Value, k: Any, dim: int, largest: bool, in_order: bool = True) -> list[Any]:
    """The k largest or smallest elements and where they stand."""
    dtype, rank = x.dtype, x.rank
    numbers = orderable(call, x)
    if not rank:
        numbers = call.op("Reshape", numbers, [1])
    values, places = call.op("TopK", numbers, call.graph.sizes([k]), outputs=2, axis=dim if rank else 0,
                             largest=int(largest), sorted=int(in_order))  # fmt: skip
    places = Value(places.name, core.int64)
    if not rank:
        values, places = (call.op("Reshape", v, call.graph.sizes([])) for v in (values, places))
    return [call.graph.cast(values, dtype), places]


def _length(call: Call, x: Value, dim: int) -> Any:
    return call.graph.size(x, dim % x.rank) if x.rank else 1


@translation("sort")
def sort(call: Call, x: Value, dim: int, descending: bool, stable: Any = None) -> Any:
    """The elements in order, and where they stood."""
    return top(call, x, _length(call, x, dim), dim, descending)


@translation("_sort_values")
def sort_values(call: Call, x: Value, dim: int, descending: bool, stable: Any = None) -> Any:
    """The elements in order."""
    return sort(call, x, dim, descending)[0]


@translation("topk")
def topk(call: Call, x: Value, k: object, dim: int, largest: bool, in_order: bool) -> Any:
    """The k largest or smallest elements and where they stand."""
    return top(call, x, k, dim, largest, in_order)


@translation("_topk_values")
def topk_values(call: Call, x: Value, k: object, dim: int, largest: bool, in_order: bool) -> Any:
    """The k largest or smallest elements."""
    return top(call, x, k, dim, largest, in_order)[0]


def _at(call: Call, x: Value, k: object, dim: int, keepdim: bool) -> list[Any]:
    """The k-th smallest element, from 1, and where it stands."""
    found = top(call, x, k, dim, False)
    if not x.rank:
        return found
    last = [call.graph.slice(v, dim, -1, 2**63 - 1) for v in found]
    return last if keepdim else [call.op("Squeeze", v, [dim]) for v in last]


@translation("kthvalue")
def kthvalue(call: Call, x: Value, k: object, dim: int, keepdim: bool) -> Any:
    """The k-th smallest element and where it stands."""
    return _at(call, x, k, dim, keepdim)


@translation("_median_dim")
def median_dim(call: Call, x: Value, dim: int, keepdim: bool) -> Any:
    """The lower median and where it stands."""
    size = _length(call, x, dim)
    if not isinstance(size, Value):
        return _at(call, x, (size - 1) // 2 + 1, dim, keepdim)
    above = call.sizes.arithmetic("Add", size, 1)
    return _at(call, x, call.sizes.floordiv(above, 2), dim, keepdim)


@translation("_median_all")
def median_all(call: Call, x: Value) -> Any:
    """The lower median of all elements."""
    flat = call.op("Reshape", x, [-1])
    count: Any = 1
    for d in range(x.rank):
        size = call.graph.size(x, d)
        both = isinstance(count, int) and isinstance(size, int)
        count = count * size if both else call.sizes.arithmetic("Mul", count, size)
    known = count if isinstance(count, int) else None
    shaped = Value(flat.name, x.dtype, (known,))
    return median_dim(call, shaped, 0, False)[0]
