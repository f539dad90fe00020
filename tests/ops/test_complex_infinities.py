"""Complex functions at infinity are what they tend to, in each quadrant, as C's annex G and `cmath` have them."""

import cmath
import math

import pytest

import facula

INVERSES = ("asin", "acos", "atan", "asinh", "acosh", "atanh")
ENDS = (math.inf, -math.inf)
PARTS = (*ENDS, 2.5, -1.0, 0.0, -0.0)
POINTS = [complex(a, b) for a in PARTS for b in PARTS if math.inf in (abs(a), abs(b))]


def _same(got: complex, want: complex, digits: float) -> bool:
    pairs = ((got.real, want.real), (got.imag, want.imag))
    return all(
        a == b or math.isclose(a, b, rel_tol=digits) for a, b in pairs
    ) and all(math.copysign(1, a) == math.copysign(1, b) for a, b in pairs)  # fmt: skip


@pytest.mark.parametrize("dtype", [facula.complex64, facula.complex128])
@pytest.mark.parametrize("name", INVERSES)
def test_inverse_functions_at_infinity(name, dtype):
    got = getattr(facula, name)(facula.tensor(POINTS, dtype=dtype)).tolist()
    for point, value in zip(POINTS, got, strict=True):
        want = getattr(cmath, name)(point)
        assert _same(value, want, 1e-6), (name, point, value, want)


@pytest.mark.parametrize("point", [complex(a, b) for a in ENDS for b in (0.0, -0.0)])
def test_cosh_of_an_infinite_number(point):
    assert _same(facula.cosh(facula.tensor([point])).tolist()[0], cmath.cosh(point), 1e-6)


@pytest.mark.parametrize("name", INVERSES)
def test_nothing_is_infinite_because_it_is_no_number(name):
    value = getattr(facula, name)(facula.tensor([complex(math.nan, 1.0)])).tolist()[0]
    assert cmath.isnan(value)
