"""Stochastic gradient descent with momentum. [Sutskever et al. 2013]

Takes parameters.  Gives `SGD`.
Keeps true: the first step starts the momentum buffer with the gradient itself.
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
    find_kernel,
    fits,
    launch,
    sign_of,
    with_decay,
)
from facula.optim.functions import step_function
from facula.optim.optimizer import ParamsT

__all__ = ["SGD", "sgd"]


class SGD(ElementwiseOptimizer):
    """Stochastic gradient descent, with momentum where asked for. [Sutskever et al. 2013]

    ``v = momentum v + (1 - dampening) g`` and ``p = p - lr v``; Nesterov's form steps by ``g +
    momentum v``. The first ``v`` is g itself.

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dictionaries with 'params'
            and settings of their own
        lr: the learning rate, a number or a tensor of one element
        momentum: how much of the last step stays
        dampening: how much less of the gradient counts
        weight_decay: factor of the parameters that is added to their gradients
        nesterov: whether the step looks ahead; needs momentum and no dampening
        maximize: whether steps go up instead of down
        foreach, fused: kept and checked as in PyTorch; one kernel does all parameters in any case
        differentiable: whether steps are recorded, so that gradients flow through them

    Raises:
        ValueError: a setting is outside of its range.

    Example:
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = facula.optim.SGD([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.8000, -1.6000])
    """

    _scalars = ()
    _late_defaults = {
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        if momentum < 0.0:
            fail(
                ValueError,
                "SGD",
                f"Invalid momentum value: {momentum}",
                hint="momentum=0 switches it off",
            )
        if weight_decay < 0.0:
            fail(
                ValueError,
                "SGD",
                f"Invalid weight_decay value: {weight_decay}",
                hint="weight_decay=0 switches it off",
            )
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        if nesterov and (momentum <= 0 or dampening != 0):
            fail(
                ValueError,
                "SGD",
                "Nesterov momentum requires a momentum and zero dampening",
                hint="for example momentum=0.9, dampening=0",
            )
        check_implementation(foreach, fused, differentiable)
        super().__init__(params, defaults)

    def _parameters(self, group: dict) -> tuple[float, ...]:
        return (
            float(group["lr"]),
            float(group["momentum"]),
            float(group["dampening"]),
            float(group["weight_decay"]),
            sign_of(group),
        )

    def _step_group(self, group: dict) -> None:
        momentum = group["momentum"] != 0
        suffix = ".nesterov" if group["nesterov"] else ""
        gathered = self._gather(group, ("momentum_buffer",) if momentum else ())
        if gathered.sizes:
            self._run(group, f"sgd.momentum{suffix}" if momentum else "sgd", gathered)
        starting = []
        for p, g, state in gathered.other:
            starts = momentum and "momentum_buffer" not in state and not g.is_sparse
            if starts and fits((p, g)):
                starting.append((p, g, state))
            else:
                self._step_one(group, p, g, state if momentum else {})
        if starting:
            self._start(group, f"sgd.first{suffix}", starting)

    def _start(self, group: dict, name: str, starting: list[tuple]) -> None:
        """The first step of parameters: it makes their momentum buffers."""
        by_dtype: dict[Any, list] = {}
        for entry in starting:
            by_dtype.setdefault(entry[0].dtype, []).append(entry)
        for dtype, entries in by_dtype.items():
            kernel = find_kernel(name, dtype)
            if kernel is None:
                for p, g, state in entries:
                    self._step_one(group, p, g, state)
                continue
            rows = []
            for p, g, state in entries:
                buffer = facula.empty_like(p, memory_format=facula.preserve_format).detach()
                state["momentum_buffer"] = buffer
                rows.append((p, g, buffer))
            launch(kernel, rows, self._parameters(group))

    def _state_names(self, group: dict) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _step_group_by_formula(self, group: dict) -> None:
        for p in group["params"]:
            if p.grad is not None:
                state = self.state[p] if group["momentum"] != 0 else {}
                self._step_one(group, p, p.grad, state)

    # what capture follows instead of launching kernels
    _step_group._facula_captured_as = _step_group_by_formula  # type: ignore[attr-defined]

    def _init_state(self, group: dict, parameter: core.Tensor, state: dict) -> None:
        """Nothing: the buffer comes with the first gradient."""

    def _step_one(self, group: dict, p: core.Tensor, g: core.Tensor, state: dict) -> None:
        if g.is_sparse:
            self._step_sparse(group, p, g, state)
            return
        view: Any = facula.view_as_real if p.is_complex() else _same
        lr, momentum = group["lr"], group["momentum"]
        target = view(p)
        grad = -view(g) if group["maximize"] else view(g)
        grad = with_decay(target, grad, group["weight_decay"])
        if momentum != 0:
            old = state.get("momentum_buffer")
            if old is None:
                buffer = grad.detach().clone()
            else:
                buffer = momentum * view(old) + (1 - group["dampening"]) * grad
            if old is None or group["differentiable"]:
                state["momentum_buffer"] = (
                    facula.view_as_complex(buffer) if p.is_complex() else buffer
                )
            else:
                view(old).copy_(buffer)
            grad = grad + momentum * buffer if group["nesterov"] else buffer
        target.copy_(target - lr * grad)

    def _check_gradient(self, group: dict, grad: core.Tensor) -> None:
        if grad.is_sparse and group["weight_decay"] != 0:
            fail(
                RuntimeError,
                "SGD",
                "SGD with weight_decay does not support sparse gradients",
                hint="weight_decay=0 takes sparse gradients",
            )

    def _step_sparse(self, group: dict, p: core.Tensor, g: core.Tensor, state: dict) -> None:
        """A step with a sparse gradient; the momentum buffer then is sparse, too."""
        self._check_gradient(group, g)
        g, momentum = -g if group["maximize"] else g, group["momentum"]
        if momentum != 0:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = g.detach().clone()
            else:
                buffer.mul_(momentum).add_(g, alpha=1 - group["dampening"])
            g = g + buffer * momentum if group["nesterov"] else buffer
        p.add_(g, alpha=-float(group["lr"]))


def _same(tensor: core.Tensor) -> Any:
    return tensor


sgd = step_function(
    "sgd",
    SGD,
    {"momentum_buffer_list": "momentum_buffer"},
    "has_sparse_grad foreach fused grad_scale found_inf",
    "weight_decay momentum lr dampening nesterov maximize",
)
