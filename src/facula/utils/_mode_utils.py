"""Helpers around modes, under the names that libraries import from PyTorch.

Takes nothing. Gives a block without dispatch modes, and a comparison. Keeps true: the block restores
the modes that were active.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from facula.utils._python_dispatch import _disable_current_modes

__all__ = ["all_same_mode", "no_dispatch"]


def no_dispatch() -> AbstractContextManager[Any]:
    """A block in which no dispatch mode hears of operators."""
    return _disable_current_modes()


def all_same_mode(modes: Sequence[Any]) -> bool:
    """Whether all of them are the first one."""
    return all(mode is modes[0] for mode in modes)
