"""`TailLog`: shows lines of files on the console as they are written.

Takes: files that processes write, which may not be there yet. Gives: their lines, each behind a prefix.
Keeps true: what was written before `stop` is shown; lines of two files do not mix.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TextIO

from facula.core.logs import get_logger

__all__ = ["TailLog", "tail_logfile"]


def _everything(line: str) -> bool:
    return True


def tail_logfile(
    header: str,
    file: str,
    dst: TextIO,
    finished: threading.Event,
    interval_sec: float,
    log_line_filter: Callable[[str], bool] | None = None,
) -> None:
    """Write the lines of a file to `dst` until it is finished.

    Args:
        header: stands before each line
        file: its name; it is waited for
        dst: what is written to
        finished: says that nothing more comes
        interval_sec: seconds between looks
        log_line_filter: which lines are written; None for all
    """
    wanted = log_line_filter or _everything
    while not os.path.exists(file):
        if finished.wait(interval_sec):
            break
    if not os.path.exists(file):
        return
    with open(file, errors="replace") as source:
        part = ""
        while True:
            last = finished.is_set()
            part += source.read()
            lines = part.splitlines(keepends=True)
            part = lines.pop() if lines and not last and not lines[-1].endswith("\n") else ""
            for line in lines:
                if wanted(line):
                    dst.write(f"{header}{line}" if line.endswith("\n") else f"{header}{line}\n")
            if lines:
                dst.flush()
            if last:
                return
            finished.wait(interval_sec)


class TailLog:
    """Shows the lines of several files.

    Args:
        name: of the processes; a part of the prefix where none is given
        log_files: by the process's number
        dst: what is written to
        log_line_prefixes: by the process's number; None for `[name0]:`
        interval_sec: seconds between looks
        log_line_filter: which lines are shown

    Example:
        >>> import io
        >>> from facula.distributed.elastic.multiprocessing.tail_log import TailLog
        >>> shown = io.StringIO()
        >>> TailLog("trainer", {}, shown).start().stop()
        >>> shown.getvalue()
        ''
    """

    def __init__(
        self,
        name: str,
        log_files: dict[int, str],
        dst: TextIO,
        log_line_prefixes: dict[int, str] | None = None,
        interval_sec: float = 0.1,
        log_line_filter: Callable[[str], bool] = _everything,
    ) -> None:
        self._name, self._files, self._dst = name, log_files, dst
        self._prefixes = log_line_prefixes or {}
        self._interval, self._filter = interval_sec, log_line_filter
        self._finished = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> TailLog:
        """Begin to show lines."""
        for number, file in self._files.items():
            header = self._prefixes.get(number, f"[{self._name}{number}]:")
            thread = threading.Thread(
                target=self._tail, args=(header, file), name=f"tail-{number}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        return self

    def _tail(self, header: str, file: str) -> None:
        try:
            tail_logfile(header, file, self._dst, self._finished, self._interval, self._filter)
        except (OSError, ValueError) as error:  # the console was closed
            get_logger("distributed").error("the lines of %s can not be shown: %s", file, error)

    def stop(self) -> None:
        """Show what there is, and end."""
        self._finished.set()
        for thread in self._threads:
            thread.join(10.0)

    def stopped(self) -> bool:
        """Whether it was told to end."""
        return self._finished.is_set()
