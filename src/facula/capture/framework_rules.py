"""Rules for functions of the framework that lie above the core.

Takes: the table of rules. Gives: entries for questions about modes, and for functions that run the
engine.
Keeps true: a function that changes a mode is one of `MODE_FUNCTIONS`, so that it is both in the graph
and in effect while the program is captured.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import autograd, core
from facula.autograd import autocast
from facula.autograd.checkpoint import checkpoint
from facula.capture import higher_order
from facula.capture.breaks import Break
from facula.capture.exports import is_exporting
from facula.capture.graph_ops import MODE_FUNCTIONS
from facula.capture.values import Known, TensorValue
from facula.namespaces import functional

if TYPE_CHECKING:
    from facula.capture.symbolic import Symbolic


def put(rules: dict) -> None:
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
    _functions_as_nodes(rules)
    higher_order.put(rules)


def _engine(name: str) -> Any:
    def run(d: Symbolic, args: list, kwargs: dict) -> Any:
        raise Break("backward", f"autograd.{name}")

    return run


def _question(function: Callable[..., Any]) -> Any:
    return lambda d, args, kwargs: d.trusted(function(*[d.constant_of(arg) for arg in args]))


def is_compiling() -> bool:
    """Whether the program is captured, or traced for export, now; False when it simply runs.

    Example:
        >>> facula.compiler.is_compiling()
        False
        >>> facula.compile(lambda x: x + facula.compiler.is_compiling())(facula.zeros(1))
        tensor([1.])
    """
    return is_exporting()


def graph_break(msg: str = "") -> None:
    """End the captured graph here; nothing happens when the program simply runs."""


def assume_constant_result(function: Any) -> Any:
    """Calls a function once, while the program is captured, and keeps its result.

    Args:
        function: what is called, without tensors

    Example:
        >>> @facula.compiler.assume_constant_result
        ... def factor():
        ...     return 3
        >>> facula.compile(lambda x: x * factor(), fullgraph=True)(facula.ones(2))
        tensor([3., 3.])
    """
    function._facula_constant_result = True
    return function


@functools.cache
def applied(cls: type) -> Any:
    """`cls.apply` of an autograd function as one function object, as a node needs it."""

    def apply(*args: object, **kwargs: object) -> Any:
        return cls.apply(*args, **kwargs)  # type: ignore[attr-defined]

    apply.__name__ = apply.__qualname__ = f"{cls.__name__}_apply"
    return apply


def _functions_as_nodes(rules: dict) -> None:
    def apply(d: Symbolic, args: list, kwargs: dict) -> Any:
        return d.graph_call(applied(d.constant_of(args[0])), args[1:], kwargs)

    rules[autograd.Function.apply.__func__] = apply  # type: ignore[attr-defined]
    own = (
        "use_reentrant",
        "preserve_rng_state",
        "context_fn",
        "determinism_check",
        "debug",
        "early_stop",
    )
    rules[checkpoint] = lambda d, args, kwargs: d.call(
        args[0], args[1:], {name: value for name, value in kwargs.items() if name not in own}
    )
    rules[sys.exc_info] = _exc_info
    rules[sys.exception] = _handled


def _handled(d: Symbolic, args: list, kwargs: dict) -> Any:
    for frame in reversed(d.frames):
        if frame.handling is not None and not d.is_none(frame.handling):
            return frame.handling
    return Known(None)


def _exc_info(d: Symbolic, args: list, kwargs: dict) -> Any:
    handled = _handled(d, args, kwargs)
    if d.is_none(handled):
        return d.constant((None, None, None))
    return d.build_tuple(d.exception_triple(handled))


def _module_tracers(d: Symbolic, args: list, kwargs: dict) -> Any:
    """What `Module.__call__` asks first; nothing traces modules while programs are captured."""
    if core.module_tracers() != (None, None):
        raise Break("unsupported-call", "a module under a tracer of modules")
    return d.constant((None, None))


def _questions_about_compiling(rules: dict) -> None:
    rules[core.module_tracers] = _module_tracers
    rules[is_compiling] = lambda d, args, kwargs: Known(True)
    rules[is_exporting] = lambda d, args, kwargs: Known(is_exporting())

    def explicit(d: Symbolic, args: list, kwargs: dict) -> Any:
        raise Break("explicit", "graph_break()")

    rules[graph_break] = explicit
