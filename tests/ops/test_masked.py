"""Reductions under a mask are those of the elements that it selects."""

import numpy as np
import pytest

import facula
from facula import masked


@pytest.fixture
def case():
    facula.manual_seed(2)
    x = facula.randn(4, 6, dtype=facula.float64)
    mask = facula.rand(4, 6) < 0.6
    mask[:, 0] = True
    return x, mask


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean", "std", "var", "median"])
def test_reductions(case, name):
    x, mask = case
    plain = {"std": lambda r: np.std(r, ddof=1), "var": lambda r: np.var(r, ddof=1)}
    plain |= {"median": lambda r: np.sort(r)[(len(r) - 1) // 2]}
    function = plain.get(name) or getattr(np, {"amax": "max", "amin": "min"}.get(name, name))
    found = getattr(masked, name)(x, 1, mask=mask)
    for row, chosen, value in zip(x.numpy(), mask.numpy(), found.numpy(), strict=True):
        if chosen.sum() > 1:
            assert np.isclose(value, function(row[chosen]))


def test_along_a_dimension(case):
    x, mask = case
    assert facula.allclose(masked.softmax(x, 1, mask=mask).sum(1), facula.ones(4).double())
    assert not masked.softmax(x, 1, mask=mask)[~mask].any()
    assert facula.allclose(masked.logsumexp(x, (1,), mask=mask), (x.exp() * mask).sum(1).log())
    assert facula.allclose(masked.cumsum(x, 1, mask=mask), (x * mask).cumsum(1))
    assert facula.allclose(masked.norm(x, 2.0, 1, mask=mask), (x * mask).norm(dim=1))
    assert mask.gather(1, masked.argmax(x, 1, keepdim=True, mask=mask).long()).all()


def test_whole_numbers_and_errors():
    x = facula.tensor([[3, 1], [2, 7]])
    mask = facula.tensor([True, False])
    assert masked.sum(x, mask=mask).item() == 5 and masked.amin(x, mask=mask).item() == 2
    with pytest.raises(IndexError, match="no more dimensions"):
        masked.sum(x, mask=mask.expand(2, 2, 2))


@pytest.mark.parametrize("dtype", [facula.uint8, facula.int64, facula.float32, facula.complex64])
def test_every_number_but_zero_counts_as_a_mask(dtype):
    x = facula.tensor([[1.0, 2, 3], [4, 5, 6]])
    mask = facula.tensor([[2, 0, 1], [0, 3, 4]]).to(dtype)
    kept = np.ma.masked_array(x.numpy(), [[False, True, False], [True, False, False]])
    np.testing.assert_array_equal(masked.sum(x, 0, mask=mask).numpy(), kept.sum(0))
    np.testing.assert_array_equal(masked.mean(x, 0, mask=mask).numpy(), kept.mean(0))
    np.testing.assert_array_equal(masked.amax(x, 1, mask=mask).numpy(), kept.max(1))
    np.testing.assert_array_equal(masked.argmin(x, 1, mask=mask).numpy(), kept.argmin(1))
    powers = np.exp(x.numpy()) * ~kept.mask
    np.testing.assert_allclose(
        masked.softmax(x, 1, mask=mask).numpy(), powers / powers.sum(1, keepdims=True), rtol=1e-6
    )
    np.testing.assert_array_equal(masked.cumsum(x, 1, mask=mask).numpy(), kept.filled(0).cumsum(1))


@pytest.mark.parametrize("dtype", [facula.int32, facula.int16, facula.uint8, facula.bool])
def test_running_sums_keep_the_dtype(dtype):
    x = facula.tensor([1, 1, 0, 1], dtype=dtype)
    mask = facula.tensor([True, False, True, True])
    assert facula.masked.cumsum(x, 0, mask=mask).dtype is dtype
    products = facula.masked.cumprod(x, 0, mask=mask)
    assert products.dtype is dtype
    assert products.tolist() == [1, 1, 0, 0]


def test_real_spread_of_complex_numbers():
    x = facula.tensor([1 + 2j, 3 - 1j, 0.5j], dtype=facula.complex128)
    mask = facula.tensor([True, True, True])
    kept = {"unbiased": False, "mask": mask, "dtype": facula.float64}
    expected = np.var(x.numpy())
    assert facula.masked.var(x, 0, **kept).item() == pytest.approx(expected)
    assert facula.masked.std(x, 0, **kept).item() == pytest.approx(expected**0.5)


@pytest.mark.parametrize(
    "dim, error",
    [(2, IndexError), (-3, IndexError), ((0, 0), RuntimeError), ((0, -2), RuntimeError)],
)
def test_products_along_dimensions_that_are_not_there(dim, error):
    with pytest.raises(error, match="Dimension out of range|multiple times"):
        facula.masked.prod(facula.ones(2, 3), dim=dim)
