"""Timers whose requests go through a queue of `multiprocessing`.

Takes: a queue that the processes share. Gives: `LocalTimerClient` and `LocalTimerServer`.
Keeps true: a worker is known by its process's number; only processes of this machine take part.
"""

from __future__ import annotations

import os
import signal
import time
from queue import Empty
from typing import Any

from facula.distributed.elastic.timer.api import (
    RequestQueue,
    TimerClient,
    TimerRequest,
    TimerServer,
)

__all__ = ["LocalTimerClient", "LocalTimerServer", "MultiprocessingRequestQueue"]


class LocalTimerClient(TimerClient):
    """Sends requests of this process through a queue.

    Args:
        mp_queue: the queue of the server
    """

    def __init__(self, mp_queue: Any) -> None:
        self._mp_queue = mp_queue

    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Take a timer, or move its end."""
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, expiration_time))

    def release(self, scope_id: str) -> None:
        """Release a timer."""
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, -1))


class MultiprocessingRequestQueue(RequestQueue):
    """A queue of `multiprocessing` as one of requests.

    Args:
        mp_queue: the queue
    """

    def __init__(self, mp_queue: Any) -> None:
        self._mp_queue = mp_queue

    def size(self) -> int:
        """How many requests wait, about."""
        return int(self._mp_queue.qsize())

    def get(self, size: int, timeout: float) -> list[TimerRequest]:
        """Up to `size` requests, those that come within some seconds."""
        found: list[TimerRequest] = []
        end = time.monotonic() + timeout
        while len(found) < size:
            left = end - time.monotonic()
            try:
                found.append(self._mp_queue.get(timeout=max(left, 0.0)))
            except Empty:
                break
        return found


class LocalTimerServer(TimerServer):
    """Ends processes of this machine whose timers are over, by SIGKILL.

    Args:
        mp_queue: the queue of the clients
        max_interval: the most seconds between two looks
        daemon: whether the process may end while it runs
    """

    def __init__(self, mp_queue: Any, max_interval: float = 60, daemon: bool = True) -> None:
        super().__init__(MultiprocessingRequestQueue(mp_queue), max_interval, daemon)
        self._timers: dict[tuple[Any, str], TimerRequest] = {}

    def register_timers(self, timer_requests: list[TimerRequest]) -> None:
        """Take requests."""
        for one in timer_requests:
            key = (one.worker_id, one.scope_id)
            if one.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = one

    def clear_timers(self, worker_ids: set[Any]) -> None:
        """Forget all timers of processes."""
        for key in [key for key in self._timers if key[0] in worker_ids]:
            del self._timers[key]

    def get_expired_timers(self, deadline: float) -> dict[Any, list[TimerRequest]]:
        """The timers whose end is not behind a time, by process."""
        found: dict[Any, list[TimerRequest]] = {}
        for one in self._timers.values():
            if one.expiration_time <= deadline:
                found.setdefault(one.worker_id, []).append(one)
        return found

    def _reap_worker(self, worker_id: Any) -> bool:
        try:
            os.kill(worker_id, signal.SIGKILL)
        except ProcessLookupError:
            self._log.info("process %s has ended already", worker_id)
        except OSError:
            self._log.exception("process %s could not be ended", worker_id)
            return False
        return True
