"""Gradients that PyTorch has as operators of their own: each is the slope of the function in NumPy.

Takes: points away from kinks, in float64. The oracle is a central difference of a formula in NumPy.
"""

import numpy as np
import pytest

import facula

aten = facula.ops.aten
X = np.array([[-2.3, -0.7, -0.2, 0.1], [0.4, 0.9, 1.7, 3.1]])
GRAD = np.array([[0.5, -1.5, 2.0, 1.0], [-0.25, 3.0, 0.75, -2.0]])


def elu(x, alpha=1.3, scale=0.7, input_scale=1.9):
    return np.where(x <= 0, alpha * scale * (np.exp(x * input_scale) - 1), scale * x)


def glu(x):
    value, gate = np.split(x, 2, -1)
    return value / (1 + np.exp(-gate))


def softplus(x):
    return np.where(x * 2 > 3, x, np.log1p(np.exp(2 * x)) / 2)


CASES = {
    "elu": (elu, lambda g, x: aten.elu_backward(g, 1.3, 0.7, 1.9, False, x)),
    "elu, from its result": (
        lambda x: elu(x, input_scale=1.0),
        lambda g, x: aten.elu_backward(
            g, 1.3, 0.7, 1.0, True, facula.from_numpy(elu(x.numpy(), input_scale=1.0))
        ),
    ),
    "hardshrink": (
        lambda x: np.where(np.abs(x) > 0.5, x, 0),
        lambda g, x: aten.hardshrink_backward(g, x, 0.5),
    ),
    "softshrink": (
        lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
        lambda g, x: aten.softshrink_backward(g, x, 0.5),
    ),
    "log_sigmoid": (
        lambda x: -np.log1p(np.exp(-x)),
        lambda g, x: aten.log_sigmoid_backward(g, x, facula.empty(0, dtype=x.dtype)),
    ),
    "leaky_relu": (
        lambda x: np.where(x > 0, x, 0.2 * x),
        lambda g, x: aten.leaky_relu_backward(g, x, 0.2, False),
    ),
    "softplus": (softplus, lambda g, x: aten.softplus_backward(g, x, 2, 3)),
    "hardtanh": (
        lambda x: np.clip(x, -0.5, 1.0),
        lambda g, x: aten.hardtanh_backward(g, x, -0.5, 1.0),
    ),
    "threshold": (
        lambda x: np.where(x > 0.3, x, 7.0),
        lambda g, x: aten.threshold_backward(g, x, 0.3),
    ),
    "silu": (lambda x: x / (1 + np.exp(-x)), lambda g, x: aten.silu_backward(g, x)),
    "mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), lambda g, x: aten.mish_backward(g, x)),
    "hardswish": (
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        lambda g, x: aten.hardswish_backward(g, x),
    ),
    "hardsigmoid": (
        lambda x: np.clip(x + 3, 0, 6) / 6,
        lambda g, x: aten.hardsigmoid_backward(g, x),
    ),
    "sigmoid": (
        lambda x: 1 / (1 + np.exp(-x)),
        lambda g, x: aten.sigmoid_backward(g, facula.from_numpy(1 / (1 + np.exp(-x.numpy())))),
    ),
    "tanh": (np.tanh, lambda g, x: aten.tanh_backward(g, facula.from_numpy(np.tanh(x.numpy())))),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_slopes(name):
    function, ours = CASES[name]
    step = 1e-6
    slope = (function(X + step) - function(X - step)) / (2 * step)
    given = ours(facula.from_numpy(GRAD), facula.from_numpy(X))
    np.testing.assert_allclose(given.numpy(), GRAD * slope, rtol=1e-6, atol=1e-8)


def test_the_gradient_of_glu():
    grad, step, wanted = GRAD[:, :2], 1e-6, np.zeros_like(X)
    for place in np.ndindex(*X.shape):
        moved = np.zeros_like(X)
        moved[place] = step
        wanted[place] = (grad * (glu(X + moved) - glu(X - moved))).sum() / (2 * step)
    given = aten.glu_backward(facula.from_numpy(grad), facula.from_numpy(X), 1)
    np.testing.assert_allclose(given.numpy(), wanted, rtol=1e-6, atol=1e-8)
