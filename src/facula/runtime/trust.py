"""Which folders and files are this user's alone, and a secret that only this user knows.

Takes paths and open folders. Gives `open_folder` and `open_file`, which refuse what somebody else owns
or may write to; `secret`; `seal`, the mark by which this user knows content again.
Keeps true: what is checked is the open descriptor, never a path that could lead elsewhere a moment
later; no link is followed; the secret stands in a file that only its user may read, whole or not at
all.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import hmac
import os
import stat
import sys
import warnings

__all__ = [
    "Refused",
    "open_file",
    "open_folder",
    "private_folder",
    "seal",
    "secret",
    "user_folder",
]

SECRET_BYTES = 32
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Refused(Exception):
    """A folder or file that is not this user's alone; the text says why."""


def _check(descriptor: int, path: str, forbidden: int) -> os.stat_result:
    """Refuse what another user owns, or what has one of the forbidden permissions."""
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to user {status.st_uid}")
    if status.st_mode & forbidden:
        raise Refused(f"{path} is open to others (mode {stat.S_IMODE(status.st_mode):04o})")
    return status


def open_folder(path: str, inside: int | None = None, *, make: bool = True) -> int:
    """A descriptor of a folder of this user's.

    Args:
        inside: the open folder that `path` is relative to; folders in it are closed to others.
        make: whether to make it where there is none; its parents are made too.

    Raises `Refused`, and OSError as the system gives it.
    """
    try:
        found = os.open(path, _FOLDER, dir_fd=inside)
    except FileNotFoundError:
        if not make:
            raise
        if inside is None:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700, dir_fd=inside)
        found = os.open(path, _FOLDER, dir_fd=inside)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(path, inside):
            raise Refused(f"{path} is a link") from None
        raise
    try:
        status = _check(found, path, _OTHERS_MAY_WRITE)
        if inside is not None and stat.S_IMODE(status.st_mode) != 0o700:
            os.fchmod(found, 0o700)
    except BaseException:
        os.close(found)
        raise
    return found


def _is_link(path: str, inside: int | None) -> bool:
    try:
        status = os.stat(path, dir_fd=inside, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISLNK(status.st_mode)


def open_file(name: str, inside: int, forbidden: int = _OTHERS_MAY_WRITE) -> int:
    """A descriptor for reading a regular file of this user's in an open folder.

    Raises `Refused` (also for links), and OSError as the system gives it.
    """
    try:
        found = os.open(name, _FILE, dir_fd=inside)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Refused(f"{name} is a link") from None
        raise
    try:
        if not stat.S_ISREG(_check(found, name, forbidden).st_mode):
            raise Refused(f"{name} is no regular file")
    except BaseException:
        os.close(found)
        raise
    return found


# ------------------------------------------------------------------ folders of the user


def user_folder() -> str:
    """facula's part of the user's cache folder."""
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches/facula")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "facula")


def _shared_temporary() -> str:
    # lazily: a MiB of tables, for users whose own cache folder can not be had
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"facula-{os.geteuid()}")


@functools.cache
def private_folder() -> str:
    """A folder of this user's among the temporary files; where somebody took its name, one of this
    process's."""
    path = _shared_temporary()
    try:
        os.close(open_folder(path))
    except (Refused, OSError):
        # lazily: see above
        import tempfile

        path = tempfile.mkdtemp(prefix="facula-")
        atexit.register(_remove, path, os.getpid())
    return path


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:
        # lazily: only programs that had to make such a folder remove one
        import shutil

        shutil.rmtree(path, ignore_errors=True)


# ------------------------------------------------------------------ the secret


def secret(*folders: str) -> bytes:
    """The user's secret: 32 bytes.

    It stands in the user's cache folder; where that can not be had, in one of `folders`, or among the
    temporary files; else it lasts as long as this process.
    """
    return _secret(user_folder(), *folders)


@functools.cache
def _secret(*folders: str) -> bytes:
    why = ""
    for choose in (*[lambda folder=f: folder for f in folders], _shared_temporary):
        try:
            inside = open_folder(choose())
        except (Refused, OSError) as error:
            why = why or str(error)
            continue
        try:
            return _kept_secret(inside)
        except (Refused, OSError) as error:
            why = why or str(error)
        finally:
            os.close(inside)
    warnings.warn(
        f"[cache] a folder for the user's secret was required: {why}; what this process keeps on disk "
        "serves no other one",
        stacklevel=2,
    )
    return os.urandom(SECRET_BYTES)


def _kept_secret(inside: int) -> bytes:
    for _ in range(3):
        try:
            found = open_file("secret", inside, 0o077)
        except FileNotFoundError:
            pass
        except Refused:  # others may have read it, or put it there
            os.unlink("secret", dir_fd=inside)
        else:
            with open(found, "rb") as file:
                content = file.read(SECRET_BYTES + 1)
            if len(content) == SECRET_BYTES:
                return content
            os.unlink("secret", dir_fd=inside)
        _make_secret(inside)
    raise Refused("a secret that others keep changing")


def _make_secret(inside: int) -> None:
    """Of several processes that do so at once, one makes it."""
    temporary = f".secret-{os.urandom(6).hex()}"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o600, dir_fd=inside)
    try:
        with open(handle, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(os.urandom(SECRET_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(temporary, "secret", src_dir_fd=inside, dst_dir_fd=inside)
    finally:
        os.unlink(temporary, dir_fd=inside)


def seal(key: bytes, *parts: bytes | memoryview) -> bytes:
    """A mark of parts that nobody makes without the key; 32 bytes."""
    made = hmac.new(key, digestmod="sha256")
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()
