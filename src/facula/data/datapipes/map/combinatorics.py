"""`Shuffler`: the items of an indexed pipe in random order.

Takes a pipe. Gives a pipe that is iterated over. Keeps true: the order follows from the seed alone,
and is PyTorch's for the same seed; a pickled pipe goes on in it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Self

from facula.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from facula.data.datapipes.utils.common import drawn_seed, length_of

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(IterDataPipe):
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
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()
        self._shuffled_indices: list[Any] = self.indices

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Whether the order is random."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """The seed of the next order."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            for index in self.indices:
                yield self.datapipe[index]
            return
        while self._shuffled_indices:
            yield self.datapipe[self._shuffled_indices.pop()]

    def reset(self) -> None:
        if self._enabled:
            self._rng.seed(drawn_seed() if self._seed is None else self._seed)
            self._seed = None
            self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __len__(self) -> int:
        return length_of(self, self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
