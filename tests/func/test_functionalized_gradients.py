"""Transforms around `functionalize`: the derivatives are those of the program as it stands."""

import pytest

import facula
from facula import func

X = facula.tensor([0.5, 1.2, -0.7, 0.9], dtype=facula.float64)
BATCH = facula.stack([X, 2 * X])


def reads_twice(x):
    return (x[1] * x[2]).sin() * x.sum()


def item(x):
    y = x.clone()
    y[0] = x[1] * x[2]
    return y.pow(3).sum()


def whole(x):
    y = x.clone()
    y.mul_(x)
    return y.sin().sum()


def slices(x):
    y = x * 2
    y[1:].mul_(x[:-1])
    return (y * y).sum()


def matrix(x):
    y = facula.zeros_like(x)
    y.copy_(x)
    y.view(2, 2).t().mul_(x.view(2, 2))
    return y.exp().sum()


def filled(x):
    y = x.sin()
    y[1:3].fill_(0.5)
    y[0].zero_()
    return y.prod() + (y * x).sum()


PROGRAMS = [reads_twice, item, whole, slices, matrix, filled]
TRANSFORMS = {
    "tangents": lambda f: lambda x: func.jvp(f, (x,), (x.cos(),))[1],
    "gradients": func.grad,
    "gradients of gradients": lambda f: func.grad(lambda x: func.grad(f)(x).square().sum()),
    "tangents of gradients": lambda f: lambda x: func.jvp(func.grad(f), (x,), (x.cos(),))[1],
    "hessians": func.hessian,
    "rows": func.jacrev,
}


def close(found, wanted):
    facula.testing.assert_close(found, wanted)
    assert not found.requires_grad


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_derivatives_of_functionalized_programs(f, name):
    transform = TRANSFORMS[name]
    close(transform(func.functionalize(f))(X), transform(f)(X))


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_derivatives_of_entries(f, name):
    transform = TRANSFORMS[name]
    wanted = facula.stack([transform(f)(row) for row in BATCH])
    close(func.vmap(transform(func.functionalize(f)))(BATCH), wanted)


def test_a_view_of_the_whole_has_a_gradient_of_its_own():
    leaf = X.clone().requires_grad_()
    view = leaf.view_as(leaf)
    value = func.functionalize(lambda x: x[0] * x[1] + x.sum())(view)
    (found,) = facula.autograd.grad(value, view)
    assert found.tolist() == [2.2, 1.5, 1.0, 1.0]


def test_attention_has_tangents_of_tangents():
    def f(x):
        rows = x.reshape(1, 1, 4, 1)
        return facula.nn.functional.scaled_dot_product_attention(rows, rows, rows).sum()

    def tangent(g):
        return lambda x: func.jvp(g, (x,), (x.cos(),))[1]

    step = 1e-5
    once = tangent(f)
    move = X.cos() * step
    wanted = (once(X + move) - once(X - move)) / (2 * step)
    facula.testing.assert_close(tangent(once)(X), wanted, rtol=1e-6, atol=1e-6)
