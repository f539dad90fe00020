"""Learning-rate schedules of cycles and of plateaus.

Takes an optimizer.  Gives `CyclicLR`, `OneCycleLR`, `CosineAnnealingWarmRestarts`,
`ReduceLROnPlateau`.
Keeps true: where momentum is cycled with the rate, it goes the other way; for Adam it is the first
beta.
"""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.optim.lr_base import (
    _DEPRECATED,
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    _copy,
    _epoch_text,
    _format_param,
    _update_param_group_val,
)
from facula.optim.optimizer import Optimizer


def _set_momentum(group: dict, use_beta1: bool, value: object) -> None:
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CyclicLR(LRScheduler):
    """The rate up and down between two bounds; step it after every batch. [Smith 2017]

    Args:
        optimizer: whose rates are set
        base_lr, max_lr: the bounds, a number or one for each group
        step_size_up: steps from the lower to the upper
        step_size_down: steps back; None for as many
        mode: 'triangular', 'triangular2' (each cycle half as high) or 'exp_range' (times
            ``gamma^step``)
        gamma: the factor of 'exp_range'
        scale_fn: a function in the place of the mode
        scale_mode: 'cycle' or 'iterations': what ``scale_fn`` is called with
        cycle_momentum: whether momentum goes the other way
        base_momentum, max_momentum: the bounds of momentum
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> bounds = {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 2, "cycle_momentum": False}
        >>> schedule = facula.optim.lr_scheduler.CyclicLR(optimizer, **bounds)
        >>> rates = []
        >>> for epoch in range(5):
        ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [0.1, 0.3, 0.5, 0.3, 0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: object,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: object = 0.8,
        max_momentum: object = 0.9,
        last_epoch: int = -1,
        verbose: bool | str = _DEPRECATED,
    ) -> None:
        self.optimizer = self._checked_optimizer(optimizer)
        base_lrs = _format_param("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                _update_param_group_val(group, "lr", lr)
        self.max_lrs = _format_param("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = float(step_size_down) if step_size_down is not None else up
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            fail(
                ValueError,
                "CyclicLR",
                "mode is invalid and scale_fn is None",
                hint="'triangular', 'triangular2' and 'exp_range' are there",
            )
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = (
            scale_mode
            if scale_fn is not None
            else ("iterations" if mode == "exp_range" else "cycle")
        )
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._init_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch, verbose)
        self.base_lrs = base_lrs

    def _init_momentum(self, optimizer: Any, low: Any, high: Any, last_epoch: int) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            fail(
                ValueError,
                type(self).__name__,
                ("optimizer must support momentum or beta1 with `cycle_momentum` option enabled"),
                hint="cycle_momentum=False cycles the learning rate only",
            )
        self.use_beta1 = "betas" in optimizer.defaults
        self.base_momentums = _format_param("base_momentum", optimizer, low)
        self.max_momentums = _format_param("max_momentum", optimizer, high)
        if last_epoch == -1:
            groups = zip(
                self.max_momentums, self.base_momentums, optimizer.param_groups, strict=True
            )
            for most, least, group in groups:
                _set_momentum(group, self.use_beta1, most)
                group["max_momentum"] = most
                group["base_momentum"] = least

    def scale_fn(self, x: float) -> float:
        """The amplitude at a cycle or an iteration."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return self.gamma**x

    def get_lr(self) -> list[Any]:
        """The next rate of every group; sets the momentum too."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        amplitude = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        rates = [
            base + (most - base) * height * amplitude
            for base, most in zip(self.base_lrs, self.max_lrs, strict=True)
        ]
        if self.cycle_momentum:
            bounds = zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            )
            for least, most, group in bounds:
                _set_momentum(group, self.use_beta1, most - (most - least) * height * amplitude)
        return rates

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; a custom scale function is left out unless it is an object."""
        state = super().state_dict()
        function = state.pop("_scale_fn_custom", None)
        plain = function is None or isinstance(function, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else function.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        state = dict(state_dict)
        function = state.pop("_scale_fn_custom", None)
        super().load_state_dict(state)
        if function is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(function)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing that starts again after ``T_0`` epochs, then after ``T_mult`` times as many.
    [Loshchilov & Hutter 2017]

    ``step(epoch)`` takes fractions, for steps within an epoch.

    Args:
        optimizer: whose rates are set
        T_0: length of the first period
        T_mult: factor of the following lengths
        eta_min: the least rate
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Raises:
        ValueError: ``T_0`` or ``T_mult`` is no positive int.

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = facula.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
        verbose: bool | str = _DEPRECATED,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            fail(
                ValueError,
                "CosineAnnealingWarmRestarts",
                f"Expected positive integer T_0, but got {T_0}",
                hint="T_0 is the number of steps before the first restart",
            )
        if T_mult < 1 or not isinstance(T_mult, int):
            fail(
                ValueError,
                "CosineAnnealingWarmRestarts",
                f"Expected integer T_mult >= 1, but got {T_mult}",
                hint="T_mult=1 keeps the length of the cycles",
            )
        if not isinstance(eta_min, (float, int)):
            fail(
                ValueError,
                "CosineAnnealingWarmRestarts",
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}",
                hint="eta_min=0 is the default",
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The next rate of every group."""
        self._warn_outside_step()
        factor = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]

    def step(self, epoch: Any = None) -> None:
        """Set the next rates, or those of a (fractional) epoch."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            self._enter(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            for number, (group, lr) in enumerate(
                zip(self.optimizer.param_groups, self.get_lr(), strict=True)
            ):
                _update_param_group_val(group, "lr", lr)
                self.print_lr(self.verbose, number, lr, epoch)
        finally:
            self._get_lr_called_within_step = False
        self._last_lr = [_copy(group["lr"]) for group in self.optimizer.param_groups]

    def _update_lr(self, epoch: int | None = None) -> None:
        self.step(epoch)

    def _enter(self, epoch: Any) -> None:
        """Find the period in which ``epoch`` lies."""
        if epoch < 0:
            fail(
                ValueError,
                "CosineAnnealingWarmRestarts",
                f"Expected non-negative epoch, but got {epoch}",
                hint="leave epoch out for the next one",
            )
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n


class OneCycleLR(LRScheduler):
    """One rise of the rate to ``max_lr`` and one fall far below; step it after every batch. [Smith &
    Topin 2018]

    Args:
        optimizer: whose rates are set
        max_lr: the highest rate, a number or one for each group
        total_steps: number of steps; None for ``epochs * steps_per_epoch``
        epochs, steps_per_epoch: their factors
        pct_start: the share of steps that rise
        anneal_strategy: 'cos' or 'linear'
        cycle_momentum: whether momentum goes the other way
        base_momentum, max_momentum: the bounds of momentum
        div_factor: the first rate is ``max_lr`` divided by it
        final_div_factor: the last rate is the first divided by it
        three_phase: whether the fall mirrors the rise before the rate goes down for good
        last_epoch: the epoch to go on from; -1 to begin
        verbose: whether each rate that is set is printed, as PyTorch did until 2.6

    Raises:
        ValueError: neither ``total_steps`` nor both factors are given.

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = facula.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=5, cycle_momentum=False)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [0.04, 0.95, 0.611, 0.188]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: object,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: object = 0.85,
        max_momentum: object = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool | str = _DEPRECATED,
    ) -> None:
        self.optimizer = self._checked_optimizer(optimizer)
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            fail(
                ValueError,
                "OneCycleLR",
                f"Expected float between 0 and 1 pct_start, but got {pct_start}",
                hint="pct_start=0.3 is the default",
            )
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if anneal_strategy not in ("cos", "linear"):
            fail(
                ValueError,
                "OneCycleLR",
                (
                    "anneal_strategy must be one of 'cos' or 'linear', instead got "
                    f"{anneal_strategy}"
                ),
                hint="leave anneal_strategy out for 'cos'",
            )
        self._anneal_func_type = anneal_strategy
        peaks = _format_param("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["initial_lr"] = peak / div_factor
                group["max_lr"] = peak
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._init_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch, verbose)

    def _init_momentum(self, optimizer: Any, low: object, high: object, last_epoch: int) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            fail(
                ValueError,
                type(self).__name__,
                ("optimizer must support momentum or beta1 with `cycle_momentum` option enabled"),
                hint="cycle_momentum=False cycles the learning rate only",
            )
        self.use_beta1 = "betas" in optimizer.defaults
        highs = _format_param("max_momentum", optimizer, high)
        lows = _format_param("base_momentum", optimizer, low)
        if last_epoch == -1:
            for most, least, group in zip(highs, lows, optimizer.param_groups, strict=True):
                _set_momentum(group, self.use_beta1, most)
                group["max_momentum"] = most
                group["base_momentum"] = least

    def _anneal(self, start: Any, end: Any, done: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)
        return (end - start) * done + start

    def get_lr(self) -> list[Any]:
        """The next rate of every group; sets the momentum too."""
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            fail(
                ValueError,
                "OneCycleLR",
                f"Tried to step {step} times. The total number of steps is {self.total_steps}",
                hint="total_steps counts all calls of step()",
            )
        rates = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for i, phase in enumerate(self._schedule_phases):
                end = phase["end_step"]
                if step <= end or i == len(self._schedule_phases) - 1:
                    done = (step - start) / (end - start)
                    rates.append(
                        self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], done)
                    )
                    if self.cycle_momentum:
                        value = self._anneal(
                            group[phase["start_momentum"]], group[phase["end_momentum"]], done
                        )
                        _set_momentum(group, self.use_beta1, value)
                    break
                start = end
        return rates


def _total_steps(total: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total is not None:
        if total <= 0 or not isinstance(total, int):
            fail(
                ValueError,
                "OneCycleLR",
                f"Expected positive integer total_steps, but got {total}",
                hint="total_steps counts all calls of step()",
            )
        return total
    if epochs is None or steps_per_epoch is None:
        fail(
            ValueError,
            "OneCycleLR",
            "You must define either total_steps OR (epochs AND steps_per_epoch)",
            hint="for example total_steps=epochs * len(loader)",
        )
    for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
        if not isinstance(value, int) or value <= 0:
            fail(
                ValueError,
                "OneCycleLR",
                f"Expected positive integer {name}, but got {value}",
                hint="steps_per_epoch=len(loader) goes with epochs",
            )
    return epochs * steps_per_epoch


def _phases(total: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    def phase(end: float, lrs: tuple[str, str], momenta: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end,
            "start_lr": lrs[0],
            "end_lr": lrs[1],
            "start_momentum": momenta[0],
            "end_momentum": momenta[1],
        }

    up = phase(
        float(pct_start * total) - 1, ("initial_lr", "max_lr"), ("max_momentum", "base_momentum")
    )
    if not three_phase:
        down = phase(total - 1, ("max_lr", "min_lr"), ("base_momentum", "max_momentum"))
        return [up, down]
    back = phase(
        float(2 * pct_start * total) - 2,
        ("max_lr", "initial_lr"),
        ("base_momentum", "max_momentum"),
    )
    last = phase(total - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum"))
    return [up, back, last]


class ReduceLROnPlateau(LRScheduler):
    """The rate times ``factor`` when a metric has not got better for ``patience`` epochs.

    ``step(metric)`` takes the metric, once an epoch.

    Args:
        optimizer: whose rates are set
        mode: 'min' where less is better, 'max' where more is
        factor: less than 1
        patience: epochs without improvement that are let pass
        threshold: what counts as better
        threshold_mode: 'rel' for ``best * (1 -+ threshold)``, 'abs' for ``best -+ threshold``
        cooldown: epochs after a change in which nothing is counted
        min_lr: the least rate, a number or one for each group
        eps: changes below it are not made
        verbose: whether each reduction is printed, as PyTorch did until 2.6

    Raises:
        ValueError: ``factor`` is not less than 1, or a mode is unknown.

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = facula.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
        >>> for loss in (1.0, 0.9, 0.9, 0.9):
        ...     schedule.step(loss)
        >>> optimizer.param_groups[0]["lr"]
        0.1
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
        verbose: bool | str = _DEPRECATED,
    ) -> None:
        if factor >= 1.0:
            fail(
                ValueError,
                "ReduceLROnPlateau",
                "Factor should be < 1.0.",
                hint="factor=0.1 is the default",
            )
        self.factor = factor
        self.optimizer = self._checked_optimizer(optimizer)
        self._set_verbose(verbose)
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != len(optimizer.param_groups):
                fail(
                    ValueError,
                    "ReduceLROnPlateau",
                    f"expected {len(optimizer.param_groups)} min_lrs, got {len(min_lr)}",
                    hint="a single number serves all groups",
                )
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * len(optimizer.param_groups)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = [_copy(group["lr"]) for group in optimizer.param_groups]
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            fail(
                ValueError,
                "ReduceLROnPlateau",
                "mode " + mode + " is unknown!",
                hint="mode is 'min' or 'max', threshold_mode 'rel' or 'abs'",
            )
        if threshold_mode not in ("rel", "abs"):
            fail(
                ValueError,
                "ReduceLROnPlateau",
                "threshold mode " + threshold_mode + " is unknown!",
                hint="mode is 'min' or 'max', threshold_mode 'rel' or 'abs'",
            )
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether ``a`` beats ``best`` by more than the threshold."""
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            bound = best * (1.0 + sign * self.threshold)
        else:
            bound = best + sign * self.threshold
        return a < bound if self.mode == "min" else a > bound

    @property
    def in_cooldown(self) -> bool:
        """Whether bad epochs are not counted."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take in the epoch's metric."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = [_copy(group["lr"]) for group in self.optimizer.param_groups]

    def _reduce_lr(self, epoch: int) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                fail(
                    RuntimeError,
                    "ReduceLROnPlateau",
                    (
                        f"The number of param groups in the `optimizer` ({len(groups)}) differs from "
                        f"when `ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due "
                        "to a new param group being added to the optimizer. Please modify the "
                        "`min_lrs` field to match the length of the `optimizer` param groups."
                    ),
                    hint="scheduler.min_lrs.append(0.0) covers a new group",
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for number, (group, least) in enumerate(zip(groups, self.min_lrs, strict=True)):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                _update_param_group_val(group, "lr", new)
                if self.verbose:
                    print(
                        f"Epoch {_epoch_text(epoch)}: reducing learning rate of group {number} to {new:.4e}."
                    )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.__dict__.update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
