"""Steps of pipes that are iterated over: change, select, batch, shuffle, share among workers.

Takes pipes; gives pipes. Several pipes into one, or out of one, stand in `combine`.
Keeps true: values are made one by one as they are asked for; random steps draw from a generator
that is seeded anew for each iteration.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from typing import Any

from facula.core.errors import fail
from facula.data.collate import default_collate
from facula.data.dataloader import get_worker_info
from facula.data.datapipes.combine import (
    Concater,
    Demultiplexer,
    Forker,
    Grouper,
    Multiplexer,
    Zipper,
)
from facula.data.datapipes.pipe import (
    DataChunk,
    IterDataPipe,
    Shuffling,
    applied,
    chosen,
    functional_datapipe,
)
from facula.data.sampler import SequentialSampler


class IterableWrapper(IterDataPipe):
    """An iterable as a pipe; a copy of it for each iteration unless `deepcopy` is False."""

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:
                pass  # generators cannot be copied: they are read once
        yield from source

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]


@functional_datapipe("map")
class Mapper(IterDataPipe):
    """A function of each value, or of some of its columns."""

    def __init__(
        self,
        datapipe: IterDataPipe,
        fn: Callable[..., Any],
        input_col: Any = None,
        output_col: Any = None,
    ) -> None:
        if input_col is None and output_col is not None:
            fail(
                ValueError,
                "map",
                "`output_col` must be None when `input_col` is None.",
                hint="pass input_col, the column that the function reads",
            )
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                fail(
                    ValueError,
                    "map",
                    "`output_col` must be a single-element list or tuple",
                    hint="a function has one result: name the column for it",
                )
            output_col = output_col[0]
        self.datapipe, self.fn = datapipe, fn
        self.input_col, self.output_col = input_col, output_col

    def __iter__(self) -> Iterator[Any]:
        for value in self.datapipe:
            yield applied(self.fn, value, self.input_col, self.output_col)

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("collate")
class Collator(Mapper):
    """Batches as tensors, by `collate_fn` or by the loader's own."""

    def __init__(
        self,
        datapipe: IterDataPipe,
        conversion: Callable[..., Any] | None = None,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(datapipe, conversion or collate_fn or default_collate)


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """The values for which a function is true."""

    def __init__(
        self, datapipe: IterDataPipe, filter_fn: Callable[..., bool], input_col: Any = None
    ) -> None:
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        several = isinstance(self.input_col, (list, tuple))
        for value in self.datapipe:
            picked = chosen(value, self.input_col)
            kept = self.filter_fn(*picked) if several else self.filter_fn(picked)
            if not isinstance(kept, bool):
                fail(
                    ValueError,
                    "filter",
                    "Boolean output is required for `filter_fn` of FilterIterDataPipe",
                    type(kept),
                    hint="bool(...) around the result makes it one",
                )
            if kept:
                yield value


@functional_datapipe("batch")
class Batcher(IterDataPipe):
    """Batches of consecutive values."""

    def __init__(
        self,
        datapipe: IterDataPipe,
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

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for value in self.datapipe:
            batch.append(value)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcher(IterDataPipe):
    """The values of batches, `unbatch_level` levels deep (-1: all)."""

    def __init__(self, datapipe: IterDataPipe, unbatch_level: int = 1) -> None:
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        for value in self.datapipe:
            yield from self._opened(value, self.unbatch_level)

    def _opened(self, value: Any, level: int) -> Iterator[Any]:
        if level < -1:
            fail(
                ValueError,
                "unbatch",
                "unbatch_level must be -1 or >= 0",
                level,
                hint="unbatch_level=-1 flattens everything",
            )
        if level == 0:
            yield value
        elif isinstance(value, list):
            for item in value:
                yield from self._opened(item, level if level == -1 else level - 1)
        elif level == -1:
            yield value
        else:
            fail(
                IndexError,
                "unbatch",
                f"unbatch_level {self.unbatch_level} exceeds the depth",
                value,
                hint="unbatch_level=-1 flattens everything",
            )


@functional_datapipe("shuffle")
class Shuffler(Shuffling, IterDataPipe):
    """Values in random order: each is drawn out of a buffer of the next `buffer_size`."""

    def __init__(
        self, datapipe: IterDataPipe, *, buffer_size: int = 10000, unbatch_level: int = 0
    ) -> None:
        if buffer_size <= 0:
            fail(
                ValueError,
                "shuffle",
                "buffer_size should be larger than 0",
                buffer_size,
                hint="buffer_size=1 keeps the order",
            )
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level)
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer: list[Any] = []
        draw = random.Random(self._next_seed())
        for value in self.datapipe:
            if len(buffer) == self.buffer_size:
                at = draw.randrange(len(buffer))
                buffer[at], value = value, buffer[at]
                yield value
            else:
                buffer.append(value)
        draw.shuffle(buffer)
        yield from buffer

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("sharding_filter")
class ShardingFilter(IterDataPipe):
    """Every n-th value: each worker of a loader reads a share of its own."""

    def __init__(self, source_datapipe: IterDataPipe, sharding_group_filter: Any = None) -> None:
        self.source_datapipe = source_datapipe
        self._share: tuple[int, int] | None = None

    def is_shardable(self) -> bool:
        """Whether `apply_sharding` has an effect: it has."""
        return True

    def apply_sharding(
        self, num_of_instances: int, instance_id: int, sharding_group: Any = None
    ) -> None:
        """Give every `num_of_instances`-th value from number `instance_id` on."""
        if not 0 <= instance_id < num_of_instances:
            fail(
                ValueError,
                "sharding_filter",
                f"instance_id({instance_id}) should be smaller than num_of_instances"
                f"({num_of_instances})",
                hint="instances count from 0",
            )
        self._share = (num_of_instances, instance_id)

    def _shared(self) -> tuple[int, int]:
        info = get_worker_info()
        if self._share is not None or info is None:
            return self._share or (1, 0)
        return info.num_workers, info.id

    def __iter__(self) -> Iterator[Any]:
        count, own = self._shared()
        for i, value in enumerate(self.source_datapipe):
            if i % count == own:
                yield value

    def __len__(self) -> int:
        count, own = self._shared()
        whole = len(self.source_datapipe)
        return whole // count + (own < whole % count)


class Sampler(IterDataPipe):
    """The places that a sampler chooses."""

    def __init__(
        self,
        datapipe: Any,
        sampler: Any = SequentialSampler,
        sampler_args: tuple[Any, ...] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.datapipe = datapipe
        keywords = {"data_source": datapipe, **(sampler_kwargs or {})}
        self.sampler = sampler(*(sampler_args or ()), **keywords)

    def __iter__(self) -> Iterator[Any]:
        yield from self.sampler

    def __len__(self) -> int:
        return len(self.sampler)


@functional_datapipe("list_files")
class FileLister(IterDataPipe):
    """The files below folders whose names match."""

    def __init__(
        self,
        root: Any = ".",
        masks: Any = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> None:
        self.datapipe = IterableWrapper([root]) if isinstance(root, (str, os.PathLike)) else root
        self.masks = [masks] if isinstance(masks, str) else list(masks)
        self.recursive, self.abspath, self.length = recursive, abspath, length

    def __iter__(self) -> Iterator[str]:
        for root in self.datapipe:
            folder = os.path.abspath(root) if self.abspath else os.fspath(root)
            for path, folders, names in os.walk(folder):
                folders.sort()
                for name in sorted(names):
                    if not any(self.masks) or any(fnmatch(name, m) for m in self.masks):
                        yield os.path.join(path, name)
                if not self.recursive:
                    break

    def __len__(self) -> int:
        if self.length == -1:
            fail(
                TypeError,
                "list_files",
                "FileLister instance doesn't have valid length",
                hint="pass length=n, or count with sum(1 for _ in pipe)",
            )
        return self.length


@functional_datapipe("open_files")
class FileOpener(IterDataPipe):
    """Pairs of a path and the open file."""

    def __init__(
        self, datapipe: Any, mode: str = "r", encoding: str | None = None, length: int = -1
    ) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            fail(
                ValueError,
                "open_files",
                "a mode to read in was required",
                mode,
                hint="'r' reads text, 'b' bytes",
            )
        self.datapipe, self.encoding, self.length = datapipe, encoding, length
        self.mode = mode if mode.startswith("r") else f"r{mode}"

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path in self.datapipe:
            yield path, open(path, self.mode, encoding=self.encoding)  # noqa: SIM115 - the reader closes

    def __len__(self) -> int:
        if self.length == -1:
            fail(
                TypeError,
                "open_files",
                "FileOpener instance doesn't have valid length",
                hint="pass length=n, or count with sum(1 for _ in pipe)",
            )
        return self.length


@functional_datapipe("read_from_stream")
class StreamReader(IterDataPipe):
    """Pairs of a path and the bytes of its file, `chunk` at a time."""

    def __init__(self, datapipe: IterDataPipe, chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, stream in self.datapipe:
            with stream:
                while data := stream.read(self.chunk) if self.chunk else stream.read():
                    yield path, data


__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "FileLister",
    "FileOpener",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "StreamReader",
    "UnBatcher",
    "Zipper",
]
