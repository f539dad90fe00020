"""What reading a file may not do, seen by an audit hook.

Takes nothing. Gives `Watch`, a hook for `sys.addaudithook`, and `forbidden()`, which watches a block.
Keeps true: while a watch is on, it notes code that is compiled or run, a module that is new and not
facula's, a program, a socket, a library that is opened, and a change of a file outside the folder
that was named; it lets everything else pass, and changes nothing.
"""

from __future__ import annotations

import collections
import contextlib
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import facula

#: events that no data may cause (https://docs.python.org/3/library/audit_events.html)
FORBIDDEN = (
    "exec", "compile", "import", "os.", "subprocess.", "ctypes.", "socket.", "shutil.", "pty.", "pickle.",
    "code.__new__", "function.__new__", "webbrowser.", "urllib.", "ftplib.", "smtplib.",
    "signal.", "sys.set", "facula.",
)  # fmt: skip
#: events that only look
_HARMLESS = ("os.listdir", "os.scandir", "os.walk", "os.getxattr", "os.listxattr")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: events about files, which may be caused below the folder
_ABOUT_FILES = (
    "open", "os.chmod", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.utime", "os.truncate",
    "os.lockf", "tempfile.",
)  # fmt: skip
_FACULA = str(Path(facula.__file__).parent) + os.sep
_LIBRARIES = (_FACULA, sys.base_prefix + os.sep, sys.prefix + os.sep, "<frozen ")


def _is_of_a_library(filename: Any) -> bool:
    return isinstance(filename, (str, bytes)) and os.fsdecode(filename).startswith(_LIBRARIES)


def _makes_a_named_tuple() -> bool:
    """Whether the class of a named tuple is made, by a module of facula that is loaded late: its names are checked."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame is not None and frame.f_code is collections.namedtuple.__code__


class Watch:
    """Notes what a reader causes and data can not."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.on = False
        self.seen: list[str] = []
        #: where files may be made
        self.folder = os.path.realpath(folder) if folder is not None else None

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        self.on = False  # what is asked here is not the reader's doing
        try:
            if self._is_forbidden(event, arguments):
                self.seen.append(f"{event} {arguments!r}"[:300])
        finally:
            self.on = True

    def _is_forbidden(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event in _HARMLESS or not event.startswith((*FORBIDDEN, "open")):
            return False
        if event in ("exec", "compile") and _makes_a_named_tuple():
            return False
        if event == "exec":  # modules of libraries, and what they make of their own texts
            return not _is_of_a_library(arguments[0].co_filename)
        if event == "compile":  # text that is parsed and not run has no file; running it is "exec"
            return not _is_of_a_library(arguments[1]) and arguments[1] != "<unknown>"
        if event == "import":
            return arguments[0].partition(".")[0] != "facula"
        if event.startswith(_ABOUT_FILES):
            return not self._is_inside(event, arguments)
        return True

    def _is_inside(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open" and not arguments[2] & _WRITES:
            return True
        if event == "os.rename":
            return self._holds(arguments[0], arguments[2]) and self._holds(*arguments[1::2])
        folder = arguments[-1] if event in ("os.remove", "os.mkdir", "os.rmdir", "os.chmod") else -1
        return self._holds(arguments[0], folder)

    def _holds(self, path: Any, inside: Any = -1) -> bool:
        """Whether a path, relative to an open folder or not, lies in the folder."""
        if isinstance(path, int):
            return True
        if self.folder is None or path is None:
            return False
        name = os.fsdecode(path)
        if isinstance(inside, int) and inside >= 0:
            name = os.path.join(os.readlink(f"/proc/self/fd/{inside}"), name)
        parent, last = os.path.split(os.path.abspath(name))
        full = os.path.join(os.path.realpath(parent), last)
        return full == self.folder or full.startswith(self.folder + os.sep)


@contextlib.contextmanager
def forbidden(folder: str | os.PathLike[str] | None = None) -> Iterator[list[str]]:
    """A block that is watched; gives the list of what was seen in it. (A hook can not be taken away.)"""
    watch = Watch(folder)
    sys.addaudithook(watch)
    watch.on = True
    try:
        yield watch.seen
    finally:
        watch.on = False
