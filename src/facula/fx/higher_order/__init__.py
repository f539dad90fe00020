"""Operators that take functions: `cond`, `while_loop`, `scan`, `map`, `associative_scan`.

Takes: functions of tensors, and trees of tensors. Gives: what loops in Python would.
Keeps true: outside of a trace they are loops of Python, so that gradients and transforms follow; in a trace
each is one node
whose functions are graph modules.
"""

from facula.fx.higher_order.associative_scan import associative_scan, associative_scan_op
from facula.fx.higher_order.cond import cond, cond_op
from facula.fx.higher_order.errors import UncapturedHigherOrderOpError
from facula.fx.higher_order.map import map, map_impl
from facula.fx.higher_order.operator import OPERATORS, ControlFlow, HigherOrderOperator
from facula.fx.higher_order.scan import scan, scan_op
from facula.fx.higher_order.while_loop import while_loop, while_loop_op, while_loop_stack_output

__all__ = [
    "OPERATORS",
    "ControlFlow",
    "HigherOrderOperator",
    "UncapturedHigherOrderOpError",
    "associative_scan",
    "associative_scan_op",
    "cond",
    "cond_op",
    "map",
    "map_impl",
    "scan",
    "scan_op",
    "while_loop",
    "while_loop_op",
    "while_loop_stack_output",
]
