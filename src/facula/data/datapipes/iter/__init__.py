"""Steps of pipes that are iterated over.

Takes pipes; gives pipes. Steps for files of certain formats, caches, networks and the like are
loaded when they are named (`facula.data.datapipes.further`).
"""

from __future__ import annotations

from typing import Any

from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.further import CLASSES, load
from facula.data.datapipes.iter.callable import CollatorIterDataPipe as Collator
from facula.data.datapipes.iter.callable import MapperIterDataPipe as Mapper
from facula.data.datapipes.iter.combinatorics import SamplerIterDataPipe as Sampler
from facula.data.datapipes.iter.combinatorics import ShufflerIterDataPipe as Shuffler
from facula.data.datapipes.iter.combining import ConcaterIterDataPipe as Concater
from facula.data.datapipes.iter.combining import MultiplexerIterDataPipe as Multiplexer
from facula.data.datapipes.iter.combining import ZipperIterDataPipe as Zipper
from facula.data.datapipes.iter.filelister import FileListerIterDataPipe as FileLister
from facula.data.datapipes.iter.fileopener import FileOpenerIterDataPipe as FileOpener
from facula.data.datapipes.iter.grouping import BatcherIterDataPipe as Batcher
from facula.data.datapipes.iter.grouping import GrouperIterDataPipe as Grouper
from facula.data.datapipes.iter.grouping import UnBatcherIterDataPipe as UnBatcher
from facula.data.datapipes.iter.routeddecoder import RoutedDecoderIterDataPipe as RoutedDecoder
from facula.data.datapipes.iter.selecting import FilterIterDataPipe as Filter
from facula.data.datapipes.iter.sharding import ShardingFilterIterDataPipe as ShardingFilter
from facula.data.datapipes.iter.splitting import DemultiplexerIterDataPipe as Demultiplexer
from facula.data.datapipes.iter.splitting import ForkerIterDataPipe as Forker
from facula.data.datapipes.iter.streamreader import StreamReaderIterDataPipe as StreamReader
from facula.data.datapipes.iter.utils import IterableWrapperIterDataPipe as IterableWrapper

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
    "IterDataPipe",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "RoutedDecoder",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "StreamReader",
    "UnBatcher",
    "Zipper",
]


def __getattr__(name: str) -> Any:
    return load(CLASSES["iter"], __name__, name)


def __dir__() -> list[str]:
    return [*__all__, *CLASSES["iter"]]
