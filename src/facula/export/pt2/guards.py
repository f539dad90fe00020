"""What sizes must satisfy, as the lines of Python that PyTorch's files have: `L['x'].size()[0] != L['y'].size()[0]`.

Takes: an exported program, or lines that anybody may have written. Gives: the other of lines and guards.
Keeps true: lines are parsed, never run; a line that speaks of anything but sizes of inputs is left out.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from facula.export.pt2.expressions import Unknown, compared, parsed
from facula.export.ranges import spelled
from facula.fx.shape_env import ShapeGuard
from facula.fx.symbols import Expr

__all__ = ["guards_read", "guards_written"]


def guards_written(program: Any) -> list[str]:
    """The guards of a program."""
    check = program.module(check_guards=False)._inputs
    names = {symbol: _local(place) for symbol, place in check.read.items()}
    lines = []
    for guard in program.guards:
        if (guard.left.free_symbols | guard.right.free_symbols) <= names.keys():
            lines.append(spelled(str(guard), names))
    return lines


def _local(place: str) -> str:
    """A place among the arguments: `xs[0].size()[1]` is `L['xs'][0].size()[1]`."""
    return re.sub(r"^\w+", lambda found: f"L['{found[0]}']", place)


def guards_read(lines: list[str], check: Any) -> list[ShapeGuard]:
    """The guards of lines.

    Args:
        lines: the lines
        check: the `InputCheck` of the program, which knows the places of its inputs
    """
    sizes: dict[str, Any] = {}
    for name, (shape, kind) in zip(check.names, check.expected, strict=True):
        if shape is not None:
            sizes[_local(name)] = shape
        elif isinstance(kind, Expr):
            sizes[_local(name)] = kind
    found = []
    for line in lines:
        try:
            guard = compared(parsed(line), lambda x: _size(x, sizes))
        except Unknown:
            continue
        if guard[0] != guard[2]:
            found.append(ShapeGuard(*guard))
    return found


def _size(x: ast.expr, sizes: dict[str, Any]) -> Expr | None:
    """The size that a part of a line reads; None for another part."""
    whole = sizes.get(ast.unparse(x))
    if isinstance(whole, Expr):
        return whole
    if not isinstance(x, ast.Subscript) or not isinstance(x.slice, ast.Constant):
        return None
    call = x.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.args:
        return None
    shape = sizes.get(ast.unparse(call.func.value))
    at = x.slice.value
    if call.func.attr != "size" or isinstance(shape, Expr) or shape is None:
        return None
    return shape[at] if type(at) is int and 0 <= at < len(shape) else None
