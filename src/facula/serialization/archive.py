"""The container of a checkpoint: a ZIP file with uncompressed, aligned records.

Takes named records and writes them, or a file and finds them.  Keeps true: records begin at
multiples of 64 bytes, so that a mapped file can be used in place; every record read into memory is
compared with its checksum; a record whose place or length does not lie inside the file is an error
before anything is allocated.
"""

import io
import mmap
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from facula.core.errors import fail

__all__ = ["ArchiveReader", "ArchiveWriter", "check_entry", "length_of", "read_entry"]

ALIGNMENT = 64
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_END64_LOCATOR = struct.Struct("<4sIQI")
_END = struct.Struct("<4sHHHHIIH")
_UTF8 = 0x800
_FIRST_DAY = 0x21  # 1980-01-01: the same content gives the same file
_LIMIT = 0xFFFFFFFF
_CHUNK = 1 << 24
#: no method packs tighter than this many bytes into one: bzip2, of zeros
_TIGHTEST = 1 << 16


def _extra64(*numbers: int) -> bytes:
    return struct.pack(f"<HH{len(numbers)}Q", 1, 8 * len(numbers), *numbers)


class ArchiveWriter:
    """Writes records one after the other to a binary stream, and the directory when it is
    closed.
    """

    def __init__(self, stream: BinaryIO, prefix: str) -> None:
        self.stream, self.prefix, self.position = stream, prefix, 0
        self.entries: list[tuple[bytes, int, int, int]] = []

    def _write(self, data: Any) -> None:
        self.stream.write(data)
        self.position += len(data)

    def add(self, name: str, data: Any) -> None:
        """Writes one record; `data` is anything with a buffer."""
        view = memoryview(data).cast("B")
        encoded = f"{self.prefix}/{name}".encode()
        start, size, checksum = self.position, len(view), zlib.crc32(view)
        extra = _extra64(size, size) if size >= _LIMIT else b""
        # an extra field of our own ("FB") fills up to the alignment
        filled = start + _LOCAL.size + len(encoded) + len(extra) + 4
        padding = -filled % ALIGNMENT
        extra += struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        shown = min(size, _LIMIT)
        version = 45 if size >= _LIMIT else 20
        self._write(
            _LOCAL.pack(
                b"PK\x03\x04",
                version,
                _UTF8,
                0,
                0,
                _FIRST_DAY,
                checksum,
                shown,
                shown,
                len(encoded),
                len(extra),
            )
            + encoded
            + extra
        )
        self._write(view)
        self.entries.append((encoded, start, size, checksum))

    def close(self) -> None:
        """Writes the directory."""
        start = self.position
        for name, offset, size, checksum in self.entries:
            large = [number for number in (size, size, offset) if number >= _LIMIT]
            extra = _extra64(*large) if large else b""
            shown, at = min(size, _LIMIT), min(offset, _LIMIT)
            version = 45 if large else 20
            sizes = (checksum, shown, shown, len(name), len(extra), 0, 0, 0, 0, at)
            head = (b"PK\x01\x02", version, version, _UTF8, 0, 0, _FIRST_DAY)
            self._write(_CENTRAL.pack(*head, *sizes) + name + extra)
        self._end(start, self.position - start, len(self.entries))

    def _end(self, start: int, size: int, count: int) -> None:
        if start >= _LIMIT or size >= _LIMIT or count >= 0xFFFF:
            at = self.position
            self._write(_END64.pack(b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, start))
            self._write(_END64_LOCATOR.pack(b"PK\x06\x07", 0, at, 1))
        few = min(count, 0xFFFF)
        self._write(
            _END.pack(b"PK\x05\x06", 0, 0, few, few, min(size, _LIMIT), min(start, _LIMIT), 0)
        )


def length_of(stream: Any) -> int:
    """How many bytes a stream has that can seek; its position stays."""
    position = stream.tell()
    length = stream.seek(0, io.SEEK_END)
    stream.seek(position)
    return length


def check_entry(entry: zipfile.ZipInfo, length: int) -> None:
    """Raises BadZipFile for an entry that says of itself more than a file of `length` bytes can hold.

    What is read of an entry is allocated by the sizes that it states.
    """
    packed, size, begin = entry.compress_size, entry.file_size, entry.header_offset
    stored = entry.compress_type == zipfile.ZIP_STORED
    if begin < 0 or begin + _LOCAL.size + packed > length:
        raise zipfile.BadZipFile(f"{entry.filename!r} goes beyond the end of the file")
    if size != packed if stored else size > packed * _TIGHTEST:
        raise zipfile.BadZipFile(
            f"{entry.filename!r} of {packed} bytes in the file cannot be {size} bytes long"
        )


def read_entry(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo | str, length: int, packed: bool = False
) -> bytes:
    """The bytes of an entry of a file of `length` bytes, which is stored as it is, or `packed`.

    Raises:
        zipfile.BadZipFile: it is not, or the file does not hold what the entry says.
        KeyError: there is none of this name.
    """
    if isinstance(entry, str):
        entry = archive.getinfo(entry)
    if entry.flag_bits & 1 or (entry.compress_type != zipfile.ZIP_STORED and not packed):
        raise zipfile.BadZipFile(f"{entry.filename!r} is compressed or encrypted")
    check_entry(entry, length)
    pieces = []
    with archive.open(entry) as member:
        while piece := member.read(_CHUNK):
            pieces.append(piece)
    return b"".join(pieces)


def _damaged(got: str) -> NoReturn:
    fail(
        RuntimeError,
        "load",
        "a complete checkpoint archive was required (PytorchStreamReader failed reading zip archive)",
        got=got,
        hint="the file is truncated or damaged; fetch or save it again",
    )


class ArchiveReader:
    """Finds and reads records of an archive.

    `stream` must be able to seek; `mapping` is the same file mapped into memory, or None; `program`
    says that a TorchScript program is wanted.
    """

    def __init__(
        self, stream: BinaryIO, mapping: mmap.mmap | None = None, *, program: bool = False
    ) -> None:
        self.stream, self.mapping, self.program = stream, mapping, program
        self.length = stream.seek(0, io.SEEK_END)
        try:
            directory = zipfile.ZipFile(stream).infolist()
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            ValueError,
            struct.error,
            OSError,
        ) as error:
            _damaged(str(error))
        except (UnicodeDecodeError, EOFError, IndexError) as error:
            _damaged(f"a directory that cannot be read ({error})")
        if sum(entry.compress_size for entry in directory) > self.length:
            _damaged("records that lie over each other, or beyond the end of the file")
        self.records = {entry.filename: entry for entry in directory}
        if len(self.records) != len(directory):
            _damaged("two records of one name")
        self.prefix = self._find_prefix()

    def _find_prefix(self) -> str:
        tails = {name.partition("/")[2]: name.partition("/")[0] for name in self.records}
        if "constants.pkl" in tails and not self.program:
            fail(
                RuntimeError,
                "load",
                "a checkpoint of tensors and plain data was required",
                got="a TorchScript program",
                hint="read it with jit.load()",
            )
        prefix = tails.get("data.pkl")
        if prefix is None:
            _damaged("an archive without data.pkl")
        return prefix

    def __contains__(self, name: str) -> bool:
        return f"{self.prefix}/{name}" in self.records

    def names(self) -> Iterator[str]:
        """The records' names without the archive's own."""
        for name in self.records:
            yield name.partition("/")[2]

    def place(self, name: str) -> tuple[int, int, int]:
        """Where a record's bytes begin, how many they are, and their checksum."""
        entry = self.records.get(f"{self.prefix}/{name}")
        if entry is None:
            _damaged(f"no record {name}")
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            _damaged(f"a compressed or encrypted record {name}")
        if not 0 <= entry.header_offset <= self.length - _LOCAL.size:
            _damaged(f"a record {name} outside the file")
        self.stream.seek(entry.header_offset)
        header = _LOCAL.unpack(self.stream.read(_LOCAL.size))
        if header[0] != b"PK\x03\x04":
            _damaged(f"no header where the record {name} should begin")
        start = entry.header_offset + _LOCAL.size + header[9] + header[10]
        if entry.compress_size != entry.file_size or start + entry.file_size > self.length:
            _damaged(f"a record {name} that goes beyond the end of the file")
        return start, entry.file_size, entry.CRC

    def read(self, name: str) -> bytearray:
        """The bytes of a record."""
        data = bytearray(self.place(name)[1])
        self.read_into(name, memoryview(data))
        return data

    def read_into(self, name: str, target: memoryview) -> None:
        """Reads a record into memory of its size, and compares the checksum."""
        start, size, expected = self.place(name)
        if len(target) != size:
            _damaged(f"{size} bytes in the record {name} where {len(target)} belong")
        self.stream.seek(start)
        position, checksum = 0, 0
        while position < size:
            piece = target[position : position + _CHUNK]
            count = self.stream.readinto(piece)  # type: ignore[attr-defined]
            if not count:
                _damaged(f"the end of the file inside the record {name}")
            # while the bytes are still in the cache
            checksum = zlib.crc32(piece[:count], checksum)
            position += count
        if checksum != expected:
            _damaged(f"a record {name} whose checksum is wrong")

    def mapped(self, name: str) -> memoryview:
        """A record's bytes inside the mapped file; their checksum is not looked at."""
        start, size, _ = self.place(name)
        assert self.mapping is not None
        return memoryview(self.mapping)[start : start + size]
