"""Levels of sparsity that rise by a cubic curve. [Zhu and Gupta 2017]

Takes: the first level, when the curve begins, and its steps. Gives: `CubicSL`.
Keeps true: behind the last step the level is what the group asked for.
"""

from __future__ import annotations

from typing import Any

from ..sparsifier.base_sparsifier import BaseSparsifier
from .base_scheduler import BaseScheduler

__all__ = ["CubicSL"]


class CubicSL(BaseScheduler):
    """Levels from `init_sl` to those of the groups, fast at first and slow at the end.

    Args:
        sparsifier: a sparsifier that has prepared a model.
        init_sl: the level at the beginning of the curve.
        init_t: the epoch in which it begins.
        delta_t: how many epochs a level lasts.
        total_t: how many levels there are until the last.
        initially_zero: whether the level is 0, and not `init_sl`, before the curve begins.
        last_epoch: the number of the last epoch; -1 at the start.
        verbose: whether every new level is printed.

    The first five settings may be lists with a value for each group.

    >>> from facula.ao.pruning import CubicSL, WeightNormSparsifier
    >>> sparsifier = WeightNormSparsifier(sparsity_level=0.8)
    >>> sparsifier.prepare(facula.nn.Sequential(facula.nn.Linear(4, 4)), None)
    >>> scheduler = CubicSL(sparsifier, delta_t=1, total_t=2)
    >>> levels = []
    >>> for epoch in range(3):
    ...     sparsifier.step()
    ...     levels.append(scheduler.get_last_sl()[0])
    ...     scheduler.step()
    >>> levels
    [0.0, 0.7000000000000001, 0.8]
    """

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        init_sl: Any = 0.0,
        init_t: Any = 0,
        delta_t: Any = 10,
        total_t: Any = 100,
        initially_zero: Any = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.sparsifier = sparsifier
        self.init_sl = self._make_sure_a_list(init_sl)
        self.init_t = self._make_sure_a_list(init_t)
        self.delta_t = self._make_sure_a_list(delta_t)
        self.total_t = self._make_sure_a_list(total_t)
        self.initially_zero = self._make_sure_a_list(initially_zero)
        super().__init__(sparsifier, last_epoch, verbose)

    @staticmethod
    def sparsity_compute_fn(
        s_0: float, s_f: float, t: int, t_0: int, dt: int, n: int, initially_zero: bool = False
    ) -> float:
        """The level in the epoch `t`.

        Args:
            s_0, s_f: the first and the last level.
            t, t_0: the epoch, and that in which the curve begins.
            dt: how many epochs a level lasts.
            n: how many levels there are.
            initially_zero: whether the level is 0 before `t_0`.
        """
        if initially_zero and t < t_0:
            return 0
        done = min(max((t - t_0) / (dt * n), 0.0), 1.0)
        level = s_f + (s_0 - s_f) * (1.0 - done) ** 3
        return min(max(level, min(s_0, s_f)), max(s_0, s_f))

    def get_sl(self) -> list[float]:
        """The levels of this epoch."""
        self._warn_outside_of_step()
        settings = zip(
            self.init_sl,
            self.base_sl,
            [self.last_epoch] * len(self.base_sl),
            self.init_t,
            self.delta_t,
            self.total_t,
            self.initially_zero,
            strict=True,
        )
        return [self.sparsity_compute_fn(*each) for each in settings]
