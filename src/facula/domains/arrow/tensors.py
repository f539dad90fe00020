"""Columns as tensors, and tensors as columns: shapes that loaders and networks take.

Takes: columns, frames, rows. Gives: tensors on the same memory where a column has neither nulls nor bits; of nulls
`WithPresence`, of lists `PackedList` or padded ones, of maps `PackedMap`, of structures named tuples.
Keeps true: a value that is null is never a number without a sign of it.
"""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F

from .._extras import extra
from . import dtypes as dt
from .computing import computed

__all__ = ["PackedList", "PackedMap", "PadSequence", "WithPresence", "packed_array", "to_tensor"]

WithPresence = namedtuple("WithPresence", ["values", "presence"])
PackedList = namedtuple("PackedList", ["values", "offsets"])
PackedMap = namedtuple("PackedMap", ["keys", "values"])


def to_tensor(array: Any, dtype: dt.DType) -> Any:
    """The tensors of an array of pyarrow; strings stay a list."""
    if dtype.nullable:
        present = _plain(computed("is_valid", array))
        if isinstance(dtype, dt.Boolean) or dt.is_numerical(dtype):
            array = array.fill_null(False if isinstance(dtype, dt.Boolean) else 0)
        return WithPresence(to_tensor(array, dtype.with_null(False)), present)
    if isinstance(dtype, dt.String):
        return array.to_pylist()
    if isinstance(dtype, dt.List):
        return PackedList(to_tensor(array.flatten(), dtype.item_dtype), _offsets(array))
    if isinstance(dtype, dt.Map):
        offsets = _offsets(array)
        keys, values = (_inside(array, part) for part in (array.keys, array.items))
        return PackedMap(
            PackedList(to_tensor(keys, dtype.key_dtype), offsets),
            PackedList(to_tensor(values, dtype.item_dtype), offsets),
        )
    if isinstance(dtype, dt.Struct):
        row = namedtuple("TensorRow", [f.name for f in dtype.fields], rename=True)  # type: ignore[misc]
        return row(
            *[to_tensor(a, f.dtype) for a, f in zip(array.flatten(), dtype.fields, strict=True)]
        )
    return _plain(array)


def _inside(array: Any, part: object) -> Any:
    """The keys, or the values, of the maps that are there: an array that is a slice begins elsewhere."""
    return extra("pyarrow", "arrow").ListArray.from_arrays(array.offsets, part).flatten()


def _offsets(array: Any) -> Any:
    pa = extra("pyarrow", "arrow")
    if isinstance(array, pa.MapArray):
        array = pa.ListArray.from_arrays(array.offsets, array.keys)
    lengths = computed("fill_null", computed("list_value_length", array), 0)
    sizes = _plain(lengths.cast(pa.int64()))
    offsets = core.Tensor.new_zeros(sizes, (len(array) + 1,))
    offsets[1:] = sizes.cumsum(0)
    return offsets.to(core.int32)


def _plain(array: Any) -> Any:
    """A tensor on the memory of an array without nulls; bools are bits there, and are copied."""
    values = array.to_numpy(zero_copy_only=False)
    if not len(array):
        return core.from_numpy(values.copy())
    with warnings.catch_warnings():  # the memory is pyarrow's, which nobody should write to
        warnings.simplefilter("ignore")
        return core.from_numpy(values)


def packed_array(given: Any, made: Callable[[Any], Any]) -> Any:
    """pyarrow's array of what `to_tensor` gives: the other way. `made` is the array of values inside."""
    pa = extra("pyarrow", "arrow")
    if isinstance(given, PackedMap):
        keys, values = given
        if not (isinstance(keys, PackedList) and isinstance(values, PackedList)):
            required, hint = (
                "a PackedList of keys and one of values were required",
                "column.to_tensor() gives them",
            )
            fail(
                TypeError,
                "arrow.column",
                required,
                f"{type(keys).__name__}, {type(values).__name__}",
                hint=hint,
            )
        inside, items = made(keys.values), made(values.values)
        return pa.MapArray.from_arrays(_checked_offsets(keys.offsets, len(inside)), inside, items)
    if isinstance(given, PackedList):
        inside = made(given.values)
        return pa.ListArray.from_arrays(_checked_offsets(given.offsets, len(inside)), inside)
    inside, presence = made(given.values), made(given.presence)
    if len(inside) != len(presence):
        required = f"a sign of presence for each of {len(inside)} values was required"
        fail(
            ValueError, "arrow.column", required, len(presence), hint="True where there is a value"
        )
    if not pa.types.is_boolean(presence.type):
        fail(
            TypeError,
            "arrow.column",
            "bools were required as presence",
            presence.type,
            hint="presence.bool()",
        )
    return computed("if_else", presence, inside, pa.scalar(None, inside.type))


def _checked_offsets(offsets: Any, count: int) -> Any:
    pa = extra("pyarrow", "arrow")
    places = [int(x) for x in (offsets.tolist() if isinstance(offsets, core.Tensor) else offsets)]
    rise = all(a <= b for a, b in zip(places, places[1:], strict=False))
    if not places or not rise or places[0] < 0 or places[-1] > count:
        required, hint = (
            f"offsets that rise from 0 to {count} were required",
            "one more than there are lists",
        )
        fail(ValueError, "arrow.column", required, places[:8], hint=hint)
    return pa.array(places, pa.int32())


class PadSequence:
    """Lists of different lengths as one tensor: a conversion for `to_tensor` and `collate`.

    Args:
        batch_first: [rows, longest] rather than [longest, rows].
        padding_value: what stands behind the end of shorter lists, and in the place of null ones.
    """

    def __init__(self, batch_first: bool = True, padding_value: float = 0.0) -> None:
        self.batch_first, self.padding_value = batch_first, padding_value

    def __call__(self, column: Any) -> Any:
        """The tensor of a column of lists of numbers."""
        dtype = column.dtype
        if (
            not isinstance(dtype, dt.List)
            or not dt.is_numerical(dtype.item_dtype)
            or dtype.item_dtype.nullable
        ):
            required, hint = (
                "lists of numbers without nulls were required",
                "fill_null() under .list.vmap()",
            )
            fail(TypeError, "arrow.PadSequence", required, dtype, hint=hint)
        values, offsets = to_tensor(column.to_arrow(), dtype.with_null(False))
        begins, lengths = offsets[:-1, None], (offsets[1:] - offsets[:-1])[:, None]
        longest = int(lengths.max()) if len(column) else 0
        padded = core.Tensor.new_full(values, (len(column), longest), self.padding_value)
        if longest:
            steps = F.arange(longest)[None, :]
            held = steps < lengths
            padded[held] = values[(begins + steps)[held]]
        return padded if self.batch_first else padded.transpose(0, 1).contiguous()
