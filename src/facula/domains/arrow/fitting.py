"""Values of a program that do not fit the type of their column, and that pyarrow takes nevertheless.

Takes: lists of Python values, a type. Gives: the first value that would become another one, or None.
Keeps true: a fraction is no whole number, and a key that a structure has no field for is not left out: pyarrow would
cut the one off and pass over the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from . import dtypes as dt

__all__ = ["misfit"]


def misfit(values: Iterable[Any], dtype: dt.DType) -> str | None:
    """What of some values has no place in a column of a type, in words; None where all have one."""
    if not _needs_a_look(dtype):
        return None
    there = [value for value in values if value is not None]
    if dt.is_integer(dtype):
        return next((repr(value) for value in there if _is_cut(value)), None)
    if isinstance(dtype, dt.List):
        return misfit(chain.from_iterable(map(_parts, there)), dtype.item_dtype)
    if isinstance(dtype, dt.Map):
        pairs = [pair for row in there for pair in _pairs(row)]
        keys = misfit((key for key, _ in pairs), dtype.key_dtype)
        return keys or misfit((value for _, value in pairs), dtype.item_dtype)
    return _of_structures(there, dtype)


def _needs_a_look(dtype: dt.DType) -> bool:
    if isinstance(dtype, dt.List):
        return _needs_a_look(dtype.item_dtype)
    if isinstance(dtype, dt.Map):
        return _needs_a_look(dtype.key_dtype) or _needs_a_look(dtype.item_dtype)
    return dt.is_integer(dtype) or isinstance(dtype, dt.Struct)


def _is_cut(value: Any) -> bool:
    if type(value) is int:
        return False
    try:
        return value != int(value)
    except (TypeError, ValueError, OverflowError):  # no number, or one that pyarrow refuses itself
        return False


def _parts(row: Any) -> Any:
    """The values of a list; nothing of what is none, which pyarrow refuses."""
    return row if hasattr(row, "__iter__") and not isinstance(row, (str, bytes, Mapping)) else ()


def _pairs(row: Any) -> list[tuple[Any, Any]]:
    pairs = row.items() if isinstance(row, Mapping) else _parts(row)
    return [tuple(pair) for pair in pairs if isinstance(pair, (tuple, list)) and len(pair) == 2]


def _of_structures(rows: list[Any], dtype: Any) -> str | None:
    names = [field.name for field in dtype.fields]
    maps = [row for row in rows if isinstance(row, Mapping)]
    for row in maps:
        more = [key for key in row if key not in names]
        if more:
            return f"the key {more[0]!r} beside the fields {', '.join(names)}"
    tuples = [row for row in rows if isinstance(row, tuple) and len(row) == len(names)]
    for place, field in enumerate(dtype.fields):
        found = misfit((row.get(field.name) for row in maps), field.dtype)
        found = found or misfit((row[place] for row in tuples), field.dtype)
        if found:
            return found
    return None
