"""Averages of models over training: stochastic weight averaging and exponential moving averages.

Takes a model and, step by step, its parameters.  Gives `AveragedModel`, `SWALR` and `update_bn`.
Keeps true: the averaged model is a module of its own; buffers are copied, or averaged with
``use_buffers``. [Izmailov et al. 2018]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import facula
from facula import core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail
from facula.nn.modules.batchnorm import _BatchNorm
from facula.nn.modules.module import Module
from facula.optim.lr_base import LRScheduler

__all__ = """AveragedModel SWALR get_ema_avg_fn get_ema_multi_avg_fn get_swa_avg_fn
get_swa_multi_avg_fn update_bn""".split()


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        fail(
            ValueError,
            "get_ema_multi_avg_fn",
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.",
            hint="decay=0.999 is the default",
        )


def get_ema_avg_fn(decay: float = 0.999) -> Callable:
    """An exponential moving average: ``decay * average + (1 - decay) * value``, of one tensor, for
    `AveragedModel`.

    Args:
        decay: how much of the average stays, 0 to 1

    Raises:
        ValueError: ``decay`` is outside of [0, 1].

    Example:
        >>> facula.optim.swa_utils.get_ema_avg_fn(0.75)(facula.tensor([1.0]), facula.tensor([3.0]), facula.tensor(1))
        tensor([1.5000])
    """
    _check_decay(decay)

    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return no_grad()(ema_update)


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable:
    """An exponential moving average: ``decay * average + (1 - decay) * value``, of lists of tensors,
    in place, for `AveragedModel`.

    Args:
        decay: how much of the average stays, 0 to 1

    Raises:
        ValueError: ``decay`` is outside of [0, 1].

    Example:
        >>> average, value = [facula.tensor([1.0])], [facula.tensor([3.0])]
        >>> facula.optim.swa_utils.get_ema_multi_avg_fn(0.75)(average, value, facula.tensor(1))
        >>> average
        [tensor([1.5000])]
    """
    _check_decay(decay)

    def ema_update(ema_params: Any, current_params: Any, _: object) -> None:
        for average, current in zip(ema_params, current_params, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current.to(average.dtype), 1 - decay)
            else:
                average.copy_(average * decay + current * (1 - decay))

    return no_grad()(ema_update)


def get_swa_avg_fn() -> Callable:
    """The equal average of all values so far, of one tensor, for `AveragedModel`.

    Example:
        >>> facula.optim.swa_utils.get_swa_avg_fn()(facula.tensor([1.0]), facula.tensor([3.0]), facula.tensor(1))
        tensor([2.])
    """

    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return no_grad()(swa_update)


def get_swa_multi_avg_fn() -> Callable:
    """The equal average of all values so far, of lists of tensors, in place, for `AveragedModel`.

    Example:
        >>> average, value = [facula.tensor([1.0])], [facula.tensor([3.0])]
        >>> facula.optim.swa_utils.get_swa_multi_avg_fn()(average, value, facula.tensor(1))
        >>> average
        [tensor([2.])]
    """

    def swa_update(averaged_params: Any, current_params: Any, num_averaged: Any) -> None:
        weight = 1.0 / (float(num_averaged) + 1.0)
        for average, current in zip(averaged_params, current_params, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current.to(average.dtype), weight)
            else:
                average.copy_(average + (current - average) * weight)

    return no_grad()(swa_update)


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's over calls of
    ``update_parameters``. [Izmailov et al. 2018]

    Args:
        model: what is averaged
        device: where the averages are; None for the model's
        avg_fn: of (average, value, number of values so far), to the next average; None for the mean
        multi_avg_fn: the same of lists of tensors, in place
        use_buffers: whether buffers are averaged, too, and not copied

    Example:
        >>> model = facula.nn.Linear(1, 1, bias=False)
        >>> averaged = facula.optim.swa_utils.AveragedModel(model)
        >>> for value in (1.0, 3.0):
        ...     _ = model.weight.data.fill_(value)
        ...     averaged.update_parameters(model)
        >>> averaged.module.weight.item()
        2.0
    """

    n_averaged: Any

    def __init__(
        self,
        model: Module,
        device: core.device | str | int | None = None,
        avg_fn: Callable | None = None,
        multi_avg_fn: Callable | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            fail(
                AssertionError,
                "AveragedModel",
                "Only one of avg_fn and multi_avg_fn should be provided",
                hint="leave both out for the mean of all",
            )
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", facula.tensor(0, dtype=core.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's output."""
        return self.module(*args, **kwargs)

    def _tensors(self, module: Module) -> list[Any]:
        if self.use_buffers:
            return list(itertools.chain(module.parameters(), module.buffers()))
        return list(module.parameters())

    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the averages."""
        averages = [t.detach() for t in self._tensors(self.module)]
        current = [
            t.detach().to(a.device) for t, a in zip(self._tensors(model), averages, strict=True)
        ]
        count = self.n_averaged
        with no_grad():
            if int(count) == 0:
                for average, value in zip(averages, current, strict=True):
                    average.copy_(value)
            elif self.multi_avg_fn is not None or self.avg_fn is None:
                update = self.multi_avg_fn or get_swa_multi_avg_fn()
                update(averages, current, count)
            else:
                for average, value in zip(averages, current, strict=True):
                    average.copy_(self.avg_fn(average, value, count.to(average.device)))
            if not self.use_buffers:
                for mine, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                    mine.detach().copy_(theirs.detach().to(mine.device))
            self.n_averaged += 1


def update_bn(
    loader: Iterable[Any], model: Module, device: core.device | str | int | None = None
) -> None:
    """Computes the running statistics of a model's batch normalization over one pass of data.

    Averaged parameters need it before they are used, since the statistics were those of others.

    Args:
        loader: an iterable of batches, tensors or sequences whose first element is the input
        model: is run on all of them, in training mode
        device: to which batches are moved; None for none

    Example:
        >>> model = facula.nn.Sequential(facula.nn.BatchNorm1d(1))
        >>> facula.optim.swa_utils.update_bn([facula.tensor([[1.0], [3.0]])], model)
        >>> model[0].running_mean
        tensor([2.])
    """
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    with no_grad():
        for batch in loader:
            if isinstance(batch, (list, tuple)):
                batch = batch[0]
            model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Takes the rates to ``swa_lr`` over some epochs, and keeps them there.

    Args:
        optimizer: whose rates are set
        swa_lr: the last rate, a number or one for each group
        anneal_epochs: after how many epochs it is reached
        anneal_strategy: 'cos' or 'linear'
        last_epoch: the epoch to go on from; -1 to begin

    Example:
        >>> optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
        >>> schedule = facula.optim.swa_utils.SWALR(optimizer, 0.2, anneal_epochs=2, anneal_strategy="linear")
        >>> optimizer.step()
        >>> schedule.step()
        >>> round(optimizer.param_groups[0]["lr"], 2)
        0.6
    """

    def __init__(
        self,
        optimizer: Any,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        given = (
            swa_lr if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        )
        if len(given) != len(optimizer.param_groups):
            fail(
                ValueError,
                "SWALR",
                (
                    f"Invalid length of swa_lr: expected {len(optimizer.param_groups)}, got "
                    f"{len(given)}"
                ),
                hint="a single number serves all groups",
            )
        for value, group in zip(given, optimizer.param_groups, strict=True):
            group["swa_lr"] = value
        if anneal_strategy not in ("cos", "linear"):
            fail(
                ValueError,
                "SWALR",
                (
                    "anneal_strategy must by one of 'cos' or 'linear', instead got "
                    f"{anneal_strategy}"
                ),
                hint="leave anneal_strategy out for 'cos'",
            )
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            fail(
                ValueError,
                "SWALR",
                f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}",
                hint="anneal_epochs=0 changes the rate at once",
            )
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _linear_anneal(t: float) -> float:
        return t

    @staticmethod
    def _cosine_anneal(t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2

    def _anneal(self, t: float) -> float:
        if self._anneal_strategy == "cos":
            return self._cosine_anneal(t)
        return self._linear_anneal(t)

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        step = self._step_count - 1
        length = max(1, self.anneal_epochs)
        previous = self._anneal(max(0.0, min(1.0, (step - 1) / length)))
        alpha = self._anneal(max(0.0, min(1.0, step / length)))
        rates = []
        for group in self.optimizer.param_groups:
            target = group["swa_lr"]
            # what the schedule started from follows from where it stands now
            start = target if previous == 1 else (group["lr"] - previous * target) / (1 - previous)
            rates.append(target * alpha + start * (1 - alpha))
        return rates
