"""Optimizers that step during the backward pass, parameter by parameter.

Takes: a class of optimizers, parameters, options. Gives: nothing; parameters are updated when their
gradients are there.
Keeps true: a gradient that was used is dropped; a parameter may have several optimizers, which step in turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from facula.nn import Module
    from facula.optim import Optimizer

__all__: list[str] = []


def _apply_optimizer_in_backward(
    optimizer_class: type[Optimizer], params: Iterable[Any], optimizer_kwargs: dict[str, Any],
    register_hook: bool = True,
) -> None:  # fmt: skip
    """Have parameters updated as soon as their gradients are complete.

    Args:
        optimizer_class: what updates them; one optimizer is made for each
        params: the parameters
        optimizer_kwargs: its options
        register_hook: whether they are updated in the backward pass; otherwise somebody else calls the optimizers,
            which are the attribute `_in_backward_optimizers` of each parameter
    """
    for parameter in params:
        known = getattr(parameter, "_in_backward_optimizers", None)
        if known is None:
            known = parameter._in_backward_optimizers = []
            parameter._optimizer_classes, parameter._optimizer_kwargs = [], []
        known.append(optimizer_class([parameter], **optimizer_kwargs))
        parameter._optimizer_classes.append(optimizer_class)
        parameter._optimizer_kwargs.append(optimizer_kwargs)
        if register_hook and len(known) == 1:
            parameter.register_post_accumulate_grad_hook(_step)


def _step(parameter: Any) -> None:
    for optimizer in parameter._in_backward_optimizers:
        optimizer.step()
    parameter.grad = None


def _get_in_backward_optimizers(module: Module) -> list[Optimizer]:
    """The optimizers that update a module's parameters in the backward pass."""
    return [
        optimizer
        for parameter in module.parameters()
        for optimizer in getattr(parameter, "_in_backward_optimizers", [])
    ]
