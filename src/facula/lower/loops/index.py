"""Index arithmetic: where in memory an element lies, as a function of loop variables.

Takes: loop variables with known extents, sums, products with numbers, quotients and remainders by
numbers.
Gives: `Var`, `Index` (immutable, simplified when it is made), `floordiv`, `mod`, `substitute`,
`bounds`, `split_points`, `split`.
Keeps true: equal expressions of the same form are equal objects; a simplification holds for all
values within the variables' extents; every quotient is one that rounds down, of a number >= 0.

An index is a sum of integer multiples of atoms and a number. An atom is a variable, a quotient or
a remainder of an index by a number, or a value computed in the kernel (`Indirect`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import gcd
from typing import Any, TypeAlias

_serial = itertools.count()


class Var:
    """A loop variable that runs over `[0, extent)`."""

    __slots__ = ("extent", "key", "name")

    def __init__(self, name: str, extent: int) -> None:
        self.name, self.extent = name, extent
        self.key = (0, next(_serial))

    def __repr__(self) -> str:
        return f"{self.name}<{self.extent}"


class Indirect:
    """An index that the kernel reads or computes: a scalar expression within `[0, extent)`."""

    __slots__ = ("extent", "key", "value")

    def __init__(self, value: Any, extent: int) -> None:
        self.value, self.extent = value, extent
        # an address would do for equality, but sums are sorted by it
        self.key = (1, next(_serial))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Indirect)
            and other.value is self.value
            and other.extent == self.extent
        )

    def __hash__(self) -> int:
        return hash((id(self.value), self.extent))

    def __repr__(self) -> str:
        return f"[{self.value!r}]"


class _Divided:
    """`inner // number` or `inner % number`, as an atom."""

    __slots__ = ("_hash", "_key", "inner", "number")
    rank, sign = 2, "/"

    def __init__(self, inner: Index, number: int) -> None:
        self.inner, self.number = inner, number
        self._hash = hash((self.rank, inner, number))
        self._key: Any = None

    @property
    def key(self) -> Any:
        """What sums are sorted by."""
        if self._key is None:
            self._key = (self.rank, self.inner.key, self.number)
        return self._key

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            type(other) is type(self)
            and other._hash == self._hash
            and other.number == self.number
            and other.inner == self.inner
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"({self.inner!r} {self.sign} {self.number})"


class Quotient(_Divided):
    """`inner // number`."""

    __slots__ = ()


class Remainder(_Divided):
    """`inner % number`."""

    __slots__ = ("_quotient",)
    rank, sign = 3, "%"

    def __init__(self, inner: Index, number: int) -> None:
        super().__init__(inner, number)
        self._quotient: Index | None = None

    @property
    def quotient(self) -> Index:
        """`inner // number`."""
        if self._quotient is None:
            self._quotient = floordiv(self.inner, self.number)
        return self._quotient


Atom: TypeAlias = Any  # Var | Indirect | Quotient | Remainder


def _order(term: tuple[Atom, int]) -> Any:
    return term[0].key


class Index:
    """An immutable sum `number + multiple * atom + ...`."""

    __slots__ = ("_bounds", "_hash", "number", "terms")

    def __init__(self, terms: Mapping[Atom, int], number: int = 0) -> None:
        kept = [term for term in terms.items() if term[1]]
        if len(kept) > 1:
            kept.sort(key=_order)
        self.terms: tuple[tuple[Atom, int], ...] = tuple(kept)
        self.number = number
        self._hash: int | None = None
        self._bounds: tuple[int, int] | None = None

    @property
    def key(self) -> Any:
        """What quotients and remainders of it are sorted by."""
        return self.number, tuple([(atom.key, multiple) for atom, multiple in self.terms])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and (
            self is other or (other.number == self.number and other.terms == self.terms)
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.number, self.terms))
        return self._hash

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(dict(self.terms), self.number + other) if other else self
        if not self.terms and not self.number:
            return other
        if not other.terms and not other.number:
            return self
        terms = dict(self.terms)
        for atom, multiple in other.terms:
            terms[atom] = terms.get(atom, 0) + multiple
        return _joined(terms, self.number + other.number)

    __radd__ = __add__

    def __mul__(self, factor: int) -> Index:
        if factor == 1:
            return self
        return Index(
            {atom: multiple * factor for atom, multiple in self.terms}, self.number * factor
        )

    __rmul__ = __mul__

    def __sub__(self, other: Index | int) -> Index:
        return self + (-other if isinstance(other, int) else other * -1)

    def __repr__(self) -> str:
        parts = [f"{a!r}" if m == 1 else f"{m}*{a!r}" for a, m in self.terms]
        return " + ".join([*parts, *([str(self.number)] if self.number or not parts else [])])

    @property
    def is_number(self) -> bool:
        """Whether no variable is in it."""
        return not self.terms

    def bounds(self) -> tuple[int, int]:
        """The least and the largest value, over all values of the variables (or wider)."""
        if self._bounds is None:
            low = high = self.number
            for atom, multiple in self.terms:
                a, b = _atom_bounds(atom)
                low += multiple * (a if multiple > 0 else b)
                high += multiple * (b if multiple > 0 else a)
            self._bounds = (low, high)
        return self._bounds

    def atoms(self) -> Iterable[Atom]:
        """Every atom, those inside of quotients and remainders included."""
        for atom, _ in self.terms:
            yield atom
            if isinstance(atom, _Divided):
                yield from atom.inner.atoms()

    def uses(self, variable: Var) -> bool:
        """Whether the value depends on a variable (an indirect one may: see `Indirect`)."""
        return any(atom is variable for atom in self.atoms())


def _atom_bounds(atom: Atom) -> tuple[int, int]:
    if isinstance(atom, (Var, Indirect)):
        return 0, max(atom.extent - 1, 0)
    if isinstance(atom, Remainder):
        low, high = atom.inner.bounds()
        exact = 0 <= low  # speed only: wider bounds hold as well
        return (low, high) if exact and high < atom.number else (0, atom.number - 1)
    low, high = atom.inner.bounds()
    return low // atom.number, high // atom.number


def _joined(terms: dict[Atom, int], number: int) -> Index:
    """A sum in which `n * (x // n) + x % n` has become `x`."""
    changed = True
    while changed:
        changed = False
        for atom in [a for a in terms if type(a) is Remainder and terms[a]]:
            multiple = terms[atom]
            if not multiple:
                continue
            whole = atom.quotient
            if len(whole.terms) != 1 or whole.number or whole.terms[0][1] != 1:
                continue
            upper = whole.terms[0][0]
            if terms.get(upper, 0) == multiple * atom.number:
                terms[atom] = terms[upper] = 0
                _accumulate(terms, atom.inner, multiple)
                number += atom.inner.number * multiple
                changed = True
                break
            larger = _wider(upper, terms, multiple * atom.number)
            if larger is not None:
                joined = mod(atom.inner, atom.number * larger.number)
                terms[atom] = terms[larger] = 0
                _accumulate(terms, joined, multiple)
                number += joined.number * multiple
                changed = True
                break
    return Index(terms, number)


def _wider(upper: Atom, terms: dict[Atom, int], multiple: int) -> Remainder | None:
    """The remainder of `upper` that stands in a sum with a multiple, if one does."""
    for other, found in terms.items():
        if found == multiple and isinstance(other, Remainder):
            inner = other.inner
            if not inner.number and inner.terms == ((upper, 1),):
                return other
    return None


def _accumulate(terms: dict[Atom, int], index: Index, factor: int) -> None:
    for atom, multiple in index.terms:
        terms[atom] = terms.get(atom, 0) + multiple * factor


def constant(number: int) -> Index:
    """A number."""
    return Index({}, number)


ZERO = constant(0)


def of(atom: Atom) -> Index:
    """A variable, or a computed value; 0 where there is but one place."""
    return Index({atom: 1}) if atom.extent != 1 else ZERO


def floordiv(index: Index, number: int) -> Index:
    """`index // number`, rounded down, for a number > 0."""
    if number == 1 or (not index.terms and not index.number):
        return index
    whole: dict[Atom, int] = {}
    rest: dict[Atom, int] = {}
    for atom, multiple in index.terms:
        if multiple % number == 0:
            whole[atom] = multiple // number
        else:
            rest[atom] = multiple
    above, left = divmod(index.number, number)
    remaining = Index(rest, left)
    low, high = remaining.bounds()
    if low // number == high // number:
        return Index(whole, above + low // number)
    if low < 0:
        # a variable that falls: C rounds quotients of negative numbers up
        below = low // number
        remaining, above, left = remaining - below * number, above + below, left - below * number
    common = gcd(number, *rest.values())
    if common > 1:
        inner = Index({a: m // common for a, m in rest.items()}, left // common)
        return Index(whole, above) + floordiv(inner, number // common)
    if len(rest) == 1 and not left:
        ((atom, multiple),) = rest.items()
        if multiple == 1 and isinstance(atom, Quotient):
            return Index(whole, above) + floordiv(atom.inner, atom.number * number)
    return Index(whole, above) + Index({Quotient(remaining, number): 1})


def mod(index: Index, number: int) -> Index:
    """`index % number`, for an index >= 0 and a number > 0."""
    if number == 1:
        return ZERO
    rest: dict[Atom, int] = {}
    for atom, multiple in index.terms:
        if multiple % number:
            rest[atom] = multiple if abs(multiple) < number else multiple % number
    left = index.number % number
    remaining = Index(rest, left)
    low, high = remaining.bounds()
    if low // number == high // number:
        return remaining - low // number * number
    common = gcd(number, *rest.values())
    if common > 1:  # speed only: the same number, by a shorter expression
        inner = Index({a: m // common for a, m in rest.items()}, left // common)
        return mod(inner, number // common) * common + left % common
    if len(rest) == 1 and not left:
        ((atom, multiple),) = rest.items()
        if multiple == 1 and isinstance(atom, Remainder) and atom.number % number == 0:
            return mod(atom.inner, number)
    if low < 0:
        remaining = remaining + -(low // number) * number
    return Index({Remainder(remaining, number): 1})


def substitute(
    index: Index, replacement: Mapping[Var, Index], value: Callable[[Any], Any] | None = None
) -> Index:
    """The index with variables replaced, simplified anew; `value` maps what indirect ones hold."""
    result = constant(index.number)
    for atom, multiple in index.terms:
        result = result + _substitute_atom(atom, replacement, value) * multiple
    return result


def _substitute_atom(
    atom: Atom, replacement: Mapping[Var, Index], value: Callable[[Any], Any] | None
) -> Index:
    if isinstance(atom, Var):
        found = replacement.get(atom)
        return of(atom) if found is None else found
    if isinstance(atom, Indirect):
        return Index({atom if value is None else Indirect(value(atom.value), atom.extent): 1})
    inner = substitute(atom.inner, replacement, value)
    rule = floordiv if isinstance(atom, Quotient) else mod
    return rule(inner, atom.number)


def split_points(indices: Iterable[Index], variable: Var) -> list[int] | None:
    """The numbers at which a variable falls apart into digits, so that no quotient or remainder of
    it is left; None where they are no chain of divisors of its extent."""
    found: set[int] = set()
    for index in indices:
        for atom in index.atoms():
            if isinstance(atom, _Divided):
                found |= _places(atom, variable)
    points = sorted(p for p in found if 1 < p < variable.extent)
    previous = 1
    for point in [*points, variable.extent]:
        if point % previous:
            return None
        previous = point
    return points


def split(variable: Var, indices: list[Index]) -> tuple[list[Var], Index]:
    """The digits of a variable (outermost first), and the variable in terms of them."""
    points = split_points(indices, variable)
    if not points:
        return [variable], of(variable)
    ends = [1, *points, variable.extent]
    loops, value = [], ZERO
    for k in range(len(ends) - 1):
        digit = Var(f"{variable.name}{k}", ends[k + 1] // ends[k])
        loops.append(digit)
        value = value + of(digit) * ends[k]
    return loops[::-1], value


def _places(atom: _Divided, variable: Var) -> set[int]:
    """The places of digits that `variable // n`, `variable % n`, `variable // n % m` cut."""
    inner = atom.inner
    if inner.number or len(inner.terms) != 1 or inner.terms[0][1] != 1:
        return set()
    below = inner.terms[0][0]
    if below is variable:
        return {atom.number}
    if isinstance(below, Quotient) and below.inner == of(variable):
        return {below.number, below.number * atom.number}
    return set()


def digits(index: Index, sizes: Sequence[int], strides: Sequence[int]) -> list[Index]:
    """The position in each dimension of the element at `index` in dense memory.

    `strides` are those of a tensor without gaps; dimensions of size 1 are at 0, and so are all where
    there is no element.
    """
    if 0 in sizes:
        return [ZERO] * len(sizes)
    total = max((s * n for n, s in zip(sizes, strides, strict=True) if n > 1), default=1)
    found = []
    for size, stride in zip(sizes, strides, strict=True):
        if size <= 1:
            found.append(ZERO)
            continue
        place = floordiv(index, stride)
        found.append(place if size * stride == total else mod(place, size))
    return found


def linear(positions: Sequence[Index], strides: Sequence[int], start: int = 0) -> Index:
    """Where the element at `positions` lies."""
    terms: dict[Atom, int] = {}
    for position, stride in zip(positions, strides, strict=True):
        if stride:
            start += position.number * stride
            _accumulate(terms, position, stride)
    return _joined(terms, start)
