"""Learning-rate schedules.

Takes an optimizer.  Gives schedules that set the learning rate of its groups at every `step`; those
of cycles and of a plateau stand in `lr_cycles`.
Keeps true: a schedule takes effect when it is made; most compute the next rate from the present
one, so that several can be chained; state dictionaries are PyTorch's.
"""

from __future__ import annotations

import math
import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from facula.core.errors import fail
from facula.optim.lr_base import (
    _DEPRECATED,
    EPOCH_DEPRECATION_WARNING,  # noqa: F401
    LRScheduler,
    _copy,
    _format_param,  # noqa: F401
    _update_param_group_val,
)
from facula.optim.lr_cycles import (
    CosineAnnealingWarmRestarts,  # noqa: F401
    CyclicLR,  # noqa: F401
    OneCycleLR,  # noqa: F401
    ReduceLROnPlateau,
)
from facula.optim.optimizer import Optimizer

__all__ = """LambdaLR MultiplicativeLR StepLR MultiStepLR ConstantLR LinearLR ExponentialLR
SequentialLR CosineAnnealingLR ChainedScheduler ReduceLROnPlateau CyclicLR
CosineAnnealingWarmRestarts OneCycleLR PolynomialLR LRScheduler""".split()


def _call_form(function: Callable[..., Any]) -> Any:
    """What a state dictionary keeps of a callable: the attributes of an object, nothing of a
    function.
    """
    return None if isinstance(function, types.FunctionType) else function.__dict__.copy()


class _LRScheduler(LRScheduler):
    """`LRScheduler` under its older name."""


class _enable_get_lr_call:
    """Inside, ``get_lr`` does not warn."""

    def __init__(self, o: LRScheduler) -> None:
        self.o = o

    def __enter__(self) -> _enable_get_lr_call:
        self.o._get_lr_called_within_step = True
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.o._get_lr_called_within_step = False


class LambdaLR(LRScheduler):
    """The first rate times a function of the epoch.

    Args:
        optimizer: whose rates are set
        lr_lambda: a function of the epoch number, or a list with one for each group
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = facula.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [1.0, 0.9, 0.81, 0.729]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Any,
        last_epoch: int = -1,
        verbose: bool | str = _DEPRECATED,
    ) -> None:
        self.lr_lambdas = _one_function_a_group(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch, verbose)

    def state_dict(self) -> dict[str, Any]:
        """Functions are left out; callable objects give their attributes."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [_call_form(function) for function in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        state = dict(state_dict)
        functions = state.pop("lr_lambdas")
        self.__dict__.update(state)
        for function, saved in zip(self.lr_lambdas, functions, strict=True):
            if saved is not None:
                function.__dict__.update(saved)

    def get_lr(self) -> list[Any]:
        """The next rate of every group."""
        self._warn_outside_step()
        return [
            base * function(self.last_epoch)
            for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]


def _one_function_a_group(optimizer: Optimizer, functions: Any) -> list[Callable[[int], float]]:
    groups = len(optimizer.param_groups)
    if not isinstance(functions, (list, tuple)):
        return [functions] * groups
    if len(functions) != groups:
        fail(
            ValueError,
            "scheduler",
            f"Expected {groups} lr_lambdas, but got {len(functions)}",
            hint="one function for each parameter group, or a single one for all",
        )
    return list(functions)


class MultiplicativeLR(LambdaLR):
    """The last rate times a function of the epoch.

    Args:
        optimizer: whose rates are set
        lr_lambda: a function of the epoch number, or a list with one for each group
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = facula.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [1.0, 0.5, 0.25, 0.125]
    """

    def get_lr(self) -> list[Any]:
        """The next rate of every group."""
        self._warn_outside_step()
        if self._is_initial:
            return self._present()
        return [
            lr * function(self.last_epoch)
            for function, lr in zip(self.lr_lambdas, self._present(), strict=True)
        ]


class StepLR(LRScheduler):
    """The rate times ``gamma`` every ``step_size`` epochs.

    Args:
        optimizer: whose rates are set
        step_size: epochs between changes
        gamma: the factor
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = facula.optim.lr_scheduler.StepLR(optimizer, step_size=2)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [1.0, 1.0, 0.1, 0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        step_size: int,
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool | str = _DEPRECATED,
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The next rate of every group."""
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._present()
        return [lr * self.gamma for lr in self._present()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times ``gamma`` at every milestone.

    Args:
        optimizer: whose rates are set
        milestones: increasing epoch numbers
        gamma: the factor
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = facula.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3])
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [1.0, 0.1, 0.1, 0.01]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool | str = _DEPRECATED,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The next rate of every group."""
        self._warn_outside_step()
        times = self.milestones[self.last_epoch] if self.last_epoch in self.milestones else 0
        return [lr * self.gamma**times if times else lr for lr in self._present()]

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times ``factor`` for the first ``total_iters`` epochs.

    Args:
        optimizer: whose rates are set
        factor: between 0 and 1
        total_iters: for how long
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Raises:
        ValueError: ``factor`` is not in [0, 1].

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = facula.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
        verbose: bool | str = _DEPRECATED,
    ) -> None:
        if factor > 1.0 or factor < 0:
            fail(
                ValueError,
                "ConstantLR",
                "Constant multiplicative factor expected to be between 0 and 1.",
                hint="factor=1/3 is the default",
            )
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The next rate of every group."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._present()]
        if self.last_epoch != self.total_iters:
            return self._present()
        return [lr * (1.0 / self.factor) for lr in self._present()]

    def _get_closed_form_lr(self) -> list[Any]:
        inside = self.last_epoch < self.total_iters
        return [base * (self.factor if inside else 1.0) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor that goes linearly from ``start_factor`` to ``end_factor``: a warm-up.

    Args:
        optimizer: whose rates are set
        start_factor: more than 0, at most 1
        end_factor: between 0 and 1
        total_iters: after how many epochs the end is reached
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Raises:
        ValueError: a factor is outside of its range.

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = facula.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=3)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [0.25, 0.5, 0.75, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
        verbose: bool | str = _DEPRECATED,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            fail(
                ValueError,
                "LinearLR",
                (
                    "Starting multiplicative factor expected to be greater than 0 and less or "
                    "equal to 1."
                ),
                hint="start_factor=1/3 is the default",
            )
        if end_factor > 1.0 or end_factor < 0:
            fail(
                ValueError,
                "LinearLR",
                "Ending multiplicative factor expected to be between 0 and 1.",
                hint="end_factor=1.0 is the default",
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The next rate of every group."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._present()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        change = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * change
        return [lr * (1.0 + change / before) for lr in self._present()]

    def _get_closed_form_lr(self) -> list[Any]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * done
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate times ``gamma`` every epoch.

    Args:
        optimizer: whose rates are set
        gamma: the factor
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = facula.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [1.0, 0.5, 0.25, 0.125]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        gamma: float,
        last_epoch: int = -1,
        verbose: bool | str = _DEPRECATED,
    ) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The next rate of every group."""
        self._warn_outside_step()
        if self._is_initial:
            return self._present()
        return [lr * self.gamma for lr in self._present()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The first rate times ``(1 - epoch / total_iters)^power``, and 0 from then on.

    Args:
        optimizer: whose rates are set
        total_iters: after how many epochs it is 0
        power: the exponent
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = facula.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [1.0, 0.75, 0.5, 0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
        verbose: bool | str = _DEPRECATED,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The next rate of every group."""
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        left = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return [lr * (left / before) ** self.power for lr in self._present()]

    def _get_closed_form_lr(self) -> list[Any]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (1.0 - done) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """The rate along half a cosine to ``eta_min`` over ``T_max`` epochs, and back if one goes on.
    [Loshchilov & Hutter 2017]

    Args:
        optimizer: whose rates are set
        T_max: epochs to the least rate
        eta_min: the least rate
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = facula.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [1.0, 0.75, 0.25, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,
        eta_min: float = 0.0,
        last_epoch: int = -1,
        verbose: bool | str = _DEPRECATED,
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The next rate of every group."""
        self._warn_outside_step()
        present = self._present()
        if self._is_initial:
            return present
        epoch, period, least = self.last_epoch, self.T_max, self.eta_min
        if self._step_count == 1 and epoch > 0:
            return [
                least + (lr - least) * (1 + math.cos(epoch * math.pi / period)) / 2
                for lr in present
            ]
        if (epoch - 1 - period) % (2 * period) == 0:
            # the step before was at the bottom: start up again
            rise = (1 - math.cos(math.pi / period)) / 2
            return [
                lr + (base - least) * rise for base, lr in zip(self.base_lrs, present, strict=True)
            ]
        ratio = (1 + math.cos(math.pi * epoch / period)) / (
            1 + math.cos(math.pi * (epoch - 1) / period)
        )
        return [ratio * (lr - least) + least for lr in present]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]


def _check_sequence(
    name: str, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler], others: str
) -> Optimizer:
    """The optimizer of all schedulers: the one given, else the first one's."""
    if len(schedulers) < 1:
        fail(
            ValueError,
            name,
            f"{name} expects at least one scheduler to be chained, but got no scheduler.",
            hint="pass a list of schedulers of one optimizer",
        )
    optimizer = optimizer or schedulers[0].optimizer
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            fail(
                TypeError,
                name,
                f"{name} at index {i} should have `optimizer` as its attribute.",
                hint="make the scheduler with the optimizer, and call super().__init__(optimizer)",
            )
        if isinstance(scheduler, ReduceLROnPlateau):
            fail(
                ValueError,
                name,
                (
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                    "additional kwargs to be specified when calling `step`, but got one at index "
                    f"{i} in the given schedulers sequence."
                ),
                hint="step it by itself: scheduler.step(metric)",
            )
        if optimizer != scheduler.optimizer:
            fail(
                ValueError,
                name,
                (
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(scheduler).__name__} at index {i} that is different from "
                    f"{others}."
                ),
                hint="chain those of each optimizer by themselves",
            )
    return optimizer


class SequentialLR(LRScheduler):
    """Schedules one after the other, changing at the milestones.

    Args:
        optimizer: whose rates are set
        schedulers: of that optimizer, in their order
        milestones: epoch numbers at which the next begins, one less than schedules
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Raises:
        ValueError: a schedule is of another optimizer, or the milestones are too many or too few.

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> warm = facula.optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2)
        >>> fall = facula.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        >>> schedule = facula.optim.lr_scheduler.SequentialLR(optimizer, [warm, fall], [2])
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(optimizer.param_groups[0]["lr"])
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [0.5, 0.75, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
        verbose: bool | str = _DEPRECATED,
    ) -> None:
        _check_sequence(type(self).__name__, optimizer, schedulers, "the optimizer passed in")
        if len(milestones) != len(schedulers) - 1:
            fail(
                ValueError,
                "SequentialLR",
                (
                    "Sequential Schedulers expects number of schedulers provided to be one more "
                    "than the number of milestone points, but got number of schedulers "
                    f"{len(schedulers)} and the number of milestones to be equal to "
                    f"{len(milestones)}"
                ),
                hint="each milestone is the step at which the next scheduler begins",
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        self._set_verbose(verbose)
        # every schedule took effect when it was made: undo all, and let the first one start
        for group in optimizer.param_groups:
            _update_param_group_val(group, "lr", group["initial_lr"])
        for scheduler in self._schedulers:
            _rewind(scheduler)
        self._schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Step the schedule whose turn it is."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """The state, with that of every schedule."""
        return _state_with_schedules(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        _load_with_schedules(self, state_dict)


def _rewind(scheduler: Any) -> None:
    """Count one step less, in nested schedules too."""
    for inner in getattr(scheduler, "_schedulers", ()):
        _rewind(inner)
    if hasattr(scheduler, "last_epoch"):
        scheduler.last_epoch -= 1


def _state_with_schedules(scheduler: Any) -> dict[str, Any]:
    state = {k: v for k, v in scheduler.__dict__.items() if k not in ("optimizer", "_schedulers")}
    state["_schedulers"] = [inner.state_dict() for inner in scheduler._schedulers]
    return state


def _load_with_schedules(scheduler: Any, state_dict: dict[str, Any]) -> None:
    state = dict(state_dict)
    inner_states = state.pop("_schedulers")
    scheduler.__dict__.update(state)
    for inner, inner_state in zip(scheduler._schedulers, inner_states, strict=True):
        inner.load_state_dict(inner_state)


class ChainedScheduler(LRScheduler):
    """Several schedules at once, each changing what the ones before left.

    Args:
        schedulers: of one optimizer
        optimizer: that optimizer; None for the one of the schedules

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> warm = facula.optim.lr_scheduler.ConstantLR(optimizer, 0.5, total_iters=2)
        >>> fall = facula.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        >>> schedule = facula.optim.lr_scheduler.ChainedScheduler([warm, fall])
        >>> optimizer.step()
        >>> schedule.step()
        >>> optimizer.param_groups[0]["lr"]
        0.25
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        name = type(self).__name__
        optimizer = _check_sequence(name, optimizer, schedulers, "the others")
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = [_copy(g["lr"]) for g in self._schedulers[-1].optimizer.param_groups]

    def step(self) -> None:  # type: ignore[override]
        """Step all of them."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = [_copy(g["lr"]) for g in self._schedulers[-1].optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The state, with that of every schedule."""
        return _state_with_schedules(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        _load_with_schedules(self, state_dict)
