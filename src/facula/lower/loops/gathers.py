"""Reads at places that a tensor names: rows by index, gathers, advanced indexing.

Takes: a call's arguments as values. Gives: `RULES` for `indexed`, by operator; `check` and
`check_within`, the step that raises what eager raises for an index out of range.
Keeps true: a kernel never reads outside of the source, whatever the index says: places are clamped;
a program in which an index is out of range raises the operator's own error.

The check is a call of its own (an index is small beside what it addresses), so that the reads can
become part of whatever kernel wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.lower.loops import elementwise, ir
from facula.lower.loops import index as ix
from facula.lower.loops.index import Index
from facula.lower.loops.values import NotLoops, Value
from facula.ops.expr.node import apply, cast, node
from facula.ops.expr.primitives import where
from facula.ops.table.registry import TABLE

#: operator name -> function(lowering, arguments in schema order, result) -> value
RULES: dict[str, Callable[[Any, Sequence[Any], Any], Any]] = {}


def check_within(index: Any, low: int, high: int, name: str, *args: object) -> None:
    """Call an operator, which raises, where an index is not in `[low, high)`."""
    if not index.numel():
        return
    index = index.to(core.int64).contiguous()
    bad = core.empty((1,), dtype=core.int64)
    core.kernel("index.check")((bad, index), (low, high, index.numel()), ())
    if not core.passed(bad):
        operator: Any = TABLE[name]
        operator(*args)


def check(lowering: Any, index: Value, low: int, high: int, name: str, args: Sequence[Any]) -> None:
    """A step that raises what an operator raises where an index is not in `[low, high)`."""
    given = [lowering.realize(index), low, high, name]
    given += [_placed(lowering, item) for item in args]
    lowering.add(ir.Extern(check_within, tuple(given), {}, [], True, "check_within"))


def _placed(lowering: Any, item: object) -> Any:
    if isinstance(item, Value):
        return lowering.realize(item)
    if isinstance(item, (tuple, list)):
        return tuple(_placed(lowering, each) for each in item)
    return item


def _source(source: Value, *indices: Value) -> Value:
    """The tensor that is read: one in memory, with elements.

    Raises:
        NotLoops: it is not.
    """
    known = source.code in ir.REGISTER and source.stored() is not None
    if not known or not source.numel or not all(i.numel for i in indices):
        raise NotLoops("a source that lies in no memory, or has no elements")
    if any(i.code not in ("i64", "i32") for i in indices):
        raise NotLoops("an index that is no whole number")
    return source


def _place(index: Value, positions: list[Index], size: int, wraps: bool) -> Index:
    """The place that an index names, inside of the source in any case."""
    value = cast(elementwise.read_broadcast(index, positions), "i64")
    bound = ir.position(ix.constant(size))
    zero, last = ir.position(ix.ZERO), ir.position(ix.constant(size - 1))
    if wraps:
        value = where(value < zero, value + bound, value)
    inside = node("minimum", (node("maximum", (value, zero), "i64"), last), "i64")
    return ix.of(ix.Indirect(inside, size))


def embedding(lowering: object, args: Sequence[Any], result: core.Tensor) -> Value:
    """Rows of a table."""
    weight, index = _source(args[0], args[1]), args[1]
    check(lowering, index, 0, weight.shape[0], "embedding", args)

    def element(positions: list[Index]) -> Any:
        row = _place(index, positions[:-1], weight.shape[0], False)
        return weight.read([row, positions[-1]])

    return Value(result.shape, result.stride(), weight.code, rule=element)


def index_select(lowering: object, args: Sequence[Any], result: core.Tensor) -> Value:
    """Slices along a dimension."""
    source, index = _source(args[0], args[2]), args[2]
    if not source.shape:
        raise NotLoops("a slice of a number")
    dim = args[1] % len(source.shape)
    check(lowering, index, 0, source.shape[dim], "index_select", args)

    def element(positions: list[Index]) -> Any:
        where_ = _place(index, [positions[dim]], source.shape[dim], False)
        return source.read([*positions[:dim], where_, *positions[dim + 1 :]])

    return Value(result.shape, result.stride(), source.code, rule=element)


def gather(lowering: object, args: Sequence[Any], result: core.Tensor) -> Value:
    """An element for each of an index."""
    source, index = _source(args[0], args[2]), args[2]
    if not source.shape or not index.shape:
        raise NotLoops("a gather of a number")
    dim = args[1] % len(source.shape)
    check(lowering, index, 0, source.shape[dim], "gather", args[:3])

    def element(positions: list[Index]) -> Any:
        where_ = _place(index, positions, source.shape[dim], False)
        return source.read([*positions[:dim], where_, *positions[dim + 1 :]])

    return Value(result.shape, result.stride(), source.code, rule=element)


def advanced(lowering: object, args: Sequence[Any], result: core.Tensor) -> Value:
    """Advanced indexing by tensors: the block of the indices stands where they stand, or first."""
    indices = [*args[1], *[None] * (len(args[0].shape) - len(args[1]))]
    dims = [d for d, index in enumerate(indices) if index is not None]
    if not dims:
        raise NotLoops("an index without tensors")
    source = _source(args[0], *(indices[d] for d in dims))
    for d in dims:
        size = source.shape[d]
        check(lowering, indices[d], -size, size, "_index", args)
    block = max(len(indices[d].shape) for d in dims)
    first = dims[0] if dims[-1] - dims[0] + 1 == len(dims) else 0

    def element(positions: list[Index]) -> Any:
        shared = positions[first : first + block]
        others = iter([*positions[:first], *positions[first + block :]])
        own = [
            next(others) if index is None else _place(index, shared, source.shape[d], True)
            for d, index in enumerate(indices)
        ]
        return source.read(own)

    return Value(result.shape, result.stride(), source.code, rule=element)


def nll_rows(lowering: object, args: Sequence[Any], result: core.Tensor) -> Value:
    """Minus the element of each target's class, 0 where the target is the ignored one."""
    source, target, ignored = _source(args[0], args[1]), args[1], args[2]
    dim = min(1, len(source.shape) - 1)

    def kept(positions: list[Index]) -> tuple[Any, Any]:
        value = cast(elementwise.read_broadcast(target, positions), "i64")
        return apply("ne", value, ignored), value

    def of_kept(positions: list[Index]) -> Any:
        return where(*kept(positions), 0)

    index = Value(target.shape, target.strides, "i64", rule=of_kept)
    check(lowering, index, 0, source.shape[dim], "_nll_rows", args)

    def element(positions: list[Index]) -> Any:
        place = _place(index, positions, source.shape[dim], False)
        chosen = source.read([*positions[:dim], place, *positions[dim:]])
        return where(kept(positions)[0], -chosen, 0)

    return Value(result.shape, result.stride(), source.code, rule=element)


RULES |= {
    "embedding": embedding, "index_select": index_select, "gather": gather, "_index": advanced,
    "_nll_rows": nll_rows,
}  # fmt: skip
