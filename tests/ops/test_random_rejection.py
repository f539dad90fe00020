"""Poisson, binomial, gamma and Dirichlet samples: distributions, gradients, reproducibility."""

import numpy
import pytest
from scipy import special, stats

import facula

COUNT = 100_000


def full(value, dtype=facula.float64):
    return facula.full((COUNT,), float(value), dtype=dtype)


def fits(samples, law):
    """Whether whole numbers follow a law, by a chi-squared test over the values that are frequent."""
    seen = numpy.bincount(samples.astype(int))
    expected = law.pmf(numpy.arange(len(seen))) * len(samples)
    kept = expected > 10
    rest = len(samples) - seen[kept].sum(), len(samples) - expected[kept].sum()
    tail = rest if rest[1] > 1 else None
    observed = numpy.append(seen[kept], tail[0] if tail else [])
    wanted = numpy.append(expected[kept], tail[1] if tail else [])
    return stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 1e-4


@pytest.mark.parametrize("rate", [0.3, 4.0, 9.9, 10.0, 37.0, 400.0])
def test_poisson(rate):
    facula.manual_seed(1)
    assert fits(facula.poisson(full(rate)).numpy(), stats.poisson(rate))


@pytest.mark.parametrize(
    ("trials", "p"), [(5, 0.3), (20, 0.7), (100, 0.5), (1000, 0.02), (40, 0.9)]
)
def test_binomial(trials, p):
    facula.manual_seed(2)
    samples = facula.binomial(full(trials), full(p))
    assert fits(samples.numpy(), stats.binom(trials, p))


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 3.3, 1e4])
def test_gamma(shape):
    facula.manual_seed(3)
    samples = facula._standard_gamma(full(shape)).numpy()
    assert stats.kstest(samples, stats.gamma(shape).cdf).pvalue > 1e-4


def test_dirichlet():
    facula.manual_seed(4)
    alpha = facula.tensor([0.5, 1.0, 3.5])
    samples = facula._sample_dirichlet(alpha.expand(COUNT, 3)).double()
    assert facula.allclose(samples.sum(-1), facula.ones(COUNT, dtype=facula.float64), atol=1e-6)
    assert facula.allclose(samples.mean(0), alpha.double() / 5, atol=5e-3)


def test_edges():
    assert facula.poisson(facula.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    trials, p = facula.tensor([7.0, 7.0, 0.0]), facula.tensor([1.0, 0.0, 0.5])
    assert facula.binomial(trials, p).tolist() == [7.0, 0.0, 0.0]
    assert (facula._standard_gamma(facula.full((100,), 1e-4)) > 0).all()
    assert facula.binomial(facula.full((2, 1), 3.0), facula.full((3,), 0.5)).shape == (2, 3)
    assert facula.poisson(facula.ones(2, device="meta")).is_meta
    assert facula.poisson(facula.ones(2, dtype=facula.float16)).dtype is facula.float16


def test_the_same_numbers_for_any_number_of_threads():
    rates, threads, results = facula.linspace(0, 50, 20_000), facula.get_num_threads(), []
    try:
        for count in (1, 3):
            facula.set_num_threads(count)
            facula.manual_seed(5)
            results.append(facula.poisson(rates))
    finally:
        facula.set_num_threads(threads)
    assert facula.equal(*results)
    generator = facula.Generator().manual_seed(6)
    first = facula.poisson(rates, generator)
    assert not facula.equal(first, facula.poisson(rates, generator))
    assert facula.equal(first, facula.poisson(rates, facula.Generator().manual_seed(6)))


@pytest.mark.parametrize("shape", [0.01, 0.4, 1.0, 7.0, 300.0, 1e5, 4e6])
@pytest.mark.parametrize("level", [1e-3, 0.3, 0.5, 0.9, 0.999])
def test_gamma_gradient(shape, level):
    sample = special.gammaincinv(shape, level)
    if sample < 1e-300:
        sample, level = 1e-3, special.gammainc(shape, 1e-3)
    step = shape * 1e-5
    ends = special.gammaincinv(shape + step, level), special.gammaincinv(shape - step, level)
    expected = (ends[0] - ends[1]) / (2 * step)
    got = facula._standard_gamma_grad(
        facula.tensor(shape, dtype=facula.float64), facula.tensor(sample, dtype=facula.float64)
    )
    assert got.item() == pytest.approx(expected, rel=1e-4)


def test_gradients_flow_where_they_are_defined():
    alpha = facula.full((1000,), 3.0, requires_grad=True)
    facula._standard_gamma(alpha).sum().backward()
    # the mean of a gamma sample is its shape
    assert alpha.grad.mean().item() == pytest.approx(1.0, abs=0.1)
    rate = facula.ones(3, requires_grad=True)
    facula.poisson(rate).sum().backward()
    assert rate.grad.tolist() == [0.0, 0.0, 0.0]


def test_what_is_refused():
    with pytest.raises(RuntimeError, match="rate to be non-negative"):
        facula.poisson(facula.tensor([-1.0]))
    with pytest.raises(NotImplementedError, match="floating-point dtype"):
        facula.poisson(facula.tensor([1]))
    with pytest.raises(RuntimeError, match="dtype of count and prob"):
        facula.binomial(facula.ones(2), facula.ones(2, dtype=facula.float64))
    assert facula.binomial(facula.tensor([3.0]), facula.tensor([1.5])).isnan().all()
