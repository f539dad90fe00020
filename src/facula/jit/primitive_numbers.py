"""Operators of TorchScript on numbers: ints of 64 bits that wrap around, floats as IEEE has them.

Takes nothing. Gives nothing: importing it fills `signatures.PRIMITIVE`.
Keeps true: an int stays within 64 bits, so that no operator works longer than another; a float beyond
the range is infinite, and one that is not defined is nan, as in C; only a division of ints by zero
and zero to a negative power are errors.
"""

from __future__ import annotations

import cmath
import math
import operator as py
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.jit.signatures import primitive

__all__ = ["int_of_tensor", "to_int", "wrapped"]

_HALF = 1 << 63


def wrapped(value: int) -> int:
    """The int of 64 bits that holds the last ones of a result."""
    return value if -_HALF <= value < _HALF else (value + _HALF) % (2 * _HALF) - _HALF


def to_int(value: Any) -> int:
    """`int(x)`: what cannot be held is the least int, as processors have it."""
    if isinstance(value, float) and not -_HALF <= value < _HALF:
        return -_HALF
    made = int(value)
    if made != wrapped(made):
        _too_large(value)
    return made


def _too_large(value: object) -> None:
    fail(OverflowError, "jit", f"a number that fits an int was required: Cannot convert {value} to integer "
         "without overflow", value, hint="test its size beforehand")  # fmt: skip


def int_of_tensor(tensor: Any) -> int:
    """`int(tensor)`."""
    value = tensor.item()
    if isinstance(value, float) and not -_HALF <= value < _HALF:
        _too_large(value)
    return int(value)


def _whole(run: Callable[..., int]) -> Callable[..., int]:
    """An operator whose result is an int of 64 bits."""
    return lambda *args: wrapped(run(*args))


# ------------------------------------------------------------------ arithmetic

_KINDS = ("int", "float", "complex")


def _numbers(
    name: str, run: Callable[..., Any], ints: Callable[..., Any], ints_give: str = "int"
) -> None:
    """An operator of two numbers: floats where one is a float."""
    for a in _KINDS:
        for b in _KINDS:
            whole = a == b == "int"
            result = ints_give if whole else _KINDS[max(_KINDS.index(a), _KINDS.index(b))]
            overload = a if a == b else f"{a}_{b}"
            primitive(f"aten::{name}.{overload}({a} a, {b} b) -> {result}", ints if whole else run)

    def scalar(a: object, b: object) -> Any:
        return (ints if type(a) is type(b) is int else run)(a, b)

    primitive(f"aten::{name}.Scalar(Scalar a, Scalar b) -> Scalar", scalar)


def _no_zero(run: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """A division of ints."""

    def divide(a: int, b: int) -> int:
        if b == 0:
            fail(ZeroDivisionError, "jit", "a divisor other than 0 was required: division by 0", b,
                 hint="floats can be divided by 0.0")  # fmt: skip
        return wrapped(run(a, b))

    return divide


def _divided(a: Any, b: Any) -> Any:
    if b != 0:
        return a / b
    if isinstance(a, complex) or isinstance(b, complex):
        return complex(_divided(complex(a).real, 0.0), _divided(complex(a).imag, 0.0))
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)


def _floor_divided(a: float, b: float) -> float:
    found = _divided(a, b)
    return math.copysign(float(math.floor(found)), found) if math.isfinite(found) else found


def _remainder(a: float, b: float) -> float:
    return math.nan if b == 0 or math.isinf(a) or math.isinf(b) else float(a) % b


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, complex) or isinstance(b, complex):
        return _complex_power(a, b)
    if a == 0 and b < 0:
        fail(ZeroDivisionError, "jit", "0.0 cannot be raised to a negative power: one of at least 0 "
             "was required", b, hint="test for 0 beforehand")  # fmt: skip
    a, b = float(a), float(b)
    try:
        return math.pow(a, b)
    except ValueError:
        return math.nan
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf


def _complex_power(a: Any, b: Any) -> complex:
    try:
        return complex(a) ** complex(b)
    except ZeroDivisionError:
        return complex(math.inf, math.nan)
    except OverflowError:
        return complex(math.inf, 0.0 if complex(a).imag == complex(b).imag == 0 else math.nan)


_numbers("add", py.add, _whole(py.add))
_numbers("sub", py.sub, _whole(py.sub))
_numbers("mul", py.mul, _whole(py.mul))
_numbers("div", _divided, _divided, "float")
_numbers("pow", _power, _power, "float")
_numbers("floordiv", _floor_divided, _no_zero(py.floordiv))
primitive("aten::__round_to_zero_floordiv(int a, int b) -> int",
          lambda a, b: (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1))  # fmt: skip
_numbers("remainder", _remainder, _no_zero(py.mod))
primitive("aten::pow.math(float a, float b) -> float", _power)
for _kind in ("float", "complex"):
    primitive(f"aten::neg.{_kind}({_kind} a) -> {_kind}", py.neg)
primitive("aten::neg.int(int a) -> int", _whole(py.neg))
primitive("aten::neg.Scalar(Scalar a) -> Scalar", lambda a: wrapped(-a) if type(a) is int else -a)
# processors take the last six bits of how far
primitive("aten::__lshift__.int(int a, int b) -> int", lambda a, b: wrapped(a << (b & 63)))
primitive("aten::__rshift__.int(int a, int b) -> int", lambda a, b: a >> (b & 63))
primitive("aten::bitwise_not.int(int a) -> int", py.invert)
primitive("prim::abs.int(int a) -> int", _whole(abs))
primitive("prim::abs.float(float a) -> float", abs)
primitive("prim::abs.complex(complex a) -> float", abs)
primitive(
    "prim::abs.Scalar(Scalar a) -> Scalar", lambda a: wrapped(abs(a)) if type(a) is int else abs(a)
)
for _name in ("prim", "aten"):
    primitive(f"{_name}::sum.int(int[] self) -> int", _whole(sum))
    primitive(f"{_name}::sum.float(float[] self) -> float", lambda a: float(sum(a)))


def _int_divmod(a: int, b: int) -> tuple[int, int]:
    quotient, rest = divmod(a, b)
    return wrapped(quotient), rest


primitive("aten::divmod.int(int a, int b) -> (int, int)", _int_divmod)
for _pair in (("float", "float"), ("int", "float"), ("float", "int")):
    primitive(
        f"aten::divmod.{'_'.join(_pair)}({_pair[0]} a, {_pair[1]} b) -> (float, float)", divmod
    )
primitive("aten::round.Scalar(float a) -> float",
          lambda a: math.copysign(float(round(a)), a) if math.isfinite(a) else a)  # fmt: skip
primitive("aten::round.int(int a) -> float", float)

# ------------------------------------------------------------------ math


def _integral(run: Callable[[Any], int]) -> Callable[[Any], int]:
    def call(a: Any) -> int:
        if not -_HALF <= a < _HALF:
            _too_large(a)
        return run(a)

    return call


for _name in ("ceil", "floor"):
    for _kind in ("int", "float", "Scalar"):
        primitive(f"aten::{_name}.{_kind}({_kind} a) -> int", _integral(getattr(math, _name)))


def _ends(name: str, a: float) -> float:
    """Where Python raises an error: the limit there, or nan where there is none."""
    if name in ("log", "log2", "log10") and a == 0 or name == "log1p" and a == -1:
        return -math.inf
    if name == "atanh" and abs(a) == 1 or name == "gamma" and a == 0:
        return math.copysign(math.inf, a)
    return math.inf if name == "lgamma" else math.nan


def _as_in_c(name: str) -> Callable[[Any], float]:
    run = getattr(math, name)

    def call(a: Any) -> float:
        try:
            return run(a)
        except ValueError:
            return _ends(name, float(a))
        except OverflowError:
            return math.copysign(math.inf, a) if name == "sinh" else math.inf

    return call


for _name in ("sqrt exp log log10 log2 log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh "
              "acosh atanh erf erfc gamma lgamma degrees radians fabs").split():  # fmt: skip
    for _kind in ("int", "float", "Scalar"):
        primitive(f"aten::{_name}.{_kind}({_kind} a) -> float", _as_in_c(_name))
for _name in ("isnan", "isinf", "isfinite"):
    primitive(f"aten::{_name}.float(float a) -> bool", getattr(math, _name))


def _or_nan(run: Callable[..., float]) -> Callable[..., float]:
    def call(a: Any, b: Any) -> float:
        try:
            return run(a, b)
        except ValueError:
            return math.nan

    return call


for _name, _run in (("atan2", math.atan2), ("copysign", math.copysign), ("hypot", math.hypot),
                    ("fmod", _or_nan(math.fmod)), ("mathremainder", _or_nan(math.remainder))):  # fmt: skip
    primitive(f"aten::{_name}.float(float a, float b) -> float", _run)
    primitive(f"aten::{_name}.Scalar(Scalar a, Scalar b) -> float", _run)
    primitive(f"aten::{_name}.int(int a, int b) -> float", _run)


def _log_to(a: float, base: float) -> float:
    return _divided(_LOG(a), _LOG(base))


def _complex_log_to(a: complex, base: complex) -> complex:
    parts = [cmath.log(x) if x != 0 else complex(-math.inf, 0) for x in (a, base)]
    return _divided(*parts)


_LOG = _as_in_c("log")
primitive("aten::log.base_complex(complex a, complex b) -> complex", _complex_log_to)
primitive("aten::log.base(float a, float b) -> float", _log_to)
primitive("aten::log.base_Scalar(Scalar a, Scalar b) -> float", _log_to)


def _factorial(a: int) -> int:
    return wrapped(math.factorial(min(a, 66)))  # 66! and those above end with 64 zeros


primitive("aten::factorial.int(int a) -> int", _factorial)
primitive("aten::gcd.int(int a, int b) -> int", _whole(math.gcd))
primitive("aten::modf(float a) -> (float, float)", math.modf)
primitive("aten::frexp(float a) -> (float, int)", math.frexp)


def _ldexp(a: float, exponent: int) -> float:
    try:
        return math.ldexp(a, exponent)
    except OverflowError:
        return math.copysign(math.inf, a)


primitive("aten::ldexp(float x, int i) -> float", _ldexp)
primitive("aten::polar.float(float a, float b) -> complex",
          lambda a, b: cmath.rect(a, b) if math.isfinite(b) else complex(math.nan, math.nan))  # fmt: skip
