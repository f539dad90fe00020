"""Functions that prepare features: buckets, numbers out of hashes, the first of lists.

Takes: columns. Gives: columns.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail

from . import dtypes as dt
from .columns import Column, column

__all__ = [
    "add_tokens", "bucketize", "cumsum", "firstx", "get_cosine_similarity", "get_jaccard_similarity", "get_max_count",
    "get_score_max", "get_score_min", "get_score_sum", "has_id_overlap", "id_overlap_count", "scale_to_0_1",
    "sigrid_hash",
]  # fmt: skip

_WORD = (1 << 64) - 1


def _each(op: str, values: Column, function: Callable[..., Any], dtype: Any) -> Column:
    """A function of each number, inside of lists too."""
    inside = isinstance(values.dtype, dt.List)
    kind = values.dtype.item_dtype if isinstance(values.dtype, dt.List) else values.dtype
    if not (dt.is_integer(kind) or (op == "bucketize" and dt.is_floating(kind))):
        required = f"a column of {'' if op == 'bucketize' else 'whole '}numbers, or of lists of them, was required"
        fail(
            TypeError,
            f"arrow.{op}",
            required,
            values.dtype,
            hint="cast() changes the type of a column",
        )

    def found(value: object) -> Any:
        return None if value is None else function(value)

    if not inside:
        return column([found(each) for each in values], dtype.with_null(values.dtype.nullable))
    rows = [None if row is None else [found(each) for each in row] for row in values]
    return column(rows, dt.List(dtype.with_null(kind.nullable), values.dtype.nullable))


def bucketize(value_col: Column, borders: list[float]) -> Column:
    """The number of the bucket of each value; borders belong to the bucket below them."""
    if list(borders) != sorted(set(borders)) or not borders:
        required, hint = "borders that rise were required", "[1.0, 10.0] makes three buckets"
        fail(ValueError, "arrow.bucketize", required, borders, hint=hint)
    return _each("bucketize", value_col, lambda value: bisect.bisect_left(borders, value), dt.int32)


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
    return _each("sigrid_hash", value_col, lambda value: _mixed(value, salt) % max_value, dt.int64)


def firstx(col: Column, num_to_copy: int) -> Column:
    """The first values of each list."""
    return col.list.slice(0, num_to_copy)


def add_tokens(input_col: Column, tokens: list[Any], begin: bool) -> Column:
    """Lists with some values before them, or behind."""
    rows = [
        None if row is None else [*tokens, *row] if begin else [*row, *tokens] for row in input_col
    ]
    return column(rows, input_col.dtype)


def _pairs(op: str, first: Column, second: Column) -> Any:
    """Rows of two columns of lists; a null stands for an empty one."""
    for col in (first, second):
        if not isinstance(col.dtype, dt.List) or len(col) != len(first):
            required = f"two columns of {len(first)} lists were required"
            fail(
                ValueError,
                f"arrow.{op}",
                required,
                f"{len(col)} values of {col.dtype}",
                hint="one for each row",
            )
    return ((a or [], b or []) for a, b in zip(first, second, strict=True))


def has_id_overlap(input_ids: Column, matching_ids: Column) -> Column:
    """1.0 where two lists have a value in common."""
    pairs = _pairs("has_id_overlap", input_ids, matching_ids)
    return column([float(bool(set(a) & set(b))) for a, b in pairs], dt.float32)


def id_overlap_count(input_ids: Column, matching_ids: Column) -> Column:
    """How often values of the second list stand in the first."""
    pairs = _pairs("id_overlap_count", input_ids, matching_ids)
    return column([float(sum(x in set(b) for x in a)) for a, b in pairs], dt.float32)


def get_max_count(input_ids: Column, matching_ids: Column) -> Column:
    """Of the values that two lists have in common: how often each stands in one of them, at most, added up."""
    rows = []
    for a, b in _pairs("get_max_count", input_ids, matching_ids):
        rows.append(float(sum(max(a.count(x), b.count(x)) for x in set(a) & set(b))))
    return column(rows, dt.float32)


def get_jaccard_similarity(input_ids: Column, matching_ids: Column) -> Column:
    """How many different values two lists have in common, of all that they have."""
    rows = []
    for a, b in _pairs("get_jaccard_similarity", input_ids, matching_ids):
        union = set(a) | set(b)
        rows.append(len(set(a) & set(b)) / len(union) if union else 0.0)
    return column(rows, dt.float32)


def _scores(op: str, ids: Any, scores: Any) -> dict[Any, float]:
    if len(ids) != len(scores):
        required, hint = f"{len(ids)} scores were required", "one for each value of the list"
        fail(ValueError, f"arrow.{op}", required, len(scores), hint=hint)
    sums: dict[Any, float] = {}
    for each, score in zip(ids, scores, strict=True):
        sums[each] = sums.get(each, 0.0) + score
    return sums


def get_cosine_similarity(
    input_ids: Column, input_id_scores: Column, matching_ids: Column, matching_id_scores: Column
) -> Column:
    """The cosine between two lists of values with scores."""
    op, rows = "get_cosine_similarity", []
    first = _pairs(op, input_ids, input_id_scores)
    for (a, x), (b, y) in zip(first, _pairs(op, matching_ids, matching_id_scores), strict=True):
        left, right = _scores(op, a, x), _scores(op, b, y)
        dot = sum(score * right.get(each, 0.0) for each, score in left.items())
        norm = math.sqrt(sum(s * s for s in left.values()) * sum(s * s for s in right.values()))
        rows.append(dot / norm if norm else 0.0)
    return column(rows, dt.float32)


def _matched(
    op: str, ids: Column, matching: Column, scores: Column, function: Callable[..., Any]
) -> Column:
    rows = []
    for (a, b), (_, y) in zip(_pairs(op, ids, matching), _pairs(op, ids, scores), strict=True):
        held = _scores(op, b, y)
        rows.append(float(function([held[x] for x in a if x in held] or [0.0])))
    return column(rows, dt.float32)


def get_score_sum(input_ids: Column, matching_ids: Column, matching_id_scores: Column) -> Column:
    """The scores of the values that stand in both lists, added up."""
    return _matched("get_score_sum", input_ids, matching_ids, matching_id_scores, sum)


def get_score_min(input_ids: Column, matching_ids: Column, matching_id_scores: Column) -> Column:
    """The smallest score of the values that stand in both lists; 0 where there are none."""
    return _matched("get_score_min", input_ids, matching_ids, matching_id_scores, min)


def get_score_max(input_ids: Column, matching_ids: Column, matching_id_scores: Column) -> Column:
    """The largest score of the values that stand in both lists; 0 where there are none."""
    return _matched("get_score_max", input_ids, matching_ids, matching_id_scores, max)


def scale_to_0_1(col: Column) -> Column:
    """Numbers moved and stretched to [0, 1]."""
    low, high = col.min(), col.max()
    if low is None:
        return col.cast(dt.float64)
    return (col - low) / (high - low) if high > low else col * 0.0


def cumsum(col: Column) -> Column:
    """Sums of all values up to each."""
    return col.cumsum()
