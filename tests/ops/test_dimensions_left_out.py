"""`dim` left out, None or empty: which dimensions are reduced; results written into views."""

import numpy as np
import pytest

import facula


@pytest.mark.parametrize("name", ["all", "any"])
def test_the_truth_over_no_dimension_is_each_elements_own(name):
    x = facula.tensor([[0, 2], [3, 0]])
    got = getattr(facula, name)(x, dim=())
    assert got.tolist() == [[False, True], [True, False]]
    assert getattr(facula, name)(x, dim=(), keepdim=True).shape == (2, 2)
    assert getattr(facula, name)(x.to(facula.uint8), dim=()).dtype is facula.uint8
    assert getattr(facula, name)(x, dim=None).shape == ()
    assert getattr(facula, name)(facula.tensor(3), dim=()).item() is True


@pytest.mark.parametrize("name", ["amin", "amax"])
def test_extremes_over_all_dimensions(name):
    values = np.arange(6.0).reshape(2, 3)
    x = facula.from_numpy(values)
    for got in (getattr(x, name)(None), getattr(x, name)(dim=None), getattr(x, name)()):
        assert got.item() == getattr(values, name[1:])()
    assert getattr(x, name)(None, True).shape == (1, 1)


RANGES = {
    "linspace": (lambda out: facula.linspace(0, 3, 4, out=out), [0, 1, 2, 3]),
    "arange": (lambda out: facula.arange(4.0, out=out), [0, 1, 2, 3]),
    "range": (lambda out: facula.range(0, 3, out=out), [0, 1, 2, 3]),
    "logspace": (lambda out: facula.logspace(0, 3, 4, base=2, out=out), [1, 2, 4, 8]),
}


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.filterwarnings("ignore:.*range is deprecated")
def test_ranges_write_into_views_and_nowhere_else(name):
    write, (a, b, c, d) = RANGES[name]
    whole = facula.full((2, 4), -1.0)
    part = whole.narrow(1, 1, 2)
    assert write(part) is part and part.shape == (2, 2)
    assert whole.tolist() == [[-1, a, b, -1], [-1, c, d, -1]]


def test_beta_samples_lie_between_its_ends():
    facula.manual_seed(1)
    for dtype in (facula.float32, facula.float64):
        shape = facula.tensor(1e-2, dtype=dtype)
        drawn = facula.distributions.Beta(shape, shape).sample((20_000,))
        assert 0 < drawn.min().item() and drawn.max().item() < 1
        # nearly all of it lies at the ends, half at each
        for share in ((drawn < 0.1).double().mean(), (drawn > 0.9).double().mean()):
            assert abs(share.item() - 0.5) < 0.05


def test_python_floats_are_double():
    for made in (facula.zeros(1, dtype=float), facula.ones(1).to(float), facula.rand(1, dtype=float),
                 facula.tensor([1], dtype=float), facula.empty(1).type(float)):  # fmt: skip
        assert made.dtype is facula.float64
    assert facula.zeros(1, dtype=complex).dtype is facula.complex128


def test_bytes_seen_as_another_dtype_have_no_gradient():
    x = facula.ones(4, requires_grad=True)
    for dtype in (facula.int32, facula.float16, facula.float64, facula.float32):
        assert not x.view(dtype).requires_grad
    assert x.view(2, 2).requires_grad


def test_out_of_a_wider_dtype_holds_what_the_operands_give():
    x = facula.tensor([65504.0, 1000.0], dtype=facula.float16)
    wide = facula.empty(2, dtype=facula.float64)
    assert facula.add(x, x, out=wide).tolist() == [float("inf"), 2000.0]
