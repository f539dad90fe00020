"""Gradients across workers: what calls send and receive is part of one graph.

Takes: calls in a `context`. Gives: `backward`, `get_gradients`.
Keeps true: a tensor that requires a gradient, sent in a call or in an answer, gets the gradient that its copy
on the other side gets; gradients are kept in the context, by worker, and never in `.grad`.

Each tensor that arrives is a leaf here. The gradients of these leaves are sent back to where they came from,
where the backward pass goes on from the tensors that were sent. What comes to a leaf several times adds up.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import threading
from collections.abc import Iterator
from typing import Any

from facula import autograd, core
from facula.autograd.graph import leaves_reached
from facula.core.errors import fail
from facula.distributed import world
from facula.distributed.rpc.options import WorkerInfo
from facula.distributed.rpc.requests import STATE, agent, request, seconds_of
from facula.namespaces.futures import collect_all

__all__ = ["DistAutogradContext", "backward", "context", "get_gradients", "is_available"]

Tensor = core.Tensor
#: the context, and a number of the call within the program
Ticket = tuple[int, tuple[int, int]]
_LOCAL = threading.local()
_NUMBERS = itertools.count()


def is_available() -> bool:
    """Whether there are gradients across workers: there may be remote calls, and gRPC is installed."""
    return world.is_available() and importlib.util.find_spec("grpc") is not None


class DistAutogradContext:
    """What calls of one context sent and received here, and the gradients."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lock = threading.Lock()
        #: tensors that were sent, and leaves that came, by message
        self.sent: dict[Any, list[Tensor]] = {}
        self.came: dict[int, tuple[Any, int, WorkerInfo]] = {}
        self.workers: set[WorkerInfo] = set()
        self.gradients: dict[Tensor, Tensor] = {}

    def _context_id(self) -> int:
        """The number that `context` gave."""
        return self.number

    def _known_worker_ids(self) -> set[int]:
        """The workers that calls of this context went to or came from."""
        with self.lock:
            return {worker.id for worker in self.workers}


_CONTEXTS: dict[int, DistAutogradContext] = {}
_LOCK = threading.Lock()


def _context_of(number: int) -> DistAutogradContext:
    """The context of a number; made here where another worker began it."""
    with _LOCK:
        return _CONTEXTS.setdefault(number, DistAutogradContext(number))


def _known(number: int) -> DistAutogradContext:
    found = _CONTEXTS.get(number)
    if found is None:
        fail(RuntimeError, "distributed.autograd", "a context that is open was required (Could not find "
             "autograd context with id)", number,
             "call it in the block of context(), or keep the block open until all is done")  # fmt: skip
    return found


def _retrieve_context(context_id: int) -> DistAutogradContext:
    """The context of a number, for debugging: what was sent and received in it here."""
    return _known(context_id)


class context:  # noqa: N801 - PyTorch's name
    """A block whose calls are differentiated.

    >>> with context() as number:
    ...     loss = rpc_sync("worker1", f, args=(x,)).sum()
    ...     backward(number, [loss])
    """

    def __enter__(self) -> int:
        if getattr(_LOCAL, "number", None) is not None:
            fail(RuntimeError, "distributed.autograd.context", "no context was required (Already have an "
                 "autograd context id set for this thread)", _LOCAL.number, "leave the outer block first")  # fmt: skip
        self.number = (agent().info.id << 48) + next(_NUMBERS)
        _context_of(self.number)
        _LOCAL.number = self.number
        return self.number

    def __exit__(self, *exception: object) -> None:
        _LOCAL.number = None
        _release(self.number)


def _release(number: int) -> None:
    """Forget a context here, and on the workers that it reached."""
    with _LOCK:
        found = _CONTEXTS.pop(number, None)
    if found is None or STATE.agent is None:
        return
    with contextlib.suppress(RuntimeError):
        pending = [
            request(w, "autograd_release", number, seconds_of(-1.0), "context")
            for w in found.workers
            if w != agent().info
        ]
        collect_all(pending).wait()


# ------------------------------------------------------------------ what travels along


class _Passengers:
    """Hears of the tensors of calls."""

    @staticmethod
    def current() -> Ticket | None:
        """What a call that begins here takes along."""
        number = getattr(_LOCAL, "number", None)
        return None if number is None else (number, (agent().info.id, next(_NUMBERS)))

    @staticmethod
    def sent(ticket: Ticket, to: WorkerInfo, tensors: list[Tensor], kind: str = "request") -> None:
        """Tensors went to a worker, which may send their gradients."""
        held = _context_of(ticket[0])
        with held.lock:
            held.workers.add(to)
            if any(t.requires_grad for t in tensors):
                held.sent[(kind, ticket[1])] = list(tensors)

    @staticmethod
    def received(
        ticket: Ticket, kind: str, sender: WorkerInfo, tensors: list[tuple[Tensor, bool]]
    ) -> None:
        """Tensors came from a worker, which waits for their gradients."""
        held = _context_of(ticket[0])
        with held.lock:
            held.workers.add(sender)
            for place, (tensor, needs) in enumerate(tensors):
                if needs:
                    tensor.requires_grad_(True)
                    held.came[id(tensor)] = ((kind, ticket[1]), place, sender)

    @staticmethod
    @contextlib.contextmanager
    def riding(ticket: Ticket) -> Iterator[None]:
        """A request runs in the context of the call."""
        before = getattr(_LOCAL, "number", None)
        _LOCAL.number = ticket[0]
        try:
            yield
        finally:
            _LOCAL.number = before


STATE.passengers = _Passengers


# ------------------------------------------------------------------ backward


def _leaves(roots: list[Tensor]) -> list[Tensor]:
    """The leaves that a backward pass reaches."""
    found = {id(t): t for t in roots if t.grad_fn is None} | leaves_reached(roots)
    return list(found.values())


def _spread(held: DistAutogradContext, tensors: list[Tensor], grads: list[Any]) -> None:
    """A backward pass here, then on the workers whose tensors it reached."""
    pairs = [(t, g) for t, g in zip(tensors, grads, strict=True) if t.requires_grad]
    if not pairs:
        return
    roots = [t for t, _ in pairs]
    leaves = _leaves(roots)
    got = autograd.grad(roots, leaves, [g for _, g in pairs], retain_graph=True, allow_unused=True)
    onward: dict[Any, tuple[WorkerInfo, dict[int, Tensor]]] = {}
    with held.lock:
        for leaf, grad in zip(leaves, got, strict=True):
            if grad is None:
                continue
            origin = held.came.get(id(leaf))
            if origin is not None:
                message, place, worker = origin
                onward.setdefault(message, (worker, {}))[1][place] = grad
            elif leaf in held.gradients:
                held.gradients[leaf] = held.gradients[leaf] + grad
            else:
                held.gradients[leaf] = grad
    with _outside():
        pending = [
            request(worker, "autograd_backward", (held.number, message, found), seconds_of(-1.0),
                    "backward")
            for message, (worker, found) in onward.items()
        ]  # fmt: skip
        for future in pending:
            future.wait()


@contextlib.contextmanager
def _outside() -> Iterator[None]:
    """Calls that are no part of the graph."""
    before, _LOCAL.number = getattr(_LOCAL, "number", None), None
    try:
        yield
    finally:
        _LOCAL.number = before


def _backward(sender: WorkerInfo, content: Any) -> None:
    """Go on from tensors that were sent, with the gradients of their copies."""
    number, message, found = content
    held = _known(number)
    tensors = held.sent.get(message)
    if tensors is None:
        fail(RuntimeError, "distributed.autograd.backward", "tensors that were sent were required",
             message, "differentiate within the block of context()")  # fmt: skip
    chosen = sorted(found)
    _spread(held, [tensors[place] for place in chosen], [found[place] for place in chosen])


def _forget(sender: WorkerInfo, number: int) -> None:
    with _LOCK:
        _CONTEXTS.pop(number, None)


STATE.handlers.update(autograd_backward=_backward, autograd_release=_forget)
STATE.on_shutdown.append(_CONTEXTS.clear)


def backward(context_id: int, roots: list[Tensor], retain_graph: bool = False) -> None:
    """Compute the gradients of roots (of one element each) on all workers that took part.

    Args:
        retain_graph: kept for PyTorch's API; graphs live as long as their context.
    """
    held = _known(context_id)
    for root in roots:
        if root.numel() != 1 or not root.requires_grad:
            fail(RuntimeError, "distributed.autograd.backward", "tensors of one element that require "
                 "gradients were required (roots must be scalars)", tuple(root.shape),
                 "for example the loss, .sum() or .mean()")  # fmt: skip
    _spread(held, list(roots), [core.tensor(1.0, dtype=r.dtype).reshape(r.shape) for r in roots])


def get_gradients(context_id: int) -> dict[Tensor, Tensor]:
    """The gradients of this worker's leaves: tensor -> gradient."""
    held = _known(context_id)
    with held.lock:
        return dict(held.gradients)
