"""`Shuffler`: the items of an indexed pipe in random order.

Takes a pipe. Gives a pipe that is iterated over. Keeps true: the order follows from the seed alone,
and is PyTorch's for the same seed; a pickled pipe goes on in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from facula.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from facula.data.datapipes.utils.common import length_of
from facula.data.datapipes.utils.orders import SeededOrder

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(SeededOrder, IterDataPipe):
    """The items of an indexed pipe in random order (functional name: ``shuffle``).

    Args:
        datapipe: the source
        indices: its indices; by default 0, 1, 2 ...

    Example:
        >>> from facula.data.datapipes.map import SequenceWrapper
        >>> sorted(SequenceWrapper("cab").shuffle())
        ['a', 'b', 'c']
    """

    def __init__(self, datapipe: MapDataPipe, *, indices: list[Any] | None = None) -> None:
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        self._begin_order()
        self._shuffled_indices: list[Any] = self.indices

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            for index in self.indices:
                yield self.datapipe[index]
            return
        while self._shuffled_indices:
            yield self.datapipe[self._shuffled_indices.pop()]

    def reset(self) -> None:
        super().reset()
        if self._enabled:
            self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __len__(self) -> int:
        return length_of(self, self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
