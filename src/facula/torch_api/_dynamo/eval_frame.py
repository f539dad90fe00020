"""Compiled functions and modules."""

from facula.compiler.api import disable, reset
from facula.compiler.explanation import explain
from facula.compiler.optimized_module import OptimizedModule

__all__ = ["OptimizedModule", "disable", "explain", "reset"]
