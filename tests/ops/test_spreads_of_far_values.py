"""Variances and deviations whose squares leave the range of float32, against plain Python in float64."""

import math
import statistics

import numpy as np
import pytest

import facula

ROWS = [[1.0, -1.0, 1.0, -1.5], [1.0, 2.0, 3.0, 4.0]]
SIZES = (1.0, 1e-15, 1e-20, 1e-25, 1e-30, 1e-36, 1e18, 1e20, 1e30, 1e37)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [facula.float32, facula.bfloat16])
def test_deviations_do_not_depend_on_the_size(dtype, compiled):
    deviation = (
        facula.compile(lambda x: x.std(1), dynamic=False) if compiled else lambda x: x.std(1)
    )
    for size in SIZES:
        x = (facula.tensor(ROWS, dtype=facula.float64) * size).to(dtype)
        # statistics divides and takes roots of fractions: nothing leaves a range
        wanted = [statistics.stdev(row) for row in x.double().tolist()]
        exact = 1e-5 if dtype is facula.float32 else 1e-2
        assert deviation(x).tolist() == pytest.approx(wanted, rel=exact, abs=0)
        assert x.t().std(0).tolist() == pytest.approx(wanted, rel=exact, abs=0)
        pair, mean = facula.std_mean(x, 1)
        assert pair.tolist() == pytest.approx(wanted, rel=exact, abs=0)
        means = [statistics.fmean(row) for row in x.double().tolist()]
        assert mean.tolist() == pytest.approx(means, rel=exact, abs=0.01 * size)


def test_variances_that_have_a_value_are_it():
    for size in (1e-16, 1e-18, 3e-20, 1e18, 5e18, 1e19):
        x = facula.tensor(ROWS) * size
        wanted = [statistics.variance(row) for row in x.double().tolist()]
        assert x.var(1).double().tolist() == pytest.approx(wanted, rel=1e-5, abs=1.5e-45)
        assert facula.var_mean(x, 1)[0].double().tolist() == pytest.approx(
            wanted, rel=1e-5, abs=1.5e-45
        )
    assert (facula.tensor(ROWS) * 1e20).var(1).tolist() == [math.inf] * 2


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.bfloat16])
def test_equal_elements_have_no_spread_and_nearly_equal_ones_a_small_one(dtype):
    """Rounding the mean leaves less than nothing to subtract from: NaN as a root, before."""
    for value in (0.1, 1 / 3, 1e-3, -7.7, 3e-14, 3e-18, 3e-20, 1e-30):
        for count in (2, 3, 7, 64, 100, 1000):
            x = facula.full((count,), value, dtype=dtype)
            step = x.abs()[0].item() * facula.finfo(dtype).eps
            assert x.var().item() >= 0 and 0 <= x.std().item() <= step
            x[0] *= 1 + facula.finfo(dtype).eps
            assert 0 <= x.std().item() <= 2 * step


@pytest.mark.parametrize("size", [1e-30, 1e-25, 1e-20, 1e20, 1e30])
def test_gradients_of_deviations_do_not_depend_on_the_size(size):
    near = facula.tensor(ROWS[0], requires_grad=True)
    near.std().backward()
    x = (near.detach() * size).requires_grad_()
    x.std().backward()
    assert x.grad.tolist() == pytest.approx(near.grad.tolist(), rel=1e-5)


def test_nothing_and_too_few_elements_are_as_before():
    assert math.isnan(facula.tensor([1e30]).std().item())
    assert facula.tensor([1e30, 2e30]).std(correction=2).item() == math.inf
    assert facula.empty(0, 3).std(1).shape == (0,)
    assert math.isnan(facula.tensor([1.0, math.nan]).std().item())
    assert math.isnan(facula.tensor([1.0, math.inf]).std().item())


def test_a_kept_call_sees_new_values():
    for size in (1.0, 1.0, 1.0, 1e30, 1.0, 1e-30, 1.0):
        x = facula.tensor([1.0, -1.0]) * size
        assert x.std(correction=0).item() == pytest.approx(size, rel=1e-6)


@pytest.mark.parametrize("dtype", [facula.float64, facula.complex128])
@pytest.mark.parametrize("name", ["std", "std_mean"])
def test_equal_numbers_have_deviations_without_a_gradient(name, dtype):
    x = facula.tensor([[2, 2, 2], [1, 2, 4]], dtype=dtype, requires_grad=True)
    found = getattr(facula, name)(x, 1)
    deviation = found if name == "std" else found[0]
    assert np.allclose(deviation.detach().numpy(), [0, np.std([1, 2, 4], ddof=1)])
    deviation.sum().backward()
    rest = (np.array([1, 2, 4]) - 7 / 3) / (2 * np.std([1, 2, 4], ddof=1))
    assert np.allclose(x.grad.numpy(), [[0, 0, 0], rest])
