"""The decompositions that are written by hand: a table of functions by operators' names.

Takes: functions for operators, given by `register`. Gives: `REGISTERED`.
Keeps true: an operator stands here only where the operator table does not say how it is made of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.lower.table import operator_of

Rule = Callable[..., Any]

#: operator name -> function, beyond what is derived
REGISTERED: dict[str, Rule] = {}


def register(target: Any) -> Callable[[Rule], Rule]:
    """Decorator: the function computes an operator (named, or given as an overload) by others."""

    def enter(function: Rule) -> Rule:
        for one in target if isinstance(target, (list, tuple)) else (target,):
            name = one if isinstance(one, str) else getattr(operator_of(one), "name", None)
            if name is None:
                fail(
                    TypeError,
                    "register_decomposition",
                    "an operator was required",
                    got=repr(one),
                    hint="facula.ops.aten has the operators",
                )
            REGISTERED[name] = function
        return function

    return enter
