"""Division, and division with remainder.

Takes: tensors and numbers.
Gives: operators `div`, `true_divide`, `floor_divide`, `remainder`, `fmod`, `gcd`, `lcm`.
Keeps true: `div` of integers is a float unless a rounding mode is given; remainders are exact.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.expr import scalar as s
from facula.ops.pointwise.naming import functions_and_methods
from facula.ops.table.registry import pointwise


def _quotient_dtype(common: core.dtype, variant: core.Variant, values: object) -> Any:
    """Integers divide in the default dtype, unless the quotient is rounded."""
    if variant.attributes["rounding_mode"] is None and not (
        common.is_floating_point or common.is_complex
    ):
        return core.get_default_dtype()
    return common


def _integer_quotient(code: str, chosen: dict[str, Any]) -> bool:
    return code in ("i64", "i32", "b8") and "rounding_mode" not in chosen


def _no_rounding(code: str, chosen: dict[str, Any]) -> bool:
    return code in ("c64", "c128", "b8") and "rounding_mode" in chosen


@pointwise(
    "div(Operand self, Operand other, *, str? rounding_mode=None) -> Tensor",
    overload="rounding_mode=Tensor_mode, Tensor",
    of_numbers=True,
    names=functions_and_methods("div", "divide"),
    result_of=_quotient_dtype,
    nonzero_divisor=True,
    unsupported=lambda code, chosen: _integer_quotient(code, chosen) or _no_rounding(code, chosen),
    prebuilt=({"rounding_mode": "trunc"}, {"rounding_mode": "floor"}),
    reference="numpy.divide",
    shards="first",
    wraps_numbers="both",
    node=lambda call: "MulBackward0" if "self" in call.aside else "DivBackward0",
)
def div(x, y, *, rounding_mode):
    """Quotient, exact (None), rounded towards zero (``"trunc"``) or down (``"floor"``)."""
    if rounding_mode not in (None, "trunc", "floor"):
        fail(
            RuntimeError,
            "div",
            "rounding_mode None, 'trunc' or 'floor' was required",
            repr(rounding_mode),
            hint="'floor' rounds down, 'trunc' towards zero",
        )
    if rounding_mode is not None and (x.is_bool or x.is_complex):
        kind = "bools" if x.is_bool else "complex numbers"
        fail(
            NotImplementedError,
            "div",
            f"integers or real numbers were required with rounding_mode={rounding_mode!r}",
            f'{kind} ("div_{rounding_mode}" not implemented)',
            hint="x.int() makes numbers of bools" if x.is_bool else "leave rounding_mode out",
        )
    if rounding_mode == "floor":
        return s.floor_divide(x, y)
    if x.is_integer or x.is_bool:
        if rounding_mode is None:
            fail(
                TypeError,
                "div",
                "floats were required without a rounding_mode",
                "integers",
                hint="convert one with .float()",
            )
        return s.integer_divide(x, y)
    return s.trunc(x / y) if rounding_mode == "trunc" else x / y


@pointwise(
    "true_divide(Operand self, Operand other) -> Tensor",
    of_numbers=True,
    result="float",
    reference="numpy.true_divide",
    wraps_numbers="both",
    node="DivBackward0",
)
def true_divide(x, y):
    """Exact quotient; integers give floats."""
    return x / y


@pointwise(
    "floor_divide(Operand self, Operand other) -> Tensor",
    overload="default",
    of_numbers=True,
    nonzero_divisor=True,
    dtypes="int float",
    reference="numpy.floor_divide",
)
def floor_divide(x, y):
    """Quotient rounded down."""
    return s.floor_divide(x, y)


@pointwise(
    "remainder(Operand self, Operand other) -> Tensor",
    overload="self:number=Scalar_Tensor, other:number=Scalar, Tensor",
    names=functions_and_methods("remainder"),
    nonzero_divisor=True,
    dtypes="int float",
    reference="numpy.remainder",
    node=lambda call: "RemainderBackward{}".format(0 if "other" in call.aside else 1),
    in_common_dtype=True,
)
def remainder(x, y):
    """Remainder with the sign of the divisor, ``self - other * floor(self / other)``."""
    return s.remainder(x, y)


@pointwise(
    "fmod(Operand self, Operand other) -> Tensor",
    strict=("self",),
    nonzero_divisor=True,
    dtypes="int float",
    reference="numpy.fmod",
    node=lambda call: "FmodBackward{}".format(0 if "other" in call.aside else 1),
    overload="other:Tensor=Tensor, Scalar",
    in_common_dtype=True,
)
def fmod(x, y):
    """Remainder with the sign of the dividend, ``self - other * trunc(self / other)``."""
    return s.fmod(x, y)


@pointwise("gcd(Tensor self, Tensor other) -> Tensor", dtypes="int", reference="numpy.gcd")
def gcd(x, y):
    """Greatest common divisor, never negative."""
    return s.gcd(x, y)


@pointwise("lcm(Tensor self, Tensor other) -> Tensor", dtypes="int", reference="numpy.lcm")
def lcm(x, y):
    """Least common multiple, never negative."""
    return s.lcm(x, y)
