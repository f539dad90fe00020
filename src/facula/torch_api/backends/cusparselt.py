"""PyTorch's question about cuSPARSELt, which is no part of facula.

Takes: nothing. Gives: `is_available`. Keeps true: it is False.
"""

from __future__ import annotations

__all__ = ["is_available"]

enabled = False


def is_available() -> bool:
    """Whether cuSPARSELt is part of this installation: never."""
    return False
