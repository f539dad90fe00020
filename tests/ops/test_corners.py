"""Values and gradients where the pieces of a function meet: the piece that counts is the documented one.

Takes: a table of functions, of their arguments and of what the definitions in the documentation give
there, worked out by hand.
Keeps true: samples that are drawn at random never hit such points, so finite differences and oracles
of other tests say nothing about `<` or `<=`.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

import facula
from facula import special
from facula.nn import functional as F

INF, NAN = math.inf, math.nan
SELU = 1.0507009873554805 * 1.6732632423543772

#: name, function, arguments, its value, the gradient of each argument
OF_ONE = [
    ("relu", F.relu, 0.0, 0.0, 0.0),
    ("relu6 low", F.relu6, 0.0, 0.0, 0.0),
    ("relu6 high", F.relu6, 6.0, 6.0, 0.0),
    ("elu", lambda x: F.elu(x, 2.0), 0.0, 0.0, 2.0),
    ("selu", F.selu, 0.0, 0.0, SELU),
    ("celu", lambda x: F.celu(x, 2.0), 0.0, 0.0, 1.0),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.3), 0.0, 0.0, 0.3),
    ("hardtanh low", lambda x: F.hardtanh(x, -0.5, 2.0), -0.5, -0.5, 0.0),
    ("hardtanh high", lambda x: F.hardtanh(x, -0.5, 2.0), 2.0, 2.0, 0.0),
    ("hardsigmoid low", F.hardsigmoid, -3.0, 0.0, 0.0),
    ("hardsigmoid high", F.hardsigmoid, 3.0, 1.0, 0.0),
    ("hardswish low", F.hardswish, -3.0, 0.0, 0.0),
    ("hardswish high", F.hardswish, 3.0, 3.0, 1.0),
    ("hardshrink low", lambda x: F.hardshrink(x, 0.5), -0.5, 0.0, 0.0),
    ("hardshrink high", lambda x: F.hardshrink(x, 0.5), 0.5, 0.0, 0.0),
    ("softshrink low", lambda x: F.softshrink(x, 0.5), -0.5, 0.0, 0.0),
    ("softshrink high", lambda x: F.softshrink(x, 0.5), 0.5, 0.0, 0.0),
    ("threshold", lambda x: F.threshold(x, 1.0, 7.0), 1.0, 7.0, 0.0),
    (
        "softplus",
        lambda x: F.softplus(x, 2.0, 2.0),
        1.0,
        math.log1p(math.e**2) / 2,
        1 / (1 + math.e**-2),
    ),
    ("clamp low", lambda x: x.clamp(0.0, 1.0), 0.0, 0.0, 1.0),
    ("clamp high", lambda x: x.clamp(0.0, 1.0), 1.0, 1.0, 1.0),
    ("clamp min", lambda x: x.clamp(min=1.0), 1.0, 1.0, 1.0),
    ("clamp max", lambda x: x.clamp(max=1.0), 1.0, 1.0, 1.0),
    ("clamp crossed", lambda x: x.clamp(2.0, 1.0), 1.5, 1.0, 0.0),
    ("abs", facula.abs, 0.0, 0.0, 0.0),
    ("sqrt", facula.sqrt, 0.0, 0.0, INF),
    ("sinc", facula.sinc, 0.0, 1.0, 0.0),
    ("logit low", lambda x: facula.logit(x, 0.25), 0.25, -math.log(3), 16 / 3),
    ("logit high", lambda x: facula.logit(x, 0.25), 0.75, math.log(3), 16 / 3),
    ("logit below", lambda x: facula.logit(x, 0.25), 0.125, -math.log(3), 0.0),
    ("logit of 0", facula.logit, 0.0, -INF, INF),
    ("logit of 1", facula.logit, 1.0, INF, INF),
    ("logit outside", facula.logit, 1.5, NAN, NAN),
    ("entr", special.entr, 0.0, 0.0, INF),
    ("nan_to_num", lambda x: facula.nan_to_num(x, 3.0), NAN, 3.0, 0.0),
    ("nan_to_num inf", lambda x: facula.nan_to_num(x, posinf=4.0), INF, 4.0, 0.0),
    ("logsigmoid", F.logsigmoid, 0.0, -math.log(2), 0.5),
    ("base 0 squared", lambda x: x**2, 0.0, 0.0, 0.0),
    ("base 0 to the power of 0", lambda x: x**0, 0.0, 1.0, 0.0),
    ("base 0 to the power of 1", lambda x: x**1.0, 0.0, 0.0, 1.0),
]
OF_TWO = [
    ("xlogy at 0, 0", facula.xlogy, (0.0, 0.0), 0.0, (0.0, NAN)),
    ("xlogy at 0, -1", facula.xlogy, (0.0, -1.0), 0.0, (0.0, 0.0)),
    ("xlogy at 0, 2", facula.xlogy, (0.0, 2.0), 0.0, (math.log(2), 0.0)),
    ("xlogy at 0, 1/2", facula.xlogy, (0.0, 0.5), 0.0, (-math.log(2), 0.0)),
    ("xlogy at 2, 0", facula.xlogy, (2.0, 0.0), -INF, (-INF, INF)),
    ("xlog1py at 0, -1", special.xlog1py, (0.0, -1.0), 0.0, (0.0, NAN)),
    ("xlog1py at 0, -2", special.xlog1py, (0.0, -2.0), 0.0, (0.0, 0.0)),
    ("xlog1py at 0, 1", special.xlog1py, (0.0, 1.0), 0.0, (math.log(2), 0.0)),
    ("xlog1py at 0, -1/2", special.xlog1py, (0.0, -0.5), 0.0, (-math.log(2), 0.0)),
    ("xlog1py at 2, -1", special.xlog1py, (2.0, -1.0), -INF, (-INF, INF)),
    ("logaddexp", facula.logaddexp, (1.0, 1.0), 1 + math.log(2), (0.5, 0.5)),
    ("logaddexp of inf", facula.logaddexp, (INF, INF), INF, (0.5, 0.5)),
    ("logaddexp of -inf", facula.logaddexp, (-INF, -INF), -INF, (0.5, 0.5)),
    ("logaddexp2", facula.logaddexp2, (1.0, 1.0), 2.0, (0.5, 0.5)),
    ("logaddexp2 of inf", facula.logaddexp2, (INF, INF), INF, (0.5, 0.5)),
    ("maximum", facula.maximum, (1.0, 1.0), 1.0, (0.5, 0.5)),
    ("minimum", facula.minimum, (1.0, 1.0), 1.0, (0.5, 0.5)),
    ("fmax", facula.fmax, (1.0, 1.0), 1.0, (1.0, 0.0)),
    ("fmin", facula.fmin, (1.0, 1.0), 1.0, (1.0, 0.0)),
    ("fmax with nan", facula.fmax, (NAN, 1.0), 1.0, (0.0, 1.0)),
    ("fmin with nan", facula.fmin, (1.0, NAN), 1.0, (1.0, 0.0)),
    ("pow at 0, 0", facula.pow, (0.0, 0.0), 1.0, (0.0, 0.0)),
    ("pow at 0, 2", facula.pow, (0.0, 2.0), 0.0, (0.0, 0.0)),
    ("pow at 0, -1", facula.pow, (0.0, -1.0), INF, (-INF, -INF)),
    ("atan2", facula.atan2, (0.0, 0.0), 0.0, (0.0, 0.0)),
    ("atan2 of -0", facula.atan2, (0.0, -0.0), math.pi, (0.0, 0.0)),
    ("prelu", lambda x, w: F.prelu(x, w[-1:]), (0.0, 0.3), 0.0, (0.3, 0.0)),
    ("dist", facula.dist, (1.0, 1.0), 0.0, (0.0, 0.0)),
    ("l1_loss", F.l1_loss, (1.0, 1.0), 0.0, (0.0, 0.0)),
    (
        "smooth_l1_loss",
        lambda x, y: F.smooth_l1_loss(x, y, beta=0.5),
        (1.5, 1.0),
        0.25,
        (1.0, -1.0),
    ),
    (
        "smooth_l1_loss near",
        lambda x, y: F.smooth_l1_loss(x, y, beta=2.0),
        (1.5, 1.0),
        0.0625,
        (0.25, -0.25),
    ),
    ("huber_loss", lambda x, y: F.huber_loss(x, y, delta=0.5), (1.5, 1.0), 0.125, (0.5, -0.5)),
    (
        "huber_loss far",
        lambda x, y: F.huber_loss(x, y, delta=0.25),
        (1.5, 1.0),
        0.09375,
        (0.25, -0.25),
    ),
]


def compare(got, wanted):
    if math.isfinite(wanted):
        assert got == pytest.approx(wanted, rel=1e-6, abs=1e-7)
    else:
        assert math.isnan(got) if math.isnan(wanted) else got == wanted


def check(function, arguments, value, gradients, dtype):
    """One value, and one row with 37 others: kernels take single elements and vectors apart."""
    for count in (1, 37):
        leaves = [facula.full((count,), a, dtype=dtype, requires_grad=True) for a in arguments]
        result = function(*leaves)
        if result.dim():
            compare(float(result.detach()[-1]), value)
        elif count > 1:
            continue
        result.sum().backward()
        for leaf, wanted in zip(leaves, gradients, strict=True):
            compare(float(leaf.grad[-1]), wanted)


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64])
@pytest.mark.parametrize("case", OF_ONE, ids=lambda case: case[0])
def test_functions_of_one(case, dtype):
    _, function, argument, value, gradient = case
    check(function, (argument,), value, (gradient,), dtype)


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64])
@pytest.mark.parametrize("case", OF_TWO, ids=lambda case: case[0])
def test_functions_of_two(case, dtype):
    _, function, arguments, value, gradients = case
    check(function, arguments, value, gradients, dtype)


SIGNS = {
    "full": lambda x, zero: facula.full((3,), zero),
    "full_like": facula.full_like,
    "new_full": lambda x, zero: x.new_full((3,), zero),
    "scalar_tensor": lambda x, zero: facula.scalar_tensor(zero),
    "tensor": lambda x, zero: facula.tensor([zero]),
    "fill_": lambda x, zero: x.clone().fill_(zero),
    "where": lambda x, zero: facula.where(x > 0, zero, 1.0),
    "masked_fill": lambda x, zero: x.masked_fill(x > 0, zero),
    "mul": lambda x, zero: x * zero,
    "add": lambda x, zero: (x - x) * -1 + zero,
    "copysign": facula.copysign,
    "clamp": lambda x, zero: x.clamp(max=zero),
    "threshold": lambda x, zero: F.threshold(x, 5.0, zero),
    "real": lambda x, zero: facula.full((3,), complex(zero, 1.0)).real,
    "imag": lambda x, zero: facula.full((3,), complex(1.0, zero)).imag,
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", SIGNS)
def test_a_zero_keeps_its_sign(name, compiled):
    for zero in (0.0, -0.0, 0.0):

        def function(x, zero=zero):
            return SIGNS[name](x, zero)

        call = facula.compile(function) if compiled else function
        assert set(call(facula.ones(3)).signbit().flatten().tolist()) == {
            math.copysign(1, zero) < 0
        }


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floored_quotients_are_exact(dtype):
    """Against fractions: quotients just below, at and above whole numbers, of all signs."""
    random = np.random.default_rng(7)
    y = random.uniform(0.01, 2, 4000).astype(dtype)
    whole = random.integers(0, 1 << (20 if dtype == "float32" else 40), 4000)
    x = (whole * y.astype("float64")).astype(dtype)
    x[::3] = np.nextafter(x[::3], np.array(0, dtype))
    x, y = (
        x * random.choice([-1, 1], 4000).astype(dtype),
        y * random.choice([-1, 1], 4000).astype(dtype),
    )
    expected = [float(Fraction(float(a)) // Fraction(float(b))) for a, b in zip(x, y, strict=True)]
    assert min(expected) < -100 < 100 < max(expected)
    for count in (4000, 3):  # vectors, and single elements
        found = facula.floor_divide(facula.tensor(x[:count]), facula.tensor(y[:count]))
        np.testing.assert_array_equal(found.numpy(), expected[:count])


def test_slopes_far_out_and_at_nan():
    x = facula.tensor([20.0, 90.0, 1e18, float("inf"), -1e10], requires_grad=True)
    F.mish(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0, 1.0, 0.0]
    for shrink in (F.hardshrink, F.softshrink):
        x = facula.tensor([float("nan"), 0.5, -0.5, 0.75], requires_grad=True)
        shrink(x).sum().backward()
        assert x.grad.tolist() == [1.0, 0.0, 0.0, 1.0]


def test_moved_dimensions_of_a_tensor_without_any() -> None:
    x = facula.tensor(3.0)
    for source, destination in ((0, -1), (-1, 0), ((), ())):
        moved = facula.movedim(x, source, destination)
        assert moved.shape == () and moved.data_ptr() == x.data_ptr()
