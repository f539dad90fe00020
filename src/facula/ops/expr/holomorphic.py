"""Derivatives of complex functions from those of the real functions that they continue.

Takes: the expression of a function over real numbers, and that of its gradient.
Gives: `continues` (whether the function over complex numbers is the analytic continuation: it is made of
functions that are) and `continued` (an expression at other values, complex ones too).
Keeps true: where f is holomorphic, PyTorch's gradient (dL/dre + i dL/dim) is grad * conj(f'(z)), and
conj(f'(z)) = f'(conj(z)), since f is real on the real axis; on a cut, conj says from which side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from facula.ops.expr.complex_functions import HOLOMORPHIC
from facula.ops.expr.node import Complex, Scalar, apply, cast, topological_order

_LEAVES = ("constant", "input", "grad", "result", "parameter", "cast")


def continues(outputs: Sequence[Scalar]) -> bool:
    """Whether all functions in expressions over real numbers have an analytic continuation."""
    return all(n.op in _LEAVES or n.op in HOLOMORPHIC for n in topological_order(outputs))


def continued(output: Scalar, values: Mapping[int, Any]) -> Any:
    """The expression with its leaves replaced, by identity; numbers and parameters stay what they are."""
    known = dict(values)
    for node in topological_order((output,)):
        if id(node) in known:
            continue
        args = [known[id(arg)] for arg in node.args]
        if node.op == "cast":
            known[id(node)] = args[0] if isinstance(args[0], Complex) else cast(args[0], node.dtype)
        elif args:
            known[id(node)] = apply(node.op, *args)
        else:
            known[id(node)] = node
    return known[id(output)]
