"""Where storages lie, in words that files keep, and the order of bytes of files that do not say it.

Takes storages, and functions that programs register. Gives the word for a storage's place, and a storage in the
place that a word names.
Keeps true: the functions that were registered are asked in the order of their priorities, before facula itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum
from typing import IO, Any, TypeAlias

from facula import core
from facula.core.errors import fail
from facula.serialization import storages

__all__ = [
    "DEFAULT_PROTOCOL",
    "FILE_LIKE",
    "LoadEndianness",
    "MAP_LOCATION",
    "default_restore_location",
    "get_default_load_endianness",
    "location_tag",
    "register_package",
    "set_default_load_endianness",
]


#: what `save` and `load` take for a file, and `load` for the place of storages
FILE_LIKE: TypeAlias = str | os.PathLike[str] | IO[bytes]
MAP_LOCATION: TypeAlias = (
    Callable[[core.UntypedStorage, str], core.UntypedStorage]
    | core.device
    | str
    | dict[str, str]
    | None
)
#: the version of pickles in files
DEFAULT_PROTOCOL = 2


class LoadEndianness(Enum):
    """The order of bytes of a checkpoint."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_ORDER: list[LoadEndianness | None] = [None]
_PACKAGES: list[tuple[int, Callable[[Any], str | None], Callable[[Any, str], Any]]] = []


def get_default_load_endianness() -> LoadEndianness | None:
    """The order of bytes that `load` takes for files that do not say theirs; None is this machine's."""
    return _ORDER[0]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Say the order of bytes of files without a record of it, as PyTorch wrote them before 2.1."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        fail(
            TypeError,
            "set_default_load_endianness",
            "a LoadEndianness or None was required (Invalid argument type in function "
            "set_default_load_endianness)",
            type(endianness).__name__,
            hint="facula.serialization.LoadEndianness.BIG",
        )
    _ORDER[0] = endianness


def unsaid_order() -> bytes:
    """The order of bytes of a file that does not say it, as a file would."""
    return b"big" if _ORDER[0] is LoadEndianness.BIG else b"little"


def register_package(
    priority: int,
    tagger: Callable[[Any], str | None],
    deserializer: Callable[[Any, str], Any],
) -> None:
    """Have files keep, and `load` understand, words of your own for where storages lie.

    Args:
        priority: smaller ones are asked first
        tagger: gives the word for a storage, or None where it has none
        deserializer: gives a storage for one on the CPU and a word, or None where the word is another's
    """
    _PACKAGES.append((priority, tagger, deserializer))
    _PACKAGES.sort(key=lambda entry: entry[0])


def normalize_storage_type(storage_type: type) -> type:
    """The class of storages of the root package that a class of a device stands for: itself."""
    return storage_type


def location_tag(storage: core.UntypedStorage) -> str:
    """The word that a file has for where a storage lies: `"cpu"`."""
    for _, tagger, _ in _PACKAGES:
        found = tagger(storage)
        if found:
            return found
    return str(storage.device)


def _what_is_missing(location: str) -> str:
    """Why a storage cannot go where a file says, in the words that programs look for."""
    kind = location.partition(":")[0]
    if kind in ("cuda", "xpu", "mps"):
        return (
            f"Attempting to deserialize object on a {kind.upper()} device but torch.{kind}.is_available() is "
            "False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU."
        )
    return f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})"


def default_restore_location(storage: core.UntypedStorage, location: str) -> Any:
    """A storage on the CPU, put where the word of a file says.

    Raises:
        RuntimeError: there is no such device here.
    """
    for _, _, deserializer in _PACKAGES:
        found = deserializer(storage, location)
        if found is not None:
            return found
    if location == "cpu":
        return storage
    try:
        return storages.moved(storage, core.device(location))
    except (RuntimeError, NotImplementedError) as error:
        fail(
            RuntimeError,
            "load",
            "the device that the file names must be there",
            got=f"{location} ({_what_is_missing(location)}; {str(error).splitlines()[0]})",
            hint="pass map_location='cpu'",
        )
