"""Which functional optimizer does what an optimizer does.

Takes: a class of optimizers. Gives: `as_functional_optim`, `register_functional_optim`.
Keeps true: a class that is known keeps its functional one.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.distributed.optim.functional import KINDS

__all__ = ["as_functional_optim", "register_functional_optim"]


def register_functional_optim(key: type, optim: type) -> None:
    """Make the functional form of an optimizer known; the first one that is told counts.

    Args:
        key: the optimizer
        optim: its functional form: takes parameters, options and `_allow_empty_param_list`; has `step_param`
    """
    KINDS.setdefault(key, optim)


def as_functional_optim(optim_cls: type, *args: Any, **kwargs: Any) -> Any:
    """The functional form of an optimizer, which is told parameters with their gradients.

    Args:
        optim_cls: the optimizer
        args, kwargs: its options

    Raises:
        ValueError: there is none.
    """
    made = KINDS.get(optim_cls)
    if made is None:
        fail(ValueError, "as_functional_optim", f"an optimizer out of {sorted(k.__name__ for k in KINDS)} was required "
             "(does not have a functional counterpart)", getattr(optim_cls, "__name__", optim_cls),
             hint="register_functional_optim makes others known")  # fmt: skip
    return made([], *args, **kwargs, _allow_empty_param_list=True)
