"""Derivatives in double precision have its digits, whatever transform takes them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy
import pytest

import facula
from facula import func

POINTS = numpy.linspace(0.2, 1.7, 5)
#: programs with numbers beside tensors, and their derivatives by hand
PROGRAMS: dict[str, tuple[Callable[..., facula.Tensor], Callable[..., numpy.ndarray]]] = {
    "multiply": (lambda x: x * 0.3, lambda x: 0 * x + 0.3),
    "divide": (lambda x: x / 0.3, lambda x: 0 * x + 1 / 0.3),
    "power": (lambda x: x**2.3, lambda x: 2.3 * x**1.3),
    "base": (lambda x: 0.3**x, lambda x: math.log(0.3) * 0.3**x),
    "lerp": (lambda x: facula.lerp(x, x * 3, 0.3), lambda x: 0 * x + 0.7 + 0.9),
    "xlogy": (lambda x: facula.xlogy(0.3, x), lambda x: 0.3 / x),
    "leaky": (lambda x: facula.nn.functional.leaky_relu(-x, 0.3), lambda x: 0 * x - 0.3),
}


def _recorded(program: Callable[..., facula.Tensor], x: facula.Tensor) -> facula.Tensor:
    leaf = x.clone().requires_grad_()
    (grad,) = facula.autograd.grad(program(leaf).sum(), leaf, create_graph=True)
    return grad.detach()


WAYS: dict[str, Callable[..., facula.Tensor]] = {
    "grad that can be differentiated": _recorded,
    "vmap of grad": lambda f, x: func.vmap(func.grad(f))(x),
    "vmap of jvp": lambda f, x: func.vmap(lambda a: func.jvp(f, (a,), (facula.ones_like(a),))[1])(
        x
    ),
    "jacfwd": lambda f, x: func.jacfwd(f)(x).diagonal(),
    "jacrev": lambda f, x: func.jacrev(f)(x).diagonal(),
    "linearize": lambda f, x: func.linearize(f, x)[1](facula.ones_like(x)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_beside_tensors_keep_their_digits(name: str, way: str) -> None:
    program, derivative = PROGRAMS[name]
    got = WAYS[way](program, facula.tensor(POINTS))
    assert got.dtype == facula.float64
    numpy.testing.assert_allclose(got.numpy(), derivative(POINTS), rtol=1e-14)


def test_a_hessian_through_explicit_strides() -> None:
    def squares(x: facula.Tensor) -> facula.Tensor:
        return x.as_strided((2, 2), (4, 1), 1).pow(2).sum()

    want = numpy.zeros((12, 12))
    for place in (1, 2, 5, 6):
        want[place, place] = 2
    x = facula.arange(12.0, dtype=facula.float64).reshape(3, 4)
    for hessian in (func.hessian, lambda f: func.jacrev(func.grad(f))):
        numpy.testing.assert_array_equal(hessian(squares)(x).reshape(12, 12).numpy(), want)


def test_linearize_where_a_gradient_is_computed_with_logarithms() -> None:
    x, step = numpy.linspace(-1, 1, 12).reshape(3, 4), numpy.cos(numpy.arange(12.0)).reshape(3, 4)
    _, push = func.linearize(lambda x: x.logcumsumexp(0), facula.tensor(x))
    want = (numpy.exp(x) * step).cumsum(0) / numpy.exp(x).cumsum(0)
    numpy.testing.assert_allclose(push(facula.tensor(step)).numpy(), want, rtol=1e-13)
