"""Numbers of which no example is known: those that a program reads from elements.

Takes: their symbols (`u0`, ...), and what the program checks of them. Gives: `Unbacked`, which knows the
range of each, decides conditions where the ranges and checks suffice, and keeps what is to be checked
where the program runs; `UnbackedFloat`, a float that was read.
Keeps true: nothing is assumed of such a number that was not checked, except that where it is a size, it is
treated like one of at least 2; what can not be decided raises `GuardOnDataDependentSymNode`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from facula import core
from facula.core.errors import message as error_text
from facula.fx.symbolic_floats import give_operators
from facula.fx.symbols import (
    LEAST,
    OPPOSITE,
    UNBACKED,
    Expr,
    SymBool,
    SymFloat,
    condition_text,
    number,
    symbol,
)  # fmt: skip
from facula.fx.traceback import user_stack

Range = tuple[float, float]
_EVERYTHING: Range = (-math.inf, math.inf)
#: what stands for such a number while shapes are computed: far from the sizes that programs have
_FIRST, _STEP = 5040 * 3, 5040
#: numbers of elements fit 64 bits
_BEYOND = 2**62
HOLDS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


class GuardOnDataDependentSymNode(RuntimeError):
    """A decision that depends on a number which is read from elements."""

    def __init__(self, cond: Any, *args: object) -> None:
        self.cond = cond
        super().__init__(*args)


def undecided(condition: object) -> NoReturn:
    """Raise for a condition that nothing decides."""
    text = condition if isinstance(condition, str) else condition_text(condition)
    said = error_text(
        "ShapeEnv",
        "a condition that follows from what was checked was required: Could not guard on "
        f"data-dependent expression {text} (unhinted: {text})",
        hint=f"if it always holds, write torch._check({text}) in front of it; else "
        "use torch.cond or where()",
    )
    raise GuardOnDataDependentSymNode(text, said)


def asserted(env: Any, condition: Any) -> bool:
    """The truth of a condition that nothing decides: a program that asserts it has it checked where it runs."""
    # lazily: for programs that ask
    from facula.fx.asserts import is_asserted

    return env.expect(condition) if is_asserted() else undecided(condition)


def _tensor_of(data: Any, dtype: core.dtype) -> Any:
    # lazily: for programs that make tensors of what they read
    from facula.fx.unknown_numbers import tensor_of

    return tensor_of(data, dtype)


core.UNKNOWN_NUMBERS[0] = _tensor_of
give_operators()


@dataclass
class Check:
    """What a program says of such numbers, to be checked where it runs."""

    condition: Any
    message: Any
    stack: str


def _bound(condition: Any) -> tuple[str, int, int] | None:
    """What a condition says of one number: its name, 1 for "at least" and -1 for "at most", and the bound."""
    if condition[0] in ("and", "or", "not", "test") or condition[1] in ("==", "!="):
        return None
    left, relation, right = condition
    sign = -1 if relation in ("<", "<=") else 1
    least = (left - right) * number(sign) - number(1 if relation in ("<", ">") else 0)
    names = least.free_symbols
    name = next(iter(names)) if len(names) == 1 else ""
    offset = least.terms.get((), 0)
    for factor in (1, -1):
        if name and least == symbol(name) * number(factor) + number(offset):
            return name, factor, -offset * factor
    return None


def tightest(checks: list[Check]) -> list[Check]:
    """The checks without bounds that follow from others of the same number."""
    best: dict[tuple[str, int], Check] = {}
    for check in checks:
        found = _bound(check.condition)
        if found is None:
            continue
        name, side, bound = found
        known = best.get((name, side))
        if known is None or side * bound > side * _bound(known.condition)[2]:  # type: ignore[index]
            best[name, side] = check
    kept = {id(check) for check in best.values()}
    return [check for check in checks if _bound(check.condition) is None or id(check) in kept]


class Unbacked:
    """The numbers of one trace of which no example is known."""

    def __init__(self, hints: dict[str, int]) -> None:
        self.hints = hints
        self.ranges: dict[str, Range] = {}
        self.checks: list[Check] = []
        #: differences that are known to be at least 0
        self._known: list[Expr] = []
        self._different: list[Expr] = []
        self.floats = 0
        #: what brings fake tensors up to date when what stands for a number changes
        self._tensors: list[Callable[[], None]] = []

    def renews(self, renew: Callable[[], None]) -> None:
        """Have a function called whenever what stands for a number changes."""
        self._tensors.append(renew)

    def renewed(self) -> None:
        """What stands for a number has changed."""
        for renew in self._tensors:
            renew()

    def new(self, low: float = -math.inf, high: float = math.inf) -> Expr:
        """A new symbol."""
        name = f"{UNBACKED}{len(self.ranges)}"
        self.ranges[name] = (low, high)
        self.hints[name] = _FIRST + _STEP * len(self.ranges)
        self._fit(name)
        return symbol(name)

    @staticmethod
    def float_of(env: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> UnbackedFloat:
        """A float that is computed from such numbers."""
        return UnbackedFloat(env, function, args)

    def adopt(self, name: str, low: float, high: float) -> None:
        """Make a symbol known that a file has.

        Args:
            name: of the symbol
            low, high: its range
        """
        if name not in self.ranges:
            self.ranges[name] = (low, high)
            self.hints[name] = _FIRST + _STEP * len(self.ranges)
            self._fit(name)

    def _fit(self, name: str) -> None:
        """Keep what stands for the number inside of its range, as it is for the example sizes."""
        low, high = self._range_here(name)
        if not low <= self.hints[name] <= high:
            inside = high if math.isfinite(high) else low
            self.hints[name] = int(max(min(inside, high), min(LEAST, high)))

    def _range_here(self, name: str) -> Range:
        """The range of a number for what stands for all others: `u0 < s0` bounds it for the example."""
        low, high = self.ranges[name]
        alone = next(iter(symbol(name).terms))
        for least in self._known:
            factor = least.terms.get(alone, 0)
            rest = least - symbol(name) * number(factor)
            if not factor or name in rest.free_symbols or not rest.free_symbols <= set(self.hints):
                continue
            bound = -rest.value(self.hints) / factor
            if factor > 0:
                low = max(low, math.ceil(bound))
            else:
                high = min(high, math.floor(bound))
        return (low, high) if low <= high else self.ranges[name]

    def tried(self, name: str) -> list[int]:
        """Values at which the shapes of results are tried: small ones and large ones."""
        lowest, high = self._range_here(name)
        low = max(lowest, LEAST)
        hint = self.hints[name]
        wanted = [hint + 2520, hint + 5880, low, low + 1, low + 5, hint - 1, high, high - 1]
        found = [v for v in wanted if low <= v <= high and math.isfinite(v)]
        if len(set(found)) < 3 and lowest < LEAST:  # a range of a few numbers: an index, say
            found += [v for v in (lowest, lowest + 1) if math.isfinite(v) and v <= high]
        return list(dict.fromkeys(map(int, found)))

    def replace(self, name: str, expr: Expr) -> None:
        """Let what is known of a number be known of the expression that stands for it from now on."""
        found = {name: expr}
        known = [least.replaced(found) for least in self._known]
        self._known = [least for least in known if least.constant is None]
        self._different = [difference.replaced(found) for difference in self._different]
        other = expr.symbol
        if other in self.ranges and name in self.ranges:
            (low, high), (least, most) = self.ranges[other], self.ranges[name]
            if max(low, least) <= min(high, most):
                self.ranges[other] = max(low, least), min(high, most)
            self._fit(other)

    # ---------------------------------------------------------------- what is known
    def bounds(self, expr: Expr) -> Range:
        """The least and the most that an expression may be."""
        total: Range = (0, 0)
        for monomial, factor in expr.terms.items():
            product: Range = (factor, factor)
            for atom, power in monomial:
                for _ in range(power):
                    product = _product(product, self._atom(atom))
            total = total[0] + product[0], total[1] + product[1]
        return total

    def _atom(self, atom: Any) -> Range:
        if atom.op == "symbol":
            return self.ranges.get(str(atom.args[0]), (LEAST, math.inf))
        a, b = (self.bounds(x) for x in atom.args)
        if atom.op == "max":
            return max(a[0], b[0]), max(a[1], b[1])
        if atom.op == "min":
            return min(a[0], b[0]), min(a[1], b[1])
        if b[0] < 1:
            return _EVERYTHING
        if atom.op == "mod":
            return 0, b[1] - 1
        ends = [_floor(x, y) for x in a for y in b]
        return min(ends), max(ends)

    def truth(self, condition: Any) -> bool | None:
        """Whether a condition holds; None where that is not known."""
        kind = condition[0]
        if kind == "test":
            return None
        if kind == "not":
            known = self.truth(condition[1])
            return None if known is None else not known
        if kind in ("and", "or"):
            parts = [self.truth(part) for part in condition[1:]]
            if kind == "and":
                return False if False in parts else None if None in parts else True
            return True if True in parts else None if None in parts else False
        left, relation, right = condition
        difference = left - right
        if self._follows(difference, relation):
            return True
        return False if self._follows(difference, OPPOSITE[relation]) else None

    def _follows(self, difference: Expr, relation: str) -> bool:
        """Whether `difference relation 0` is known."""
        if relation in ("<", "<="):
            return self._follows(-difference, ">" if relation == "<" else ">=")
        if relation == "==":
            return difference.constant == 0
        if relation == "!=":
            if any(difference in (d, -d) for d in self._different):
                return True
            return self._follows(difference, ">") or self._follows(difference, "<")
        if difference.terms.get((), 0) >= _BEYOND:
            return True  # numbers of elements fit 64 bits
        least = self._least(difference)
        return least > 0 or (relation == ">=" and least == 0)

    def _least(self, difference: Expr) -> float:
        found = [self.bounds(difference)[0]]
        found += [self.bounds(difference - known)[0] for known in self._known]
        return max(found)

    # ---------------------------------------------------------------- what is checked
    def learn(self, condition: Any) -> None:
        """Take a condition as true from now on."""
        kind = condition[0]
        if kind == "and":
            for part in condition[1:]:
                self.learn(part)
        if kind in ("and", "or", "not", "test"):
            return
        left, relation, right = condition
        difference = left - right
        if relation == "!=":
            self._different.append(difference)
            return
        sign = -1 if relation in ("<", "<=") else 1
        least = difference * number(sign) - number(1 if relation in ("<", ">") else 0)
        self._known.append(least)
        self._narrow(least)
        if relation == "==":
            self._known.append(-difference)
            self._narrow(-difference)
        for name in difference.unbacked:
            self._fit(name)

    def _narrow(self, least: Expr) -> None:
        """The range of a symbol alone, where `factor * symbol + rest` is at least 0."""
        for name in least.unbacked:
            factor = least.terms.get(next(iter(symbol(name).terms)), 0)
            rest = least - symbol(name) * number(factor)
            if not factor or name in rest.free_symbols:
                continue
            most = self.bounds(rest)[1]
            if not math.isfinite(most):
                continue
            low, high = self.ranges[name]
            bound = -most / factor
            if factor > 0:
                low = max(low, math.ceil(bound))
            else:
                high = min(high, math.floor(bound))
            self.ranges[name] = low, high
            self._fit(name)

    def expect_sizes(self, sizes: Iterable[Expr]) -> list[Any]:
        """What must hold of expressions that are sizes: the conditions that are not known."""
        wanted = [(e, ">=", number(0)) for e in sizes if e.unbacked]
        return [condition for condition in wanted if self.truth(condition) is None]

    def expect(self, condition: object, message: object) -> None:
        """Note a check, and what follows from it.

        Raises:
            RuntimeError: it is known to be wrong.
        """
        known = self.truth(condition)
        if known is None:
            self.checks.append(Check(condition, message, user_stack()))
            self.learn(condition)
        elif not known:
            failed = RuntimeError(_said(condition, message))
            raise failed


def _said(condition: object, message: Any) -> str:
    """What a check says that never holds: the program's own words, if it has some."""
    required = (
        f"a condition that can hold was required: {condition_text(condition)} is always wrong"
    )
    said = message() if callable(message) else message
    return said or error_text("_check", required, hint="the checks in front of it say otherwise")


def integer_range(dtype: core.dtype) -> Range:
    """What a number of a dtype may be."""
    bits = 8 * dtype.itemsize
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.is_signed else (0, 2**bits - 1)


def _product(a: Range, b: Range) -> Range:
    ends = [0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(ends), max(ends)


def _floor(a: float, b: float) -> float:
    if math.isinf(b):
        return 0 if a >= 0 else -1
    return a if math.isinf(a) else a // b


class UnbackedFloat(SymFloat):
    """A float that was read from elements, or is computed from such ones."""

    env: Any
    name: str
    function: Callable[..., Any] | None
    args: tuple[Any, ...]
    #: what was read of an example, where the program is tried on one
    example: float

    def __new__(
        cls, env: Any, function: Callable[..., Any] | None = None, args: tuple[Any, ...] = ()
    ) -> UnbackedFloat:
        made: Any = super().__new__(cls, math.e)
        made.env, made.function, made.args = env, function, args
        if function is None:
            made.name = f"zuf{env.unbacked.floats}"
            env.unbacked.floats += 1
        return made

    def __repr__(self) -> str:
        if self.function is None:
            return self.name
        return f"{self.function.__name__}({', '.join(map(str, self.args))})"

    __str__ = __repr__

    def __float__(self) -> float:
        undecided(str(self))

    def __bool__(self) -> bool:
        undecided(f"{self} != 0")

    def __trunc__(self) -> Any:
        undecided(f"int({self})")

    def __round__(self, digits: object = None) -> Any:
        undecided(f"round({self})")

    __int__ = __floor__ = __ceil__ = __trunc__

    def __hash__(self) -> int:
        return id(self)

    def __deepcopy__(self, memo: object) -> UnbackedFloat:
        return self


def _float_operator(name: str, function: Callable[..., Any], reflected: bool) -> None:
    def method(self: UnbackedFloat, *others: object) -> Any:
        if others and not isinstance(others[0], (int, float)):
            return NotImplemented
        args = (*others, self) if reflected else (self, *others)
        return UnbackedFloat(self.env, function, args)

    setattr(UnbackedFloat, name, method)


def _float_comparison(name: str, function: Callable[..., Any]) -> None:
    def method(self: UnbackedFloat, other: object) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return SymBool(True, ("test", function, self, other), self.env)

    setattr(UnbackedFloat, name, method)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _function = getattr(operator, _name)
    _float_operator(f"__{_name}__", _function, False)
    _float_operator(f"__r{_name}__", _function, True)
for _name, _function in (("neg", operator.neg), ("abs", abs), ("pos", operator.pos)):
    _float_operator(f"__{_name}__", _function, False)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _float_comparison(f"__{_name}__", getattr(operator, _name))
