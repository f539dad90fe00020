"""Calls of functions in other processes: facula has none, which `is_available` says.

Takes nothing. Gives the answer that libraries ask for before they use the rest. Keeps true: what is
not here is no attribute, as in a PyTorch that was built without RPC.
"""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether there are remote procedure calls: no."""
    return False
