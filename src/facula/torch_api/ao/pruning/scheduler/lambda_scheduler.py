"""Levels of sparsity by a function of the epoch.

Takes: functions. Gives: `LambdaSL`. Keeps true: a level is the group's first level times the function's value.
"""

from __future__ import annotations

from collections.abc import Callable

from facula.core.errors import fail

from ..sparsifier.base_sparsifier import BaseSparsifier
from .base_scheduler import BaseScheduler

__all__ = ["LambdaSL"]


class LambdaSL(BaseScheduler):
    """Levels that are the first ones times a function of the epoch.

    Args:
        sparsifier: a sparsifier that has prepared a model.
        sl_lambda: a function of the number of the epoch, or a list of one for each group.
        last_epoch: the number of the last epoch; -1 at the start.
        verbose: whether every new level is printed.

    >>> from facula.ao.pruning import LambdaSL, WeightNormSparsifier
    >>> sparsifier = WeightNormSparsifier(sparsity_level=0.5)
    >>> sparsifier.prepare(facula.nn.Sequential(facula.nn.Linear(4, 4)), None)
    >>> scheduler = LambdaSL(sparsifier, lambda epoch: min(1.0, epoch / 10))
    >>> sparsifier.step()
    >>> scheduler.step()
    >>> scheduler.get_last_sl()
    [0.05]
    """

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        sl_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        count = len(sparsifier.groups)
        self.sl_lambdas: list[Callable[[int], float]] = (
            list(sl_lambda) if isinstance(sl_lambda, (list, tuple)) else [sl_lambda] * count
        )
        if len(self.sl_lambdas) != count:
            fail(
                ValueError,
                "LambdaSL",
                f"{count} functions, one for each group",
                len(self.sl_lambdas),
                hint="one function that is not in a list stands for all groups",
            )
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self) -> list[float]:
        """The levels of this epoch."""
        self._warn_outside_of_step()
        return [
            first * factor(self.last_epoch)
            for first, factor in zip(self.base_sl, self.sl_lambdas, strict=True)
        ]
