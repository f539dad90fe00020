"""Which functions do something besides giving a result, so that their calls must be kept.

Takes targets of calls. Gives `has_side_effect` and `is_impure_function`.
Keeps true: what writes is known by the operator's definition or by Python's own naming; only functions
that say so themselves (`has_side_effect`) stand in a list.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from facula import core
from facula.fx import names

__all__ = ["has_side_effect", "is_impure_function"]

#: functions that do something besides giving a result
_side_effectful_functions: set[Callable[..., Any]] = set()


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Says that calls of a function must be kept though nobody uses their result; gives the function.

    Args:
        fn: the function

    Example:
        >>> @facula.fx.has_side_effect
        ... def log(x):
        ...     print(x)
    """
    _side_effectful_functions.add(fn)
    return fn


def is_impure_function(target: object, kwargs: dict[str, Any], impure_random: bool) -> bool:
    """Whether a call of the target does more than give its result.

    Args:
        impure_random: whether drawing random numbers counts.
    """
    function = getattr(target, "_op", target)
    if target in _side_effectful_functions or function in _side_effectful_functions:
        return True
    if kwargs.get("out") is not None:
        return True
    if isinstance(function, core.InplaceOp):
        return True
    if isinstance(function, core.Op):
        definition = function.definition
        if not definition.schema.results:
            return True  # what gives nothing is called for something else
        return bool(definition.mutated) or (impure_random and definition.random)
    name = getattr(function, "__name__", "")
    if isinstance(function, types.BuiltinFunctionType) and function.__module__ == "_operator":
        # operator.iadd(a, b) writes to a where a is a tensor; operator.setitem always writes
        return name in ("setitem", "delitem") or (
            name.startswith("i") and name[1:] in names.INPLACE
        )
    is_method = type(function) is type(core.Tensor.copy_)
    return is_method and name.endswith("_") and not name.endswith("__")
