"""`dynamic_shapes` with the fixes that a failed export suggests.

Takes: the text of the error and the `dynamic_shapes` that were asked for. Gives: new ones, in the same nesting.
Keeps true: the text is taken apart, never run; sizes that it says nothing about stay what they were.
"""

from __future__ import annotations

import ast
from typing import Any

from facula.core.errors import fail
from facula.export.dims import Dim
from facula.export.ranges import UNBOUNDED

__all__ = ["refine_dynamic_shapes_from_suggested_fixes"]

_MARK = "Suggested fixes:"


def refine_dynamic_shapes_from_suggested_fixes(msg: str, dynamic_shapes: Any) -> Any:
    """`dynamic_shapes` as an error of `export` suggests them.

    Args:
        msg: the error's text, which has a part "Suggested fixes"
        dynamic_shapes: what export was called with

    Returns:
        the same nesting with other sizes.

    Raises:
        ValueError: the text suggests nothing.

    Example:
        >>> dim, = facula.export.dims("dim")
        >>> refine = facula.export.dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes
        >>> refine("Suggested fixes:\\n  dim = Dim('dim', min=3, max=6)", {"x": {0: dim}})
        {'x': {0: Dim('dim', min=3, max=6)}}
    """
    _, mark, suggested = msg.partition(_MARK)
    if not mark:
        fail(
            ValueError,
            "refine_dynamic_shapes_from_suggested_fixes",
            "an error's text with suggestions was required (Suggested fixes not found in error message)",
            repr(msg[:60]),
            hint="pass str(error) of the UserError that export() raised",
        )
    known = {d.root.__name__: d.root for d in _dims(dynamic_shapes)}
    fixes = {}
    for line in suggested.strip().splitlines():
        read = _read(line.strip())
        if read is not None:
            fixes[read[0]] = read[1]
    values: dict[str, Any] = {}
    for name in fixes:
        values[name] = _value(fixes[name], fixes, values, known, known.get(name))
    return _replaced(dynamic_shapes, values)


def _dims(shapes: Any) -> list[Dim]:
    """The named sizes in a nesting."""
    if isinstance(shapes, Dim):
        return [shapes]
    if isinstance(shapes, dict):
        shapes = list(shapes.values())
    return [d for part in shapes for d in _dims(part)] if isinstance(shapes, (list, tuple)) else []


def _read(line: str) -> tuple[str, ast.expr] | None:
    """The name and the expression of a line `name = expression`; None for anything else."""
    try:
        (statement,) = ast.parse(line).body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return None
    return statement.targets[0].id, statement.value


def _value(
    x: ast.expr,
    fixes: dict[str, ast.expr],
    values: dict[str, Any],
    known: dict[str, Dim],
    old: Dim | None,
) -> Any:
    """A number, or a `Dim`, from an expression of these."""
    if isinstance(x, ast.Constant) and type(x.value) is int:
        return x.value
    if isinstance(x, ast.Name):
        if x.id in fixes and x.id not in values:
            values[x.id] = Dim(x.id)  # where suggestions name one another in a circle
            values[x.id] = _value(fixes[x.id], fixes, values, known, known.get(x.id))
        return values.get(x.id) or known.get(x.id) or Dim(x.id)
    if isinstance(x, ast.BinOp) and isinstance(x.op, (ast.Add, ast.Sub, ast.Mult)):
        left = _value(x.left, fixes, values, known, old)
        right = _value(x.right, fixes, values, known, old)
        if isinstance(x.op, ast.Mult):
            factor, dim = (left, right) if isinstance(left, int) else (right, left)
            return _narrowed(dim, factor, old) * factor
        return left + right if isinstance(x.op, ast.Add) else left - right
    if isinstance(x, ast.Call) and isinstance(x.func, ast.Name) and x.func.id == "Dim":
        bounds = {str(k.arg): ast.literal_eval(k.value) for k in x.keywords}
        return Dim(ast.literal_eval(x.args[0]), **bounds)
    return fail(
        ValueError,
        "refine_dynamic_shapes_from_suggested_fixes",
        "numbers, Dim(...), sums and multiples of these were required as suggestions",
        ast.unparse(x),
        hint="pass the text of the error as it was",
    )


def _narrowed(dim: Any, factor: int, old: Dim | None) -> Any:
    """The size of which another is a multiple, within that one's bounds."""
    if not isinstance(dim, Dim) or old is None or factor <= 0 or dim.max < UNBOUNDED or dim.min:
        return dim
    top = None if old.max >= UNBOUNDED else old.max // factor
    return Dim(dim.__name__, min=-(-old.min // factor), max=top)


def _replaced(shapes: Any, values: dict[str, Any]) -> Any:
    """The nesting with other sizes under some names."""
    if isinstance(shapes, Dim):
        found = values.get(shapes.root.__name__)
        if found is None:
            return shapes
        return found * shapes.factor + shapes.offset if shapes is not shapes.root else found
    if isinstance(shapes, dict):
        return {key: _replaced(part, values) for key, part in shapes.items()}
    if isinstance(shapes, (list, tuple)):
        return type(shapes)([_replaced(part, values) for part in shapes])
    return shapes
