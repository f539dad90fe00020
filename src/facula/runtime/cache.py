"""The disk cache for what is costly to make and cheap to keep: compiled kernels, tuning results.

Takes a key and a function that makes a file; gives the file's path.  Keeps true: a file is there
whole or not at all (it is made under another name, then renamed); of several processes that want
one key, one works and the others wait; the cache stays below its limit by giving up what was used
longest ago.
"""

import contextlib
import fcntl
import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from facula.core import config
from facula.core.errors import fail

__all__ = ["cached_file", "clear", "directory", "find", "size", "trim", "write_atomically"]

LIMIT_BYTES = 1 << 30
_made = itertools.count()


def directory() -> Path:
    """The cache's folder: `FACULA_CACHE_DIR`, or facula's part of the user's cache folder."""
    named = config.get("cache_dir")
    if named:
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "facula"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "facula"


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(
            RuntimeError,
            "cache",
            "the cache folder must be writable",
            got=f"{folder} ({error.strerror})",
            hint="set FACULA_CACHE_DIR to a folder that you may write to",
        )


@contextlib.contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Gives a temporary path in the same folder; renames it to `path` when the block ends well."""
    _make_folder(path.parent)
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{path.stem[:40]}-", suffix=path.suffix, dir=path.parent
        )
    except OSError as error:
        fail(
            RuntimeError,
            "cache",
            "the cache folder must be writable",
            got=f"{path.parent} ({error.strerror})",
            hint="set FACULA_CACHE_DIR to a folder that you may write to",
        )
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """An advisory lock that the system drops when its holder dies, whatever way it dies."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def find(kind: str, key: str, suffix: str) -> Path | None:
    """The file of `kind` under `key`, None where there is none."""
    path = _place(kind, key, suffix)
    return path if path.exists() else None


def _place(kind: str, key: str, suffix: str) -> Path:
    return directory() / kind / key[:2] / (key[2:] + suffix)


def cached_file(kind: str, key: str, suffix: str, make: Callable[[Path], None]) -> Path:
    """The file of `kind` under `key`; `make(path)` writes it where it is not there yet."""
    path = _place(kind, key, suffix)
    folder = path.parent
    if path.exists():
        return path
    _make_folder(folder)
    with _locked(folder / "lock"):
        if not path.exists():
            with write_atomically(path) as temporary:
                make(temporary)
            _trim_sometimes()
    return path


def _trim_sometimes() -> None:
    """Keep the limit: at a process's first new file and at every 64th, since looking costs a little."""
    if next(_made) % 64 == 0:
        trim()


def _files() -> list[tuple[float, int, Path]]:
    """Last use, size and path of every cached file."""
    found = []
    for path in directory().glob("*/??/*"):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            if path.name != "lock":
                found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
    return found


def size() -> int:
    """The cache's size in bytes."""
    return sum(size for _, size, _ in _files())


def trim(limit: int = LIMIT_BYTES) -> int:
    """Deletes what was used longest ago until at most `limit` bytes are left; returns the bytes
    freed.

    A library that a process has mapped stays usable there: deleting takes its name away, not its
    pages.
    """
    files = sorted(_files())
    excess = sum(size for _, size, _ in files) - limit
    freed = 0
    for _, bytes_held, path in files:
        if freed >= excess:
            break
        path.unlink(missing_ok=True)
        freed += bytes_held
    return freed


def clear() -> int:
    """Empties the cache; returns the bytes freed."""
    return trim(0)
