"""Writes the values of elementwise functions to 50 digits: `python tools/make_vectors.py` (needs mpmath).

Takes nothing but mpmath. Gives `tests/oracles/vectors.json`: by operator lists of arguments, of values, rounded once
from 50 digits, and of `|x f'(x)|`, which says how far a rounding of the argument moves the value; all as hexadecimal
float64. Every second argument is a float32.
Keeps true: nothing here imports facula, NumPy or SciPy; arguments are the same in every run; where a function has no
value or mpmath has no say (infinities, zeros of both signs), the value is what IEEE 754 and
C99 (annex F) say, written in `LIMITS`.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath

TARGET = Path(__file__).resolve().parent.parent / "tests" / "oracles" / "vectors.json"
INFINITY, NAN = float("inf"), float("nan")
TINY, SMALL, LARGE = 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308
COUNT = 24


def _spread(low: float, high: float, seed: int) -> list[float]:
    """Points of an interval: evenly, and near zero in even steps of the logarithm."""
    draw = random.Random(seed)
    points = [draw.uniform(low, high) for _ in range(COUNT)]
    for exponent in (-300, -100, -30, -16, -8, -4, -2, -1):
        for sign in (1.0, -1.0):
            value = sign * draw.uniform(1, 2) * 10.0**exponent
            if low <= value <= high:
                points.append(value)
    return [_short(x) if n % 2 and low <= _short(x) <= high else x for n, x in enumerate(points)]


def _short(x: float) -> float:
    """The float32 next to a number, or the number where there is none."""
    short = struct.unpack("f", struct.pack("f", x))[0]
    return short if short else x


def _erfcx(x: Any) -> Any:
    return mpmath.exp(x * x) * mpmath.erfc(x)


def _ndtr(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _ndtri(p: Any) -> Any:
    """The inverse of `_ndtr`, by bisection in 80 digits."""
    with mpmath.workdps(80):
        low, high = mpmath.mpf(-40), mpmath.mpf(40)
        for _ in range(280):
            middle = (low + high) / 2
            low, high = (middle, high) if _ndtr(middle) < p else (low, middle)
        return (low + high) / 2


def _sinc(x: Any) -> Any:
    return mpmath.sin(mpmath.pi * x) / (mpmath.pi * x)


def _expit(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def _gamma_logarithm(x: Any) -> Any:
    return mpmath.log(abs(mpmath.gamma(x)))


#: by operator: the function and the interval of its arguments
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "exp": (mpmath.exp, -740, 709),
    "exp2": (lambda x: mpmath.power(2, x), -1070, 1023),
    "expm1": (mpmath.expm1, -40, 709),
    "log": (mpmath.log, SMALL, 1e4),
    "log2": (lambda x: mpmath.log(x) / mpmath.log(2), SMALL, 1e4),
    "log10": (mpmath.log10, SMALL, 1e4),
    "log1p": (mpmath.log1p, -0.999, 1e4),
    "sqrt": (mpmath.sqrt, 0, 1e4),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), SMALL, 1e4),
    "sin": (mpmath.sin, -100, 100),
    "cos": (mpmath.cos, -100, 100),
    "tan": (mpmath.tan, -100, 100),
    "asin": (mpmath.asin, -1, 1),
    "acos": (mpmath.acos, -1, 1),
    "atan": (mpmath.atan, -100, 100),
    "sinh": (mpmath.sinh, -700, 700),
    "cosh": (mpmath.cosh, -700, 700),
    "tanh": (mpmath.tanh, -30, 30),
    "asinh": (mpmath.asinh, -1e4, 1e4),
    "acosh": (mpmath.acosh, 1, 1e4),
    "atanh": (mpmath.atanh, -0.999, 0.999),
    "sinc": (_sinc, -10, 10),
    "sigmoid": (_expit, -700, 40),
    "erf": (mpmath.erf, -6, 6),
    "erfc": (mpmath.erfc, -6, 26),
    "erfinv": (mpmath.erfinv, -0.999, 0.999),
    "special_erfcx": (_erfcx, -20, 100),
    "special_ndtr": (_ndtr, -37, 8),
    "special_log_ndtr": (lambda x: mpmath.log(_ndtr(x)), -100, 6),
    "special_ndtri": (_ndtri, 1e-12, 0.999),
    "lgamma": (_gamma_logarithm, 0.01, 170),
    "digamma": (mpmath.digamma, 0.01, 100),
    "i0": (lambda x: mpmath.besseli(0, x), -100, 100),
    "special_i0e": (lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x), -100, 100),
    "special_i1": (lambda x: mpmath.besseli(1, x), -100, 100),
    "special_i1e": (lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x), -100, 100),
    "special_modified_bessel_k0": (lambda x: mpmath.besselk(0, x), 1e-8, 100),
    "special_modified_bessel_k1": (lambda x: mpmath.besselk(1, x), 1e-8, 100),
    "special_bessel_j0": (lambda x: mpmath.besselj(0, x), -30, 30),
    "special_bessel_j1": (lambda x: mpmath.besselj(1, x), -30, 30),
    "special_bessel_y0": (lambda x: mpmath.bessely(0, x), 1e-8, 30),
    "special_bessel_y1": (lambda x: mpmath.bessely(1, x), 1e-8, 30),
    "special_airy_ai": (mpmath.airyai, -10, 10),
    "special_spherical_bessel_j0": (lambda x: mpmath.sin(x) / x, -30, 30),
}

HALF_PI, QUARTER_PI = 1.5707963267948966, 0.7853981633974483
#: what follows from no formula: arguments and values
LIMITS: dict[str, dict[str, float]] = {
    "exp": {
        "0": 1,
        "-0": 1,
        "inf": INFINITY,
        "-inf": 0.0,
        "nan": NAN,
        "1e4": INFINITY,
        "-1e4": 0.0,
    },
    "exp2": {
        "0": 1,
        "-0": 1,
        "inf": INFINITY,
        "-inf": 0.0,
        "nan": NAN,
        "2000": INFINITY,
        "-2000": 0.0,
    },
    "expm1": {"0": 0.0, "-0": -0.0, "inf": INFINITY, "-inf": -1, "nan": NAN, "1e4": INFINITY},
    "log": {
        "0": -INFINITY,
        "-0": -INFINITY,
        "inf": INFINITY,
        "-1": NAN,
        "-inf": NAN,
        "nan": NAN,
        "1": 0.0,
    },
    "log2": {"0": -INFINITY, "-0": -INFINITY, "inf": INFINITY, "-1": NAN, "nan": NAN, "1": 0.0},
    "log10": {"0": -INFINITY, "-0": -INFINITY, "inf": INFINITY, "-1": NAN, "nan": NAN, "1": 0.0},
    "log1p": {"0": 0.0, "-0": -0.0, "-1": -INFINITY, "inf": INFINITY, "-2": NAN, "nan": NAN},
    "sqrt": {"0": 0.0, "-0": -0.0, "inf": INFINITY, "-1": NAN, "nan": NAN},
    "rsqrt": {"0": INFINITY, "inf": 0.0, "-1": NAN, "nan": NAN},
    "sin": {"0": 0.0, "-0": -0.0, "inf": NAN, "-inf": NAN, "nan": NAN},
    "cos": {"0": 1, "-0": 1, "inf": NAN, "-inf": NAN, "nan": NAN},
    "tan": {"0": 0.0, "-0": -0.0, "inf": NAN, "nan": NAN},
    "asin": {"0": 0.0, "-0": -0.0, "1": HALF_PI, "-1": -HALF_PI, "2": NAN, "nan": NAN},
    "acos": {"1": 0.0, "0": HALF_PI, "2": NAN, "-2": NAN, "nan": NAN},
    "atan": {"0": 0.0, "-0": -0.0, "inf": HALF_PI, "-inf": -HALF_PI, "1": QUARTER_PI, "nan": NAN},
    "sinh": {"0": 0.0, "-0": -0.0, "inf": INFINITY, "-inf": -INFINITY, "nan": NAN, "1e4": INFINITY},
    "cosh": {"0": 1, "-0": 1, "inf": INFINITY, "-inf": INFINITY, "nan": NAN, "-1e4": INFINITY},
    "tanh": {"0": 0.0, "-0": -0.0, "inf": 1, "-inf": -1, "nan": NAN},
    "asinh": {"0": 0.0, "-0": -0.0, "inf": INFINITY, "-inf": -INFINITY, "nan": NAN},
    "acosh": {"1": 0.0, "inf": INFINITY, "0": NAN, "-inf": NAN, "nan": NAN},
    "atanh": {"0": 0.0, "-0": -0.0, "1": INFINITY, "-1": -INFINITY, "2": NAN, "nan": NAN},
    "sinc": {"0": 1, "-0": 1, "nan": NAN},
    "sigmoid": {"0": 0.5, "-0": 0.5, "inf": 1, "-inf": 0.0, "nan": NAN},
    "erf": {"0": 0.0, "-0": -0.0, "inf": 1, "-inf": -1, "nan": NAN},
    "erfc": {"0": 1, "-0": 1, "inf": 0.0, "-inf": 2, "nan": NAN},
    "erfinv": {"0": 0.0, "1": INFINITY, "-1": -INFINITY, "2": NAN, "nan": NAN},
    "special_erfcx": {"0": 1, "inf": 0.0, "-inf": INFINITY, "nan": NAN},
    "special_ndtr": {"0": 0.5, "inf": 1, "-inf": 0.0, "nan": NAN},
    "special_log_ndtr": {"inf": -0.0, "-inf": -INFINITY, "nan": NAN},
    "special_ndtri": {"0": -INFINITY, "1": INFINITY, "0.5": 0.0, "2": NAN, "nan": NAN},
    "lgamma": {
        "1": 0.0,
        "2": 0.0,
        "0": INFINITY,
        "-1": INFINITY,
        "inf": INFINITY,
        "-inf": INFINITY,
        "nan": NAN,
    },
    "digamma": {"0": -INFINITY, "-0": INFINITY, "-1": NAN, "inf": INFINITY, "nan": NAN},
    "i0": {"0": 1, "inf": INFINITY, "-inf": INFINITY, "nan": NAN},
    "special_i1": {"0": 0.0, "nan": NAN},
    "special_modified_bessel_k0": {"0": INFINITY, "-1": NAN, "nan": NAN},
    "special_modified_bessel_k1": {"0": INFINITY, "-1": NAN, "nan": NAN},
    "special_bessel_j0": {"0": 1, "nan": NAN},
    "special_bessel_j1": {"0": 0.0, "nan": NAN},
    "special_bessel_y0": {"0": -INFINITY, "-1": NAN, "nan": NAN},
    "special_bessel_y1": {"0": -INFINITY, "-1": NAN, "nan": NAN},
    "special_spherical_bessel_j0": {"0": 1, "inf": 0.0, "nan": NAN},
}
#: arguments at the ends of the format, where the function is defined there
EXTREMES = {
    "exp": (TINY, -TINY, SMALL),
    "expm1": (TINY, -TINY, SMALL, -SMALL),
    "log": (TINY, SMALL, LARGE),
    "log2": (TINY, SMALL, LARGE),
    "log10": (TINY, SMALL, LARGE),
    "log1p": (TINY, -TINY, SMALL, LARGE),
    "sqrt": (TINY, SMALL, LARGE),
    "rsqrt": (TINY, SMALL, LARGE),
    "sin": (TINY, SMALL, 1e22, LARGE),
    "cos": (TINY, 1e22, LARGE),
    "tan": (TINY, SMALL, 1e22),
    "asin": (TINY, SMALL),
    "atan": (TINY, SMALL, LARGE),
    "sinh": (TINY, SMALL),
    "tanh": (TINY, SMALL, LARGE),
    "asinh": (TINY, SMALL, LARGE),
    "acosh": (LARGE,),
    "atanh": (TINY, SMALL),
    "erf": (TINY, LARGE),
}


def vectors() -> dict[str, dict[str, list[str]]]:
    """Arguments and values of every function."""
    made = {}
    for seed, (name, (function, low, high)) in enumerate(FUNCTIONS.items()):
        rows = []
        for x in (*_spread(low, high, seed), *EXTREMES.get(name, ())):
            rows.append((x, float(function(mpmath.mpf(x))), _sensitivity(function, x)))
        rows += [(float(x), float(value), 0.0) for x, value in LIMITS.get(name, {}).items()]
        columns = zip("xyd", zip(*rows, strict=True), strict=True)
        made[name] = {key: [v.hex() for v in values] for key, values in columns}
    return made


def _sensitivity(function: Callable[[Any], Any], x: float) -> float:
    """`|x f'(x)|` to a few digits, from values a part in 10^20 to one side of `x`."""
    step = mpmath.mpf(x) * mpmath.mpf(10) ** -20
    inside = function(mpmath.mpf(x) - step)  # towards zero, where all of the functions are defined
    moved = mpmath.re(function(mpmath.mpf(x)) - inside)
    return float(abs(moved) * mpmath.mpf(10) ** 20)


def main() -> None:
    """The command line."""
    mpmath.mp.dps = 50
    made = vectors()
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(pair)}" for name, pair in made.items())
    TARGET.write_text("{\n" + lines + "\n}\n")
    print(
        f"{sum(len(pair['x']) for pair in made.values())} values of {len(made)} functions in {TARGET}"
    )


if __name__ == "__main__":
    main()
