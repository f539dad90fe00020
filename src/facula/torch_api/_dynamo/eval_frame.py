"""Compiled functions and modules."""

import functools
from collections.abc import Callable
from typing import Any

from facula.compiler.api import compile as compiled
from facula.compiler.api import disable, reset
from facula.compiler.explanation import explain
from facula.compiler.optimized_module import OptimizedModule
from facula.core.errors import fail

__all__ = [
    "OptimizedModule", "disable", "explain", "optimize", "optimize_assert", "reset", "unsupported",
]  # fmt: skip


def optimize(
    backend: str | Callable[..., Any] = "inductor",
    *,
    nopython: bool = False,
    disable: bool = False,
    dynamic: bool | None = None,
    **hooks: object,
) -> Callable[[Any], Any]:
    """A decorator that compiles: PyTorch's first front door, before `compile`.

    Args:
        backend: as of `compile`
        nopython: whether a graph break is an error
        disable: whether nothing is done
        dynamic: as of `compile`
        hooks: functions that hear of guards, which are not offered; None stands for none

    Raises:
        NotImplementedError: a hook was given.

    Example:
        >>> @facula._dynamo.optimize("eager", nopython=True)
        ... def double(x):
        ...     return x * 2
        >>> double(facula.ones(1))
        tensor([2.])
    """
    given = [name for name, hook in hooks.items() if hook is not None]
    if given:
        hint = "facula.compiler.config and the logs of recompiles tell why guards fail"
        fail(NotImplementedError, "optimize", "no hooks on guards were required", given, hint)
    return functools.partial(
        compiled, backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable
    )


def optimize_assert(
    backend: str | Callable[..., Any] = "inductor", *, dynamic: bool | None = None, **hooks: Any
) -> Callable[[Any], Any]:
    """`optimize`, where a graph break is an error."""
    return optimize(backend, nopython=True, dynamic=dynamic, **hooks)


@disable
def unsupported(first: object, second: object) -> Any:
    """Gives the second argument, outside of every graph: a call of it is a graph break."""
    return second
