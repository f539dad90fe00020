"""Hooks that update parameters while the backward pass goes on.

Takes: a hook, and an optimizer. Gives: a hook.
Keeps true: a parameter is updated once in a step, with the exchanged gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.namespaces.futures import Future

__all__ = ["OptimizerHookState", "optimizer_in_backward"]


class OptimizerHookState:
    """The optimizer that updates the parameters of a bucket as soon as it was exchanged."""

    def __init__(self, optimizer: Any, params: Any = None) -> None:
        self.optimizer = optimizer
        self.chosen = None if params is None else {id(p) for p in params}

    def update(self, bucket: Any) -> None:
        """Step for the parameters of one bucket."""
        held = [group["params"] for group in self.optimizer.param_groups]
        mine = {id(p): g for p, g in zip(bucket.parameters(), bucket.gradients(), strict=True)}
        before = {id(p): p.grad for params in held for p in params}
        try:
            for group, params in zip(self.optimizer.param_groups, held, strict=True):
                group["params"] = [
                    p for p in params
                    if id(p) in mine and (self.chosen is None or id(p) in self.chosen)
                ]  # fmt: skip
                for p in group["params"]:
                    p.grad = mine[id(p)]
            self.optimizer.step()
        finally:
            for group, params in zip(self.optimizer.param_groups, held, strict=True):
                group["params"] = params
                for p in params:
                    p.grad = before[id(p)]


def optimizer_in_backward(hook: Callable[..., Future], state: OptimizerHookState) -> Any:
    """A hook that exchanges by another one, then updates the bucket's parameters."""

    def run(inner_state: Any, bucket: Any) -> Future:
        def step(future: Future) -> Any:
            value = future.value()
            result = value[0] if isinstance(value, (list, tuple)) else value
            if result is not bucket.buffer():
                bucket.buffer().copy_(result.reshape(-1))
            state.update(bucket)
            return bucket.buffer()

        return hook(inner_state, bucket).then(step)

    return run
