"""Remote references: values that stay where they are, and who counts on them.

Takes: a worker and a function, or a value of this one. Gives: `RRef`.
Keeps true: the owner knows every reference (fork) that exists: one that is sent is made known to the owner
before it travels, one that goes away tells it; a value lives as long as a fork of it does; the collector
may find references at any place, so what their end takes locks for is done by a thread of the agent.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.distributed import autograd
from facula.distributed.rpc import events
from facula.distributed.rpc.calls import rpc_async, rpc_sync
from facula.distributed.rpc.options import WorkerInfo
from facula.distributed.rpc.requests import (
    STATE,
    UNSET_TIMEOUT,
    agent,
    name_of,
    request,
    run,
    seconds_of,
)
from facula.namespaces.futures import Future

__all__ = ["RRef", "fork", "join", "made_remotely", "remote"]

#: (worker, number): of a reference, or of a fork
Key = tuple[int, int]
_NUMBERS = itertools.count()


class _Owned:
    """A value that this worker owns, once it is there, and its forks."""

    def __init__(self) -> None:
        self.future: Future = Future()
        self.forks: set[Key] = set()


class _Table:
    """The values that this worker owns."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.owned: dict[Key, _Owned] = {}

    def enter(self, key: Key, fork_key: Key | None) -> _Owned:
        """The entry of a value, with a fork more."""
        with self.lock:
            entry = self.owned.setdefault(key, _Owned())
            if fork_key is not None:
                entry.forks.add(fork_key)
            self.lock.notify_all()
            return entry

    def leave(self, key: Key, fork_key: Key) -> None:
        """A fork went away."""
        with self.lock:
            entry = self.owned.get(key)
            if entry is None:
                return
            entry.forks.discard(fork_key)
            if not entry.forks:
                del self.owned[key]

    def find(self, key: Key, fork_key: Key | None = None) -> _Owned:
        """The entry of a value, with a fork more if one is named; a message that names a value may come before
        the one that makes it."""
        with self.lock:
            if not self.lock.wait_for(lambda: key in self.owned, seconds_of(UNSET_TIMEOUT) or None):
                fail(RuntimeError, "RRef", "a value that is still owned was required", key,
                     "keep a reference to it until all others are made")  # fmt: skip
            entry = self.owned[key]
            if fork_key is not None:
                entry.forks.add(fork_key)
            return entry


_TABLE = _Table()


def _new_key() -> Key:
    return agent().info.id, next(_NUMBERS)


class RRef:
    """A reference to a value on some worker."""

    _is_remote_reference = True

    def __init__(self, value: Any, type_hint: Any = None, *, _key: Key | None = None,
                 _fork: Key | None = None, _owner: WorkerInfo | None = None) -> None:  # fmt: skip
        """A reference to a value of this worker.

        Args:
            type_hint: kept for PyTorch's API.
        """
        self._ready: Future | None = None
        self._context = agent()
        self._key = _key or _new_key()
        self._fork = _fork or self._key
        self._owner = _owner or agent().info
        if _key is None:
            _TABLE.enter(self._key, self._fork).future.set_result(value)

    def is_owner(self) -> bool:
        """Whether the value is here."""
        return self._owner == self._context.info

    def owner(self) -> WorkerInfo:
        """The worker that has the value."""
        return self._owner

    def owner_name(self) -> str:
        """That worker's name."""
        return self._owner.name

    def confirmed_by_owner(self) -> bool:
        """Whether the owner knows this reference."""
        return self._ready is None or (self._ready.done() and self._ready.exception() is None)

    def local_value(self) -> Any:
        """The value itself, on its owner."""
        if not self.is_owner():
            fail(RuntimeError, "RRef.local_value", f"the owner, {self._owner}, was required (Can't call "
                 "localValue() on non-owner)", self._context.info,
                 "to_here() fetches the value")  # fmt: skip
        return _TABLE.find(self._key).future.wait()

    def to_here(self, timeout: float = UNSET_TIMEOUT) -> Any:
        """The value, or a copy of it, once it is there."""
        if self.is_owner():
            return self.local_value()
        seconds = seconds_of(timeout)
        return request(self._owner, "fetch", self._key, seconds, "RRef.to_here").wait()

    def _get_type(self, timeout: float = UNSET_TIMEOUT, blocking: bool = True) -> Any:
        """The type of the value."""
        if self.is_owner():
            return type(self.local_value())
        future = rpc_async(self._owner, _type_of, args=(self,), timeout=timeout)
        return future.wait() if blocking else future

    def _get_future(self) -> Future:
        """The future of the call that makes the value."""
        return self._ready if self._ready is not None else _done(None)

    def rpc_sync(self, timeout: float = UNSET_TIMEOUT) -> Any:
        """Methods of the value, called on its owner."""
        return _Proxy(self, rpc_sync, timeout)

    def rpc_async(self, timeout: float = UNSET_TIMEOUT) -> Any:
        """Methods of the value, called on its owner: futures."""
        return _Proxy(self, rpc_async, timeout)

    def remote(self, timeout: float = UNSET_TIMEOUT) -> Any:
        """Methods of the value, called on its owner: references to what they give."""
        return _Proxy(self, remote, timeout)

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """Differentiate the value, a tensor of one element: in a context, across workers."""
        if not self.is_owner():
            rpc_sync(self._owner, _backward_of, args=(self, dist_autograd_ctx_id, retain_graph))
        elif dist_autograd_ctx_id < 0:
            self.local_value().backward(retain_graph=retain_graph)
        else:
            autograd.backward(dist_autograd_ctx_id, [self.local_value()], retain_graph)

    def __repr__(self) -> str:
        if self.is_owner():
            return f"OwnerRRef(rref_id={self._key})"
        return f"UserRRef(rref_id={self._key}, fork_id={self._fork}, owner={self._owner.name})"

    def __reduce__(self) -> Any:
        fail(RuntimeError, "RRef", "a call was required, that takes it along (Can not pickle rref in "
             "python pickler, rref can only be pickled when using RPC)", "pickle",
             "pass it as an argument of rpc_sync, rpc_async or remote")  # fmt: skip

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._leave()

    def _leave(self) -> None:
        """Tell the owner that this reference is gone."""
        if STATE.agent is self._context:
            told = (self._owner, self._key, self._fork, self._ready)
            self._context.later(functools.partial(_left, *told))


def _left(owner: WorkerInfo, key: Key, fork_key: Key, ready: Future | None) -> None:
    """A reference went away: its owner is told, once it knows of it."""
    if owner == agent().info:
        _TABLE.leave(key, fork_key)
        return

    def tell(_: Future | None = None) -> None:
        with contextlib.suppress(RuntimeError):
            request(owner, "leave", (key, fork_key), seconds_of(UNSET_TIMEOUT), "RRef")

    if ready is None or ready.done():
        tell()
    else:
        ready.add_done_callback(tell)


class _Proxy:
    """The methods of a remote value."""

    def __init__(
        self, reference: RRef, call: Callable[..., Any], timeout: float = UNSET_TIMEOUT
    ) -> None:
        self._reference, self._call, self._timeout = reference, call, timeout

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def method(*args: object, **kwargs: object) -> Any:
            given = (self._reference, name, args, kwargs)
            return self._call(
                self._reference.owner(), _call_method, args=given, timeout=self._timeout
            )

        return method


def _call_method(reference: RRef, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return run(getattr(reference.local_value(), name), args, kwargs)


def _type_of(reference: RRef) -> Any:
    return type(reference.local_value())


def _backward_of(reference: RRef, context: int, retain_graph: bool) -> None:
    reference.backward(context, retain_graph)


def _done(value: object) -> Future:
    future: Future = Future()
    future.set_result(value)
    return future


# ------------------------------------------------------------------ references that travel


def fork(reference: RRef, to: WorkerInfo, held: list[Any]) -> Any:
    """What stands for a reference in a message to a worker: a fork that the owner knows."""
    held.append(reference)
    if reference._ready is not None:
        reference._ready.wait()
    owner = reference.owner()
    if owner == to:
        return reference._key, None, owner
    fork_key = _new_key()
    if reference.is_owner():
        _TABLE.find(reference._key, fork_key)
    else:
        request(owner, "fork", (reference._key, fork_key), seconds_of(UNSET_TIMEOUT), "RRef").wait()
    return reference._key, fork_key, owner


def join(sent: Any) -> RRef:
    """The reference that came in a message."""
    key, fork_key, owner = sent
    if owner == agent().info:
        fork_key = _new_key()
        _TABLE.find(key, fork_key)  # in one step: the last other fork may leave at any time
    return RRef(None, _key=key, _fork=fork_key, _owner=owner)


def made_remotely(
    to: WorkerInfo,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    seconds: float,
) -> RRef:
    """A reference to what a function gives on a worker."""
    key = _new_key()
    content = (function, args, kwargs)
    if to == agent().info:
        entry = _TABLE.enter(key, key)
        agent().pool.submit(_fill, entry, content)
        return RRef(None, _key=key, _fork=key, _owner=to)
    made = RRef(None, _key=key, _fork=_new_key(), _owner=to)
    with events.recorded("rpc_remote", function, agent().info, to) as note:
        kind = "remote" if note.kind == "call" else "remote_profiled"
        sent = (made._key, made._fork, content)
        made._ready = note.follow(request(to, kind, sent, seconds, name_of(function)))
    return made


def remote(
    to: Any, func: Callable[..., Any], args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
    timeout: float = UNSET_TIMEOUT,
) -> RRef:  # fmt: skip
    """A reference to the value of a function that runs on a worker, and stays there."""
    worker, given = agent().worker(to), (tuple(args or ()), dict(kwargs or {}))
    return made_remotely(worker, func, *given, seconds_of(timeout))


def _fill(entry: _Owned, content: Any) -> None:
    try:
        entry.future.set_result(run(*content))
    except Exception as error:
        entry.future.set_exception(error)


def _remote(sender: WorkerInfo, content: Any) -> None:
    key, fork_key, call = content
    _fill(_TABLE.enter(key, fork_key), call)


def _remote_profiled(sender: WorkerInfo, content: object) -> Any:
    return events.answer_profiled(lambda: _remote(sender, content))


def _profiled(sender: WorkerInfo, content: Any) -> Any:
    return events.answer_profiled(lambda: run(*content))


STATE.handlers.update(
    remote=_remote,
    remote_profiled=_remote_profiled,
    profiled=_profiled,
    fetch=lambda sender, key: _TABLE.find(key).future.wait(),
    fork=lambda sender, content: _TABLE.find(*content) and None,
    leave=lambda sender, content: _TABLE.leave(*content),
)
STATE.fork, STATE.join = fork, join
STATE.on_shutdown.append(lambda: _TABLE.owned.clear())
