"""Second gradients of normalisations: in 16-bit floats each step rounds, and the derivatives are those of the formula.

The oracles are NumPy's float16 for the steps and finite differences of NumPy's float64 for the derivatives.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import facula
from facula.autograd import grad
from facula.nn import functional as F

HALF = np.float16
EPS = 1e-5


def _numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(HALF)


def _leaf(values: np.ndarray) -> facula.Tensor:
    return facula.tensor(values).requires_grad_()


def _total(x: np.ndarray) -> np.ndarray:
    """The sum of each row, which rounds once."""
    return x.astype(np.float64).sum(1, keepdims=True).astype(HALF)


def _steps(x: np.ndarray, g: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The second gradient of standardised rows, each step stored as float16."""
    n = HALF(x.shape[1])
    wide = x.astype(np.float64)
    mean = wide.mean(1, keepdims=True).astype(HALF)
    rstd64 = (wide.var(1, keepdims=True) + EPS) ** -0.5
    rstd = rstd64.astype(HALF)
    cube = (rstd.astype(np.float64) ** 3).astype(HALF)
    c = x - mean
    along, sums, h_along, h_sums = _total(g * c), _total(g), _total(h * c), _total(h)
    inner = h_sums * sums / n - _total(g * h)
    inner = inner + rstd * rstd * along * h_along * HALF(3 / x.shape[1])
    found = c * cube * inner / n + h_along * cube / n * (sums / n - g)
    return found + along * cube / n * (h_sums / n - h)


def test_the_steps_of_rows():
    x, g, h = (_numbers(seed, 32, 8) for seed in (1, 2, 3))
    a = _leaf(x)
    (first,) = grad(F.layer_norm(a, (8,), eps=EPS), a, facula.tensor(g), create_graph=True)
    (second,) = grad(first, a, facula.tensor(h))
    np.testing.assert_array_equal(second.numpy(), _steps(x, g, h))


def _standardised(axes: tuple[int, ...], shape: tuple[int, ...] | None = None) -> Callable:
    def norm(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        y = x if shape is None else x.reshape(shape)
        y = (y - y.mean(axes, keepdims=True)) / np.sqrt(y.var(axes, keepdims=True) + EPS)
        return y.reshape(x.shape) * w

    return norm


#: (facula's, NumPy's, shape of the weight to broadcast)
NORMS = {
    "layer": (
        lambda x, w: F.layer_norm(x, (3, 5), w.reshape(3, 5), eps=EPS),
        _standardised((2, 3)),
        (1, 1, 3, 5),
    ),
    "batch": (
        lambda x, w: F.batch_norm(x, None, None, w.reshape(-1), training=True, eps=EPS),
        _standardised((0, 2, 3)),
        (1, 4, 1, 1),
    ),
    "group": (
        lambda x, w: F.group_norm(x, 2, w.reshape(-1), eps=EPS),
        _standardised((2,), (4, 2, 30)),
        (1, 4, 1, 1),
    ),
    "instance": (
        lambda x, w: F.instance_norm(x, weight=w.reshape(-1), eps=EPS),
        _standardised((2, 3)),
        (1, 4, 1, 1),
    ),
}


def _slope(f: Callable, at: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """The gradient of a number by central differences."""
    found = np.empty_like(at)
    for i in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[i] += h
        down[i] -= h
        found[i] = (f(up) - f(down)) / (2 * h)
    return found


@pytest.mark.parametrize("name", NORMS)
def test_the_derivative_of_the_gradient(name):
    """d/d(x, w) of <gradient of x, h> + <gradient of w, k>: mixed differences along (h, k)."""
    ours, theirs, shape = NORMS[name]
    x, g, h = (_numbers(seed, 4, 4, 3, 5) for seed in (4, 5, 6))
    w, k = _numbers(7, *shape), _numbers(8, *shape)
    a, b = _leaf(x), _leaf(w)
    firsts = grad(ours(a, b), (a, b), facula.tensor(g), create_graph=True)
    found = grad(firsts, (a, b), (facula.tensor(h), facula.tensor(k)))
    wide = [v.astype(np.float64) for v in (x, w, g, h, k)]
    step = 1e-4

    def change(u: np.ndarray, v: np.ndarray) -> float:
        ahead = theirs(u + step * wide[3], v + step * wide[4])
        behind = theirs(u - step * wide[3], v - step * wide[4])
        return float(((ahead - behind) * wide[2]).sum() / (2 * step))

    expected = (
        _slope(lambda u: change(u, wide[1]), wide[0], 1e-4),
        _slope(lambda v: change(wide[0], v), wide[1], 1e-4),
    )
    for one, true in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), true, rtol=2e-2, atol=2e-2 * np.abs(true).max())


@pytest.mark.parametrize("name", NORMS)
def test_the_third_derivative_reaches_the_statistics(name):
    """A directional third derivative, by differences of facula's own second gradients in float64."""
    ours, _, shape = NORMS[name]
    x, g, h, d = (_numbers(seed, 4, 4, 3, 5) for seed in (9, 10, 11, 12))
    w = np.ones(shape, HALF)

    def second(at: facula.Tensor) -> facula.Tensor:
        like = {"dtype": at.dtype}
        weight = facula.tensor(w).to(**like)
        (first,) = grad(
            ours(at, weight), at, facula.tensor(g).to(**like).requires_grad_(), create_graph=True
        )
        return grad(first, at, facula.tensor(h).to(**like), create_graph=True)[0]

    a = _leaf(x)
    (found,) = grad((second(a) * facula.tensor(d)).sum(), a)
    wide, along = facula.tensor(x).double(), facula.tensor(d).double()
    step = 1e-5
    ends = [second((wide + s * along).requires_grad_()).detach() for s in (step, -step)]
    expected = ((ends[0] - ends[1]) / (2 * step)).numpy()
    # both are contractions of a symmetric third derivative
    np.testing.assert_allclose(
        found.numpy(), expected, rtol=0.1, atol=0.05 * np.abs(expected).max()
    )


def test_groups_of_near_values_stay_in_the_range_of_half_precision():
    """The third power of an inverse deviation leaves float16's range long before the gradients do."""
    a = _leaf(np.array([[0.5, 0.5039, -0.25, -0.2505]], HALF))
    (first,) = grad(
        F.group_norm(a, 2), a, facula.tensor([[1.0, 0.5, -0.5, 0.25]]).half(), create_graph=True
    )
    assert first.isfinite().all()
    norm, g = _standardised((2,), (1, 2, 2)), np.array([[1.0, 0.5, -0.5, 0.25]])
    wide = a.detach().numpy().astype(np.float64)
    expected = _slope(lambda u: float((norm(u, np.ones(1)) * g).sum()), wide, 1e-6)
    np.testing.assert_allclose(first.detach().numpy(), expected, rtol=2e-3)
