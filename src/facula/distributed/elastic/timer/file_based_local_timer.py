"""Timers whose requests go through a named pipe: processes that share nothing but a file system.

Takes: a path. Gives: `FileTimerClient` and `FileTimerServer`.
Keeps true: a request is one line, written at once, so that requests of several processes do not mix; timers of
processes that have ended are forgotten; the pipe goes with the server.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal as signals
import time
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.distributed.elastic.timer.api import TimerClient, TimerRequest, Watchdog
from facula.distributed.elastic.timer.debug_info_logging import (
    log_debug_info_for_expired_timers,
)

__all__ = ["FileTimerClient", "FileTimerRequest", "FileTimerServer"]

#: the longest line that a pipe takes at once (POSIX: at least 512)
_LINE = select.PIPE_BUF
#: seconds for which a client waits for a server, and between its tries
_PATIENCE, _BETWEEN = 0.5, 0.05


class FileTimerRequest(TimerRequest):
    """A timer that is taken or released.

    Args:
        worker_pid: the process
        scope_id: which of its timers
        expiration_time: its end, in seconds since 1970; below 0: it is released
        signal: what the process gets when the time is over
    """

    def __init__(
        self, worker_pid: int, scope_id: str, expiration_time: float, signal: int = 0
    ) -> None:
        super().__init__(worker_pid, scope_id, expiration_time)
        self.signal = int(signal)

    @property
    def worker_pid(self) -> int:
        """The process."""
        return int(self.worker_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileTimerRequest) and self.to_json() == other.to_json()

    def to_json(self) -> str:
        """As a line of the pipe."""
        return json.dumps(
            {"pid": self.worker_pid, "scope_id": self.scope_id,
             "expiration_time": self.expiration_time, "signal": self.signal}
        )  # fmt: skip


class FileTimerClient(TimerClient):
    """Sends requests of this process through a named pipe.

    Args:
        file_path: the pipe of the server
        signal: what this process gets when a time is over
    """

    def __init__(self, file_path: str, signal: int = signals.SIGKILL) -> None:
        self._file_path, self.signal = file_path, signal

    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Take a timer, or move its end.

        Raises:
            BrokenPipeError: no server reads the pipe.
        """
        self._send_request(FileTimerRequest(os.getpid(), scope_id, expiration_time, self.signal))

    def release(self, scope_id: str) -> None:
        """Release a timer.

        Raises:
            BrokenPipeError: no server reads the pipe.
        """
        self._send_request(FileTimerRequest(os.getpid(), scope_id, -1))

    def _send_request(self, request: FileTimerRequest) -> None:
        line = (request.to_json() + "\n").encode()
        if len(line) > _LINE:
            fail(RuntimeError, "FileTimerClient", f"a request of at most {_LINE} bytes was required (the scope is part "
                 "of it)", len(line), hint="choose a shorter scope")  # fmt: skip
        pipe = self._opened()
        try:
            os.set_blocking(pipe, True)
            os.write(pipe, line)
        finally:
            os.close(pipe)

    def _opened(self) -> int:
        """The pipe, once a server reads it."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return os.open(self._file_path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if time.monotonic() >= end:
                    raise BrokenPipeError(
                        f"[FileTimerClient] a server that reads {self._file_path} was required: got {error}\n"
                        "hint: FileTimerServer(path, run_id).start() comes first"
                    ) from error
                time.sleep(_BETWEEN)


class FileTimerServer(Watchdog):
    """Reads requests from a named pipe, and ends the processes whose timers are over.

    Args:
        file_path: the pipe, which is made
        run_id: the job, for the log
        max_interval: the most seconds between two looks
        daemon: whether the process may end while it runs
        log_event: hears what happens, and of which request
    """

    def __init__(
        self, file_path: str, run_id: str, max_interval: float = 10, daemon: bool = True,
        log_event: Callable[[str, FileTimerRequest | None], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(max_interval, daemon)
        self._file_path, self._run_id = file_path, run_id
        self._timers: dict[tuple[int, str], FileTimerRequest] = {}
        self._request_count = 0
        self._last_progress_time = int(time.time())
        self._log_event = log_event or (lambda name, request: None)
        self._rest = b""
        with contextlib.suppress(FileNotFoundError):
            os.remove(file_path)
        os.mkfifo(file_path)
        # with an end to write to of its own, the pipe has no end between two clients
        self._pipe = os.open(file_path, os.O_RDWR | os.O_NONBLOCK)
        self._log = get_logger("distributed")

    def start(self) -> None:
        """Begin to look."""
        super().start()
        self._log_event("watchdog started", None)

    def stop(self) -> None:
        """Look no more, and remove the pipe."""
        super().stop()
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._file_path)
        self._log_event("watchdog stopped", None)

    def run_once(self) -> None:
        """Stop the thread, take what waits, and look once."""
        self._stop_signaled = True
        thread, self._watchdog_thread = self._watchdog_thread, None
        if thread is not None:
            thread.join()
        self._run_watchdog()

    @staticmethod
    def is_process_running(pid: int) -> bool:
        """Whether a process runs."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def _run_watchdog(self) -> None:
        self.register_timers(self._get_requests(self._max_interval))
        expired = self.get_expired_timers(time.time())
        told = {pid: [one.scope_id for one in many] for pid, many in expired.items()}
        log_debug_info_for_expired_timers(self._run_id, told)
        ended = set()
        for pid, many in expired.items():
            signal = next((one.signal for one in many if one.signal > 0), 0)
            if signal == 0:
                self._log.info(
                    "timers %s of process %s are over; no signal was asked for", told[pid], pid
                )
            elif self._reap_worker(pid, signal):
                self._log_event("kill worker process", many[0])
                ended.add(pid)
        self.clear_timers(ended)
        left = {pid for pid, _ in self._timers}
        self.clear_timers({pid for pid in left if not self.is_process_running(pid)})
        self._last_progress_time = int(time.time())

    def _get_requests(self, seconds: float) -> list[FileTimerRequest]:
        """The requests that wait; if none does, those that come first within some seconds."""
        if self._pipe < 0:
            return []
        found: list[FileTimerRequest] = []
        if select.select([self._pipe], [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                while data := os.read(self._pipe, 1 << 16):
                    self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            request = self._request_of(line)
            if request is not None:
                found.append(request)
        return found

    def _request_of(self, line: bytes) -> FileTimerRequest | None:
        """The request of a line; a line that is none is told and left out."""
        try:
            told: Any = json.loads(line)
            return FileTimerRequest(
                int(told["pid"]), str(told["scope_id"]), float(told["expiration_time"]),
                int(told["signal"]),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError):
            self._log.error(
                "a line that is no request came through %s: %r", self._file_path, line[:200]
            )
            return None

    def register_timers(self, timer_requests: list[FileTimerRequest]) -> None:
        """Take requests."""
        for one in timer_requests:
            key = (one.worker_pid, one.scope_id)
            self._request_count += 1
            if one.expiration_time >= 0:
                self._timers[key] = one
                self._log_event("Timer registered", one)
            elif self._timers.pop(key, None) is not None:
                self._log_event("Timer released", one)

    def clear_timers(self, worker_pids: set[int]) -> None:
        """Forget all timers of processes."""
        for key in [key for key in self._timers if key[0] in worker_pids]:
            del self._timers[key]

    def get_expired_timers(self, deadline: float) -> dict[int, list[FileTimerRequest]]:
        """The timers whose end is not behind a time, by process."""
        found: dict[int, list[FileTimerRequest]] = {}
        for one in self._timers.values():
            if one.expiration_time <= deadline:
                found.setdefault(one.worker_pid, []).append(one)
        return found

    def _reap_worker(self, worker_pid: int, signal: int) -> bool:
        """Send a process its signal; whether it has got it, or is away."""
        try:
            os.kill(worker_pid, signal)
        except ProcessLookupError:
            self._log.info("process %s has ended already", worker_pid)
        except OSError:
            self._log.exception("process %s could not be ended", worker_pid)
            return False
        return True

    def get_last_progress_time(self) -> int:
        """When this last looked, in seconds since 1970; now, where nobody is watched."""
        return self._last_progress_time if self._timers else int(time.time())
