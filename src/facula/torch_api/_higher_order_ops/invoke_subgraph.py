"""`invoke_subgraph`: a function that a compiler may compile once for all of its calls.

Takes: a function, a name, operands. Gives: what it gives. Keeps true: the name changes no result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["invoke_subgraph"]


def invoke_subgraph(subgraph: Callable[..., Any], identifier: str | None, *operands: object) -> Any:
    """``subgraph(*operands)``."""
    return subgraph(*operands)
