"""`spawn`: a function in several processes.

Takes: a function of its process's number. Gives: a `ProcessContext`, or the end of all processes.
Keeps true: a process that fails ends the others; what it raised is raised by `join`; the folder
through which processes say what they raised is gone when all have ended, and with the context.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import tempfile
import time
import traceback
import weakref
from collections.abc import Callable
from typing import Any


class ProcessException(Exception):
    """A process failed."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process raised an exception; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """A process exited by itself or by a signal."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int,
        signal_name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (
            self.msg, self.error_index, self.pid, self.exit_code, self.signal_name
        )  # fmt: skip


def _run(function: Callable[..., Any], index: int, args: tuple[Any, ...], file: str) -> None:
    """What a process does."""
    try:
        function(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        # the folder is gone where nobody waits any more
        with contextlib.suppress(FileNotFoundError), open(file, "xb") as out:
            out.write(traceback.format_exc().encode(errors="backslashreplace"))
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that were started."""

    def __init__(
        self, processes: list[Any], error_files: list[str], folder: str | None = None
    ) -> None:
        """`folder`, where given, is removed when all have ended."""
        self.processes, self.error_files = processes, error_files
        self._finalizer = weakref.finalize(self, _remove, folder, os.getpid())
        self.sentinels = {p.sentinel: i for i, p in enumerate(processes)}

    def pids(self) -> list[int]:
        """Their numbers in the operating system."""
        return [int(p.pid) for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for one to end; gives whether all have.

        Raises:
            ProcessRaisedException: one raised; the others were ended.
            ProcessExitedException: one exited with another status than 0, or by a signal.
        """
        if not self.sentinels:
            return True
        ended = multiprocessing.connection.wait(self.sentinels, timeout=timeout)
        failed = None
        for sentinel in ended:
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0 and failed is None:
                failed = index
        if failed is None:
            if self.sentinels:
                return False
            self._finalizer()
            return True
        self._end_others(grace_period or 5.0)
        try:
            return self._raise(failed)
        finally:
            self._finalizer()

    def _end_others(self, seconds: float) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(end - time.monotonic(), 0.0))
            if process.is_alive():
                process.kill()
                process.join()

    def _raise(self, index: int) -> bool:
        process = self.processes[index]
        file = self.error_files[index]
        if os.path.exists(file) and os.path.getsize(file):
            with open(file, "rb") as source:
                text = source.read().decode()
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}",
                index, process.pid,
            )  # fmt: skip
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            raise ProcessExitedException(
                f"process {index} terminated with signal {name}", index, process.pid, code, name
            )
        raise ProcessExitedException(
            f"process {index} terminated with exit code {code}", index, process.pid, code
        )


SpawnContext = ProcessContext


def _remove(folder: str | None, process: int) -> None:
    """Remove a folder, in the process that made it: a fork ends too."""
    if folder is not None and os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn", numa_options: Any = None,
) -> ProcessContext | None:  # fmt: skip
    """Run `fn(i, *args)` in processes i = 0.. and wait for them, unless `join` is False."""
    context = multiprocessing.get_context(start_method)
    folder = tempfile.mkdtemp(prefix="facula-spawn-")
    files = [os.path.join(folder, str(i)) for i in range(nprocs)]
    processes: list[Any] = []
    made = ProcessContext(processes, files, folder)
    try:
        for i in range(nprocs):
            process = context.Process(  # type: ignore[attr-defined]
                target=_run, args=(fn, i, args, files[i]), daemon=daemon
            )
            process.start()
            processes.append(process)
    except BaseException:
        made._end_others(0.0)
        made._finalizer()
        raise
    made.sentinels = {p.sentinel: i for i, p in enumerate(processes)}
    if not join:
        return made
    while not made.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Run `fn(i, *args)` in new processes i = 0.. and wait for them, unless `join` is False."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
