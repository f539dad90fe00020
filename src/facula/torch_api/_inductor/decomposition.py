"""Decompositions that the compiler of flat graphs takes, under the name of PyTorch's module.

Takes operators and functions over others. Gives: the one table of decompositions.
Keeps true: it holds nothing of its own (`facula._decomp`).
"""

from .._decomp import decomposition_table as decompositions
from .._decomp import register_decomposition

__all__ = ["decompositions", "register_decomposition"]
