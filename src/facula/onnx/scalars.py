"""Scalar primitives as ONNX nodes.

Takes a graph and the values or numbers that a primitive is applied to. Gives the value.
Keeps true: each primitive is written once, for every pointwise operator that is made of it; results
are those of the expression up to rounding, at zeros, infinities and NaN as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.onnx.errors import UnsupportedOperatorError
from facula.onnx.graph import Graph, Value

#: primitive -> what writes it
FORMS: dict[str, Callable[..., Value]] = {}


def form(function: Callable[..., Value]) -> Callable[..., Value]:
    """Enter a function under its own name."""
    FORMS[function.__name__.rstrip("_")] = function
    return function


def _same(primitive: str, kind: str, gives: core.dtype | None = None, **attributes: Any) -> None:
    FORMS[primitive] = lambda g, *args: g.op(kind, *args, gives=gives, **attributes)


for _primitive, _kind in {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "abs": "Abs",
    "reciprocal": "Reciprocal", "floor": "Floor", "ceil": "Ceil", "round": "Round", "sqrt": "Sqrt",
    "pow": "Pow", "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan",
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh",
    "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf",
    "integer_divide": "Div",
}.items():  # fmt: skip
    _same(_primitive, _kind)
for _primitive, _kind in {
    "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
    "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not",
    "isnan": "IsNaN", "isinf": "IsInf",
}.items():  # fmt: skip
    _same(_primitive, _kind, core.bool_)
_same("fmod", "Mod", fmod=1)


def _is_bool(*args: object) -> bool:
    return all(a.dtype is core.bool_ for a in args if isinstance(a, Value))


def _is_float(*args: object) -> bool:
    return any(isinstance(a, Value) and a.dtype.is_floating_point for a in args)


def _not(g: Graph, x: Value) -> Value:
    return g.op("Not", x, gives=core.bool_)


def _both(g: Graph, x: Value, y: Value) -> Value:
    return g.op("And", x, y, gives=core.bool_)


def where_(g: Graph, condition: Value, a: Any, b: Any) -> Value:
    """`a` where the condition holds, else `b`; runtimes choose among numbers only."""
    dtype = next((x.dtype for x in (a, b) if isinstance(x, Value)), None)
    if dtype is core.bool_:
        yes, no = _both(g, condition, a), _both(g, _not(g, condition), b)
        return g.op("Or", yes, no, gives=core.bool_)
    a, b = (g.value(x, dtype) for x in (a, b))
    return g.op("Where", condition, a, b, gives=a.dtype)


@form
def eq(g: Graph, x: Value, y: Value) -> Value:
    """Equal."""
    return g.op("Equal", x, y, gives=core.bool_)


@form
def ne(g: Graph, x: Value, y: Value) -> Value:
    """Different; NaN differs from everything."""
    return _not(g, eq(g, x, y))


for _name in ("lt", "le", "gt", "ge"):

    def _ordered(name: str = _name, plain: Any = FORMS[_name]) -> Callable[..., Value]:
        def compare(g: Graph, x: Value, y: Value) -> Value:
            if _is_bool(x, y):  # runtimes order numbers only
                x, y = (g.op("Cast", g.value(v), to=6, gives=core.int32) for v in (x, y))
            return plain(g, x, y)

        return compare

    FORMS[_name] = _ordered()


@form
def isfinite(g: Graph, x: Value) -> Value:
    """Neither infinite nor NaN."""
    return FORMS["lt"](g, g.op("Abs", x), math.inf)


@form
def sign(g: Graph, x: Value) -> Value:
    """-1, 0 or 1; 0 for NaN."""
    above, below = (g.cast(FORMS[k](g, x, 0), x.dtype) for k in ("gt", "lt"))
    return g.op("Sub", above, below)


@form
def signbit(g: Graph, x: Value) -> Value:
    """Whether there is a minus sign, in front of a zero too."""
    below = FORMS["lt"](g, x, 0)
    if not _is_float(x):
        return below
    zero = _both(g, eq(g, x, 0.0), FORMS["lt"](g, g.op("Reciprocal", x), 0.0))
    return g.op("Or", below, zero, gives=core.bool_)


@form
def copysign(g: Graph, x: object, y: Any) -> Value:
    """The size of x with the sign of y."""
    if not isinstance(y, Value):
        size = g.op("Abs", x)
        return g.op("Neg", size) if math.copysign(1.0, y) < 0 else size
    size = g.op("Abs", g.value(x, y.dtype))
    return where_(g, signbit(g, y), g.op("Neg", size), size)


def _extreme(name: str, kind: str, logic: str, wins: str) -> None:
    def extreme(g: Graph, x: Value, y: Value) -> Value:
        if _is_bool(x, y):
            return g.op(logic, x, y, gives=core.bool_)
        return g.op(kind, x, y)

    def without_nan(g: Graph, x: Any, y: Value) -> Value:
        first = FORMS[wins](g, x, y)
        if _is_float(x, y):
            y = g.value(y, x.dtype if isinstance(x, Value) else None)
            first = g.op("Or", first, FORMS["isnan"](g, y), gives=core.bool_)
        return where_(g, first, x, y)

    FORMS[f"{name}imum"] = extreme
    FORMS[f"f{name[:3]}"] = without_nan


_extreme("max", "Max", "Or", "ge")
_extreme("min", "Min", "And", "le")


@form
def trunc(g: Graph, x: Value) -> Value:
    """Towards zero."""
    return where_(g, FORMS["lt"](g, x, 0.0), g.op("Ceil", x), g.op("Floor", x))


@form
def remainder(g: Graph, x: Value, y: Value) -> Value:
    """What a division rounded down leaves, with the sign of the divisor."""
    if not _is_float(x, y):
        return g.op("Mod", x, y)
    rest = g.op("Mod", x, y, fmod=1)
    apart = ne(g, FORMS["lt"](g, rest, 0.0), FORMS["lt"](g, g.value(y, rest.dtype), 0.0))
    return where_(g, _both(g, ne(g, rest, 0.0), apart), g.op("Add", rest, y), rest)


@form
def floor_divide(g: Graph, x: Value, y: Value) -> Value:
    """The quotient rounded down."""
    quotient = g.op("Div", g.op("Sub", x, remainder(g, x, y)), y)
    if not _is_float(x, y):
        return quotient
    plain = g.op("Div", x, y)  # by zero
    return where_(g, eq(g, g.value(y, quotient.dtype), 0.0), plain, g.op("Round", quotient))


@form
def rsqrt(g: Graph, x: Value) -> Value:
    """1 / sqrt(x)."""
    return g.op("Reciprocal", g.op("Sqrt", x))


@form
def exp2(g: Graph, x: Any) -> Value:
    """2 ** x."""
    return g.op("Pow", g.value(2.0, x.dtype), x)


@form
def expm1(g: Graph, x: Value) -> Value:
    """exp(x) - 1 = tanh(x / 2) (exp(x) + 1), which keeps small values."""
    return g.op("Mul", g.op("Tanh", g.op("Mul", x, 0.5)), g.op("Add", g.op("Exp", x), 1.0))


@form
def log1p(g: Graph, x: Value) -> Value:
    """log(1 + x), corrected by what 1 + x lost; small values are kept. [Kahan]"""
    above = g.op("Add", x, 1.0)
    log = g.op("Log", above)
    lost = g.op("Sub", above, 1.0)
    corrected = g.op("Mul", log, g.op("Div", x, lost))
    rest = where_(g, FORMS["lt"](g, above, math.inf), corrected, log)
    rest = where_(g, eq(g, above, 0.0), log, rest)
    return where_(g, eq(g, lost, 0.0), x, rest)


@form
def log2(g: Graph, x: Value) -> Value:
    """The logarithm to base 2."""
    return g.op("Div", g.op("Log", x), math.log(2.0))


@form
def log10(g: Graph, x: Value) -> Value:
    """The logarithm to base 10."""
    return g.op("Div", g.op("Log", x), math.log(10.0))


@form
def hypot(g: Graph, x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2) without squares that overflow."""
    dtype = next(v.dtype for v in (x, y) if isinstance(v, Value))
    a, b = (g.op("Abs", g.value(v, dtype)) for v in (x, y))
    large, small = g.op("Max", a, b), g.op("Min", a, b)
    ratio = g.op("Div", small, large)
    root = g.op("Mul", large, g.op("Sqrt", g.op("Add", g.op("Mul", ratio, ratio), 1.0)))
    root = where_(g, eq(g, large, 0.0), large, root)
    infinite = g.op("Or", *(eq(g, v, math.inf) for v in (a, b)), gives=core.bool_)
    return where_(g, infinite, math.inf, root)


@form
def atan2(g: Graph, y: Any, x: object) -> Value:
    """The angle of (x, y); zeros and infinities of both signs have the angles of IEEE."""
    dtype = next(v.dtype for v in (x, y) if isinstance(v, Value))
    x, y = g.value(x, dtype), g.value(y, dtype)
    infinite = _both(g, FORMS["isinf"](g, x), FORMS["isinf"](g, y))
    none = _both(g, eq(g, x, 0.0), eq(g, y, 0.0))
    same = g.op("Or", infinite, none, gives=core.bool_)
    size = where_(g, infinite, g.value(math.pi / 4, dtype), g.value(0.0, dtype))
    slope = g.op("Atan", g.op("Abs", g.op("Div", y, x)))
    first = where_(g, same, size, slope)  # in the first quadrant
    angle = where_(g, signbit(g, x), g.op("Sub", g.value(math.pi, dtype), first), first)
    return copysign(g, angle, y)


@form
def erfc(g: Graph, x: Any) -> Value:
    """1 - erf(x)."""
    return g.op("Sub", g.value(1.0, x.dtype), g.op("Erf", x))


def _bits(name: str, kind: str, logic: str) -> None:
    def write(g: Graph, *args: object) -> Value:
        if _is_bool(*args):
            return g.op(logic, *args, gives=core.bool_)
        return g.op(kind, *args)

    FORMS[name] = write


_bits("bitwise_and", "BitwiseAnd", "And")
_bits("bitwise_or", "BitwiseOr", "Or")
_bits("bitwise_xor", "BitwiseXor", "Xor")
_bits("bitwise_not", "BitwiseNot", "Not")


def _power_of_two(g: Graph, exponent: Any, dtype: Any) -> Value:
    return g.op("Pow", g.value(2, dtype), g.value(exponent, dtype))


@form
def bitwise_left_shift(g: Graph, x: Value, y: Value) -> Value:
    """The bits moved up; 0 where they are moved out."""
    dtype = next(v.dtype for v in (x, y) if isinstance(v, Value))
    y = g.value(y, dtype)
    kept = _both(g, FORMS["ge"](g, y, 0), FORMS["lt"](g, y, dtype.itemsize * 8 - 1))
    moved = g.op("Mul", g.value(x, dtype), _power_of_two(g, where_(g, kept, y, 0), dtype))
    return where_(g, kept, moved, 0)


@form
def bitwise_right_shift(g: Graph, x: Any, y: Any) -> Value:
    """The bits moved down, which divides by a power of two and rounds down."""
    dtype = next(v.dtype for v in (x, y) if isinstance(v, Value))
    most = dtype.itemsize * 8 - 2
    y = g.value(y, dtype)
    kept = _both(g, FORMS["ge"](g, y, 0), FORMS["le"](g, y, most))
    power = _power_of_two(g, where_(g, kept, y, most), dtype)
    moved = floor_divide(g, g.value(x, dtype), power)
    rest = where_(g, FORMS["lt"](g, g.value(x, dtype), 0), g.value(-1, dtype), g.value(0, dtype))
    return where_(g, kept, moved, rest)


class Namespace:
    """The scalar operations on values and numbers, for `scalar.evaluate`."""

    def __init__(self, graph: Graph, dtype: Any, dtypes: dict[str, Any]) -> None:
        self.graph = graph
        self.dtype = dtype
        self.dtypes = dtypes

    def __getattr__(self, name: str) -> Any:
        written = FORMS.get({"cond_and": "logical_and", "cond_or": "logical_or"}.get(name, name))
        if written is None:
            fail(
                UnsupportedOperatorError,
                "onnx.export",
                "functions that ONNX has a form of were required",
                name,
                hint="register what it is made of: onnx.export(..., custom_translation_table={...})",
            )

        def call(*args: Any) -> Value:
            if not any(isinstance(a, Value) for a in args):
                args = (self._value(args[0]), *args[1:])
            return written(self.graph, *args)

        return call

    def _value(self, x: object) -> Value:
        return self.graph.value(x, core.bool_ if isinstance(x, bool) else self.dtype)

    def cast(self, x: object, code: str) -> Any:
        """`x` in a dtype by its short name."""
        return self.graph.cast(x, self.dtypes[code]) if isinstance(x, Value) else x

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        """`a` where the condition holds, else `b`."""
        if not isinstance(a, Value) and not isinstance(b, Value):
            a = self._value(a)
        return where_(self.graph, condition, a, b)
