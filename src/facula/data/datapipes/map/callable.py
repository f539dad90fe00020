"""`Mapper`: a function of each item.

Takes a pipe and a function. Gives what the function makes. Keeps true: an item is made when it is
asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import MapDataPipe
from facula.data.datapipes.utils.common import check_function

__all__ = ["MapperMapDataPipe", "default_fn"]


def default_fn(data: object) -> Any:
    """The item itself."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe):
    """A function of each item (functional name: ``map``).

    Args:
        datapipe: the source
        fn: the function

    Example:
        >>> from facula.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper([1, 2]).map(float)[1]
        2.0
    """

    def __init__(self, datapipe: MapDataPipe, fn: Callable[[Any], Any] = default_fn) -> None:
        check_function(fn)
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)
