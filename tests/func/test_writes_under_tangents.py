"""Tangents of what is written in place, where gradients are recorded as well; and of halves that are complex.

The oracle: differences of float64 values, and the same in higher precision.
"""

import pytest

import facula
from facula import func

X = [1.0, 2.0, 3.0]
V = [0.3, -1.0, 2.0]


def through_views(x):
    y = x.clone()
    y[:2].mul_(x[1:])
    y[0] = x[2] ** 2
    y.add_(y)
    y[1:].sub_(y[:2].clone())
    return y


def through_itself(x):
    y = x.clone()
    y.add_(y)
    y[1:].mul_(y[:2].clone())
    return y


FUNCTIONS = {
    "negated": lambda x: x.clone().neg_().mul_(x),
    "sines": lambda x: x.clone().sin_().mul_(x),
    "powers": lambda x: x.sin().pow_(2).mul_(x),
    "quotients": lambda x: x.clone().addcmul_(x, x).div_(x + 1),
    "added rows": lambda x: x.clone().index_add_(0, facula.tensor([0, 0, 1]), x * x).cumsum_(0) * x,
    "through views": through_views,
    "through itself": through_itself,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_writes_where_both_are_recorded(name):
    """A tangent's factors were overwritten: `an unmodified saved tensor was required`."""
    f, step = FUNCTIONS[name], 1e-4
    x, v = facula.tensor(X, dtype=facula.float64), facula.tensor(V, dtype=facula.float64)

    def gradient(z):
        return func.grad(lambda a: (f(a) * x).sum())(z)

    def tangent(z):
        return (func.jvp(f, (z,), (v,))[1] * x).sum()

    found = func.jvp(gradient, (x,), (v,))[1]
    expected = (gradient(x + step * v) - gradient(x - step * v)) / (2 * step)
    facula.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    found = func.grad(tangent)(x)
    for unit, each in zip(facula.eye(3, dtype=facula.float64), found, strict=True):
        slope = (tangent(x + step * unit) - tangent(x - step * unit)) / (2 * step)
        facula.testing.assert_close(each, slope, rtol=1e-5, atol=1e-6)


def of_halves(x):
    return facula.complex(x, x * x).abs()


def test_gradients_of_complex_halves_keep_their_imaginary_parts():
    """They went into the dtype of the gradient that came, which is real: the sum lacked a term."""
    x = facula.tensor([0.5, -1.0, 2.0])
    exact = facula.diag((x + 2 * x**3) / (x * x + x**4).sqrt())
    half = x.to(facula.float16)
    for jacobian in (func.jacrev(of_halves)(half), func.jacfwd(of_halves)(half)):
        facula.testing.assert_close(jacobian.float(), exact, rtol=2e-3, atol=2e-3)
    z = facula.complex(half, half * half).requires_grad_()
    (once,) = facula.autograd.grad(z.abs().sum(), z, create_graph=True)
    wide = facula.complex(x, x * x)
    facula.testing.assert_close(
        once.detach().to(facula.complex64), wide / wide.abs(), rtol=2e-3, atol=2e-3
    )
