"""`linspace` in each of its dtypes: every value is that of exact arithmetic, rounded once.

Ends and step are numbers of the dtype; the lower half counts from the start, the upper half from the end. The
oracle computes with fractions.
"""

import random
from fractions import Fraction

import numpy
import pytest

import facula

KINDS = {"float32": numpy.float32, "float64": numpy.float64}


def rounded(kind, exact):
    """The number of `kind` next to a fraction, the even one of two."""
    near = kind(float(exact))
    around = [near, numpy.nextafter(near, kind(-numpy.inf)), numpy.nextafter(near, kind(numpy.inf))]
    return min(
        around, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(f"i{v.itemsize}")) & 1)
    )


def even(kind, start, end, steps):
    start, end = kind(start), kind(end)
    if steps == 1:
        return [start]
    step = Fraction(float(kind(end - start) / kind(steps - 1)))
    first, last = Fraction(float(start)), Fraction(float(end))
    half = steps // 2
    return [rounded(kind, first + step * i) for i in range(half)] + [
        rounded(kind, last - step * (steps - 1 - i)) for i in range(half, steps)
    ]


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 17, 100, 257])
@pytest.mark.parametrize("name", KINDS)
def test_values_are_rounded_once(name, steps):
    chance = random.Random(steps)
    for _ in range(10):
        start, end = chance.uniform(-10, 10), chance.uniform(-10, 10)
        given = facula.linspace(start, end, steps, dtype=getattr(facula, name)).numpy()
        wanted = numpy.array(even(KINDS[name], start, end, steps))
        numpy.testing.assert_array_equal(given, wanted)
        compiled = facula.compile(
            lambda a, b: facula.linspace(a, b, steps, dtype=getattr(facula, name))
        )
        if steps == 17:
            numpy.testing.assert_array_equal(compiled(start, end).numpy(), wanted)
            break


@pytest.mark.parametrize("name", KINDS)
def test_parts_of_long_ranges_are_those_of_one_thread(name):
    steps = 200_003
    given = facula.linspace(-1.1, 2.3, steps, dtype=getattr(facula, name)).numpy()
    assert given[0] == KINDS[name](-1.1) and given[-1] == KINDS[name](2.3)
    step = KINDS[name](KINDS[name](KINDS[name](2.3) - KINDS[name](-1.1)) / KINDS[name](steps - 1))
    for i in (1, 32_767, 32_768, 100_000, 100_001, 100_002, 170_001):
        exact = (
            Fraction(float(KINDS[name](-1.1))) + Fraction(float(step)) * i
            if i < steps // 2
            else Fraction(float(KINDS[name](2.3))) - Fraction(float(step)) * (steps - 1 - i)
        )
        assert given[i] == rounded(KINDS[name], exact)
