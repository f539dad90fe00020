"""What all learning-rate schedules share: `LRScheduler`, and how rates are read and written.

Takes an optimizer. Gives the base class.
Keeps true: a schedule takes effect when it is made; a rate that is a tensor is written to, not replaced.
"""

from __future__ import annotations

import warnings
from functools import wraps
from typing import Any
from weakref import ref

from facula import core
from facula.core.errors import fail
from facula.optim.optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from "
    "None, the closed form "
    "is used instead of the new chainable form, where available."
)


#: a schedule that is not told whether to print: the parameter went away after PyTorch 2.6
_DEPRECATED = "deprecated"


def _copy(value: object) -> Any:
    return value.clone() if isinstance(value, core.Tensor) else value


def _update_param_group_val(param_group: dict[str, Any], key: str, val: Any) -> None:
    """Set a setting; a tensor keeps its identity."""
    if isinstance(param_group[key], core.Tensor):
        param_group[key].fill_(float(val))
    else:
        param_group[key] = val


def _format_param(name: str, optimizer: Optimizer, param: Any) -> list[Any]:
    """One value a group."""
    groups = len(optimizer.param_groups)
    if not isinstance(param, (list, tuple)):
        return [_copy(param) for _ in range(groups)]
    if len(param) != groups:
        fail(
            ValueError,
            "scheduler",
            (
                f"{name} must have the same length as optimizer.param_groups. {name} has "
                f"{len(param)} values, param_groups has {groups}."
            ),
            hint="one value for each parameter group, or a single number for all",
        )
    return [_copy(value) for value in param]


def _leave_out_of_graphs(scheduler: type) -> None:
    """Its step counts in Python: captured, it would be captured anew for each count."""
    step = vars(scheduler).get("step")
    if step is not None:
        step._torchdynamo_disable = True


def _epoch_text(epoch: float) -> str:
    """An epoch as schedules print it: five digits, or a fraction."""
    return f"{epoch:.2f}" if isinstance(epoch, float) else f"{epoch:05d}"


class LRScheduler:
    """The base class of schedules: a subclass defines ``get_lr``, which gives the next rate of every
    group.

    ``step()`` goes on by an epoch and belongs behind ``optimizer.step()``; ``get_last_lr()`` gives
    the rates, ``state_dict`` and ``load_state_dict`` save and restore. ``self.base_lrs`` are the
    first rates, ``self.last_epoch`` is the number of the epoch.

    Args:
        optimizer: whose rates are set
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Example:
        >>> class Halves(facula.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [rate / 2**self.last_epoch for rate in self.base_lrs]
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = Halves(optimizer)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    _get_lr_called_within_step = False
    _is_initial = False
    #: whether each rate that is set is printed
    verbose = False

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        _leave_out_of_graphs(cls)

    def _checked_optimizer(self, optimizer: Optimizer) -> Optimizer:
        if not isinstance(optimizer, Optimizer):
            fail(
                TypeError,
                type(self).__name__,
                f"{type(optimizer).__name__} is not an Optimizer",
                hint="the optimizer is the first argument",
            )
        return optimizer

    def __init__(
        self, optimizer: Optimizer, last_epoch: int = -1, verbose: bool | str = _DEPRECATED
    ) -> None:
        self.optimizer = self._checked_optimizer(optimizer)
        self._set_verbose(verbose)
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", _copy(group["lr"]))
        else:
            for i, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    fail(
                        KeyError,
                        "scheduler",
                        (
                            f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                            "scheduler with last_epoch >= 0.\nThis typically happens when:\n1. You're "
                            "trying to resume training from a checkpoint but haven't properly loaded the "
                            "optimizer state\n2. You're using last_epoch >= 0 for a fresh training run "
                            "(not recommended)"
                        ),
                        hint="load the optimizer's state first, or leave last_epoch out",
                    )
        self.base_lrs: list[Any] = [_copy(g["initial_lr"]) for g in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._track_steps(optimizer)
        self._initial_step()

    def _set_verbose(self, verbose: bool | str) -> None:
        """Notes whether rates are printed; a word about it that PyTorch says too."""
        if verbose == _DEPRECATED:
            return
        warnings.warn(
            "The verbose parameter is deprecated. Please use get_last_lr() to access the learning rate.",
            UserWarning,
            stacklevel=4,
        )
        if verbose:
            self.verbose = True

    def print_lr(self, is_verbose: bool, group: int, lr: Any, epoch: float | None = None) -> None:
        """Print the rate of a group.

        Args:
            is_verbose: whether to do it at all
            group: its number
            lr: the rate
            epoch: the epoch, if it is to be named
        """
        if is_verbose:
            first = "Adjusting" if epoch is None else f"Epoch {_epoch_text(epoch)}: adjusting"
            print(f"{first} learning rate of group {group} to {float(lr):.4e}.")

    @staticmethod
    def _track_steps(optimizer: Any) -> None:
        """Note that the optimizer has stepped, to warn about the wrong order of calls."""
        if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
            return
        reference, function = ref(optimizer), optimizer.step.__func__

        @wraps(function)
        def tracked(*args: object, **kwargs: object) -> Any:
            owner: Any = reference()
            owner._opt_called = True
            return function.__get__(owner, type(owner))(*args, **kwargs)

        tracked._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        optimizer.step = tracked

    def _initial_step(self) -> None:
        """Set the first rates."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that are in effect."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The next rate of every group."""
        raise NotImplementedError

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def _present(self) -> list[Any]:
        return [_copy(group["lr"]) for group in self.optimizer.param_groups]

    def _check_order(self) -> None:
        if self._step_count != 1:
            return
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, "
                "make sure to call `optimizer.step()` before `lr_scheduler.step()`.",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                "1.1.0 and later, you should "
                "call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`. "
                "Failure to do this "
                "will result in PyTorch skipping the first value of the learning rate schedule.",
                UserWarning,
                stacklevel=3,
            )

    def step(self, epoch: int | None = None) -> None:
        """Set the next rates; with ``epoch`` those of that epoch."""
        self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                values = closed() if closed is not None else self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for number, (group, value) in enumerate(
            zip(self.optimizer.param_groups, values, strict=True)
        ):
            _update_param_group_val(group, "lr", value)
            self.print_lr(self.verbose, number, value, epoch)
        self._last_lr = self._present()


_leave_out_of_graphs(LRScheduler)
