"""Derivatives of scalar expressions, from the rules in the table of primitives.

Takes: output nodes and a leaf.
Gives: `derivative` (d output / d leaf as an expression), `scale` (a derivative times an incoming gradient).
Keeps true: a branch that is not taken contributes nothing, not even zero times infinity: the derivative of
`where(c, a, b)` is `where(c, da, db)`, and an incoming gradient is pushed into the branches.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.ops.expr.node import FLOATS, Scalar, cast, constant, topological_order
from facula.ops.expr.primitives import PRIMITIVES, UNKNOWN, is_constant, where


def derivative(output: Scalar, seeds: dict[int, Scalar]) -> Scalar | None:
    """The tangent of `output` when the leaves in `seeds` (by id) have these tangents; None is zero."""
    tangents: dict[int, Scalar | None] = dict(seeds)
    for current in topological_order((output,)):
        if id(current) not in tangents:
            inner = [tangents[id(arg)] for arg in current.args]
            known = any(t is not None for t in inner)
            tangents[id(current)] = _tangent(current, inner) if known else None
    return tangents[id(output)]


def _tangent(current: Scalar, inner: list[Scalar | None]) -> Scalar | None:
    if current.op == "where":
        return _branches(current, inner[1], inner[2])
    if current.op == "cast":
        floating = current.dtype in FLOATS and inner[0] is not None
        return cast(inner[0], current.dtype) if floating else None
    primitive = PRIMITIVES[current.op]
    if primitive.result == "b8" or current.dtype not in FLOATS:
        return None
    total: Any = None
    for tangent, rule in zip(inner, primitive.derivative, strict=True):
        if tangent is None or rule is None:
            continue
        if rule is UNKNOWN:
            fail(
                NotImplementedError,
                current.op,
                "a differentiable argument was required",
                "one without a known derivative",
                hint="detach() that argument",
            )
        term = rule(tangent, current, *current.args)
        total = term if total is None else total + term
    return total


def _branches(choice: Scalar, a: Scalar | None, b: Scalar | None) -> Scalar | None:
    if a is None and b is None:
        return None
    zero = constant(0.0, choice.dtype)
    return where(choice.args[0], zero if a is None else a, zero if b is None else b)


def scale(slope: Scalar, incoming: Scalar) -> Scalar:
    """`incoming * slope`, with the incoming gradient pushed through choices, signs and exact zeros."""
    if is_constant(slope, 0.0):
        return slope
    if slope.op == "where" and any(branch.op == "constant" for branch in slope.args[1:]):
        condition, a, b = slope.args
        return where(condition, scale(a, incoming), scale(b, incoming))
    if slope.op == "neg":
        return -scale(slope.args[0], incoming)
    if slope.op == "reciprocal":
        return incoming / slope.args[0]
    return incoming * slope
