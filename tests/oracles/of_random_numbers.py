"""Oracles of random numbers: SciPy's distributions (the seed is fixed), and what holds of every draw."""

import numpy
import scipy.special
import scipy.stats
from oracle_table import call, check, near, oracle

#: how unlikely draws of the right distribution may be
LEAST = 1e-3
OPTIONS = {"empty": False, "expanded": False}
MANY = (60, 50)


def continuous(values, distribution):
    """The draws follow a distribution, and no two are equal."""
    values = numpy.asarray(values, float).reshape(-1)
    assert scipy.stats.kstest(values, distribution.cdf).pvalue > LEAST
    assert len(numpy.unique(values)) > 0.99 * len(values)


def discrete(values, distribution, least=5):
    """The draws are whole, and each value comes as often as its probability says."""
    values = numpy.asarray(values).reshape(-1)
    assert numpy.array_equal(values, numpy.trunc(values))
    numbers = numpy.arange(values.min(), values.max() + 1)
    wanted = distribution.pmf(numbers) * values.size
    common = wanted >= least
    counts = numpy.array([(values == n).sum() for n in numbers[common]])
    rest = [values.size - counts.sum(), values.size - wanted[common].sum()]
    counts, wanted = numpy.append(counts, rest[0]), numpy.append(wanted[common], max(rest[1], 1e-9))
    used = wanted > 1
    assert ((counts - wanted)[used] ** 2 / wanted[used]).sum() < scipy.stats.chi2.ppf(
        1 - LEAST, max(used.sum() - 1, 1)
    )
    assert counts[~used].sum() <= 10


def half(values, p=0.5):
    """True as often as `p` says."""
    values = numpy.asarray(values)
    assert set(numpy.unique(values)) <= {0, 1}
    assert scipy.stats.binomtest(int(values.sum()), values.size, p).pvalue > LEAST


@check("rand", kind="scipy", samples=lambda S: [call(*MANY), call(MANY, dtype=S.dtype)], **OPTIONS)
def rand(result, *size, dtype=None):
    continuous(result, scipy.stats.uniform())
    assert result.dtype == (numpy.float32 if dtype is None else dtype)


@check("randn", kind="scipy", samples=lambda S: [call(*MANY), call(MANY, dtype=S.dtype)], **OPTIONS)
def randn(result, *size, dtype=None):
    continuous(result, scipy.stats.norm())


@check("rand_like", kind="scipy", samples=lambda S: [call(S(*MANY))], **OPTIONS)
def rand_like(result, a):
    assert result.shape == a.shape
    continuous(result, scipy.stats.uniform())


@check("randn_like", kind="scipy", samples=lambda S: [call(S(*MANY))], **OPTIONS)
def randn_like(result, a):
    assert result.shape == a.shape
    continuous(result, scipy.stats.norm())


@check(
    "randint",
    kind="scipy",
    samples=lambda S: [call(7, MANY), call(-3, 5, MANY), call(2, 9, MANY, dtype=S.dtype)],
    **OPTIONS,
)
def randint(result, low, high, size=None, dtype=numpy.int64):
    low, high = (0, low) if size is None else (low, high)
    assert result.dtype == dtype
    discrete(result, scipy.stats.randint(low, high))


@check(
    "randint_like",
    kind="scipy",
    samples=lambda S: [call(S(*MANY), 7), call(S(*MANY), -3, 5)],
    **OPTIONS,
)
def randint_like(result, a, low, high=None):
    discrete(
        result, scipy.stats.randint(0, low) if high is None else scipy.stats.randint(low, high)
    )


@check(
    "randperm",
    kind="identity",
    samples=lambda S: [call(100), call(1), call(0), call(50, dtype=S.dtype)],
    **OPTIONS,
)
def randperm(result, n, dtype=numpy.int64):
    assert result.dtype == dtype
    numpy.testing.assert_array_equal(numpy.sort(result), numpy.arange(n))
    assert n < 2 or (result != numpy.arange(n)).any()


@check(
    "normal_", kind="scipy", samples=lambda S: [call(S(*MANY)), call(S(*MANY), 2.0, 3.0)], **OPTIONS
)
def normal_(result, a, mean=0.0, std=1.0):
    continuous(result, scipy.stats.norm(mean, std))


@check(
    "uniform_",
    kind="scipy",
    samples=lambda S: [call(S(*MANY)), call(S(*MANY), -2.0, 3.0)],
    **OPTIONS,
)
def uniform_(result, a, low=0.0, high=1.0):
    continuous(result, scipy.stats.uniform(low, high - low))


@check(
    "exponential_", kind="scipy", samples=lambda S: [call(S(*MANY)), call(S(*MANY), 2.5)], **OPTIONS
)
def exponential_(result, a, lambd=1.0):
    continuous(result, scipy.stats.expon(scale=1 / lambd))


@check(
    "cauchy_", kind="scipy", samples=lambda S: [call(S(*MANY)), call(S(*MANY), 1.0, 2.0)], **OPTIONS
)
def cauchy_(result, a, median=0.0, sigma=1.0):
    continuous(result, scipy.stats.cauchy(median, sigma))


@check(
    "log_normal_",
    kind="scipy",
    samples=lambda S: [call(S(*MANY)), call(S(*MANY), 0.5, 0.7)],
    **OPTIONS,
)
def log_normal_(result, a, mean=1.0, std=2.0):
    continuous(result, scipy.stats.lognorm(std, scale=numpy.exp(mean)))


@check(
    "geometric_",
    kind="scipy",
    samples=lambda S: [call(S(*MANY), 0.3), call(S(*MANY), 0.8)],
    **OPTIONS,
)
def geometric_(result, a, p):
    discrete(result, scipy.stats.geom(p))


@check(
    "random_", kind="scipy", samples=lambda S: [call(S(*MANY), 7), call(S(*MANY), -3, 5)], **OPTIONS
)
def random_(result, a, low, high=None):
    discrete(
        result, scipy.stats.randint(0, low) if high is None else scipy.stats.randint(low, high)
    )


@check(
    "bernoulli_", kind="scipy", samples=lambda S: [call(S(*MANY)), call(S(*MANY), 0.2)], **OPTIONS
)
def bernoulli_(result, a, p=0.5):
    half(result, p)


@check(
    "bernoulli",
    kind="scipy",
    samples=lambda S: [
        call(S.of(numpy.full(MANY, 0.3))),
        call(S(*MANY), 0.8),
        call(S.of(numpy.repeat([[0.0, 1.0]], 50, 0))),
    ],
    **OPTIONS,
)
def bernoulli(result, a, p=None):
    if a.shape[1] == 2:
        numpy.testing.assert_array_equal(result, a)
    else:
        half(result, a[0, 0] if p is None else p)


@check(
    "normal",
    kind="scipy",
    samples=lambda S: [
        call(1.5, 2.0, MANY),
        call(S(*MANY), 1.5),
        call(0.5, S(*MANY, low=0.1)),
        call(S(*MANY), S(*MANY, low=0.1)),
    ],
    **OPTIONS,
)
def normal(result, mean=0.0, std=1.0, size=None):
    continuous((result - mean) / std, scipy.stats.norm())


@check(
    "multinomial",
    kind="scipy",
    samples=lambda S: [
        call(S.of([0.1, 0.0, 0.6, 0.3]), 3000, True),
        call(S.of([[1.0, 3.0], [2.0, 2.0]]), 2000, True),
        call(S.of([0.1, 0.0, 0.6, 0.3]), 3),
    ],
    **OPTIONS,
)
def multinomial(result, weights, num_samples, replacement=False):
    rows, draws = numpy.atleast_2d(weights), numpy.atleast_2d(result)
    for row, drawn in zip(rows, draws, strict=True):
        if not replacement:
            assert len(set(drawn.tolist())) == num_samples and (row[drawn] > 0).all()
            continue
        counts = numpy.bincount(drawn, minlength=len(row))
        likely = row > 0
        assert counts[~likely].sum() == 0
        wanted = row[likely] / row.sum() * num_samples
        assert scipy.stats.chisquare(counts[likely], wanted).pvalue > LEAST


def _dropped(result, a, p):
    """Zeros as often as `p` says; what stays is scaled so that the mean stays."""
    kept = result != 0
    half(~kept, p)
    near(result[kept], (a / (1 - p))[kept])


@check(
    "dropout",
    kind="scipy",
    samples=lambda S: [
        call(S(*MANY)),
        call(S(*MANY), 0.2),
        call(S(3, 4), 0.5, False),
        call(S(*MANY), inplace=True),
    ],
    **OPTIONS,
)
def dropout(result, a, p=0.5, training=True, inplace=False):
    if training:
        _dropped(result, a, p)
    else:
        near(result, a, 0)


@check(
    "dropout_flag",
    "dropout_",
    kind="scipy",
    samples=lambda S: [call(S(*MANY), 0.3, True), call(S(3, 4), 0.5, False)],
    **OPTIONS,
)
def dropout_flag(result, a, p, train):
    dropout(result, a, p, train)


@check(
    "native_dropout",
    kind="scipy",
    samples=lambda S: [call(S(*MANY), 0.3, True), call(S(*MANY), 0.3)],
    **OPTIONS,
)
def native_dropout(result, a, p, train=None):
    _dropped(result[0], a, p)
    numpy.testing.assert_array_equal(result[1], result[0] != 0)


oracle(
    "native_dropout_backward", kind="numpy", samples=lambda S: [call(S(3, 4), S.mask(3, 4), 2.0)]
)(lambda grad, mask, scale: grad * mask * scale)


def _channels(result, a, p, training=True):
    """Whole channels are zero or scaled."""
    if not training:
        near(result, a, 0)
        return
    rows = result.reshape(*result.shape[:2], -1)
    kept = (rows != 0).any(-1)
    assert ((rows != 0).all(-1) == kept).all()
    half(~kept, p)
    near(rows[kept], (a / (1 - p)).reshape(rows.shape)[kept])


@check(
    "feature_dropout",
    "feature_dropout_",
    kind="scipy",
    samples=lambda S: [call(S(30, 20, 3), 0.3, True), call(S(2, 3, 4), 0.3, False)],
    **OPTIONS,
)
def feature_dropout(result, a, p, train):
    _channels(result, a, p, train)


for _n in (1, 2, 3):

    @check(
        f"dropout{_n}d",
        kind="scipy",
        samples=lambda S, n=_n: [
            call(S(30, 20, *[2] * n)),
            call(S(30, 20, *[2] * n), 0.2),
            call(S(2, 3, *[2] * n), 0.5, False),
        ],
        **OPTIONS,
    )
    def channel_dropout(result, a, p=0.5, training=True, inplace=False):
        _channels(result, a, p, training)


SATURATION = -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717


def _self_normal(result, a, p, whole):
    """Dropped to SELU's lower bound, then scaled to keep mean zero and variance one."""
    scale = 1 / numpy.sqrt((1 - p) * (1 + p * SATURATION**2))
    shift = -scale * p * SATURATION
    low, high = scale * SATURATION + shift, scale * a + shift
    dropped = numpy.abs(result - low) < 1e-5
    near(result[~dropped], high[~dropped], 64)
    lines = dropped.reshape(*dropped.shape[:2], -1) if whole else dropped
    if whole:
        assert (lines.all(-1) == lines.any(-1)).all()
        lines = lines.any(-1)
    half(lines, p)


@check(
    "alpha_dropout",
    "alpha_dropout_",
    kind="scipy",
    samples=lambda S: [call(S(*MANY), 0.3, True), call(S(3, 4), 0.3, False)],
    **OPTIONS,
)
def alpha_dropout(result, a, p=0.5, training=False, inplace=False):
    if training:
        _self_normal(result, a, p, False)
    else:
        near(result, a, 0)


@check(
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    kind="scipy",
    samples=lambda S: [call(S(30, 20, 3), 0.3, True), call(S(2, 3, 4), 0.3, False)],
    **OPTIONS,
)
def feature_alpha_dropout(result, a, p=0.5, training=False, inplace=False):
    if training:
        _self_normal(result, a, p, True)
    else:
        near(result, a, 0)


@check(
    "rrelu",
    "rrelu_",
    kind="scipy",
    samples=lambda S: [call(S(*MANY)), call(S(*MANY), 0.1, 0.6, True), call(S(3, 4), 0.2, 0.4)],
    **OPTIONS,
)
def random_slopes(result, a, lower=1 / 8, upper=1 / 3, training=False):
    near(result[a > 0], a[a > 0], 0)
    slopes = result[a < 0] / a[a < 0]
    if training:
        continuous(slopes, scipy.stats.uniform(lower, upper - lower))
    else:
        near(slopes.astype(result.dtype), numpy.full(slopes.shape, (lower + upper) / 2))


@check(
    "poisson",
    kind="scipy",
    samples=lambda S: [call(S.of(numpy.full(MANY, rate))) for rate in (0.5, 4.0, 40.0)],
    **OPTIONS,
)
def poisson(result, a):
    discrete(result, scipy.stats.poisson(a[0, 0]))


@check(
    "binomial",
    kind="scipy",
    samples=lambda S: [
        call(S.of(numpy.full(MANY, n)), S.of(numpy.full(MANY, p)))
        for n, p in ((5.0, 0.3), (40.0, 0.6), (100.0, 0.05))
    ],
    **OPTIONS,
)
def binomial(result, count, probability):
    discrete(result, scipy.stats.binom(int(count[0, 0]), probability[0, 0]))


@check(
    "_standard_gamma",
    kind="scipy",
    samples=lambda S: [call(S.of(numpy.full(MANY, shape))) for shape in (0.4, 1.0, 6.5)],
    **OPTIONS,
)
def standard_gamma(result, a):
    values = result.astype(float)
    assert scipy.stats.kstest(values.reshape(-1), scipy.stats.gamma(a[0, 0]).cdf).pvalue > LEAST


@check(
    "_sample_dirichlet",
    kind="scipy",
    samples=lambda S: [call(S.of(numpy.tile([0.7, 2.0, 3.5], (2000, 1))))],
    **OPTIONS,
)
def dirichlet(result, a):
    near(result.sum(-1), numpy.ones(len(result)))
    for column, own in zip(result.T, a[0], strict=True):
        continuous(column, scipy.stats.beta(own, a[0].sum() - own))


@check(
    "_standard_gamma_grad",
    kind="differences",
    samples=lambda S: [call(S(3, 4, low=0.5, high=6.0), S(3, 4, low=0.2, high=8.0))],
    **OPTIONS,
)
def gamma_derivative(result, a, sample):
    """How a draw moves with its shape at a fixed probability: the inverse of the distribution, differenced."""
    step = 1e-5 * a
    level = scipy.special.gammainc(a, sample)
    keep = (level > 1e-6) & (level < 1 - 1e-6)
    wanted = (
        scipy.special.gammaincinv(a + step, level) - scipy.special.gammaincinv(a - step, level)
    ) / (2 * step)
    numpy.testing.assert_allclose(result[keep], wanted[keep], rtol=2e-3)
    assert keep.sum() > 6


@check(
    "_dirichlet_grad",
    kind="differences",
    samples=lambda S: [
        call(S(3, 4, low=0.1, high=0.9), S(3, 4, low=0.5, high=3.0), S(3, 4, low=4.0, high=9.0))
    ],
    **OPTIONS,
)
def beta_derivative(result, x, a, total):
    """How a part of a point moves with its shape at a fixed probability, over the rest of the point."""
    step, b = 1e-5 * a, total - a
    level = scipy.special.betainc(a, b, x)
    keep = (level > 1e-6) & (level < 1 - 1e-6)
    ends = (scipy.special.betaincinv(a + sign * step, b, level) for sign in (1, -1))
    wanted = (next(ends) - next(ends)) / (2 * step) / (1 - x)
    numpy.testing.assert_allclose(result[keep], wanted[keep], rtol=2e-3)
    assert keep.sum() > 6


@check(
    "gumbel_softmax",
    kind="scipy",
    samples=lambda S: [
        call(S.of(numpy.tile([0.0, 1.0, -1.0], (3000, 1))), 0.7),
        call(S.of(numpy.tile([0.0, 1.0, -1.0], (3000, 1))), 1.0, True),
        call(S.of(numpy.tile([[0.0], [1.0], [-1.0]], (1, 3000))), dim=0),
    ],
    **OPTIONS,
)
def gumbel(result, logits, tau=1.0, hard=False, eps=1e-10, dim=-1):
    near(result.sum(dim), numpy.ones(3000))
    likely = scipy.special.softmax(logits.take(0, 1 - dim % 2))
    counts = numpy.bincount(result.argmax(dim), minlength=3)
    assert scipy.stats.chisquare(counts, likely * 3000).pvalue > LEAST
    assert not hard or set(numpy.unique(numpy.round(result, 5))) == {0, 1}
