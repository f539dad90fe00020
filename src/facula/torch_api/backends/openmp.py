"""PyTorch's question about OpenMP: facula has threads of its own.

Takes: nothing. Gives: `is_available`. Keeps true: it is False.
"""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether kernels run on OpenMP's threads: never, they run on facula's pool."""
    return False
