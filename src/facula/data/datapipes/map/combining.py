"""Steps that make one pipe of several.

Takes pipes; gives a pipe. Keeps true: an index outside is an IndexError, so that loops end.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import MapDataPipe
from facula.data.datapipes.utils.common import check_pipes

__all__ = ["ConcaterMapDataPipe", "ZipperMapDataPipe"]


def _some_pipes(op: str, pipes: tuple[Any, ...]) -> None:
    check_pipes(op, pipes, MapDataPipe, "SequenceWrapper(values)")


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe):
    """The items of several pipes, one after another (functional name: ``concat``).

    Args:
        datapipes: the pipes, whose indices are 0, 1, 2 ...

    Example:
        >>> from facula.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper([1]).concat(SequenceWrapper([2, 3]))[2]
        3
    """

    def __init__(self, *datapipes: MapDataPipe) -> None:
        _some_pipes("concat", datapipes)
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
class ZipperMapDataPipe(MapDataPipe):
    """Tuples of the items of several pipes at the same index (functional name: ``zip``).

    Args:
        datapipes: the pipes

    Example:
        >>> from facula.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper([1, 2]).zip(SequenceWrapper("ab"))[1]
        (2, 'b')
    """

    def __init__(self, *datapipes: MapDataPipe) -> None:
        _some_pipes("zip", datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        items = []
        for pipe in self.datapipes:
            try:
                items.append(pipe[index])
            except IndexError as error:
                raise IndexError(
                    f"Index {index} is out of range for one of the input MapDataPipes {pipe}."
                ) from error
        return tuple(items)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)
