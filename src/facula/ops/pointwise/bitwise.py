"""Operations on the bits of integers, and on bools.

Takes: integer and bool tensors, numbers.
Gives: operators `bitwise_and`, `bitwise_or`, `bitwise_xor`, `bitwise_not`, `bitwise_left_shift`, `bitwise_right_shift`.
Keeps true: shifts by less than zero or by the width and more shift everything out.
"""

from __future__ import annotations

from facula import core
from facula.ops.expr import scalar as s
from facula.ops.table.registry import pointwise


def _binary(
    name: str, dtypes: str, meaning: str, reference: str = "", overload: str | None = None
) -> core.Op:
    def body(x, y):
        return s.apply(name, x, y)

    body.__doc__ = meaning
    return pointwise(
        f"{name}(Operand self, Operand other) -> Tensor",
        dtypes=dtypes,
        differentiable=False,
        reference=f"numpy.{reference or name}",
        overload=overload,
    )(body)


bitwise_and = _binary("bitwise_and", "bool int", "Bits set in both.")
bitwise_or = _binary("bitwise_or", "bool int", "Bits set in one of them.")
bitwise_xor = _binary("bitwise_xor", "bool int", "Bits that differ.")
_SHIFTS = "self:number=Scalar_Tensor, other:number=Tensor_Scalar, Tensor"
bitwise_left_shift = _binary(
    "bitwise_left_shift", "int", "``self << other``.", "left_shift", _SHIFTS
)
bitwise_right_shift = _binary(
    "bitwise_right_shift", "int", "``self >> other``, the sign kept.", "right_shift", _SHIFTS
)


@pointwise(
    "bitwise_not(Tensor self) -> Tensor",
    out_exact=True,
    dtypes="bool int",
    differentiable=False,
    reference="numpy.bitwise_not",
)
def bitwise_not(x):
    """Every bit turned; of a bool its negation."""
    return ~x
