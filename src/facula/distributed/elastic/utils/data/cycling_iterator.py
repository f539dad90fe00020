"""`CyclingIterator`: several epochs as one iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

__all__ = ["CyclingIterator"]


class CyclingIterator(Iterator[T], Generic[T]):
    """The elements of epoch after epoch.

    Args:
        n: how many epochs there are
        generator_fn: gives an iterator over the elements of an epoch
        start_epoch: the first epoch
    """

    def __init__(
        self, n: int, generator_fn: Callable[[int], Iterator[T]], start_epoch: int = 0
    ) -> None:
        self._n, self._epoch, self._generator_fn = n, start_epoch, generator_fn
        self._iter = generator_fn(start_epoch)

    def __iter__(self) -> CyclingIterator[T]:
        return self

    def __next__(self) -> T:
        while True:
            try:
                return next(self._iter)
            except StopIteration:
                if self._epoch >= self._n - 1:
                    raise
            self._epoch += 1
            self._iter = self._generator_fn(self._epoch)
