"""PyTorch's questions about MKL: facula's dense products are its own, so it is not there.

Takes: nothing. Gives: `is_available`, `verbose`. Keeps true: nothing here changes a computation.
"""

from __future__ import annotations

from .verbosity import Verbosity

VERBOSE_OFF, VERBOSE_ON = 0, 1

__all__ = ["VERBOSE_OFF", "VERBOSE_ON", "is_available", "verbose"]


def is_available() -> bool:
    """Whether MKL is part of this installation: never."""
    return False


class verbose(Verbosity):
    """A block in which MKL would write what it does; there is nothing to write."""
