"""Factories whose sizes depend on inputs; all others are constants.

Takes and gives what `onnx.table` says.
Keeps true: fresh memory is zeros, so that a file depends on the model alone.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.onnx.graph import Value
from facula.onnx.table import Call, translation
from facula.onnx.translations.views import ranged


def filled(call: Call, value: object) -> Any:
    """The result's shape full of a number."""
    sizes = call.graph.sizes(call.shape())
    if isinstance(value, Value):
        return call.op("Expand", call.graph.cast(value, call.dtype), sizes)
    one = core.tensor([value], dtype=call.dtype)
    return call.op("ConstantOfShape", sizes, value=one, gives=call.dtype)


def _factory(name: str, value: int) -> None:
    translation(name)(lambda call, *args, **kwargs: filled(call, value))


for _prefix in ("{}", "{}_like", "new_{}"):
    _factory(_prefix.format("zeros"), 0)
    _factory(_prefix.format("ones"), 1)
    _factory(_prefix.format("empty"), 0)
_factory("empty_strided", 0)
_factory("new_empty_strided", 0)
_factory("empty_permuted", 0)


@translation("full")
def full(call: Call, size: object, fill_value: object, *options: object) -> Any:
    """A shape full of a number."""
    return filled(call, fill_value)


@translation("full_like")
def full_like(call: Call, x: Value, fill_value: object, *options: object) -> Any:
    """A tensor's shape full of a number."""
    return filled(call, fill_value)


@translation("new_full")
def new_full(call: Call, x: Value, size: object, fill_value: object, *options: object) -> Any:
    """A shape full of a number."""
    return filled(call, fill_value)


@translation("scalar_tensor")
def scalar_tensor(call: Call, s: object, *options: object) -> Any:
    """A number as a tensor."""
    return call.graph.cast(call.graph.value(s, call.dtype), call.dtype)


@translation("arange")
def arange(call: Call, start: object, end: object, step: object, *options: object) -> Any:
    """Numbers at equal distances."""
    if end is None:
        start, end = 0, start
    wide = call.dtype if call.dtype in (core.float32, core.float64, core.int64) else core.int64
    bounds = [call.graph.cast(call.graph.value(n, wide), wide) for n in (start or 0, end, step)]
    return call.graph.cast(call.op("Range", *bounds), call.dtype)


@translation("eye")
def eye(call: Call, n: object, m: object, *options: object) -> Any:
    """Ones on the diagonal."""
    rows, columns = (ranged(call, size) for size in call.shape())
    same = call.op("Equal", call.op("Unsqueeze", rows, [1]), columns, gives=core.bool_)
    return call.graph.cast(same, call.dtype)


@translation("linspace")
def linspace(call: Call, start: object, end: object, steps: object, *options: object) -> Any:
    """A number of values from one number to another."""
    wide = call.dtype if call.dtype.is_floating_point else core.float32
    first, last = (call.graph.cast(call.graph.value(n, wide), wide) for n in (start, end))
    count = call.graph.value(call.shape()[0], core.int64)
    gaps = call.graph.cast(call.op("Max", call.op("Sub", count, 1), 1), wide)
    step = call.op("Div", call.op("Sub", last, first), gaps)
    places = call.graph.cast(ranged(call, call.shape()[0]), wide)
    return call.graph.cast(call.op("Add", call.op("Mul", places, step), first), call.dtype)
