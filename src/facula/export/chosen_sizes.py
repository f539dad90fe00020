"""`max` and `min` of a program's sizes, as expressions.

Takes: nothing. Gives: `sizes_are_chosen`, a block in which the built-in functions tell sizes apart from other numbers.
Keeps true: no guard says which of two sizes is the larger; calls of others, and of other numbers, are Python's own.
"""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from facula.core.errors import is_own
from facula.fx import Graph
from facula.fx.symbols import SymInt, sym_max, sym_min


def _choosing(of_sizes: Callable[[Any, Any], Any], plainly: Callable[..., Any]) -> Any:
    @functools.wraps(plainly)
    def choose(*args: Any, **kwargs: Any) -> Any:
        symbolic = len(args) > 1 and not kwargs and any(map(_is_size, args))
        if symbolic and not is_own(str(sys._getframe(1).f_globals.get("__name__"))):
            return functools.reduce(of_sizes, args)
        return plainly(*args, **kwargs)

    return choose


def _is_size(x: object) -> bool:
    return isinstance(x, SymInt)


def name_choices(graph: Graph) -> None:
    """Let a graph call `sym_max` and `sym_min`, as PyTorch's do, where it chooses between sizes."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target in (max, min):
            node.target = sym_max if node.target is max else sym_min


@contextmanager
def sizes_are_chosen() -> Iterator[None]:
    """A block in which `max` and `min` of sizes are expressions of these."""
    before = builtins.max, builtins.min
    builtins.max, builtins.min = _choosing(sym_max, max), _choosing(sym_min, min)
    try:
        yield
    finally:
        builtins.max, builtins.min = before
