"""Gradients where a function levels off: eager, batched and compiled ones agree, and have the digits that are left."""

import math

import numpy
import pytest

import facula
from facula import func


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_ways_to_a_gradient_agree_where_the_function_is_flat(name):
    x = facula.linspace(-9, 9, 64)
    function = getattr(facula, name)
    leaf = x.clone().requires_grad_()
    (eager,) = facula.autograd.grad(function(leaf).sum(), leaf)
    _, pull = func.vjp(function, x)
    (batched,) = func.vmap(pull)(facula.eye(64))
    compiled_leaf = x.clone().requires_grad_()
    facula.compile(lambda t: function(t).sum())(compiled_leaf).backward()
    for other in (batched.diagonal(), compiled_leaf.grad):
        numpy.testing.assert_allclose(other.numpy(), eager.numpy(), rtol=1e-6)


def test_the_slope_of_tanh_has_the_digits_of_its_value():
    x = facula.linspace(0, 8, 50, requires_grad=True)
    y = x.tanh()
    y.sum().backward()
    exact = [
        (1 - value) * (1 + value) for value in map(float, y.detach())
    ]  # Python's doubles hold this exactly enough
    assert all(
        math.isclose(a, b, rel_tol=2e-7, abs_tol=0)
        for a, b in zip(x.grad.tolist(), exact, strict=True)
    )
