"""What all schedules of settings of data sparsifiers do.

Takes: a data sparsifier and the name of a setting. Gives: `BaseDataScheduler`; a subclass has `get_schedule_param`.
Keeps true: `base_param` are the values that the data had when the schedule was made.
"""

from __future__ import annotations

import abc
import warnings
from typing import Any

from facula.core.errors import fail

from ...scheduler.base_scheduler import Within, count_steps
from ..data_sparsifier.base_data_sparsifier import BaseDataSparsifier

__all__ = ["BaseDataScheduler"]


class BaseDataScheduler:
    """A schedule of one setting of all data of a sparsifier.

    Args:
        data_sparsifier: the sparsifier.
        schedule_param: the name of the setting.
        last_epoch: the number of the last epoch, where the schedule goes on; -1 at its start.
        verbose: whether every new value is printed.

    >>> from facula.ao.pruning._experimental.data_scheduler import BaseDataScheduler
    >>> from facula.ao.pruning._experimental.data_sparsifier import DataNormSparsifier
    >>> class Halving(BaseDataScheduler):
    ...     def get_schedule_param(self):
    ...         return {name: value / 2**self.last_epoch for name, value in self.base_param.items()}
    >>> sparsifier = DataNormSparsifier([("a", facula.ones(4, 4))], sparsity_level=0.5)
    >>> scheduler = Halving(sparsifier, "sparsity_level")
    >>> sparsifier.step()
    >>> scheduler.step()
    >>> scheduler.get_last_param()
    {'a': 0.25}
    """

    def __init__(
        self,
        data_sparsifier: BaseDataSparsifier,
        schedule_param: str,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(data_sparsifier, BaseDataSparsifier):
            fail(
                TypeError,
                type(self).__name__,
                "an instance of BaseDataSparsifier",
                type(data_sparsifier).__name__,
                hint="schedules of weights are those in facula.ao.pruning",
            )
        self.data_sparsifier: Any = data_sparsifier
        self.schedule_param = schedule_param
        self.base_param = {
            name: entry.get(schedule_param) for name, entry in data_sparsifier.data_groups.items()
        }
        self.last_epoch = last_epoch
        self.data_sparsifier._step_count = 0
        count_steps(self.data_sparsifier)
        self._step_count = 0
        self.verbose = verbose
        self._get_sp_called_within_step = False
        self._last_param: dict[str, Any] = {}
        self.step()

    @abc.abstractmethod
    def get_schedule_param(self) -> dict[str, Any]:
        """The values for the epoch `last_epoch`, by the name of the data; subclasses compute them."""
        fail(
            NotImplementedError,
            type(self).__name__,
            "a method get_schedule_param that gives a value for each name",
            "none",
            hint="write it in the subclass",
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__} (\nData Sparsifier {self.data_sparsifier}\n"
            f"    {self.schedule_param}: {self.base_param}\n)"
        )

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes: all of the schedule but the sparsifier."""
        return {key: value for key, value in vars(self).items() if key != "data_sparsifier"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what another schedule saved.

        Args:
            state_dict: what `state_dict` gave.
        """
        self.__dict__.update(state_dict)

    def get_last_param(self) -> dict[str, Any]:
        """The values that the last step set."""
        return self._last_param

    def step(self) -> None:
        """Sets the values of the next epoch; stands behind `data_sparsifier.step()`."""
        if self._step_count == 1 and self.data_sparsifier._step_count < 1:
            warnings.warn(
                "Detected call of `scheduler.step()` before `data_sparsifier.step()`. "
                "The sparsifier has to step first, or it never sees the value that the schedule begins with.",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        with Within(self, "_get_sp_called_within_step"):
            self.last_epoch += 1
            values = self.get_schedule_param()
        groups = self.data_sparsifier.data_groups
        for name, entry in groups.items():
            entry[self.schedule_param] = values[name]
            if self.verbose:
                print(f"Adjusting {self.schedule_param} for group {name} to {values[name]}")
        self._last_param = {name: entry.get(self.schedule_param) for name, entry in groups.items()}
        self.data_sparsifier.enable_mask_update = True
