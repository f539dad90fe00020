"""Steps that put values of like size into batches.

Takes pipes; gives pipes of batches. Keeps true: what waits stays within the sizes that are given, and
nothing is left out that the step does not say.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes.datapipe import DataChunk, IterDataPipe
from facula.data.datapipes.extended.flow import at_least
from facula.data.datapipes.utils.common import check_function, length_of
from facula.data.datapipes.utils.orders import SeededOrder


class InBatchShufflerIterDataPipe(SeededOrder, IterDataPipe):
    """Batches whose values are in random order (functional name: ``in_batch_shuffle``)."""

    def __init__(self, datapipe: IterDataPipe) -> None:
        self.datapipe = datapipe
        self._begin_order()

    def __iter__(self) -> Iterator[Any]:
        for batch in self.datapipe:
            yield DataChunk(self._rng.sample(batch, len(batch))) if self._enabled else batch

    def __len__(self) -> int:
        return length_of(self, self.datapipe)


class BucketBatcherIterDataPipe(SeededOrder, IterDataPipe):
    """Batches out of sorted buckets (functional name: ``bucketbatch``).

    A bucket holds `batch_num` batches of values; `sort_key` sorts it (a function of a list), so
    that a batch has values of like size. With `use_in_batch_shuffle` values are shuffled before.
    `bucket_num` buckets are filled together, and shuffled where that is on.
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        batch_size: int,
        drop_last: bool = False,
        batch_num: int = 100,
        bucket_num: int = 1,
        sort_key: Callable[[list[Any]], list[Any]] | None = None,
        use_in_batch_shuffle: bool = True,
    ) -> None:
        for name, value in (
            ("batch_size", batch_size),
            ("batch_num", batch_num),
            ("bucket_num", bucket_num),
        ):
            if value <= 0:
                fail(
                    AssertionError,
                    "bucketbatch",
                    f"{name} is required to be larger than 0!",
                    value,
                    hint=f"{name}=1 is the smallest",
                )
        if sort_key is not None:
            check_function(sort_key)
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.batch_num, self.bucket_num, self.sort_key = batch_num, bucket_num, sort_key
        self.use_in_batch_shuffle = use_in_batch_shuffle
        self._begin_order()

    def reset(self) -> None:
        """Begin a pass; without shuffling in batches no seed is drawn."""
        if self.use_in_batch_shuffle:
            super().reset()

    def __iter__(self) -> Iterator[Any]:
        values = iter(self.datapipe)
        size = self.batch_size * self.batch_num
        shuffles = self._enabled and self.use_in_batch_shuffle
        while pool := list(islice(values, size * self.bucket_num)):
            if shuffles:
                self._rng.shuffle(pool)
            batches = []
            for begin in range(0, len(pool), size):
                bucket = pool[begin : begin + size]
                bucket = bucket if self.sort_key is None else list(self.sort_key(bucket))
                batches += [
                    bucket[i : i + self.batch_size] for i in range(0, len(bucket), self.batch_size)
                ]
            if shuffles:
                self._rng.shuffle(batches)
            for batch in batches:
                if len(batch) == self.batch_size or not self.drop_last:
                    yield DataChunk(batch)


def _length(value: Any) -> int:
    return len(value)


class MaxTokenBucketizerIterDataPipe(IterDataPipe):
    """Batches whose values are together no longer than `max_token_count` (functional name:
    ``max_token_bucketize``).

    Args:
        datapipe: the source
        max_token_count: how long a batch may be
        len_fn: the length of a value
        min_len: values that are shorter are left out
        max_len: values that are longer are left out; None: those longer than `max_token_count`
        buffer_size: how many values wait, the shortest of which comes next
        include_padding: whether a value counts as long as the longest of its batch
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        max_token_count: int,
        len_fn: Callable[[Any], int] = _length,
        min_len: int = 0,
        max_len: int | None = None,
        buffer_size: int = 1000,
        include_padding: bool = False,
    ) -> None:
        longest = max_token_count if max_len is None else max_len
        if max_len is None and min_len > max_token_count or longest < min_len or min_len < 0:
            self._refuse(
                "min_len should be larger than 0 and equal to or smaller than max_len", min_len
            )
        if longest > max_token_count:
            self._refuse(
                "max_token_count must be equal to or greater than max_len", max_token_count
            )
        at_least("max_token_bucketize", "buffer_size", buffer_size, 1)
        check_function(len_fn)
        self.datapipe, self.max_token_count, self.len_fn = datapipe, max_token_count, len_fn
        self.min_len, self.max_len, self.buffer_size = min_len, longest, buffer_size
        self.include_padding = include_padding

    @staticmethod
    def _refuse(what: str, got: int) -> None:
        fail(
            ValueError,
            "max_token_bucketize",
            what,
            got,
            hint="0 <= min_len <= max_len <= max_token_count",
        )

    def __iter__(self) -> Iterator[Any]:
        waiting: list[tuple[int, int, Any]] = []
        batch: list[Any] = []
        tokens = longest = 0
        for length, value in self._shortest_first(waiting):
            most = max(longest, length)
            cost = most * (len(batch) + 1) if self.include_padding else tokens + length
            if batch and cost > self.max_token_count:
                yield DataChunk(batch)
                batch, tokens, most = [], 0, length
            batch.append(value)
            tokens, longest = tokens + length, most
        if batch:
            yield DataChunk(batch)

    def _shortest_first(self, waiting: list[tuple[int, int, Any]]) -> Iterator[tuple[int, Any]]:
        """Values with their lengths, each the shortest of those that wait."""
        for number, value in enumerate(self.datapipe):
            length = self.len_fn(value)
            if not self.min_len <= length <= self.max_len:
                continue
            heapq.heappush(waiting, (length, number, value))
            if len(waiting) > self.buffer_size:
                length, _, value = heapq.heappop(waiting)
                yield length, value
        while waiting:
            length, _, value = heapq.heappop(waiting)
            yield length, value
