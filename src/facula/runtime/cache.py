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
from collections.abc import Callable, Iterator

from facula.core import config
from facula.core.errors import fail

__all__ = ["cached_file", "clear", "directory", "find", "size", "trim", "write_atomically"]

LIMIT_BYTES = 1 << 30
_made = itertools.count()


def directory() -> str:
    """The cache's folder: `FACULA_CACHE_DIR`, or facula's part of the user's cache folder."""
    named = config.get("cache_dir")
    if named:
        return os.path.expanduser(named)
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches/facula")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "facula")


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        fail(
            RuntimeError,
            "cache",
            "the cache folder must be writable",
            got=f"{folder} ({error.strerror})",
            hint="set FACULA_CACHE_DIR to a folder that you may write to",
        )


@contextlib.contextmanager
def write_atomically(path: str) -> Iterator[str]:
    """Gives a temporary path in the same folder; renames it to `path` when the block ends well."""
    folder, name = os.path.split(path)
    stem, suffix = os.path.splitext(name)
    _make_folder(folder)
    temporary = os.path.join(folder, f".{stem[:40]}-{os.urandom(6).hex()}{suffix}")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        fail(
            RuntimeError,
            "cache",
            "the cache folder must be writable",
            got=f"{folder} ({error.strerror})",
            hint="set FACULA_CACHE_DIR to a folder that you may write to",
        )
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """An advisory lock that the system drops when its holder dies, whatever way it dies."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def find(kind: str, key: str, suffix: str) -> str | None:
    """The file of `kind` under `key`, None where there is none."""
    path = _place(kind, key, suffix)
    return path if os.path.exists(path) else None


def _place(kind: str, key: str, suffix: str) -> str:
    return os.path.join(directory(), kind, key[:2], key[2:] + suffix)


def cached_file(kind: str, key: str, suffix: str, make: Callable[[str], None]) -> str:
    """The file of `kind` under `key`; `make(path)` writes it where it is not there yet."""
    path = _place(kind, key, suffix)
    folder = os.path.dirname(path)
    if os.path.exists(path):
        return path
    _make_folder(folder)
    with _locked(os.path.join(folder, "lock")):
        if not os.path.exists(path):
            with write_atomically(path) as temporary:
                make(temporary)
            _trim_sometimes()
    return path


def _trim_sometimes() -> None:
    """Keep the limit: at a process's first new file and at every 64th, since looking costs a little."""
    if next(_made) % 64 == 0:
        trim()


def _files() -> list[tuple[float, int, str]]:
    """Last use, size and path of every cached file."""
    found = []
    for folder, _, names in os.walk(directory()):
        if len(os.path.basename(folder)) != 2:  # the start of a key (`_place`)
            continue
        for name in names:
            path = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(path)
                if name != "lock":
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
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        freed += bytes_held
    return freed


def clear() -> int:
    """Empties the cache; returns the bytes freed."""
    return trim(0)
