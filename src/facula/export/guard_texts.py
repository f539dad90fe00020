"""Guards in the words of the arguments, as Python: `-1 + 2 * z.size()[0] == y.size()[0]`.

Takes: expressions of sizes, and how each symbol is read. Gives: their texts, of the messages that refuse an input.
Keeps true: a text means what the expression means; parentheses stand where Python needs them.
"""

from __future__ import annotations

from collections.abc import Mapping

from facula.export.ranges import is_linear
from facula.fx.shape_env import ShapeGuard
from facula.fx.symbols import Atom, Expr, number, symbol


def text_of(expr: Expr, read: Mapping[str, str]) -> str:
    """An expression, the number in front of what depends on sizes."""
    parts = []
    for monomial, factor in sorted(expr.terms.items(), key=lambda term: bool(term[0])):
        alone = len(expr.terms) == len(monomial) == abs(factor) == 1
        factors = [_power(atom, power, read, alone and power == 1) for atom, power in monomial]
        if factor != 1 or not monomial:
            factors.insert(0, str(factor))
        parts.append(" * ".join(factors))
    return " + ".join(parts) or "0"


def _power(atom: Atom, power: int, read: Mapping[str, str], alone: bool) -> str:
    if atom.op == "symbol":
        base = read.get(str(atom.args[0]), str(atom.args[0]))
    elif atom.op in ("max", "min"):
        base = f"{atom.op}({', '.join(text_of(x, read) for x in atom.args)})"
    else:
        left, right = (_operand(x, read, last) for last, x in enumerate(atom.args))
        base = f"{left} {'%' if atom.op == 'mod' else '//'} {right}"
        base = base if alone else f"({base})"
    return base if power == 1 else f"{base} ** {power}"


def _operand(expr: Expr, read: Mapping[str, str], last: int) -> str:
    text = text_of(expr, read)
    single = len(expr.terms) == 1 and (not last or " " not in text)
    atoms = [atom.op for monomial in expr.terms for atom, _ in monomial]
    plain = single and all(op in ("symbol", "max", "min") for op in atoms)
    return text if plain or not expr.free_symbols else f"({text})"


def guard_text(guard: ShapeGuard, read: Mapping[str, str]) -> str:
    """A guard."""
    return f"{text_of(guard.left, read)} {guard.relation} {text_of(guard.right, read)}"


def relation_text(
    place: str, expected: Expr, read: Mapping[str, str], shifted: Mapping[str, tuple[str, int]]
) -> str:
    """What a size must be that follows from one symbol.

    Args:
        place: where the size is read
        expected: what it must be
        read: how symbols are read that a size of an input is
        shifted: where other symbols are found: a size, and how much larger than the symbol it is
    """
    if len(expected.free_symbols) == 1 and is_linear(expected):
        (name,) = expected.free_symbols
        offset = expected.terms.get((), 0)
        if name in read and expected == symbol(name) + number(offset):
            return f"{read[name]} == {-offset} + {place}" if offset else f"{read[name]} == {place}"
        if name in shifted:
            other, more = shifted[name]
            found = expected.replaced({name: symbol(name) - number(more)})
            return f"{text_of(found, {name: other})} == {place}"
    return f"{place} == {text_of(expected, read)}"
