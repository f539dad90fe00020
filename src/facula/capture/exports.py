"""Whether this thread traces a program for export.

Takes nothing. Gives a block in which it does, and the answer.
Keeps true: each thread has an answer of its own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class _Exports(threading.local):
    depth = 0


_EXPORTS = _Exports()


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """A block in which this thread traces a program for export."""
    _EXPORTS.depth += 1
    try:
        yield
    finally:
        _EXPORTS.depth -= 1


def is_exporting() -> bool:
    """Whether the program is traced for export now.

    Example:
        >>> facula.compiler.is_exporting()
        False
    """
    return _EXPORTS.depth > 0
