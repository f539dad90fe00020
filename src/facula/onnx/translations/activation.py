"""Pointwise operators that are a node of their own in ONNX.

Takes and gives what `onnx.table` says.
Keeps true: an operator stands here only because runtimes know its node and fuse it with its
neighbours; its expression would give the same numbers.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.onnx.graph import Value
from facula.onnx.table import Call, translation


def _plain(call: Call, x: Value) -> Any:
    """The operand in the dtype of the result."""
    return call.graph.cast(x, call.dtype)


@translation("relu")
def relu(call: Call, x: Value) -> Any:
    """max(x, 0)."""
    if not call.dtype.is_floating_point:
        return call.op("Max", x, 0)
    return call.op("Relu", x)


@translation("sigmoid")
def sigmoid(call: Call, x: Value) -> Any:
    """1 / (1 + exp(-x))."""
    return call.op("Sigmoid", _plain(call, x))


@translation("silu")
def silu(call: Call, x: Value) -> Any:
    """x sigmoid(x)."""
    return call.op("Mul", x, call.op("Sigmoid", x))


@translation("hardsigmoid")
def hardsigmoid(call: Call, x: Value) -> Any:
    """min(max(x / 6 + 1 / 2, 0), 1)."""
    if call.dtype is core.float64:  # attributes are float32
        return NotImplemented
    return call.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@translation("hardswish")
def hardswish(call: Call, x: Value) -> Any:
    """x hardsigmoid(x)."""
    return NotImplemented if call.dtype is core.float64 else call.op("HardSwish", x)


@translation("leaky_relu")
def leaky_relu(call: Call, x: Value, negative_slope: Any) -> Any:
    """x where positive, else a multiple of it."""
    if isinstance(negative_slope, Value) or call.dtype is core.float64:
        return NotImplemented
    return call.op("LeakyRelu", x, alpha=float(negative_slope))


@translation("clamp")
def clamp(call: Call, x: Value, low: object, high: object) -> Any:
    """min(max(x, low), high)."""
    x = _plain(call, x)
    bounds = [b if b is None or not isinstance(b, Value) else _plain(call, b) for b in (low, high)]
    known = all(b is None or not isinstance(b, Value) for b in bounds)
    if known and call.dtype is not core.bool_:
        return call.op("Clip", x, *bounds)
    for bound, kind in zip(bounds, ("Max", "Min"), strict=True):
        x = x if bound is None else call.op(kind, x, bound)
    return x
