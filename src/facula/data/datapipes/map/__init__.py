"""Steps of pipes that are indexed.

Takes pipes with `__getitem__` and `__len__`; gives such pipes.
"""

from __future__ import annotations

from typing import Any

from facula.data.datapipes.datapipe import MapDataPipe
from facula.data.datapipes.further import CLASSES, load
from facula.data.datapipes.map.callable import MapperMapDataPipe as Mapper
from facula.data.datapipes.map.combinatorics import ShufflerIterDataPipe as Shuffler
from facula.data.datapipes.map.combining import ConcaterMapDataPipe as Concater
from facula.data.datapipes.map.combining import ZipperMapDataPipe as Zipper
from facula.data.datapipes.map.grouping import BatcherMapDataPipe as Batcher
from facula.data.datapipes.map.utils import SequenceWrapperMapDataPipe as SequenceWrapper

__all__ = ["Batcher", "Concater", "MapDataPipe", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]


def __getattr__(name: str) -> Any:
    return load(CLASSES["map"], __name__, name)


def __dir__() -> list[str]:
    return [*__all__, *CLASSES["map"]]
