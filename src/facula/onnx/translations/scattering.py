"""Writing by indices.

Takes and gives what `onnx.table` says.
Keeps true: where several values meet at a place, they are combined as the operator says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from facula import core
from facula.onnx.graph import Value
from facula.onnx.table import Call, translation
from facula.onnx.translations.indexing import Subscript, whole

#: PyTorch's words for how values are combined -> ONNX's
_COMBINED = {
    "sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min",
}  # fmt: skip


def combined(call: Call, reduce: str) -> str:
    """ONNX's word for a combination."""
    if reduce not in _COMBINED:
        call.unsupported("sum, prod, amax or amin was required", f"reduce={reduce!r}",
                         "scatter_reduce() has mean")  # fmt: skip
    return _COMBINED[reduce]


def _neutral(dtype: Any, word: str) -> Any:
    """What changes nothing that it is combined with."""
    if word in ("add", "mul"):
        return int(word == "mul")
    if dtype.is_floating_point:
        return -math.inf if word == "max" else math.inf
    limits = core.iinfo(dtype)
    return limits.min if word == "max" else limits.max


def _filled(call: Call, like: object, value: object, dtype: object) -> Any:
    """A number over all elements of a value."""
    shape = call.op("Shape", like, gives=core.int64)
    return call.op("ConstantOfShape", shape, value=core.tensor([value], dtype=dtype), gives=dtype)


def reduced(
    call: Call, x: Value, source: object, reduce: str, include_self: bool, write: Callable[..., Any]
) -> Any:
    """A source combined at places; without the tensor's own values, these make way first.

    Args:
        write: `(values, updates, reduction)` to the values with updates at the places.
    """
    mean, dtype = reduce == "mean", x.dtype
    word = "add" if mean else combined(call, reduce)
    if mean and not dtype.is_floating_point:
        call.unsupported("floats were required for reduce='mean'", dtype, "convert with .float()")
    if not include_self:
        x = _like(x, write(x, _filled(call, source, _neutral(dtype, word), dtype), None))
    total = write(x, source, word)
    if not mean:
        return total
    counts = _like(x, _filled(call, x, int(include_self), dtype))
    counts = write(counts, _like(source, _filled(call, source, 1, dtype)), "add")
    return call.op("Div", total, call.op("Max", counts, 1))


def _like(shaped: Any, value: Any) -> Any:
    """A value of which the sizes of another are known."""
    return Value(value.name, shaped.dtype, shaped.shape)


def _elements(
    call: Call, x: Value, dim: int, index: Value, updates: Any, reduction: str | None = None
) -> Any:
    """Write an element for each index."""
    flat = index.rank == 0
    if flat:
        x, index, updates = (call.op("Reshape", v, [-1]) for v in (x, index, updates))
    dtype, (x, updates) = x.dtype, _wide(call, (x, updates), reduction)
    found = call.op(
        "ScatterElements", x, index, updates, axis=0 if flat else dim, reduction=reduction
    )
    found = call.graph.cast(found, dtype)
    return call.op("Reshape", found, call.graph.sizes([])) if flat else found


def _wide(call: Call, values: Any, reduction: str | None) -> list[Any]:
    """What is combined in a dtype that runtimes combine, and in which nothing is rounded early."""
    dtype = values[0].dtype
    if reduction in ("max", "min") and call.graph.opset < 18:
        call.unsupported("an opset_version of at least 18 was required for amax and amin",
                         call.graph.opset, "pass opset_version=18")  # fmt: skip
    if reduction is None or dtype.itemsize >= 4:
        return list(values)
    return [
        call.graph.cast(v, core.float32 if dtype.is_floating_point else core.int32) for v in values
    ]


def _cut(call: Call, source: Any, index: Value) -> Any:
    """The part of a source that indices are given for."""
    if source.shape == index.shape:
        return source
    ends = call.op("Shape", index, gives=core.int64)
    return call.op("Slice", source, [0] * source.rank, ends)


@translation("scatter")
def scatter(
    call: Call, x: Value, dim: int, index: Value, src: Any = None, value: object = None,
    reduce: str | None = None,
) -> Any:  # fmt: skip
    """Elements of a source, or a number, written at indices."""
    index = whole(call, index)
    given = src if src is not None else value
    if isinstance(given, Value) and given.rank:
        updates = _cut(call, call.graph.cast(given, x.dtype), index)
    else:
        one = call.graph.cast(call.graph.value(given, x.dtype), x.dtype)
        updates = call.op("Expand", one, call.op("Shape", index, gives=core.int64))
    reduction = None if reduce is None else combined(call, reduce)
    return _elements(call, x, dim, index, updates, reduction)


@translation("scatter_add")
def scatter_add(call: Call, x: Value, dim: int, index: Value, src: object) -> Any:
    """Elements of a source added at indices."""
    index = whole(call, index)
    return _elements(call, x, dim, index, _cut(call, src, index), "add")


@translation("scatter_reduce")
def scatter_reduce(
    call: Call, x: Value, dim: int, index: Value, src: Any, reduce: str, include_self: bool = True
) -> Any:
    """Elements of a source combined at indices."""
    index = whole(call, index)
    source = Value(_cut(call, src, index).name, src.dtype, index.shape)

    def write(values: Any, updates: Any, reduction: str | None) -> Any:
        return _elements(call, values, dim, index, updates, reduction)

    return reduced(call, x, source, reduce, include_self, write)


def _rows(
    call: Call, x: Value, dim: int, index: Value, source: Any, reduction: str | None = None
) -> Any:
    """Write a slice for each index along a dimension."""
    order = [dim % x.rank, *[d for d in range(x.rank) if d != dim % x.rank]]
    back = [order.index(d) for d in range(x.rank)]
    index = call.graph.cast(index, core.int64)
    places = call.op("Reshape", index, [-1, 1])
    turned, rows = call.graph.transpose(x, order), call.graph.transpose(source, order)
    turned, rows = _wide(call, (turned, rows), reduction)
    found = call.op("ScatterND", turned, places, rows, reduction=reduction)
    return call.graph.transpose(call.graph.cast(found, x.dtype), back)


def _needs_dimensions(call: Call, x: Value) -> None:
    if not x.rank:
        call.unsupported("a tensor with dimensions was required", "one without",
                         "reshape(1) gives it one")  # fmt: skip


@translation("index_add")
def index_add(call: Call, x: Value, dim: int, index: Value, source: Any, alpha: object = 1) -> Any:
    """Slices added at indices."""
    _needs_dimensions(call, x)
    source = (
        source if alpha == 1 else Value(call.op("Mul", source, alpha).name, x.dtype, source.shape)
    )
    return _rows(call, x, dim, index, source, "add")


@translation("index_copy")
def index_copy(call: Call, x: Value, dim: int, index: Value, source: object) -> Any:
    """Slices written at indices."""
    _needs_dimensions(call, x)
    return _rows(call, x, dim, index, source)


@translation("index_reduce")
def index_reduce(
    call: Call,
    x: Value,
    dim: int,
    index: Value,
    source: object,
    reduce: str,
    include_self: bool = True,
) -> Any:
    """Slices combined at indices."""
    _needs_dimensions(call, x)

    def write(values: object, updates: object, reduction: str | None) -> Any:
        return _rows(call, _like(x, values), dim, index, _like(source, updates), reduction)

    return reduced(call, x, source, reduce, include_self, write)


@translation("index_fill")
def index_fill(call: Call, x: Value, dim: int, index: Value, value: object) -> Any:
    """A number written at indices."""
    _needs_dimensions(call, x)
    number = call.graph.cast(call.graph.value(value, x.dtype), x.dtype)
    shape = call.op("Shape", x, gives=core.int64)
    count = call.op("Shape", call.op("Reshape", index, [-1]), gives=core.int64)
    sizes = call.op("ScatterElements", shape, [dim % x.rank], count)
    source = Value(call.op("Expand", number, sizes).name, x.dtype, x.shape)
    return _rows(call, x, dim, index, source)


@translation("_index_put")
def index_put(call: Call, x: Value, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Values written where a subscript with tensors points."""
    subscript = Subscript(call, x, indices)
    index_sizes = _block(call, subscript)
    joined = subscript.joined(call, index_sizes)
    rest = [call.graph.size(x, d) for d in subscript.rest]
    ordered = [*rest[: subscript.first], *index_sizes, *rest[subscript.first :]]
    updates = call.op("Expand", call.graph.cast(values, x.dtype), call.graph.sizes(ordered))
    updates = call.graph.transpose(updates, subscript.leading())
    turned = call.graph.transpose(x, subscript.order)
    reduction = "add" if accumulate else None
    turned, updates = _wide(call, (turned, updates), reduction)
    found = call.op("ScatterND", turned, joined, updates, reduction=reduction)
    back = [subscript.order.index(d) for d in range(x.rank)]
    return call.graph.transpose(call.graph.cast(found, x.dtype), back)


def _block(call: Call, subscript: Subscript) -> list[Any]:
    """The sizes that indices broadcast to."""
    sizes: list[Any] = [1] * subscript.block
    for index in subscript.indices:
        for d, size in enumerate(index.shape, subscript.block - index.rank):
            if type(size) is not int:
                sizes[d] = call.graph.size(index, d - subscript.block + index.rank)
            elif size != 1:
                sizes[d] = size
    return sizes


@translation("select_scatter")
def select_scatter(call: Call, x: Value, src: object, dim: int, index: Value) -> Any:
    """A tensor with the entries at an index replaced."""
    row = Value(call.op("Unsqueeze", src, [dim % x.rank]).name, x.dtype, x.shape)
    return _rows(call, x, dim, call.graph.sizes([index]), row)


@translation("slice_scatter")
def slice_scatter(
    call: Call,
    x: Any,
    src: Any,
    dim: int = 0,
    start: object = None,
    end: object = None,
    step: int = 1,
) -> Any:
    """A tensor with a range along a dimension replaced."""
    from_, to, by = (call.graph.value(n, core.int64) for n in (0, call.graph.size(x, dim), 1))
    numbers = call.op("Range", from_, to, by)
    places = call.graph.slice(numbers, 0, 0 if start is None else start,
                              2**63 - 1 if end is None else end, step)  # fmt: skip
    return _rows(call, x, dim, places, src)
