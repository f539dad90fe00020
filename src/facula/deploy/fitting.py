"""Numbers as expressions of sizes, from what they were at some of them.

Takes: points (the sizes of all symbols) and the values there. Gives: `Fitter.fit`: an `Expression` that
has all these values, or None.
Keeps true: an expression is exact in whole numbers at every point; a table covers each size of its
range.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

#: ("p", ((coefficient, powers), ...)), ("f", symbol, (m, a, b, c, d)): m * floor((a s + b) / c) + d,
#: ("t", symbol, least, values); ("r", c, terms as of "p"): the sum rounded up to a multiple of c;
#: ("e", ((operation, number), ...)): what is known of the compiler, in the order in which a stack takes it
Expression = tuple
Point = tuple[int, ...]


def _monomials(symbols: int) -> list[tuple[int, ...]]:
    if symbols == 1:
        return [(0,), (1,), (2,)]
    found = [p for p in itertools.product((0, 1), repeat=symbols) if sum(p) <= 3]
    found += [tuple(2 if k == j else 0 for k in range(symbols)) for j in range(symbols)]
    return sorted(found, key=sum)


class Fitter:
    """Fits numbers that were seen at the same points."""

    def __init__(
        self,
        points: Sequence[Point],
        ranges: Sequence[tuple[int, int]],
        known: Iterable[Expression] = (),
    ) -> None:
        self.points = [tuple(p) for p in points]
        #: by their values, expressions that somebody knows
        self.known = {tuple(evaluate(x, p) for p in self.points): x for x in known}
        self.ranges = ranges
        self.symbols = len(ranges)
        self.monomials, self.chosen, self.inverse = self._solver() if self.symbols else ([], [], [])

    def _row(self, point: Point) -> list[Fraction]:
        row = []
        for powers in self.monomials:
            value = 1
            for size, power in zip(point, powers, strict=True):
                value *= size**power
            row.append(Fraction(value))
        return row

    def _solver(self) -> tuple[list[Point], list[int], list[list[Fraction]]]:
        """As many points as there are monomials that tell them apart, and the inverse of their matrix."""
        self.monomials = _monomials(self.symbols)
        chosen: list[int] = []
        reduced: list[list[Fraction]] = []
        for number, point in enumerate(self.points):
            row = self._row(point)
            for other in reduced:
                lead = next(k for k, x in enumerate(other) if x)
                if row[lead]:
                    factor = row[lead] / other[lead]
                    row = [x - factor * y for x, y in zip(row, other, strict=True)]
            if any(row):
                reduced.append(row)
                chosen.append(number)
            if len(chosen) == len(self.monomials):
                break
        if len(chosen) < len(self.monomials):  # few points: of one size, or two
            kept = [k for k in range(len(self.monomials)) if self._seen(k)]
            self.monomials = [self.monomials[k] for k in kept]
            if len(kept) != len(chosen):
                self.monomials, chosen = self.monomials[:1], chosen[:1]
        return self.monomials, chosen, _inverse([self._row(self.points[k]) for k in chosen])

    def _seen(self, number: int) -> bool:
        powers = self.monomials[number]
        distinct = [len({p[k] for p in self.points}) for k in range(self.symbols)]
        return all(power < d for power, d in zip(powers, distinct, strict=True))

    def fit(self, values: Sequence[int], free: bool = False) -> int | Expression | None:
        """A number, or an expression; `free`: any of the values would do."""
        if all(v == values[0] for v in values):
            return values[0]
        if free:
            return max(values)
        return (
            self._polynomial(values)
            or self.known.get(tuple(values))
            or self._floor(values)
            or self._rounded(values)
            or self._table(values)
        )

    def _rounded(self, values: Sequence[int]) -> Expression | None:
        """Bytes that are rounded up: a sum whose factors are seen through the rounding."""
        rows = [[float(x) for x in self._row(p)] for p in self.points]
        for c in (128, 64):
            if any(v % c for v in values):
                continue
            guess = _least_squares(rows, [v - c / 2 for v in values])
            for unit in (4096, 1024, 256, 128, 64, 32, 16, 8, 4, 2, 1):
                factors = [round(x / unit) * unit for x in guess]
                terms = zip(factors, self.monomials, strict=True)
                kept = tuple((f, p) for f, p in terms if f and any(p))
                found = ("r", c, kept)
                if self._holds(found, values):
                    return found
        return None

    def _polynomial(self, values: Sequence[int]) -> Expression | None:
        given = [values[k] for k in self.chosen]
        terms = []
        for powers, row in zip(self.monomials, self.inverse, strict=True):
            factor = sum((x * v for x, v in zip(row, given, strict=True)), Fraction(0))
            if factor.denominator != 1 or abs(factor.numerator) >= 1 << 62:
                return None
            if factor:
                terms.append((factor.numerator, powers))
        found = ("p", tuple(terms))
        return found if self._holds(found, values) else None

    def _holds(self, expression: Expression, values: Sequence[int]) -> bool:
        return all(evaluate(expression, p) == v for p, v in zip(self.points, values, strict=True))

    def _floor(self, values: Sequence[int]) -> Expression | None:
        """Blocks: m * ceil((a s + b) / c) + d, where the steps are of one height."""
        for symbol in range(self.symbols):
            seen = sorted({(p[symbol], v) for p, v in zip(self.points, values, strict=True)})
            if len({s for s, _ in seen}) != len(seen):
                continue
            steps = sorted({b - a for (_, a), (_, b) in itertools.pairwise(seen) if b != a})
            for m, c in itertools.product(steps[:2], (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)):
                for a, b in ((1, 0), (1, c - 1), (1, -1), (1, 1), (3, 0), (3, c - 1), (2, c - 1)):
                    first = seen[0]
                    d = first[1] - m * ((a * first[0] + b) // c)
                    found = ("f", symbol, (m, a, b, c, d))
                    if self._holds(found, values):
                        return found
        return None

    def _table(self, values: Sequence[int]) -> Expression | None:
        for symbol, (least, most) in enumerate(self.ranges):
            known: dict[int, int] = {}
            good = True
            for p, v in zip(self.points, values, strict=True):
                good = good and known.setdefault(p[symbol], v) == v
            if good and most - least < 1 << 16 and len(known) == most - least + 1:
                return ("t", symbol, least, tuple(known[s] for s in range(least, most + 1)))
        return None


def evaluate(expression: int | Expression, sizes: Point) -> int:
    """The value of an expression."""
    if isinstance(expression, int):
        return expression
    if expression[0] == "t":
        return int(expression[3][sizes[expression[1]] - expression[2]])
    if expression[0] == "f":
        m, a, b, c, d = expression[2]
        return int(m * ((a * sizes[expression[1]] + b) // c) + d)
    if expression[0] == "e":
        return _stacked(expression[1], sizes)
    if expression[0] == "r":
        whole = int(evaluate(("p", expression[2]), sizes))
        return -(-whole // expression[1]) * expression[1]
    total = 0
    for factor, powers in expression[1]:
        for size, power in zip(sizes, powers, strict=True):
            factor *= size**power
        total += factor
    return int(total)


OPERATIONS = ("constant", "symbol", "add", "mul", "floordiv", "mod", "max", "min")


def _stacked(words: Sequence[tuple[int, int]], sizes: Point) -> int:
    stack: list[int] = []
    for code, number in words:
        operation = OPERATIONS[code]
        if operation in ("constant", "symbol"):
            stack.append(number if operation == "constant" else sizes[number])
            continue
        b, a = stack.pop(), stack.pop()
        if operation in ("add", "mul"):
            stack.append(a + b if operation == "add" else a * b)
        elif operation in ("floordiv", "mod"):
            stack.append((a // b if operation == "floordiv" else a % b) if b else 0)
        else:
            stack.append(max(a, b) if operation == "max" else min(a, b))
    return stack[0]


def stacked(expression: Any, sizes: Mapping[str, tuple[int, int, int]]) -> Expression:
    """An expression of `fx.symbols` as one of these; `sizes`: what its symbols are, as (a, b, symbol)."""
    words: list[tuple[int, int]] = []

    def put(operation: str, number: int = 0) -> None:
        words.append((OPERATIONS.index(operation), number))

    def write(x: Any) -> None:
        put("constant", 0)
        for monomial, factor in x.terms.items():
            put("constant", factor)
            for atom, power in monomial:
                for _ in range(power):
                    write_atom(atom)
                    put("mul")
            put("add")

    def write_atom(atom: Any) -> None:
        if atom.op == "symbol":
            a, b, number = sizes[atom.args[0]]
            put("symbol", number)
            put("constant", a)
            put("mul")
            put("constant", b)
            put("add")
            return
        for x in atom.args:
            write(x)
        put(atom.op)

    write(expression)
    return ("e", tuple(words))


def _least_squares(rows: list[list[float]], values: list[float]) -> list[float]:
    """The factors of columns that come closest to the values."""
    width = len(rows[0]) if rows else 0
    scale = [max(abs(row[k]) for row in rows) or 1.0 for k in range(width)]
    scaled = [[x / s for x, s in zip(row, scale, strict=True)] for row in rows]
    normal = [
        [sum(row[i] * row[j] for row in scaled) + (1e-12 if i == j else 0) for j in range(width)]
        for i in range(width)
    ]
    right = [sum(row[i] * v for row, v in zip(scaled, values, strict=True)) for i in range(width)]
    inverse = _inverse([[Fraction(x) for x in row] for row in normal])
    found = [
        float(sum(x * Fraction(v) for x, v in zip(row, right, strict=True))) for row in inverse
    ]
    return [x / s for x, s in zip(found, scale, strict=True)]


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """The inverse of a matrix that has one."""
    n = len(matrix)
    rows = [[*row, *(Fraction(int(i == k)) for k in range(n))] for i, row in enumerate(matrix)]
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[n:] for row in rows]
