"""Writes at places that a tensor names, on a device: sums by atomic additions, and checks of indices.

Takes: launches of the processor's kernels for such writes, as operators make them, with values for tensors. Gives:
`rule_of`: what stands for a kernel; `Adding`, the step whose elements are added to what is in memory.
Keeps true: a place is clamped to what is written, whatever the index says; an index out of range raises the
operator's own error; additions run in the dtype of the target (float32 for 16 bits, as the operators ask for), in
no particular order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula.lower.loops import elementwise, gathers, ir
from facula.lower.loops import index as ix
from facula.lower.loops.index import Index, Indirect, Var
from facula.lower.loops.values import NotLoops, Value
from facula.ops.expr.node import cast, constant, node
from facula.ops.expr.primitives import where

__all__ = ["Adding", "rule_of"]

#: dtypes that a device adds to memory
_ADDED = frozenset(["f32", "f64", "i32", "i64"])


class Adding(ir.Elementwise):
    """Elements that are added where they are stored."""


def rule_of(name: str) -> Callable[..., Value | None] | None:
    """What stands for a kernel of the processor; None where nothing does."""
    return _RULES.get(name.partition(":")[0])


def _check(lowering: Any, values: Sequence[Any], ints: Sequence[int], target: Any) -> None:
    """A check that indices are in `[low, high)`."""
    low, high = ints[:2]
    index = _known(values[1])
    gathers.check(lowering, index, low, high, lowering.op.name, lowering.arguments)


def _known(value: Any) -> Value:
    if not isinstance(value, Value):
        raise NotLoops("a tensor whose elements nothing was seen to write")
    return value


def _inside(place: Any, size: int) -> Index:
    """A place, within `[0, size)` in any case."""
    zero, last = ir.position(ix.ZERO), ir.position(ix.constant(size - 1))
    inside = node("minimum", (node("maximum", (cast(place, "i64"), zero), "i64"), last), "i64")
    return ix.of(Indirect(inside, size))


def _started(lowering: Any, value: Value) -> ir.Buffer:
    """New memory with the elements of a value, to be added to."""
    if value.code not in _ADDED or not value.dense:
        raise NotLoops(f"sums into {value.code}")
    buffer = lowering.buffer(value.code, value.shape, value.strides)
    lowering.store_into(value, buffer, value.strides, 0)
    return buffer


def _in(buffer: ir.Buffer) -> Value:
    view = ir.View(buffer, buffer.shape, buffer.strides, 0, buffer.code)
    return Value(buffer.shape, buffer.strides, buffer.code, view=view)


def _scatter(lowering: Any, values: Sequence[Any], ints: Sequence[int], target: Any) -> Value:
    """`target[... index ...] += source` over the places of an index."""
    into, source, index = map(_known, values[:3])
    rank, at, extent = ints[0], ints[1], ints[2]
    rest = ints[5:]
    sizes, steps = rest[:rank], [rest[rank * (k + 1) : rank * (k + 2)] for k in range(3)]
    buffer = _started(lowering, into)
    total = 1
    dense = [0] * rank
    for d in reversed(range(rank)):
        dense[d], total = total, total * sizes[d]
    variable = Var("m", total)
    positions = ix.digits(ix.of(variable), sizes, dense)
    place = _inside(index.read_memory(ix.linear(positions, steps[0], 0)), extent)
    where_ = ix.linear([*positions[:at], ix.ZERO, *positions[at + 1 :]], steps[1], 0)
    value = source.read_memory(ix.linear(positions, steps[2], 0))
    element = elementwise.converted(value, buffer.code)
    lowering.add(Adding(variable, [ir.Store(buffer, where_ + place * steps[1][at], element)]))
    return _in(buffer)


def _rows(lowering: Any, values: Sequence[Any], ints: Sequence[int], target: Any) -> Value:
    """The gradient of a table: rows added where places say, but those of the padding row."""
    width, count, padding = ints[:3]
    if values[3] is not None or values[4] is not None:
        raise NotLoops("a gradient of rows with factors")
    grad, places = _known(values[1]), _known(values[2])
    into = _started(lowering, lowering.full_like(target, 0))
    variable = Var("m", count * width)
    row, column = ix.digits(ix.of(variable), (count, width), (width, 1))
    place = cast(places.read_memory(row), "i64")
    element = cast(grad.read_memory(ix.of(variable)), ir.REGISTER[into.code])
    if padding >= 0:
        skipped = place == constant(padding, "i64")
        element = where(skipped, constant(0, element.dtype), element)
    index = _inside(place, target.shape[0]) * width + column
    lowering.add(Adding(variable, [ir.Store(into, index, element)]))
    return _in(into)


_RULES: dict[str, Callable[..., Value | None]] = {
    "index.check": _check,
    "scatter.add": _scatter,
    "embedding.grad": _rows,
}
