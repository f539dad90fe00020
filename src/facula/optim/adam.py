"""Adam, AdamW, and their relatives Adamax, NAdam, RAdam.

Takes parameters.  Gives the optimizers.
Keeps true: states and their names are PyTorch's; ``step`` is a zero-dimensional tensor that counts
from 1.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.optim.elementwise import (
    ElementwiseOptimizer,
    check_betas,
    check_implementation,
    check_lr,
    check_range,
    scalar_state,
    sign_of,
    square_root,
    with_decay,
    zeros_like,
)
from facula.optim.functions import step_function
from facula.optim.optimizer import ParamsT

__all__ = [
    "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "adam", "adamax", "adamw", "nadam", "radam",
]  # fmt: skip


class _AdamFamily(ElementwiseOptimizer):
    """Settings that all of them have."""

    _states = ("exp_avg", "exp_avg_sq")
    _late_defaults: dict[str, Any] = {
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
    }

    def _parameters(self, group: dict) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        return (
            float(group["lr"]),
            float(beta1),
            float(beta2),
            float(group["eps"]),
            float(group["weight_decay"]),
            sign_of(group),
        )

    def _decay(self, group: dict, p: core.Tensor, g: core.Tensor) -> tuple[Any, Any]:
        """Parameter and gradient after weight decay of either kind."""
        weight_decay = group["weight_decay"]
        if group.get("decoupled_weight_decay"):
            return p * (1 - group["lr"] * weight_decay), g
        return p, with_decay(p, g, weight_decay)

    def _moments(self, group: dict, g: core.Tensor, state: dict) -> tuple[Any, Any]:
        beta1, beta2 = group["betas"]
        first = state["exp_avg"] + (g - state["exp_avg"]) * (1 - beta1)
        second = state["exp_avg_sq"] * beta2 + (1 - beta2) * g * g
        return first, second


class Adam(_AdamFamily):
    """Steps of about ``lr``, by running moments of the gradient. [Kingma & Ba 2015]

    ``p = p - lr m / (sqrt(v) + eps)``, m and v the running means of g and g^2, divided by ``1 -
    beta^t``.

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dictionaries with 'params'
            and settings of their own
        lr: the learning rate, a number or a tensor of one element
        betas: how much of the running means of g and g^2 stays
        eps: added to the root
        weight_decay: factor of the parameters that is added to their gradients
        amsgrad: whether the largest v so far is taken [Reddi et al. 2018]
        maximize: whether steps go up instead of down
        foreach, fused, capturable: kept and checked as in PyTorch; one kernel does all parameters
            in any case
        differentiable: whether steps are recorded, so that gradients flow through them
        decoupled_weight_decay: whether decay is that of `AdamW`

    Raises:
        ValueError: a setting is outside of its range.

    Example:
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = facula.optim.Adam([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.9000, -1.9000])
    """

    _live_step = True

    def __init__(
        self,
        params: ParamsT,
        lr: object = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_lr(lr, foreach, capturable)
        check_range("epsilon", eps)
        check_betas(betas, foreach, capturable, tensors=True)
        check_range("weight_decay", weight_decay)
        check_implementation(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    _late_defaults = {**_AdamFamily._late_defaults, "amsgrad": False, "fused": None}

    def _kernel_name(self, group: dict) -> str:
        base = "adamw" if group["decoupled_weight_decay"] else "adam"
        return base + ".amsgrad" if group["amsgrad"] else base

    def _state_names(self, group: dict) -> tuple[str, ...]:
        return (*self._states, "max_exp_avg_sq") if group["amsgrad"] else self._states

    def _check_gradient(self, group: dict, grad: core.Tensor) -> None:
        if grad.is_sparse:
            fail(
                RuntimeError,
                "Adam",
                "Adam does not support sparse gradients, please consider SparseAdam instead",
                hint="facula.optim.SparseAdam takes them",
            )

    def _formula(
        self, group: dict, p: core.Tensor, g: core.Tensor, state: dict, step: Any
    ) -> tuple[Any, dict]:
        beta1, beta2 = group["betas"]
        p, g = self._decay(group, p, g)
        first, second = self._moments(group, g, state)
        new = {"exp_avg": first, "exp_avg_sq": second}
        largest = second
        if group["amsgrad"]:
            largest = new["max_exp_avg_sq"] = facula.maximum(state["max_exp_avg_sq"], second)
        size = group["lr"] / (1 - beta1**step)
        # a number times elements, where a quotient would be one more division for each of them
        scale = 1 / square_root(1 - beta2**step)
        return p - size * (first / (largest.sqrt() * scale + group["eps"])), new


class AdamW(Adam):
    """`Adam` whose weight decay does not go through the moments: ``p = p (1 - lr weight_decay)``
    before each step. [Loshchilov & Hutter 2019]

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dictionaries with 'params'
            and settings of their own
        lr: the learning rate, a number or a tensor of one element
        betas: how much of the running means of g and g^2 stays
        eps: added to the root
        weight_decay: factor of the decay
        amsgrad: whether the largest v so far is taken
        maximize: whether steps go up instead of down
        foreach, fused, capturable: kept and checked as in PyTorch; one kernel does all parameters
            in any case
        differentiable: whether steps are recorded, so that gradients flow through them

    Raises:
        ValueError: a setting is outside of its range.

    Example:
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = facula.optim.AdamW([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.8990, -1.8980])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: object = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


class Adamax(_AdamFamily):
    """`Adam` by the infinity norm: the largest decayed gradient takes the place of the root of v.
    [Kingma & Ba 2015]

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dictionaries with 'params'
            and settings of their own
        lr: the learning rate, a number or a tensor of one element
        betas: how much of the mean of g and of the largest g stays
        eps: added to the absolute gradient
        weight_decay: factor of the parameters that is added to their gradients
        maximize: whether steps go up instead of down
        foreach, capturable: kept and checked as in PyTorch; one kernel does all parameters in any
            case
        differentiable: whether steps are recorded, so that gradients flow through them

    Raises:
        ValueError: a setting is outside of its range.

    Example:
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = facula.optim.Adamax([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.9000, -1.9000])
    """

    _states = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: ParamsT,
        lr: object = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_range("epsilon", eps)
        check_betas(betas)
        check_range("weight_decay", weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    _late_defaults = {
        k: v for k, v in _AdamFamily._late_defaults.items() if k != "decoupled_weight_decay"
    }

    def _kernel_name(self, group: dict) -> str:
        return "adamax"

    def _formula(
        self, group: dict, p: core.Tensor, g: core.Tensor, state: dict, step: Any
    ) -> tuple[Any, dict]:
        beta1, beta2 = group["betas"]
        p, g = self._decay(group, p, g)
        first = state["exp_avg"] + (g - state["exp_avg"]) * (1 - beta1)
        largest = facula.maximum(state["exp_inf"] * beta2, g.abs() + group["eps"])
        size = group["lr"] / (1 - beta1**step)
        return p - size * (first / largest), {"exp_avg": first, "exp_inf": largest}


class NAdam(_AdamFamily):
    """`Adam` with Nesterov's momentum, which grows during training. [Dozat 2016]

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dictionaries with 'params'
            and settings of their own
        lr: the learning rate, a number or a tensor of one element
        betas: how much of the running means of g and g^2 stays
        eps: added to the root
        weight_decay: factor of the parameters that is added to their gradients
        momentum_decay: how fast momentum approaches its limit
        decoupled_weight_decay: whether decay is that of `AdamW`
        maximize: whether steps go up instead of down
        foreach, capturable: kept and checked as in PyTorch; one kernel does all parameters in any
            case
        differentiable: whether steps are recorded, so that gradients flow through them

    Raises:
        ValueError: a setting is outside of its range.

    Example:
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = facula.optim.NAdam([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.8944, -1.8944])
    """

    _scalars = ("step", "mu_product")

    def __init__(
        self,
        params: ParamsT,
        lr: object = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_range("epsilon", eps)
        check_betas(betas)
        check_range("weight_decay", weight_decay)
        check_range("momentum_decay", momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _kernel_name(self, group: dict) -> str:
        return "nadam.decoupled" if group["decoupled_weight_decay"] else "nadam"

    def _parameters(self, group: dict) -> tuple[float, ...]:
        return (*super()._parameters(group), float(group["momentum_decay"]))

    def _init_state(self, group: dict, parameter: core.Tensor, state: dict) -> None:
        state["step"] = scalar_state(0.0, group, parameter)
        state["mu_product"] = scalar_state(1.0, group, parameter)
        state["exp_avg"] = zeros_like(parameter)
        state["exp_avg_sq"] = zeros_like(parameter)

    def _formula(
        self, group: dict, p: core.Tensor, g: core.Tensor, state: dict, step: Any
    ) -> tuple[Any, dict]:
        beta1, beta2 = group["betas"]
        lr, decay = group["lr"], group["momentum_decay"]
        p, g = self._decay(group, p, g)
        first, second = self._moments(group, g, state)
        mu = beta1 * (1 - 0.5 * 0.96 ** (step * decay))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * decay))
        product = state["mu_product"] * mu
        denominator = (second / (1 - beta2**step)).sqrt() + group["eps"]
        p = p - lr * (1 - mu) / (1 - product) * (g / denominator)
        p = p - lr * mu_next / (1 - product * mu_next) * (first / denominator)
        return p, {"exp_avg": first, "exp_avg_sq": second, "mu_product": product}


class RAdam(_AdamFamily):
    """`Adam` that goes without the second moment until its variance can be told. [Liu et al. 2020]

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dictionaries with 'params'
            and settings of their own
        lr: the learning rate, a number or a tensor of one element
        betas: how much of the running means of g and g^2 stays
        eps: added to the root
        weight_decay: factor of the parameters that is added to their gradients
        decoupled_weight_decay: whether decay is that of `AdamW`
        maximize: whether steps go up instead of down
        foreach, capturable: kept and checked as in PyTorch; one kernel does all parameters in any
            case
        differentiable: whether steps are recorded, so that gradients flow through them

    Raises:
        ValueError: a setting is outside of its range.

    Example:
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = facula.optim.RAdam([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.8000, -1.6000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: object = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_range("epsilon", eps)
        check_betas(betas)
        check_range("weight_decay", weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _kernel_name(self, group: dict) -> str:
        return "radam.decoupled" if group["decoupled_weight_decay"] else "radam"

    def _formula(
        self, group: dict, p: core.Tensor, g: core.Tensor, state: dict, step: Any
    ) -> tuple[Any, dict]:
        beta1, beta2 = group["betas"]
        p, g = self._decay(group, p, g)
        first, second = self._moments(group, g, state)
        power = beta2**step
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * power / (1 - power)
        update = first / (1 - beta1**step)
        ratio = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
        if isinstance(length, core.Tensor):
            rectified = (ratio * (1 - power)).clamp(min=0).sqrt() / (second.sqrt() + group["eps"])
            update = update * facula.where(length > 5.0, rectified, 1.0)
        elif length > 5.0:
            update = update * (ratio * (1 - power)) ** 0.5 / (second.sqrt() + group["eps"])
        return p - group["lr"] * update, {"exp_avg": first, "exp_avg_sq": second}


_MOMENTS = {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq"}
_ADAM = {**_MOMENTS, "max_exp_avg_sqs": "max_exp_avg_sq", "state_steps": "step"}
_ADAM_OPTIONS = "foreach capturable differentiable fused grad_scale found_inf has_complex"
_ADAM_SETTINGS = "amsgrad beta1 beta2 lr weight_decay eps maximize"

adam = step_function("adam", Adam, _ADAM, f"{_ADAM_OPTIONS} decoupled_weight_decay", _ADAM_SETTINGS)
adamw = step_function("adamw", AdamW, _ADAM, _ADAM_OPTIONS, _ADAM_SETTINGS)
adamax = step_function(
    "adamax",
    Adamax,
    {"exp_avgs": "exp_avg", "exp_infs": "exp_inf", "state_steps": "step"},
    "foreach maximize differentiable capturable has_complex",
    "eps beta1 beta2 lr weight_decay",
)
nadam = step_function(
    "nadam",
    NAdam,
    {**_MOMENTS, "mu_products": "mu_product", "state_steps": "step"},
    "decoupled_weight_decay foreach capturable differentiable has_complex maximize",
    "beta1 beta2 lr weight_decay momentum_decay eps",
)
radam = step_function(
    "radam",
    RAdam,
    {**_MOMENTS, "state_steps": "step"},
    "decoupled_weight_decay foreach differentiable capturable has_complex maximize",
    "beta1 beta2 lr weight_decay eps",
)
