"""Ranges of whole numbers that are drawn: what is refused, and what narrow floating dtypes hold of them.

Takes: the ends of a range and a dtype. Gives: `check_integers`, `within`.
Keeps true: no number that is drawn is rounded to the end of its range, or beyond.
"""

from __future__ import annotations

from facula import core
from facula.core.errors import fail

#: consecutive whole numbers that a floating dtype holds exactly have so many binary digits
DIGITS = {"f32": 24, "f64": 53, "f16": 11, "bf16": 8}


def _check_holds(op: str, what: str, value: int, dtype: core.dtype) -> None:
    """Raise for a bound that the dtype does not hold: numbers around it would come out as others."""
    if dtype is core.bool:
        least, most = 0, 1
    else:
        limits = core.finfo(dtype) if dtype.is_floating_point else core.iinfo(dtype)
        least, most = limits.min, limits.max
    if not least <= value <= most:
        fail(
            RuntimeError,
            op,
            f"bounds between {least} and {most} were required: {what} is out of bounds for {dtype}",
            value,
            hint="draw in int64, the default",
        )


def check_integers(op: str, low: int, high: int, dtype: core.dtype) -> None:
    if low >= high:
        fail(
            RuntimeError,
            op,
            "random_ expects 'from' to be less than 'to'",
            f"from={low} >= to={high}",
            hint=f"'to' itself is never drawn: from={low}, to={low + 1} always gives {low}",
        )
    if dtype.is_complex:
        fail(
            NotImplementedError,
            op,
            "a real dtype was required",
            dtype,
            hint="facula.complex(real, imag) joins two real tensors",
        )
    _check_holds(op, "from", low, dtype)
    _check_holds(op, "to - 1", high - 1, dtype)


def _rounded(number: int, digits: int) -> int:
    """To the nearest number of so many binary digits, an even one of two."""
    shift = max(abs(number).bit_length() - digits, 0)
    half = (1 << shift) >> 1
    nearest = (abs(number) + half) >> shift
    if shift and abs(number) & ((1 << shift) - 1) == half:
        nearest &= ~1
    return (nearest << shift) * (-1 if number < 0 else 1)


def within(low: int, high: int, dtype: core.dtype) -> tuple[int, int]:
    """The range of whole numbers whose roundings to the dtype stay in [low, high)."""
    if dtype.code not in DIGITS or type(low) is not int or type(high) is not int:
        return low, high
    digits = DIGITS[dtype.code]
    first, last = _rounded(low + 1, digits), _rounded(high - 1, digits)
    if first < low:
        low = first + (1 << (abs(low + 1).bit_length() - digits))
    if last >= high:
        high = last - (1 << (abs(high - 1).bit_length() - digits))
    return low, high
