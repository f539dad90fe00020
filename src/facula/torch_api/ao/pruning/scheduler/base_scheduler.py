"""What all schedules of levels of sparsity do.

Takes: a sparsifier that has prepared a model. Gives: `BaseScheduler`; a subclass has `get_sl`.
Keeps true: `base_sl` are the levels that the groups had when the schedule was made.
"""

from __future__ import annotations

import functools
import warnings
from types import MethodType
from typing import Any

from facula.core.errors import fail

from ..sparsifier.base_sparsifier import BaseSparsifier

__all__ = ["BaseScheduler"]


def count_steps(stepped: Any) -> None:
    """Makes an object count the calls of its method `step` in `_step_count`."""
    if hasattr(stepped.step, "_with_counter"):
        return
    plain = type(stepped).step

    @functools.wraps(plain)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._step_count += 1
        return plain(self, *args, **kwargs)

    step._with_counter = True  # type: ignore[attr-defined]  # what marks a counting method
    stepped.step = MethodType(step, stepped)


class Within:
    """While `step` runs: `get_sl` of a schedule need not warn."""

    def __init__(self, scheduler: Any, field: str) -> None:
        self.scheduler, self.field = scheduler, field

    def __enter__(self) -> None:
        setattr(self.scheduler, self.field, True)

    def __exit__(self, *error: object) -> None:
        setattr(self.scheduler, self.field, False)


class BaseScheduler:
    """A schedule of the levels of a sparsifier's groups.

    Args:
        sparsifier: a sparsifier that has prepared a model.
        last_epoch: the number of the last epoch, where the schedule goes on; -1 at its start.
        verbose: whether every new level is printed.

    >>> from facula.ao.pruning import BaseScheduler, WeightNormSparsifier
    >>> class Halving(BaseScheduler):
    ...     def get_sl(self):
    ...         return [level / 2**self.last_epoch for level in self.base_sl]
    >>> sparsifier = WeightNormSparsifier(sparsity_level=0.5)
    >>> sparsifier.prepare(facula.nn.Sequential(facula.nn.Linear(4, 4)), None)
    >>> scheduler = Halving(sparsifier)
    >>> sparsifier.step()
    >>> scheduler.step()
    >>> scheduler.get_last_sl()
    [0.25]
    """

    def __init__(
        self, sparsifier: BaseSparsifier, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not isinstance(sparsifier, BaseSparsifier):
            fail(
                TypeError,
                type(self).__name__,
                "an instance of BaseSparsifier",
                type(sparsifier).__name__,
                hint="pass the sparsifier that has prepared the model",
            )
        self.sparsifier: Any = sparsifier
        self.base_sl = [group["sparsity_level"] for group in sparsifier.groups]
        self.last_epoch = last_epoch
        self.sparsifier._step_count = 0
        count_steps(self.sparsifier)
        self._step_count = 0
        self.verbose = verbose
        self._get_sl_called_within_step = False
        self._last_sl: list[float] = []
        self.step()

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes: all of the schedule but the sparsifier."""
        return {key: value for key, value in vars(self).items() if key != "sparsifier"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what another schedule saved.

        Args:
            state_dict: what `state_dict` gave.
        """
        self.__dict__.update(state_dict)

    def get_last_sl(self) -> list[float]:
        """The levels that the last step set."""
        return self._last_sl

    def get_sl(self) -> list[float]:
        """The levels for the epoch `last_epoch`, one for each group; subclasses compute them."""
        self._warn_outside_of_step()
        fail(
            NotImplementedError,
            type(self).__name__,
            "a method get_sl that gives a level for each group",
            "none",
            hint="derive from LambdaSL or CubicSL, or write the method",
        )

    def _warn_outside_of_step(self) -> None:
        if not self._get_sl_called_within_step:
            warnings.warn(
                "To get the last sparsity level computed by the scheduler, please use `get_last_sl()`.",
                stacklevel=3,
            )

    def print_sl(self, is_verbose: bool, group: Any, sl: float, epoch: int | None = None) -> None:
        """Prints a new level.

        Args:
            is_verbose: whether to print anything.
            group: the number of the group.
            sl: its level.
            epoch: which is named, where it is given.
        """
        if is_verbose:
            when = "" if epoch is None else f"Epoch {epoch:5d}: "
            print(f"{when}Adjusting sparsity level of group {group} to {sl:.4e}.")

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__} (\nSparsifier {self.sparsifier}\n    base_sl: {self.base_sl}\n)"
        )

    def step(self, epoch: int | None = None) -> None:
        """Sets the levels of the next epoch; stands behind `sparsifier.step()`.

        Args:
            epoch: is named where levels are printed.
        """
        if self._step_count == 1 and self.sparsifier._step_count < 1:
            warnings.warn(
                "Detected call of `scheduler.step()` before `sparsifier.step()`. "
                "The sparsifier has to step first, or it never sees the level that the schedule begins with.",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        with Within(self, "_get_sl_called_within_step"):
            self.last_epoch += 1
            values = self.get_sl()
        for number, (group, level) in enumerate(zip(self.sparsifier.groups, values, strict=True)):
            group["sparsity_level"] = level
            self.print_sl(self.verbose, number, level, epoch)
        self._last_sl = [group["sparsity_level"] for group in self.sparsifier.groups]
        self.sparsifier.enable_mask_update = True

    def _make_sure_a_list(self, var: Any) -> list[Any]:
        """The value for each group: one value stands for all, a list has to have the right length."""
        count = len(self.sparsifier.groups)
        if not isinstance(var, (list, tuple)):
            return [var] * count
        if len(var) != count:
            fail(
                ValueError,
                type(self).__name__,
                f"Expected variable of length {count}",
                len(var),
                hint="give one value, or one for each group of the sparsifier",
            )
        return list(var)
