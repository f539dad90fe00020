"""When parameters are averaged.

Takes: a period. Gives: `PeriodicModelAverager`.
Keeps true: the first `warmup_steps` steps average nothing; ranks average at the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from facula.core.errors import fail
from facula.distributed.algorithms.model_averaging.utils import (
    average_parameters_or_parameter_groups,
)
from facula.distributed.world import default_group

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager:
    """Counts steps; `average_parameters` is called after each."""

    def __init__(self, process_group: ProcessGroup | None = None) -> None:
        self.process_group = default_group() if process_group is None else process_group
        self.step = 0

    def average_parameters(self, params: Iterable[Any]) -> None:
        """A step is over."""
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """Averages every `period` steps, once `warmup_steps` are over."""

    def __init__(
        self, period: int, warmup_steps: int = 0, process_group: ProcessGroup | None = None
    ) -> None:
        super().__init__(process_group)
        if warmup_steps < 0 or period < 1:
            fail(ValueError, "PeriodicModelAverager", "a period of at least 1 and warm-up steps of at "
                 "least 0 were required (Arg ``period`` must be a positive value)",
                 (period, warmup_steps), "period=1 averages after each step")  # fmt: skip
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """A step is over: average, where its time has come."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
