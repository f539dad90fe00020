"""Files that are written whole or not at all, and files that are opened with a clear word about
what they are.

Takes paths and open streams; gives binary streams.  Keeps true: a file at a path holds either the
old content or the whole new one, also after a crash or a full disk; what a caller opened is never
closed here.
"""

import contextlib
import errno
import io
import mmap
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO

from facula.core.errors import fail, message

__all__ = ["map_file", "opened_for_reading", "written_atomically"]


def is_path(file: object) -> bool:
    return isinstance(file, (str, os.PathLike))


def _synchronise(folder: str) -> None:
    """Makes a rename in a folder last; some file systems do not know how."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def _mode_for(path: str) -> int:
    """The permissions of the file that is replaced, or those of any new file."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _no_room(error: OSError, target: str) -> OSError:
    """The system's error, with what became of the file."""
    kept = "the old file is unchanged" if os.path.exists(target) else "no file was written"
    text = message(
        "save",
        f"room for the whole file {target}",
        got=f"{error.strerror} ({kept})",
        hint="free some space, or save to another file system",
    )
    return OSError(error.errno, text, target)


def _check_target(folder: str, target: str) -> None:
    if not os.path.isdir(folder):
        fail(
            RuntimeError,
            "save",
            "the parent folder must exist",
            got=f"{folder} does not exist",
            hint=f"os.makedirs({folder!r}) makes it",
        )
    if os.path.isdir(target):
        fail(
            IsADirectoryError,
            "save",
            "the path must name a file",
            got=f"the folder {target}",
            hint="add a file's name to the path",
        )


@contextlib.contextmanager
def written_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A stream whose content stands at `path` when the block ends well, and nowhere when it does
    not.

    A path that is not a regular file (a pipe, a device) is written directly.  Raises RuntimeError
    where the folder is missing, and OSError as the system gives it.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    _check_target(folder, target)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as stream:
            yield stream
        return
    mode = _mode_for(target)
    handle, temporary = tempfile.mkstemp(prefix=f".{name[:64]}.", suffix=".tmp", dir=folder)
    try:
        with open(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise _no_room(error, target) from error
        raise
    _synchronise(folder)


@contextlib.contextmanager
def opened_for_reading(file: Any, operation: str) -> Iterator[BinaryIO]:
    """A stream that can seek, from a path or from a stream, which stays open."""
    if is_path(file):
        with open(file, "rb") as stream:
            yield stream
        return
    if not hasattr(file, "read"):
        fail(
            AttributeError,
            operation,
            "a path or a binary file object is required",
            got=f"{type(file).__name__} (You can only torch.load from a file that is seekable)",
            hint="open(path, 'rb') gives a file object",
        )
    if hasattr(file, "readinto") and hasattr(file, "seek") and _seekable(file):
        yield file
    else:
        yield io.BytesIO(file.read())


def _seekable(file: object) -> bool:
    seekable = getattr(file, "seekable", None)
    return bool(seekable()) if seekable is not None else True


def map_file(stream: BinaryIO, *, shared: bool = False) -> mmap.mmap:
    """The whole file as memory; writing to it changes the file only if `shared`."""
    access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
    return mmap.mmap(stream.fileno(), 0, access=access)
