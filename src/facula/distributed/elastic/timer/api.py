"""What timers consist of: requests, clients that send them, servers that end the workers whose time is over.

Takes: blocks of code and their times. Gives: `expires`, and the classes that clients and servers derive from.
Keeps true: a timer is known by worker and scope: who takes it again moves its end; a request without an end (below 0)
releases it; an error with one worker keeps the server from no other.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from facula.core.errors import fail
from facula.core.logs import get_logger

__all__ = [
    "RequestQueue",
    "TimerClient",
    "TimerRequest",
    "TimerServer",
    "Watchdog",
    "configure",
    "expires",
]


@dataclass
class TimerRequest:
    """A timer that is taken, or released, where its end is below 0.

    Args:
        worker_id: who takes it, as the server knows it
        scope_id: which of the worker's timers
        expiration_time: its end, in seconds since 1970
    """

    worker_id: Any
    scope_id: str
    expiration_time: float


class TimerClient(ABC):
    """Takes and releases timers of its worker."""

    @abstractmethod
    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Take a timer that ends at a time, or move its end."""

    @abstractmethod
    def release(self, scope_id: str) -> None:
        """Release a timer; nothing where none is taken."""


class RequestQueue(ABC):
    """Where requests wait for the server."""

    @abstractmethod
    def size(self) -> int:
        """How many wait, at least."""

    @abstractmethod
    def get(self, size: int, timeout: float) -> list[TimerRequest]:
        """Up to `size` requests, those that come within some seconds."""


class Watchdog:
    """A thread that looks again and again; a subclass says at what, in `_run_watchdog`.

    Args:
        max_interval: the most seconds between two looks
        daemon: whether the process may end while it runs
    """

    def __init__(self, max_interval: float, daemon: bool = True) -> None:
        self._max_interval, self._daemon = max_interval, daemon
        self._stop_signaled = False
        self._watchdog_thread: threading.Thread | None = None
        self._log = get_logger("distributed")

    def _run_watchdog(self) -> None:
        """Look once."""
        raise NotImplementedError

    def _watchdog_loop(self) -> None:
        """Look until it is stopped; an error is told, and the next look comes."""
        while not self._stop_signaled:
            try:
                self._run_watchdog()
            except Exception:
                self._log.exception("a look at the timers failed")

    def start(self) -> None:
        """Begin to look."""
        self._stop_signaled = False
        self._watchdog_thread = threading.Thread(
            target=self._watchdog_loop, name=f"facula-{type(self).__name__}", daemon=self._daemon
        )
        self._watchdog_thread.start()

    def stop(self) -> None:
        """Look no more; returns when the thread has ended, or after one interval."""
        self._stop_signaled = True
        thread, self._watchdog_thread = self._watchdog_thread, None
        if thread is not None:
            thread.join(self._max_interval)


class TimerServer(Watchdog, ABC):
    """Takes requests out of a queue, and ends the workers whose timers are over.

    Args:
        request_queue: where requests wait
        max_interval: the most seconds between two looks
        daemon: whether the process may end while it runs
    """

    def __init__(
        self, request_queue: RequestQueue, max_interval: float, daemon: bool = True
    ) -> None:
        super().__init__(max_interval, daemon)
        self._request_queue = request_queue

    @abstractmethod
    def register_timers(self, timer_requests: list[TimerRequest]) -> None:
        """Take requests."""

    @abstractmethod
    def clear_timers(self, worker_ids: set[Any]) -> None:
        """Forget all timers of workers."""

    @abstractmethod
    def get_expired_timers(self, deadline: float) -> dict[Any, list[TimerRequest]]:
        """The timers whose end is not behind a time, by worker."""

    @abstractmethod
    def _reap_worker(self, worker_id: Any) -> bool:
        """End a worker; whether it has ended."""

    def _reap_worker_no_throw(self, worker_id: Any) -> bool:
        """The same; one whose end failed with an error counts as ended: its timers say nothing more."""
        try:
            return self._reap_worker(worker_id)
        except Exception:
            self._log.exception("worker %s could not be ended", worker_id)
            return True

    def _run_watchdog(self) -> None:
        size = max(1, self._request_queue.size())
        self.register_timers(self._request_queue.get(size, self._max_interval))
        ended = set()
        for worker, expired in self.get_expired_timers(time.time()).items():
            scopes = sorted(str(one.scope_id) for one in expired)
            self._log.warning("timers %s of worker %s are over: it is ended", scopes, worker)
            if self._reap_worker_no_throw(worker):
                ended.add(worker)
        self.clear_timers(ended)


#: this process's client
_CLIENT: list[TimerClient | None] = [None]


def configure(timer_client: TimerClient | None) -> None:
    """Choose the client of this process; None for none."""
    _CLIENT[0] = timer_client


@contextlib.contextmanager
def expires(
    after: float, scope: str | None = None, client: TimerClient | None = None
) -> Iterator[None]:
    """A block that must end within some seconds, or this process is ended.

    A block within itself (a recursion, a loop) under one scope moves the end.

    Args:
        after: seconds
        scope: a name of the timer; default: the file and line of the block
        client: sends the request; default: that of `configure`

    Raises:
        RuntimeError: there is no client.
    """
    chosen = client or _CLIENT[0]
    if chosen is None:
        fail(RuntimeError, "expires", "a client was required (configure timer client before using countdown timers.)",
             "none", hint="timer.configure(LocalTimerClient(queue)), or pass client=")  # fmt: skip
    if scope is None:
        frame = inspect.currentframe()
        caller = frame.f_back.f_back if frame is not None and frame.f_back is not None else None
        scope = "block" if caller is None else f"{caller.f_code.co_filename}#{caller.f_lineno}"
    chosen.acquire(scope, time.time() + after)
    try:
        yield
    finally:
        chosen.release(scope)
