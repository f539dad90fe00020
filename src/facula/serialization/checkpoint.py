"""`save` and `load`: PyTorch's checkpoint files.

Takes any nesting of tensors, parameters, optimizer states and plain Python values, and a path or a
binary stream. Keeps true: PyTorch reads what `save` writes and `load` reads what PyTorch writes;
storages shared before are shared after; loading makes data and never runs code; a file at a path is
whole or the old one.
"""

import contextlib
import io
import mmap as memory_map
import os
from collections.abc import Callable
from typing import Any, BinaryIO

from facula import core
from facula.core.errors import fail
from facula.serialization import options, storages
from facula.serialization.archive import ArchiveReader, ArchiveWriter
from facula.serialization.files import (
    is_path,
    map_file,
    opened_for_reading,
    written_atomically,
)
from facula.serialization.legacy import read_legacy, write_legacy
from facula.serialization.locations import default_restore_location, unsaid_order
from facula.serialization.pickle_writer import CheckpointPickler
from facula.serialization.rebuild import StorageType, find, referenced
from facula.serialization.unpickle import DataUnpickler

__all__ = ["MapLocation", "load", "save"]

MapLocation = str | Any | dict[str, str] | Callable[[Any, str], Any] | None

_KNOWN_HEADS = (
    (
        b"version https://git-lfs",
        "a Git LFS pointer",
        "run `git lfs pull` to fetch the file itself",
    ),
    (b"<", "an HTML or XML page", "the download gave a page instead of the file"),
    (b"\x89HDF", "an HDF5 file", "convert it with the library that wrote it"),
    (b"\x93NUMPY", "a NumPy array", "read it with numpy.load"),
    (b"\x1f\x8b", "a gzip file", "unpack it first"),
)


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Writes an object to a file, in PyTorch's format.

    The object is put into one piece before anything is written; at a path, the file appears under
    its name only when it is whole.

    Args:
        obj: tensors, parameters, and Python's containers of them
        f: a path, or a file opened for writing bytes
        pickle_module: kept as in PyTorch
        pickle_protocol: 2 or more

    Example:
        >>> facula.save({"w": facula.ones(2)}, "weights.pt")
        >>> facula.load("weights.pt")
        {'w': tensor([1., 1.])}
    """
    if not is_path(f) and not hasattr(f, "write"):
        fail(
            AttributeError,
            "save",
            "a path or a binary file object is required",
            got=f"{type(f).__name__} (expected 'f' to be string, path, or a file-like object with a 'write' attribute)",
            hint="open(path, 'wb') gives a file object",
        )
    if not _use_new_zipfile_serialization:
        with written_atomically(f) if is_path(f) else contextlib.nullcontext(f) as stream:
            write_legacy(stream, obj, pickle_protocol)
        return
    body = io.BytesIO()
    pickler = CheckpointPickler(body, pickle_protocol)
    pickler.dump(obj)
    if is_path(f):
        name = os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"
        with written_atomically(f) as stream:
            _write(stream, name, body, pickler.storages, not _disable_byteorder_record)
    else:
        _write(f, "archive", body, pickler.storages, not _disable_byteorder_record)


def _write(
    stream: BinaryIO, prefix: str, body: io.BytesIO, found: dict[str, Any], order: bool
) -> None:
    archive = ArchiveWriter(stream, prefix)
    with body.getbuffer() as content:
        archive.add("data.pkl", content)
    archive.add(".format_version", b"1")
    archive.add(".storage_alignment", b"64")
    if order:
        archive.add("byteorder", b"little")
    for key, storage in found.items():
        empty = options.skips_data() and storage.nbytes()
        room = memory_map.mmap(-1, storage.nbytes()) if empty else None
        archive.add(f"data/{key}", storages.contents(storage) if room is None else room)
    archive.add("version", b"3\n")
    archive.close()


def _check_load_arguments(
    f: Any, pickle_module: Any, weights_only: bool | None, mmap: Any, others: dict[str, Any]
) -> None:
    if others:
        fail(
            TypeError,
            "load",
            "encoding is the only pickle argument",
            got=", ".join(others),
            hint="leave the others out",
        )
    if mmap and not is_path(f):
        fail(
            ValueError,
            "load",
            "mmap=True needs a path",
            got=f"{type(f).__name__} (f must be a file path in order to use the mmap argument)",
            hint="pass the path of the file, or mmap=False",
        )
    if weights_only and pickle_module is not None:
        fail(
            RuntimeError,
            "load",
            "no pickle module beside weights_only=True",
            got=f"{getattr(pickle_module, '__name__', pickle_module)} (Can not safely load weights when explicit "
            "pickle_module is specified)",
            hint="leave pickle_module out: it changes nothing, since loading never runs code",
        )


def load(
    f: Any,
    map_location: MapLocation = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads an object that `save` or ``torch.save`` wrote; no code of the file is run.

    Args:
        f: a path, or a file opened for reading bytes
        map_location: where tensors go: a device, a dictionary of devices, or a function of
            (storage, location)
        pickle_module: kept as in PyTorch
        weights_only: changes nothing: only plain data is ever read
        mmap: whether the file is mapped, and read as it is used

    Raises:
        UnpicklingError: the file refers to something that is no plain data.

    Example:
        >>> facula.save([facula.ones(2)], "list.pt")
        >>> facula.load("list.pt", map_location="cpu")
        [tensor([1., 1.])]
    """
    encoding = pickle_load_args.pop("encoding", "utf-8")
    if options.skips_data():
        fail(
            RuntimeError,
            "load",
            "a call outside of the block was required: `torch.load` called within a "
            "torch.serialization.skip_data context manager is not supported",
            "a call inside of skip_data()",
            hint="load after the block",
        )
    _check_load_arguments(f, pickle_module, weights_only, mmap, pickle_load_args)
    place = placer(map_location)
    with opened_for_reading(f, "load") as stream:
        start = stream.tell()
        head = stream.read(512)
        stream.seek(start)
        if head[:4] == b"PK\x03\x04":
            mapping = _mapped(f, stream) if mmap else None
            return _read_archive(_from_here(stream, start), mapping, place, encoding)
        if mmap:
            fail(
                RuntimeError,
                "load",
                "mmap=True needs the format since PyTorch 1.6",
                got="another (mmap can only be used with files saved with "
                "`torch.save(_use_new_zipfile_serialization=True)`)",
                hint="facula.save(facula.load(path), path) writes the present format",
            )
        _check_head(head)
        return read_legacy(stream, place, encoding)


def _mapped(path: Any, stream: BinaryIO) -> memory_map.mmap:
    """The file as memory: private, or where that was set its own pages."""
    if not options.maps_shared():
        return map_file(stream)
    with open(path, "r+b") as writable:
        return map_file(writable, shared=True)


def _from_here(stream: BinaryIO, start: int) -> BinaryIO:
    """An archive inside a larger stream becomes a stream of its own."""
    return stream if start == 0 else io.BytesIO(stream.read())


def _check_head(head: bytes) -> None:
    for known, what, hint in _KNOWN_HEADS:
        if head.startswith(known):
            fail(RuntimeError, "load", "a checkpoint was required", got=what, hint=hint)
    if head[257:262] == b"ustar":
        fail(
            RuntimeError,
            "load",
            "a checkpoint of PyTorch 0.1.11 or later was required",
            got="a tar file",
            hint="load it with PyTorch and save it again, or unpack it",
        )
    if len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        fail(
            RuntimeError,
            "load",
            "a checkpoint was required",
            got="a safetensors file",
            hint="read it with facula.serialization.safetensors.load_file",
        )


class StorageReader:
    """Reads the object of an archive, and each storage the first time that it is named."""

    def __init__(
        self,
        archive: ArchiveReader,
        place: Callable[[Any, str], Any],
        swapped: bool,
        folder: str = "data",
    ) -> None:
        self.archive, self.place, self.swapped, self.folder = archive, place, swapped, folder
        self.found: dict[str, Any] = {}

    def persistent(self, identity: Any) -> Any:
        if not isinstance(identity, tuple) or len(identity) < 5 or identity[0] != "storage":
            raise ValueError("a persistent id names a storage")
        _, kind, key, location, count = identity[:5]
        if not isinstance(kind, StorageType) or type(count) is not int or not isinstance(key, str):
            raise TypeError("a storage is named by its type, key, location and count")
        if key not in self.found:
            self.found[key] = self._fetch(kind, key, str(location), count * kind.itemsize)
        return referenced(self.found[key], kind)

    def _fetch(self, kind: StorageType, key: str, location: str, nbytes: int) -> Any:
        name = f"{self.folder}/{key}"
        size = self.archive.place(name)[1]
        if size != nbytes:
            raise ValueError(f"the storage {key} has {size} bytes in the file, not {nbytes}")
        if self.archive.mapping is not None and not self.swapped:
            return self.place(storages.from_buffer(self.archive.mapped(name)), location)
        made = storages.allocate(nbytes)
        self.archive.read_into(name, storages.contents(made))
        if self.swapped:
            _swap_bytes(storages.contents(made), kind)
        return self.place(made, location)


def _swap_bytes(data: memoryview, kind: StorageType) -> None:
    """Turns the bytes of a big-endian file around, in place."""
    import numpy

    width = (
        kind.itemsize // 2 if kind.dtype is not None and kind.dtype.is_complex else kind.itemsize
    )
    numpy.frombuffer(data, f"u{width}").byteswap(inplace=True)


def _read_archive(
    stream: BinaryIO,
    mapping: memory_map.mmap | None,
    place: Callable[[Any, str], Any],
    encoding: str,
) -> Any:
    archive = ArchiveReader(stream, mapping)
    order = bytes(archive.read("byteorder")) if "byteorder" in archive else unsaid_order()
    if order not in (b"little", b"big"):
        fail(
            RuntimeError,
            "load",
            "the byte order must be little or big",
            got=repr(order),
            hint="the file is damaged: write it again",
        )
    reader = StorageReader(archive, place, order == b"big")
    value = DataUnpickler(archive.read("data.pkl"), find, reader.persistent, encoding=encoding)
    return value.load()


# ------------------------------------------------------------------ devices


def placer(map_location: MapLocation) -> Callable[[Any, str], Any]:
    """A function that puts a CPU storage where `map_location` wants it."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(
            storage, map_location.get(location, location)
        )
    if isinstance(map_location, (str, core.device)):
        wanted = str(map_location)
        return lambda storage, location: default_restore_location(storage, wanted)
    if callable(map_location):
        return lambda storage, location: _first(map_location(storage, location), storage, location)
    fail(
        TypeError,
        "load",
        "map_location must be a device, a dict or a function",
        got=type(map_location).__name__,
        hint="map_location='cpu' loads everything on the cpu",
    )


def _first(chosen: Any, storage: Any, location: str) -> Any:
    return chosen if chosen is not None else default_restore_location(storage, location)
