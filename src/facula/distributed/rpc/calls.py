"""Calls: `rpc_sync`, `rpc_async`, and a block that waits for them.

Takes: workers' names, functions and arguments. Gives: values and futures.
Keeps true: what a function raises is raised where it was called from; a call that takes too long, or whose worker
is gone, is an error with the worker's name.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from facula.core.errors import fail
from facula.distributed.rpc import events
from facula.distributed.rpc.requests import UNSET_TIMEOUT, agent, name_of, request, seconds_of
from facula.namespaces.futures import Future, collect_all

__all__ = ["rpc_async", "rpc_sync", "wait_all"]

_LOCAL = threading.local()


def _start(kind: str, to: Any, func: Any, args: Any, kwargs: Any, timeout: float) -> Future:
    if not callable(func):
        fail(TypeError, kind, "a function was required (function should be callable.)",
             type(func).__name__, "pass the function itself, and its arguments as args=(...)")  # fmt: skip
    worker = agent().worker(to)
    content = (func, tuple(args or ()), dict(kwargs or {}))
    with events.recorded(kind, func, agent().info, worker) as note:
        future = request(
            worker, note.kind, note.content(content), seconds_of(timeout), name_of(func)
        )
        return note.follow(future)


def rpc_sync(
    to: Any, func: Callable[..., Any], args: object = None, kwargs: object = None,
    timeout: float = UNSET_TIMEOUT,
) -> Any:  # fmt: skip
    """The value of a function that runs on a worker.

    >>> rpc_sync("worker1", facula.add, args=(x, y))
    """
    return _start("rpc_sync", to, func, args, kwargs, timeout).wait()


def rpc_async(
    to: Any, func: Callable[..., Any], args: object = None, kwargs: object = None,
    timeout: float = UNSET_TIMEOUT,
) -> Future:  # fmt: skip
    """A future of the value of a function that runs on a worker."""
    future = _start("rpc_async", to, func, args, kwargs, timeout)
    collected = getattr(_LOCAL, "futures", None)
    if collected is not None:
        collected.append(future)
    return future


@contextlib.contextmanager
def _wait_all() -> Iterator[None]:
    """A block at whose end all `rpc_async` calls in it have ended; raises the first exception."""
    before = getattr(_LOCAL, "futures", None)
    _LOCAL.futures = []
    try:
        yield
        for future in collect_all(_LOCAL.futures).wait():
            future.wait()
    finally:
        _LOCAL.futures = before


wait_all = _wait_all
