"""Functions that prepare features: buckets, numbers out of hashes, the first of lists.

Takes: columns. Gives: columns.
"""

from __future__ import annotations

import bisect
from typing import Any

from facula.core.errors import fail

from . import dtypes as dt
from .columns import Column, column

__all__ = ["bucketize", "cumsum", "firstx", "has_id_overlap", "scale_to_0_1", "sigrid_hash"]

_WORD = (1 << 64) - 1


def _each(values: Column, function: Any, dtype: Any) -> Column:
    """A function of each value, inside of lists too."""
    if isinstance(values.dtype, dt.List):
        rows = [None if row is None else [function(each) for each in row] for row in values]
        return column(rows, dt.List(dtype, values.dtype.nullable))
    rows = [None if each is None else function(each) for each in values]
    return column(rows, dtype.with_null(values.dtype.nullable))


def bucketize(value_col: Column, borders: list[float]) -> Column:
    """The number of the bucket of each value; borders belong to the bucket below them."""
    if list(borders) != sorted(set(borders)) or not borders:
        required, hint = "borders that rise were required", "[1.0, 10.0] makes three buckets"
        fail(ValueError, "arrow.bucketize", required, borders, hint=hint)
    return _each(value_col, lambda value: bisect.bisect_left(borders, value), dt.int32)


def _mixed(value: int, salt: int) -> int:
    """64 bits of which each depends on all of the value and the salt. [Steele et al. 2014]"""
    x = (value + (salt + 1) * 0x9E3779B97F4A7C15) & _WORD
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _WORD
    return x ^ x >> 31


def sigrid_hash(value_col: Column, salt: int, max_value: int) -> Column:
    """Whole numbers below `max_value` that are the same for the same value and salt."""
    if max_value < 1:
        fail(
            ValueError,
            "arrow.sigrid_hash",
            "a positive max_value was required",
            max_value,
            hint="the buckets",
        )
    return _each(value_col, lambda value: _mixed(value, salt) % max_value, dt.int64)


def firstx(col: Column, num_to_copy: int) -> Column:
    """The first values of each list."""
    return col.list.slice(0, num_to_copy)


def has_id_overlap(input_ids: Column, matching_ids: Column) -> Column:
    """1.0 where two lists have a value in common."""
    pairs = zip(input_ids, matching_ids, strict=True)
    return column([float(bool(set(a or ()) & set(b or ()))) for a, b in pairs], dt.float32)


def scale_to_0_1(col: Column) -> Column:
    """Numbers moved and stretched to [0, 1]."""
    low, high = col.min(), col.max()
    return (col - low) / (high - low) if high > low else col * 0.0


def cumsum(col: Column) -> Column:
    """Sums of all values up to each."""
    total, rows = 0, []
    for value in col:
        total += value or 0
        rows.append(None if value is None else total)
    return column(rows, col.dtype)
