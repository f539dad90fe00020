"""The records of a package: of an archive, or of a folder into which one was unpacked.

Takes a path or a stream. Gives records by name.
Keeps true: nothing is run; names that lead out of the package are an error when it is opened; no length
in a file is believed before the bytes are there, and checksums are compared.
"""

from __future__ import annotations

import io
import os
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from facula.core.errors import fail
from facula.serialization.archive import ArchiveReader
from facula.serialization.files import is_path

__all__ = ["PackageArchive", "PackageFolder", "opened"]

#: the record that says that an archive is a package, or a checkpoint of one
_VERSIONS = (".data/version", "version")


class PackageArchive(ArchiveReader):
    """An archive whose records all lie in one folder."""

    def _find_prefix(self) -> str:
        tops = {name.partition("/")[0] for name in self.records}
        prefix = tops.pop() if len(tops) == 1 else ""
        names = [name.partition("/")[2] for name in self.records]
        if not prefix or not any(v in names for v in _VERSIONS):
            fail(
                RuntimeError,
                "PackageImporter",
                "a package was required: one folder with a record .data/version",
                f"{len(self.records)} records in {len(tops) + bool(prefix)} folders",
                hint="facula.load reads checkpoints, facula.jit.load programs",
            )
        _check_names((prefix, *names))
        return prefix

    def has_record(self, name: str) -> bool:
        """Whether there is a record of this name."""
        return name in self

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        return bytes(self.read(name))

    def get_all_records(self) -> list[str]:
        """The names of the records."""
        return list(self.names())


class PackageFolder:
    """A package that was unpacked into a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.realpath(folder)

    def _path(self, name: str) -> str:
        path = os.path.realpath(os.path.join(self.folder, name))
        if not path.startswith(self.folder + os.sep):
            _outside(name)
        return path

    def has_record(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return os.path.isfile(self._path(name))

    def get_record(self, name: str) -> bytes:
        """The bytes of a file."""
        return Path(self._path(name)).read_bytes()

    def get_all_records(self) -> list[str]:
        """The names of the files."""
        root = Path(self.folder)
        return sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())


def _outside(name: str) -> None:
    fail(
        RuntimeError,
        "PackageImporter",
        "names of records inside of the package were required",
        repr(name),
        hint="the file is damaged, or was made to write elsewhere: do not use it",
    )


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        parts = name.split("/")
        if ".." in parts or "" in parts or "." in parts or "\\" in name or "\0" in name:
            _outside(name)


def opened(file: Any) -> tuple[PackageArchive | PackageFolder, str]:
    """The records of a package, and what it is called."""
    if is_path(file):
        path = os.fspath(file)
        if os.path.isdir(path):
            return PackageFolder(path), path
        opened_here = open(path, "rb")  # noqa: SIM115 - read from as long as the archive lives
        try:
            archive = PackageArchive(opened_here)
        except BaseException:
            opened_here.close()
            raise
        # closed with the archive, also where that goes in a cycle
        weakref.finalize(archive, opened_here.close)
        return archive, path
    if not hasattr(file, "read"):
        fail(
            ValueError,
            "PackageImporter",
            "a path or a binary file object was required",
            type(file).__name__,
            hint="open(path, 'rb') gives a file object",
        )
    stream: BinaryIO = file if hasattr(file, "readinto") else io.BytesIO(file.read())
    return PackageArchive(stream), "<binary>"
