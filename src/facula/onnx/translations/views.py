"""Views as arithmetic on shapes.

Takes and gives what `onnx.table` says.
Keeps true: sizes that depend on inputs are computed in the graph; a view of everything is no node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.onnx.graph import Value
from facula.onnx.table import Call, translation

#: an index behind every element
_END = 2**63 - 1


def view(name: str) -> Callable[[Any], Any]:
    """A translation that serves a view and the operator that copies it."""

    def enter(function: Callable[..., Any]) -> Any:
        translation(name)(function)
        return translation(f"{name}_copy")(function)

    return enter


@view("view")
def reshape(call: Call, x: Value, size: object) -> Any:
    """The elements in another shape."""
    sizes = list(size) if isinstance(size, (list, tuple)) else [size]
    if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)):
        sizes = list(sizes[0])
    if any(isinstance(n, core.dtype) for n in sizes):
        call.unsupported("sizes were required", "a dtype", "ONNX has no views of bits")
    return call.graph.reshape(x, sizes)


@view("transpose")
@view("swapaxes")
def transpose(call: Call, x: Value, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged."""
    order = list(range(x.rank))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return call.graph.transpose(x, order)


@view("t")
def t(call: Call, x: Value) -> Any:
    """A matrix turned."""
    return call.graph.transpose(x, list(range(x.rank))[::-1])


@view("permute")
def permute(call: Call, x: Value, dims: Any) -> Any:
    """The dimensions in another order."""
    return call.graph.transpose(x, [d % x.rank for d in dims])


@view("expand")
def expand(call: Call, x: Value, size: Any, implicit: bool = False) -> Any:
    """Repeated along dimensions of size 1; -1 keeps a size, as 1 does in ONNX."""
    sizes = [1 if not isinstance(n, Value) and n == -1 else n for n in size]
    return call.op("Expand", x, call.graph.sizes(sizes))


@view("select")
def select(call: Call, x: Value, dim: int, index: object) -> Any:
    """The entries at an index."""
    index = index if isinstance(index, Value) else call.graph.value(index, core.int64)
    return call.op("Gather", x, index, axis=dim)


@view("slice")
def slice_(call: Call, x: Value, dim: int, start: object, end: object, step: int) -> Any:
    """A range along a dimension."""
    start = 0 if start is None else start
    end = _END if end is None else end
    if step == 1 and (start, end) == (0, _END):
        return x
    return call.graph.slice(x, dim, start, end, step)


@view("unsqueeze")
def unsqueeze(call: Call, x: Value, dim: int) -> Any:
    """A dimension of size 1 more."""
    return call.op("Unsqueeze", x, [dim])


@view("squeeze")
def squeeze(call: Call, x: Any, dim: Any) -> Any:
    """Dimensions of size 1 fewer."""
    dims = [d for d in call.dims(dim, x.rank) if type(x.shape[d]) is int and x.shape[d] == 1]
    return call.op("Squeeze", x, dims) if dims else x


@translation("basic_index")
def basic_index(call: Call, x: Any, index: Any) -> Any:
    """A subscript of numbers, ranges, None and an ellipsis."""
    items = list(index) if isinstance(index, (tuple, list)) else [index]
    taken = sum(item is not None and item is not Ellipsis for item in items)
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)
    dim = 0
    for item in items:
        if item is None:
            x, dim = call.op("Unsqueeze", x, [dim]), dim + 1
        elif item is Ellipsis:
            dim += call_rank(call, x, items) - taken
        elif isinstance(item, slice):
            if (item.start, item.stop, item.step) != (None, None, None):
                stop = _END if item.stop is None else item.stop
                x = call.graph.slice(x, dim, item.start or 0, stop, item.step or 1)
            dim += 1
        else:
            item = item if isinstance(item, Value) else call.graph.value(int(item), core.int64)
            x = call.op("Gather", x, item, axis=dim)
    return x


def call_rank(call: Call, x: Value, items: Any) -> int:
    """The rank of what is subscripted, from that of the result."""
    removed = sum(not isinstance(i, slice) and i is not None and i is not Ellipsis for i in items)
    added = sum(i is None for i in items)
    return call.metas[0].dim() + removed - added


@view("unfold")
def unfold(call: Call, x: Value, dim: int, size: int, step: int) -> Any:
    """Windows along a dimension, as a last dimension."""
    dim = dim % x.rank if x.rank else 0
    count = call.shape()[dim]
    starts = call.op("Mul", ranged(call, count), step)
    places = call.op("Add", call.op("Unsqueeze", starts, [1]), ranged(call, size))
    found = call.op("Gather", x, places, axis=dim)
    order = [d for d in range(x.rank + 1) if d != dim + 1]
    return call.graph.transpose(found, [*order, dim + 1])


def ranged(call: Call, stop: Any) -> Any:
    """The numbers from 0 up to a number or value."""
    if not isinstance(stop, Value):
        return call.graph.constant(core.tensor(list(range(stop)), dtype=core.int64))
    zero, one = (call.graph.value(n, core.int64) for n in (0, 1))
    return call.op("Range", zero, stop, one)


@view("diagonal")
def diagonal(call: Call, x: Value, offset: int, dim1: int, dim2: int) -> Any:
    """The diagonal of two dimensions, as a last dimension."""
    dim1, dim2 = dim1 % x.rank, dim2 % x.rank
    rest = [d for d in range(x.rank) if d not in (dim1, dim2)]
    width = call.graph.size(x, dim2)
    sizes = [call.graph.size(x, d) for d in rest]
    flat = call.graph.reshape(call.graph.transpose(x, [*rest, dim1, dim2]), [*sizes, -1])
    steps = ranged(call, call.shape()[-1])
    rows = call.op("Mul", call.op("Add", steps, max(-offset, 0)), width)
    places = call.op("Add", rows, call.op("Add", steps, max(offset, 0)))
    return call.op("Gather", flat, places, axis=len(rest))


@translation("unbind")
def unbind(call: Call, x: Value, dim: int) -> Any:
    """All slices along a dimension."""
    return [
        call.op("Gather", x, call.graph.value(i, core.int64), axis=dim)
        for i in range(len(call.metas))
    ]


@translation("split_with_sizes")
def split_with_sizes(call: Call, x: Value, split_sizes: Any, dim: int) -> Any:
    """Pieces along a dimension."""
    if len(split_sizes) == 1:
        return [x]
    pieces = call.graph.sizes(split_sizes)
    return list(call.op("Split", x, pieces, axis=dim, outputs=len(split_sizes)))


@translation("sym_size")
def sym_size(call: Call, x: Value, dim: int) -> Any:
    """A size."""
    return call.graph.size(x, dim)


@translation("real")
def real(call: Call, x: Value) -> Any:
    """A real tensor itself."""
    return x


@translation("_within")
def within(call: Call, x: Value, low: int, high: int, op: str, message: str) -> Any:
    """Indices, which runtimes check themselves."""
    return x


@translation("clone")
@translation("detach")
@translation("lift_fresh_copy")
def itself(call: Call, x: Value, *args: object, **kwargs: object) -> Any:
    """A copy, or a view of everything."""
    return x


@translation("_to_copy")
def to_copy(call: Call, x: Value, *args: object, **kwargs: object) -> Any:
    """The elements in another dtype."""
    return call.graph.cast(x, call.dtype)
