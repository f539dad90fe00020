"""Oracles of special functions that take more than their SciPy counterpart does, and of orthogonal polynomials."""

import numpy
import scipy.special
from oracle_table import call, oracle


@oracle("_polygamma", kind="scipy")
def polygamma(a, n):
    return scipy.special.polygamma(n, a)


@oracle(
    "polygamma",
    kind="scipy",
    samples=lambda S: [call(n, S(3, 4, low=0.5, high=4)) for n in (0, 1, 2, 4)],
)
def polygamma_of_order(n, a):
    return scipy.special.polygamma(n, a)


@oracle(
    "mvlgamma",
    kind="scipy",
    samples=lambda S: [call(S(3, 4, low=2, high=5), 1), call(S(3, 4, low=2, high=5), 3)],
)
def multivariate_log_gamma(a, p):
    return scipy.special.multigammaln(a, p)


@oracle("special_spherical_bessel_j0", kind="scipy")
def spherical_bessel(a):
    return scipy.special.spherical_jn(0, a * 1.0)


def _degrees(x, n):
    return numpy.asarray(x, float), numpy.trunc(numpy.asarray(n, float)).astype(int)


def _polynomial(name, evaluate, factor=256):
    def value(x, n):
        points, degrees = _degrees(x, n)
        return evaluate(degrees, points)

    oracle(f"special_{name}", kind="scipy", factor=factor)(value)


def _second(n, x):
    """Chebyshev's second kind, with nothing below degree 0."""
    return numpy.where(n < 0, 0.0, scipy.special.eval_chebyu(numpy.maximum(n, 0), x))


_polynomial("chebyshev_polynomial_t", scipy.special.eval_chebyt)
_polynomial("chebyshev_polynomial_u", _second)
_polynomial("chebyshev_polynomial_v", lambda n, x: _second(n, x) - _second(n - 1, x))
_polynomial("chebyshev_polynomial_w", lambda n, x: _second(n, x) + _second(n - 1, x))
_polynomial("shifted_chebyshev_polynomial_t", scipy.special.eval_sh_chebyt)
_polynomial("shifted_chebyshev_polynomial_u", scipy.special.eval_sh_chebyu)
_polynomial(
    "shifted_chebyshev_polynomial_v",
    lambda n, x: _second(n, 2 * x - 1) - _second(n - 1, 2 * x - 1),
)
_polynomial(
    "shifted_chebyshev_polynomial_w",
    lambda n, x: _second(n, 2 * x - 1) + _second(n - 1, 2 * x - 1),
)
_polynomial("hermite_polynomial_h", scipy.special.eval_hermite)
_polynomial("hermite_polynomial_he", scipy.special.eval_hermitenorm)
_polynomial("laguerre_polynomial_l", scipy.special.eval_laguerre)
_polynomial("legendre_polynomial_p", scipy.special.eval_legendre)
