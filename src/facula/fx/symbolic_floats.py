"""Arithmetic of floats that are computed from sizes: `x.shape[0] / 2 + 1`.

Takes: `SymFloat`, the quotient of two sizes, and numbers. Gives: its operators, and `ComputedFloat`, what they give
where that is no quotient.
Keeps true: a float that is asked for its value, or compared, fixes the sizes that it is computed from, with a guard;
otherwise it is computed where the program runs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from facula.fx.symbols import FLOAT_RULE, SymFloat, SymInt, plain

__all__ = ["ComputedFloat", "computed", "fixed", "give_operators"]

#: quotients of at most such numbers stay exact
_MOST = 2**20


class ComputedFloat(SymFloat):
    """The result of an operation on floats and sizes."""

    function: Callable[..., Any]
    args: tuple[Any, ...]

    def __new__(
        cls, value: float, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> ComputedFloat:
        made: Any = super().__new__(cls, value)
        made.function, made.args = function, args
        return made

    def __hash__(self) -> int:
        return id(self)

    def __deepcopy__(self, memo: object) -> ComputedFloat:
        return self


def _value(x: Any) -> Any:
    """The value for the example sizes; nothing is noted."""
    return float.__float__(x) if isinstance(x, float) else plain(x)


def fixed(x: Any) -> Any:
    """The value as a plain number; the sizes that it is computed from are fixed, with guards."""
    if isinstance(x, SymInt):
        return x.__int__()
    if isinstance(x, SymFloat):
        for part in getattr(x, "args", (x.top, x.bottom)):
            if part is not None:
                fixed(part)
    return _value(x)


def _parts(x: Any) -> tuple[Any, int] | None:
    """A number as a quotient of a size and a power of two, for which arithmetic is exact; None for others."""
    if isinstance(x, SymFloat):
        top, bottom = x.top, x.bottom
        if type(bottom) is float and bottom.is_integer():
            bottom = int(bottom)
        exact = isinstance(top, int) and type(bottom) is int and 0 < bottom <= _MOST
        return (top, bottom) if exact and bottom & (bottom - 1) == 0 else None
    if isinstance(x, int):
        return x, 1
    if x != x or x in (float("inf"), float("-inf")):
        return None
    top, bottom = float(x).as_integer_ratio()
    return (top, bottom) if abs(top) <= _MOST and bottom <= _MOST else None


def _quotient(name: str, value: float, a: Any, b: Any) -> SymFloat | None:
    """A sum or product as a quotient again, where that is the same number."""
    left, right = (_parts(a), _parts(b)) if name in ("add", "sub", "mul") else (None, None)
    if left is None or right is None or left[1] * right[1] > _MOST:
        return None
    (x, p), (y, q) = left, right
    if name == "mul":
        top = x * y
    else:
        top = x * q + y * p if name == "add" else x * q - y * p
    return SymFloat(value, top, p * q) if isinstance(top, SymInt) else None


def computed(name: str, a: Any, b: Any) -> Any:
    """The result of an operation on two numbers, one of which depends on sizes."""
    function = getattr(operator, name)
    for x in (a, b):
        if isinstance(x, SymInt) and x.expr.unbacked:
            return x.env.unbacked.float_of(x.env, function, (a, b))
    value = function(_value(a), _value(b))
    if not isinstance(value, float):
        return function(fixed(a), fixed(b))  # complex, say
    found = _quotient(name, value, a, b)
    return ComputedFloat(value, function, (a, b)) if found is None else found


def _arithmetic(name: str) -> None:
    def method(self: SymFloat, other: Any, *modulo: object) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return computed(name, self, other)

    def reflected(self: SymFloat, other: Any, *modulo: object) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return computed(name, other, self)

    setattr(SymFloat, f"__{name}__", method)
    setattr(SymFloat, f"__r{name}__", reflected)


def _comparison(name: str) -> None:
    compare = getattr(operator, name)

    def method(self: SymFloat, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        left, right = _parts(self), _parts(other)
        if left is not None and right is not None:
            return compare(left[0] * right[1], right[0] * left[1])
        return compare(fixed(self), fixed(other))

    setattr(SymFloat, f"__{name}__", method)


def _negative(self: SymFloat) -> Any:
    if isinstance(self.top, SymInt):
        return SymFloat(-_value(self), -self.top, self.bottom)
    return ComputedFloat(-_value(self), operator.neg, (self,))


def _rounded(self: SymFloat, digits: Any = None) -> Any:
    """The nearest whole number; the even one of two."""
    parts = _parts(self) if digits is None else None
    if parts is None:
        return round(fixed(self)) if digits is None else round(fixed(self), digits)
    top, bottom = parts
    quotient = top // bottom
    return quotient + (2 * (top % bottom) + quotient % 2 + bottom - 1) // (2 * bottom)


def _truth(self: SymFloat) -> bool:
    return bool(self.top) if isinstance(self.top, SymInt) else bool(fixed(self))


def _whole(self: SymFloat) -> Any:
    found = self.__trunc__()
    return found.__int__() if isinstance(found, SymInt) else found


def give_operators() -> None:
    """Let floats that are computed from sizes have their operators."""
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        _arithmetic(name)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        _comparison(name)
    FLOAT_RULE[0] = computed
    kind: Any = SymFloat
    kind.__hash__ = float.__hash__
    kind.__neg__, kind.__pos__ = _negative, lambda self: self
    kind.__abs__ = lambda self: self if self >= 0 else -self
    kind.__round__, kind.__bool__ = _rounded, _truth
    kind.__float__, kind.__int__ = fixed, _whole
