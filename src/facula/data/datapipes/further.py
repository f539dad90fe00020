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
_ITER: dict[str, str] = {}
_MAP: dict[str, str] = {}

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
IterDataPipe.further.update(_methods(_ITER, "IterDataPipe"))
MapDataPipe.further.update(_methods(_MAP, "MapDataPipe"))


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
        if (error.name or "").partition(".")[0] != library:
            raise
        fail(
            ModuleNotFoundError,
            op,
            f"the library {library} was required, which is not installed",
            hint=f"pip install {_EXTRAS.get(library, library)}",
        )
