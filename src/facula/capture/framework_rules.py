"""Rules for functions of the framework that lie above the core.

Takes: the table of rules. Gives: entries for questions about modes, and for functions that run the
engine.
Keeps true: a function that changes a mode is one of `MODE_FUNCTIONS`, so that it is both in the graph
and in effect while the program is captured.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.graph_ops import MODE_FUNCTIONS
from facula.capture.values import Known, TensorValue


def put(rules: dict, autograd: Any, functional: Any, autocast: Any, grad_mode: Any) -> None:
    """Fill in the rules."""
    for name in ("backward", "grad"):
        rules[getattr(autograd, name)] = _engine(name)
    rules[functional.is_tensor] = lambda d, args, kwargs: Known(
        isinstance(d.force(args[0]), TensorValue)
    )
    for name in vars(autocast):
        if name.startswith(("is_autocast", "get_autocast")):
            rules[getattr(autocast, name)] = _question(getattr(autocast, name))
        elif name.startswith(("set_autocast", "autocast_", "clear_autocast")):
            MODE_FUNCTIONS.add(getattr(autocast, name))
    rules[core.is_grad_enabled] = _question(core.is_grad_enabled)
    _questions_about_compiling(rules)


def _engine(name: str) -> Any:
    def run(d: Any, args: list, kwargs: dict) -> Any:
        raise Break("backward", f"autograd.{name}")

    return run


def _question(function: Any) -> Any:
    return lambda d, args, kwargs: d.trusted(function(*[d.constant_of(arg) for arg in args]))


def is_compiling() -> bool:
    """Whether the program is captured now; False when it simply runs."""
    return False


def graph_break(msg: str = "") -> None:
    """End the captured graph here; nothing happens when the program simply runs."""


def assume_constant_result(function: Any) -> Any:
    """Call the function once while the program is captured and keep its result."""
    function._facula_constant_result = True
    return function


def _questions_about_compiling(rules: dict) -> None:
    rules[is_compiling] = lambda d, args, kwargs: Known(True)

    def explicit(d: Any, args: list, kwargs: dict) -> Any:
        raise Break("explicit", "graph_break()")

    rules[graph_break] = explicit
