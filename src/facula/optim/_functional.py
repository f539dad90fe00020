"""The functions of all optimizers where PyTorch has them together; and Adam's for sparse gradients."""

from __future__ import annotations

from typing import Any

from facula.optim.adam import adam, adamax, adamw, nadam, radam
from facula.optim.functions import step_function
from facula.optim.other import SparseAdam
from facula.optim.running_squares import adadelta, adagrad, asgd, rmsprop, rprop
from facula.optim.sgd import sgd

__all__ = [
    "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop", "sgd",
    "sparse_adam",
]  # fmt: skip

_sparse_adam = step_function(
    "sparse_adam",
    SparseAdam,
    {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq", "state_steps": "step"},
    "",
    "eps beta1 beta2 lr maximize",
)


def sparse_adam(
    params: list[Any],
    grads: list[Any],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    state_steps: list[int],
    **settings: object,
) -> None:
    """One step of `SparseAdam` for lists of tensors, in place.

    Args:
        state_steps: the number of each parameter's step, this one counted; it stays as it is
        settings: eps, beta1, beta2, lr, maximize
    """
    before = [step - 1 for step in state_steps]
    _sparse_adam(params, grads, exp_avgs, exp_avg_sqs, before, **settings)
