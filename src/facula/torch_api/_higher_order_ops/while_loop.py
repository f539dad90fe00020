"""`while_loop`: a function applied to a state as long as a condition holds.

Takes: two functions of the state, and the state. Gives: the last state. Keeps true: the state keeps its structure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail

from .slices import check_callable

__all__ = ["while_loop"]


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: tuple | list,
    additional_inputs: tuple = (),
) -> Any:
    """``state = body_fn(*state)`` while ``cond_fn(*state)`` holds.

    Raises:
        RuntimeError: the condition is no bool, or the state no tuple.
    """
    check_callable("while_loop", cond_fn, "cond_fn")
    check_callable("while_loop", body_fn, "body_fn")
    if not isinstance(carried_inputs, (tuple, list)):
        fail(
            RuntimeError,
            "while_loop",
            "a tuple of inputs was required (carried_inputs must be a tuple or list)",
            type(carried_inputs).__name__,
            hint="pass (x,) for a single one",
        )
    state = tuple(carried_inputs)
    while _holds(cond_fn(*state, *additional_inputs)):
        made = body_fn(*state, *additional_inputs)
        if not isinstance(made, (tuple, list)) or len(made) != len(state):
            fail(
                RuntimeError,
                "while_loop",
                f"{len(state)} values were required of body_fn (body_fn should return a tuple of the "
                "carried inputs)",
                len(made) if isinstance(made, (tuple, list)) else type(made).__name__,
                hint="return one for each input, changed or not",
            )
        state = tuple(made)
    return state


def _holds(condition: Any) -> Any:
    """The condition, as Python takes it."""
    fits = isinstance(condition, bool) or not isinstance(condition, int)
    if isinstance(condition, core.Tensor):
        fits = condition.dtype is core.bool_ and condition.numel() == 1
    if not fits:
        fail(
            RuntimeError,
            "while_loop",
            "a bool, or a tensor with one, was required of cond_fn (cond_fn must return a boolean scalar tensor)",
            condition,
            hint="compare, or reduce with any() or all()",
        )
    return condition
