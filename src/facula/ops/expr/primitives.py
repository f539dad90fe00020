"""The primitives of scalar expressions: one declaration each.

Takes: nothing; importing fills the table.
Gives: `PRIMITIVES` by name, `declare`, and the derivative convention.
Keeps true: a primitive is declared once, with its arity, dtype rule, derivative, C form, NumPy form and folding rule;
derivatives agree with PyTorch at kinks and special points.

A derivative has one rule an argument, `rule(t, r, *args)`: the contribution of the argument's
tangent `t` to the tangent
of the result `r`.  As every primitive maps real numbers to a real number, the same rule is forward and reverse mode.
`None` is a contribution that is zero; `UNKNOWN` raises when it is asked for.
The C form is an expression over `{0}`, `{1}`, .. (`{t}` the C type, `{u}` its unsigned twin) or the stem of a function
`fm_<stem>_<dtype>` of the C math library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.expr import node as scalar_node
from facula.ops.expr.node import (
    FLOATS,
    INTEGERS,
    Scalar,
    Value,
    apply,
    cast,
    node,
    unify,
)

UNKNOWN = object()
TWO_OVER_SQRT_PI = 1.1283791670955126
HALF_SQRT_PI = 0.8862269254527580
LN2 = 0.6931471805599453
LN10 = 2.302585092994046


class Primitive:
    """What the rest of the code knows about one scalar function."""

    name: str
    arity: int
    kinds: str  # dtypes of the operands: any of "float int bool"
    result: str | None  # dtype of the result; None: that of the operands
    derivative: tuple[Any, ...]
    c: str
    c_integer: str
    c_bool: str
    numpy: Any
    fold: Callable[..., Any] | None
    simplify: Callable[..., Scalar | None] | None
    signless: (
        bool  # of integers: what it does to their bits does not depend on whether they have a sign
    )

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)

    def c_form(self, dtype: str) -> str:
        """The C form for operands of `dtype`."""
        if dtype in INTEGERS:
            return self.c_integer or self.c
        return (self.c_bool or self.c_integer or self.c) if dtype == "b8" else self.c


PRIMITIVES: dict[str, Primitive] = {}


def declare(
    name: str,
    arity: int = 1,
    derivative: Sequence[Any] | Callable[..., Any] | None = None,
    *,
    kinds: str = "float",
    result: str | None = None,
    c: str = "",
    c_integer: str = "",
    c_bool: str = "",
    numpy: object = None,
    fold: Callable[..., Any] | None = None,
    simplify: Callable[..., Scalar | None] | None = None,
    signless: bool = False,
) -> Callable[..., Any]:
    """Enter a primitive into the table and return the function that builds it."""
    rules = (derivative,) if callable(derivative) else tuple(derivative or (None,) * arity)
    primitive = Primitive(
        name=name,
        arity=arity,
        kinds=kinds,
        result=result,
        derivative=rules,
        c=c or name,
        c_integer=c_integer,
        c_bool=c_bool,
        numpy=numpy or name,
        fold=fold,
        simplify=simplify,
        signless=signless,
    )
    PRIMITIVES[name] = primitive
    scalar_node.real_builders[name] = lambda *args: build(primitive, args)

    def function(*args: Value) -> Any:
        return apply(name, *args)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Scalar primitive `{name}`, {arity} argument(s)."
    return function


# rules refer to functions that are declared further down
sign: Callable[..., Any]
round: Callable[..., Any]
floor_divide: Callable[..., Any]
log: Callable[..., Any]
cos: Callable[..., Any]
cosh: Callable[..., Any]
digamma: Callable[..., Any]
polygamma: Callable[..., Any]
zeta: Callable[..., Any]
i1: Callable[..., Any]
i1e: Callable[..., Any]
bessel_j1: Callable[..., Any]
bessel_y1: Callable[..., Any]
bessel_k1: Callable[..., Any]
bessel_k1e: Callable[..., Any]
airy_ai_derivative: Callable[..., Any]


def build(primitive: Primitive, args: tuple[Value, ...]) -> Scalar:
    """The node for a primitive over real arguments: unified, folded, simplified."""
    if len(args) != primitive.arity:
        fail(
            TypeError,
            primitive.name,
            f"{primitive.arity} arguments were required",
            len(args),
            hint="constants are numbers, for example 0.0",
        )
    nodes = unify(*args)
    dtype = nodes[0].dtype
    if "float" in primitive.kinds and all(n.weak for n in nodes) and dtype not in FLOATS:
        if "int" not in primitive.kinds:
            nodes, dtype = tuple(scalar_node._weak_cast(n, "f64") for n in nodes), "f64"
    kind = "float" if dtype in FLOATS else "bool" if dtype == "b8" else "int"
    if kind not in primitive.kinds:
        fail(
            TypeError,
            primitive.name,
            f"{primitive.kinds} operands were required",
            dtype,
            hint="cast the operand first",
        )
    out, weak = primitive.result or dtype, all(n.weak for n in nodes)
    if primitive.fold and all(n.op == "constant" for n in nodes):
        folded = _fold(primitive, nodes)
        if folded is not None:
            return node("constant", (), out, scalar_node.round_to(folded, out), weak)
    if primitive.simplify:
        simple = primitive.simplify(*nodes)
        if simple is not None:
            return simple
    return node(primitive.name, nodes, out, None, weak)


def _fold(primitive: Primitive, nodes: tuple[Scalar, ...]) -> Any:
    try:
        value = primitive.fold(*(n.value for n in nodes))  # type: ignore[misc]
    except (ArithmeticError, ValueError):
        return None  # left to run time, where IEEE has an answer
    return None if isinstance(value, complex) else value


def is_constant(value: Scalar, known: float) -> bool:
    """Whether the node is this number (and for zero, this sign of it)."""
    if value.op != "constant" or value.value != known:
        return False
    return not known == 0 or math.copysign(1, value.value) == math.copysign(1, known)


def where(condition: Value, a: Value, b: Value) -> Any:
    """`a` where the condition holds, else `b`; the branch not taken can not poison the result or its gradient."""
    condition = scalar_node.lift(condition)
    if any(isinstance(v, (scalar_node.Complex, complex)) for v in (a, b)):
        (ar, ai), (br, bi) = scalar_node.parts(a), scalar_node.parts(b)
        return scalar_node.Complex(where(condition, ar, br), where(condition, ai, bi))
    condition = cast(condition, "b8") if condition.dtype != "b8" else condition
    a, b = unify(a, b)
    if condition.op == "constant":
        return a if condition.value else b
    if a is b:
        return a
    if condition.op == "logical_not":
        condition, a, b = condition.args[0], b, a
    return node("where", (condition, a, b), a.dtype, None, a.weak and b.weak)


def _add(x: Scalar, y: Scalar) -> Scalar | None:
    if is_constant(y, -0.0) and y.dtype in FLOATS or x.dtype in INTEGERS and is_constant(y, 0):
        return x
    if is_constant(x, -0.0) and x.dtype in FLOATS or x.dtype in INTEGERS and is_constant(x, 0):
        return y
    if y.op == "neg":
        return x - y.args[0]
    if x.op == "neg":
        return y - x.args[0]
    return None


def _sub(x: Scalar, y: Scalar) -> Scalar | None:
    if is_constant(y, 0.0):
        return x
    if is_constant(x, -0.0) and x.dtype in FLOATS:
        return -y
    return x + y.args[0] if y.op == "neg" else None


def _mul(x: Scalar, y: Scalar) -> Scalar | None:
    for one, other in ((x, y), (y, x)):
        if is_constant(one, 1):
            return other
        if is_constant(one, -1):
            return -other
        if one.op == "neg" and not other.weak:
            return -(one.args[0] * other)
    return None


def _div(x: Scalar, y: Scalar) -> Scalar | None:
    if is_constant(y, 1):
        return x
    if is_constant(y, -1):
        return -x
    return apply("reciprocal", y) if is_constant(x, 1) else None


def _not(x: Scalar) -> Scalar | None:
    return x.args[0] if x.op == "logical_not" else None


def _sign_of(value: Any) -> Any:
    return (value > 0) - (value < 0)


def _half_at_tie(loses: str) -> Callable[..., Any]:
    """The gradient of maximum and minimum: all to the winner, half each at a tie, to both when one is NaN."""

    def rule(t: Any, r: object, mine: object, other: object) -> Any:
        return where(mine == other, t * 0.5, where(apply(loses, mine, other), 0.0, t))

    return rule


def _swapped(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda t, r, x, y: rule(t, r, y, x)


def _first_wins(better: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The gradient of fmax and fmin: to the first at a tie, never to a NaN beside a number."""

    def first(x: core.Tensor, y: Scalar) -> Any:
        return apply("logical_or", apply(better, x, y), isnan(y))

    return (
        lambda t, r, x, y: where(first(x, y), t, 0.0),
        lambda t, r, x, y: where(first(x, y), 0.0, t),
    )


# --- arithmetic
NUMBERS = "float int"
add = declare(
    "add", 2, [lambda t, r, x, y: t, lambda t, r, x, y: t], kinds=NUMBERS, c="({0} + {1})",
    c_integer="(({t})(({u}){0} + ({u}){1}))", fold=lambda x, y: x + y, simplify=_add,
    signless=True,
)  # fmt: skip
sub = declare(
    "sub", 2, [lambda t, r, x, y: t, lambda t, r, x, y: -t], kinds=NUMBERS, c="({0} - {1})",
    c_integer="(({t})(({u}){0} - ({u}){1}))", numpy="subtract", fold=lambda x, y: x - y, simplify=_sub,
    signless=True,
)  # fmt: skip
mul = declare(
    "mul", 2, [lambda t, r, x, y: t * y, lambda t, r, x, y: x * t], kinds=NUMBERS, c="({0} * {1})",
    c_integer="(({t})(({u}){0} * ({u}){1}))", numpy="multiply", fold=lambda x, y: x * y, simplify=_mul,
    signless=True,
)  # fmt: skip
div = declare(
    "div", 2, [lambda t, r, x, y: t / y, lambda t, r, x, y: -t * (r / y)], c="({0} / {1})",
    numpy="divide", fold=lambda x, y: x / y, simplify=_div,
)  # fmt: skip
reciprocal = declare(
    "reciprocal", 1, lambda t, r, x: -t * (r * r), c="({1} / {0})".replace("{1}", "({t})1"),
    numpy=lambda np, x: 1 / x, fold=lambda x: 1 / x,
)  # fmt: skip
neg = declare(
    "neg", 1, lambda t, r, x: -t, kinds=NUMBERS, c="(-{0})", c_integer="(({t})(0 - ({u}){0}))",
    numpy="negative", fold=lambda x: -x, simplify=lambda x: x.args[0] if x.op == "neg" else None,
    signless=True,
)  # fmt: skip
abs = declare(
    "abs",
    1,
    lambda t, r, x: t * sign(x),
    kinds=NUMBERS,
    c="abs",
    fold=lambda x: x if x > 0 else 0 - x,
)
sign = declare(
    "sign", 1, kinds=NUMBERS, c="(({t})(({0} > 0) - ({0} < 0)))", fold=_sign_of,
    numpy=lambda np, x: np.where(np.isnan(x), 0, np.sign(x)) + 0,
)  # fmt: skip
square = lambda x: x * x  # noqa: E731

# --- comparisons and logic
for _name, _symbol, _numpy, _compare in (
    ("lt", "<", "less", lambda x, y: x < y),
    ("le", "<=", "less_equal", lambda x, y: x <= y),
    ("gt", ">", "greater", lambda x, y: x > y),
    ("ge", ">=", "greater_equal", lambda x, y: x >= y),
    ("eq", "==", "equal", lambda x, y: x == y),
    ("ne", "!=", "not_equal", lambda x, y: x != y),
):
    globals()[_name] = declare(
        _name,
        2,
        kinds="float int bool",
        result="b8",
        c=f"({{0}} {_symbol} {{1}})",
        numpy=_numpy,
        fold=_compare,
        signless=_name in ("eq", "ne"),
    )
isnan = declare("isnan", 1, result="b8", c="({0} != {0})", fold=math.isnan, simplify=lambda x: None)
isinf = declare(
    "isinf", 1, result="b8", c="(__builtin_fabs({0}) == __builtin_inf())", fold=math.isinf
)
isfinite = declare(
    "isfinite", 1, result="b8", c="(__builtin_fabs({0}) < __builtin_inf())", fold=math.isfinite
)
signbit = declare(
    "signbit",
    1,
    kinds=NUMBERS,
    result="b8",
    c="signbit",
    c_integer="({0} < 0)",
    fold=lambda x: math.copysign(1, x) < 0,
)
_logical_and = declare(
    "logical_and", 2, kinds="bool", result="b8", c="({0} & {1})", fold=lambda x, y: x and y
)
_logical_or = declare(
    "logical_or", 2, kinds="bool", result="b8", c="({0} | {1})", fold=lambda x, y: x or y
)
_logical_xor = declare(
    "logical_xor", 2, kinds="bool", result="b8", c="({0} ^ {1})", fold=lambda x, y: x != y
)
_logical_not = declare(
    "logical_not", 1, kinds="bool", result="b8", c="(!{0})", fold=lambda x: not x, simplify=_not
)


def logical_and(x: Value, y: Value) -> Scalar:
    """Both differ from zero."""
    return _logical_and(cast(x, "b8"), cast(y, "b8"))


def logical_or(x: Value, y: Value) -> Scalar:
    """One of them differs from zero."""
    return _logical_or(cast(x, "b8"), cast(y, "b8"))


def logical_xor(x: Value, y: Value) -> Scalar:
    """Exactly one of them differs from zero."""
    return _logical_xor(cast(x, "b8"), cast(y, "b8"))


def logical_not(x: Value) -> Scalar:
    """It is zero."""
    return _logical_not(cast(x, "b8"))


# --- integers
BITS = "int bool"
bitwise_and = declare(
    "bitwise_and", 2, kinds=BITS, c="({0} & {1})", fold=lambda x, y: x & y, signless=True
)
bitwise_or = declare(
    "bitwise_or", 2, kinds=BITS, c="({0} | {1})", fold=lambda x, y: x | y, signless=True
)
bitwise_xor = declare(
    "bitwise_xor", 2, kinds=BITS, c="({0} ^ {1})", fold=lambda x, y: x ^ y, signless=True
)
bitwise_not = declare("bitwise_not", 1, kinds=BITS, c="(~{0})", c_bool="(!{0})", signless=True)
bitwise_left_shift = declare(
    "bitwise_left_shift", 2, kinds="int", c="shl", signless=True,
    numpy=lambda np, x, y: np.where((y >= 0) & (y < x.dtype.itemsize * 8), np.left_shift(x, y), 0),
)  # fmt: skip
bitwise_right_shift = declare(
    "bitwise_right_shift", 2, kinds="int", c="shr",
    numpy=lambda np, x, y: np.where((y >= 0) & (y < x.dtype.itemsize * 8), np.right_shift(x, y),
    np.where(x < 0, -1, 0)),
)  # fmt: skip
integer_divide = declare(
    "integer_divide",
    2,
    kinds="int",
    c="truncated_divide",
    numpy=lambda np, x, y: np.trunc(np.divide(x, y)),
)
gcd = declare("gcd", 2, kinds="int", fold=math.gcd)
lcm = declare("lcm", 2, kinds="int", fold=math.lcm)

# --- choice
_LARGER, _SMALLER = _half_at_tie("lt"), _half_at_tie("gt")
maximum = declare(
    "maximum", 2, [_LARGER, _swapped(_LARGER)], kinds="float int bool",
    c="maximum", c_integer="({0} > {1} ? {0} : {1})", c_bool="({0} | {1})",
)  # fmt: skip
minimum = declare(
    "minimum", 2, [_SMALLER, _swapped(_SMALLER)], kinds="float int bool",
    c="minimum", c_integer="({0} < {1} ? {0} : {1})", c_bool="({0} & {1})",
)  # fmt: skip
fmax = declare(
    "fmax", 2, _first_wins("ge"), kinds="float int", c="(({0} >= {1}) | ({1} != {1}) ? {0} : {1})",
    c_integer="({0} > {1} ? {0} : {1})",
)  # fmt: skip
fmin = declare(
    "fmin", 2, _first_wins("le"), kinds="float int", c="(({0} <= {1}) | ({1} != {1}) ? {0} : {1})",
    c_integer="({0} < {1} ? {0} : {1})",
)  # fmt: skip

# --- rounding
floor = declare("floor", fold=math.floor)
ceil = declare("ceil", fold=math.ceil)
trunc = declare("trunc", fold=math.trunc)
round = declare("round", numpy="rint", fold=round)
fmod = declare(
    "fmod", 2, [lambda t, r, x, y: t, lambda t, r, x, y: -t * trunc(x / y)], kinds=NUMBERS,
    c_integer="truncated_remainder", numpy="fmod",
)  # fmt: skip
remainder = declare(
    "remainder", 2, [lambda t, r, x, y: t, lambda t, r, x, y: -t * floor_divide(x, y)], kinds=NUMBERS,
    c_integer="floored_remainder",
)  # fmt: skip
floor_divide = declare("floor_divide", 2, [None, None], kinds=NUMBERS, c_integer="floored_divide")
copysign = declare(
    "copysign", 2, [lambda t, r, x, y: where(x == 0, 0.0, t * (r / x)), None],
    fold=math.copysign,
)  # fmt: skip
nextafter = declare("nextafter", 2, [lambda t, r, x, y: where(x == y, 0.0, t), None])

# --- powers, exponentials, logarithms
sqrt = declare("sqrt", 1, lambda t, r, x: t / (r + r), fold=math.sqrt)
rsqrt = declare(
    "rsqrt", 1, lambda t, r, x: -0.5 * t * (r * r * r), numpy=lambda np, x: 1 / np.sqrt(x)
)
pow = declare(
    "pow", 2,
    [
        lambda t, r, x, y: where(y == 0, 0.0, t * (y * scalar_node.power(x, y - 1.0))),
        lambda t, r, x, y: where(logical_and(x == 0, y >= 0), 0.0, t * (r * log(x))),
    ],
    kinds=NUMBERS, c_integer="integer_pow", numpy="power",
    fold=lambda x, y: x**y if isinstance(x, float) else None,
)  # fmt: skip
exp = declare("exp", 1, lambda t, r, x: t * r, fold=math.exp)
exp2 = declare("exp2", 1, lambda t, r, x: t * r * LN2, fold=lambda x: 2.0**x)
expm1 = declare("expm1", 1, lambda t, r, x: t * (r + 1.0), fold=math.expm1)
log = declare("log", 1, lambda t, r, x: t / x, fold=math.log)
log2 = declare("log2", 1, lambda t, r, x: t / (x * LN2), fold=math.log2)
log10 = declare("log10", 1, lambda t, r, x: t / (x * LN10), fold=math.log10)
log1p = declare("log1p", 1, lambda t, r, x: t / (x + 1.0), fold=math.log1p)
hypot = declare("hypot", 2, [lambda t, r, x, y: t * (x / r), lambda t, r, x, y: t * (y / r)])

# --- trigonometry
sin = declare("sin", 1, lambda t, r, x: t * cos(x), fold=math.sin)
cos = declare("cos", 1, lambda t, r, x: -t * sin(x), fold=math.cos)
tan = declare("tan", 1, lambda t, r, x: t * (1.0 + r * r), fold=math.tan)
asin = declare("asin", 1, lambda t, r, x: t * rsqrt(1.0 - x * x), numpy="arcsin", fold=math.asin)
acos = declare("acos", 1, lambda t, r, x: -t * rsqrt(1.0 - x * x), numpy="arccos", fold=math.acos)
atan = declare("atan", 1, lambda t, r, x: t / (x * x + 1.0), numpy="arctan", fold=math.atan)
sinh = declare("sinh", 1, lambda t, r, x: t * cosh(x), fold=math.sinh)
cosh = declare("cosh", 1, lambda t, r, x: t * sinh(x), fold=math.cosh)
# (1 - r) is exact where r is near 1, and 1 - r * r is not: there it depends on whether a compiler fuses the product
tanh = declare("tanh", 1, lambda t, r, x: t * ((1.0 - r) * (1.0 + r)), fold=math.tanh)
asinh = declare("asinh", 1, lambda t, r, x: t * rsqrt(x * x + 1.0), numpy="arcsinh")
acosh = declare("acosh", 1, lambda t, r, x: t * rsqrt(x * x - 1.0), numpy="arccosh")
atanh = declare("atanh", 1, lambda t, r, x: t / (1.0 - x * x), numpy="arctanh")


def _atan2_part(sign_: float) -> Callable[..., Any]:
    def rule(t: Any, r: object, y: Any, x: core.Tensor) -> Any:
        squared = x * x + y * y
        part = (x if sign_ > 0 else -y) / squared
        return t * where(squared == 0, 0.0, part)

    return rule


atan2 = declare("atan2", 2, [_atan2_part(1.0), _atan2_part(-1.0)], numpy="arctan2", fold=math.atan2)

# --- special functions
erf = declare(
    "erf",
    1,
    lambda t, r, x: t * (TWO_OVER_SQRT_PI * exp(-(x * x))),
    numpy="special.erf",
    fold=math.erf,
)
erfc = declare(
    "erfc",
    1,
    lambda t, r, x: t * (-TWO_OVER_SQRT_PI * exp(-(x * x))),
    numpy="special.erfc",
    fold=math.erfc,
)
erfcx = declare(
    "erfcx", 1, lambda t, r, x: t * (2.0 * x * r - TWO_OVER_SQRT_PI), numpy="special.erfcx"
)
erfinv = declare(
    "erfinv", 1, lambda t, r, x: t * (HALF_SQRT_PI * exp(r * r)), numpy="special.erfinv"
)
ndtri = declare(
    "ndtri", 1, lambda t, r, x: t * (2.5066282746310002 * exp(0.5 * r * r)), numpy="special.ndtri"
)
lgamma = declare("lgamma", 1, lambda t, r, x: t * digamma(x), numpy="special.gammaln")
digamma = declare("digamma", 1, lambda t, r, x: t * polygamma(1.0, x), numpy="special.digamma")
polygamma = declare(
    "polygamma", 2, [UNKNOWN, lambda t, r, n, x: t * polygamma(n + 1.0, x)],
    numpy=lambda np, n, x: np.special.polygamma(np.asarray(n).astype(int), x),
)  # fmt: skip
zeta = declare(
    "zeta", 2, [UNKNOWN, lambda t, r, x, q: -t * x * zeta(x + 1.0, q)], numpy="special.zeta"
)


def _igamma_slope(a: Scalar, x: core.Tensor) -> Any:
    return exp((a - 1.0) * log(x) - x - lgamma(a))


igamma = declare(
    "igamma", 2, [UNKNOWN, lambda t, r, a, x: t * _igamma_slope(a, x)], numpy="special.gammainc"
)
igammac = declare(
    "igammac", 2, [UNKNOWN, lambda t, r, a, x: -t * _igamma_slope(a, x)], numpy="special.gammaincc"
)


def _bessel_ratio(r: Scalar, x: object) -> Any:
    """`r / x`, whose limit at zero is one half for i1, i1e and j1."""
    zero = x == 0
    return where(zero, 0.5, r / where(zero, 1.0, x))  # no 0 / 0 in derivatives of the other branch


i0 = declare("i0", 1, lambda t, r, x: t * i1(x), numpy="special.i0")
i0e = declare("i0e", 1, lambda t, r, x: t * (i1e(x) - sign(x) * r), numpy="special.i0e")
i1 = declare("i1", 1, lambda t, r, x: t * (i0(x) - _bessel_ratio(r, x)), numpy="special.i1")
i1e = declare(
    "i1e", 1, lambda t, r, x: t * (i0e(x) - sign(x) * r - _bessel_ratio(r, x)), numpy="special.i1e"
)
bessel_j0 = declare("bessel_j0", 1, lambda t, r, x: -t * bessel_j1(x), numpy="special.j0")
bessel_j1 = declare(
    "bessel_j1", 1, lambda t, r, x: t * (bessel_j0(x) - _bessel_ratio(r, x)), numpy="special.j1"
)
bessel_y0 = declare("bessel_y0", 1, lambda t, r, x: -t * bessel_y1(x), numpy="special.y0")
bessel_y1 = declare("bessel_y1", 1, lambda t, r, x: t * (bessel_y0(x) - r / x), numpy="special.y1")
bessel_k0 = declare("bessel_k0", 1, lambda t, r, x: -t * bessel_k1(x), numpy="special.k0")
bessel_k1 = declare("bessel_k1", 1, lambda t, r, x: -t * (bessel_k0(x) + r / x), numpy="special.k1")
bessel_k0e = declare("bessel_k0e", 1, lambda t, r, x: t * (r - bessel_k1e(x)), numpy="special.k0e")
bessel_k1e = declare(
    "bessel_k1e", 1, lambda t, r, x: t * (r - bessel_k0e(x) - r / x), numpy="special.k1e"
)
airy_ai = declare(
    "airy_ai",
    1,
    lambda t, r, x: t * airy_ai_derivative(x),
    numpy=lambda np, x: np.special.airy(x)[0],
)
airy_ai_derivative = declare(
    "airy_ai_derivative",
    1,
    lambda t, r, x: t * (x * airy_ai(x)),
    numpy=lambda np, x: np.special.airy(x)[1],
)
#: polynomials of degree n (second argument, truncated to an integer) by their recurrences
POLYNOMIALS = {
    "chebyshev_t": "eval_chebyt", "chebyshev_u": "eval_chebyu", "chebyshev_v": "eval_chebyu",
    "chebyshev_w": "eval_chebyu",
    "hermite_h": "eval_hermite", "hermite_he": "eval_hermitenorm", "laguerre_l": "eval_laguerre",
    "legendre_p": "eval_legendre", "shifted_chebyshev_t": "eval_sh_chebyt", "shifted_chebyshev_u": "eval_sh_chebyu",
    "shifted_chebyshev_v": "eval_sh_chebyu", "shifted_chebyshev_w": "eval_sh_chebyu",
}  # fmt: skip


def _numpy_polynomial(name: str, function: str) -> Callable[..., Any]:
    """SciPy's polynomial; third and fourth kinds are differences and sums of the second kind."""

    def form(np: Any, x: core.Tensor, n: object) -> Any:
        degree = np.trunc(n).astype(np.int64)
        evaluate = getattr(np.special, function)
        value = evaluate(np.maximum(degree, 0), x)
        if name.endswith(("_v", "_w")):
            below = np.where(degree > 0, evaluate(np.maximum(degree - 1, 0), x), 0.0)
            value = value - below if name.endswith("_v") else value + below
        return np.where(degree < 0, 0.0, value)

    return form


for _name, _numpy in POLYNOMIALS.items():
    globals()[_name] = declare(_name, 2, [UNKNOWN, UNKNOWN], numpy=_numpy_polynomial(_name, _numpy))


def ldexp(x: Value, exponent: Value) -> Any:
    """`x * 2 ** exponent`."""
    return x * exp2(exponent)


def clamp(x: Value, low: Value | None, high: Value | None) -> Any:
    """`min(max(x, low), high)`, NaN kept."""
    if low is not None:
        x = maximum(x, low)
    return x if high is None else minimum(x, high)
