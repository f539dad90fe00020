"""Compiled functions and modules."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from facula.capture.guards.hooks import GuardEntry, GuardFail, GuardHooks
from facula.compiler.api import compile as compiled
from facula.compiler.api import compile_with, disable, reset, set_stance
from facula.compiler.explanation import explain
from facula.compiler.optimized_module import OptimizedModule
from facula.compiler.sessions import make_session

__all__ = [
    "OptimizedModule", "disable", "explain", "is_dynamo_supported", "optimize", "optimize_assert", "reset", "run",
    "unsupported",
]  # fmt: skip


def optimize(
    backend: str | Callable[..., Any] = "inductor",
    *,
    nopython: bool = False,
    disable: bool = False,
    dynamic: bool | None = None,
    guard_export_fn: Callable[[Any], Any] | None = None,
    guard_fail_fn: Callable[[GuardFail], Any] | None = None,
    guard_filter_fn: Callable[[list[GuardEntry]], Sequence[bool]] | None = None,
) -> Callable[[Any], Any]:
    """A decorator that compiles: PyTorch's first front door, before `compile`.

    Args:
        backend: as of `compile`
        nopython: whether a graph break is an error
        disable: whether nothing is done
        dynamic: as of `compile`
        guard_export_fn: hears of the guards of each new graph
        guard_fail_fn: hears why no graph served a call: a reason, and the code
        guard_filter_fn: says for each guard of a new graph whether it is checked

    Example:
        >>> @facula._dynamo.optimize("eager", nopython=True)
        ... def double(x):
        ...     return x * 2
        >>> double(facula.ones(1))
        tensor([2.])
    """
    asked = (guard_filter_fn, guard_export_fn, guard_fail_fn)
    if disable or not any(asked):
        return functools.partial(
            compiled, backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable
        )
    hooks = GuardHooks(*asked)
    session = make_session(backend, fullgraph=nopython, dynamic=dynamic, hooks=hooks)
    return functools.partial(compile_with, session)


def optimize_assert(
    backend: str | Callable[..., Any] = "inductor", *, dynamic: bool | None = None, **hooks: Any
) -> Callable[[Any], Any]:
    """`optimize`, where a graph break is an error."""
    return optimize(backend, nopython=True, dynamic=dynamic, **hooks)


def is_dynamo_supported() -> bool:
    """Whether functions can be captured: always.

    Example:
        >>> facula._dynamo.eval_frame.is_dynamo_supported()
        True
    """
    return True


def run(fn: Callable[..., Any] | None = None) -> Any:
    """A function that uses what was compiled before, and compiles nothing: calls with something new run in eager.

    Args:
        fn: the function; without one, the decorator itself is given

    Example:
        >>> f = facula.compile(lambda x: x + 1)
        >>> facula._dynamo.run(f)(facula.ones(1))
        tensor([2.])
    """
    return run if fn is None else set_stance("eager_on_recompile")(fn)


@disable
def unsupported(first: object, second: object) -> Any:
    """Gives the second argument, outside of every graph: a call of it is a graph break."""
    return second
