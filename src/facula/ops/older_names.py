"""Warnings of operators that PyTorch keeps for older programs, and of calls whose meaning is about to change.

Takes what a call is to say. Gives a `UserWarning` with PyTorch's key phrase, at the caller's line.
Keeps true: a call that warns is not kept by the launch cache, so that it warns each time (Python's filters decide
what is shown).
"""

from __future__ import annotations

import warnings

from facula import core

__all__ = ["in_favor_of", "told"]


def told(op: str, text: str, hint: str) -> None:
    """Warn about a call of the operator `op`."""
    core.unkept()
    warnings.warn(core.spoken(f"[{op}] {text}\nhint: {hint}"), UserWarning, stacklevel=4)


def in_favor_of(op: str, newer: str, hint: str) -> None:
    """Warn that `op` has a successor."""
    told(op, f"facula.{op} is deprecated in favor of facula.{newer}", hint)
