"""Ranges of sizes, what comparisons say about them, and the error of sizes that may not change.

Takes: comparisons of expressions with symbols. Gives: `ValueRanges`, bounds that a comparison leaves, and
`Violations`, which raises once for all that was found.
Keeps true: a comparison that is not understood narrows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from facula.capture.errors import UserError
from facula.core.errors import message
from facula.fx.experimental.symbolic_shapes import ConstraintViolationError
from facula.fx.symbols import Expr, number, symbol

__all__ = [
    "Ranges", "UNBOUNDED", "UnfitExample", "ValueRanges", "Violations", "always", "bounds_through", "is_linear",
    "multiple_of", "read_at", "solved", "spelled",
]  # fmt: skip

#: the largest size that a range without an end has
UNBOUNDED = 2**63 - 2


@dataclass(frozen=True)
class ValueRanges:
    """The values that a symbol may have."""

    lower: int
    upper: int

    def __contains__(self, value: int) -> bool:
        return self.lower <= value <= self.upper

    def within(self, other: ValueRanges) -> ValueRanges:
        """The values that both allow."""
        return ValueRanges(max(self.lower, other.lower), min(self.upper, other.upper))

    def __repr__(self) -> str:
        low = "-int_oo" if self.lower <= -UNBOUNDED else self.lower
        return f"VR[{low}, {'int_oo' if self.upper >= UNBOUNDED else self.upper}]"


class Ranges(dict[str, ValueRanges]):
    """The values of symbols, found by the name of a symbol or by the symbol itself."""

    def __missing__(self, key: object) -> ValueRanges:
        name = str(key)
        if isinstance(key, str) or name not in self:
            raise KeyError(key)
        return self[name]

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name}: {bounds!r}" for name, bounds in self.items()) + "}"


class UnfitExample(UserError, ConstraintViolationError):
    """Example inputs contradict `dynamic_shapes`."""


class Violations:
    """What contradicts the sizes that were to change: raised together."""

    def __init__(self) -> None:
        #: name -> what was found, and what to write instead
        self.found: list[tuple[str, str, str | None]] = []

    def add(self, name: str, finding: str, fix: str | None = None) -> None:
        """Note something about a size."""
        self.found.append((name, finding, fix))

    def constant(self, name: str, value: int, where: str) -> None:
        """Note that the program serves one size only."""
        finding = (
            f"You marked {name} as dynamic but your code specialized it to be a constant ({value}). "
            f"If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO{where}"
        )
        self.add(name, finding, f"{name} = {value}")

    def raise_any(self, kind: type[Exception] = UserError) -> None:
        """Raise, if there is anything."""
        if not self.found:
            return
        names = ", ".join(dict.fromkeys(name for name, _, _ in self.found))
        findings = "".join(f"\n  - {text}" for text in dict.fromkeys(f for _, f, _ in self.found))
        fixes = dict.fromkeys(fix for _, _, fix in self.found if fix)
        text = message(
            "export",
            f"sizes that may change as dynamic_shapes says were required (Constraints violated "
            f"({names})!)",
            findings,
            "the program is right for some of these sizes only",
        )
        advice = "".join(f"\n  {fix}" for fix in fixes)
        raise kind(text + (f"\nSuggested fixes:{advice}" if fixes else ""))


def read_at(where: str) -> str:
    """A place as programs write it: `inputs['x'].shape[0]` as `L['x'].size()[0]`."""
    return where.replace("inputs", "L", 1).replace(".shape[", ".size()[")


def spelled(text: str, names: Mapping[str, str]) -> str:
    """An expression's text with other names for its symbols."""
    return re.sub(r"\b[sui]\d+\b", lambda found: names.get(found[0], found[0]), text)


_HOLDS: dict[str, Callable[[int, int], bool]] = {
    ">": lambda low, high: low > 0,
    ">=": lambda low, high: low >= 0,
    "<": lambda low, high: high < 0,
    "<=": lambda low, high: high <= 0,
    "!=": lambda low, high: low > 0 or high < 0,
    "==": lambda low, high: low == high == 0,
}


def always(difference: Expr, relation: str, ranges: Mapping[str, ValueRanges]) -> bool:
    """Whether a linear comparison with 0 holds at all corners of the ranges (sizes are at least 2)."""
    low = high = 0
    for monomial, factor in difference.terms.items():
        if not monomial:
            low, high = low + factor, high + factor
            continue
        (atom, power), *others = monomial
        if others or power != 1 or atom.op != "symbol" or str(atom.args[0]) not in ranges:
            return False
        bounds = ranges[str(atom.args[0])]
        ends = sorted((factor * max(bounds.lower, 2), factor * bounds.upper))
        low, high = low + ends[0], high + ends[1]
    return _HOLDS[relation](low, high)


def solved(name: str, difference: Expr, relation: str) -> tuple[int, int] | None:
    """The values of a symbol for which `a * symbol + b relation 0`, where that is an interval."""
    terms = dict(difference.terms)
    b = terms.pop((), 0)
    if len(terms) != 1 or relation in ("==", "!="):
        return None
    (monomial, a) = next(iter(terms.items()))
    if difference - symbol(name) * number(a) != number(b):
        return None
    strict = relation in ("<", ">")
    if relation in ("<", "<="):
        a, b = -a, -b
    if a > 0:  # a * s + b >= (strict: >) 0
        return (-b // a + 1 if strict else -(b // a)), UNBOUNDED
    return 0, (b - strict) // -a


def is_linear(expr: Expr) -> bool:
    """Whether an expression is a sum of multiples of symbols, and a number."""
    atoms = [monomial for monomial in expr.terms if monomial]
    return all(len(m) == 1 and m[0][1] == 1 and m[0][0].op == "symbol" for m in atoms)


def bounds_through(expr: Expr, name: str, bounds: ValueRanges) -> ValueRanges:
    """The values of a symbol for which an increasing linear expression of it has a value in bounds."""
    offset = expr.terms.get((), 0)
    factor = expr.value({name: 1}) - offset if expr.free_symbols == {name} else 0
    if not is_linear(expr) or factor <= 0:
        return ValueRanges(0, UNBOUNDED)
    top = UNBOUNDED if bounds.upper >= UNBOUNDED else (bounds.upper - offset) // factor
    return ValueRanges(max(0, -((offset - bounds.lower) // factor)), top)


def multiple_of(name: str, difference: Expr) -> int | None:
    """The number of which a symbol is a multiple where `symbol mod number` is 0."""
    if len(difference.terms) != 1:
        return None
    (monomial, _) = next(iter(difference.terms.items()))
    if len(monomial) != 1 or monomial[0][0].op != "mod":
        return None
    left, right = monomial[0][0].args
    return right.constant if left == symbol(name) else None
