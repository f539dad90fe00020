"""`out_dtype`: an operator whose sums are kept in another dtype than its operands'.

Takes: an overload, the dtype of the result, and the operator's arguments. Gives: the result in that dtype.
Keeps true: products of bytes are exact sums of 32 bits (`_int_mm`); all else is computed on arguments that
were converted first, so that nothing is lost between.
"""

from __future__ import annotations

from typing import Any

from facula import core, ops
from facula.core.errors import fail
from facula.fx.higher_order import HigherOrderOperator
from facula.quantization import weight_only

__all__ = ["OutDtypeOperator", "out_dtype"]


class OutDtypeOperator(HigherOrderOperator):
    """`out_dtype(operator, dtype, *arguments)`."""

    def __init__(self) -> None:
        super().__init__("out_dtype")

    def __call__(self, op: object, output_dtype: core.dtype, *args: object) -> Any:
        if not isinstance(op, ops.table.overloads.OpOverload):
            fail(ValueError, "out_dtype", "an overload of an operator was required (out_dtype's first argument "
                 "must be an OpOverload)", type(op).__name__, hint="ops.aten.mm.default is one")  # fmt: skip
        if op == ops.aten.mm.default and output_dtype == core.int32 and _bytes(args):
            return weight_only._int_mm(*args)
        given = [a.to(output_dtype) if isinstance(a, core.Tensor) else a for a in args]
        return op(*given).to(output_dtype)


def _bytes(args: tuple[Any, ...]) -> bool:
    return all(isinstance(a, core.Tensor) and a.dtype == core.int8 for a in args)


out_dtype = OutDtypeOperator()
