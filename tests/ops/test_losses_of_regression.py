"""`smooth_l1_loss` and `huber_loss`: rounded once in 16 bits, and their slopes at both ends."""

import math

import numpy as np
import pytest

import facula
from facula.nn import functional

#: distance between 1 and the next number, and the greatest relative error of one rounding
NARROW = {facula.float16: 2.0**-11, facula.bfloat16: 2.0**-8}


def smooth(d, width):
    """The first formula: a parabola of slope 1 at `width`."""
    return d * d / (2 * width) if abs(d) < width else abs(d) - width / 2


def huber(d, width):
    """The second: a parabola of slope `width` there."""
    return width * smooth(d, width)


LOSSES = {
    "smooth_l1": (functional.smooth_l1_loss, "beta", smooth, 1.0),
    "huber": (functional.huber_loss, "delta", huber, None),
}


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("width", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("name", LOSSES)
def test_narrow_floats_are_rounded_once(name, width, dtype):
    loss, word, formula, _ = LOSSES[name]
    numbers = np.random.default_rng(1)
    x, y = (facula.tensor(numbers.normal(size=500) * 3).to(dtype) for _ in range(2))
    differences = (x.double() - y.double()).tolist()
    expected = np.array([formula(d, width) for d in differences])
    result = loss(x, y, reduction="none", **{word: width})
    assert result.dtype is dtype
    errors = np.abs(result.double().numpy() - expected)
    # where numbers are subnormal, roundings are absolute
    assert (errors <= 1.001 * NARROW[dtype] * expected + 1e-7).all()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", LOSSES)
def test_slopes_far_out_and_of_nan(name, compiled):
    loss, word, _, steepest = LOSSES[name]
    width = 0.5
    steepest = width if steepest is None else steepest
    values = [math.inf, -math.inf, 3.0, -3.0, 0.25, 0.0, 0.5, -0.5]
    x = facula.tensor([*values, math.nan], requires_grad=True)

    def total(x):
        return loss(x, facula.zeros(9), reduction="sum", **{word: width})

    (facula.compile(total) if compiled else total)(x).backward()
    *found, last = x.grad.tolist()
    assert found == [steepest * s for s in (1, -1, 1, -1, 0.5, 0, 1, -1)]
    assert math.isnan(last)


@pytest.mark.parametrize("name", LOSSES)
def test_the_parabola_is_curved_at_zero(name):
    loss, word, _, steepest = LOSSES[name]
    x = facula.tensor([0.0, 0.1, 2.0], dtype=facula.float64, requires_grad=True)
    value = loss(x, facula.zeros(3), reduction="sum", **{word: 0.5})
    (slope,) = facula.autograd.grad(value, x, create_graph=True)
    (curvature,) = facula.autograd.grad(slope.sum(), x)
    inside = 1.0 if steepest is None else 2.0
    assert curvature.tolist() == [inside, inside, 0.0]


@pytest.mark.parametrize("name", LOSSES)
def test_whole_numbers_are_refused(name):
    whole = facula.tensor([1, 2])
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        LOSSES[name][0](whole, whole)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_weights_of_elements(reduction):
    """The mean of weighted squares and distances is over the weights, that of Huber's loss over the elements."""
    x, y, weight = [1.0, 2.0, 3.5, 0.25], [0.0, 2.5, 0.0, 0.0], [0.5, 2.0, 1.0, 0.25]
    away = [abs(a - b) for a, b in zip(x, y, strict=True)]
    plain = {
        "mse_loss": [d * d for d in away],
        "l1_loss": away,
        "huber_loss": [huber(d, 1.0) for d in away],
    }
    for name, values in plain.items():
        terms = [w * v for w, v in zip(weight, values, strict=True)]
        over = len(x) if name == "huber_loss" else sum(weight)
        expected = {"none": terms, "sum": sum(terms), "mean": sum(terms) / over}[reduction]
        tensors = map(facula.tensor, (x, y))
        got = getattr(functional, name)(*tensors, weight=facula.tensor(weight), reduction=reduction)
        assert got.tolist() == pytest.approx(expected)
        with pytest.raises(ValueError, match="Weights and input must have the same size"):
            getattr(functional, name)(*map(facula.tensor, (x, y)), weight=facula.tensor(0.5))
