"""Operators that take functions, under the names that PyTorch keeps them: `cond`, `while_loop`, `map`, `scan`, ...

Takes: nothing. Gives: re-exports. Keeps true: the operators stand in `facula.fx.higher_order`.
"""

from facula.fx.higher_order import while_loop_stack_output

from .associative_scan import associative_scan
from .cond import cond
from .invoke_subgraph import invoke_subgraph
from .map import map
from .scan import scan
from .while_loop import while_loop

__all__ = [
    "associative_scan", "cond", "invoke_subgraph", "map", "scan", "while_loop", "while_loop_stack_output",
]  # fmt: skip
