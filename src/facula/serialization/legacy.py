"""Checkpoints from before PyTorch 1.6: pickles in a row, then the bytes of each storage.

Takes a stream; gives the object, or writes one.  Keeps true: the pickles go through the same reader, writer and
table as every other file; storages are filled only from bytes that are there; a stream that is read stands behind
the checkpoint afterwards, where the next may begin.
"""

import io
import pickle
import struct
from typing import Any, BinaryIO, NoReturn

from facula.core.errors import fail
from facula.serialization import storages
from facula.serialization.pickle_writer import CheckpointPickler
from facula.serialization.rebuild import StorageType, find, referenced
from facula.serialization.unpickle import DataUnpickler

__all__ = ["MAGIC", "PROTOCOL", "read_legacy", "write_legacy"]

#: the number that opens such a file
MAGIC = 0x1950A86A20F9469CFC6C
#: the number of its version
PROTOCOL = 1001
_COUNT = struct.Struct("<q")


def _damaged(got: str) -> NoReturn:
    fail(
        RuntimeError,
        "load",
        "a complete checkpoint in the format before PyTorch 1.6 was required",
        got=got,
        hint="the file is truncated, damaged, or no checkpoint",
    )


class _LegacyReader:
    """Makes storages when the pickle names them, and fills them from what stands behind it."""

    def __init__(self, data: memoryview, encoding: str) -> None:
        self.data, self.encoding = data, encoding
        self.found: dict[str, Any] = {}
        self.kinds: dict[str, StorageType] = {}
        self.counts: dict[str, int] = {}
        self.locations: dict[str, str] = {}
        #: the bytes of all storages that were named: they stand in the file one after the other
        self.named = 0

    def unpickle(self, position: int) -> tuple[Any, int]:
        reader = DataUnpickler(
            self.data, find, self.persistent, encoding=self.encoding, position=position
        )
        return reader.load(), reader.position

    def persistent(self, identity: object) -> Any:
        if not isinstance(identity, tuple) or len(identity) != 6 or identity[0] != "storage":
            raise ValueError(f"a storage was required: got {type(identity).__name__}")
        _, kind, key, location, count, view = identity
        if not isinstance(kind, StorageType) or type(count) is not int or not isinstance(key, str):
            raise TypeError("a storage is named by its type, key, location and count")
        nbytes = 0 if key in self.found else count * kind.itemsize
        # the pickle is read twice: what it named before takes no more bytes
        if count < 0 or nbytes > len(self.data) - self.named:
            raise ValueError(f"a storage of {count} elements is not in a file of this size")
        self.named += nbytes
        if view is not None:
            return self._view(kind, key, location, count, view)
        return self._whole(kind, key, location, count)

    def _whole(self, kind: StorageType, key: str, location: str, count: int) -> Any:
        if key not in self.found:
            self.found[key] = storages.allocate(count * kind.itemsize)
            self.kinds[key] = kind
            self.counts[key], self.locations[key] = count, str(location)
        return referenced(self.found[key], self.kinds[key])

    def _view(self, kind: StorageType, key: str, location: str, count: int, view: Any) -> Any:
        """A storage that was a window of another, as PyTorch had them before 0.4."""
        _, offset, size = view
        whole = self._whole(kind, key, location, count)
        if not 0 <= offset <= offset + size <= count:
            raise ValueError("a window of a storage must lie inside it")
        begin = offset * kind.itemsize
        part = storages.contents(whole)[begin : begin + size * kind.itemsize]
        return referenced(storages.from_buffer(part), kind)

    def fill(self, keys: object, position: int) -> int:
        """Reads the storages, in the order of `keys`; gives the place behind them."""
        if not isinstance(keys, list) or set(keys) != set(self.found):
            _damaged("a list of storages that is not that of the pickle")
        for key in keys:
            count, width = self.counts[key], self.kinds[key].itemsize
            if position + 8 > len(self.data) or _COUNT.unpack_from(self.data, position)[0] != count:
                _damaged(f"no {count} elements for the storage {key} at byte {position}")
            position += 8
            end = position + count * width
            if end > len(self.data):
                _damaged(f"the end of the file inside the storage {key}")
            storages.contents(self.found[key])[:] = self.data[position:end]
            position = end
        return position


def read_legacy(stream: BinaryIO, place: Any, encoding: str) -> Any:
    """The object of a stream-format checkpoint; `place` puts a storage on its device."""
    begin = stream.tell()
    data = memoryview(stream.read())
    if not data:
        fail(
            EOFError,
            "load",
            "a checkpoint was required",
            got="an empty file",
            hint="the file was cut off, or never written: save it again",
        )
    reader = _LegacyReader(data, encoding)
    magic, position = reader.unpickle(0)
    if magic != MAGIC:
        _damaged("a pickle that does not begin with the format's number")
    protocol, position = reader.unpickle(position)
    if protocol != PROTOCOL:
        _damaged(f"protocol {protocol}")
    system, position = reader.unpickle(position)
    if not isinstance(system, dict) or not system.get("little_endian", True):
        _damaged("a file from a big-endian machine")
    # the storages come behind the pickle: a first reading names them, a second makes the tensors
    first = position
    _, position = reader.unpickle(first)
    keys, position = reader.unpickle(position)
    stream.seek(begin + reader.fill(keys, position))
    for key, made in reader.found.items():
        reader.found[key] = place(made, reader.locations[key])
    value, _ = reader.unpickle(first)
    return value


class _LegacyPickler(CheckpointPickler):
    """Names storages as the older files do: with the number of elements, of one dtype for each storage."""

    def __init__(self, stream: BinaryIO, protocol: int) -> None:
        super().__init__(stream, protocol)
        self.widths: dict[str, int] = {}

    def _reference(self, storage: Any, dtype: Any) -> tuple:
        kind, name, key, location, count = super()._reference(storage, dtype)
        width = storage.nbytes() // count if count else 1
        if self.widths.setdefault(key, width) != width:
            fail(
                RuntimeError,
                "save",
                "one dtype for each storage was required",
                got="Cannot save multiple tensors or storages that view the same data as different types",
                hint="clone() one of them, or save in the present format",
            )
        return kind, name, key, location, count, None


def write_legacy(stream: BinaryIO, obj: object, protocol: int) -> None:
    """Writes an object as PyTorch did before 1.6."""
    body = io.BytesIO()
    pickler = _LegacyPickler(body, protocol)
    pickler.dump(obj)
    system = {
        "protocol_version": PROTOCOL,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for opening in (MAGIC, PROTOCOL, system):
        stream.write(pickle.dumps(opening, protocol=protocol))
    with body.getbuffer() as content:
        stream.write(content)
    keys = sorted(pickler.storages)
    stream.write(pickle.dumps(keys, protocol=protocol))
    for key in keys:
        storage = pickler.storages[key]
        stream.write(_COUNT.pack(storage.nbytes() // pickler.widths[key]))
        stream.write(storages.contents(storage))
