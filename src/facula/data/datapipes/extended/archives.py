"""Steps that open archives and compressed files.

Takes pairs of a path and a binary stream. Gives pairs of a path and a binary stream, for archives one
for each file in it, under the archive's path. Keeps true: a member's path never leads out of the
archive's; links are passed over; a broken archive is an error that names it and the member.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os.path
import posixpath
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

from facula.core.errors import fail, said
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.utils.common import (
    NamedStream,
    StreamWrapper,
    no_length,
    pairs,
    validate_pathname_binary_tuple,
)
from facula.serialization.archive import check_entry, length_of

#: what the readers of formats raise for broken files
BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    LookupError,
    ArithmeticError,
    struct.error,
    TypeError,  # tarfile, of a compressed stream that ends in its head
    MemoryError,
)


def member_path(archive: str, name: str, op: str) -> str:
    """The path of a member below that of its archive.

    Raises:
        ValueError: the name leads out of it.
    """
    if not name:
        fail(
            ValueError,
            op,
            f"members with names were required in the archive {archive}",
            "one without",
            hint="the archive may be damaged",
        )
    parts = name.replace("\\", "/").split("/")
    drive = re.match(r"[A-Za-z]:", name)
    if name.startswith(("/", "\\")) or drive or ".." in parts or "\0" in name:
        fail(
            ValueError,
            op,
            f"members inside of the archive {archive} were required, and this one leads out of it",
            name,
            hint="do not use archives from those who write such names",
        )
    return os.path.join(archive, posixpath.normpath("/".join(parts)))


def _broken(op: str, path: str, what: str, error: BaseException) -> None:
    if isinstance(error, MemoryError):
        hint = (
            "read(size) takes it piece by piece: a small archive can stand for any number of bytes"
        )
        fail(MemoryError, op, f"memory for {what} was required in {path}", said(error), hint)
    fail(
        RuntimeError,
        op,
        f"{what} was required in {path}",
        said(error),
        hint="the file may be incomplete, or of another format: check_hash() compares it with its sum",
    )


def _streams(op: str, source: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for data in source:
        validate_pathname_binary_tuple(data, op)
        yield data


def _wrapped(stream: StreamWrapper) -> StreamWrapper:
    return stream if isinstance(stream, StreamWrapper) else StreamWrapper(stream)


class _Member(NamedStream):
    """The stream of a member: errors of the format name archive and member."""

    def failed(self, error: Exception) -> None:
        if isinstance(error, BROKEN):
            _broken(self.op, self.path, "a whole member", error)


class _ArchiveIterDataPipe(IterDataPipe):
    """What the readers of archives have in common."""

    op: str
    what: str

    def __init__(self, datapipe: Iterable[tuple[str, Any]], length: int = -1) -> None:
        self.datapipe, self.length = datapipe, length

    def _members(self, path: str, stream: Any) -> Iterator[tuple[str, Any]]:
        """Names and streams of the members."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for path, stream in _streams(self.op, self.datapipe):
            wrapper = _wrapped(stream)
            members = self._members(path, wrapper)
            while True:
                try:
                    name, member = next(members)
                except StopIteration:
                    break
                except BROKEN as error:
                    _broken(self.op, path, self.what, error)
                inner = member_path(path, name, self.op)
                yield inner, StreamWrapper(_Member(member, self.op, inner), wrapper, name=inner)
            wrapper.autoclose()

    def __len__(self) -> int:
        return no_length(self) if self.length == -1 else self.length


class TarArchiveLoaderIterDataPipe(_ArchiveIterDataPipe):
    """The files in tar archives, compressed or not (functional name: ``load_from_tar``).

    `mode` "r:*" finds the compression out; "r|*" reads streams that cannot go back, whose members
    have to be read one after another.
    """

    op, what = "load_from_tar", "a tar archive"

    def __init__(
        self, datapipe: Iterable[tuple[str, Any]], mode: str = "r:*", length: int = -1
    ) -> None:
        super().__init__(datapipe, length)
        if not mode.startswith("r"):
            fail(
                ValueError,
                self.op,
                "a mode to read in was required",
                mode,
                hint="'r:*' finds the compression out, 'r|*' does so for streams",
            )
        self.mode = mode

    def _members(self, path: str, stream: StreamWrapper) -> Iterator[tuple[str, Any]]:
        inner = stream.file_obj
        seekable = getattr(inner, "seekable", lambda: False)()
        mode = self.mode if seekable else self.mode.replace(":", "|")
        archive = tarfile.open(fileobj=inner, mode=mode)  # type: ignore[call-overload] # noqa: SIM115
        # of a compressed one it is not known how long it is
        length = length_of(inner) if archive.fileobj is inner and seekable else None
        for info in archive:
            if info.isfile():
                if info.size < 0:
                    raise tarfile.ReadError(f"{info.name!r} says that it has {info.size} bytes")
                if length is not None and info.offset_data + info.size > length:
                    raise tarfile.ReadError(f"{info.name!r} goes beyond the end of the file")
                member = archive.extractfile(info)
                if member is not None:
                    yield info.name, member


class ZipArchiveLoaderIterDataPipe(_ArchiveIterDataPipe):
    """The files in zip archives (functional name: ``load_from_zip``)."""

    op, what = "load_from_zip", "a zip archive"

    def _members(self, path: str, stream: StreamWrapper) -> Iterator[tuple[str, Any]]:
        inner = stream.file_obj
        if not getattr(inner, "seekable", lambda: False)():
            inner = io.BytesIO(inner.read())  # the list of members stands at the end
        archive = zipfile.ZipFile(inner)
        length = length_of(inner)
        for info in archive.infolist():
            # the upper half holds the kind of the file where a system of POSIX wrote it
            if not info.is_dir() and not stat.S_ISLNK(info.external_attr >> 16):
                check_entry(info, length)
                yield info.filename, archive.open(info)


class CompressionType(Enum):
    """Formats of compressed files."""

    GZIP = "gzip"
    LZMA = "lzma"
    BZIP2 = "bz2"


_BY_NAME = {
    ".gz": CompressionType.GZIP,
    ".gzip": CompressionType.GZIP,
    ".xz": CompressionType.LZMA,
    ".lzma": CompressionType.LZMA,
    ".bz2": CompressionType.BZIP2,
}
_OPEN: dict[CompressionType, Callable[[Any], Any]] = {
    CompressionType.GZIP: lambda stream: gzip.GzipFile(fileobj=stream, mode="rb"),
    CompressionType.LZMA: lambda stream: lzma.LZMAFile(stream, mode="rb"),
    CompressionType.BZIP2: lambda stream: bz2.BZ2File(stream, mode="rb"),
}


class DecompressorIterDataPipe(IterDataPipe):
    """Compressed files as they were before (functional names: ``decompress``, ``extract``).

    `file_type` is "gzip", "lzma" or "bz2"; None: the end of the name says which.
    """

    types = CompressionType
    op = "decompress"

    def __init__(self, source_datapipe: IterDataPipe, file_type: Any = None) -> None:
        self.source_datapipe = source_datapipe
        if isinstance(file_type, str):
            known = {kind.value: kind for kind in CompressionType}
            if file_type.lower() not in known:
                fail(
                    ValueError,
                    self.op,
                    f"{file_type} is not a valid CompressionType: one of {sorted(known)} was required",
                    hint="leave file_type out: names say what the files are",
                )
            file_type = known[file_type.lower()]
        self.file_type = file_type

    def _kind(self, path: str) -> CompressionType:
        ending = os.path.splitext(path)[1].lower()
        kind = self.file_type or _BY_NAME.get(ending)
        if kind is None:
            fail(
                ValueError,
                self.op,
                f"a name that ends in one of {sorted(_BY_NAME)} was required",
                path,
                hint="pass file_type",
            )
        return kind

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for path, stream in _streams(self.op, self.source_datapipe):
            wrapper = _wrapped(stream)
            opened = _OPEN[self._kind(path)](wrapper.file_obj)
            member = _Member(opened, self.op, path)
            yield path, StreamWrapper(member, wrapper, name=path)
            wrapper.autoclose()


class Bz2FileLoaderIterDataPipe(DecompressorIterDataPipe):
    """Files of bzip2 as they were before (functional name: ``load_from_bz2``)."""

    op = "load_from_bz2"

    def __init__(self, datapipe: IterDataPipe, length: int = -1) -> None:
        super().__init__(datapipe, CompressionType.BZIP2)
        self.length = length

    def __len__(self) -> int:
        return no_length(self) if self.length == -1 else self.length


class XzFileLoaderIterDataPipe(Bz2FileLoaderIterDataPipe):
    """Files of xz as they were before (functional name: ``load_from_xz``)."""

    op = "load_from_xz"

    def __init__(self, datapipe: IterDataPipe, length: int = -1) -> None:
        super().__init__(datapipe, length)
        self.file_type = CompressionType.LZMA


class WebDatasetIterDataPipe(IterDataPipe):
    """Files whose names differ only in their ends, as one dictionary each (functional name:
    ``webdataset``): `a/1.jpg` and `a/1.cls` become `{"__key__": "a/1", ".jpg": ..., ".cls": ...}`.
    """

    def __init__(self, source_datapipe: IterDataPipe) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[dict[str, Any]]:
        sample: dict[str, Any] = {}
        for path, data in pairs("webdataset", self.source_datapipe):
            if not isinstance(path, str):
                hint = "open_files() gives pairs of a path and a stream"
                fail(TypeError, "webdataset", "paths of type str were required", type(path), hint)
            folder, _, name = path.rpartition("/")
            stem, dot, ending = name.partition(".")
            key = f"{folder}/{stem}" if folder else stem
            if sample and sample["__key__"] != key:
                yield sample
                sample = {}
            if dot and stem:
                sample.setdefault("__key__", key)
                if f".{ending}" in sample:
                    hint = "names in an archive differ, in their ends at least"
                    fail(ValueError, "webdataset", "one file of each name was required", path, hint)
                sample[f".{ending}"] = data
        if sample:
            yield sample


def _exactly(stream: Any, count: int) -> bytes:
    """That many bytes, or those up to the end: a damaged file says any number."""
    found = bytearray()
    while len(found) < count and (piece := stream.read(min(count - len(found), 1 << 20))):
        found += piece
    return bytes(found)


class TFRecordLoaderIterDataPipe(IterDataPipe):
    """The records of TFRecord files as bytes, with their sums checked in length (functional name:
    ``load_from_tfrecord``). What is in a record is for a function to say: `map(parse)`.
    """

    def __init__(self, datapipe: IterDataPipe, length: int = -1) -> None:
        self.datapipe, self.length = datapipe, length

    def __iter__(self) -> Iterator[bytes]:
        for path, stream in _streams("load_from_tfrecord", self.datapipe):
            number = 0
            while head := stream.read(12):
                size = struct.unpack("<Q", head[:8])[0] if len(head) == 12 else -1
                body = _exactly(stream, size + 4) if size >= 0 else b""
                if size < 0 or len(body) != size + 4:
                    fail(
                        RuntimeError,
                        "load_from_tfrecord",
                        f"a whole record was required in {path}, at record {number}",
                        f"{len(head) + len(body)} bytes",
                        hint="the file may be incomplete",
                    )
                yield body[:-4]
                number += 1
            stream.close()

    def __len__(self) -> int:
        return no_length(self) if self.length == -1 else self.length
