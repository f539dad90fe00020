"""Calls in profiles: how long each took, and what the other worker did in it.

Takes: a call that begins. Gives: a note, which chooses the kind of request and follows its future.
Keeps true: without a profiler nothing is recorded or sent; remote operators stand in the caller's profile
with the worker's number.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from facula import core
from facula.autograd.profiler_recorder import FUNCTION, RawEvent, Recorder, operator_name
from facula.distributed.rpc.options import WorkerInfo
from facula.namespaces.futures import Future

__all__ = ["answer_profiled", "recorded"]


class _Note:
    """A call that nobody records."""

    kind = "call"

    def content(self, content: object) -> Any:
        """What is sent."""
        return content

    def follow(self, future: Future) -> Future:
        """The call's future."""
        return future


class _Recorded(_Note):
    """A call in a profile."""

    kind = "profiled"

    def __init__(self, recorder: Recorder, name: str, worker: WorkerInfo) -> None:
        self.recorder, self.name, self.worker = recorder, name, worker
        self.event = recorder.enter_range(name, scope=FUNCTION)
        recorder.detach(self.event)

    def follow(self, future: Future) -> Future:
        """The call's future; when it ends, the event does, and gets what happened remotely."""

        def ended(done: Future) -> Any:
            self.recorder.leave(self.event)
            value, events = done.value()
            for name, start, length in events:
                made = RawEvent(f"{self.name}#remote_op: {name}", FUNCTION, -1, self.event.thread)
                made.start = self.event.start + start
                made.end = made.start + max(length, 1)
                made.node_id, made.is_async = self.worker.id, True
                self.recorder.events.append(made)
            return value

        return future._mapped(ended)


@contextlib.contextmanager
def recorded(
    kind: str, function: Callable[..., Any], own: WorkerInfo, worker: WorkerInfo
) -> Iterator[_Note]:
    """A note of a call that begins."""
    recorder = core.PROFILER[0]
    if recorder is None:
        yield _Note()
        return
    named = operator_name(function) if isinstance(function, core.Op) else None
    name = named or getattr(function, "__qualname__", str(function))
    yield _Recorded(recorder, f"{kind}#{name}({own.name} -> {worker.name})", worker)


# ------------------------------------------------------------------ on the other side

_LOCK = threading.Lock()
_USERS: list[int] = []


@contextlib.contextmanager
def _recorder() -> Iterator[Recorder]:
    """The recorder of this process, for this thread."""
    with _LOCK:
        own = core.PROFILER[0] is None
        if own:
            core.PROFILER[0] = Recorder()
            core.PROFILER[0].restart()
        if own or _USERS:
            _USERS.append(threading.get_ident())
        recorder = core.PROFILER[0]
    core.set_profiling(True)
    try:
        yield recorder
    finally:
        core.set_profiling(False)
        with _LOCK:
            if threading.get_ident() in _USERS:
                _USERS.remove(threading.get_ident())
                if not _USERS and core.PROFILER[0] is recorder:
                    core.PROFILER[0] = None


def answer_profiled(run: Callable[[], Any]) -> tuple[Any, list[tuple[str, int, int]]]:
    """A function's value, and the operators that ran in it: name, when, how long."""
    begin, me = time.perf_counter_ns(), threading.get_ident()
    with _recorder() as recorder:
        value = run()
        now = time.perf_counter_ns()
        mine = [e for e in recorder.events if e.thread == me and e.start >= begin]
        return value, [(e.name, e.start - begin, (e.end or now) - e.start) for e in mine]
