"""Averages in small groups often, in large ones seldom.

Takes: how many steps lie between averages in groups of each size. Gives: `HierarchicalModelAverager`.
Keeps true: where several periods end at a step, the largest group averages, once; ranks average at the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.distributed.algorithms.model_averaging import averagers
from facula.distributed.algorithms.model_averaging.utils import (
    average_parameters_or_parameter_groups,
)
from facula.distributed.world import new_subgroups

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup

__all__ = ["HierarchicalModelAverager"]


class HierarchicalModelAverager(averagers.ModelAverager):
    """Averages in groups of growing size, each with its period; all processes make it at the same time.

    >>> averager = HierarchicalModelAverager(OrderedDict([(2, 4), (16, 8)]), warmup_steps=100)

    Args:
        period_group_size_dict: the size of the group of each period, both growing; the last group is of all ranks
        warmup_steps: how many steps average nothing
        process_group: the ranks; default: all

    Raises:
        ValueError: the periods or sizes do not grow, or the last group is not of all ranks.
    """

    def __init__(
        self, period_group_size_dict: dict[int, int] | None = None, warmup_steps: int = 0,
        process_group: ProcessGroup | None = None,
    ) -> None:  # fmt: skip
        super().__init__(process_group)
        given = dict(period_group_size_dict or {})
        periods, sizes = list(given), list(given.values())
        everybody = self.process_group.size()
        wrong = None
        if not periods or min(periods) < 1 or min(sizes) < 2:
            wrong = "at least one period of at least 1, and groups of at least 2 ranks"
        elif any(b % a or b == a for a, b in zip(periods, periods[1:], strict=False)):
            wrong = "periods that are multiples of the ones before"
        elif any(b <= a for a, b in zip(sizes, sizes[1:], strict=False)):
            wrong = "groups that grow with their periods"
        elif sizes[-1] != everybody:
            wrong = f"a last group of all {everybody} ranks"
        if wrong is not None:
            fail(ValueError, "HierarchicalModelAverager", f"{wrong} were required (the largest value in "
                 "period_process_group_dict must be equal to the size of argument process_group)", given,
                 hint=f"for example {{4: 2, 8: {everybody}}}")  # fmt: skip
        if warmup_steps < 0:
            fail(ValueError, "HierarchicalModelAverager", "warm-up steps of at least 0 were required (Arg "
                 "``warmup_steps`` must be a non-negative number.)", warmup_steps,
                 hint="0 averages from the first step on")  # fmt: skip
        self.warmup_steps = warmup_steps
        self._periods = periods
        self.period_process_group_dict: dict[int, Any] = {
            period: self.process_group if size == everybody else new_subgroups(size)[0]
            for period, size in given.items()
        }
        get_logger("distributed").info("parameters are averaged by period and size: %s", given)

    def _find_process_group(self) -> Any:
        """The largest group whose period ends now; None where none does."""
        for period in reversed(self._periods):
            if self.step % period == 0:
                return self.period_process_group_dict[period]
        return None

    def average_parameters(self, params: Iterable[Any]) -> None:
        """A step is over: average, where its time has come."""
        if self.step >= self.warmup_steps:
            group = self._find_process_group()
            if group is not None:
                average_parameters_or_parameter_groups(params, group)
        self.step += 1
