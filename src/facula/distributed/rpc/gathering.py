"""One value from each of several workers, given to all of them.

Takes: a value on each worker. Gives: `all_gather`, `barrier`, `require_initialized` for what needs workers.
Keeps true: calls of the same workers pair up in the order in which each makes them; who does not come is named.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, ParamSpec, TypeVar

from facula.core.errors import fail
from facula.distributed.rpc.options import WorkerInfo
from facula.distributed.rpc.requests import STATE, UNSET_TIMEOUT, agent, request, seconds_of

__all__ = ["all_gather", "barrier", "is_initialized", "require_initialized"]

P = ParamSpec("P")
R = TypeVar("R")
_Key = tuple[tuple[str, ...], int]


class _Round:
    """One gathering: what has come, and, from the first of the workers, what all sent."""

    def __init__(self) -> None:
        self.came: dict[str, Any] = {}
        self.all_came = threading.Event()
        self.result: dict[str, Any] = {}
        self.told = threading.Event()


_LOCK = threading.Lock()
#: gatherings under way; those of other workers may begin before this one's call
_ROUNDS: dict[_Key, _Round] = {}
#: how often this worker has gathered among the same workers
_COUNTS: dict[tuple[str, ...], int] = {}


def is_initialized() -> bool:
    """Whether this process has joined workers (`init_rpc`)."""
    return STATE.agent is not None


def require_initialized(function: Callable[P, R]) -> Callable[P, R]:
    """The function; calls before `init_rpc` raise RuntimeError."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        agent()
        return function(*args, **kwargs)

    return checked


def _round_of(key: _Key) -> _Round:
    with _LOCK:
        return _ROUNDS.setdefault(key, _Round())


def _gather(sender: WorkerInfo, content: tuple[_Key, Any]) -> None:
    """A worker's value arrives at the first of the workers."""
    key, value = content
    gathering = _round_of(key)
    with _LOCK:
        gathering.came[sender.name] = value
        if len(gathering.came) == len(key[0]):
            gathering.all_came.set()


def _gathered(sender: WorkerInfo, content: tuple[_Key, dict[str, Any]]) -> None:
    """What all sent arrives at one of the others."""
    key, everything = content
    gathering = _round_of(key)
    gathering.result = everything
    gathering.told.set()


def all_gather(
    obj: object, worker_names: Iterable[str] | None = None, timeout: float = UNSET_TIMEOUT
) -> dict[str, Any]:
    """What each worker passed, by its name; every worker of them calls this.

    Args:
        obj: a value that can be sent.
        worker_names: who takes part; all workers by default.
        timeout: seconds until who is missing is an error; a call's by default, 0 waits for ever.
    """
    own = agent()
    names = tuple(sorted(worker_names or (worker.name for worker in own.workers)))
    if own.info.name not in names:
        fail(RuntimeError, "rpc.all_gather", "this worker's name among those that take part was required",
             f"{own.info.name!r} beside {names}", "only workers that take part may call this")  # fmt: skip
    with _LOCK:
        number = _COUNTS[names] = _COUNTS.get(names, 0) + 1
    key, seconds = (names, number), seconds_of(timeout)
    gathering = _round_of(key)
    try:
        if own.info.name == names[0]:
            _gather(own.info, (key, obj))
            if not gathering.all_came.wait(seconds or None):
                _missing(names, seconds, set(names) - set(gathering.came))
            others = [
                request(own.worker(name), "gathered", (key, gathering.came), seconds, "all_gather")
                for name in names[1:]
            ]
            for future in others:
                future.wait()
            return gathering.came
        request(own.worker(names[0]), "gather", (key, obj), seconds, "all_gather").wait()
        if not gathering.told.wait(seconds or None):
            _missing(names, seconds, {"one that " + names[0] + " waits for"})
        return gathering.result
    finally:
        with _LOCK:
            _ROUNDS.pop(key, None)


def _missing(names: tuple[str, ...], seconds: float, missing: set[str]) -> NoReturn:
    fail(RuntimeError, "rpc.all_gather", f"a call of each of {', '.join(names)} within {seconds:g} s "
         "(timeout) was required", f"none of {', '.join(sorted(missing))}",
         "every worker that takes part calls this, in the same order")  # fmt: skip


def barrier(worker_names: Iterable[str] | None = None, timeout: float = UNSET_TIMEOUT) -> None:
    """Return when each of the workers has called this."""
    all_gather(None, worker_names, timeout)


def _forget() -> None:
    with _LOCK:
        _ROUNDS.clear()
        _COUNTS.clear()


STATE.handlers.update(gather=_gather, gathered=_gathered)
STATE.on_shutdown.append(_forget)
