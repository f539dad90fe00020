"""Distributions of vectors and matrices: SciPy's densities, moments of samples, transforms and divergences."""

import math

import numpy
import pytest
from scipy import stats

import facula
from facula import distributions as D

F64 = facula.float64
MEAN = facula.tensor([0.3, -0.1, 0.7], dtype=F64)
COVARIANCE = facula.tensor([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]], dtype=F64)
FACTOR = facula.tensor([[0.4], [0.2], [0.9]], dtype=F64)
DIAGONAL = facula.tensor([0.3, 0.4, 1.0], dtype=F64)


@pytest.fixture(autouse=True)
def seeded():
    facula.manual_seed(13)


def normals():
    covariance = FACTOR @ FACTOR.mT + facula.diag(DIAGONAL)
    return [
        (D.MultivariateNormal(MEAN, COVARIANCE), COVARIANCE),
        (D.MultivariateNormal(MEAN, precision_matrix=facula.linalg.inv(COVARIANCE)), COVARIANCE),
        (D.MultivariateNormal(MEAN, scale_tril=facula.linalg.cholesky(COVARIANCE)), COVARIANCE),
        (D.LowRankMultivariateNormal(MEAN, FACTOR, DIAGONAL), covariance),
    ]


@pytest.mark.parametrize("case", range(4))
def test_normal_vectors(case):
    law, covariance = normals()[case]
    oracle = stats.multivariate_normal(MEAN.numpy(), covariance.numpy())
    samples = law.sample((40_000,))
    assert facula.allclose(samples.mean(0), MEAN, atol=0.03)
    assert facula.allclose(facula.cov(samples.mT), covariance, atol=0.05)
    values = samples[:20].reshape(4, 5, 3)
    assert numpy.allclose(law.log_prob(values).numpy(), oracle.logpdf(values.numpy()))
    assert math.isclose(law.entropy().item(), oracle.entropy(), rel_tol=1e-9)
    assert facula.allclose(law.covariance_matrix, covariance)
    assert facula.allclose(law.precision_matrix @ covariance, facula.eye(3, dtype=F64))
    assert facula.allclose(law.scale_tril @ law.scale_tril.mT, covariance)
    wide = law.expand((2, 4))
    assert wide.sample((5,)).shape == (5, 2, 4, 3) and wide.log_prob(MEAN).shape == (2, 4)


def test_divergences_of_normal_vectors():
    laws = [law for law, _ in normals()]
    other = D.MultivariateNormal(facula.zeros(3, dtype=F64), facula.eye(3, dtype=F64) * 1.5)
    low = D.LowRankMultivariateNormal(facula.zeros(3, dtype=F64), 2 * FACTOR, DIAGONAL)
    for p in laws:
        for q in (other, low):
            samples = p.sample((100_000,))
            estimate = (p.log_prob(samples) - q.log_prob(samples)).mean()
            assert abs(D.kl_divergence(p, q) - estimate) < 0.05
        assert abs(D.kl_divergence(p, p).item()) < 1e-9


def test_wishart():
    law = D.Wishart(facula.tensor(5.0, dtype=F64), COVARIANCE)
    oracle = stats.wishart(5, COVARIANCE.numpy())
    samples = law.rsample((20_000,))
    assert facula.allclose(samples.mean(0), law.mean, atol=0.3)
    assert facula.allclose(samples.var(0), law.variance, rtol=0.15, atol=0.3)
    wanted = oracle.logpdf(numpy.moveaxis(samples[:6].numpy(), 0, -1))
    assert numpy.allclose(law.log_prob(samples[:6]).numpy(), wanted)
    assert math.isclose(law.entropy().item(), oracle.entropy(), rel_tol=1e-9)
    assert numpy.allclose(law.mode.numpy(), oracle.mode())
    assert law.expand((2,)).sample().shape == (2, 3, 3)


def test_correlations():
    """The correlations of the uniform law of n variables are symmetric beta variables of n / 2."""
    for n in (2, 3, 5):
        factors = D.LKJCholesky(n, facula.tensor(1.0, dtype=F64)).sample((5_000,))
        assert D.constraints.corr_cholesky.check(factors).all()
        correlation = (factors @ factors.mT)[:, -1, 0]
        beta = stats.beta(n / 2, n / 2, -1, 2)
        assert stats.kstest(correlation.numpy(), beta.cdf).pvalue > 1e-4
    whole = D.LKJCholesky(2, facula.tensor(1.5, dtype=F64))
    r = facula.linspace(-0.9999, 0.9999, 4001, dtype=F64)
    diagonal = (1 - r * r).sqrt()
    rows = facula.stack(
        [facula.stack([facula.ones_like(r), 0 * r], -1), facula.stack([r, diagonal], -1)], -2
    )
    assert abs(facula.trapezoid(whole.log_prob(rows).exp(), r).item() - 1) < 0.01


@pytest.mark.parametrize(
    ("name", "shape", "domain"),
    [("CorrCholeskyTransform", (2, 6), 6), ("PositiveDefiniteTransform", (2, 3, 3), None)],
)
def test_transforms(name, shape, domain):
    transform = getattr(D.transforms, name)()
    x = facula.randn(*shape, dtype=F64)
    if domain is None:
        x = x.tril()
    y = transform(x)
    assert transform.codomain.check(y).all() and facula.allclose(transform.inv(y), x)
    assert transform.forward_shape(x.shape) == y.shape
    if domain is not None:  # the volume change, by the derivative of the free elements
        free = lambda v: D.utils.tril_matrix_to_vec(transform(v), -1)  # noqa: E731
        jacobian = facula.func.jacrev(free)(x[0])
        change = transform.log_abs_det_jacobian(x, y)[0]
        assert facula.allclose(facula.linalg.slogdet(jacobian).logabsdet, change)
    for registry in (D.biject_to, D.transform_to):
        assert type(registry(transform.codomain)) is type(transform)


PAIRS = [
    (D.Beta, (1.5, 2.0), D.Normal, (0.1, 1.2)),
    (D.Beta, (1.5, 2.0), D.Gamma, (1.2, 0.7)),
    (D.Beta, (1.5, 2.0), D.Exponential, (1.2,)),
    (D.Gamma, (1.5, 2.0), D.Normal, (0.1, 1.2)),
    (D.Gamma, (1.5, 2.0), D.Gumbel, (0.1, 1.2)),
    (D.Exponential, (1.5,), D.Gumbel, (0.1, 1.2)),
    (D.Exponential, (1.5,), D.Normal, (0.1, 1.2)),
    (D.Gumbel, (0.3, 1.5), D.Normal, (0.1, 1.2)),
    (D.Laplace, (0.3, 1.5), D.Normal, (0.1, 1.2)),
    (D.Normal, (0.3, 1.5), D.Gumbel, (0.1, 1.2)),
    (D.Normal, (0.3, 1.5), D.Laplace, (0.1, 1.2)),
    (D.Pareto, (0.5, 4.0), D.Exponential, (1.2,)),
    (D.Pareto, (0.5, 4.0), D.Gamma, (1.2, 0.7)),
    (D.Pareto, (0.5, 6.0), D.Normal, (0.1, 1.2)),
    (D.Uniform, (0.2, 0.9), D.Beta, (1.2, 0.7)),
    (D.Uniform, (0.2, 0.9), D.Exponential, (1.2,)),
    (D.Uniform, (0.2, 0.9), D.Gamma, (1.2, 0.7)),
    (D.Uniform, (0.2, 0.9), D.Gumbel, (1.2, 0.7)),
    (D.Uniform, (0.2, 0.9), D.Pareto, (0.1, 0.7)),
]


@pytest.mark.parametrize("case", PAIRS, ids=lambda c: f"{c[0].__name__} {c[2].__name__}")
def test_divergences_between_families(case):
    first, own, second, other = case
    p = first(*[facula.tensor(v, dtype=F64) for v in own])
    q = second(*[facula.tensor(v, dtype=F64) for v in other])
    samples = p.sample((200_000,))
    difference = p.log_prob(samples) - q.log_prob(samples)
    error = 6 * difference.std() / math.sqrt(len(samples))
    assert abs(D.kl_divergence(p, q) - difference.mean()) < error + 1e-6


def test_what_is_excluded_costs_infinitely():
    p, q = D.Normal(0.0, 1.0), D.Gamma(1.0, 1.0)
    assert D.kl_divergence(p, q).item() == math.inf


def test_errors():
    with pytest.raises(ValueError, match=r"^\[MultivariateNormal\] Exactly one of"):
        D.MultivariateNormal(MEAN)
    with pytest.raises(ValueError, match=r"(?s)^\[MultivariateNormal\].*covariance_matrix"):
        D.MultivariateNormal(MEAN, -COVARIANCE)
    with pytest.raises(ValueError, match=r"^\[Wishart\] Value of df must be greater"):
        D.Wishart(facula.tensor(1.0, dtype=F64), COVARIANCE)
    with pytest.raises(ValueError, match=r"^\[LKJCholesky\] Expected dim"):
        D.LKJCholesky(1)
