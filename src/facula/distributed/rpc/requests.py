"""Requests that workers send each other, and their answers.

Takes: a worker, a kind of request and its content. Gives: a future of the answer; answers those of others.
Keeps true: what a request raises is raised where it came from, as the same type, with the remote traceback;
arguments live until the answer has come.
"""

from __future__ import annotations

import contextlib
import io
import sys
import traceback
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.distributed.rpc.agent import Agent
from facula.distributed.rpc.messages import pack, unpack
from facula.distributed.rpc.options import RpcBackendOptions, WorkerInfo
from facula.distributed.stores import Store
from facula.namespaces.futures import Future

__all__ = [
    "STATE", "UNSET_TIMEOUT", "agent", "answer", "name_of", "request", "run", "seconds_of",
    "tell",
]  # fmt: skip

UNSET_TIMEOUT = -1.0
#: seconds for which workers are told that another is away, and characters of what they are told
_TOLD, _LONGEST = 2.0, 1000


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
    #: what stands for a remote reference in a message, and the reference that came (`rpc.rref`)
    fork: Any = None
    join: Any = None


STATE = _State()


def agent() -> Agent:
    """The connections; raises before `init_rpc`."""
    if STATE.agent is None:
        fail(RuntimeError, "rpc", "init_rpc() was required before (RPC has not been initialized. Call "
             "init_rpc first.)", "no workers", "call init_rpc(name, rank=..., world_size=...)")  # fmt: skip
    return STATE.agent


def seconds_of(timeout: float) -> float:
    """The seconds of a call: given ones, else the default's."""
    return STATE.options.rpc_timeout if timeout == UNSET_TIMEOUT else float(timeout)


def name_of(function: Callable[..., Any]) -> str:
    """What a function is called in messages and profiles."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", str(function))
    return str(name)


def request(to: WorkerInfo, kind: str, content: object, seconds: float, what: str) -> Future:
    """A future of what a worker answers to a request of some kind."""
    passengers = STATE.passengers
    ticket = passengers.current() if passengers is not None else None
    forks: list[Any] = []
    body, tensors = pack(
        (kind, content, ticket), lambda reference: STATE.fork(reference, to, forks)
    )
    if ticket is not None:
        passengers.sent(ticket, to, tensors)
    held = (content, tensors)

    def opened(future: Future) -> Any:
        del forks[:]
        assert held is not None
        (good, value), arrived = unpack(future.value(), STATE.join)
        if ticket is not None:
            passengers.received(ticket, "answer", to, arrived)
        else:
            _marked(arrived)
        if not good:
            raise raised(to, *value)
        return value

    return agent().call(to, body, seconds, what)._mapped(opened)


def _marked(arrived: list[tuple[Any, bool]]) -> None:
    """Have tensors require gradients that did where they came from: they are leaves here."""
    for tensor, needed in arrived:
        if needed:
            tensor.requires_grad_()


def answer(sender: WorkerInfo, body: memoryview | bytes) -> io.BytesIO:
    """Run a request; gives what `pack` makes of (whether it went well, value)."""
    passengers, ticket = STATE.passengers, None
    forks: list[Any] = []

    def packed(value: object) -> tuple[io.BytesIO, list[Any]]:
        return pack(value, lambda reference: STATE.fork(reference, sender, forks))

    try:
        (kind, content, ticket), arrived = unpack(body, STATE.join)
        if ticket is not None:
            passengers.received(ticket, "request", sender, arrived)
        else:
            _marked(arrived)
        with passengers.riding(ticket) if ticket is not None else contextlib.nullcontext():
            result = STATE.handlers[kind](sender, content)
        data, tensors = packed((True, result))
        if ticket is not None:
            passengers.sent(ticket, sender, tensors, "answer")
        return data
    except Exception as error:
        return packed((False, _described(error)))[0]


def _described(error: BaseException) -> tuple[str, str, str, str]:
    kind = type(error)
    return kind.__module__, kind.__qualname__, str(error), traceback.format_exc()


def raised(where: WorkerInfo, module: str, name: str, text: str, trace: str) -> BaseException:
    """The exception that a function raised on a worker, of the same type where that is known here."""
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


def run(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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


def tell(away: WorkerInfo, text: str) -> None:
    """Tell the other workers that one is away: when this one goes for that, they know why."""
    own = STATE.agent
    if own is None:
        return
    others = [w for w in own.workers if w.id not in own.away | {own.info.id}]
    said = f"{text.splitlines()[0][:_LONGEST]} at {own.info.name}"
    for future in [request(other, "note", said, _TOLD, "note") for other in others]:
        with contextlib.suppress(RuntimeError):
            future.wait()


def _noted(sender: WorkerInfo, text: str) -> None:
    """Keep what a worker says that failed for it."""
    agent().notes[sender.id] = text


STATE.handlers["note"] = _noted
