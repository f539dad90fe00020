"""Numbers in scripts are C's, as in PyTorch: ints of 64 bits that wrap around, floats as IEEE has them."""

import cmath
import math

import pytest

from facula import jit

INF, NAN, LEAST = math.inf, math.nan, -(1 << 63)


@jit.script
def arithmetic(a: int, b: int):
    return a + b, a - b, a * b, -a, abs(a)


@jit.script
def power(a: int, b: int):
    return a**b


@jit.script
def power_of_floats(a: float, b: float):
    return a**b


@jit.script
def power_of_both(a: int, b: float):
    return a**b


@jit.script
def divisions(a: float, b: float):
    return a / b, a // b, a % b


@jit.script
def divisions_of_ints(a: int, b: int):
    return a // b, a % b


@jit.script
def quotient(a: int, b: int):
    return a / b


@jit.script
def shifts(a: int, b: int):
    return a << b, a >> b


@jit.script
def functions(a: float):
    return math.sqrt(a), math.log(a), math.log10(a), math.log1p(a), math.acos(a), math.exp(a)


@jit.script
def further(a: float):
    return math.sinh(a), math.cosh(a), math.gamma(a), math.lgamma(a), math.atanh(a)


@jit.script
def pairs(a: float, b: float):
    return math.fmod(a, b), math.remainder(a, b), max(a, b), min(a, b)


@jit.script
def integral(a: float):
    return math.floor(a), math.ceil(a)


@jit.script
def as_int(a: float):
    return int(a)


@jit.script
def text_as_int(a: str):
    return int(a)


@jit.script
def factorial(a: int):
    return math.factorial(a)


@jit.script
def complex_power(a: complex, b: complex):
    return a**b


@jit.script
def rounded(a: float, b: int):
    return round(a), round(b)


def same(found, expected):
    """Equal, with nan as itself and zeros with their signs."""
    if isinstance(expected, tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    if expected != expected:
        return found != found
    if type(found) is not type(expected):
        return False
    return found == expected and math.copysign(1, found) == math.copysign(1, expected)


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (arithmetic, ((1 << 63) - 1, 1), (LEAST, (1 << 63) - 2, (1 << 63) - 1, 1 - (1 << 63), (1 << 63) - 1)),
        (arithmetic, (LEAST, 4), (LEAST + 4, (1 << 63) - 4, 0, LEAST, LEAST)),
        (arithmetic, (-7, 2), (-5, -9, -14, 7, 7)),
        (power, (-7, 2), 49.0),
        (power, (7, -2), 1 / 49),
        (power, (2, 70), 2.0**70),
        (power, (10, 10**9), INF),
        (power, (0, 0), 1.0),
        (power_of_both, (-7, 2.5), NAN),
        (power_of_both, (7, 2.5), 7**2.5),
        (power_of_floats, (-7.0, 2.5), NAN),
        (power_of_floats, (-8.0, 1 / 3), NAN),
        (power_of_floats, (1e300, 2.0), INF),
        (power_of_floats, (-1e300, 3.0), -INF),
        (power_of_floats, (-1e300, 2.0), INF),
        (divisions, (7.0, 0.0), (INF, INF, NAN)),
        (divisions, (-7.0, 0.0), (-INF, -INF, NAN)),
        (divisions, (0.0, 0.0), (NAN, NAN, NAN)),
        (divisions, (-7.0, 2.0), (-3.5, -4.0, 1.0)),
        (divisions, (1.0, 0.1), (10.0, 10.0, 1.0 % 0.1)),
        (divisions, (0.0, -1.0), (-0.0, -0.0, -0.0)),
        (divisions_of_ints, (-7, 2), (-4, 1)),
        (divisions_of_ints, (LEAST, -1), (LEAST, 0)),
        (quotient, (7, 0), INF),
        (shifts, (1, 63), (LEAST, 0)),
        (shifts, (1, 64), (1, 1)),
        (shifts, (8, -1), (0, 0)),
        (functions, (-1.0,), (NAN, NAN, NAN, -INF, math.pi, 1 / math.e)),
        (functions, (0.0,), (0.0, -INF, -INF, 0.0, math.pi / 2, 1.0)),
        (functions, (1000.0,), (1000**0.5, math.log(1000), math.log10(1000), math.log1p(1000), NAN, INF)),
        (further, (-1000.0,), (-INF, INF, NAN, INF, NAN)),
        (further, (1.0,), (math.sinh(1), math.cosh(1), 1.0, 0.0, INF)),
        (pairs, (7.0, 0.0), (NAN, NAN, 7.0, 0.0)),
        (pairs, (NAN, 1.0), (NAN, NAN, 1.0, 1.0)),
        (pairs, (1.0, NAN), (NAN, NAN, NAN, NAN)),
        (integral, (-2.5,), (-3, -2)),
        (as_int, (1e300,), LEAST),
        (as_int, (NAN,), LEAST),
        (as_int, (-2.7,), -2),
        (factorial, (20,), math.factorial(20)),
        (factorial, (21,), -4249290049419214848),
        (factorial, (10**12,), 0),
        (rounded, (2.5, 3), (2.0, 3.0)),
        (rounded, (-0.4, -3), (-0.0, -3.0)),
    ],
)  # fmt: skip
def test_numbers_are_those_of_c(function, arguments, expected):
    assert same(function(*arguments), expected)


def test_complex_powers_end():
    assert cmath.isclose(complex_power(2j, 2 + 0j), -4 + 0j)
    assert cmath.isinf(complex_power(1e300 + 0j, 2 + 0j))
    assert not cmath.isfinite(complex_power(0j, -1 + 0j))


@pytest.mark.parametrize(
    ("function", "arguments", "text", "kind"),
    [
        (power, (0, -1), "negative power", ZeroDivisionError),
        (power_of_both, (0, -1.0), "negative power", ZeroDivisionError),
        (divisions_of_ints, (7, 0), "division by 0", ZeroDivisionError),
        (integral, (NAN,), "Cannot convert", OverflowError),
        (integral, (1e300,), "Cannot convert", OverflowError),
        (text_as_int, ("9" * 20,), "without overflow", OverflowError),
        (text_as_int, ("x",), "invalid", ValueError),
    ],
)
def test_what_has_no_result_is_a_runtime_error_and_that_of_python(function, arguments, text, kind):
    with pytest.raises(RuntimeError, match=text) as raised:
        function(*arguments)
    assert isinstance(raised.value, kind)
    assert "Traceback of TorchScript" in str(raised.value)


@jit.script
def raises(a: int):
    assert a != 1, "one"
    if a == 2:
        raise ValueError("two")
    return [1][a]


def test_errors_of_scripts_are_jit_errors_and_those_that_were_raised():
    with pytest.raises(jit.Error, match="one") as raised:
        raises(1)
    assert isinstance(raised.value, AssertionError)
    with pytest.raises(jit.Error, match="two") as raised:
        raises(2)
    assert isinstance(raised.value, ValueError)
    with pytest.raises(RuntimeError) as raised:
        raises(3)
    assert isinstance(raised.value, IndexError) and not isinstance(raised.value, jit.Error)
