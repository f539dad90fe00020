"""`PostLocalSGDOptimizer`: an optimizer after whose steps parameters are averaged among ranks, when their time comes.

Takes: an optimizer and an averager. Gives: an optimizer.
Keeps true: the state and the groups are the inner optimizer's; a state remembers how many steps the averager has
counted. [Lin et al. 2018]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from facula.distributed.algorithms.model_averaging.averagers import ModelAverager
from facula.optim import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """An optimizer that steps on each rank, then lets an averager do its part.

    >>> optimizer = PostLocalSGDOptimizer(facula.optim.SGD(model.parameters(), lr=0.1), PeriodicModelAverager(4))

    Args:
        optim: what updates the parameters of this rank
        averager: what averages them
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        # the inner optimizer's own groups and state: there is nothing to set up
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The inner optimizer's state."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's, and how many steps the averager has counted."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state; one without a number of steps begins to count anew, and says so."""
        self.optim.load_state_dict(state_dict)
        self.param_groups = self.optim.param_groups
        if "step" in state_dict:
            self.averager.step = state_dict["step"]
            return
        warnings.warn(
            "[PostLocalSGDOptimizer] the state has no number of steps: the averager counts from 0",
            stacklevel=2,
        )
        self.averager.step = 0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update this rank's parameters, and average where the time has come."""
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, or set them to 0."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Update more parameters."""
        self.optim.add_param_group(param_group)
