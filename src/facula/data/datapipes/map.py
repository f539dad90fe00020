"""Steps of pipes that are indexed.

Takes pipes with `__getitem__` and `__len__`; gives such pipes.
Keeps true: an item is made when it is asked for.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import facula
from facula.core.errors import fail
from facula.data.datapipes.pipe import (
    DataChunk,
    IterDataPipe,
    MapDataPipe,
    Shuffling,
    functional_datapipe,
)


class SequenceWrapper(MapDataPipe):
    """A sequence or a mapping as a pipe; a copy of it unless `deepcopy` is False."""

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


@functional_datapipe("map")
class Mapper(MapDataPipe):
    """A function of each item."""

    def __init__(self, datapipe: MapDataPipe, fn: Callable[[Any], Any] = lambda x: x) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("concat")
class Concater(MapDataPipe):
    """The items of several pipes, one after another."""

    def __init__(self, *datapipes: MapDataPipe) -> None:
        if not datapipes:
            fail(
                ValueError,
                "concat",
                "Expected at least one DataPipe, but got nothing",
                hint="pass the pipes as separate arguments",
            )
        self.datapipes = datapipes

    def __getitem__(self, index: Any) -> Any:
        offset = 0
        for pipe in self.datapipes:
            if index - offset < len(pipe):
                return pipe[index - offset]
            offset += len(pipe)
        fail(
            IndexError,
            "concat",
            f"Index {index} is out of range.",
            hint="indices run from 0 to len(pipe) - 1",
        )

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class Zipper(MapDataPipe):
    """Tuples of the items of several pipes at the same index."""

    def __init__(self, *datapipes: MapDataPipe) -> None:
        if not datapipes:
            fail(
                ValueError,
                "zip",
                "Expected at least one DataPipe, but got nothing",
                hint="pass the pipes as separate arguments",
            )
        self.datapipes = datapipes

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(pipe[index] for pipe in self.datapipes)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)


@functional_datapipe("batch")
class Batcher(MapDataPipe):
    """Batches of consecutive items."""

    def __init__(
        self,
        datapipe: MapDataPipe,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: type = DataChunk,
    ) -> None:
        if batch_size <= 0:
            fail(
                AssertionError,
                "batch",
                "Batch size is required to be larger than 0!",
                batch_size,
                hint="batch_size=1 makes batches of one value",
            )
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __getitem__(self, index: int) -> Any:
        begin = index * self.batch_size
        count = len(self.datapipe)
        end = min(begin + self.batch_size, count)
        if not 0 <= index < len(self):
            fail(
                IndexError,
                "batch",
                f"Index {index} is out of bound.",
                hint="indices run from 0 to len(pipe) - 1",
            )
        return self.wrapper_class(self.datapipe[i] for i in range(begin, end))

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class Shuffler(Shuffling, IterDataPipe):
    """The items of an indexed pipe in random order, a new one each time."""

    def __init__(self, datapipe: MapDataPipe, *, indices: list[Any] | None = None) -> None:
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices

    def __iter__(self) -> Iterator[Any]:
        order: Iterable[int] = range(len(self.indices))
        if self._enabled:
            generator = facula.Generator()
            generator.manual_seed(self._next_seed())
            order = facula.randperm(len(self.indices), generator=generator).tolist()
        for i in order:
            yield self.datapipe[self.indices[i]]

    def __len__(self) -> int:
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", Shuffler)

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
