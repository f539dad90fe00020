"""A data frame: columns of one length under names.

Takes: dictionaries of columns, tables of pyarrow. Gives: `DataFrame`, with filters, orders, groups, joins and tensors.
Keeps true: columns are as long as each other.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from typing import Any

from facula import core
from facula.core.errors import fail

from .._extras import extra
from . import dtypes as dt
from .columns import Column, column
from .computing import computed, refusing
from .groups import GroupBy, hashable

__all__ = ["DataFrame", "GroupBy", "collate", "dataframe", "from_arrow"]


def dataframe(
    data: object = None, dtype: core.dtype | None = None, columns: list[str] | None = None
) -> DataFrame:
    """A frame of columns by name, of rows (tuples, whose names `columns` or a `Struct` has), or without any."""
    kinds = _kinds(dtype)
    if data is None:
        return DataFrame({name: column((), kind) for name, kind in kinds.items()})
    if isinstance(data, DataFrame):
        return data
    if isinstance(data, dict):
        return DataFrame({name: column(values, kinds.get(name)) for name, values in data.items()})
    rows = [tuple(row) if hasattr(row, "__iter__") else row for row in _listed(data)]
    named = list(data) if isinstance(data, (list, tuple)) else rows
    names = (
        columns
        or list(kinds)
        or (list(named[0]._fields) if named and hasattr(named[0], "_fields") else [])
    )
    wrong = [
        i for i, row in enumerate(rows) if not isinstance(row, tuple) or len(row) != len(names)
    ]
    if not names or wrong:
        required = (
            f"rows of {len(names)} values were required"
            if names
            else "names of columns were required"
        )
        got = f"{rows[wrong[0]]!r:.80} as row {wrong[0]}" if wrong else "none"
        fail(ValueError, "arrow.dataframe", required, got, hint="columns=['a', 'b']")
    parts = zip(*rows, strict=True) if rows else [()] * len(names)
    return DataFrame({n: column(list(p), kinds.get(n)) for n, p in zip(names, parts, strict=True)})


def _listed(data: object) -> Any:
    if hasattr(data, "__iter__") and not isinstance(data, (str, bytes)):
        return data
    required, hint = "columns by name, or rows, were required", 'dataframe({"a": [1, 2]})'
    return fail(TypeError, "arrow.dataframe", required, type(data).__name__, hint=hint)


def _mapping(op: str, given: object, hint: str) -> None:
    if not isinstance(given, dict):
        required = "a dictionary by names of columns was required"
        fail(TypeError, op, required, type(given).__name__, hint=hint)


def _frame(op: str, given: object) -> DataFrame:
    if isinstance(given, DataFrame):
        return given
    required, hint = "another frame was required", "dataframe() makes one"
    return fail(TypeError, op, required, type(given).__name__, hint=hint)


def _kinds(dtype: object) -> dict[str, Any]:
    if dtype is None:
        return {}
    if not isinstance(dtype, dt.Struct):
        required, hint = (
            "the types of columns as a Struct were required",
            "arrow.Struct([arrow.Field(name, dtype)])",
        )
        fail(TypeError, "arrow.dataframe", required, dtype, hint=hint)
    return {f.name: f.dtype for f in dtype.fields}


def from_arrow(data: object, dtype: core.dtype | None = None) -> Any:
    """A frame of a table, or a column of an array, on the same memory where types allow it."""
    pa = extra("pyarrow", "arrow")
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        kinds, names = _kinds(dtype), data.schema.names
        if len(set(names)) < len(names):
            required, hint = (
                "different names of columns were required",
                "table.rename_columns(names)",
            )
            fail(ValueError, "arrow.from_arrow", required, names, hint=hint)
        return DataFrame({n: column(data.column(n), kinds.get(n)) for n in names})
    if not isinstance(data, (pa.Array, pa.ChunkedArray)):
        required, hint = (
            "a table or an array of pyarrow was required",
            "dataframe() takes dictionaries",
        )
        fail(TypeError, "arrow.from_arrow", required, type(data).__name__, hint=hint)
    return column(data, dtype)


def _free_names(wanted: tuple[str, ...], taken: list[str]) -> list[str]:
    """Names that are longer than those that are taken, and so none of them."""
    return [f"{name}{'_' * max(map(len, taken), default=0)}" for name in wanted]


class DataFrame:
    """Columns of one length."""

    def __init__(self, columns: dict[str, Column]) -> None:
        for name in columns:
            if not isinstance(name, str):
                required, hint = (
                    "strings as names of columns were required",
                    'dataframe({"a": [1, 2]})',
                )
                fail(TypeError, "arrow.DataFrame", required, name, hint=hint)
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            required, hint = (
                "columns of one length were required",
                "None stands for what is missing",
            )
            fail(ValueError, "arrow.DataFrame", required, lengths, hint=hint)
        self._columns = dict(columns)

    # ---- looking ----

    @property
    def columns(self) -> list[str]:
        """The names."""
        return list(self._columns)

    @property
    def dtype(self) -> Any:
        """The types, as those of a structure."""
        return dt.Struct([dt.Field(name, values.dtype) for name, values in self._columns.items()])

    @property
    def length(self) -> int:
        """How many rows there are."""
        return len(self)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()))) if self._columns else 0

    def __iter__(self) -> Iterator[Any]:
        row = namedtuple("Row", self.columns, rename=True)  # type: ignore[misc]
        return (row(*values) for values in zip(*self._columns.values(), strict=True))

    def to_pylist(self) -> list[Any]:
        """The rows as tuples."""
        return list(self)

    def __repr__(self) -> str:
        head = "  ".join(self.columns)
        rows = "\n".join("  ".join(map(repr, row)) for row in self.head(10))
        return f"{head}\n{rows}\ndtype: {self.dtype}, length: {len(self)}"

    def _named(self, name: str) -> Column:
        if name not in self._columns:
            hint = f"the columns are {', '.join(self.columns)}"
            fail(
                KeyError,
                "arrow.DataFrame",
                "the name of a column was required",
                repr(name),
                hint=hint,
            )
        return self._columns[name]

    def __getitem__(self, key: object) -> Any:
        if isinstance(key, str):
            return self._named(key)
        if isinstance(key, (list, tuple)) and all(isinstance(name, str) for name in key):
            return DataFrame({name: self._named(name) for name in key})
        if isinstance(key, int) and not isinstance(key, bool):
            if not -len(self) <= key < len(self):
                required, hint = (
                    f"a row from {-len(self)} to {len(self) - 1} was required",
                    "rows begin at 0",
                )
                fail(IndexError, "arrow.DataFrame", required, key, hint=hint)
            return next(iter(self[key : key + 1 or None]))
        return self._each(lambda values: values[key])

    def __setitem__(self, name: str, values: object) -> None:
        made = values if isinstance(values, Column) else column(values)
        if not isinstance(name, str):
            fail(
                TypeError,
                "arrow.DataFrame",
                "a string as name was required",
                name,
                hint='frame["a"] = ...',
            )
        if self._columns and len(made) != len(self):
            required, hint = f"a column of {len(self)} values was required", "one for each row"
            fail(ValueError, "arrow.DataFrame", required, len(made), hint=hint)
        self._columns[name] = made

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def _each(self, function: Any) -> DataFrame:
        return DataFrame({name: function(values) for name, values in self._columns.items()})

    def head(self, n: int = 5) -> DataFrame:
        """The first rows."""
        return self[:n]

    def tail(self, n: int = 5) -> DataFrame:
        """The last rows."""
        return self[max(len(self) - n, 0) :]

    # ---- choosing ----

    def where(self, condition: Column) -> DataFrame:
        """The rows for which a column of bools says yes."""
        return self._each(lambda values: values.filter(condition))

    def _rows(self, columns: Any) -> Any:
        names = columns or self.columns
        return zip(*[self._named(name) for name in names], strict=True)

    def filter(self, predicate: Any, columns: Any = None) -> DataFrame:
        """The rows for which a function of their values says yes."""
        keep = [bool(predicate(*row)) for row in self._rows(columns)]
        return self._each(lambda values: values.filter(keep))

    def map(self, arg: Any, dtype: core.dtype | None = None, columns: Any = None) -> Column:
        """A function of the values of each row."""
        return column([arg(*row) for row in self._rows(columns)], dtype)

    def transform(
        self,
        func: Any,
        dtype: core.dtype | None = None,
        format: str = "column",
        columns: Any = None,
    ) -> Any:
        """A function of whole columns, as "column"s, "python" lists or "tensor"s."""
        kinds = {
            "column": lambda c: c,
            "python": lambda c: c.to_pylist(),
            "torch": lambda c: c.to_tensor(),
        }
        kinds["tensor"] = kinds["torch"]
        if format not in kinds:
            required, hint = "the format 'column', 'python' or 'tensor' was required", "'column'"
            fail(ValueError, "arrow.transform", required, repr(format), hint=hint)
        given = [kinds[format](self._named(name)) for name in columns or self.columns]
        found = func(*given)
        made = dataframe(found, dtype) if isinstance(found, dict) else column(found, dtype)
        if len(made) != len(self):
            required, hint = f"{len(self)} values were required of the function", "one for each row"
            fail(ValueError, "arrow.transform", required, len(made), hint=hint)
        return made

    def reduce(self, fun: Any, initializer: Any = None) -> Any:
        """All rows by a function."""
        for row in self:
            initializer = fun(initializer, row)
        return initializer

    def drop(self, columns: Any) -> DataFrame:
        """Without some columns."""
        gone = {columns} if isinstance(columns, str) else set(columns)
        for name in gone:
            self._named(name)
        return DataFrame({n: values for n, values in self._columns.items() if n not in gone})

    def rename(self, column_mapper: dict[str, str]) -> DataFrame:
        """With other names."""
        _mapping("arrow.rename", column_mapper, '{"old": "new"}')
        for name in column_mapper:
            self._named(name)
        names = [column_mapper.get(n, n) for n in self._columns]
        if len(set(names)) < len(names):
            required, hint = (
                "different names were required",
                "drop() the column whose name is taken",
            )
            fail(ValueError, "arrow.rename", required, names, hint=hint)
        return DataFrame(dict(zip(names, self._columns.values(), strict=True)))

    def reorder(self, columns: list[str]) -> DataFrame:
        """With columns in another order."""
        return self[list(columns)]

    def append(self, other: object) -> DataFrame:
        """With the rows of another frame."""
        pa = extra("pyarrow", "arrow")
        tables = [self.to_arrow(), dataframe(other, columns=self.columns).to_arrow()]
        joined = refusing("append", lambda: pa.concat_tables(tables, promote_options="permissive"))
        return from_arrow(joined)

    # ---- order, nulls, groups, joins ----

    def sort(self, by: Any = None, ascending: bool = True) -> DataFrame:
        """Rows in the order of some columns; nulls come last."""
        names = [by] if isinstance(by, str) else list(by or self.columns)
        for name in names:
            self._named(name)
        order = "ascending" if ascending else "descending"
        keys = [(name, order) for name in names]
        places = computed("sort_indices", self.to_arrow(), sort_keys=keys)
        return self._each(lambda values: Column(values.to_arrow().take(places), values.dtype))

    def fill_null(self, fill_value: object) -> DataFrame:
        """A value in the place of nulls."""
        return self._each(
            lambda values: values.fill_null(fill_value) if values.null_count else values
        )

    def describe(self) -> DataFrame:
        """Counts, means, deviations and quartiles of the columns of numbers."""
        words = ["count", "mean", "std", "min", "25%", "50%", "75%", "max"]
        made = {"metric": column(words)}
        for name, values in self._columns.items():
            if dt.is_numerical(values.dtype):
                rows = [values.count(), values.mean(), values.std(), values.min()]
                rows += [values.quantile(q) for q in (0.25, 0.5, 0.75)] + [values.max()]
                made[name] = column(
                    [None if x is None else float(x) for x in rows], dt.Float64(True)
                )
        return DataFrame(made)

    def nlargest(self, n: int, columns: object) -> DataFrame:
        """The rows with the largest values."""
        return self.sort(columns, ascending=False).head(n)

    def nsmallest(self, n: int, columns: object) -> DataFrame:
        """The rows with the smallest values."""
        return self.sort(columns).head(n)

    def copy(self) -> DataFrame:
        """A frame of the same columns, which may be given others."""
        return DataFrame(self._columns)

    def drop_null(self) -> DataFrame:
        """Without rows that hold a null."""
        keep = [None not in row for row in self._rows(None)]
        return self._each(lambda values: column(values.filter(keep).to_arrow()))

    def drop_duplicates(self, subset: object = None) -> DataFrame:
        """Each row once, the first of its kind."""
        seen: set[Any] = set()
        keep = []
        for row in self._rows(subset):
            kind = hashable(row)
            keep.append(kind not in seen)
            seen.add(kind)
        return self._each(lambda values: values.filter(keep))

    def groupby(self, by: Any, sort: bool = False) -> GroupBy:
        """Rows with the same values in some columns, together.

        Args:
            by: the name of a column, or several.
            sort: whether the groups are in the order of their keys, and not in that of their first rows.
        """
        return GroupBy(self, by, sort)

    def join(self, other: DataFrame, on: Any, how: str = "inner") -> DataFrame:
        """Rows of two frames side by side where some columns agree, in the order of the left frame's rows.

        Args:
            other: the frame on the right.
            on: the name of a column that both have, or several.
            how: "inner", "left", "right", "outer", or another of pyarrow's ways.
        """
        pa, other = extra("pyarrow", "arrow"), _frame("arrow.join", other)
        words = {"left": "left outer", "right": "right outer", "outer": "full outer"}
        names = [on] if isinstance(on, str) else list(on)
        for name in names:
            self._named(name), other._named(name)
        # pyarrow gives the rows in any order: they are numbered
        places = _free_names(("left", "right"), [*self.columns, *other.columns])
        sides = [
            frame.to_arrow().append_column(place, pa.array(range(len(frame)), pa.int64()))
            for frame, place in zip((self, other), places, strict=True)
        ]
        try:
            found = sides[0].join(
                sides[1], keys=names, join_type=words.get(how, how), use_threads=False
            )
        except (KeyError, ValueError, pa.ArrowException) as error:
            required, hint = "a way to join was required", "'inner', 'left', 'right' or 'outer'"
            fail(ValueError, "arrow.join", required, f"{how!r}: {error}", hint=hint)
        first = places[::-1] if str(words.get(how, how)).startswith("right") else places
        order = [(place, "ascending") for place in first if place in found.column_names]
        return from_arrow(found.sort_by(order).drop_columns([n for n, _ in order]).combine_chunks())

    def __add__(self, other: object) -> DataFrame:
        return self._each(lambda values: values + other)

    def __sub__(self, other: object) -> DataFrame:
        return self._each(lambda values: values - other)

    def __mul__(self, other: object) -> DataFrame:
        return self._each(lambda values: values * other)

    def __truediv__(self, other: object) -> DataFrame:
        return self._each(lambda values: values / other)

    def _numbers(self, name: str) -> dict[str, Any]:
        return {n: getattr(v, name)() for n, v in self._columns.items() if dt.is_numerical(v.dtype)}

    def sum(self) -> dict[str, Any]:
        """The sum of each column of numbers."""
        return self._numbers("sum")

    def mean(self) -> dict[str, Any]:
        """The mean of each column of numbers."""
        return self._numbers("mean")

    def min(self) -> dict[str, Any]:
        """The smallest value of each column of numbers."""
        return self._numbers("min")

    def max(self) -> dict[str, Any]:
        """The largest value of each column of numbers."""
        return self._numbers("max")

    def std(self) -> dict[str, Any]:
        """The deviation of each column of numbers."""
        return self._numbers("std")

    def median(self) -> dict[str, Any]:
        """The value in the middle of each column of numbers."""
        return self._numbers("median")

    # ---- elsewhere ----

    def to_arrow(self) -> Any:
        """pyarrow's table, on the same memory."""
        pa = extra("pyarrow", "arrow")
        names = self.columns
        return pa.table([self._columns[name].to_arrow() for name in names], names=names)

    def to_tensor(self, conversion: Any = None) -> Any:
        """The tensors of the columns, as a named tuple; `conversion` has functions for some."""
        chosen = conversion or {}
        _mapping("arrow.to_tensor", chosen, '{"column": PadSequence()}')
        for name in chosen:
            self._named(name)
        row = namedtuple("TensorRow", self.columns, rename=True)  # type: ignore[misc]
        return row(*[v.to_tensor(chosen.get(n)) for n, v in self._columns.items()])

    def batches(self, size: int) -> Iterator[DataFrame]:
        """Rows in frames of a size, for pipes and loaders."""
        if size < 1:
            required, hint = (
                "a size of at least one row was required",
                "the last frame may be shorter",
            )
            fail(ValueError, "arrow.batches", required, size, hint=hint)
        for begin in range(0, len(self), size):
            yield self[begin : begin + size]


def collate(batch: object, conversion: object = None) -> Any:
    """Rows, or frames, as tensors: a `collate_fn` of loaders.

    Args:
        batch: a frame, a list of frames, or a list of rows (named tuples, or dictionaries).
        conversion: functions by the name of a column, such as `PadSequence()`; other lists stay ragged.
    """
    if isinstance(batch, DataFrame):
        return batch.to_tensor(conversion)
    parts = list(_listed(batch))
    if not parts:
        fail(
            ValueError,
            "arrow.collate",
            "at least one row was required",
            0,
            hint="drop_last=False keeps rows",
        )
    if isinstance(parts[0], DataFrame):
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.append(part)
        return frame.to_tensor(conversion)
    if isinstance(parts[0], dict):
        names = list(parts[0])
        rows = [tuple(part.get(name) for name in names) for part in parts]
        return dataframe(rows, columns=names).to_tensor(conversion)
    return dataframe(parts).to_tensor(conversion)
