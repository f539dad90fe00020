"""Reading samples of a dataset and making a batch of them.

Takes a dataset and a list of indices (or one index).  Gives what the collate function makes of the
samples.
Keeps true: an iterable dataset gives as many samples as there are indices, and StopIteration at its
end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class DatasetKind:
    """The two kinds of datasets."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: object, auto_collation: bool, collate_fn: Callable, drop_last: bool
    ) -> Any:
        """A reader for a dataset of this kind."""
        return create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last)


class _MapDatasetFetcher:
    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, index: Any) -> Any:
        """The batch of a list of indices, or the one sample of an index."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[index])
        if getattr(self.dataset, "__getitems__", None):
            return self.collate_fn(self.dataset.__getitems__(index))
        return self.collate_fn([self.dataset[i] for i in index])


class _IterableDatasetFetcher(_MapDatasetFetcher):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.dataset_iter = iter(self.dataset)
        self.ended = False

    def fetch(self, index: Any) -> Any:
        """The next batch, or the next sample."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        data: list[Any] = []
        try:
            for _ in index:  # not by islice: it would ask the iterator for its iterator once more
                data.append(next(self.dataset_iter))
        except StopIteration:
            self.ended = True
        if len(data) == 0 or (self.drop_last and self.ended):
            raise StopIteration
        return self.collate_fn(data)


def create_fetcher(
    kind: int, dataset: object, auto_collation: bool, collate_fn: Callable, drop_last: bool
) -> Any:
    """A reader for a dataset of this kind."""
    cls = _MapDatasetFetcher if kind == DatasetKind.Map else _IterableDatasetFetcher
    return cls(dataset, auto_collation, collate_fn, drop_last)
