"""What pyarrow computes, with its refusals in facula's words.

Takes: the name of a function of pyarrow, arrays and scalars. Gives: arrays; quotients and remainders of whole
numbers that are exact, and of floats as Python has them.
Keeps true: a sum, product or power of whole numbers that does not fit is an error, never another number; a null
stays null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from facula.core.errors import fail

from .._extras import extra

__all__ = [
    "computed",
    "exact_sum",
    "floored",
    "in_floats",
    "of_one_zero",
    "quotient",
    "refusing",
    "remainder",
]


#: how pyarrow and Python say that a number has no room
_TOO_LARGE = ("overflow", "too large", "too big", "Integer value out of bounds")


def refusing(op: str, function: Callable[[], Any]) -> Any:
    """What a function gives; what pyarrow refuses is an error that names the operation."""
    pa = extra("pyarrow", "arrow")
    try:
        return function()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        text = str(error).partition("\n")[0]
        if text.startswith("["):  # in these words already
            raise
    kind: type[Exception] = TypeError
    required, hint = f"columns that {op} takes were required", "cast() changes the type of a column"
    if any(word in text for word in _TOO_LARGE):
        kind, required = OverflowError, "a result that fits its type was required"
        hint = "cast(arrow.float64) makes room"
    elif "divide by zero" in text:
        kind, required, hint = (
            ZeroDivisionError,
            "divisors other than 0 were required",
            "filter() or map() them first",
        )
    elif "out of bounds" in text and "ndex" in text:
        kind, required, hint = (
            IndexError,
            "places inside of the column were required",
            "rows begin at 0",
        )
    return fail(kind, f"arrow.{op}", required, text, hint=hint)


def computed(name: str, *values: object, **options: object) -> Any:
    """A function of pyarrow, by its name."""
    function = getattr(extra("pyarrow.compute", "arrow"), name)
    return refusing(name.removesuffix("_checked"), lambda: function(*values, **options))


def _are_whole(*values: Any) -> bool:
    types = extra("pyarrow.types", "arrow")
    return all(types.is_integer(value.type) for value in values)


def in_floats(values: object) -> Any:
    """Numbers as floats; whole ones that no float holds are rounded."""
    return computed("cast", values, extra("pyarrow", "arrow").float64(), safe=False)


def of_one_zero(values: Any) -> Any:
    """Floats with 0.0 in the place of -0.0, which are equal and which pyarrow tells apart."""
    if not extra("pyarrow.types", "arrow").is_floating(values.type):
        return values
    return computed("add", values, extra("pyarrow", "arrow").scalar(0.0, values.type))


def quotient(left: object, right: object) -> Any:
    """Quotients, as floats."""
    return computed("divide", in_floats(left), in_floats(right))


def floored(left: object, right: object) -> Any:
    """Quotients, rounded down."""
    if not _are_whole(left, right):
        return _as_numpy_has(numpy.floor_divide, left, right)
    parts = computed("divide_checked", left, right)
    rest = computed("subtract", left, computed("multiply", parts, right))
    apart = computed("xor", computed("less", rest, 0), computed("less", right, 0))
    below = computed("and", apart, computed("not_equal", rest, 0))
    return computed("subtract", parts, computed("cast", below, parts.type))


def remainder(left: object, right: object) -> Any:
    """What is left of quotients rounded down, with the sign of the divisor."""
    if not _are_whole(left, right):
        return _as_numpy_has(numpy.mod, left, right)
    return computed("subtract", left, computed("multiply", floored(left, right), right))


def _as_numpy_has(function: Callable[..., Any], left: object, right: object) -> Any:
    pa = extra("pyarrow", "arrow")
    present = computed("and", computed("is_valid", left), computed("is_valid", right))
    sides = []
    for side in (left, right):
        filled = computed("fill_null", in_floats(side), 1.0)
        sides.append(
            filled.as_py()
            if isinstance(filled, pa.Scalar)
            else filled.to_numpy(zero_copy_only=False)
        )
    with numpy.errstate(all="ignore"):
        found = pa.array(function(*sides))
    return computed("if_else", present, found, pa.scalar(None, found.type))


def exact_sum(array: Any) -> Any:
    """The sum of an array, of whole numbers without a bound."""
    found = computed("sum", array).as_py()
    if found is None or not _are_whole(array):
        return found
    ends = computed("min_max", array).as_py()
    if max(abs(ends["min"]), abs(ends["max"])) * len(array) < 2**63:
        return found
    return sum(value for value in array.to_pylist() if value is not None)
