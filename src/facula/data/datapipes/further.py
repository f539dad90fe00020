"""Steps that are loaded when they are named: formats of files, caches, networks, threads.

Takes names. Gives the classes of steps. Keeps true: none of their modules, and none of the libraries
that they need, is imported before a program names one.
"""

from __future__ import annotations

import importlib
from typing import Any

from facula.core.errors import fail, no_attribute
from facula.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["CLASSES", "extra", "load"]

_PACKAGE = "facula.data.datapipes.extended"

#: module -> the steps in it, each a class and its name as a method ("-": none)
_ITER = {
    "archives": (
        "Bz2FileLoader load_from_bz2 Decompressor decompress TFRecordLoader load_from_tfrecord "
        "TarArchiveLoader load_from_tar WebDataset webdataset XzFileLoader load_from_xz "
        "ZipArchiveLoader load_from_zip"
    ),
    "buckets": (
        "BucketBatcher bucketbatch InBatchShuffler in_batch_shuffle "
        "MaxTokenBucketizer max_token_bucketize"
    ),
    "caching": (
        "EndOnDiskCacheHolder end_caching HashChecker check_hash "
        "InMemoryCacheHolder in_memory_cache OnDiskCacheHolder on_disk_cache Saver save_to_disk"
    ),
    "columns": "ParquetDataFrameLoader load_parquet_as_df",
    "flow": (
        "BatchMapper map_batches Cycler cycle Dropper drop Enumerator enumerate FlatMapper flatmap "
        "Flattener flatten Header header IndexAdder add_index LengthSetter set_length "
        "Repeater repeat Rows2Columnar rows2columnar ShuffledFlatMapper shuffled_flatmap "
        "Slicer slice"
    ),
    "joining": (
        "IterKeyZipper zip_with_iter MapKeyZipper zip_with_map MultiplexerLongest mux_longest "
        "RandomSplitter random_split RoundRobinDemultiplexer round_robin_demux "
        "SampleMultiplexer - UnZipper unzip ZipperLongest zip_longest"
    ),
    "remote": (
        "FSSpecFileLister list_files_by_fsspec FSSpecFileOpener open_files_by_fsspec "
        "FSSpecSaver save_by_fsspec HttpReader read_from_http OnlineReader read_from_remote "
        "S3FileLister list_files_by_s3 S3FileLoader load_files_by_s3"
    ),
    "text": (
        "CSVDictParser parse_csv_as_dict CSVParser parse_csv JsonParser parse_json_files "
        "LineReader readlines ParagraphAggregator lines_to_paragraphs"
    ),
    "threads": (
        "BatchAsyncMapper async_map_batches FullSync fullsync PinMemory pin_memory "
        "Prefetcher prefetch ThreadPoolMapper threadpool_map"
    ),
}
_MAP = {
    "caching": "InMemoryCacheHolder in_memory_cache",
    "joining": "UnZipper unzip",
}

#: libraries that steps need -> what installs them
_EXTRAS = {
    "PIL": "pillow",
    "aiohttp": "aiohttp",
    "boto3": "boto3",
    "fsspec": "fsspec",
    "iopath": "iopath",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "requests": "requests",
    "s3fs": "s3fs",
}


def _classes(table: dict[str, str], suffix: str) -> dict[str, tuple[str, str]]:
    """Short name of a class -> its module and its whole name."""
    return {
        short: (f"{_PACKAGE}.{module}", f"{short}{suffix}")
        for module, words in table.items()
        for short in words.split()[::2]
    }


def _methods(table: dict[str, str], suffix: str) -> dict[str, tuple[str, str]]:
    """Name of a method -> the module and the name of its class."""
    return {
        method: (f"{_PACKAGE}.{module}", f"{short}{suffix}")
        for module, words in table.items()
        for short, method in zip(words.split()[::2], words.split()[1::2], strict=True)
        if method != "-"
    }


#: kind of pipes -> short name -> module and class
CLASSES = {"iter": _classes(_ITER, "IterDataPipe"), "map": _classes(_MAP, "MapDataPipe")}
_JOINING = f"{_PACKAGE}.joining"
#: from one kind of pipes to the other
CLASSES["map"]["IterToMapConverter"] = (_JOINING, "IterToMapConverterMapDataPipe")
CLASSES["iter"]["MapToIterConverter"] = (_JOINING, "MapToIterConverterIterDataPipe")
IterDataPipe.further.update(
    _methods(_ITER, "IterDataPipe"),
    to_map_datapipe=CLASSES["map"]["IterToMapConverter"],
    extract=CLASSES["iter"]["Decompressor"],
    limit=CLASSES["iter"]["Header"],
)
MapDataPipe.further.update(
    _methods(_MAP, "MapDataPipe"), to_iter_datapipe=CLASSES["iter"]["MapToIterConverter"]
)


def load(classes: dict[str, tuple[str, str]], module: str, name: str) -> Any:
    """The class behind a short name, for a module's `__getattr__`."""
    if name not in classes:
        raise no_attribute(module, name)
    place, cls = classes[name]
    return getattr(importlib.import_module(place), cls)


def extra(module: str, op: str) -> Any:
    """A module of a library that facula does without until a step needs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if error.name == "torch":  # of a package that is made for PyTorch
            required, got = f"{library} with a framework below it was required", "no module 'torch'"
            hint = "facula run program.py puts facula there"
            fail(ModuleNotFoundError, op, required, got, hint)
        if (error.name or "").partition(".")[0] != library:
            raise
        fail(
            ModuleNotFoundError,
            op,
            f"the library {library} was required, which is not installed",
            hint=f"pip install {_EXTRAS.get(library, library)}",
        )
