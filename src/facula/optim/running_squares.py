"""Optimizers that scale by running squares or by signs: RMSprop, Adagrad, Adadelta, Rprop; and
averaged descent, ASGD.

Takes parameters.  Gives the optimizers.
Keeps true: states and their names are PyTorch's.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.optim.elementwise import (
    ElementwiseOptimizer,
    check_implementation,
    check_lr,
    check_range,
    scalar_dtype,
    scalar_state,
    sign_of,
    with_decay,
    zeros_like,
)
from facula.optim.functions import step_function
from facula.optim.optimizer import ParamsT

__all__ = [
    "ASGD", "Adadelta", "Adagrad", "RMSprop", "Rprop", "adadelta", "adagrad", "asgd", "rmsprop", "rprop",
]  # fmt: skip


class _Family(ElementwiseOptimizer):
    _late_defaults: dict[str, Any] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }


class RMSprop(_Family):
    """Gradients divided by the root of their running mean square. [Hinton 2012; centred: Graves 2013]

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dictionaries with 'params'
            and settings of their own
        lr: the learning rate, a number or a tensor of one element
        alpha: how much of the running square stays
        eps: added to the root
        weight_decay: factor of the parameters that is added to their gradients
        momentum: how much of the last step stays
        centered: whether the running mean is taken off, so that the variance divides
        maximize: whether steps go up instead of down
        foreach, capturable: kept and checked as in PyTorch; one kernel does all parameters in any
            case
        differentiable: whether steps are recorded, so that gradients flow through them

    Raises:
        ValueError: a setting is outside of its range.

    Example:
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = facula.optim.RMSprop([w], lr=0.05)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.5000, -1.5000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: object = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_range("epsilon", eps)
        check_range("momentum", momentum)
        check_range("weight_decay", weight_decay)
        check_range("alpha", alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    _late_defaults = {**_Family._late_defaults, "momentum": 0, "centered": False}

    def _kernel_name(self, group: dict) -> str:
        centered = ".centered" if group["centered"] else ""
        return f"rmsprop{centered}{'.momentum' if group['momentum'] > 0 else ''}"

    def _state_names(self, group: dict) -> tuple[str, ...]:
        names = ["square_avg"]
        if group["centered"]:
            names.append("grad_avg")
        if group["momentum"] > 0:
            names.append("momentum_buffer")
        return tuple(names)

    def _init_state(self, group: dict, parameter: core.Tensor, state: dict) -> None:
        state["step"] = scalar_state(0.0, group, parameter)
        state["square_avg"] = zeros_like(parameter)
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(parameter)
        if group["centered"]:
            state["grad_avg"] = zeros_like(parameter)

    def _parameters(self, group: dict) -> tuple[float, ...]:
        names = ("lr", "alpha", "eps", "weight_decay", "momentum")
        return (*[float(group[name]) for name in names], sign_of(group))

    def _formula(
        self, group: dict, p: core.Tensor, g: core.Tensor, state: dict, step: object
    ) -> tuple[Any, dict]:
        alpha = group["alpha"]
        g = with_decay(p, g, group["weight_decay"])
        square = state["square_avg"] * alpha + (1 - alpha) * g * g
        new = {"square_avg": square}
        spread = square
        if group["centered"]:
            mean = state["grad_avg"] + (g - state["grad_avg"]) * (1 - alpha)
            new["grad_avg"] = mean
            spread = square - mean * mean
        update = g / (spread.sqrt() + group["eps"])
        if group["momentum"] > 0:
            update = new["momentum_buffer"] = state["momentum_buffer"] * group["momentum"] + update
        return p - group["lr"] * update, new


class Adagrad(_Family):
    """Gradients divided by the root of the sum of their squares. [Duchi, Hazan & Singer 2011]

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dictionaries with 'params'
            and settings of their own
        lr: the learning rate, a number or a tensor of one element
        lr_decay: the rate of step t is ``lr / (1 + (t - 1) lr_decay)``
        weight_decay: factor of the parameters that is added to their gradients
        initial_accumulator_value: where the sums start
        eps: added to the root
        maximize: whether steps go up instead of down
        foreach, fused: kept and checked as in PyTorch; one kernel does all parameters in any case
        differentiable: whether steps are recorded, so that gradients flow through them

    Raises:
        ValueError: a setting is outside of its range.

    Example:
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = facula.optim.Adagrad([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.9000, -1.9000])
    """

    _states = ("sum",)

    def __init__(
        self,
        params: ParamsT,
        lr: object = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_range("lr_decay", lr_decay)
        check_range("weight_decay", weight_decay)
        check_range("initial_accumulator_value", initial_accumulator_value)
        check_range("epsilon", eps)
        check_implementation(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        # unlike others, its state exists from the start
        for group in self.param_groups:
            for parameter in group["params"]:
                self._init_state(group, parameter, self.state[parameter])

    _late_defaults = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "fused": None,
    }

    def _init_state(self, group: dict, parameter: core.Tensor, state: dict) -> None:
        value = group["initial_accumulator_value"]
        state["step"] = facula.tensor(0.0, dtype=scalar_dtype())
        start = complex(value, value) if parameter.is_complex() else value
        state["sum"] = facula.full_like(
            parameter, start, memory_format=facula.preserve_format
        ).detach()

    def share_memory(self) -> None:
        """Put the state into memory that other processes can map."""
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["sum"].share_memory_()

    def _kernel_name(self, group: dict) -> str:
        return "adagrad"

    def _check_gradient(self, group: dict, grad: core.Tensor) -> None:
        if grad.is_sparse and group["weight_decay"] != 0:
            fail(
                RuntimeError,
                "Adagrad",
                "weight_decay option is not compatible with sparse gradients",
                hint="weight_decay=0 takes sparse gradients",
            )

    def _parameters(self, group: dict) -> tuple[float, ...]:
        names = ("lr", "lr_decay", "eps", "weight_decay")
        return (*[float(group[name]) for name in names], sign_of(group))

    def _step_one(self, group: dict, p: core.Tensor, g: core.Tensor, state: dict) -> None:
        if not g.is_sparse:
            super()._step_one(group, p, g, state)
            return
        self._check_gradient(group, g)
        state["step"].add_(1)
        size = float(group["lr"]) / (1 + (float(state["step"]) - 1) * group["lr_decay"])
        g = g.coalesce()  # the update is not linear in the gradient
        indices, values = g._indices(), g._values()
        if group["maximize"]:
            values = -values
        if values.numel() == 0:
            return

        def sparse(v: object) -> Any:
            return facula.sparse_coo_tensor(indices, v, g.size())

        state["sum"].add_(sparse(values.pow(2)))
        std = state["sum"].sparse_mask(g)._values().sqrt_().add_(group["eps"])
        p.add_(sparse(values / std), alpha=-size)

    def _formula(
        self, group: dict, p: core.Tensor, g: core.Tensor, state: dict, step: Any
    ) -> tuple[Any, dict]:
        g = with_decay(p, g, group["weight_decay"])
        size = group["lr"] / (1 + (step - 1) * group["lr_decay"])
        total = state["sum"] + g * g
        return p - size * (g / (total.sqrt() + group["eps"])), {"sum": total}


class Adadelta(_Family):
    """Steps in the units of the parameter: by running squares of gradients and of steps. [Zeiler 2012]

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dictionaries with 'params'
            and settings of their own
        lr: factor of the steps
        rho: how much of the running squares stays
        eps: added below both roots
        weight_decay: factor of the parameters that is added to their gradients
        maximize: whether steps go up instead of down
        foreach, capturable: kept and checked as in PyTorch; one kernel does all parameters in any
            case
        differentiable: whether steps are recorded, so that gradients flow through them

    Raises:
        ValueError: a setting is outside of its range.

    Example:
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = facula.optim.Adadelta([w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.9968, -1.9968])
    """

    _states = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: ParamsT,
        lr: object = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            fail(ValueError, "Adadelta", f"Invalid rho value: {rho}", hint="rho=0.9 is the default")
        check_range("epsilon", eps)
        check_range("weight_decay", weight_decay)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _kernel_name(self, group: dict) -> str:
        return "adadelta"

    def _parameters(self, group: dict) -> tuple[float, ...]:
        names = ("lr", "rho", "eps", "weight_decay")
        return (*[float(group[name]) for name in names], sign_of(group))

    def _formula(
        self, group: dict, p: core.Tensor, g: core.Tensor, state: dict, step: object
    ) -> tuple[Any, dict]:
        rho, eps = group["rho"], group["eps"]
        g = with_decay(p, g, group["weight_decay"])
        square = state["square_avg"] * rho + (1 - rho) * g * g
        delta = (state["acc_delta"] + eps).sqrt() / (square + eps).sqrt() * g
        accumulated = state["acc_delta"] * rho + (1 - rho) * delta * delta
        return p - group["lr"] * delta, {"square_avg": square, "acc_delta": accumulated}


class Rprop(_Family):
    """Steps by the sign of the gradient, longer while it stays and shorter when it turns. [Riedmiller
    & Braun 1993]

    For full batches: the size of gradients does not count.

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dictionaries with 'params'
            and settings of their own
        lr: the first step
        etas: factors of a step when the sign turns, and while it stays
        step_sizes: the least and the largest step
        maximize: whether steps go up instead of down
        foreach, capturable: kept and checked as in PyTorch; one kernel does all parameters in any
            case
        differentiable: whether steps are recorded, so that gradients flow through them

    Raises:
        ValueError: a setting is outside of its range.

    Example:
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = facula.optim.Rprop([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.9000, -1.9000])
    """

    _states = ("prev", "step_size")

    def __init__(
        self,
        params: ParamsT,
        lr: object = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            fail(
                ValueError,
                "Rprop",
                f"Invalid eta values: {etas[0]}, {etas[1]}",
                hint="etas=(0.5, 1.2) is the default",
            )
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _kernel_name(self, group: dict) -> str:
        return "rprop"

    def _init_state(self, group: dict, parameter: core.Tensor, state: dict) -> None:
        lr = group["lr"]
        state["step"] = scalar_state(0.0, group, parameter)
        state["prev"] = zeros_like(parameter)
        start = complex(float(lr), float(lr)) if parameter.is_complex() else float(lr)
        state["step_size"] = facula.full_like(parameter, start).detach()

    def _parameters(self, group: dict) -> tuple[float, ...]:
        numbers = (*group["etas"], *group["step_sizes"])
        return (*[float(x) for x in numbers], sign_of(group))

    def _formula(
        self, group: dict, p: core.Tensor, g: core.Tensor, state: dict, step: object
    ) -> tuple[Any, dict]:
        (shorter, longer), (least, most) = group["etas"], group["step_sizes"]
        agreement = (g * state["prev"]).sign()
        one = facula.ones_like(g)
        factor = facula.where(
            agreement > 0, one * longer, facula.where(agreement < 0, one * shorter, one)
        )
        size = (state["step_size"] * factor).clamp(least, most)
        g = facula.where(agreement < 0, facula.zeros_like(g), g)
        return p - g.sign() * size, {"prev": g, "step_size": size}


class ASGD(_Family):
    """Gradient descent with a running average of the parameters, kept as ``ax`` in the state. [Polyak
    & Juditsky 1992]

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dictionaries with 'params'
            and settings of their own
        lr: the learning rate, a number or a tensor of one element
        lambd: factor of the decay of parameters and rate
        alpha: exponent of the rate's decay
        t0: the step from which is averaged
        weight_decay: factor of the parameters that is added to their gradients
        maximize: whether steps go up instead of down
        foreach, capturable: kept and checked as in PyTorch; one kernel does all parameters in any
            case
        differentiable: whether steps are recorded, so that gradients flow through them

    Raises:
        ValueError: a setting is outside of its range.

    Example:
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = facula.optim.ASGD([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.8000, -1.6000])
    """

    _states = ("ax",)
    _scalars = ("step", "eta", "mu")

    def __init__(
        self,
        params: ParamsT,
        lr: object = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_range("weight_decay", weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _kernel_name(self, group: dict) -> str:
        return "asgd"

    def _init_state(self, group: dict, parameter: core.Tensor, state: dict) -> None:
        where = parameter.device
        dtype = scalar_dtype()
        state["step"] = facula.zeros((), device=where, dtype=dtype)
        state["eta"] = facula.tensor(float(group["lr"]), device=where, dtype=dtype)
        state["mu"] = facula.ones((), device=where, dtype=dtype)
        state["ax"] = zeros_like(parameter)

    def _parameters(self, group: dict) -> tuple[float, ...]:
        names = ("lr", "lambd", "alpha", "t0", "weight_decay")
        return (*[float(group[name]) for name in names], sign_of(group))

    def _formula(
        self, group: dict, p: core.Tensor, g: core.Tensor, state: dict, step: Any
    ) -> tuple[Any, dict]:
        lr, lambd = group["lr"], group["lambd"]
        g = with_decay(p, g, group["weight_decay"])
        eta, mu = state["eta"], state["mu"]
        if not isinstance(step, core.Tensor):
            eta, mu = float(eta), float(mu)
        p = p * (1 - lambd * eta) - eta * g
        if isinstance(mu, core.Tensor):
            average = facula.where(mu == 1, p, state["ax"] + (p - state["ax"]) * mu)
            late = (step - group["t0"]).clamp(min=1)
        else:
            average = p if mu == 1 else state["ax"] + (p - state["ax"]) * mu
            late = max(1.0, step - group["t0"])
        new_eta = lr / (1 + lambd * lr * step) ** group["alpha"]
        dtype = state["eta"].dtype
        return p, {
            "ax": average,
            "eta": facula.as_tensor(new_eta, dtype=dtype),
            "mu": facula.as_tensor(1 / late, dtype=dtype),
        }


rmsprop = step_function(
    "rmsprop",
    RMSprop,
    {
        "square_avgs": "square_avg",
        "grad_avgs": "grad_avg",
        "momentum_buffer_list": "momentum_buffer",
        "state_steps": "step",
    },
    "foreach maximize differentiable capturable has_complex",
    "lr alpha eps weight_decay momentum centered",
)
adagrad = step_function(
    "adagrad",
    Adagrad,
    {"state_sums": "sum", "state_steps": "step"},
    "fused grad_scale found_inf has_sparse_grad foreach differentiable has_complex",
    "lr weight_decay lr_decay eps maximize",
)
adadelta = step_function(
    "adadelta",
    Adadelta,
    {"square_avgs": "square_avg", "acc_deltas": "acc_delta", "state_steps": "step"},
    "capturable foreach differentiable has_complex",
    "lr rho eps weight_decay maximize",
)
rprop = step_function(
    "rprop",
    Rprop,
    {"prevs": "prev", "step_sizes": "step_size", "state_steps": "step"},
    "foreach capturable maximize differentiable has_complex",
    "step_size_min step_size_max etaminus etaplus",
)
asgd = step_function(
    "asgd",
    ASGD,
    {"axs": "ax", "mus": "mu", "etas": "eta", "state_steps": "step"},
    "foreach maximize differentiable capturable has_complex",
    "lambd lr t0 alpha weight_decay",
)
