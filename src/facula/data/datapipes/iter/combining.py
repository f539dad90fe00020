"""Steps that make one pipe of several.

Takes pipes; gives a pipe. Keeps true: nothing is read before it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.utils.common import check_pipes, length_of

__all__ = ["ConcaterIterDataPipe", "MultiplexerIterDataPipe", "ZipperIterDataPipe", "some_pipes"]


def some_pipes(op: str, pipes: tuple[Any, ...]) -> None:
    """Raise where there are no pipes, or others than those that are iterated over."""
    check_pipes(op, pipes, IterDataPipe, "IterableWrapper(values)")


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """The values of several pipes, one after another (functional name: ``concat``).

    Args:
        datapipes: the pipes

    Example:
        >>> from facula.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([1]).concat(IterableWrapper([2, 3])))
        [1, 2, 3]
    """

    def __init__(self, *datapipes: IterDataPipe) -> None:
        some_pipes("concat", datapipes)
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(length_of(self, pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe):
    """Tuples of the values of several pipes, until one ends (functional name: ``zip``).

    Args:
        datapipes: the pipes

    Example:
        >>> from facula.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([1, 2]).zip(IterableWrapper("ab")))
        [(1, 'a'), (2, 'b')]
    """

    def __init__(self, *datapipes: IterDataPipe) -> None:
        some_pipes("zip", datapipes)
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(length_of(self, pipe) for pipe in self.datapipes)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe):
    """One value of each pipe in turn, until one ends (functional name: ``mux``).

    Args:
        datapipes: the pipes

    Example:
        >>> from facula.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([1, 2, 3]).mux(IterableWrapper("ab")))
        [1, 'a', 2, 'b']
    """

    def __init__(self, *datapipes: IterDataPipe) -> None:
        some_pipes("mux", datapipes)
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for values in zip(*self.datapipes, strict=False):
            yield from values

    def __len__(self) -> int:
        return len(self.datapipes) * min(length_of(self, pipe) for pipe in self.datapipes)
