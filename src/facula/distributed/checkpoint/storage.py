"""Folders that hold checkpoints.

Takes: a path. Gives: `FileSystemWriter` and `FileSystemReader`.
Keeps true: a checkpoint is there as a whole, or the one before it is: files have names that no checkpoint had
before, and the table of contents, which names them, is exchanged at last and at once.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterable
from typing import Any

from facula.core.errors import fail
from facula.distributed.checkpoint.planner import Metadata, metadata_of

__all__ = ["FileSystemReader", "FileSystemWriter"]

_CONTENTS = ".metadata"
_SUFFIX = ".distcp"


def _synced_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FileSystemWriter:
    """Writes a checkpoint to a folder."""

    def __init__(
        self, path: str | os.PathLike[str], single_file_per_rank: bool = True, sync_files: bool = True,
        thread_count: int = 1, overwrite: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        """Choose a folder.

        Args:
            overwrite: whether a checkpoint that is there may be replaced.
            sync_files: whether to wait until the disk has the bytes.
            single_file_per_rank, thread_count, options: kept for PyTorch's API.
        """
        self.path = os.fspath(path)
        self.overwrite, self.sync_files = overwrite, sync_files

    def begin(self) -> str:
        """Make the folder; gives a name that no other checkpoint has (asked on one rank)."""
        os.makedirs(self.path, exist_ok=True)
        if not self.overwrite and os.path.exists(os.path.join(self.path, _CONTENTS)):
            fail(RuntimeError, "checkpoint.save", "a folder without a checkpoint was required, where "
                 "overwrite=False", self.path, "choose another checkpoint_id")  # fmt: skip
        return secrets.token_hex(8)

    def write(self, name: str, rank: int, parts: Iterable[Any]) -> list[tuple[str, int, int]]:
        """Write pieces (bytes) behind each other; gives file, start and length of each."""
        file_name = f"__{rank}_{name}{_SUFFIX}"
        path, found, at = os.path.join(self.path, file_name), [], 0
        try:
            with open(path, "xb") as file:
                for part in parts:
                    size = memoryview(part).nbytes
                    file.write(part)
                    found.append((file_name, at, size))
                    at += size
                file.flush()
                if self.sync_files:
                    os.fsync(file.fileno())
        except BaseException:
            if os.path.exists(path):
                os.remove(path)
            raise
        return found

    def finish(self, name: str, contents: dict[str, Any]) -> None:
        """Make it the folder's checkpoint, and forget the one before (asked on one rank)."""
        path = os.path.join(self.path, _CONTENTS)
        with open(f"{path}.{name}", "w") as file:
            json.dump(contents, file)
            file.flush()
            os.fsync(file.fileno())
        _synced_folder(self.path)
        os.replace(f"{path}.{name}", path)
        _synced_folder(self.path)
        for other in os.listdir(self.path):
            ours = other.endswith(f"_{name}{_SUFFIX}")
            stale = other.startswith(_CONTENTS + ".")
            if (other.endswith(_SUFFIX) and other.startswith("__") and not ours) or stale:
                os.remove(os.path.join(self.path, other))

    def give_up(self, name: str, rank: int) -> None:
        """Take back what this rank wrote."""
        path = os.path.join(self.path, f"__{rank}_{name}{_SUFFIX}")
        if os.path.exists(path):
            os.remove(path)


class FileSystemReader:
    """Reads a checkpoint from a folder."""

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self.path = os.fspath(path)

    def contents(self) -> dict[str, Any]:
        """The table of contents."""
        path = os.path.join(self.path, _CONTENTS)
        try:
            with open(path) as file:
                return json.load(file)
        except FileNotFoundError:
            return fail(RuntimeError, "checkpoint.load", "a folder with a whole checkpoint was required",
                        self.path, "distributed.checkpoint.save() writes one")  # fmt: skip

    def read_metadata(self) -> Metadata:
        """What the checkpoint holds, entry by entry: dtypes, shapes, pieces."""
        return metadata_of(self.contents())

    def read(self, place: list[Any]) -> bytes:
        """A piece."""
        name, start, size = place
        if os.path.basename(name) != name or not (
            type(start) is type(size) is int and start >= 0 <= size
        ):
            fail(RuntimeError, "checkpoint.load", "files in the checkpoint's folder, and places in them, were "
                 "required", place, "the table of contents was changed")  # fmt: skip
        # without O_NONBLOCK, a pipe in place of the file would be waited for
        descriptor = os.open(
            os.path.join(self.path, name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        )
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                fail(RuntimeError, "checkpoint.load", "a regular file was required", name,
                     "the folder was changed")  # fmt: skip
            file.seek(start)
            data = file.read(min(size, found.st_size))
        if len(data) != size:
            fail(RuntimeError, "checkpoint.load", f"{size} bytes of {name} were required", len(data),
                 "the file was cut off: load another checkpoint")  # fmt: skip
        return data
