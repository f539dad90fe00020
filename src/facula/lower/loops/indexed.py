"""Operators that move elements, as index arithmetic: joins, flips, padding, gathers.

Takes: a call's arguments as values. Gives: `RULES`, by operator: values whose elements are read
from the arguments at computed places.
Keeps true: an element outside of what an argument holds is never read; an index that was not
checked is checked in the operator itself, so that bad indices raise as in eager.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.lower.loops import elementwise, ir
from facula.lower.loops import index as ix
from facula.lower.loops.index import Index
from facula.lower.loops.values import NotLoops, Value
from facula.ops.expr.node import Complex, constant, node
from facula.ops.expr.primitives import where

#: operator name -> function(lowering, arguments in schema order, result) -> value
RULES: dict[str, Callable[[Any, Sequence[Any], Any], Any]] = {}


def rule(name: str) -> Callable[[Any], Any]:
    """Enter the rule of an operator."""

    def enter(function: Callable[..., Any]) -> Any:
        RULES[name] = function
        return function

    return enter


def _chosen(condition: object, a: Any, b: Any) -> Any:
    if isinstance(a, Complex) or isinstance(b, Complex):
        return Complex(where(condition, a.re, b.re), where(condition, a.im, b.im))
    return where(condition, a, b)


def _less(index: Index, bound: int) -> Any:
    """Whether an index lies below a bound: known, or an expression."""
    low, high = index.bounds()
    if high < bound:
        return True
    if low >= bound:
        return False
    return ir.position(index) < ir.position(ix.constant(bound))


def clamped(index: Index, size: int) -> Index:
    """The nearest index within `[0, size)`."""
    low, high = index.bounds()
    if 0 <= low and high < size:
        return index
    value = ir.position(index)
    if low < 0:
        value = node("maximum", (value, ir.position(ix.ZERO)), "i64")
    if high >= size:
        value = node("minimum", (value, ir.position(ix.constant(size - 1))), "i64")
    return ix.of(ix.Indirect(value, size))


@rule("flip")
def flip(lowering: object, args: Sequence[Any], result: core.Tensor) -> Value:
    source, dims = args[0], args[1]
    rank = len(source.shape)
    dims = {d % rank for d in ((dims,) if isinstance(dims, int) else dims)} if rank else set()

    def element(positions: list[Index]) -> Any:
        return source.read(
            [p * -1 + (source.shape[d] - 1) if d in dims else p for d, p in enumerate(positions)]
        )

    return Value(result.shape, result.stride(), source.code, rule=element)


@rule("constant_pad_nd")
def constant_pad_nd(lowering: Any, args: Sequence[Any], result: core.Tensor) -> Value:
    source, pads, filler = args[0], tuple(args[1]), args[2]
    rank = len(source.shape)
    before = [0] * rank
    for k in range(len(pads) // 2):
        before[rank - 1 - k] = pads[2 * k]
    outside = elementwise.number(0 if filler is None else filler, source.code)
    if source.numel == 0:
        return lowering.full_like(result, 0 if filler is None else filler)

    def element(positions: list[Index]) -> Any:
        own = [p - before[d] for d, p in enumerate(positions)]
        value = source.read([clamped(p, source.shape[d]) for d, p in enumerate(own)])
        for d, p in enumerate(own):
            for known, inside_first in ((_less(p, source.shape[d]), True), (_less(p, 0), False)):
                if isinstance(known, bool):
                    value = value if known is inside_first else outside
                elif inside_first:
                    value = _chosen(known, value, outside)
                else:
                    value = _chosen(known, outside, value)
        return value

    return Value(result.shape, result.stride(), source.code, rule=element)


@rule("cat")
def cat(lowering: object, args: Sequence[Any], result: core.Tensor) -> Value:
    parts, dim = list(args[0]), args[1]
    rank = len(result.shape)
    dim = dim % rank if rank else 0
    parts = [p for p in parts if not (len(p.shape) == 1 and p.shape[0] == 0 and rank != 1)]
    return _joined(lowering, parts, dim, result)


@rule("stack")
def stack(lowering: object, args: Sequence[Any], result: core.Tensor) -> Value:
    dim = args[1] % len(result.shape)
    parts = [_unsqueezed(part, dim) for part in args[0]]
    return _joined(lowering, parts, dim, result)


def _unsqueezed(part: Value, dim: int) -> Value:
    shape = (*part.shape[:dim], 1, *part.shape[dim:])
    strides = (*part.strides[:dim], 1, *part.strides[dim:])

    def element(positions: list[Index]) -> Any:
        return part.read([*positions[:dim], *positions[dim + 1 :]])

    return Value(shape, strides, part.code, rule=element)


def _joined(lowering: Any, parts: list[Value], dim: int, result: core.Tensor) -> Value:
    """Every part is computed straight into its place of the result."""
    code = result.dtype.code
    if code not in ir.REGISTER or any(part.code not in ir.REGISTER for part in parts):
        raise NotLoops(f"the dtype {code}")
    strides = tuple(result.stride())
    buffer = lowering.buffer(code, result.shape, strides)
    start = 0
    for part in parts:
        if part.numel:
            converted = _in_dtype(part, code)
            lowering.store_into(converted, buffer, strides, start * strides[dim])
        start += part.shape[dim]
    view = ir.View(buffer, buffer.shape, buffer.strides, 0, code)
    return Value(result.shape, strides, code, view=view)


def _in_dtype(part: Value, code: str) -> Value:
    if part.code == code:
        return part

    def element(positions: list[Index]) -> Any:
        return elementwise.rounded(part.read(positions), code)

    return Value(part.shape, part.strides, code, rule=element)


@rule("arange")
def arange(lowering: object, args: Sequence[Any], result: core.Tensor) -> Value:
    start, end, step = args[0], args[1], args[2]
    start = 0 if end is None or start is None else start
    code = result.dtype.code
    if not all(type(x) is int for x in (start, step)) or code not in ("i64", "i32"):
        raise NotLoops("a range of numbers that are not whole")

    def element(positions: list[Index]) -> Any:
        return elementwise.converted(ir.position(positions[0] * step + start), code)

    return Value(result.shape, result.stride(), code, rule=element)


@rule("roll")
def roll(lowering: object, args: Sequence[Any], result: core.Tensor) -> Value:
    source, shifts, dims = args[0], args[1], args[2]
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = (dims,) if isinstance(dims, int) else tuple(dims or ())
    if len(shifts) != len(dims) or source.numel == 0:
        raise NotLoops("a roll of all elements")
    moved = [0] * len(source.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        moved[dim] += shift

    def element(positions: list[Index]) -> Any:
        own = []
        for d, place in enumerate(positions):
            size = source.shape[d]
            back = -moved[d] % size
            own.append(ix.mod(place + back, size) if back else place)
        return source.read(own)

    return Value(result.shape, result.stride(), source.code, rule=element)


def _triangle(upper: bool) -> Any:
    def triangle(lowering: object, args: Sequence[Any], result: core.Tensor) -> Value:
        source, diagonal = args[0], args[1]
        outside = elementwise.number(0, source.code)

        def element(positions: list[Index]) -> Any:
            row, column = positions[-2], positions[-1]
            left = ir.position(column - row + (result.shape[-2] - diagonal))
            bound = ir.position(ix.constant(result.shape[-2]))
            inside = left >= bound if upper else left <= bound
            return _chosen(inside, source.read(positions), outside)

        return Value(result.shape, result.stride(), source.code, rule=element)

    return triangle


RULES["tril"], RULES["triu"] = _triangle(False), _triangle(True)


def _below(limit: float) -> float:
    """The largest f32 number below a limit > 0."""
    (bits,) = struct.unpack("<i", struct.pack("<f", limit))
    return struct.unpack("<f", struct.pack("<i", bits - 1))[0]


@rule("_philox_fill")
def philox_fill(lowering: object, args: Sequence[Any], result: core.Tensor) -> Value:
    """Random numbers by element: the same as eager draws, so a mask need not be stored."""
    state, _, kind, a, b = args[:5]
    code = result.dtype.code
    strides = tuple(result.stride())
    if kind == "bernoulli" and isinstance(a, float) and 0 <= a <= 1:
        threshold = constant(int(a * 2.0**32), "i64")
    elif not (kind == "uniform" and code == "f32" and a == 0 and b > 0):
        raise NotLoops(f"numbers of the kind {kind}")

    def element(positions: list[Index]) -> Any:
        seed, offset = (state.read([ix.constant(k)]) for k in (0, 1))
        place = ir.position(ix.linear(positions, strides))
        if kind == "uniform":
            found = node("philox", (seed, offset, place), "f32", "uniform") * float(b)
            limit = constant(b, "f32")
            return where(found < limit, found, constant(_below(float(b)), "f32"))
        word = node("philox", (seed, offset, place), "i64", "word")
        return elementwise.converted(word < threshold, code)

    return Value(result.shape, strides, code, rule=element)
