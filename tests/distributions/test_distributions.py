"""facula.distributions: SciPy's densities, moments and samples; transforms; divergences; errors."""

import math

import numpy
import pytest
from scipy import stats

import facula
from facula import distributions as D
from facula.distributions import constraints, transforms

facula64 = facula.float64


def tensors(*values):
    return [facula.tensor(v, dtype=facula64) for v in values]


CONTINUOUS = [
    (D.Normal, (0.5, 2.0), stats.norm(0.5, 2.0)),
    (D.Laplace, (0.5, 2.0), stats.laplace(0.5, 2.0)),
    (D.Cauchy, (0.5, 2.0), stats.cauchy(0.5, 2.0)),
    (D.Gumbel, (0.5, 2.0), stats.gumbel_r(0.5, 2.0)),
    (D.HalfNormal, (2.0,), stats.halfnorm(scale=2.0)),
    (D.HalfCauchy, (2.0,), stats.halfcauchy(scale=2.0)),
    (D.Uniform, (0.5, 2.0), stats.uniform(0.5, 1.5)),
    (D.Exponential, (2.0,), stats.expon(scale=0.5)),
    (D.Gamma, (0.7, 2.0), stats.gamma(0.7, scale=0.5)),
    (D.Chi2, (3.0,), stats.chi2(3.0)),
    (D.InverseGamma, (3.0, 2.0), stats.invgamma(3.0, scale=2.0)),
    (D.Beta, (0.7, 2.0), stats.beta(0.7, 2.0)),
    (D.StudentT, (5.0, 0.5, 2.0), stats.t(5.0, 0.5, 2.0)),
    (D.FisherSnedecor, (5.0, 7.0), stats.f(5.0, 7.0)),
    (D.Pareto, (1.5, 3.0), stats.pareto(3.0, scale=1.5)),
    (D.GeneralizedPareto, (0.5, 2.0, 0.2), stats.genpareto(0.2, 0.5, 2.0)),
    (D.Weibull, (2.0, 1.5), stats.weibull_min(1.5, scale=2.0)),
    (D.LogNormal, (0.5, 0.7), stats.lognorm(0.7, scale=math.exp(0.5))),
]
DISCRETE = [
    (D.Bernoulli, (0.3,), stats.bernoulli(0.3)),
    (D.Geometric, (0.3,), stats.geom(0.3, loc=-1)),
    (D.Poisson, (3.5,), stats.poisson(3.5)),
    (D.Binomial, (7.0, 0.3), stats.binom(7, 0.3)),
    (D.NegativeBinomial, (3.0, 0.4), stats.nbinom(3, 0.6)),
]
names = [case[0].__name__ for case in CONTINUOUS]
discrete_names = [case[0].__name__ for case in DISCRETE]


@pytest.mark.parametrize(("kind", "parameters", "oracle"), CONTINUOUS, ids=names)
def test_continuous(kind, parameters, oracle):
    facula.manual_seed(7)
    law = kind(*tensors(*parameters))
    samples = law.sample((20_000,))
    assert stats.kstest(samples.numpy(), oracle.cdf).pvalue > 1e-4
    values = samples[:50]
    assert numpy.allclose(law.log_prob(values).numpy(), oracle.logpdf(values.numpy()), atol=1e-8)
    for ours, theirs in ((law.mean, oracle.mean()), (law.variance, oracle.var())):
        if numpy.isfinite(theirs):
            assert numpy.allclose(ours.numpy(), theirs, rtol=1e-8)
    levels = facula.linspace(0.05, 0.95, 9, dtype=facula64)
    if type(law).cdf is not D.Distribution.cdf:
        assert numpy.allclose(law.cdf(values).numpy(), oracle.cdf(values.numpy()), atol=1e-8)
    if type(law).icdf is not D.Distribution.icdf:
        assert numpy.allclose(law.icdf(levels).numpy(), oracle.ppf(levels.numpy()), rtol=1e-7)
    if type(law).entropy is not D.Distribution.entropy:
        assert numpy.allclose(law.entropy().numpy(), oracle.entropy(), atol=1e-7)


@pytest.mark.parametrize(("kind", "parameters", "oracle"), DISCRETE, ids=discrete_names)
def test_discrete(kind, parameters, oracle):
    facula.manual_seed(8)
    law = kind(*tensors(*parameters))
    samples = law.sample((20_000,))
    seen = numpy.bincount(samples.numpy().astype(int))
    expected = oracle.pmf(numpy.arange(len(seen))) * len(samples)
    kept = expected > 10
    observed, wanted = seen[kept], expected[kept]
    assert stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 1e-4
    values = facula.arange(0, 2 if kind is D.Bernoulli else 6, dtype=facula64)
    assert numpy.allclose(law.log_prob(values).numpy(), oracle.logpmf(values.numpy()), atol=1e-8)
    assert law.mean.item() == pytest.approx(float(oracle.mean()))
    assert law.variance.item() == pytest.approx(float(oracle.var()))


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [(k, p) for k, p, _ in CONTINUOUS] + [(k, p) for k, p, _ in DISCRETE],
    ids=names + discrete_names,
)
def test_shapes_and_expansion(kind, parameters):
    law = kind(*[t.expand(3) for t in tensors(*parameters)])
    assert tuple(law.batch_shape) == (3,) and tuple(law.event_shape) == ()
    assert law.sample((2, 5)).shape == (2, 5, 3)
    wide = law.expand((4, 3))
    values = wide.sample()
    assert values.shape == (4, 3)
    assert facula.allclose(wide.log_prob(values), law.log_prob(values))
    assert wide.mean.shape == (4, 3)


@pytest.mark.parametrize("kind", [D.Normal, D.Gamma, D.Beta, D.Weibull, D.Kumaraswamy, D.StudentT])
def test_samples_have_gradients(kind):
    """The derivative of the mean of samples by a parameter is that of the mean."""
    facula.manual_seed(9)
    parameters = [
        t.requires_grad_() for t in tensors(*(6.0, 1.5, 1.2)[: 3 if kind is D.StudentT else 2])
    ]
    law = kind(*parameters)
    estimate = facula.autograd.grad(law.rsample((200_000,)).mean(), parameters, allow_unused=True)
    exact = facula.autograd.grad(law.mean, parameters, allow_unused=True)
    for one, other in zip(estimate, exact, strict=True):
        target = 0.0 if other is None else other.item()
        assert (0.0 if one is None else one.item()) == pytest.approx(target, abs=2e-2)


def test_continuous_bernoulli_and_von_mises_integrate_to_one():
    x = facula.linspace(0, 1, 20_001, dtype=facula64)
    for p in (0.2, 0.5, 0.5005, 0.9):
        law = D.ContinuousBernoulli(*tensors(p))
        density = law.log_prob(x).exp()
        assert facula.trapezoid(density, x).item() == pytest.approx(1, abs=1e-6)
        assert facula.trapezoid(density * x, x).item() == pytest.approx(law.mean.item(), abs=1e-6)
        spread = facula.trapezoid(density * (x - law.mean).square(), x).item()
        assert spread == pytest.approx(law.variance.item(), abs=1e-6)
        assert law.cdf(law.icdf(x)).numpy() == pytest.approx(x.numpy(), abs=1e-6)
    facula.manual_seed(10)
    law = D.VonMises(*tensors(0.5, 3.0))
    oracle = stats.vonmises(3.0, loc=0.5)
    samples = law.sample((20_000,))
    assert ((samples >= -math.pi) & (samples <= math.pi)).all()
    assert stats.kstest(samples.numpy(), oracle.cdf).pvalue > 1e-4
    assert numpy.allclose(law.log_prob(samples[:20]).numpy(), oracle.logpdf(samples[:20].numpy()))


def test_kumaraswamy():
    law = D.Kumaraswamy(*tensors(2.0, 3.0))
    x = facula.linspace(0, 1, 20_001, dtype=facula64)[1:-1]
    density = law.log_prob(x).exp()
    assert facula.trapezoid(density * x, x).item() == pytest.approx(law.mean.item(), abs=1e-6)
    assert -facula.trapezoid(density * density.log(), x).item() == pytest.approx(
        law.entropy().item(), abs=1e-4
    )
    assert law.cdf(law.icdf(x)).numpy() == pytest.approx(x.numpy(), abs=1e-9)


def test_categorical_family():
    facula.manual_seed(11)
    probs = facula.tensor([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]], dtype=facula64)
    law = D.Categorical(probs)
    samples = law.sample((20_000,))
    for row in range(2):
        share = numpy.bincount(samples[:, row].numpy(), minlength=3) / 20_000
        assert numpy.allclose(share, probs[row].numpy(), atol=0.02)
    assert numpy.allclose(law.log_prob(facula.tensor([2, 0])).exp().numpy(), [0.5, 0.6])
    assert law.entropy()[0].item() == pytest.approx(stats.entropy([0.2, 0.3, 0.5]))
    assert law.enumerate_support().shape == (3, 2) and law.mode.tolist() == [2, 0]
    hot = D.OneHotCategorical(probs)
    drawn = hot.sample((5,))
    assert drawn.shape == (5, 2, 3) and (drawn.sum(-1) == 1).all()
    assert facula.equal(hot.log_prob(drawn), law.log_prob(drawn.argmax(-1)))
    counts = D.Multinomial(9, probs)
    drawn = counts.sample((4,))
    assert (drawn.sum(-1) == 9).all()
    oracle = stats.multinomial(9, [0.2, 0.3, 0.5])
    got = counts.log_prob(drawn)[:, 0].numpy()
    assert numpy.allclose(got, oracle.logpmf(drawn[:, 0].numpy()))
    assert D.Multinomial(9, probs[0]).entropy().item() == pytest.approx(float(oracle.entropy()))


def test_straight_through_gradient():
    logits = facula.zeros(3, requires_grad=True)
    law = D.OneHotCategoricalStraightThrough(logits=logits)
    (law.rsample() * facula.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert logits.grad.abs().sum() > 0


def test_dirichlet():
    alpha = facula.tensor([0.6, 2.0, 3.5], dtype=facula64)
    law, oracle = D.Dirichlet(alpha), stats.dirichlet(alpha.numpy())
    values = law.sample((20,))
    assert numpy.allclose(law.log_prob(values).numpy(), [oracle.logpdf(v) for v in values.numpy()])
    assert numpy.allclose(law.mean.numpy(), oracle.mean())
    assert numpy.allclose(law.variance.numpy(), oracle.var())
    assert law.entropy().item() == pytest.approx(float(oracle.entropy()))


def test_independent_and_mixture():
    base = D.Normal(facula.zeros(4, 3, dtype=facula64), facula.ones(3, dtype=facula64))
    law = D.Independent(base, 1)
    x = law.sample()
    assert tuple(law.batch_shape) == (4,) and tuple(law.event_shape) == (3,)
    assert facula.allclose(law.log_prob(x), base.log_prob(x).sum(-1))
    assert law.expand((2, 4)).sample().shape == (2, 4, 3)
    weights, means = tensors([0.2, 0.8], [-1.0, 2.0])
    mixture = D.MixtureSameFamily(D.Categorical(weights), D.Normal(means, facula.ones_like(means)))
    x = facula.linspace(-3, 4, 8, dtype=facula64)
    expected = 0.2 * stats.norm.pdf(x.numpy(), -1) + 0.8 * stats.norm.pdf(x.numpy(), 2)
    assert numpy.allclose(mixture.log_prob(x).exp().numpy(), expected)
    assert mixture.mean.item() == pytest.approx(1.4)
    assert mixture.variance.item() == pytest.approx(1 + 0.2 * 2.4**2 + 0.8 * 0.6**2)
    facula.manual_seed(12)
    assert mixture.sample((20_000,)).mean().item() == pytest.approx(1.4, abs=0.06)


def test_relaxed():
    facula.manual_seed(13)
    probs = facula.tensor([0.2, 0.3, 0.5], requires_grad=True)
    law = D.RelaxedOneHotCategorical(facula.tensor(0.5), probs=probs)
    sample = law.rsample((1000,))
    assert facula.allclose(sample.sum(-1), facula.ones(1000), atol=1e-5)
    assert law.log_prob(sample.detach()).isfinite().all()
    sample[:, 0].sum().backward()
    assert probs.grad.abs().sum() > 0
    assert law.expand((2,)).rsample().shape == (2, 3)
    binary = D.RelaxedBernoulli(facula.tensor(0.5), probs=facula.tensor([0.3, 0.7]))
    x = facula.linspace(1e-4, 1 - 1e-4, 40_001)
    density = binary.log_prob(x.unsqueeze(-1)).exp()
    assert facula.trapezoid(density, x, dim=0).tolist() == pytest.approx([1, 1], abs=0.03)


SCALAR_TRANSFORMS = [
    transforms.ExpTransform(),
    transforms.SigmoidTransform(),
    transforms.TanhTransform(),
    transforms.SoftplusTransform(),
    transforms.AffineTransform(0.5, -2.0),
    transforms.ComposeTransform([transforms.AffineTransform(1.0, 3.0), transforms.ExpTransform()]),
    transforms.ExpTransform().inv,
    transforms.PowerTransform(facula.tensor(2.5, dtype=facula64)),
    transforms.CumulativeDistributionTransform(D.Normal(*tensors(0.0, 1.0))),
]


@pytest.mark.parametrize("transform", SCALAR_TRANSFORMS, ids=lambda t: type(t).__name__)
def test_scalar_transforms(transform):
    x = facula.linspace(0.1, 1.5, 7, dtype=facula64).requires_grad_()
    y = transform(x)
    assert facula.allclose(transform.inv(y), x)
    assert transform.inv.inv is transform or transform.inv.inv == transform
    (slope,) = facula.autograd.grad(y.sum(), x)
    assert facula.allclose(transform.log_abs_det_jacobian(x, y), slope.abs().log())
    assert transform.codomain.check(y).all()
    assert tuple(transform.forward_shape((7,))) == (7,)


def test_stick_breaking():
    transform = transforms.StickBreakingTransform()
    x = facula.randn(3, dtype=facula64)
    y = transform(x)
    assert constraints.simplex.check(y) and facula.allclose(transform.inv(y), x)
    jacobian = facula.autograd.functional.jacobian(lambda v: transform(v)[:-1], x)
    volume = numpy.log(abs(numpy.linalg.det(jacobian.numpy())))
    assert transform.log_abs_det_jacobian(x, y).item() == pytest.approx(volume)
    assert tuple(transform.forward_shape((2, 3))) == (2, 4)


def test_joined_transforms():
    parts = [transforms.ExpTransform(), transforms.AffineTransform(0.0, 2.0)]
    x = facula.randn(4, 2, dtype=facula64)
    stacked = transforms.StackTransform(parts, dim=1)
    y = stacked(x)
    assert facula.allclose(y[:, 0], x[:, 0].exp()) and facula.allclose(y[:, 1], 2 * x[:, 1])
    assert facula.allclose(stacked.inv(y), x)
    joined = transforms.CatTransform(parts, dim=0, lengths=[3, 1])
    y = joined(x)
    assert facula.allclose(y[3], 2 * x[3]) and facula.allclose(joined.inv(y), x)
    assert joined.log_abs_det_jacobian(x, y).shape == (4, 2)
    reshaped = transforms.ReshapeTransform((4,), (2, 2))
    assert reshaped(facula.randn(5, 4)).shape == (5, 2, 2)
    lower = transforms.LowerCholeskyTransform()
    matrix = lower(facula.randn(3, 3))
    assert constraints.lower_cholesky.check(matrix)
    assert facula.allclose(lower(lower.inv(matrix)), matrix)


def test_cached_transforms_give_the_same_object_back():
    transform = transforms.ExpTransform(cache_size=1)
    x = facula.randn(3)
    assert transform.inv(transform(x)) is x
    assert transforms.ExpTransform() == transforms.ExpTransform()
    assert transforms.ExpTransform() != transforms.SigmoidTransform()


@pytest.mark.parametrize("registry", [D.biject_to, D.transform_to])
@pytest.mark.parametrize(
    "constraint",
    [
        constraints.real,
        constraints.positive,
        constraints.greater_than(2.0),
        constraints.less_than(-1.0),
        constraints.interval(-2.0, 3.0),
        constraints.unit_interval,
        constraints.simplex,
        constraints.independent(constraints.positive, 1),
        constraints.stack([constraints.positive, constraints.real], -1),
    ],
    ids=repr,
)
def test_constraints_have_transforms(registry, constraint):
    transform = registry(constraint)
    y = transform(facula.randn(5, 2, dtype=facula64))
    assert constraint.check(y).all()
    assert facula.allclose(transform(transform.inv(y)), y)


def test_constraint_checks():
    x = facula.tensor([-1.0, 0.0, 0.5, 1.0, 2.0])
    assert constraints.boolean.check(x).tolist() == [False, True, False, True, False]
    assert constraints.nonnegative_integer.check(x).tolist() == [False, True, False, True, True]
    assert constraints.half_open_interval(0.0, 1.0).check(x).tolist() == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert constraints.one_hot.check(facula.eye(3)).all()
    assert not constraints.one_hot.check(facula.ones(3))
    assert constraints.symmetric.check(facula.eye(3)) and constraints.square.check(facula.eye(3))
    assert not constraints.lower_triangular.check(facula.ones(2, 2))
    with pytest.raises(ValueError, match="dependent constraint"):
        constraints.dependent.check(x)
    with pytest.raises(NotImplementedError, match="Cannot transform"):
        D.biject_to(constraints.boolean)


PAIRS = [
    (D.Normal, (0.5, 2.0), D.Normal, (1.0, 1.5)),
    (D.Laplace, (0.5, 2.0), D.Laplace, (1.0, 1.5)),
    (D.Cauchy, (0.5, 2.0), D.Cauchy, (1.0, 1.5)),
    (D.Gumbel, (0.5, 2.0), D.Gumbel, (1.0, 2.5)),
    (D.HalfNormal, (2.0,), D.HalfNormal, (1.5,)),
    (D.HalfCauchy, (2.0,), D.HalfCauchy, (1.5,)),
    (D.InverseGamma, (2.0, 1.0), D.InverseGamma, (1.5, 3.0)),
    (D.Uniform, (0.5, 1.0), D.Uniform, (0.0, 2.0)),
    (D.Exponential, (2.0,), D.Exponential, (1.5,)),
    (D.Exponential, (2.0,), D.Gamma, (1.5, 2.0)),
    (D.Gamma, (2.0, 1.0), D.Gamma, (1.0, 3.0)),
    (D.Gamma, (2.0, 1.0), D.Exponential, (1.5,)),
    (D.Beta, (2.0, 1.5), D.Beta, (1.0, 3.0)),
    (D.Pareto, (2.0, 3.0), D.Pareto, (1.0, 4.0)),
    (D.Uniform, (1.0, 2.0), D.Normal, (1.5, 2.0)),
    (D.ContinuousBernoulli, (0.3,), D.ContinuousBernoulli, (0.6,)),
    (D.LogNormal, (0.5, 1.0), D.LogNormal, (1.0, 1.5)),
    (D.Bernoulli, (0.3,), D.Bernoulli, (0.6,)),
    (D.Bernoulli, (0.3,), D.Poisson, (2.0,)),
    (D.Geometric, (0.3,), D.Geometric, (0.6,)),
    (D.Poisson, (3.0,), D.Poisson, (1.0,)),
    (D.Binomial, (7.0, 0.3), D.Binomial, (7.0, 0.5)),
]


@pytest.mark.parametrize(
    ("kind", "own", "other", "theirs"),
    PAIRS,
    ids=[f"{p[0].__name__}-{p[2].__name__}" for p in PAIRS],
)
def test_divergence_is_the_mean_log_ratio(kind, own, other, theirs):
    facula.manual_seed(14)
    p, q = kind(*tensors(*own)), other(*tensors(*theirs))
    samples = p.sample((200_000,))
    ratio = p.log_prob(samples) - q.log_prob(samples)
    error = 5 * ratio.std().item() / math.sqrt(200_000) + 1e-6
    assert D.kl_divergence(p, q).item() == pytest.approx(ratio.mean().item(), abs=error)
    assert D.kl_divergence(p, p).abs().item() < 1e-9 or kind is not other


def test_divergence_of_vectors_and_unknown_pairs():
    p, q = (D.Dirichlet(facula.tensor(v, dtype=facula64)) for v in ([1.0, 2.0], [3.0, 0.5]))
    beta = [D.Beta(*tensors(*v)) for v in ([1.0, 2.0], [3.0, 0.5])]
    assert facula.allclose(D.kl_divergence(p, q), D.kl_divergence(*beta))
    hot = [D.OneHotCategorical(facula.tensor(v)) for v in ([0.2, 0.8], [0.5, 0.5])]
    flat = [D.Categorical(facula.tensor(v)) for v in ([0.2, 0.8], [0.5, 0.5])]
    assert facula.equal(D.kl_divergence(*hot), D.kl_divergence(*flat))
    with pytest.raises(NotImplementedError, match="No KL"):
        D.kl_divergence(D.Cauchy(0.0, 1.0), D.Normal(0.0, 1.0))
    outside = D.kl_divergence(D.Uniform(0.0, 2.0), D.Uniform(0.0, 1.0))
    assert outside.item() == math.inf
    wider = D.kl_divergence(D.Normal(*tensors(0.0, 1.0)), D.Beta(*tensors(1.0, 2.0)))
    assert wider.item() == math.inf and wider.dtype == facula64

    class Own(D.Normal):
        pass

    @D.register_kl(Own, Own)
    def own(p, q):
        return facula.tensor(42.0)

    assert D.kl_divergence(Own(0.0, 1.0), Own(0.0, 1.0)).item() == 42.0
    assert D.kl_divergence(Own(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 0.0


def test_a_found_formula_is_kept_until_another_is_registered():
    from facula.distributions import kl

    class Near(D.Normal):
        pass

    pair = Near(0.0, 1.0), Near(1.0, 1.0)
    assert D.kl_divergence(*pair).item() == 0.5
    assert kl._KL_MEMOIZE[Near, Near] is kl._KL_REGISTRY[D.Normal, D.Normal]

    @D.register_kl(Near, Near)
    def near(p, q):
        return facula.tensor(7.0)

    assert not kl._KL_MEMOIZE
    assert D.kl_divergence(*pair).item() == 7.0


def test_what_is_refused():
    with pytest.raises(ValueError, match="Expected parameter scale"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="Expected value argument"):
        D.Exponential(1.0).log_prob(facula.tensor(-1.0))
    with pytest.raises(ValueError, match="not both"):
        D.Bernoulli()
    with pytest.raises(ValueError, match="low>= high"):
        D.Uniform(1.0, 0.0)
    with pytest.raises(ValueError, match="must match event_shape"):
        D.Dirichlet(facula.ones(3)).log_prob(facula.ones(2) / 2)
    with pytest.raises(ValueError, match="instances of Number"):
        D.Normal("0", 1.0)
    with pytest.raises(NotImplementedError):
        D.StudentT(3.0).cdf(facula.tensor(0.0))
    law = D.Normal(0.0, 1.0, validate_args=False)
    assert law.log_prob(facula.tensor(math.nan)).isnan()


def test_the_score_function_learns():
    """REINFORCE on a bandit with two arms."""
    facula.manual_seed(15)
    logits = facula.zeros(2, requires_grad=True)
    optimizer = facula.optim.SGD([logits], lr=0.5)
    for _ in range(100):
        law = D.Categorical(logits=logits)
        action = law.sample((16,))
        loss = -(law.log_prob(action) * (action == 1).float()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert D.Categorical(logits=logits).probs[1].item() > 0.9


def test_shown_as_pytorch_shows_them():
    assert repr(D.Normal(facula.zeros(2), 1.0)) == (
        "Normal(loc: facula.Size([2]), scale: facula.Size([2]))"
    )
    assert repr(constraints.interval(0, 1)) == "Interval(lower_bound=0, upper_bound=1)"


def test_classes_know_what_their_values_are_before_they_have_parameters():
    d = facula.distributions
    for kind in (d.Binomial, d.Categorical, d.Multinomial):
        assert kind.support.is_discrete
    for kind in (d.Uniform, d.Pareto, d.GeneralizedPareto):
        assert not kind.support.is_discrete
        assert kind.support.event_dim == 0
    for kind in (d.Independent, d.MixtureSameFamily):
        with pytest.raises(NotImplementedError, match="cannot be determined statically"):
            _ = kind.support.is_discrete
    with pytest.raises(NotImplementedError, match="event_dim cannot be determined"):
        _ = d.TransformedDistribution.support.event_dim
    assert d.Independent(d.Bernoulli(facula.ones(2) / 2), 1).support.is_discrete


@pytest.mark.parametrize("transforms", [lambda x: x, [lambda x: x], None])
def test_transforms_are_transforms(transforms):
    d = facula.distributions
    with pytest.raises(ValueError, match="transforms must be a Transform or a list of"):
        d.TransformedDistribution(d.Normal(0.0, 1.0), transforms)


def test_a_mixture_prints_its_parts():
    mixture = D.MixtureSameFamily(D.Categorical(facula.ones(2)), D.Normal(facula.zeros(2), 1.0))
    lines = repr(mixture).splitlines()
    assert lines[0] == "MixtureSameFamily(" and lines[1].startswith("  Categorical(probs: ")
    assert lines[2].startswith("  Normal(loc: ") and lines[2].endswith("))")
    assert repr(mixture.support) == "MixtureSameFamilyConstraint(Real())"


def test_von_mises_draws_of_extreme_concentrations_end():
    values = [0.0, 1e-310, 1e9, 1e12, 1e18, 1e200, math.inf, math.nan, -1.0]
    k = facula.tensor(values, dtype=facula.float64)
    at = facula.tensor(0.5, dtype=facula.float64)
    drawn = D.VonMises(at, k, validate_args=False).sample((2000,))
    assert bool((drawn[:, :2].std(0) - math.pi / 3**0.5).abs().max() < 0.1)  # uniform
    for column in (2, 3, 4):
        wide = float(k[column]) ** -0.5
        assert float((drawn[:, column] - 0.5).std()) == pytest.approx(wide, rel=0.1)
    assert bool((drawn[:, 5:7] == 0.5).all()) and bool(drawn[:, 7:].isnan().all())
