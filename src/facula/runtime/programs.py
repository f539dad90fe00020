"""Other programs: where they are, and what they say.

Takes names and command lines. Gives `find_program`; `run`, a program's exit status and its errors.
Keeps true: a program reads nothing and inherits no open file but its standard ones; none outlives
the call that started it.

Python's own modules for this (`subprocess`, `shutil`) bring in tables of languages and archive
formats, a MiB and a half that every program with a compiled function would hold.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

__all__ = ["find_program", "run"]


def find_program(name: str) -> str | None:
    """The path of a program: looked for in PATH, unless the name says where it is."""
    if os.path.dirname(name):
        return name if _is_program(name) else None
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, name)
        if folder and _is_program(path):
            return path
    return None


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def run(command: Sequence[str]) -> tuple[int, str]:
    """Run a program to its end: its exit status (of a signal, minus its number), and its stderr."""
    reading, writing = os.pipe()
    try:
        actions = [
            (os.POSIX_SPAWN_DUP2, writing, 2),
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        ]
        # without a PATH the compiler was found in the system's, where it must find its linker too
        environment = {"PATH": os.defpath, **os.environ}
        # Python ignores SIGPIPE, which a program would inherit
        process = os.posix_spawnp(
            command[0], list(command), environment,
            file_actions=actions, setsigdef=[signal.SIGPIPE],
        )  # fmt: skip
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    try:
        with open(reading, encoding="utf-8", errors="replace") as errors:
            text = errors.read()
    except BaseException:
        os.kill(process, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), text
