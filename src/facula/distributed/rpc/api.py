"""Calls: `rpc_sync`, `rpc_async`, `remote`; beginning and end.

Takes: workers' names, functions and arguments. Gives: values, futures, remote references.
Keeps true: what a function raises is raised where it was called from, as the same type, with the remote
traceback; arguments live until the answer has come; `shutdown` returns when no worker has anything under
way, or names those that do not come.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from facula.core.errors import fail
from facula.distributed.rpc import events
from facula.distributed.rpc.agent import Agent, grpc_module
from facula.distributed.rpc.messages import pack, unpack
from facula.distributed.rpc.options import (
    DEFAULT_TIMEOUT,
    RpcBackendOptions,
    TensorPipeRpcBackendOptions,
    WorkerInfo,
)
from facula.distributed.stores import HashStore, PrefixStore, Store
from facula.distributed.world import release_store, rendezvous
from facula.namespaces.futures import Future, collect_all

__all__ = [
    "get_rpc_timeout", "get_worker_info", "init_rpc", "remote", "rpc_async", "rpc_sync", "shutdown",
    "wait_all",
]  # fmt: skip

UNSET_TIMEOUT = -1.0
_LOCAL = threading.local()


class _State:
    """This process's part in the calls."""

    agent: Agent | None = None
    options: RpcBackendOptions = RpcBackendOptions()
    store: Store | None = None
    #: how often `init_rpc` was called, so that stores can be used again
    times = 0
    #: what a request of a kind is answered by; others add theirs
    handlers: dict[str, Callable[..., Any]] = {}
    #: around calls and requests: what travels along (`distributed.autograd`)
    passengers: Any = None
    on_shutdown: list[Callable[[], None]] = []


STATE = _State()


def agent() -> Agent:
    """The connections; raises before `init_rpc`."""
    if STATE.agent is None:
        fail(RuntimeError, "rpc", "init_rpc() was required before (RPC has not been initialized. Call "
             "init_rpc first.)", "no workers", "call init_rpc(name, rank=..., world_size=...)")  # fmt: skip
    return STATE.agent


def init_rpc(
    name: str,
    backend: Any = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Join the workers; every process calls this.

    Args:
        name: the name that others call this worker by.
        backend: kept for PyTorch's API; calls are gRPC's.
    """
    grpc_module()
    if STATE.agent is not None:
        fail(RuntimeError, "init_rpc", "no workers were required (RPC is already initialized)",
             STATE.agent.info.name, "call shutdown() first")  # fmt: skip
    if not isinstance(name, str) or not name:
        fail(ValueError, "init_rpc", "a name was required", repr(name), "for example 'worker0'")
    options = rpc_backend_options or TensorPipeRpcBackendOptions()
    seconds = options.rpc_timeout or 1800.0
    if world_size == 1 and rank <= 0 and "MASTER_ADDR" not in os.environ:
        store: Store = HashStore()
        rank = 0
    else:
        store, rank, world_size = rendezvous(
            options.init_method, rank, -1 if world_size is None else world_size,
            datetime.timedelta(seconds=seconds),
        )  # fmt: skip
    if not 0 <= rank < world_size:
        fail(ValueError, "init_rpc", f"a rank in [0, {world_size}) was required", rank,
             "ranks count from 0")  # fmt: skip
    STATE.options, STATE.store = options, store
    STATE.times += 1
    prefixed = PrefixStore(f"rpc/{STATE.times}", store)
    prefixed.local_address = getattr(store, "local_address", "127.0.0.1")  # type: ignore[attr-defined]
    try:
        STATE.agent = Agent(WorkerInfo(rank, name), world_size, prefixed, options, answer)
    except BaseException:
        release_store(store)
        raise


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """A worker by its name; this one without."""
    return agent().info if worker_name is None else agent().worker(worker_name)


def get_rpc_timeout() -> float:
    """How many seconds a call may take by default."""
    return STATE.options.rpc_timeout


def _set_rpc_timeout(seconds: float) -> None:
    STATE.options.rpc_timeout = seconds


#: the module of references, which puts itself here: it is made of requests
REFERENCES: list[Any] = [None]

# ------------------------------------------------------------------ requests


def request(to: WorkerInfo, kind: str, content: Any, seconds: float, what: str) -> Future:
    """A future of what a worker answers to a request of some kind."""
    rref = REFERENCES[0]

    passengers = STATE.passengers
    ticket = passengers.current() if passengers is not None else None
    forks: list[Any] = []
    body, tensors = pack((kind, content, ticket), lambda reference: rref.fork(reference, to, forks))
    if ticket is not None:
        passengers.sent(ticket, to, tensors)
    held = (content, tensors)

    def opened(future: Future) -> Any:
        del forks[:]
        assert held is not None
        (good, value), arrived = unpack(future.value(), rref.join)
        if ticket is not None:
            passengers.received(ticket, "answer", to, arrived)
        if not good:
            raise raised(to, *value)
        return value

    return agent().call(to, body, seconds, what).then(opened)


def answer(sender: WorkerInfo, body: bytes) -> bytes:
    """Run a request; gives the bytes of (whether it went well, value)."""
    rref = REFERENCES[0]

    passengers, ticket = STATE.passengers, None
    forks: list[Any] = []

    def packed(value: Any) -> tuple[bytes, list[Any]]:
        return pack(value, lambda reference: rref.fork(reference, sender, forks))

    try:
        (kind, content, ticket), arrived = unpack(body, rref.join)
        if ticket is not None:
            passengers = _passengers()
            passengers.received(ticket, "request", sender, arrived)
        with passengers.riding(ticket) if ticket is not None else contextlib.nullcontext():
            result = STATE.handlers[kind](sender, content)
        data, tensors = packed((True, result))
        if ticket is not None:
            passengers.sent(ticket, sender, tensors, "answer")
        return data
    except Exception as error:
        return packed((False, _described(error)))[0]


def _passengers() -> Any:
    """Distributed autograd, which a request brings along."""
    if STATE.passengers is None:
        # lazily: the caller's program differentiates, this one may not; it fills the slot
        importlib.import_module("facula.distributed.autograd")
    return STATE.passengers


def _described(error: BaseException) -> tuple[str, str, str, str]:
    kind = type(error)
    return kind.__module__, kind.__qualname__, str(error), traceback.format_exc()


def raised(where: WorkerInfo, module: str, name: str, text: str, trace: str) -> BaseException:
    """The exception that a function raised on a worker, of the same type where that is known here."""
    import sys

    message = f"On {where}:\n{name}({text!r})\n{trace}"
    kind = getattr(sys.modules.get(module), name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        with contextlib.suppress(Exception):
            return kind(message)
    return RuntimeError(message)


def _called(sender: WorkerInfo, content: Any) -> Any:
    """Run a function that somebody calls."""
    function, args, kwargs = content
    return run(function, args, kwargs)


def run(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A function's value; that of the future it gives, where it is marked so."""
    value = function(*args, **kwargs)
    if getattr(function, "_is_async_execution", False):
        if not isinstance(value, Future):
            fail(RuntimeError, "async_execution", "a Future was required (Functions decorated with "
                 "@rpc.async_function must return a torch.futures.Future object)",
                 type(value).__name__, "return a Future, or leave the mark out")  # fmt: skip
        return value.wait()
    return value


STATE.handlers["call"] = _called


# ------------------------------------------------------------------ calls


def seconds_of(timeout: float) -> float:
    """The seconds of a call: given ones, else the default's."""
    return STATE.options.rpc_timeout if timeout == UNSET_TIMEOUT else float(timeout)


def name_of(function: Any) -> str:
    """What a function is called in messages and profiles."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", str(function))
    return str(name)


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
    to: Any, func: Callable[..., Any], args: Any = None, kwargs: Any = None,
    timeout: float = UNSET_TIMEOUT,
) -> Any:  # fmt: skip
    """The value of a function that runs on a worker.

    >>> rpc_sync("worker1", facula.add, args=(x, y))
    """
    return _start("rpc_sync", to, func, args, kwargs, timeout).wait()


def rpc_async(
    to: Any, func: Callable[..., Any], args: Any = None, kwargs: Any = None,
    timeout: float = UNSET_TIMEOUT,
) -> Future:  # fmt: skip
    """A future of the value of a function that runs on a worker."""
    future = _start("rpc_async", to, func, args, kwargs, timeout)
    collected = getattr(_LOCAL, "futures", None)
    if collected is not None:
        collected.append(future)
    return future


def remote(
    to: Any, func: Callable[..., Any], args: Any = None, kwargs: Any = None,
    timeout: float = UNSET_TIMEOUT,
) -> Any:  # fmt: skip
    """A reference to the value of a function that runs on a worker, and stays there."""
    rref = REFERENCES[0]

    return rref.made_remotely(agent().worker(to), func, tuple(args or ()), dict(kwargs or {}),
                              seconds_of(timeout))  # fmt: skip


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


# ------------------------------------------------------------------ the end


def _settle(own: Agent, seconds: float) -> None:
    """Wait until nothing is under way on any worker: two rounds in which nobody began a call."""
    end, last, round_number = time.monotonic() + seconds, None, 0
    while True:
        if not own.wait_idle(max(end - time.monotonic(), 0.0)):
            fail(RuntimeError, "rpc.shutdown", f"the end of all calls within {seconds:g} s (timeout) was "
                 "required", f"{own.running} that run on {own.info.name}",
                 "wait for futures, or pass a longer timeout")  # fmt: skip
        own.store.set(f"end/{round_number}/{own.info.id}", str(own.started))
        keys = {w: f"end/{round_number}/{w.id}" for w in own.workers}
        try:
            own.store.set_timeout(datetime.timedelta(seconds=max(end - time.monotonic(), 0.001)))
            counts = own.store.multi_get(list(keys.values()))
        except RuntimeError as error:
            missing = [w.name for w, key in keys.items() if not own.store.check([key])]
            fail(RuntimeError, "rpc.shutdown", f"all workers were required within {seconds:g} s (timeout)",
                 f"none of {', '.join(missing)}: {error}",
                 "each worker calls shutdown(), or all pass graceful=False")  # fmt: skip
        if counts == last:
            return
        last, round_number = counts, round_number + 1


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """Leave the workers; by default, when nobody has anything under way.

    Args:
        graceful: wait for all workers; otherwise others' calls to this one become errors.
        timeout: how many seconds to wait; 0: as long as a call may take, at least a minute.
    """
    own = agent()
    try:
        if graceful and own.size > 1:
            _settle(own, timeout or max(STATE.options.rpc_timeout, DEFAULT_TIMEOUT))
            _see_off(own)
    finally:
        STATE.agent = None
        for end in STATE.on_shutdown:
            end()
        own.close()
        if STATE.store is not None:
            release_store(STATE.store)
            STATE.store = None


def _see_off(own: Agent) -> None:
    """The store lives in worker 0, which leaves last."""
    if own.info.id:
        own.store.set(f"gone/{own.info.id}", "1")
        return
    own.store.set_timeout(datetime.timedelta(seconds=10))
    with contextlib.suppress(RuntimeError):
        own.store.multi_get([f"gone/{r}" for r in range(1, own.size)])
