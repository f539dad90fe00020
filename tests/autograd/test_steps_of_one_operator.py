"""Second gradients of what PyTorch computes by one operator: in 16-bit floats each step of that operator's rounds.

The oracles are NumPy's float16, and finite differences of NumPy's float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

import facula
from facula.autograd import grad
from facula.nn import functional as F

HALF = np.float16


def _numbers(seed: int, *shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape or (64,)).astype(HALF)


def _sum(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64).sum().astype(HALF)


def _once(f: Callable, *x: np.ndarray) -> np.ndarray:
    """A function that rounds once."""
    return f(*(v.astype(np.float64) for v in x)).astype(HALF)


def _twice(f: Callable, values: list[np.ndarray], seed: int = 90) -> tuple:
    """(gradient that comes first, its gradients h, their gradients) of a call; numbers come from the seed."""
    leaves = [facula.tensor(v).requires_grad_() for v in values]
    y = f(*leaves)
    g = _numbers(seed, *y.shape) if y.dim() else _numbers(seed, 1)[0]
    firsts = grad(y, leaves, facula.tensor(g), create_graph=True)
    h = [_numbers(seed + 1 + i, *v.shape) for i, v in enumerate(values)]
    seconds = grad(firsts, leaves, [facula.tensor(v) for v in h], allow_unused=True)
    return g, h, [None if s is None else s.numpy() for s in seconds]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return _once(special.expit, x)


def test_gelu():
    x = _numbers(1)
    g, (h,), (found,) = _twice(F.gelu, [x])
    square = x * x
    density = _once(np.exp, square * HALF(-0.5)).astype(np.float32) / np.float32(
        math.sqrt(2 * math.pi)
    )
    density = density.astype(HALF)
    np.testing.assert_array_equal(found, h * g * (density * HALF(2) - square * density))


def test_logsigmoid():
    x = _numbers(2)
    g, (h,), (found,) = _twice(F.logsigmoid, [x])
    np.testing.assert_array_equal(found, h * g * (_sigmoid(x) - HALF(1)) * _sigmoid(x))


def test_glu():
    x = _numbers(3, 4, 6)
    g, (h,), (found,) = _twice(F.glu, [x])
    value, gate = x[:, :3], x[:, 3:]
    first, second = h[:, :3], h[:, 3:]
    o = _sigmoid(gate)
    slope = o * (1 - o)
    np.testing.assert_array_equal(found[:, :3], second * g * slope)
    bend = slope * (1 - o) - o * slope
    np.testing.assert_array_equal(found[:, 3:], second * value * g * bend + first * g * slope)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_mse_loss(reduction):
    x, y = _numbers(4, 16), _numbers(5, 16)
    g, (h, k), (found, other) = _twice(lambda a, b: F.mse_loss(a, b, reduction=reduction), [x, y])
    n = HALF(16 if reduction == "mean" else 1)
    expected = h * g * HALF(2) / n + -(k * g * HALF(2) / n)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(other, -expected)


def test_binary_cross_entropy_with_logits():
    x, y = _numbers(6, 16), _numbers(7, 16, low=0.0, high=1.0)
    g, (h, k), (found, _) = _twice(F.binary_cross_entropy_with_logits, [x, y])
    scaled = h / HALF(16) * g
    o = _sigmoid(x)
    once = _once(lambda s, o: s * (1 - o) * o, scaled, o)
    expected = -(k / HALF(16) * g) + once
    np.testing.assert_allclose(found, expected, rtol=0, atol=2.0**-14)  # one rounding of `once`
    assert (found == expected).mean() > 0.8


def test_an_outer_product_and_its_factors():
    s, x, y = _numbers(8, 5, 3), _numbers(9, 5), _numbers(10, 3)
    g, (_, h, k), (to_sum, to_x, to_y) = _twice(
        lambda a, b, c: facula.addr(a, b, c, alpha=1.5), [s, x, y]
    )
    assert to_sum is None or not to_sum.any()
    wide = g.astype(np.float64)
    np.testing.assert_array_equal(to_x, (wide @ (k * HALF(1.5)).astype(np.float64)).astype(HALF))
    np.testing.assert_array_equal(to_y, (wide.T @ (h * HALF(1.5)).astype(np.float64)).astype(HALF))


def test_an_outer_product_is_added_before_it_is_rounded():
    s, x, y = _numbers(11, 40, 30), _numbers(12, 40), _numbers(13, 30)
    found = facula.addr(*map(facula.tensor, (s, x, y)), beta=0.3, alpha=1.7).numpy()
    wide = s.astype(np.float64) * 0.3 + np.outer(x.astype(np.float64), y) * 1.7
    np.testing.assert_allclose(found, wide, rtol=2.0**-11 * 1.01, atol=1e-6)


def test_a_power_of_two_and_its_exponent():
    x, e = _numbers(14), _numbers(15)
    g, (h, k), (found, _) = _twice(facula.ldexp, [x, e])
    ln2, power = math.log(2), _once(np.exp2, e)
    scaled = _once(lambda v: v * ln2, k) * g
    np.testing.assert_array_equal(found, scaled * power)


def test_a_distance_takes_differences_anew():
    x, y = _numbers(16, 12), _numbers(17, 12)
    g, (h, k), (found, _) = _twice(facula.dist, [x, y])
    apart = x - y
    norm = _once(lambda v: np.sqrt((v**2).sum()), apart)
    parts = []
    for second in (h * g, -k * g):
        parts.append((_sum(-second * (apart / norm / norm)), second / norm))
    along = parts[0][0] + parts[1][0]
    np.testing.assert_array_equal(found, parts[0][1] + parts[1][1] + along * (apart / norm))


def test_a_power_of_a_number_keeps_its_logarithm():
    x = _numbers(18)
    g, (h,), (found,) = _twice(lambda a: 2.5**a, [x])
    power = _once(lambda v: 2.5**v, x)
    slope = _once(lambda v: v * math.log(2.5), power)
    # grad * (power * log), of which `power` has the slope `power * log` again
    np.testing.assert_array_equal(found, _once(lambda v: v * math.log(2.5), h * g) * slope)


#: (facula's, NumPy's, low, high): the total is a number
TOTALS = {
    "gelu": (lambda a: F.gelu(a), lambda x: x * special.ndtr(x), -2, 2),
    "gelu_tanh": (
        lambda a: F.gelu(a, approximate="tanh"),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        -2,
        2,
    ),
    "logsigmoid": (lambda a: F.logsigmoid(a), special.log_expit, -3, 3),
    "glu": (lambda a: F.glu(a, 0), lambda x: x[:6] * special.expit(x[6:]), -2, 2),
    "ldexp": (lambda a: facula.ldexp(a[:6], a[6:]), lambda x: x[:6] * 2 ** x[6:], -1, 1),
    "dist": (
        lambda a: facula.dist(a[:6], a[6:], 3),
        lambda x: (np.abs(x[:6] - x[6:]) ** 3).sum() ** (1 / 3),
        -2,
        2,
    ),
    "mse": (lambda a: F.mse_loss(a[:6], a[6:]), lambda x: ((x[:6] - x[6:]) ** 2).mean(), -2, 2),
    "bce": (
        lambda a: F.binary_cross_entropy(a[:6], a[6:]),
        lambda x: -(x[6:] * np.log(x[:6]) + (1 - x[6:]) * np.log(1 - x[:6])).mean(),
        0.2,
        0.8,
    ),
    "bce_logits": (
        lambda a: F.binary_cross_entropy_with_logits(
            a[:6], a[6:], pos_weight=facula.full((6,), 2.0).half()
        ),
        lambda x: (
            -(2 * x[6:] * special.log_expit(x[:6]) + (1 - x[6:]) * special.log_expit(-x[:6])).mean()
        ),
        0.1,
        1.0,
    ),
    "normalize": (lambda a: F.normalize(a, dim=0), lambda x: x / np.sqrt((x**2).sum()), -2, 2),
    "norm_of_negative_order": (
        lambda a: facula.linalg.vector_norm(a, -1.0),
        lambda x: 1 / (1 / np.abs(x)).sum(),
        1,
        2,
    ),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", TOTALS)
def test_the_steps_keep_the_derivative(name, dtype):
    """<Hessian, h> of <f, g> by differences of float64."""
    ours, theirs, low, high = TOTALS[name]
    x = _numbers(20, 12, low=low, high=high)
    a = facula.tensor(x).to(getattr(facula, dtype)).requires_grad_()
    wide = a.detach().double().numpy()
    y = ours(a)
    g = np.linspace(0.5, 1.5, y.numel()).reshape(y.shape)
    h = np.linspace(-1, 1, 12)
    (first,) = grad(y, a, facula.tensor(g).to(a.dtype), create_graph=True)
    (second,) = grad(first, a, facula.tensor(h).to(a.dtype))

    def total(v: np.ndarray) -> float:
        return float((theirs(v) * g).sum())

    step, expected = 1e-4, np.empty(12)
    for i in range(12):
        e = np.eye(12)[i] * step
        ends = [total(wide + s * step * h + t * e) * s * t for s in (1, -1) for t in (1, -1)]
        expected[i] = sum(ends) / (4 * step * step)
    loss = 0.03 if dtype == "float16" else 0.12
    np.testing.assert_allclose(
        second.double().numpy(), expected, rtol=loss, atol=loss * np.abs(expected).max()
    )


def test_the_third_derivative_of_one_operator():
    """x -> third directional derivative of glu and gelu, by differences of facula's float64."""
    for f in (lambda a: F.glu(a, 0), F.gelu):
        x, d = _numbers(21, 12), _numbers(22, 12)

        def second(at: facula.Tensor, f: Callable = f, d: np.ndarray = d) -> facula.Tensor:
            (first,) = grad(f(at).sum(), at, create_graph=True)
            return grad((first * facula.tensor(d).to(at.dtype)).sum(), at, create_graph=True)[0]

        a = facula.tensor(x).requires_grad_()
        (found,) = grad((second(a) * facula.tensor(d)).sum(), a)
        wide, along, step = facula.tensor(x).double(), facula.tensor(d).double(), 1e-5
        ends = [second((wide + s * along).requires_grad_()).detach() for s in (step, -step)]
        expected = ((ends[0] - ends[1]) / (2 * step)).numpy()
        np.testing.assert_allclose(found.numpy(), expected, rtol=0.05, atol=0.03)
