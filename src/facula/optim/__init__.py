"""Optimizers and learning-rate schedules.

Takes parameters.  Gives PyTorch's `torch.optim` names.
Keeps true: state dictionaries are interchangeable with PyTorch's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from facula.core.errors import fail
from facula.optim import lr_scheduler, swa_utils
from facula.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from facula.optim.lbfgs import LBFGS
from facula.optim.optimizer import Optimizer
from facula.optim.other import Adafactor, Muon, SparseAdam
from facula.optim.running_squares import ASGD, Adadelta, Adagrad, RMSprop, Rprop
from facula.optim.sgd import SGD

__all__ = """ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam Optimizer RAdam
RMSprop Rprop SGD SparseAdam lr_scheduler swa_utils swap_in_optimizer_params_and_state""".split()


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Any], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """A block in which an optimizer has other parameters and state; its own are back afterwards.

    Args:
        optimizer: whose parameters are changed
        swapin_parameters: tensors by name, in the order of the optimizer's own
        swapin_optim_state: state and settings, in the form of ``state_dict()``

    Raises:
        ValueError: there are more or fewer tensors than the optimizer has.

    Example:
        >>> w = facula.nn.Parameter(facula.zeros(1))
        >>> optimizer = facula.optim.SGD([w], lr=1.0, momentum=0.9)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> other, state = facula.nn.Parameter(facula.ones(1)), optimizer.state_dict()
        >>> with facula.optim.swap_in_optimizer_params_and_state(optimizer, {"w": other}, state):
        ...     optimizer.param_groups[0]["params"][0] is other
        True
    """
    tensors = list(swapin_parameters.values())
    count = sum(len(group["params"]) for group in optimizer.param_groups)
    if len(tensors) != count:
        fail(
            ValueError,
            "swap_in_optimizer_params_and_state",
            f"a tensor for each of {count} parameters",
            got=len(tensors),
            hint="give one for each parameter, in the order of the parameter groups",
        )
    groups, state = optimizer.param_groups, optimizer.state
    try:
        taken = iter(tensors)
        optimizer.param_groups = [
            {**saved, "params": [next(taken) for _ in own["params"]]}
            for own, saved in zip(groups, swapin_optim_state["param_groups"], strict=True)
        ]
        optimizer.state = type(state)(dict)
        for index, entry in swapin_optim_state["state"].items():
            optimizer.state[tensors[index] if isinstance(index, int) else index] = entry
        yield
    finally:
        optimizer.param_groups, optimizer.state = groups, state
