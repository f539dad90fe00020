"""Records of a checkpoint archive, one by one.

Takes: the path of a file that `save` wrote, or a stream. Gives: PyTorch's `PyTorchFileReader`, with which
libraries read single tensors of a large file.
Keeps true: only the records that are asked for are read, and their checksums are compared.
"""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from facula import core
from facula.serialization.archive import ArchiveReader

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader:
    """An open archive of `save`: its records by name.

    Args:
        name_or_buffer: a path, or a file opened for reading bytes

    Example:
        >>> facula.save(facula.ones(1), "one.pt")
        >>> reader = facula.PyTorchFileReader("one.pt")
        >>> reader.has_record("data.pkl")
        True
    """

    def __init__(self, name_or_buffer: str | os.PathLike[str] | BinaryIO) -> None:
        given: Any = name_or_buffer
        opened = isinstance(given, (str, os.PathLike))
        self._stream = open(given, "rb") if opened else given
        try:
            self._archive = ArchiveReader(self._stream)
        except BaseException:
            if opened:
                self._stream.close()
            raise
        self._opened = opened

    def __del__(self) -> None:
        if getattr(self, "_opened", False):
            self._stream.close()

    def get_all_records(self) -> list[str]:
        """The names of the records."""
        return list(self._archive.names())

    def has_record(self, name: str) -> bool:
        """Whether there is a record of this name."""
        return name in self._archive

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        return bytes(self._archive.read(name))

    def get_record_offset(self, name: str) -> int:
        """Where in the file a record begins."""
        return self._archive.place(name)[0]

    def get_storage_from_record(self, name: str, numel: int, dtype: core.dtype) -> Any:
        """A tensor over the elements of a record; bytes where `dtype` is the class of storages."""
        kind = dtype if isinstance(dtype, core.dtype) else core.uint8
        data = self._archive.read(name)[: numel * kind.itemsize]
        made = core.empty((len(data),), dtype=core.uint8, device=core.device("cpu"))
        core.bytes_of(made.untyped_storage())[:] = data
        return made.view(kind)

    def serialization_id(self) -> str:
        """What tells this file's content from others, where the writer noted it."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""
