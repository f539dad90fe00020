"""Operators for the scalar primitives that are no operators of PyTorch.

Takes: nothing; imported after the other families.
Gives: for each primitive without an operator of its name, an internal one (`F.erfcx`, `F.i1e`, ..).
Keeps true: every scalar expression can be evaluated on tensors, which is how gradients are differentiated again.
"""

from __future__ import annotations

from facula.ops.expr import scalar as s
from facula.ops.expr.primitives import POLYNOMIALS, PRIMITIVES, Primitive
from facula.ops.table.registry import TABLE, pointwise


def _define(primitive: Primitive) -> None:
    arguments = ("x",) if primitive.arity == 1 else ("x", "y")

    def unary(x):
        return s.apply(primitive.name, x)

    def binary(x, y):
        return s.apply(primitive.name, x, y)

    body = unary if primitive.arity == 1 else binary
    body.__doc__ = f"The scalar primitive `{primitive.name}`."
    pointwise(
        f"{primitive.name}({', '.join(f'Operand {name}' for name in arguments)}) -> Tensor",
        names=(),
        dtypes=primitive.kinds,
        result="bool" if primitive.result == "b8" else "same",
        inplace=False,
        out=False,
        domain={"x": (-1, 1), "y": (0, 6)} if primitive.name in POLYNOMIALS else None,
    )(body)


for _primitive in PRIMITIVES.values():
    if _primitive.name not in TABLE:
        _define(_primitive)
