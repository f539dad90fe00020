"""Rows with the same values in some columns, made one row each.

Takes: a frame, names of its columns, words such as "sum". Gives: frames of a row for each group, in the order in which
the groups come first; or the groups themselves.
Keeps true: nulls are a group of their own and are left out of what is computed; sums, means and products of whole
numbers are exact, or an error; 0.0 and -0.0 are one group.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from typing import Any

from facula.core.errors import fail

from .._extras import extra
from . import dtypes as dt
from .columns import Column, column
from .computing import of_one_zero, refusing

__all__ = ["GroupBy", "hashable"]


def hashable(value: object) -> Any:
    """Equal for equal values: lists and maps by what they hold, and no number is like every other."""
    if isinstance(value, (list, tuple)):
        return tuple(map(hashable, value))
    if isinstance(value, dict):
        return frozenset((key, hashable(each)) for key, each in value.items())
    return "nan" if isinstance(value, float) and value != value else (type(value), value)


#: words that pyarrow has by another name, or with other options
_NAMED = {
    "std": ("stddev", 1),
    "var": ("variance", 1),
    "prod": ("product", None),
    "nunique": ("count_distinct", None),
}
#: what is computed of a group's values by Python: always, and where whole numbers are large
_OF_LISTS: dict[str, Callable[[list[Any]], Any]] = {
    "median": lambda values: float(statistics.median(values)),
    "mode": lambda values: min(statistics.multimode(values)),
}
_EXACT: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "mean": lambda values: sum(values) / len(values),
    "product": math.prod,
}


class GroupBy:
    """Groups of rows, to be made one row each; a loop over it gives each key with a frame of its rows."""

    def __init__(self, frame: Any, by: Any, sort: bool = False) -> None:
        self._frame, self._sort = frame, sort
        self._keys = [by] if isinstance(by, str) else list(by)
        self._alone = isinstance(by, str)
        if not self._keys:
            hint = f"the columns are {', '.join(frame.columns)}"
            fail(ValueError, "arrow.groupby", "the name of a column was required", by, hint=hint)
        for key in self._keys:
            frame[[key]]

    def __iter__(self) -> Iterator[Any]:
        places: dict[Any, list[int]] = {}
        keys = list(zip(*[self._frame[name] for name in self._keys], strict=True))
        for place, key in enumerate(keys):
            places.setdefault(hashable(key), []).append(place)
        groups = list(places.values())
        if self._sort:  # as a frame is sorted: nulls last
            heads = self._frame[[group[0] for group in groups]][self._keys]
            heads["place"] = column(list(range(len(groups))), dt.int64)
            groups = [groups[i] for i in heads.sort(self._keys)["place"]]
        for group in groups:
            key = keys[group[0]]
            yield key[0] if self._alone else key, self._frame[group]

    def _all(self, word: str) -> Any:
        frame = self._frame
        taken = [
            name
            for name in frame.columns
            if name not in self._keys and (word == "count" or dt.is_numerical(frame[name].dtype))
        ]
        return self.agg({name: word for name in taken})

    def agg(self, what: dict[str, Any]) -> Any:
        """A word, or several, for each column: "sum", "mean", "min", "max", "count", "std", "var", "median", "prod",
        "mode", "nunique", "first", "last", "any", "all", or another one of pyarrow's.

        Args:
            what: words by the names of columns.
        """
        if not isinstance(what, dict):
            required = "a dictionary by names of columns was required"
            got, hint = type(what).__name__, '{"column": "sum"}'
            fail(TypeError, "arrow.groupby", required, got, hint=hint)
        pairs = [
            (n, w)
            for n, words in what.items()
            for w in ([words] if isinstance(words, str) else words)
        ]
        asked = [self._asked(self._frame[n], word) for n, word in pairs]
        found = self._aggregated([n for n, _ in pairs], [(word, given) for word, given, _ in asked])
        made = dict(zip(self._keys, found, strict=False))
        for (name, word), values, (_, _, function) in zip(
            pairs, found[len(self._keys) :], asked, strict=True
        ):
            made[f"{name}.{word}"] = _of_lists(values, function, self._frame[name].dtype)
        return self._ordered(made)

    def _asked(self, values: Column, word: str) -> tuple[str, int | None, Any]:
        """(pyarrow's word, how many degrees of freedom are taken off, what Python computes of the lists)."""
        own, degrees = _NAMED.get(word, (word, None))
        if word in _OF_LISTS or (own in _EXACT and _is_large(values, own)):
            return "list", None, _OF_LISTS.get(word) or _EXACT[own]
        return own, degrees, None

    def _aggregated(self, names: list[str], words: list[tuple[str, int | None]]) -> list[Column]:
        """The columns of keys, then those of words; columns of the table have numbers for names."""
        pa = extra("pyarrow", "arrow")
        compute = extra("pyarrow.compute", "arrow")
        parts = [self._key(name) for name in self._keys]
        parts += [self._frame[name].to_arrow() for name in names]
        table = pa.table(parts, names=[str(i) for i in range(len(parts))])
        keys, others = table.column_names[: len(self._keys)], table.column_names[len(self._keys) :]
        asked = [
            (n, word, None if degrees is None else compute.VarianceOptions(ddof=degrees))
            for n, (word, degrees) in zip(others, words, strict=True)
        ]
        try:
            found = table.group_by(keys, use_threads=False).aggregate(asked)
        except (pa.ArrowException, TypeError) as error:
            required, hint = (
                "words that columns can be put together by were required",
                "'sum', 'mean', ...",
            )
            got = str(error).partition("\n")[0]
            fail(ValueError, "arrow.groupby", required, got, hint=hint)
        results = [f"{n}_{word}" for n, (word, _) in zip(others, words, strict=True)]
        return [column(found.column(name)) for name in [*keys, *results]]

    def _key(self, name: str) -> Any:
        return of_one_zero(self._frame[name].to_arrow())

    def _ordered(self, made: dict[str, Column]) -> Any:
        frame = type(self._frame)(made)
        return frame.sort(self._keys) if self._sort else frame

    def sum(self) -> Any:
        """The sums of numbers."""
        return self._all("sum")

    def mean(self) -> Any:
        """The means of numbers."""
        return self._all("mean")

    def min(self) -> Any:
        """The smallest numbers."""
        return self._all("min")

    def max(self) -> Any:
        """The largest numbers."""
        return self._all("max")

    def std(self) -> Any:
        """The deviations of numbers, as of samples."""
        return self._all("std")

    def median(self) -> Any:
        """The numbers in the middle."""
        return self._all("median")

    def count(self) -> Any:
        """How many there are, without nulls."""
        return self._all("count")

    def size(self) -> Any:
        """How many rows there are."""
        pa = extra("pyarrow", "arrow")
        names = [str(i) for i in range(len(self._keys))]
        found = pa.table([self._key(name) for name in self._keys], names=names)
        groups = found.group_by(names, use_threads=False)
        table = refusing("groupby", lambda: groups.aggregate([([], "count_all")]))
        made = {key: column(table.column(n)) for key, n in zip(self._keys, names, strict=True)}
        return self._ordered({**made, "size": column(table.column("count_all"))})


def _is_large(values: Column, word: str) -> bool:
    """Whether results of whole numbers may have no room, or be rounded, on their way."""
    if not dt.is_integer(values.dtype) or not values.count():
        return False
    return word == "product" or max(abs(values.min()), abs(values.max())) * len(values) >= 2**53


def _of_lists(values: Column, function: Any, dtype: dt.DType) -> Column:
    if function is None:
        return values
    rows = [[value for value in row if value is not None] for row in values]
    try:
        found = [function(row) if row else None for row in rows]
    except TypeError as error:
        required, hint = "columns that can be put together so were required", "'count', 'first'"
        fail(ValueError, "arrow.groupby", required, f"{dtype}: {error}", hint=hint)
    return refusing("groupby", lambda: _summed(found, dtype))


def _summed(found: list[Any], dtype: dt.DType) -> Column:
    most = max((abs(value) for value in found if isinstance(value, int)), default=0)
    if most >= 2**63 and dt.is_integer(dtype):
        required, hint = (
            "a result that fits its type was required",
            "cast(arrow.float64) makes room",
        )
        fail(OverflowError, "arrow.groupby", required, most, hint=hint)
    return (
        column(found)
        if any(value is not None for value in found)
        else column(found, dtype.with_null())
    )
