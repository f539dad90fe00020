"""PyTorch's question about KleidiAI, which is no part of facula.

Takes: nothing. Gives: `is_available`. Keeps true: it is False.
"""

from __future__ import annotations

__all__ = ["is_available"]

enabled = False


def is_available() -> bool:
    """Whether KleidiAI is part of this installation: never."""
    return False
