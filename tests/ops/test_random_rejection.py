"""Poisson, binomial, gamma and Dirichlet samples: distributions, gradients, reproducibility."""

import json
from pathlib import Path

import numpy
import pytest
from scipy import special, stats

import facula

COUNT = 100_000
RATES = json.loads((Path(__file__).parent.parent / "oracles" / "rate_vectors.json").read_text())


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


def rates(name):
    """The stored columns, as tensors; wanted values last, as an array."""
    columns = numpy.array([[float.fromhex(x) for x in row] for row in RATES[name]]).T
    return [facula.tensor(c, dtype=facula.float64) for c in columns[:-1]], columns[-1]


def test_gamma_gradient_to_many_digits():
    (x, a), wanted = rates("gamma")
    numpy.testing.assert_allclose(facula._standard_gamma_grad(a, x).numpy(), wanted, rtol=1e-9)


def test_beta_gradient_to_many_digits():
    (x, a, b), wanted = rates("beta")
    got = facula._dirichlet_grad(x, a, a + b) * (1 - x)
    numpy.testing.assert_allclose(got.numpy(), wanted, rtol=3e-8)


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64])
@pytest.mark.parametrize("second", [1e-3, 0.1, 1.0, 300.0, 1e4])
@pytest.mark.parametrize("first", [1e-3, 0.02, 0.1, 1.0, 1e4])
def test_beta_samples_move_with_their_shapes(first, second, dtype):
    """Each sample's derivative is that of its law, and on average that of the mean."""
    facula.manual_seed(8)
    a = full(first, dtype)[:20_000].requires_grad_()
    b = full(second, dtype)[:20_000].requires_grad_()
    samples = facula.distributions.Beta(a, b).rsample()
    samples.sum().backward()
    x, total = samples.detach().double(), first + second
    law = stats.beta(first, second)
    deviation = law.std() / len(x) ** 0.5
    assert x.mean().item() == pytest.approx(law.mean(), abs=5 * deviation + 1e-6)
    alone = facula._dirichlet_grad(x, a.detach().double(), (a + b).detach().double()) * (1 - x)
    numpy.testing.assert_allclose(
        a.grad.double().numpy(),
        alone.numpy(),
        rtol=1e-5 if dtype is facula.float32 else 1e-6,
        atol=1e-37,
    )
    for grad, wanted in ((a.grad, second / total**2), (b.grad, -first / total**2)):
        spread = grad.double().std().item() / len(x) ** 0.5
        assert grad.double().mean().item() == pytest.approx(wanted, abs=5 * spread, rel=2e-3)


def test_small_concentrations_do_not_underflow():
    """Of two gamma samples of shape 0.001 a third are below the least double; their quotient is not 1/2."""
    facula.manual_seed(9)
    x = facula.distributions.Beta(full(1e-3), full(1e-3)).sample()
    inside = ((x > 0.01) & (x < 0.99)).double().mean().item()
    law = stats.beta(1e-3, 1e-3)
    assert inside == pytest.approx(law.cdf(0.99) - law.cdf(0.01), abs=2e-3)
    point = facula._sample_dirichlet(facula.full((1000, 5), 1e-4, dtype=facula.float64))
    assert ((point.sum(-1) - 1).abs() < 1e-9).all() and ((point > 0.999).sum(-1) == 1).sum() > 990


def test_a_dirichlet_point_moves_inside_of_its_simplex():
    alpha = facula.tensor([[0.02, 0.5, 3.0, 40.0]] * 500, dtype=facula.float64, requires_grad=True)
    facula.manual_seed(10)
    point = facula._sample_dirichlet(alpha)
    point.sum().backward()
    assert alpha.grad.abs().max() < 1e-12  # the sum stays 1
    (grad,) = facula.autograd.grad(
        facula.distributions.Dirichlet(alpha).rsample((40,))[..., 2].sum(), alpha
    )
    total = alpha[0].sum().item()
    wanted = [-3.0 / total**2] * 4
    wanted[2] += 1 / total
    numpy.testing.assert_allclose((grad.sum(0) / 20_000).numpy(), wanted, rtol=0.1)


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
