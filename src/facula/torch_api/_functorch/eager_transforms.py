"""Function transforms where PyTorch defines them, and what libraries take from beside them.

Re-exports, and one helper. Keeps true: each name is the transform of `facula.func`.
"""

from __future__ import annotations

from typing import Any

from ..func import (
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)

__all__ = [
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "vjp",
]


def _as_tuple(val: Any) -> tuple[Any, ...]:
    """A tuple as it is, anything else as the only entry of one."""
    return val if isinstance(val, tuple) else (val,)
