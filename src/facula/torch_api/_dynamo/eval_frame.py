"""Compiled functions and modules."""

from typing import Any

from facula.compiler.api import disable, reset
from facula.compiler.explanation import explain
from facula.compiler.optimized_module import OptimizedModule

__all__ = ["OptimizedModule", "disable", "explain", "reset", "unsupported"]


@disable
def unsupported(first: Any, second: Any) -> Any:
    """Gives the second argument, outside of every graph: a call of it is a graph break."""
    return second
