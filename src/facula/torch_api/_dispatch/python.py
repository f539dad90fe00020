"""Blocks in which operators reach their Python implementations first.

Takes nothing.  Gives contexts.
Keeps true: composites and decompositions are Python here and are always reached first, by modes and
transforms alike, so there is nothing to switch: programs that ask for it get what they ask for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

__all__ = ["enable_python_dispatcher"]


@contextlib.contextmanager
def enable_python_dispatcher() -> Iterator[None]:
    """A block in which Python implementations of operators come first, as they always do.

    Example:
        >>> from facula._dispatch.python import enable_python_dispatcher
        >>> with enable_python_dispatcher():
        ...     facula.ones(2).sum()
        tensor(2.)
    """
    yield
