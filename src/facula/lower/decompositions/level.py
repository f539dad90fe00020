"""Programs run by decompositions: every operator by others, down to the core.

Takes: a function.  Gives: a function of the same results that calls core operators only.
Keeps true: decompositions are themselves decomposed; what is made of nothing else runs as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.transforms.levels import Level
from facula.lower.decompositions.rules import rule_of


class DecomposingLevel(Level):
    """One run by decompositions at work."""

    decomposes = False

    def __init__(self) -> None:
        super().__init__()
        self.rules: dict[Any, Any] = {}

    def process(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call by its decomposition, under this level."""
        if type(function) is core.Op and "out" not in kwargs:
            if function not in self.rules:
                self.rules[function] = rule_of(function)
            rule = self.rules[function]
            if rule is not None:
                return rule(*args, **kwargs)
        return self.call_below(function, args, kwargs)


def decomposed(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` by core operators."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with DecomposingLevel():
            return function(*args, **kwargs)

    return run
