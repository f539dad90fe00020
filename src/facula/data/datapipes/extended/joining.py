"""Steps that join pipes by keys or in turn, and part them.

Takes pipes; gives a pipe, or a list of pipes. Keeps true: no value is dropped unless the step says so;
buffers stay within their sizes.
"""

from __future__ import annotations

import random
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Self

from facula.core.errors import fail
from facula.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from facula.data.datapipes.iter.combining import some_pipes
from facula.data.datapipes.iter.splitting import DemultiplexerIterDataPipe, ForkerIterDataPipe
from facula.data.datapipes.utils.common import check_function, drawn_seed, length_of, no_length


def _joined(merge_fn: Callable[..., Any] | None, left: object, right: object) -> Any:
    return (left, right) if merge_fn is None else merge_fn(left, right)


class IterKeyZipperIterDataPipe(IterDataPipe):
    """Pairs of values of two pipes that have the same key (functional name: ``zip_with_iter``).

    Values of `ref_datapipe` wait, at most `buffer_size` of them; a key of the source for which there
    is none is an error.
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe,
        ref_datapipe: IterDataPipe,
        key_fn: Callable[[Any], Any],
        ref_key_fn: Callable[[Any], Any] | None = None,
        keep_key: bool = False,
        buffer_size: int | None = 10000,
        merge_fn: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        if not isinstance(ref_datapipe, IterDataPipe):
            fail(
                TypeError,
                "zip_with_iter",
                "ref_datapipe must be a IterDataPipe",
                type(ref_datapipe),
                hint="zip_with_map takes pipes that are indexed",
            )
        for function in (key_fn, ref_key_fn, merge_fn):
            if function is not None:
                check_function(function)
        if buffer_size is not None and buffer_size <= 0:
            fail(
                ValueError,
                "zip_with_iter",
                "'buffer_size' is required to be either None or a positive integer.",
                buffer_size,
                hint="None keeps as many values as are needed",
            )
        self.source_datapipe, self.ref_datapipe = source_datapipe, ref_datapipe
        self.key_fn, self.ref_key_fn = key_fn, key_fn if ref_key_fn is None else ref_key_fn
        self.keep_key, self.buffer_size, self.merge_fn = keep_key, buffer_size, merge_fn

    def __iter__(self) -> Iterator[Any]:
        waiting: OrderedDict[Any, Any] = OrderedDict()
        references = iter(self.ref_datapipe)
        for value in self.source_datapipe:
            key = self.key_fn(value)
            while key not in waiting:
                self._next_reference(key, references, waiting)
            joined = _joined(self.merge_fn, value, waiting.pop(key))
            yield (key, joined) if self.keep_key else joined
        if waiting:
            warnings.warn(
                "Some elements from the reference DataPipe were not used by zip_with_iter: "
                f"{len(waiting)} of them wait",
                stacklevel=2,
            )

    def _next_reference(
        self, key: object, references: Iterator[Any], waiting: OrderedDict[Any, Any]
    ) -> None:
        try:
            reference = next(references)
        except StopIteration:
            fail(
                BufferError,
                "zip_with_iter",
                f"No matching key can be found from reference DataPipe for the data {key!r}",
                hint="give a larger buffer_size, or filter the source",
            )
        ref_key = self.ref_key_fn(reference)
        if ref_key in waiting:
            fail(
                ValueError,
                "zip_with_iter",
                f"Duplicate key is found in reference DataPipe: {ref_key!r}",
                hint="groupby() puts values of one key together",
            )
        if self.buffer_size is not None and len(waiting) >= self.buffer_size:
            warnings.warn(
                "Buffer reaches the upper limit, so reference key-data pair begins to be removed from "
                "buffer in FIFO order. Please consider increase buffer size.",
                stacklevel=3,
            )
            waiting.popitem(last=False)
        waiting[ref_key] = reference

    def __len__(self) -> int:
        return length_of(self, self.source_datapipe)


class MapKeyZipperIterDataPipe(IterDataPipe):
    """Pairs of a value and the entry of an indexed pipe under its key (functional name:
    ``zip_with_map``).
    """

    def __init__(
        self,
        source_iterdatapipe: IterDataPipe,
        map_datapipe: MapDataPipe,
        key_fn: Callable[[Any], Any],
        merge_fn: Callable[[Any, Any], Any] | None = None,
        keep_key: bool = False,
    ) -> None:
        if not isinstance(map_datapipe, MapDataPipe):
            fail(
                TypeError,
                "zip_with_map",
                "map_datapipe must be a MapDataPipe",
                type(map_datapipe),
                hint="to_map_datapipe() makes one of pairs",
            )
        check_function(key_fn)
        self.source_iterdatapipe, self.map_datapipe = source_iterdatapipe, map_datapipe
        self.key_fn, self.merge_fn, self.keep_key = key_fn, merge_fn, keep_key

    def __iter__(self) -> Iterator[Any]:
        for value in self.source_iterdatapipe:
            key = self.key_fn(value)
            try:
                entry = self.map_datapipe[key]
            except (KeyError, IndexError):
                fail(
                    KeyError,
                    "zip_with_map",
                    f"key_fn maps {value!r} to {key!r}, which is not a valid key in the given "
                    "MapDataPipe",
                    hint="filter() leaves such values out",
                )
            joined = _joined(self.merge_fn, value, entry)
            yield (key, joined) if self.keep_key else joined

    def __len__(self) -> int:
        return length_of(self, self.source_iterdatapipe)


class MultiplexerLongestIterDataPipe(IterDataPipe):
    """One value of each pipe in turn until all end (functional name: ``mux_longest``)."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        some_pipes("mux_longest", datapipes)
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for values in zip_longest(*self.datapipes, fillvalue=_NOTHING):
            yield from (value for value in values if value is not _NOTHING)

    def __len__(self) -> int:
        return sum(length_of(self, pipe) for pipe in self.datapipes)


_NOTHING = object()


class ZipperLongestIterDataPipe(IterDataPipe):
    """Tuples of the values of several pipes until all end (functional name: ``zip_longest``)."""

    def __init__(self, *datapipes: IterDataPipe, fill_value: Any = None) -> None:
        some_pipes("zip_longest", datapipes)
        self.datapipes, self.fill_value = datapipes, fill_value

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from zip_longest(*self.datapipes, fillvalue=self.fill_value)

    def __len__(self) -> int:
        return max(length_of(self, pipe) for pipe in self.datapipes)


class SampleMultiplexerIterDataPipe(IterDataPipe):
    """Values of pipes that are chosen at random with given weights, until all end."""

    def __init__(
        self, pipes_to_weights_dict: Mapping[IterDataPipe, float], seed: int | None = None
    ) -> None:
        weights = pipes_to_weights_dict
        if not weights:
            some_pipes("SampleMultiplexer", ())
        if any(weight <= 0 for weight in weights.values()):
            fail(
                ValueError,
                "SampleMultiplexer",
                "Expecting a positive and non-zero weight",
                [*weights.values()],
                hint="leave pipes that are not to be read out",
            )
        self.pipes_and_weights = list(weights.items())
        self._rng = random.Random()
        self._seed = seed

    def set_seed(self, seed: int) -> Self:
        """The seed of the next order."""
        self._seed = seed
        return self

    def reset(self) -> None:
        self._rng.seed(drawn_seed() if self._seed is None else self._seed)
        self._seed = None

    def __iter__(self) -> Iterator[Any]:
        left = [(iter(pipe), weight) for pipe, weight in self.pipes_and_weights]
        while left:
            at = self._rng.choices(range(len(left)), [weight for _, weight in left])[0]
            try:
                value = next(left[at][0])
            except StopIteration:
                del left[at]
                continue
            yield value

    def __len__(self) -> int:
        return sum(length_of(self, pipe) for pipe, _ in self.pipes_and_weights)


class _Turns:
    """The numbers 0, 1, ... again and again."""

    def __init__(self, count: int) -> None:
        self.count, self.next = count, 0

    def __call__(self, value: Any) -> int:
        number, self.next = self.next, (self.next + 1) % self.count
        return number

    def reset(self) -> None:
        self.next = 0


class _Numbered(IterDataPipe):
    """A source whose numbering begins anew with each pass."""

    def __init__(self, datapipe: IterDataPipe, turns: _Turns) -> None:
        self.datapipe, self.turns = datapipe, turns

    def __iter__(self) -> Iterator[Any]:
        yield from self.datapipe

    def reset(self) -> None:
        self.turns.reset()


class RoundRobinDemultiplexerIterDataPipe(IterDataPipe):
    """Several pipes that get the values in turn (functional name: ``round_robin_demux``)."""

    def __new__(cls, datapipe: IterDataPipe, num_instances: int, buffer_size: int = 1000) -> Any:
        turns = _Turns(num_instances)
        numbered = _Numbered(datapipe, turns)
        return DemultiplexerIterDataPipe(numbered, num_instances, turns, buffer_size=buffer_size)


class _Column:
    """One entry of a row, which has so many."""

    def __init__(self, place: int, count: int) -> None:
        self.place, self.count = place, count

    def __call__(self, row: Any) -> Any:
        try:
            found = len(row)
        except TypeError:
            found = 0
        if found <= self.place:
            required = f"rows of {self.count} values, as sequence_length says, were required"
            got = f"{found} values" if found else repr(row)[:60]
            fail(ValueError, "unzip", required, got, hint="filter() leaves shorter rows out")
        return row[self.place]


class UnZipperIterDataPipe(IterDataPipe):
    """A pipe for each column of rows (functional name: ``unzip``)."""

    def __new__(
        cls,
        source_datapipe: IterDataPipe,
        sequence_length: int,
        buffer_size: int = 1000,
        columns_to_skip: Sequence[int] | None = None,
    ) -> Any:
        kept = [i for i in range(sequence_length) if i not in (columns_to_skip or ())]
        if not kept:
            fail(
                ValueError,
                "unzip",
                "All columns are being filtered out, please ensure at least one remains",
                hint="name fewer columns_to_skip",
            )
        copies = ForkerIterDataPipe(source_datapipe, len(kept), buffer_size)
        copies = [copies] if len(kept) == 1 else copies
        return [pipe.map(_Column(i, sequence_length)) for pipe, i in zip(copies, kept, strict=True)]


class _Draw:
    """The number of the part that the next value belongs to: as many of each as were planned."""

    def __init__(self, counts: dict[int, int], seed: int) -> None:
        self.counts, self.seed = counts, seed
        self.reset()

    def reset(self) -> None:
        self.left, self.rng = dict(self.counts), random.Random(self.seed)

    def __call__(self, value: Any) -> int:
        numbers = [number for number, count in self.left.items() if count]
        if not numbers:
            fail(
                RuntimeError,
                "random_split",
                f"{sum(self.counts.values())} values, as total_length says, were required, and there "
                "are more",
                hint="pass the right total_length",
            )
        number = self.rng.choices(numbers, [self.left[n] for n in numbers])[0]
        self.left[number] -= 1
        return number


class RandomSplitterIterDataPipe(IterDataPipe):
    """Parts of a pipe, the same ones in each pass (functional name: ``random_split``).

    `weights` says how large the parts are (a dictionary of names to numbers), `seed` how the values
    are dealt out, `target` which single part is wanted; `total_length` is needed where the source
    does not know its length.
    """

    def __new__(
        cls,
        source_datapipe: IterDataPipe,
        weights: Mapping[Any, float],
        seed: int,
        total_length: int | None = None,
        target: object = None,
    ) -> Any:
        if total_length is None:
            try:
                total_length = len(source_datapipe)
            except TypeError:
                fail(
                    TypeError,
                    "random_split",
                    "RandomSplitter needs `total_length`, but it is unable to infer it from the "
                    f"`source_datapipe`: {source_datapipe}.",
                    hint="pass total_length=n",
                )
        if target is not None and target not in weights:
            fail(
                KeyError,
                "random_split",
                f"`target={target}` does not match any key in `weights`.",
                [*weights],
                hint="name one of the parts",
            )
        counts = _parts(list(weights.values()), total_length)
        draw = _Draw(dict(enumerate(counts)), seed)
        numbered = _Numbered(source_datapipe, draw)  # type: ignore[arg-type]
        if target is not None:
            wanted = list(weights).index(target)
            return _Part(numbered, draw, wanted, counts[wanted])
        branches = DemultiplexerIterDataPipe(numbered, len(counts), draw, buffer_size=-1)
        return [branch.set_length(n) for branch, n in zip(branches, counts, strict=True)]


def _parts(weights: list[float], total: int) -> list[int]:
    """Whole numbers in the ratio of the weights, whose sum is `total`."""
    if any(weight <= 0 for weight in weights):
        fail(
            ValueError,
            "random_split",
            "weights larger than 0 were required",
            weights,
            hint="leave parts that are to be empty out",
        )
    counts = [int(total * weight / sum(weights)) for weight in weights]
    for i in range(total - sum(counts)):
        counts[i % len(counts)] += 1
    return counts


class _Part(IterDataPipe):
    """The values of one part."""

    def __init__(self, datapipe: IterDataPipe, draw: _Draw, number: int, count: int) -> None:
        self.datapipe, self.draw, self.number, self.count = datapipe, draw, number, count

    def __iter__(self) -> Iterator[Any]:
        for value in self.datapipe:
            if self.draw(value) == self.number:
                yield value

    def __len__(self) -> int:
        return self.count


class IterToMapConverterMapDataPipe(MapDataPipe):
    """An indexed pipe of pairs of a key and a value, read when it is first asked for an entry
    (functional name: ``to_map_datapipe``).

    Args:
        datapipe: the source
        key_value_fn: makes a pair of a value of the source
    """

    def __init__(
        self, datapipe: IterDataPipe, key_value_fn: Callable[[Any], tuple[Any, Any]] | None = None
    ) -> None:
        if not isinstance(datapipe, IterDataPipe):
            some_pipes("to_map_datapipe", (datapipe,))
        if key_value_fn is not None:
            check_function(key_value_fn)
        self.datapipe, self.key_value_fn = datapipe, key_value_fn
        self._map: dict[Any, Any] | None = None

    def _entries(self) -> dict[Any, Any]:
        if self._map is None:
            entries: dict[Any, Any] = {}
            for value in self.datapipe:
                pair = value if self.key_value_fn is None else self.key_value_fn(value)
                if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                    fail(
                        ValueError if isinstance(pair, (tuple, list)) else TypeError,
                        "to_map_datapipe",
                        "pairs of a key and a value were required",
                        pair,
                        hint="key_value_fn makes a pair of a value",
                    )
                if pair[0] in entries:
                    warnings.warn(
                        f"Found duplicate key {pair[0]}. Please check your `key_value_fn`",
                        stacklevel=3,
                    )
                entries[pair[0]] = pair[1]
            self._map = entries
        return self._map

    def __getitem__(self, index: Any) -> Any:
        entries = self._entries()
        if index not in entries:
            raise IndexError(f"Index {index} is invalid for IterToMapConverter.")
        return entries[index]

    def __len__(self) -> int:
        if self._map is not None:
            return len(self._map)
        try:
            return len(self.datapipe)
        except TypeError:
            no_length(self)

    def __getstate__(self) -> Any:
        return self._state_for_pickle({**self.__dict__, "_map": None})


class MapToIterConverterIterDataPipe(IterDataPipe):
    """The items of an indexed pipe one after another (functional name: ``to_iter_datapipe``)."""

    def __init__(self, datapipe: MapDataPipe, indices: Any = None) -> None:
        if not isinstance(datapipe, MapDataPipe):
            fail(
                TypeError,
                "to_iter_datapipe",
                "MapToIterConverter can only apply on MapDataPipe",
                type(datapipe),
                hint="SequenceWrapper(values) makes one",
            )
        self.datapipe = datapipe
        self.indices = range(len(datapipe)) if indices is None else indices

    def __iter__(self) -> Iterator[Any]:
        for index in self.indices:
            yield self.datapipe[index]

    def __len__(self) -> int:
        return length_of(self, self.indices)


class UnZipperMapDataPipe(MapDataPipe):
    """An indexed pipe for each column of rows (functional name: ``unzip``)."""

    def __new__(
        cls,
        source_datapipe: MapDataPipe,
        sequence_length: int,
        columns_to_skip: Sequence[int] | None = None,
    ) -> Any:
        kept = [i for i in range(sequence_length) if i not in (columns_to_skip or ())]
        return [source_datapipe.map(_Column(i, sequence_length)) for i in kept]
