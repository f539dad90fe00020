"""Expressions of sizes as the texts of PyTorch's files: `Mul(Integer(2), Symbol('s0', integer=True, positive=True))`.

Takes: expressions and conditions, or texts that anybody may have written. Gives: the other of the two.
Keeps true: a text is parsed, never run; a text that says nothing that expressions have is None.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable
from typing import Any

from facula.export.pt2.plain import refuse
from facula.fx.symbols import (
    ANY_INT,
    UNBACKED,
    Atom,
    Expr,
    floordiv,
    maximum,
    minimum,
    mod,
    number,
    symbol,
)  # fmt: skip

__all__ = [
    "Unknown",
    "compared",
    "condition_written",
    "parsed",
    "read_condition",
    "read_expression",
    "written",
]

_FUNCTIONS = {"floordiv": "FloorDiv", "mod": "PythonMod", "max": "Max", "min": "Min"}
_RELATIONS = {
    "==": "Equality", "!=": "Unequality", "<": "StrictLessThan", "<=": "LessThan",
    ">": "StrictGreaterThan", ">=": "GreaterThan",
}  # fmt: skip
_WORDS = {"and": "And", "or": "Or", "not": "Not"}
_LONGEST = 100_000
_LARGEST_POWER = 16
_DEEPEST = 64


def written(expr: Expr) -> str:
    """An expression's text."""
    terms = [_term(monomial, factor) for monomial, factor in expr.terms.items()]
    return _joined("Add", terms, "Integer(0)")


def _joined(name: str, parts: list[str], empty: str) -> str:
    return f"{name}({', '.join(parts)})" if len(parts) > 1 else parts[0] if parts else empty


def _term(monomial: Any, factor: int) -> str:
    parts = [f"Integer({factor})"] if factor != 1 or not monomial else []
    parts += [_atom(a) if p == 1 else f"Pow({_atom(a)}, Integer({p}))" for a, p in monomial]
    return _joined("Mul", parts, "Integer(1)")


def _atom(atom: Atom) -> str:
    if atom.op == "symbol":
        name = str(atom.args[0])
        sign = "" if name.startswith((UNBACKED, ANY_INT)) else ", positive=True"
        return f"Symbol('{name}'{sign}, integer=True)"
    return f"{_FUNCTIONS[atom.op]}({', '.join(map(written, atom.args))})"


def condition_written(condition: Any) -> str | None:
    """A condition's text; None where it asks for more than sums, products and comparisons of whole numbers."""
    if condition[0] in _WORDS:
        parts = [condition_written(part) for part in condition[1:]]
        if None in parts:
            return None
        return f"{_WORDS[condition[0]]}({', '.join(map(str, parts))})"
    if condition[0] == "test" or not isinstance(condition[0], Expr):
        return None
    left, relation, right = condition
    return f"{_RELATIONS[relation]}({written(left)}, {written(right)})"


# ------------------------------------------------------------------ reading

_MADE: dict[str, Any] = {
    "FloorDiv": floordiv, "CleanDiv": floordiv, "Mod": mod, "PythonMod": mod, "Max": maximum, "Min": minimum,
}  # fmt: skip
_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: floordiv, ast.Mod: mod,
}  # fmt: skip
_COMPARED = {name: sign for sign, name in _RELATIONS.items()} | {
    "Eq": "==", "Ne": "!=", "Lt": "<", "Le": "<=", "Gt": ">", "Ge": ">=",
}  # fmt: skip


class Unknown(Exception):
    """Something that expressions do not have."""


def parsed(text: str) -> ast.expr:
    """The syntax of an expression."""
    if len(text) > _LONGEST:
        refuse("an expression of less text", f"{len(text)} characters")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return refuse("an expression of sizes", repr(text[:100]))


def read_expression(text: str) -> Expr | None:
    """The expression; None for what is no sum of products of whole numbers."""
    try:
        return _read(parsed(text), 0)
    except Unknown:
        return None


def read_condition(text: str) -> Any:
    """The condition; None for what is none of whole numbers."""
    try:
        return _read_condition(parsed(text), 0)
    except Unknown:
        return None


def _call(x: ast.expr) -> tuple[str, list[ast.expr]]:
    if isinstance(x, ast.Call) and isinstance(x.func, ast.Name):
        return x.func.id, x.args
    raise Unknown


Place = Callable[[ast.expr], "Expr | None"]


def _nothing(x: ast.expr) -> Expr | None:
    return None


def _read(x: ast.expr, depth: int, place: Place = _nothing) -> Expr:
    if depth > _DEEPEST:
        refuse("an expression of fewer parts in parts", depth)
    known = place(x)
    if known is not None:
        return known
    if isinstance(x, ast.Constant) and type(x.value) is int:
        return number(x.value)
    if isinstance(x, ast.Name):
        return symbol(x.id)
    if isinstance(x, ast.UnaryOp) and isinstance(x.op, ast.USub):
        return -_read(x.operand, depth + 1, place)
    if isinstance(x, ast.BinOp):
        if isinstance(x.op, ast.Pow):
            return _power(x.left, x.right, depth, place)
        if type(x.op) not in _OPERATORS:
            raise Unknown
        left, right = (_read(part, depth + 1, place) for part in (x.left, x.right))
        made: Expr = _OPERATORS[type(x.op)](left, right)
        return made
    name, args = _call(x)
    if name == "Symbol" and args and isinstance(args[0], ast.Constant):
        label = str(args[0].value)
        return symbol(label) if label.isidentifier() else refuse("an identifier as a symbol", label)
    if name == "Pow" and len(args) == 2:
        return _power(args[0], args[1], depth, place)
    if name == "Integer" and len(args) == 1:
        return _read(args[0], depth + 1, place)
    parts = (
        [_read(part, depth + 1, place) for part in args] if name in _MADE or name in _SUMS else []
    )
    if not parts:
        raise Unknown
    rule = _MADE.get(name) or _SUMS[name]
    return functools.reduce(rule, parts)


_SUMS = {"Add": operator.add, "Mul": operator.mul}


def _power(base: ast.expr, power: ast.expr, depth: int, place: Place) -> Expr:
    times = _read(power, depth + 1, place).constant
    if times is None or not 0 <= times <= _LARGEST_POWER:
        raise Unknown
    result, factor = number(1), _read(base, depth + 1, place)
    for _ in range(times):
        result = result * factor
    return result


def compared(x: ast.expr, place: Place = _nothing) -> tuple[Expr, str, Expr]:
    """The parts of a comparison.

    Args:
        x: the comparison
        place: what a part of it stands for that is no arithmetic

    Raises:
        Unknown: it is none.
    """
    sign = _SIGNS.get(type(x.ops[0])) if isinstance(x, ast.Compare) else None
    if not isinstance(x, ast.Compare) or len(x.ops) != 1 or sign is None:
        raise Unknown
    return _read(x.left, 0, place), sign, _read(x.comparators[0], 0, place)


_SIGNS: dict[type, str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def _read_condition(x: ast.expr, depth: int) -> Any:
    if depth > _DEEPEST:
        refuse("a condition of fewer parts in parts", depth)
    if isinstance(x, ast.Compare):
        return compared(x)
    name, args = _call(x)
    if name in _COMPARED and len(args) == 2:
        return _read(args[0], depth), _COMPARED[name], _read(args[1], depth)
    words = {known: word for word, known in _WORDS.items()}
    if name in words and args:
        return (words[name], *[_read_condition(part, depth + 1) for part in args])
    raise Unknown
