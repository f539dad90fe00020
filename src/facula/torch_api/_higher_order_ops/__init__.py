"""Operators that take functions, under the names that PyTorch keeps them: `cond`, `while_loop`, `map`, `scan`, ...

Takes: functions of tensors, and trees of tensors. Gives: what loops in Python would. Keeps true: a gradient, a
transform and
a compiler see the operators that the functions call, so each is differentiable, mappable and compiled as a loop is.
"""

from .associative_scan import associative_scan
from .cond import cond
from .invoke_subgraph import invoke_subgraph
from .map import map
from .scan import scan
from .while_loop import while_loop

__all__ = ["associative_scan", "cond", "invoke_subgraph", "map", "scan", "while_loop"]
