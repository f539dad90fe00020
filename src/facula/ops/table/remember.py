"""Functions of sizes that remember their results.

Takes: a function of numbers, words and tuples of them. Gives: one that computes a result once.
Keeps true: symbolic sizes are neither kept nor compared with what is kept. A look-up would ask whether
a symbol equals a number of an earlier call, which guards a program on it, and what it found would
belong to another program.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

from facula import core

_F = TypeVar("_F", bound=Callable[..., Any])
#: whether there may be symbolic sizes in this process: `fx.symbols` says so when it is loaded
SYMBOLIC = [False]
_PLAIN = frozenset((int, float, bool, str, type(None)))
_SEVERAL = frozenset((tuple, core.Size))


def _is_plain(values: tuple[Any, ...]) -> bool:
    for value in values:
        kind = type(value)
        if kind in _SEVERAL:
            if not _PLAIN.issuperset(map(type, value)) and not _is_plain(value):
                return False
        elif kind not in _PLAIN:
            return False
    return True


def remembered(most: int) -> Callable[[_F], _F]:
    """Decorator: keep the results of the last `most` different calls with positional arguments."""

    def decorate(function: _F) -> _F:
        kept = lru_cache(most)(function)

        @wraps(function)
        def call(*args: Any) -> Any:
            return function(*args) if SYMBOLIC[0] and not _is_plain(args) else kept(*args)

        return call  # type: ignore[return-value]

    return decorate
