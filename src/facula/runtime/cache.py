"""The disk cache for what is costly to make and cheap to keep: compiled kernels, tuning results.

Takes a key and a function that makes a file; gives what is in the file.  Keeps true: a file is there
whole or not at all (it is made under another name, then renamed); of several processes that want
one key, one works and the others wait; the cache stays below its limit by giving up what was used
longest ago.

Nothing is taken on trust: folders and files must be this user's alone, links are not followed, and
each file ends with a seal of its place and content that takes the user's secret to make. What does
not fit is a miss, and made anew; a folder that others may write to is left alone, with one warning.
"""

import contextlib
import errno
import fcntl
import hmac
import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from typing import NoReturn

from facula.core import config, logs
from facula.core.errors import fail
from facula.runtime import trust

__all__ = [
    "SEAL_BYTES",
    "Entry",
    "cached_file",
    "clear",
    "directory",
    "entry",
    "find",
    "size",
    "trim",
    "write_atomically",
]

LIMIT_BYTES = 1 << 30
#: what stands behind the content of each file: this word, and 32 bytes
_MARK = b"facula 1"
SEAL_BYTES = len(_MARK) + 32
_made = itertools.count()
_opened = itertools.count()
#: folders that were refused
_refused: set[str] = set()
log = logs.get_logger("inductor")


def directory() -> str:
    """The cache's folder: `FACULA_CACHE_DIR`, or facula's part of the user's cache folder.

    Where that is somebody else's, or open to others, it is a private one among the temporary files.
    """
    for path in _roots():
        try:
            os.close(trust.open_folder(path, make=False))
        except trust.Refused as reason:
            _refuse(path, reason)
        except OSError:
            return path
        else:
            return path
    return trust.private_folder()


def _roots() -> Iterator[str]:
    """The folders to try, in order."""
    named = config.get("cache_dir")
    path = os.path.expanduser(named) if named else trust.user_folder()
    if path not in _refused:
        yield path
    yield trust.private_folder()


def _refuse(path: str, reason: Exception) -> None:
    """Leave a folder alone from now on, and say so once."""
    _refused.add(path)
    wanted, why = "of this user's alone", str(reason)
    advice = "chmod 700 the folder, or set FACULA_CACHE_DIR"
    if isinstance(reason, OSError):
        wanted, why = "that this user may write to", f"{path} ({reason.strerror})"
        advice = "set FACULA_CACHE_DIR"
    warnings.warn(
        f"[cache] a folder {wanted} was required: {why}; {trust.private_folder()} is used instead "
        f"({advice})",
        stacklevel=2,
    )


class _Place:
    """Where an entry lies: its open folder, and the names of both; a context that closes the folder."""

    def __init__(self, root: str, kind: str, key: str, suffix: str, *, make: bool) -> None:
        self.label = f"{kind}/{key}{suffix}".encode()
        self.name = key[2:] + suffix
        self.root = root
        self.path = os.path.join(root, kind, key[:2], self.name)
        at = trust.open_folder(root, make=make)
        try:
            for part in (kind, key[:2]):
                inner = trust.open_folder(part, at, make=make)
                os.close(at)
                at = inner
            if make and not os.access(".", os.W_OK | os.X_OK, dir_fd=at, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self.path)
        except BaseException:
            os.close(at)
            raise
        self.folder = at

    def __enter__(self) -> "_Place":
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self.folder)


def _place(kind: str, key: str, suffix: str, *, make: bool) -> _Place:
    """The place of an entry in the first folder that is this user's alone, and writable where it is made.

    Raises FileNotFoundError where there is none and none was to be made, RuntimeError for a folder
    that can not be had.
    """
    for root in _roots():
        try:
            return _Place(root, kind, key, suffix, make=make)
        except trust.Refused as reason:
            _refuse(root, reason)
        except OSError as error:
            if not make:
                raise
            if config.get("cache_dir") or root == trust.private_folder():
                _unwritable(root, error)
            _refuse(root, error)  # nobody named this one: a user without a home has none
    raise FileNotFoundError(kind)


def _unwritable(folder: str, error: OSError) -> NoReturn:
    fail(
        RuntimeError,
        "cache",
        "the cache folder must be writable",
        got=f"{folder} ({error.strerror})",
        hint="set FACULA_CACHE_DIR to a folder that you may write to",
    )


class Entry:
    """A file of the cache that was opened and found sound."""

    __slots__ = ("_descriptor", "content", "path")

    def __init__(self, path: str, descriptor: int, content: memoryview) -> None:
        self.path, self._descriptor = path, descriptor
        #: what was kept, without the seal
        self.content = content

    def loadable(self) -> str:
        """A path of the open file itself, for `dlopen`: no other file can take its place meanwhile.

        Each path is another text, since libraries that are loaded are known by it, and descriptors are
        used again.
        """
        if not os.path.exists(f"/proc/self/fd/{self._descriptor}"):
            return self.path
        number = next(_opened)
        unique = "".join("./" if number >> bit & 1 else "//" for bit in range(20))
        return f"/proc/self/fd/{unique}{self._descriptor}"

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    __del__ = close


def _secret(root: str) -> bytes:
    return trust.secret(root)


def _read(place: _Place) -> Entry | None:
    """The entry of a place, None where there is none that is sound."""
    try:
        descriptor = trust.open_file(place.name, place.folder)
    except FileNotFoundError:
        return None
    except (trust.Refused, OSError) as reason:
        _discard(place, str(reason))
        return None
    try:
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            whole = memoryview(file.read())
    except OSError as error:
        os.close(descriptor)
        _discard(place, str(error))
        return None
    content, mark = whole[:-SEAL_BYTES], whole[-SEAL_BYTES:]
    wanted = _MARK + trust.seal(_secret(place.root), place.label, content)
    if not hmac.compare_digest(bytes(mark), wanted):
        os.close(descriptor)
        _discard(place, "its seal is not this user's")
        return None
    return Entry(place.path, descriptor, content)


def _discard(place: _Place, why: str) -> None:
    """Take a name away from what is not sound."""
    log.warning("%s is not used (%s), and made anew", place.path, why)
    try:
        os.unlink(place.name, dir_fd=place.folder)
    except FileNotFoundError:
        return
    except OSError:  # a folder, say
        with contextlib.suppress(OSError):
            aside = f".refused-{os.urandom(6).hex()}"
            os.rename(place.name, aside, src_dir_fd=place.folder, dst_dir_fd=place.folder)


def _sealed(place: _Place, temporary: str) -> Entry:
    """Close a file that was made to others, and put the seal behind its content."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(os.path.basename(temporary), flags, dir_fd=place.folder)
    try:
        with open(descriptor, "r+b", buffering=0, closefd=False) as file:
            os.fchmod(descriptor, 0o600)
            content = memoryview(file.read())
            file.write(_MARK + trust.seal(_secret(place.root), place.label, content))
        # opened again for reading only, so that nothing keeps it from being loaded
        reading = trust.open_file(os.path.basename(temporary), place.folder)
    finally:
        os.close(descriptor)
    return Entry(place.path, reading, content)


@contextlib.contextmanager
def write_atomically(path: str) -> Iterator[str]:
    """Gives a temporary path in the same folder; renames it to `path` when the block ends well."""
    folder, name = os.path.split(path)
    stem, suffix = os.path.splitext(name)
    temporary = os.path.join(folder, f".{stem[:40]}-{os.urandom(6).hex()}{suffix}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        _unwritable(folder, error)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


@contextlib.contextmanager
def _locked(place: _Place) -> Iterator[None]:
    """An advisory lock that the system drops when its holder dies, whatever way it dies."""
    flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open("lock", flags, 0o600, dir_fd=place.folder)
    except OSError as error:
        _unwritable(os.path.dirname(place.path), error)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def find(kind: str, key: str, suffix: str) -> Entry | None:
    """The entry of `kind` under `key`, None where there is none that is sound."""
    try:
        with _place(kind, key, suffix, make=False) as place:
            return _read(place)
    except OSError:
        return None


def entry(kind: str, key: str, suffix: str, make: Callable[[str], None]) -> Entry:
    """The entry of `kind` under `key`; `make(path)` writes it where it is not there yet."""
    kept = find(kind, key, suffix)  # a folder that may only be read serves what it has
    if kept is not None:
        return kept
    with _place(kind, key, suffix, make=True) as place:
        with _locked(place):
            found = _read(place)
            if found is None:
                with write_atomically(place.path) as temporary:
                    make(temporary)
                    found = _sealed(place, temporary)
                _trim_sometimes()
            return found


def cached_file(kind: str, key: str, suffix: str, make: Callable[[str], None]) -> str:
    """The path of `entry`, whose content ends with a seal of `SEAL_BYTES`."""
    found = entry(kind, key, suffix, make)
    found.close()
    return found.path


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
                status = os.stat(path, follow_symlinks=False)
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
