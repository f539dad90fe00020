"""What went wrong in a worker, told by the worker itself in a file.

Takes: functions that processes begin with; the environment variable TORCHELASTIC_ERROR_FILE, which the agent
sets. Gives: `record`, which writes the exception that ends a function to that file; `ProcessFailure`, what an
agent knows of a worker that failed; `ChildFailedError`, which shows the first of them.
Keeps true: a file is written whole or not at all; what can not be read is no error of the agent's; the
failure that came first is shown as the root cause.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from facula.core.logs import get_logger
from facula.distributed.elastic.multiprocessing.errors.error_handler import ErrorHandler

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
NOT_AVAILABLE = "<N/A>"
#: files of errors are texts of some kilobytes
_LARGEST = 1 << 24


@dataclass
class ProcessFailure:
    """A worker that failed: what its error file says, else what its exit status says.

    Args:
        local_rank: its number on this machine
        pid: its process
        exitcode: its exit status; minus the signal's number where a signal ended it
        error_file: where it may have written its error

    Example:
        >>> from facula.distributed.elastic.multiprocessing.errors import ProcessFailure
        >>> failure = ProcessFailure(0, 4711, -9, "/nowhere")
        >>> failure.signal_name(), failure.message
        ('SIGKILL', 'Signal 9 (SIGKILL) received by PID 4711')
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: Any = field(init=False)
    message: Any = field(init=False)
    timestamp: int = field(init=False)
    #: in nanoseconds, which tell those of one second apart
    written: int = field(init=False)

    def __post_init__(self) -> None:
        """Read the file."""
        self.error_file_data, self.written = {}, time.time_ns()
        self.timestamp = self.written // 10**9
        found = _read(self.error_file)
        if found is not None:
            self.written = os.stat(self.error_file).st_mtime_ns
            self.error_file_data = found
            self.message = found["message"]
            self.timestamp = _time_of(found, self.timestamp)
            return
        self.error_file = NOT_AVAILABLE
        if self.exitcode < 0:
            self.message = (
                f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
            )
        else:
            self.message = (
                "no traceback: decorate the function that the program begins with by @record"
            )

    def signal_name(self) -> str:
        """The name of the signal that ended it."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else NOT_AVAILABLE
        except ValueError:
            return NOT_AVAILABLE

    def timestamp_isoformat(self) -> str:
        """When it failed, as a text."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")

    def text(self) -> str:
        """The message in words."""
        said = self.message
        return str(said.get("message", said) if isinstance(said, dict) else said)

    def traceback(self) -> str:
        """The worker's traceback; nothing where it told none."""
        said = self.message if isinstance(self.message, dict) else {}
        extra = said.get("extraInfo")
        return str(extra.get("py_callstack", "")) if isinstance(extra, dict) else ""


def _read(path: str) -> dict[str, Any] | None:
    """The content of an error file; None where there is none."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _LARGEST:
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        get_logger("distributed").error("the error file %s can not be read: %s", path, error)
        return None
    return found if isinstance(found, dict) and "message" in found else None


def _time_of(found: dict[str, Any], otherwise: int) -> int:
    try:
        return int(found["message"]["extraInfo"]["timestamp"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return otherwise


class ChildFailedError(Exception):
    """Workers failed; the message shows the first failure, and all others.

    Args:
        name: of the program
        failures: by the worker's rank in the world

    Example:
        >>> from facula.distributed.elastic.multiprocessing import errors
        >>> failure = errors.ProcessFailure(1, 4711, -9, "/nowhere")
        >>> errors.ChildFailedError("train.py", {1: failure}).get_first_failure()[0]
        1
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The rank that failed first, and how; of one second, one that a signal ended."""
        return min(self.failures.items(), key=_when)

    def format_msg(self, boundary_delim: str = "=", section_delim: str = "-") -> str:
        """All failures as a text."""
        root, first = self.get_first_failure()
        others = [
            _described(f"[{number}]:", rank, failure)
            for number, (rank, failure) in enumerate(sorted(self.failures.items()), 1)
            if rank != root
        ]
        title = f"{self.name} FAILED"
        width = max(len(title), 60)
        root_text = _described("[0]:", root, first)
        parts = [boundary_delim * width, title, section_delim * width, "Failures:",
                 "\n".join(others) or "  <NO_OTHER_FAILURES>", section_delim * width,
                 "Root Cause (first observed failure):", root_text, boundary_delim * width]  # fmt: skip
        return "\n".join(parts)


def _when(item: tuple[int, ProcessFailure]) -> tuple[int, bool, int, int]:
    rank, failure = item
    return failure.timestamp, failure.exitcode >= 0, failure.written, rank


def _described(number: str, rank: int, failure: ProcessFailure) -> str:
    lines = [
        number,
        f"  time      : {failure.timestamp_isoformat()}",
        f"  rank      : {rank} (local_rank: {failure.local_rank})",
        f"  exitcode  : {failure.exitcode} (pid: {failure.pid})",
        f"  error_file: {failure.error_file}",
        f"  message   : {failure.text()}",
    ]
    if failure.traceback():
        lines.append("  traceback : " + failure.traceback().rstrip().replace("\n", "\n    "))
    return "\n".join(lines)


def get_error_handler() -> ErrorHandler:
    """What writes errors to files.

    Example:
        >>> from facula.distributed.elastic.multiprocessing import errors
        >>> type(errors.get_error_handler()).__name__
        'ErrorHandler'
    """
    return ErrorHandler()


def record(
    fn: Callable[_P, _R], error_handler: ErrorHandler | None = None
) -> Callable[_P, _R | None]:
    """Write the exception that ends a function to the file that TORCHELASTIC_ERROR_FILE names.

    Args:
        fn: the function that a worker begins with
        error_handler: what writes; None for `get_error_handler()`

    Example:
        >>> from facula.distributed.elastic.multiprocessing.errors import record
        >>> @record
        ... def main():
        ...     return "trained"
        >>> main()
        'trained'
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R | None:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            if error.code in (0, None):
                return None
            raise
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            if failure.error_file != NOT_AVAILABLE:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            else:
                get_logger("distributed").info(
                    "local rank %s failed with no error file: decorate its first function with @record",
                    failure.local_rank,
                )
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapped
