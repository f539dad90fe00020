"""`DistributedOptimizer`: updates parameters on the workers that own them.

Takes: a kind of optimizer, and references to parameters. Gives: `step(context)`.
Keeps true: each owner updates its parameters with the gradients of the context, one step at a time.
"""

from __future__ import annotations

import threading
from typing import Any

from facula.core.errors import fail
from facula.distributed import rpc
from facula.distributed.autograd import get_gradients

__all__ = ["DistributedOptimizer"]


class _LocalOptimizer:
    """The optimizer of one worker's parameters."""

    lock = threading.Lock()

    def __init__(
        self,
        optimizer_class: Any,
        references: list[Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.parameters = [r.local_value() for r in references]
        self.optimizer = optimizer_class(self.parameters, *args, **kwargs)

    def step(self, context_id: int) -> None:
        """Update with the gradients of a context."""
        gradients = get_gradients(context_id)
        with self.lock:
            before = [p.grad for p in self.parameters]
            try:
                for p in self.parameters:
                    p.grad = gradients.get(p)
                self.optimizer.step()
            finally:
                for p, grad in zip(self.parameters, before, strict=True):
                    p.grad = grad


class DistributedOptimizer:
    """An optimizer of parameters on several workers.

    >>> optimizer = DistributedOptimizer(facula.optim.SGD, references, lr=0.1)
    """

    def __init__(
        self, optimizer_class: Any, params_rref: list[Any], *args: Any, **kwargs: Any
    ) -> None:
        """Make an optimizer on each owner; `args` and `kwargs` are its options."""
        by_owner: dict[Any, list[Any]] = {}
        for reference in params_rref:
            by_owner.setdefault(reference.owner(), []).append(reference)
        if not by_owner:
            fail(ValueError, "DistributedOptimizer", "references to parameters were required", "none",
                 "for example RemoteModule.remote_parameters()")  # fmt: skip
        self.is_functional_optim = False
        self._remote = [
            rpc.remote(owner, _LocalOptimizer, args=(optimizer_class, held, args, kwargs))
            for owner, held in by_owner.items()
        ]
        for one in self._remote:
            one._get_future().wait()
            one._get_type()  # raises what the constructor raised

    def step(self, context_id: int) -> None:
        """Update all parameters with the gradients of a context."""
        pending = [one.rpc_async().step(context_id) for one in self._remote]
        for future in pending:
            future.wait()
