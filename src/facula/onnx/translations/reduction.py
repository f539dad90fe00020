"""Reductions and scans.

Takes and gives what `onnx.table` says.
Keeps true: sums of 16-bit floats that are squared or long are taken in float32, as kernels take them.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.onnx.graph import Value
from facula.onnx.table import Call, translation


def reduce(
    call: Call, kind: str, x: Value, dim: object, keepdim: bool, rank: int | None = None
) -> Any:
    """A reduction over dimensions; none given are all."""
    rank = x.rank if rank is None else rank
    dims = call.dims(dim, rank)
    if not rank:
        return x
    keeps = int(bool(keepdim))
    if call.graph.opset < 18 and kind != "ReduceSum":
        return call.op(kind, x, axes=dims, keepdims=keeps)
    return call.op(kind, x, dims, keepdims=keeps)


def wide(call: Call, x: Value) -> Any:
    """16-bit floats as float32."""
    narrow = x.dtype.is_floating_point and x.dtype.itemsize < 4
    return call.graph.cast(x, core.float32) if narrow else x


def orderable(call: Call, x: Value) -> Any:
    """Small whole numbers and truth values as numbers that runtimes order."""
    small = not x.dtype.is_floating_point and x.dtype.itemsize < 4
    return Value(call.graph.cast(x, core.int32).name, core.int32, x.shape) if small else x


def _sum(call: Call, kind: str, x: Value, dim: object, keepdim: bool) -> Any:
    rank = x.rank
    return reduce(call, kind, call.graph.cast(x, call.dtype), dim, keepdim, rank)


@translation("sum")
def sum_(call: Call, x: Value, dim: object, keepdim: bool, dtype: object = None) -> Any:
    """The sum."""
    return _sum(call, "ReduceSum", x, dim, keepdim)


@translation("mean")
def mean(call: Call, x: Value, dim: object, keepdim: bool, dtype: object = None) -> Any:
    """The mean."""
    return _sum(call, "ReduceMean", x, dim, keepdim)


@translation("prod")
def prod(call: Call, x: Value, dim: object, keepdim: bool, dtype: object = None) -> Any:
    """The product."""
    return _sum(call, "ReduceProd", x, dim, keepdim)


def _ordered(name: str, kind: str) -> None:
    def extreme(call: Call, x: Value, dim: object = None, keepdim: bool = False) -> Any:
        found = reduce(call, kind, orderable(call, x), dim, keepdim, x.rank)
        return call.graph.cast(found, call.dtype)

    translation(name)(extreme)


_ordered("amax", "ReduceMax")
_ordered("amin", "ReduceMin")


def _truth(name: str, kind: str) -> None:
    def truth(call: Call, x: Value, dim: object, keepdim: bool) -> Any:
        numbers = call.graph.cast(call.graph.cast(x, core.bool_), core.int32)
        return call.graph.cast(reduce(call, kind, numbers, dim, keepdim, x.rank), call.dtype)

    translation(name)(truth)


_truth("any", "ReduceMax")
_truth("all", "ReduceMin")


def _position(call: Call, kind: str, x: Value, dim: object, keepdim: bool) -> Any:
    rank, x = x.rank, orderable(call, x)
    if dim is None or not rank:
        flat = call.op("Reshape", x, [-1])
        found = call.op(kind, flat, axis=0, keepdims=0, gives=core.int64)
        return call.op("Reshape", found, [1] * rank) if keepdim and rank else found
    return call.op(kind, x, axis=dim, keepdims=int(keepdim), gives=core.int64)


def _positions(name: str, reduction: str, kind: str) -> None:
    def position(call: Call, x: Value, dim: object, keepdim: bool) -> Any:
        return _position(call, kind, x, dim, keepdim)

    def both(call: Call, x: Value, dim: int, keepdim: bool) -> Any:
        value = reduce(call, reduction, orderable(call, x), dim, keepdim, x.rank)
        return [call.graph.cast(value, call.dtype), _position(call, kind, x, dim, keepdim)]

    translation(f"arg{name}")(position)
    translation(f"{name}_dim")(both)


_positions("max", "ReduceMax", "ArgMax")
_positions("min", "ReduceMin", "ArgMin")


def variance(call: Call, x: Value, dim: Any, correction: float, keepdim: bool) -> Any:
    """The variance and the mean."""
    rank, sized = x.rank, x
    x = wide(call, x)
    middle = reduce(call, "ReduceMean", x, dim, True, rank)
    apart = call.op("Sub", x, middle)
    squares = reduce(call, "ReduceSum", call.op("Mul", apart, apart), dim, keepdim, rank)
    count: Any = 1
    for d in call.dims(dim, rank):
        size = call.graph.size(sized, d)
        both = isinstance(count, int) and isinstance(size, int)
        count = count * size if both else call.sizes.arithmetic("Mul", count, size)
    if isinstance(count, Value):
        freedom = call.op("Sub", call.graph.cast(count, x.dtype), float(correction))
        freedom = call.op("Max", freedom, 0.0)
    else:
        freedom = max(count - correction, 0.0)
    return call.op("Div", squares, freedom), reduce(call, "ReduceMean", x, dim, keepdim, rank)


@translation("var_correction")
def var_correction(call: Call, x: Value, dim: object, correction: float, keepdim: bool) -> Any:
    """The variance."""
    return call.graph.cast(variance(call, x, dim, correction, keepdim)[0], call.dtype)


@translation("var_mean_correction")
def var_mean_correction(call: Call, x: Value, dim: object, correction: float, keepdim: bool) -> Any:
    """The variance and the mean."""
    return [call.graph.cast(v, call.dtype) for v in variance(call, x, dim, correction, keepdim)]


@translation("logsumexp")
def logsumexp(call: Call, x: Value, dim: object, keepdim: bool) -> Any:
    """The logarithm of the sum of exponentials."""
    found = reduce(call, "ReduceLogSumExp", wide(call, call.graph.cast(x, call.dtype)), dim, keepdim,
                   x.rank)  # fmt: skip
    return call.graph.cast(found, call.dtype)


@translation("vector_norm")
def vector_norm(call: Call, x: Value, ord: float, dim: object, keepdim: bool) -> Any:  # noqa: A002
    """The norm of order `ord`."""
    rank = x.rank
    size = call.op("Abs", wide(call, x))
    if ord in (1, 2):
        found = reduce(call, f"ReduceL{int(ord)}", size, dim, keepdim, rank)
    elif math.isinf(ord):
        found = reduce(call, "ReduceMax" if ord > 0 else "ReduceMin", size, dim, keepdim, rank)
    elif ord == 0:
        there = call.graph.cast(call.op("Greater", size, 0, gives=core.bool_), size.dtype)
        found = reduce(call, "ReduceSum", there, dim, keepdim, rank)
    else:
        powers = reduce(call, "ReduceSum", call.op("Pow", size, float(ord)), dim, keepdim, rank)
        found = call.op("Pow", powers, 1 / float(ord))
    return call.graph.cast(found, call.dtype)


@translation("cumsum")
def cumsum(call: Call, x: Any, dim: int, dtype: object = None) -> Any:
    """Sums up to each element."""
    if not x.rank:
        return call.graph.cast(x, call.dtype)
    summed = wide(call, call.graph.cast(x, call.dtype))
    found = call.op("CumSum", summed, call.graph.value(dim % x.rank, core.int64))
    return call.graph.cast(found, call.dtype)


@translation("cumprod")
def cumprod(call: Call, x: Any, dim: int, dtype: object = None) -> Any:
    """Products up to each element: each step doubles how many factors are in."""
    rank = x.rank
    found = call.graph.cast(x, call.dtype)
    if not rank:
        return found
    (size,) = call.static("length of cumprod()", [call.graph.size(x, dim % rank)])
    step = 1
    while step < size:
        before = [step if d == dim % rank else 0 for d in range(rank)]
        kept = call.graph.slice(found, dim, 0, size - step)
        moved = call.op("Pad", kept, [*before, *[0] * rank], call.graph.value(1, call.dtype))
        found, step = call.op("Mul", found, moved), step * 2
    return found
