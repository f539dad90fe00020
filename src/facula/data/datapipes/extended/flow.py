"""Steps that repeat, number, cut off, open or rearrange single values.

Takes pipes; gives pipes. Keeps true: values come in the order of the source, except where a step
shuffles, and then in an order that follows from its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.utils.common import (
    check_function,
    chosen,
    length_of,
    no_length,
    validate_input_col,
)
from facula.data.datapipes.utils.orders import SeededOrder


def at_least(op: str, name: str, value: int, least: int) -> None:
    """Raise ValueError where a number is too small."""
    if value < least:
        fail(
            ValueError,
            op,
            f"Expected {name} of at least {least}",
            value,
            hint=f"{name}={least} is the smallest that has a meaning",
        )


class CyclerIterDataPipe(IterDataPipe):
    """The values again and again, `count` times or without end (functional name: ``cycle``)."""

    def __init__(self, source_datapipe: IterDataPipe, count: int | None = None) -> None:
        if count is not None:
            at_least("cycle", "count", count, 0)
        self.source_datapipe, self.count = source_datapipe, count

    def __iter__(self) -> Iterator[Any]:
        passes = 0
        while self.count is None or passes < self.count:
            empty = True
            for value in self.source_datapipe:
                empty = False
                yield value
            if empty and self.count is None:
                return  # a cycle of nothing would never end
            passes += 1

    def __len__(self) -> int:
        if self.count is None:
            no_length(self)
        return self.count * length_of(self, self.source_datapipe)


class RepeaterIterDataPipe(IterDataPipe):
    """Each value `times` times in a row (functional name: ``repeat``)."""

    def __init__(self, source_datapipe: IterDataPipe, times: int) -> None:
        if times <= 1:
            fail(
                ValueError,
                "repeat",
                f"The number of repetition must be > 1, got {times}",
                hint="times=2 gives each value twice",
            )
        self.source_datapipe, self.times = source_datapipe, times

    def __iter__(self) -> Iterator[Any]:
        for value in self.source_datapipe:
            for _ in range(self.times):
                yield value

    def __len__(self) -> int:
        return self.times * length_of(self, self.source_datapipe)


class EnumeratorIterDataPipe(IterDataPipe):
    """Pairs of a number and a value (functional name: ``enumerate``)."""

    def __init__(self, source_datapipe: IterDataPipe, starting_index: int = 0) -> None:
        self.source_datapipe, self.starting_index = source_datapipe, starting_index

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        yield from enumerate(self.source_datapipe, self.starting_index)

    def __len__(self) -> int:
        return length_of(self, self.source_datapipe)


class IndexAdderIterDataPipe(IterDataPipe):
    """Dictionaries with their number under one more key (functional name: ``add_index``)."""

    def __init__(self, source_datapipe: IterDataPipe, index_name: str = "index") -> None:
        self.source_datapipe, self.index_name = source_datapipe, index_name

    def __iter__(self) -> Iterator[dict[Any, Any]]:
        for number, row in enumerate(self.source_datapipe):
            if not isinstance(row, dict):
                fail(
                    NotImplementedError,
                    "add_index",
                    "We only support adding index to row or batch in dict type",
                    type(row),
                    hint="enumerate() numbers values of other types",
                )
            yield {**row, self.index_name: number}

    def __len__(self) -> int:
        return length_of(self, self.source_datapipe)


class HeaderIterDataPipe(IterDataPipe):
    """The first `limit` values (functional names: ``header``, ``limit``); None: all."""

    def __init__(self, source_datapipe: IterDataPipe, limit: int | None = 10) -> None:
        if limit is not None:
            at_least("header", "limit", limit, 0)
        self.source_datapipe, self.limit = source_datapipe, limit

    def __iter__(self) -> Iterator[Any]:
        yield from islice(self.source_datapipe, self.limit)

    def __len__(self) -> int:
        whole = length_of(self, self.source_datapipe)
        return whole if self.limit is None else min(self.limit, whole)


class LengthSetterIterDataPipe(IterDataPipe):
    """The same values, with a length that is given (functional name: ``set_length``)."""

    def __init__(self, source_datapipe: IterDataPipe, length: int) -> None:
        at_least("set_length", "length", length, 0)
        self.source_datapipe, self.length = source_datapipe, length

    def __iter__(self) -> Iterator[Any]:
        yield from self.source_datapipe

    def __len__(self) -> int:
        return self.length


class FlatMapperIterDataPipe(IterDataPipe):
    """What a function gives for each value, one after another (functional name: ``flatmap``).

    Without a function the values themselves are opened. A string counts as one value.
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        fn: Callable[..., Iterable[Any]] | None = None,
        input_col: Any = None,
        length: int | None = None,
    ) -> None:
        if fn is not None:
            check_function(fn)
            validate_input_col(fn, input_col)
        if length is not None:
            at_least("flatmap", "length", length, 0)
        self.datapipe, self.fn, self.input_col, self.length = datapipe, fn, input_col, length

    def _several(self, value: object) -> Iterable[Any]:
        picked = chosen(value, self.input_col)
        if self.fn is None:
            made = picked
        else:
            several = isinstance(self.input_col, (list, tuple))
            made = self.fn(*picked) if several else self.fn(picked)
        if isinstance(made, (str, bytes)):
            return [made]
        if not isinstance(made, Iterable):
            fail(
                TypeError,
                "flatmap",
                "values, or results of the function, that can be iterated over were required",
                type(made),
                hint="map() takes functions that give one value",
            )
        return made

    def __iter__(self) -> Iterator[Any]:
        for value in self.datapipe:
            yield from self._several(value)

    def __len__(self) -> int:
        return no_length(self) if self.length is None else self.length


class ShuffledFlatMapperIterDataPipe(SeededOrder, FlatMapperIterDataPipe):
    """Like ``flatmap``, and each value is drawn from one of the next `buffer_size` sources, taken at
    random (functional name: ``shuffled_flatmap``).
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        fn: Callable[..., Iterable[Any]] | None = None,
        input_col: Any = None,
        buffer_size: int = 100,
        length: int | None = None,
    ) -> None:
        super().__init__(datapipe, fn, input_col, length)
        at_least("shuffled_flatmap", "buffer_size", buffer_size, 1)
        self.buffer_size = buffer_size
        self._begin_order()

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            for value in self.datapipe:
                yield from self._several(value)
            return
        open_ones: list[Iterator[Any]] = []
        for value in self.datapipe:
            while len(open_ones) == self.buffer_size:
                yield from self._drawn(open_ones)
            open_ones.append(iter(self._several(value)))
        while open_ones:
            yield from self._drawn(open_ones)

    def _drawn(self, open_ones: list[Iterator[Any]]) -> Iterator[Any]:
        """One value, or nothing and one source less."""
        at = self._rng.randrange(len(open_ones))
        try:
            yield next(open_ones[at])
        except StopIteration:
            del open_ones[at]


class FlattenerIterDataPipe(IterDataPipe):
    """Rows whose columns are opened (functional name: ``flatten``): `indices` names those that are
    themselves rows; None: all that are.
    """

    def __init__(self, datapipe: IterDataPipe, indices: Any = None) -> None:
        if indices is not None and not isinstance(indices, (list, tuple, set)):
            indices = [indices]
        self.datapipe, self.indices = datapipe, None if indices is None else set(indices)

    def __iter__(self) -> Iterator[Any]:
        for row in self.datapipe:
            yield self._dict(row) if isinstance(row, dict) else self._sequence(row)

    def _opens(self, place: object, value: object, kinds: Any) -> bool:
        return (self.indices is None or place in self.indices) and isinstance(value, kinds)

    def _dict(self, row: dict[Any, Any]) -> dict[Any, Any]:
        flat: dict[Any, Any] = {}
        for key, value in row.items():
            flat.update(value if self._opens(key, value, dict) else {key: value})
        return flat

    def _sequence(self, row: tuple[Any, ...]) -> Any:
        if not isinstance(row, (list, tuple)):
            return row
        flat: list[Any] = []
        for place, value in enumerate(row):
            flat.extend(value if self._opens(place, value, (list, tuple)) else [value])
        return type(row)(flat)

    def __len__(self) -> int:
        return length_of(self, self.datapipe)


class DropperIterDataPipe(IterDataPipe):
    """Rows without some columns (functional name: ``drop``)."""

    def __init__(self, datapipe: IterDataPipe, indices: Any) -> None:
        several = isinstance(indices, (list, tuple, set))
        self.datapipe, self.indices = datapipe, set(indices) if several else {indices}

    def _check(self, row: Any, places: Iterable[Any]) -> None:
        missing = self.indices - set(places)
        if missing:
            fail(
                KeyError if isinstance(row, dict) else IndexError,
                "drop",
                f"columns {sorted(missing, key=str)} of each row were required",
                row,
                hint="name columns that all rows have",
            )

    def __iter__(self) -> Iterator[Any]:
        for row in self.datapipe:
            if isinstance(row, dict):
                self._check(row, row)
                yield {k: v for k, v in row.items() if k not in self.indices}
            elif isinstance(row, (list, tuple)):
                self._check(row, range(len(row)))
                yield type(row)(v for i, v in enumerate(row) if i not in self.indices)
            else:
                _no_row("drop", row)

    def __len__(self) -> int:
        return length_of(self, self.datapipe)


def _no_row(op: str, row: int) -> None:
    fail(
        TypeError,
        op,
        "rows that are lists, tuples or dictionaries were required",
        type(row),
        hint="map() makes rows of other values",
    )


class SlicerIterDataPipe(IterDataPipe):
    """Parts of rows (functional name: ``slice``): `index` to `stop` with `step`, or the columns that
    a list names; of dictionaries always a list of keys.
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        index: Any,
        stop: int | None = None,
        step: int | None = None,
    ) -> None:
        self.datapipe, self.index, self.stop, self.step = datapipe, index, stop, step
        if isinstance(index, list) and (stop or step):
            fail(
                ValueError,
                "slice",
                "A list of indices was passed as well as a stop or step for the slice",
                (stop, step),
                hint="pass the list alone",
            )

    def __iter__(self) -> Iterator[Any]:
        for row in self.datapipe:
            if isinstance(row, dict):
                keys = self.index if isinstance(self.index, (list, tuple)) else [self.index]
                yield {key: row[key] for key in keys}
            elif not isinstance(row, (list, tuple)):
                _no_row("slice", row)
            elif isinstance(self.index, (list, tuple)):
                yield type(row)(row[i] for i in self.index)
            else:
                yield row[self.index : self.stop : self.step]

    def __len__(self) -> int:
        return length_of(self, self.datapipe)


class BatchMapperIterDataPipe(IterDataPipe):
    """A function of `batch_size` consecutive values, which gives a list of values, as many as it
    likes (functional name: ``map_batches``).
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        fn: Callable[..., Iterable[Any]],
        batch_size: int,
        input_col: Any = None,
    ) -> None:
        check_function(fn)
        at_least("map_batches", "batch_size", batch_size, 1)
        self.datapipe, self.fn, self.batch_size = datapipe, fn, batch_size
        self.input_col = input_col

    def __iter__(self) -> Iterator[Any]:
        values = iter(self.datapipe)
        while batch := list(islice(values, self.batch_size)):
            if self.input_col is None:
                yield from self.fn(batch)
            elif isinstance(self.input_col, (list, tuple)):
                yield from self.fn(*([row[c] for row in batch] for c in self.input_col))
            else:
                yield from self.fn([row[self.input_col] for row in batch])


class Rows2ColumnarIterDataPipe(IterDataPipe):
    """Batches of rows as dictionaries of columns (functional name: ``rows2columnar``).

    Rows are dictionaries, or lists whose columns `column_names` names.
    """

    def __init__(
        self, source_datapipe: IterDataPipe, column_names: list[str] | None = None
    ) -> None:
        self.source_datapipe, self.column_names = source_datapipe, column_names or []

    def __iter__(self) -> Iterator[dict[Any, list[Any]]]:
        for batch in self.source_datapipe:
            columns: dict[Any, list[Any]] = {}
            for row in self._rows(batch):
                for key, value in self._pairs(row):
                    columns.setdefault(key, []).append(value)
            yield columns

    def _rows(self, batch: Any) -> Iterator[Any]:
        """The rows of a batch, of which dictionaries have the same keys."""
        first = None
        for row in batch if isinstance(batch, Iterable) else [batch]:
            if not isinstance(row, (dict, list, tuple)):
                hint = "batch() makes batches, parse_csv() rows"
                fail(TypeError, "rows2columnar", "batches of rows were required", type(row), hint)
            if isinstance(row, dict):
                first = row if first is None else first
                keys = self.column_names or first
                missing = [key for key in keys if key not in row]
                more = [] if self.column_names else [key for key in row if key not in first]
                if missing or more:
                    got = (
                        f"a row without {missing}" if missing else f"a row with {more} beside them"
                    )
                    required = f"rows with the columns {list(keys)} were required"
                    hint = "column_names says which are taken"
                    fail(ValueError, "rows2columnar", required, got, hint)
            yield row

    def _pairs(self, row: Any) -> Iterable[tuple[Any, Any]]:
        if isinstance(row, dict):
            return [(key, row[key]) for key in self.column_names or row]
        if len(self.column_names) != len(row):
            fail(
                ValueError,
                "rows2columnar",
                f"rows of {len(self.column_names)} columns were required, one for each of column_names",
                len(row),
                hint="pass column_names, one for each entry of a row",
            )
        return zip(self.column_names, row, strict=True)

    def __len__(self) -> int:
        return length_of(self, self.source_datapipe)
