"""Gradients of 16-bit floats that are differentiated again: each step of their formula is rounded, as by PyTorch.

The oracle is NumPy's float16, which rounds after each operation; what rounds once is computed in float32 first.
"""

from __future__ import annotations

import numpy as np
import pytest

import facula
from facula.autograd import grad

HALF = np.float16


def _numbers(
    seed: int, low: float = 1.0, high: float = 4.0, shape: tuple[int, ...] = (64,)
) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(HALF)


def _leaf(values: np.ndarray) -> facula.Tensor:
    return facula.tensor(values).requires_grad_()


def _equal(found: facula.Tensor, expected: np.ndarray) -> None:
    assert found.dtype is facula.float16
    np.testing.assert_array_equal(found.detach().numpy(), expected)


def test_the_quotient():
    x, y, c = _numbers(1), _numbers(2), _numbers(3)
    a, b = _leaf(x), _leaf(y)
    to_x, to_y = grad(a / b, (a, b), facula.tensor(c), create_graph=True)
    _equal(to_x, c / y)
    _equal(to_y, -(c * ((x / y) / y)))


def test_a_power_of_a_number():
    x, c = _numbers(4), _numbers(5)
    a = _leaf(x)
    (found,) = grad(a**3, a, facula.tensor(c), create_graph=True)
    _equal(found, c * (HALF(3) * (x * x)))


def test_the_second_derivative_too_where_it_is_not_differentiated_itself():
    y, c, d = _numbers(6), _numbers(7), _numbers(8)
    a, b = _leaf(_numbers(9)), _leaf(y)
    (to_x,) = grad(a / b, a, facula.tensor(c), create_graph=True)
    (found,) = grad(to_x, b, facula.tensor(d))
    _equal(found, -(d * ((c / y) / y)))


def test_a_gradient_that_is_not_differentiated_rounds_once():
    x, y, c = (_numbers(seed).astype(np.float32) for seed in (1, 2, 3))
    a, b = _leaf(x.astype(HALF)), _leaf(y.astype(HALF))
    (found,) = grad(a / b, b, facula.tensor(c.astype(HALF)))
    once = (-(c * ((x / y) / y))).astype(HALF)
    _equal(found, once)
    x, y, c = (_numbers(seed) for seed in (1, 2, 3))
    assert (once != -(c * ((x / y) / y))).any()  # else the tests above would tell nothing


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_what_pytorch_computes_by_one_operator_rounds_once(name):
    x, c = _numbers(10, -3, 3), _numbers(11)
    a = _leaf(x)
    y = getattr(facula, name)(a)
    (found,) = grad(y, a, facula.tensor(c), create_graph=True)
    r, c = y.detach().numpy().astype(np.float32), c.astype(np.float32)
    slope = 1 - r * r if name == "tanh" else (1 - r) * r
    np.testing.assert_allclose(found.detach().numpy(), (c * slope).astype(HALF), rtol=1e-3)
    assert (found.detach().numpy() == (c * slope).astype(HALF)).mean() > 0.9


def test_nothing_overflows_where_one_operator_computes_it():
    a = facula.tensor([30.0, 80.0, -80.0], dtype=facula.float16, requires_grad=True)
    (first,) = grad(facula.nn.functional.softplus(a).sum(), a, create_graph=True)
    (second,) = grad(first.sum(), a)
    assert first.isfinite().all() and second.isfinite().all()


def test_the_steps_of_wider_floats_are_as_without():
    x, y, c = (_numbers(seed).astype(np.float32) for seed in (1, 2, 3))
    a, b = _leaf(x), _leaf(y)
    (found,) = grad(a / b, b, facula.tensor(c), create_graph=True)
    (plain,) = grad(a / b, b, facula.tensor(c))
    np.testing.assert_array_equal(found.detach().numpy(), plain.numpy())


@pytest.mark.parametrize("name", ["rsqrt", "acosh", "asinh", "atanh", "sinc"])
def test_the_steps_keep_the_derivative(name):
    """Twice by finite differences of NumPy's float64, within what 16-bit steps lose."""
    low, high = (-0.7, 0.7) if name == "atanh" else (1.5, 4.0)
    x = _numbers(12, low, high)
    a = _leaf(x)
    (first,) = grad(getattr(facula, name)(a).sum(), a, create_graph=True)
    (second,) = grad(first.sum(), a)
    wide, h = x.astype(np.float64), 1e-4
    f = {
        "rsqrt": lambda v: v**-0.5,
        "acosh": np.arccosh,
        "asinh": np.arcsinh,
        "atanh": np.arctanh,
        "sinc": np.sinc,
    }[name]
    slope = (f(wide + h) - f(wide - h)) / (2 * h)
    bend = (f(wide + h) - 2 * f(wide) + f(wide - h)) / h**2
    np.testing.assert_allclose(first.detach().numpy(), slope, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(second.numpy(), bend, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("name", ["atan2", "hypot", "div"])
def test_the_steps_of_two_operands_keep_the_derivative(name):
    x, y = _numbers(13), _numbers(14)
    a, b = _leaf(x), _leaf(y)
    firsts = grad(getattr(facula, name)(a, b).sum(), (a, b), create_graph=True)
    wide = [v.astype(np.float64) for v in (x, y)]
    f = {"atan2": np.arctan2, "hypot": np.hypot, "div": np.divide}[name]
    h = 1e-5
    slopes = [
        (f(wide[0] + h, wide[1]) - f(wide[0] - h, wide[1])) / (2 * h),
        (f(wide[0], wide[1] + h) - f(wide[0], wide[1] - h)) / (2 * h),
    ]
    for found, slope in zip(firsts, slopes, strict=True):
        np.testing.assert_allclose(found.detach().numpy(), slope, rtol=1e-2, atol=1e-2)


def test_a_quotient_of_three_keeps_the_derivative():
    t, x, y = _numbers(15), _numbers(16), _numbers(17)
    leaves = _leaf(t), _leaf(x), _leaf(y)
    _, to_x, to_y = grad(facula.addcdiv(*leaves, value=0.5).sum(), leaves, create_graph=True)
    _equal(to_x, (HALF(0.5) / y))
    _equal(to_y, -((HALF(0.5) * x) / (y * y)))


def test_products_with_a_vector_round_before_they_are_summed():
    vector, c, d = _numbers(18, shape=(8,)), _numbers(19, shape=(16,)), _numbers(20, shape=(16, 8))
    a, b = _leaf(_numbers(21, shape=(16, 8))), _leaf(vector)
    (to_matrix,) = grad(a @ b, a, facula.tensor(c), create_graph=True)
    _equal(to_matrix, c[:, None] * vector[None, :])
    (found,) = grad(to_matrix, b, facula.tensor(d))
    rounded = (d * c[:, None]).astype(np.float64).sum(0)
    np.testing.assert_allclose(found.numpy(), rounded, rtol=2**-11)
    assert (rounded.astype(HALF) != (d.astype(np.float64) * c[:, None]).sum(0).astype(HALF)).any()
