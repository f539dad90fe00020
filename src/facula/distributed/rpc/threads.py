"""Threads that run what has no time to wait: as many as there are functions under way.

Takes: functions with their arguments. Gives: `Threads`, an executor, which gives futures.
Keeps true: a function never waits for a thread that another one keeps; threads that have nothing to do are used
again; none keeps a process that ends. Python waits for those of `ThreadPoolExecutor`: a worker whose program
has failed would live on for as long as somebody's request runs in it.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from facula.core.errors import fail

__all__ = ["Threads"]

#: seconds for which a thread waits for something to do
_PATIENCE = 10.0


class Threads(Executor):
    """Runs functions at once, each in a thread.

    Args:
        name: what threads are called, before their number

    Example:
        >>> from facula.distributed.rpc.threads import Threads
        >>> with Threads("example") as threads:
        ...     threads.submit(pow, 2, 5).result()
        32
    """

    def __init__(self, name: str) -> None:
        self.name, self.numbers = name, itertools.count()
        self.lock = threading.Lock()
        #: threads that wait for something to do, less the functions that are on the way to them
        self.free = 0
        self.jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.running: set[threading.Thread] = set()
        self.ended = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function; gives a future of its value.

        Args:
            fn: the function
            args: its arguments
            kwargs: its named arguments

        Raises:
            RuntimeError: `shutdown` was called before.
        """
        future: Future[Any] = Future()
        job = (future, fn, args, kwargs)
        with self.lock:
            if self.ended:
                fail(RuntimeError, "Threads", "a function before shutdown() was required", "one after it",
                     hint="submit() what is to run before the end")  # fmt: skip
            if self.free:
                self.free -= 1
                self.jobs.put(job)
                return future
            name = f"{self.name}_{next(self.numbers)}"
            thread = threading.Thread(target=self._run, args=(job,), name=name, daemon=True)
            self.running.add(thread)
        thread.start()
        return future

    def _run(self, job: Any) -> None:
        while job is not None:
            _do(*job)
            job = None  # what it holds is let go before the next comes
            job = self._next()
        with self.lock:
            self.running.discard(threading.current_thread())

    def _next(self) -> Any:
        """What is to be done next; None where there is nothing for a while, or at the end."""
        with self.lock:
            if self.ended:
                return None
            self.free += 1
        try:
            return self.jobs.get(timeout=_PATIENCE)
        except queue.Empty:
            with self.lock:
                if self.free:
                    self.free -= 1
                    return None
        return self.jobs.get()  # a function is on the way to this thread

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more functions; those that run are not ended.

        Args:
            wait: return when all have ended
            cancel_futures: kept for the interface: no function waits to be run
        """
        with self.lock:
            self.ended = True
            for _ in range(self.free):
                self.jobs.put(None)
            self.free = 0
            running = list(self.running)
        for thread in running if wait else ():
            thread.join()


def _do(future: Future[Any], fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = fn(*args, **kwargs)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(value)
