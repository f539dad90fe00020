"""Whole numbers that depend on sizes, and the expressions behind them.

Takes symbols, which stand for sizes of at least 2, and arithmetic on them.  Gives `Expr`, a polynomial
in one canonical form, and `SymInt`, an `int` that knows its expression.
Keeps true: a `SymInt` has the value that it would have for the example sizes; a comparison that does
not follow from the expressions is noted as a guard; `int(x)` fixes the value, and notes that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from facula.ops.table import remember

#: the least value of a symbol: sizes 0 and 1 are never symbols
LEAST = 2
#: how the names of symbols without an example begin: numbers that are read from elements
UNBACKED = "u"
#: how the names of symbols begin that stand for ints, which may be anything
ANY_INT = "i"

# from now on sizes may be symbols
remember.SYMBOLIC[0] = True

Monomial = tuple[tuple["Atom", int], ...]


class Atom:
    """What expressions are made of: a symbol, or a quotient, remainder, maximum or minimum."""

    __slots__ = ("args", "key", "op")

    def __init__(self, op: str, args: tuple[Any, ...]) -> None:
        self.op = op
        self.args = args
        self.key = f"{op}({', '.join(map(str, args))})" if op != "symbol" else str(args[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def least(self) -> int | None:
        """A lower bound that holds for all sizes; None where none is known."""
        if self.op == "symbol":
            return None if str(self.args[0]).startswith((UNBACKED, ANY_INT)) else LEAST
        a, b = (x.least() for x in self.args)
        if self.op in ("floordiv", "mod"):
            divides = b is not None and b >= 1
            return 0 if divides and (self.op == "mod" or (a is not None and a >= 0)) else None
        known = [x for x in (a, b) if x is not None]
        if self.op == "max":
            return max(known, default=None)
        return min(known) if len(known) == 2 else None

    def least_negated(self) -> int | None:
        """A lower bound of the negative: `-(-n // k)` is `n / k` rounded up."""
        if self.op != "floordiv":
            return None
        top, bottom = (-self.args[0]).least(), self.args[1].constant
        return -(-top // bottom) if top is not None and bottom is not None and bottom > 0 else None

    def value(self, sizes: Mapping[str, int]) -> int:
        """The number for given sizes."""
        if self.op == "symbol":
            return sizes[self.args[0]]
        a, b = (x.value(sizes) for x in self.args)
        return _APPLIED[self.op](a, b)

    def replaced(self, found: Mapping[str, Expr]) -> Expr:
        """The atom with expressions for symbols."""
        if self.op == "symbol":
            return found.get(self.args[0], Expr({((self, 1),): 1}))
        return _MADE[self.op](*[x.replaced(found) for x in self.args])

    def text(self) -> str:
        if self.op == "symbol":
            return str(self.args[0])
        sign = {"floordiv": "//", "mod": "%"}.get(self.op)
        a, b = self.args
        return (
            f"(({a})//({b}))"
            if sign == "//"
            else f"(({a}) % ({b}))"
            if sign
            else f"{self.op}({a}, {b})"
        )


_APPLIED: dict[str, Any] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
}


class Expr:
    """A sum of products of atoms with whole factors; equal expressions compare equal."""

    __slots__ = ("_hash", "_key", "_symbols", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        kept = {m: c for m, c in terms.items() if c}
        if len(kept) > 1:
            kept = dict(sorted(kept.items(), key=lambda item: [(a.key, p) for a, p in item[0]]))
        self.terms: dict[Monomial, int] = kept
        self._key = tuple(((tuple((a.key, p) for a, p in m)), c) for m, c in self.terms.items())
        self._hash = hash(self._key)
        self._symbols: set[str] | None = None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Expr) and self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    @property
    def constant(self) -> int | None:
        """The number, if it is one."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def symbol(self) -> str | None:
        """The name, if it is a symbol alone."""
        if len(self.terms) != 1:
            return None
        monomial, factor = next(iter(self.terms.items()))
        alone = factor == 1 and len(monomial) == 1 and monomial[0][1] == 1
        return monomial[0][0].args[0] if alone and monomial[0][0].op == "symbol" else None

    @property
    def unbacked(self) -> set[str]:
        """The names of those symbols in it that have no example."""
        return {name for name in self.free_symbols if name.startswith(UNBACKED)}

    @property
    def free_symbols(self) -> set[str]:
        """The names of all symbols in it."""
        if self._symbols is not None:
            return self._symbols
        found: set[str] = set()
        for monomial in self.terms:
            for atom, _ in monomial:
                if atom.op == "symbol":
                    found.add(atom.args[0])
                else:
                    for x in atom.args:
                        found |= x.free_symbols
        self._symbols = found
        return found

    def value(self, sizes: Mapping[str, int]) -> int:
        """The number for given sizes."""
        memo = getattr(sizes, "memo", None)
        if memo is not None and self in memo:
            return memo[self]
        total = 0
        for monomial, factor in self.terms.items():
            for atom, power in monomial:
                factor *= atom.value(sizes) ** power
            total += factor
        if memo is not None:
            memo[self] = total
        return total

    def replaced(self, found: Mapping[str, Expr]) -> Expr:
        """The expression with others for some symbols."""
        if self.free_symbols.isdisjoint(found):
            return self
        total = number(0)
        for monomial, factor in self.terms.items():
            product = number(factor)
            for atom, power in monomial:
                base = atom.replaced(found)
                for _ in range(power):
                    product = product * base
            total = total + product
        return total

    def least(self) -> int | None:
        """A lower bound that holds for all sizes; None where none is known."""
        total = 0
        for monomial, factor in self.terms.items():
            if factor < 0 and len(monomial) == 1 and monomial[0][1] == 1:
                bound = monomial[0][0].least_negated()
            else:
                bound = _least_product(monomial) if factor > 0 or not monomial else None
            if bound is None:
                return None
            total += (abs(factor) if monomial else factor) * bound
        return total

    def __add__(self, other: Expr) -> Expr:
        terms = dict(self.terms)
        for monomial, factor in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return Expr(terms)

    def __neg__(self) -> Expr:
        return Expr({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Expr) -> Expr:
        return self + (-other)

    def __mul__(self, other: Expr) -> Expr:
        terms: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                powers: dict[Atom, int] = dict(m)
                for atom, p in n:
                    powers[atom] = powers.get(atom, 0) + p
                key = tuple(sorted(powers.items(), key=lambda item: item[0].key))
                terms[key] = terms.get(key, 0) + c * d
        return Expr(terms)

    def __str__(self) -> str:
        parts = []
        for monomial, factor in self.terms.items():
            names = [a.text() if p == 1 else f"{a.text()}**{p}" for a, p in monomial]
            factors = names if factor == 1 and names else [str(factor), *names]
            parts.append("*".join(factors))
        return " + ".join(parts).replace("+ -", "- ") or "0"

    __repr__ = __str__


def _least_product(monomial: Monomial) -> int | None:
    """A lower bound of a product of atoms that are not negative."""
    product = 1
    for atom, power in monomial:
        least = atom.least()
        if least is None or least < 0:
            return None
        product *= least**power
    return product


class Point(dict[str, int]):
    """Sizes for all symbols, which remembers the values of expressions."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__(sizes)
        self.memo: dict[Expr, int] = {}


def number(value: int) -> Expr:
    """A constant."""
    return Expr({(): value})


def symbol(name: str) -> Expr:
    """A symbol alone."""
    return Expr({((Atom("symbol", (name,)), 1),): 1})


def _divided(a: Expr, b: Expr) -> Expr | None:
    """The quotient where `b` is one term and divides every term of `a`."""
    if len(b.terms) != 1:
        return None
    divisor, factor = next(iter(b.terms.items()))
    terms: dict[Monomial, int] = {}
    for monomial, c in a.terms.items():
        powers = dict(monomial)
        for atom, p in divisor:
            powers[atom] = powers.get(atom, 0) - p
        if c % factor or any(p < 0 for p in powers.values()):
            return None
        terms[tuple((atom, p) for atom, p in powers.items() if p)] = c // factor
    return Expr(terms)


def _times(a: Expr, b: Expr) -> int | None:
    """The quotient `a // b` where it is the same number for all sizes, as far as bounds show."""
    for monomial, factor in b.terms.items():
        if not monomial:
            continue
        close = a.terms.get(monomial, 0) // factor
        for quotient in (close, close - 1):
            rest = a - b * number(quotient)
            above, below = rest.least(), (b - rest).least()
            if above is not None and below is not None and above >= 0 and below >= 1:
                return quotient
        break
    return None


def floordiv(a: Expr, b: Expr) -> Expr:
    """`a // b`."""
    if a.constant is not None and b.constant:
        return number(a.constant // b.constant)
    times = _times(a, b)
    if times is not None:
        return number(times)
    exact = _divided(a, b)
    return exact if exact is not None else Expr({((Atom("floordiv", (a, b)), 1),): 1})


def mod(a: Expr, b: Expr) -> Expr:
    """`a % b`."""
    if a.constant is not None and b.constant:
        return number(a.constant % b.constant)
    times = _times(a, b)
    if times is not None:
        return a - b * number(times)
    return number(0) if _divided(a, b) is not None else Expr({((Atom("mod", (a, b)), 1),): 1})


def _extreme(name: str, choose: Callable[..., Any]) -> Any:
    def made(a: Expr, b: Expr) -> Expr:
        if a.constant is not None and b.constant is not None:
            return number(choose(a.constant, b.constant))
        return a if a == b else Expr({((Atom(name, (a, b)), 1),): 1})

    return made


maximum, minimum = _extreme("max", max), _extreme("min", min)
_MADE = {"floordiv": floordiv, "mod": mod, "max": maximum, "min": minimum}


# ------------------------------------------------------------------ numbers


def expr_of(x: Any) -> Expr:
    """The expression behind a whole number."""
    return x.expr if isinstance(x, SymInt) else number(int(x))


def plain(x: Any) -> int:
    """The value as an ordinary int; nothing is noted."""
    return int.__int__(x)


class SymInt(int):
    """A whole number that depends on sizes; its value is that for the example sizes."""

    __module__ = "facula"  # where users find it
    _is_symbolic = True
    expr: Expr
    env: Any

    def __new__(cls, value: int, expr: Expr | None = None, env: Any = None) -> SymInt:
        made = super().__new__(cls, value)
        made.expr = (getattr(value, "expr", None) or number(value)) if expr is None else expr
        made.env = getattr(value, "shape_env", None) if env is None else env
        return made

    @property
    def node(self) -> SymInt:
        """What describes the number: itself."""
        return self

    @property
    def hint(self) -> int:
        """The value for the example sizes."""
        return plain(self)

    def _made(self, value: int, expr: Expr) -> Any:
        found = self.env.simplified(expr) if self.env is not None else expr
        return value if found.constant is not None else SymInt(value, found, self.env)

    def _computed(self, name: str, value: int, rule: Callable[..., Any], a: Any, b: Any) -> Any:
        """The number with the expression of an operation, which is computed once."""
        if self.env is None:
            return self._made(value, rule(expr_of(a), expr_of(b)))
        key = (name, a.expr if isinstance(a, SymInt) else a, b.expr if isinstance(b, SymInt) else b)
        found = self.env.computed.get(key)
        if found is None:
            found = self.env.computed[key] = rule(expr_of(a), expr_of(b))
        return self._made(value, found)

    def __index__(self) -> int:
        # asked for by name only (C code takes the value itself): the expression stays
        return self

    def __int__(self) -> int:
        if self.env is not None and self.expr.unbacked:
            return self.env.whole(self.expr)
        self._note("==", number(plain(self)), True)
        return plain(self)

    def __float__(self) -> float:
        return float(self.__int__())

    def __bool__(self) -> bool:
        return bool(self != 0)  # a comparison may be open still

    def _note(self, relation: str, other: Expr, outcome: bool) -> None:
        if self.env is not None:
            self.env.note(self.expr, relation, other, outcome)

    def __hash__(self) -> int:
        return hash(plain(self))

    def __repr__(self) -> str:
        return str(self.expr)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.__int__(), spec) if spec else str(self.expr)

    def __reduce__(self) -> Any:
        return int, (plain(self),)

    def __deepcopy__(self, memo: object) -> SymInt:
        return self

    def __pos__(self) -> SymInt:
        return self

    def __neg__(self) -> Any:
        return self._made(-plain(self), -self.expr)

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if type(other) is int and other >= 0 and modulo is None:
            result: Any = 1
            for _ in range(other):
                result = self * result
            return result
        return pow(plain(self) if isinstance(other, SymInt) else self.__int__(), other, modulo)

    def __truediv__(self, other: Any) -> Any:
        if self._fixes_quotients:
            return self.__int__() / (other.__int__() if isinstance(other, SymInt) else other)
        return SymFloat(plain(self) / float.__add__(0.0, other), self, other)

    def __rtruediv__(self, other: Any) -> Any:
        if self._fixes_quotients:
            return other / self.__int__()
        return SymFloat(other / plain(self), other, self)

    @property
    def _fixes_quotients(self) -> bool:
        return self.env is not None and self.env.fixes_quotients

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __round__(self, digits: Any = None) -> Any:
        return self if digits is None or digits >= 0 else round(self.__int__(), digits)

    def __invert__(self) -> Any:
        return -self - 1

    def __lshift__(self, other: Any) -> Any:
        counted = type(other) is int and other >= 0
        return self * (1 << other) if counted else self.__int__() << _fixed(other)

    def __rshift__(self, other: Any) -> Any:
        counted = type(other) is int and other >= 0
        return self // (1 << other) if counted else self.__int__() >> _fixed(other)

    def __and__(self, other: object) -> Any:
        if type(other) is int and other >= 0 and not other & (other + 1):
            return self % (other + 1)  # the last bits
        return self.__int__() & _fixed(other)

    __rand__ = __and__

    def __ceil__(self) -> Any:
        return self

    __floor__ = __trunc__ = __ceil__

    def conjugate(self) -> SymInt:
        """The number itself."""
        return self


def _fixed(x: object) -> Any:
    return x.__int__() if isinstance(x, SymInt) else x


def _fixing(name: str) -> None:
    """What has no expression is computed from the value, which is fixed."""
    of_int = getattr(int, name)

    def method(self: SymInt, *args: object, **kwargs: object) -> Any:
        return of_int(self.__int__(), *map(_fixed, args), **kwargs)

    method.__name__ = name
    setattr(SymInt, name, method)


for _name in (
    "__rlshift__", "__rrshift__", "__or__", "__ror__", "__xor__", "__rxor__", "__rpow__",
    "bit_length", "bit_count", "to_bytes", "as_integer_ratio",
):  # fmt: skip
    _fixing(_name)
SymInt.real = SymInt.numerator = property(lambda self: self)  # type: ignore[assignment]
SymInt.shape_env = property(lambda self: self.env)  # type: ignore[attr-defined] # what knows the symbols


class SymFloat(float):
    """A quotient of numbers that depend on sizes; used as a float, it is fixed to its value."""

    __module__ = "facula"  # where users find it
    _is_symbolic = True
    top: Any
    bottom: Any

    def __new__(cls, value: float, top: Any = None, bottom: Any = None) -> SymFloat:
        made = super().__new__(cls, value)
        made.top, made.bottom = top, bottom
        return made

    def __reduce__(self) -> Any:
        return float, (float.__float__(self),)

    def __trunc__(self) -> Any:
        # truncation and flooring agree for sizes, which are not negative
        return self.__floor__()

    def __floor__(self) -> Any:
        return self.top // self.bottom if self._whole() else math.floor(float(self))

    def __ceil__(self) -> Any:
        return -((-self.top) // self.bottom) if self._whole() else math.ceil(float(self))

    def _whole(self) -> bool:
        return isinstance(self.top, int) and isinstance(self.bottom, int)


class SymBool(int):
    """A condition on numbers: it is decided, with a guard, when it is asked; without examples, if it can be."""

    __module__ = "facula"  # where users find it
    _is_symbolic = True
    condition: Any
    env: Any

    def __new__(cls, value: object, condition: Any = None, env: Any = None) -> SymBool:
        """Make one of (left, relation, right), ("and" | "or" | "not", *conditions) or ("test", function, *numbers)."""
        made = super().__new__(cls, bool(value))
        made.condition, made.env = condition, env
        return made

    @property
    def node(self) -> SymBool:
        """Itself: what describes it."""
        return self

    def __bool__(self) -> bool:
        if self.condition is None:
            return plain(self) != 0
        return self.env.decided(self.condition)

    def expect(self, message: Any = None) -> bool:
        """From now on it is true, which the program checks; of numbers with examples it is a guard or False."""
        known, env = self.condition, self.env
        return bool(self) if env.backed(known) else env.expect(known, message)

    def _joined(self, word: str, other: object) -> Any:
        if isinstance(other, SymBool) and other.condition is not None:
            value = (plain(self) and plain(other)) if word == "and" else plain(self) or plain(other)
            return SymBool(value, (word, self.condition, other.condition), self.env)
        if isinstance(other, (bool, SymBool)):
            return (self if other else False) if word == "and" else (True if other else self)
        return NotImplemented

    def __and__(self, other: object) -> Any:
        return self._joined("and", other)

    def __or__(self, other: object) -> Any:
        return self._joined("or", other)

    __rand__, __ror__ = __and__, __or__

    def __sym_not__(self) -> SymBool:
        return SymBool(not plain(self), negated(self.condition), self.env)

    def __eq__(self, other: object) -> Any:
        if type(other) in (bool, int) and other in (0, 1) and self.condition is not None:
            return self if other else self.__sym_not__()
        return NotImplemented if not isinstance(other, int) else int(bool(self)) == plain(other)

    def __ne__(self, other: object) -> Any:
        same = self.__eq__(other)
        return same if same is NotImplemented else sym_not(same)

    __hash__ = int.__hash__

    def __repr__(self) -> str:
        return condition_text(self.condition) if self.condition else str(plain(self) != 0)

    __str__ = __repr__

    def __reduce__(self) -> Any:
        return bool, (bool(plain(self)),)


OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def negated(condition: Any) -> Any:
    """The opposite of a condition."""
    if condition[0] == "not":
        return condition[1]
    if condition[0] in ("and", "or"):
        return ("and" if condition[0] == "or" else "or", *map(negated, condition[1:]))
    if condition[0] == "test":
        return ("not", condition)
    left, relation, right = condition
    return left, OPPOSITE[relation], right


def condition_text(condition: Any) -> str:
    """A condition as PyTorch writes it: `Eq(u0, 2)`, `u0 >= 2`."""
    if condition[0] in ("and", "or"):
        sign = " & " if condition[0] == "and" else " | "
        texts = [(part[0] == condition[0], condition_text(part)) for part in condition[1:]]
        return sign.join(t if alike or t[:3] in ("Eq(", "Ne(") else f"({t})" for alike, t in texts)
    if condition[0] == "not":
        return f"~({condition_text(condition[1])})"
    if condition[0] == "test":
        return f"{condition[1].__name__}({', '.join(map(str, condition[2:]))})"
    left, relation, right = condition
    if relation in ("==", "!="):
        return f"{'Eq' if relation == '==' else 'Ne'}({left}, {right})"
    return f"{left} {relation} {right}"


#: slot: (name of an operator, number, number) -> the result, a float
FLOAT_RULE: list[Any] = [None]


def _arithmetic(name: str, on_expressions: Any, on_values: Any) -> None:
    def method(self: SymInt, other: Any) -> Any:
        if not isinstance(other, int):
            if isinstance(other, (list, tuple, str, bytes)):
                return on_values(self.__int__(), other)
            base = getattr(int, f"__{name}__")
            return (
                FLOAT_RULE[0](name, self, other) if isinstance(other, float) else base(self, other)
            )
        value = on_values(plain(self), plain(other))
        return self._computed(name, value, on_expressions, self, other)

    def reflected(self: SymInt, other: object) -> Any:
        if not isinstance(other, int):
            if isinstance(other, float):
                return FLOAT_RULE[0](name, other, self)
            if isinstance(other, (list, tuple, str, bytes)):
                return on_values(other, self.__int__())  # so many items: the number is fixed
            return NotImplemented
        value = on_values(plain(other), plain(self))
        return self._computed(name, value, on_expressions, other, self)

    setattr(SymInt, f"__{name}__", method)
    setattr(SymInt, f"__r{name}__", reflected)


_arithmetic("add", lambda a, b: a + b, lambda a, b: a + b)
_arithmetic("sub", lambda a, b: a - b, lambda a, b: a - b)
_arithmetic("mul", lambda a, b: a * b, lambda a, b: a * b)
_arithmetic("floordiv", floordiv, lambda a, b: a // b)
_arithmetic("mod", mod, lambda a, b: a % b)


def _comparison(name: str, relation: str, compare: Callable[..., Any]) -> None:
    def method(self: SymInt, other: object) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        if isinstance(other, float) and not isinstance(other, SymFloat):
            if not other.is_integer():
                fixed = self.__int__() if math.isfinite(other) else self
                return compare(float(plain(fixed)), other)
            other = int(other)
        if isinstance(other, float):
            return compare(float(self), float(other))
        outcome = compare(plain(self), plain(other))
        right = expr_of(other)
        if (env := self.env) and (env.keeps_conditions or self.expr.unbacked or right.unbacked):
            return env.compared(self.expr, relation, right, outcome)
        self._note(relation, right, outcome)
        return outcome

    setattr(SymInt, f"__{name}__", method)


for _name, _relation, _compare in (
    ("eq", "==", lambda a, b: a == b), ("ne", "!=", lambda a, b: a != b),
    ("lt", "<", lambda a, b: a < b), ("le", "<=", lambda a, b: a <= b),
    ("gt", ">", lambda a, b: a > b), ("ge", ">=", lambda a, b: a >= b),
):  # fmt: skip
    _comparison(_name, _relation, _compare)


def sym_int(a: Any) -> Any:
    """``int(a)``, which keeps the expression of a number that depends on sizes.

    Args:
        a: a number

    Example:
        >>> facula.sym_int(2.5)
        2
    """
    return a.__trunc__() if isinstance(a, SymFloat) else a if isinstance(a, SymInt) else int(a)


def sym_float(a: Any) -> Any:
    """``float(a)``, which keeps the expression of a number that depends on sizes.

    Args:
        a: a number

    Example:
        >>> facula.sym_float(2)
        2.0
    """
    return SymFloat(float(plain(a)), a, 1) if isinstance(a, SymInt) else float(a)


def _chosen(a: object, b: object, on_expressions: Any, on_values: Any) -> Any:
    symbolic = a if isinstance(a, SymInt) else b
    if not isinstance(symbolic, SymInt) or not (isinstance(a, int) and isinstance(b, int)):
        return on_values(a, b)
    return symbolic._made(on_values(plain(a), plain(b)), on_expressions(expr_of(a), expr_of(b)))


def sym_max(a: object, b: object) -> Any:
    """The larger of two numbers; no guard says which it is.

    Args:
        a, b: numbers

    Example:
        >>> facula.sym_max(1, 2)
        2
    """
    return _chosen(a, b, maximum, max)


def sym_min(a: object, b: object) -> Any:
    """The smaller of two numbers; no guard says which it is.

    Args:
        a, b: numbers

    Example:
        >>> facula.sym_min(1, 2)
        1
    """
    return _chosen(a, b, minimum, min)


def sym_not(a: object) -> Any:
    """``not a``.

    Args:
        a: the condition

    Example:
        >>> facula.sym_not(True)
        False
    """
    return a.__sym_not__() if isinstance(a, SymBool) else not a


def sym_ite(b: object, t: Any, f: Any) -> Any:
    """``t if b else f``.

    Args:
        b: the condition
        t, f: what is given

    Example:
        >>> facula.sym_ite(True, 1, 2)
        1
    """
    return t if b else f


def sym_sum(args: tuple[Any, ...]) -> Any:
    """The sum of numbers.

    Args:
        args: a sequence of them

    Example:
        >>> facula.sym_sum([1, 2, 3])
        6
    """
    return sum(args)
