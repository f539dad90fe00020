"""Writes how gamma and beta samples move with their shapes: `python tools/make_rate_vectors.py` (needs mpmath).

Takes nothing but mpmath. Gives `tests/oracles/rate_vectors.json`: rows of a sample, its shapes and the derivative of
the sample by the first shape at a fixed probability, as hexadecimal float64.
Keeps true: nothing here imports facula, NumPy or SciPy; rows are the same in every run. The derivative is that of the
distribution function, or of what it lacks to 1 where the sample lies above the mean, by a central difference of 30
digits in 110, over the density.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import mpmath
from mpmath import mpf

TARGET = Path(__file__).resolve().parent.parent / "tests" / "oracles" / "rate_vectors.json"
COUNT = 240
STEP = mpf(10) ** -30


def _beta(x: Any, a: Any, b: Any) -> Any:
    """The derivative for a beta sample, by hypergeometric functions."""

    def below(shape: Any) -> Any:
        factor = x**shape * (1 - x) ** b / (shape * mpmath.beta(shape, b))
        return factor * mpmath.hyp2f1(shape + b, 1, shape + 1, x)

    def above(shape: Any) -> Any:
        factor = x**shape * (1 - x) ** b / (b * mpmath.beta(shape, b))
        return factor * mpmath.hyp2f1(shape + b, 1, b + 1, 1 - x)

    density = x ** (a - 1) * (1 - x) ** (b - 1) / mpmath.beta(a, b)
    return _difference(below, above, x < a / (a + b), a) / density


def _gamma(x: Any, a: Any) -> Any:
    """The derivative for a standard gamma sample, by incomplete gamma functions."""

    def below(shape: Any) -> Any:
        return mpmath.gammainc(shape, 0, x, regularized=True)

    def above(shape: Any) -> Any:
        return mpmath.gammainc(shape, x, mpmath.inf, regularized=True)

    return _difference(below, above, x < a, a) / (x ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a))


def _difference(below: Any, above: Any, low: bool, shape: Any) -> Any:
    function, sign = (below, -1) if low else (above, 1)
    step = shape * STEP
    return sign * (function(shape + step) - function(shape - step)) / (2 * step)


def _beta_rows(draw: random.Random) -> list[list[str]]:
    rows: list[list[str]] = []
    while len(rows) < COUNT:
        a, b = (10 ** draw.uniform(-3, 4) for _ in range(2))
        mean = a / (a + b)
        width = (mean * (1 - mean) / (a + b + 1)) ** 0.5
        x = draw.choice(
            [
                10 ** draw.uniform(-37, 0),
                1 - 10 ** draw.uniform(-15, 0),
                mean + 2 * width * draw.gauss(0, 1),
                mean * 10 ** draw.gauss(0, 1),
            ]
        )
        if 0 < x < 1:
            value = float(_beta(mpf(x), mpf(a), mpf(b)))
            rows.append([number.hex() for number in (x, a, b, value)])
    return rows


def _gamma_rows(draw: random.Random) -> list[list[str]]:
    rows: list[list[str]] = []
    while len(rows) < COUNT:
        a = 10 ** draw.uniform(-3, 4)
        x = draw.choice([10 ** draw.uniform(-37, 0), a + 2 * a**0.5 * draw.gauss(0, 1)])
        if x > 0:
            value = float(_gamma(mpf(x), mpf(a)))
            rows.append([number.hex() for number in (x, a, value)])
    return rows


def main() -> None:
    """Writes the file."""
    draw = random.Random(0)
    with mpmath.workdps(110):
        rows = {"beta": _beta_rows(draw), "gamma": _gamma_rows(draw)}
    TARGET.write_text(json.dumps(rows, indent=None, separators=(",", ":")).replace("],[", "],\n["))


if __name__ == "__main__":
    main()
