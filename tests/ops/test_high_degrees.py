"""Orthogonal polynomials of any degree end at once, and are the limits that analysis gives them."""

import math

import numpy as np
import pytest
import scipy.special

import facula
from facula import special

#: the recurrence counts up to the first, and would not come to the last in a lifetime
DEGREES = [10**6 + 1, 10**9 + 1, 10**12, 2**60]
FAMILIES = [n for n in dir(special) if "_polynomial_" in n and not n.startswith("_")]


def at(name, x, n):
    x = facula.tensor(np.atleast_1d(np.asarray(x, dtype=float)).tolist(), dtype=facula.float64)
    return getattr(special, name)(x, facula.tensor(float(n), dtype=facula.float64)).numpy()


@pytest.mark.parametrize("degree", [*DEGREES, math.inf])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_degree_ends(name, degree):
    x = [-3.0, -1 - 1e-15, -1.0, -0.3, 0.0, 0.5, 1.0, 1 + 1e-15, 2.0, 1e9, math.inf, math.nan]
    found = at(name, x, degree)
    assert found.shape == (12,) and np.isnan(found[-1])


@pytest.mark.parametrize("degree", DEGREES)
def test_legendre_near_one_is_a_bessel_function(degree):
    """Mehler and Heine: P_n(cos(z / n)) tends to J_0(z)."""
    for x in (1 - 2.0**-50, 1 - 2.0**-40, 1 - 2.0**-36):
        z = math.acos(x) * (degree + 0.5)
        if z < 1e6:
            assert math.isclose(
                at("legendre_polynomial_p", x, degree)[0], scipy.special.j0(z), abs_tol=1e-9
            )
    x = 1 + 2.0**-46
    z = math.sqrt(2.0**-45) * (degree + 0.5)
    wanted = scipy.special.i0(z) if z < 700 else math.inf
    assert math.isclose(at("legendre_polynomial_p", x, degree)[0], wanted, rel_tol=1e-7)
    assert at("legendre_polynomial_p", [1, -1], degree).tolist() == [1, -1 if degree % 2 else 1]


def test_legendre_at_zero_is_a_binomial():
    for half in (5 * 10**5 + 3, 10**6):
        wanted = (-1) ** half / math.sqrt(math.pi * half) * (1 - 1 / (8 * half))
        assert math.isclose(at("legendre_polynomial_p", 0.0, 2 * half)[0], wanted, rel_tol=1e-9)


@pytest.mark.parametrize("degree", DEGREES)
def test_laguerre_near_zero_is_a_bessel_function(degree):
    for z in (0.5, 3.0, 40.0):
        x = z * z / (4 * degree + 2)
        assert math.isclose(
            at("laguerre_polynomial_l", x, degree)[0], scipy.special.j0(z), abs_tol=1e-5 * z
        )
        assert math.isclose(
            at("laguerre_polynomial_l", -x, degree)[0], scipy.special.i0(z), rel_tol=1e-4 * z
        )
    assert at("laguerre_polynomial_l", [0.0, -1e3, 1e4], degree).tolist() == [1, math.inf, math.inf]


def counted(name, x, degree):
    """The recurrence in whole numbers, of which 2^128 is one: in doubles it loses seven digits."""
    bits = 128
    x = int(x * 2**60) << bits - 60
    q, p = 1 << bits, (x if name.startswith("legendre") else (1 << bits) - x)
    for k in range(1, degree):
        part = x * p >> bits
        step = (2 * k + 1) * part if name.startswith("legendre") else (2 * k + 1) * p - part
        q, p = p, (step - k * q) // (k + 1)
    return p / (1 << bits)


@pytest.mark.parametrize("name", ["legendre_polynomial_p", "laguerre_polynomial_l"])
@pytest.mark.parametrize("x", [0.3, 0.999])
def test_series_are_what_recurrences_come_to(name, x):
    degree = 10**6 + 1
    assert math.isclose(at(name, x, degree)[0], counted(name, x, degree), abs_tol=1e-12)


@pytest.mark.parametrize("degree", [1001, 10**6, 10**7 + 1])
def test_chebyshev_beyond_one_is_hyperbolic(degree):
    for gap in (2.0**-49, 2.0**-46):
        for sign in (1, -1):
            t = math.acosh(1 + gap) if gap > 1e-3 else math.sqrt(2 * gap) * (1 - gap / 12)
            odd = sign if degree % 2 else 1
            x = sign * (1 + gap)
            t_, u, v, w = (at(f"chebyshev_polynomial_{c}", x, degree)[0] for c in "tuvw")
            assert math.isclose(t_, odd * math.cosh(degree * t), rel_tol=1e-9)
            assert math.isclose(u, odd * math.sinh((degree + 1) * t) / math.sinh(t), rel_tol=1e-9)
            third = math.cosh((degree + 0.5) * t) / math.cosh(t / 2)
            fourth = math.sinh((degree + 0.5) * t) / math.sinh(t / 2)
            if sign < 0:
                third, fourth = odd * fourth, odd * third
            assert math.isclose(v, third, rel_tol=1e-9) and math.isclose(w, fourth, rel_tol=1e-9)
