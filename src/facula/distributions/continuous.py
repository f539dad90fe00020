"""Distributions of numbers: location-scale families, the gamma family, and bounded ones.

Takes: parameters as numbers or tensors. Gives: samples, densities, distribution functions, moments,
entropies. Keeps true: `rsample` has the derivative of a sample by the parameters.
"""

from __future__ import annotations

import math
from typing import Any

import facula
from facula.core.errors import fail
from facula.distributions import constraints
from facula.distributions.distribution import Distribution, ExponentialFamily
from facula.distributions.utils import (
    broadcast_all,
    clamp_probs,
    euler_constant,
    lazy_property,
    probs_to_logits,
)

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


def _uniform(self: Any, shape: Any, like: Any) -> Any:
    """Uniform numbers of the open interval (0, 1)."""
    tiny = facula.finfo(like.dtype).tiny
    return facula.rand(shape, dtype=like.dtype, device=like.device).clamp(min=tiny)


class _LocationScale(Distribution):
    """Parameters `loc` and `scale` that broadcast."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _checked(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution of mean `loc` and deviation `scale`."""

    _mean_carrier_measure = 0  # type: ignore[assignment]

    @property
    def mean(self) -> Any:
        return self.loc

    mode = mean

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.scale.square()

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        noise = facula.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Any:
        return -0.5 * self._checked(value).square() - self.scale.log() - HALF_LOG_TAU

    def cdf(self, value: Any) -> Any:
        return 0.5 * (1 + facula.erf(self._checked(value) / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * facula.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + HALF_LOG_TAU + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.loc / self.scale.square(), -0.5 * self.scale.square().reciprocal()

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return -0.25 * x.square() / y + 0.5 * facula.log(-math.pi / y)


class Laplace(_LocationScale):
    """The two-sided exponential distribution."""

    @property
    def mean(self) -> Any:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Any:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Any:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Any:
        u = _uniform(self, self._extended_shape(sample_shape), self.loc)
        side = facula.where(u < 0.5, -1.0, 1.0).to(u.dtype)
        tail = facula.where(u < 0.5, 2 * u, 2 - 2 * u).clamp(min=facula.finfo(u.dtype).tiny)
        return self.loc - self.scale * side * tail.log()

    def log_prob(self, value: Any) -> Any:
        return -facula.log(2 * self.scale) - self._checked(value).abs()

    def cdf(self, value: Any) -> Any:
        z = self._checked(value)
        return 0.5 - 0.5 * z.sign() * facula.expm1(-z.abs())

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * facula.log1p(-2 * term.abs())

    def entropy(self) -> Any:
        return 1 + facula.log(2 * self.scale)


class Cauchy(_LocationScale):
    """The Cauchy distribution of median `loc` and half width `scale`: it has no mean."""

    @property
    def mean(self) -> Any:
        return facula.full_like(self.loc, math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return facula.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Any:
        return -math.log(math.pi) - self.scale.log() - self._checked(value).square().log1p()

    def cdf(self, value: Any) -> Any:
        return facula.atan(self._checked(value)) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return facula.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The distribution of a largest value."""

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return (math.pi**2 / 6) * self.scale.square()

    @property
    def stddev(self) -> Any:
        return (math.pi / math.sqrt(6)) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = self.loc.new_empty(self._extended_shape(sample_shape)).exponential_()
        return self.loc - self.scale * noise.log()

    def log_prob(self, value: Any) -> Any:
        z = self._checked(value)
        return -z - facula.exp(-z) - self.scale.log()

    def cdf(self, value: Any) -> Any:
        return facula.exp(-facula.exp(-self._checked(value)))

    def icdf(self, value: Any) -> Any:
        return self.loc - self.scale * facula.log(-facula.log(value))

    def entropy(self) -> Any:
        return self.scale.log() + (1 + euler_constant)


class _Half(Distribution):
    """The absolute value of a distribution around 0."""

    arg_constraints = {"scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.nonnegative  # type: ignore[assignment]
    has_rsample = True
    base: type

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def _whole(self) -> Any:
        return type(self).base(facula.zeros_like(self.scale), self.scale, validate_args=False)

    @property
    def mode(self) -> Any:
        return facula.zeros_like(self.scale)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._whole.rsample(sample_shape).abs()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        inside = self._whole.log_prob(value) + math.log(2)
        return facula.where(value >= 0, inside, -math.inf)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self._whole.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        return self._whole.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self._whole.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal variable of mean 0."""

    base = Normal

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The absolute value of a Cauchy variable of median 0."""

    base = Cauchy

    @property
    def mean(self) -> Any:
        return facula.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Any:
        return self._whole.variance


class Uniform(Distribution):
    """Uniform numbers of [low, high)."""

    arg_constraints = {  # type: ignore[assignment]
        "low": constraints.dependent,
        "high": constraints.dependent,
    }
    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not (self.low < self.high).all():
            fail(
                ValueError, "Uniform", "Uniform is not defined when low>= high", f"{low} and {high}"
            )

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        return math.nan * self.high

    @property
    def variance(self) -> Any:
        return (self.high - self.low).square() / 12

    @property
    def stddev(self) -> Any:
        return (self.high - self.low) / math.sqrt(12)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        noise = facula.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + noise * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return facula.log(inside.to(self.low.dtype)) - facula.log(self.high - self.low)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return facula.log(self.high - self.low)


class Exponential(ExponentialFamily):
    """Waiting times of a rate."""

    arg_constraints = {"rate": constraints.positive}  # type: ignore[assignment]
    support = constraints.nonnegative  # type: ignore[assignment]
    has_rsample = True
    _mean_carrier_measure = 0  # type: ignore[assignment]

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate.reciprocal()

    stddev = mean

    @property
    def mode(self) -> Any:
        return facula.zeros_like(self.rate)

    @property
    def variance(self) -> Any:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -facula.expm1(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        return -facula.log1p(-value) / self.rate

    def entropy(self) -> Any:
        return 1 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return -facula.log(-x)


class Gamma(ExponentialFamily):
    """The gamma distribution of shape `concentration` and `rate`."""

    arg_constraints = {  # type: ignore[assignment]
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative  # type: ignore[assignment]
    has_rsample = True
    _mean_carrier_measure = 0  # type: ignore[assignment]

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        value = facula._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        tiny = facula.finfo(value.dtype).tiny
        # an underflow is lifted, and keeps its gradient
        return value + (tiny - value.detach()).clamp(min=0)

    def log_prob(self, value: Any) -> Any:
        value = facula.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration, self.rate
        return facula.xlogy(a, b) + facula.xlogy(a - 1, value) - b * value - facula.lgamma(a)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return facula.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + facula.lgamma(a) + (1 - a) * facula.digamma(a)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return facula.lgamma(x + 1) + (x + 1) * facula.log(-y.reciprocal())


class Chi2(Gamma):
    """Sums of `df` squared standard normal numbers."""

    arg_constraints = {"df": constraints.positive}  # type: ignore[assignment]

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (half,) = broadcast_all(df)
        super().__init__(0.5 * half, facula.full_like(half, 0.5), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Chi2, _instance)
        return self._expanded(batch_shape, new, ("concentration", "rate"))

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self.concentration * 2


class InverseGamma(Distribution):
    """The reciprocal of a gamma variable."""

    arg_constraints = {  # type: ignore[assignment]
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.positive  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        a = self.concentration
        return facula.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        a = self.concentration
        return facula.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        gamma = Gamma(self.concentration, self.rate, validate_args=False)
        return gamma.rsample(sample_shape).reciprocal()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration, self.rate
        return a * b.log() - facula.lgamma(a) - (a + 1) * value.log() - b / value

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return facula.special.gammaincc(self.concentration, self.rate / value)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + facula.lgamma(a) - (1 + a) * facula.digamma(a)


class Dirichlet(ExponentialFamily):
    """Points of a simplex."""

    arg_constraints = {  # type: ignore[assignment]
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            fail(
                ValueError,
                "Dirichlet",
                "`concentration` parameter must be at least one-dimensional.",
                concentration.dim(),
            )
        self.concentration = concentration
        shape = tuple(concentration.shape)
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return facula._sample_dirichlet(self.concentration.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        norm = facula.lgamma(a.sum(-1)) - facula.lgamma(a).sum(-1)
        return facula.xlogy(a - 1, value).sum(-1) + norm

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0)
        mode = above / above.sum(-1, True)
        flat = (self.concentration < 1).all(-1, keepdim=True)
        peak = facula.nn.functional.one_hot(
            self.concentration.argmax(-1), self.concentration.shape[-1]
        ).to(mode.dtype)
        return facula.where(flat, peak, mode)

    @property
    def variance(self) -> Any:
        a, total = self.concentration, self.concentration.sum(-1, True)
        return a * (total - a) / (total.square() * (total + 1))

    def entropy(self) -> Any:
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        return (
            facula.lgamma(a).sum(-1)
            - facula.lgamma(total)
            - (k - total) * facula.digamma(total)
            - ((a - 1) * facula.digamma(a)).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return facula.lgamma(x).sum(-1) - facula.lgamma(x.sum(-1))


class Beta(ExponentialFamily):
    """Numbers of (0, 1): the first part of a Dirichlet point of two."""

    arg_constraints = {  # type: ignore[assignment]
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval  # type: ignore[assignment]
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        both = broadcast_all(concentration1, concentration0)
        self._dirichlet = Dirichlet(facula.stack(both, -1), validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Beta, _instance)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        Distribution.__init__(new, batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def concentration1(self) -> Any:
        """The first shape."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        """The second shape."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Any:
        return self._dirichlet.mean[..., 0]

    @property
    def mode(self) -> Any:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        return self._dirichlet.variance[..., 0]

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        # the second part by itself: 1 - value may round a simplex away
        a, b = self.concentration1, self.concentration0
        norm = facula.lgamma(a + b) - facula.lgamma(a) - facula.lgamma(b)
        return facula.xlogy(a - 1, value) + facula.special.xlog1py(b - 1, -value) + norm

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return facula.lgamma(x) + facula.lgamma(y) - facula.lgamma(x + y)


class StudentT(Distribution):
    """Student's t of `df` degrees of freedom."""

    arg_constraints = {  # type: ignore[assignment]
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return facula.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        wide = facula.where(self.df > 2, self.scale.square() * self.df / (self.df - 2), math.inf)
        return facula.where(self.df > 1, wide, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        x = facula.randn(shape, dtype=self.df.dtype, device=self.df.device)
        z = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * x * facula.rsqrt(z / self.df)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        y, df = (value - self.loc) / self.scale, self.df
        norm = self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi)
        norm = norm + facula.lgamma(0.5 * df) - facula.lgamma(0.5 * (df + 1))
        return -0.5 * (df + 1) * facula.log1p(y.square() / df) - norm

    def entropy(self) -> Any:
        df = self.df
        beta = facula.lgamma(0.5 * df) + math.lgamma(0.5) - facula.lgamma(0.5 * (df + 1))
        spread = 0.5 * (df + 1) * (facula.digamma(0.5 * (df + 1)) - facula.digamma(0.5 * df))
        return self.scale.log() + spread + 0.5 * df.log() + beta


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared variables over their degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}  # type: ignore[assignment]
    support = constraints.positive  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return facula.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Any:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return facula.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Any:
        a, b = self.df1, self.df2
        value = 2 * b.square() * (a + b - 2) / (a * (b - 2).square() * (b - 4))
        return facula.where(b > 4, value, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Any:
        first = Gamma(self.df1 * 0.5, self.df1, validate_args=False).rsample(sample_shape)
        second = Gamma(self.df2 * 0.5, self.df2, validate_args=False).rsample(sample_shape)
        return first / second.clamp(min=facula.finfo(second.dtype).tiny)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        norm = facula.lgamma(a + b) - facula.lgamma(a) - facula.lgamma(b)
        body = a * ratio.log() + (a - 1) * value.log() - (a + b) * facula.log1p(ratio * value)
        return norm + body


class Pareto(Distribution):
    """Numbers from `scale` on with a power-law tail."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        return facula.where(self.alpha > 1, self.alpha * self.scale / (self.alpha - 1), math.inf)

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        a = self.alpha
        value = self.scale.square() * a / ((a - 1).square() * (a - 2))
        return facula.where(a > 2, value, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = self.scale.new_empty(self._extended_shape(sample_shape)).exponential_()
        return self.scale * facula.exp(noise / self.alpha)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * value.log()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 1 - (self.scale / value).pow(self.alpha)

    def icdf(self, value: Any) -> Any:
        return self.scale * (1 - value).pow(-1 / self.alpha)

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class GeneralizedPareto(Distribution):
    """Excesses over a threshold `loc`, with tail index `concentration`."""

    arg_constraints = {  # type: ignore[assignment]
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        upper = facula.where(
            self.concentration < 0, self.loc - self.scale / self.concentration, math.inf
        )
        return constraints.interval(self.loc, upper)

    def _small(self) -> tuple[Any, Any]:
        """Where the tail index counts as 0, and one that may be divided by."""
        zero = self.concentration.abs() < facula.finfo(self.concentration.dtype).eps
        return zero, facula.where(zero, 1.0, self.concentration)

    def icdf(self, value: Any) -> Any:
        zero, k = self._small()
        survival = facula.log1p(-value)
        return self.loc + self.scale * facula.where(
            zero, -survival, facula.expm1(-k * survival) / k
        )

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(facula.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        zero, k = self._small()
        z = (value - self.loc) / self.scale
        tail = facula.where(zero, -z, -(1 / k + 1) * facula.log1p(k * z))
        return tail - self.scale.log()

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of values above this one."""
        zero, k = self._small()
        z = (value - self.loc) / self.scale
        return facula.where(zero, -z, -facula.log1p(k * z) / k)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -facula.expm1(self.log_survival_function(value))

    log_cdf = property(lambda self: lambda value: facula.log(self.cdf(value)))

    @property
    def mean(self) -> Any:
        value = self.loc + self.scale / (1 - self.concentration)
        return facula.where(self.concentration < 1, value, math.inf)

    @property
    def variance(self) -> Any:
        k = self.concentration
        value = self.scale.square() / ((1 - k).square() * (1 - 2 * k))
        return facula.where(k < 0.5, value, math.inf)

    @property
    def mode(self) -> Any:
        return self.loc

    def entropy(self) -> Any:
        return self.scale.log() + self.concentration + 1


class Weibull(Distribution):
    """Powers of exponential waiting times."""

    arg_constraints = {  # type: ignore[assignment]
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.scale * facula.exp(facula.lgamma(1 + self.concentration.reciprocal()))

    @property
    def mode(self) -> Any:
        k = self.concentration
        return self.scale * ((k - 1) / k).clamp(min=0).pow(k.reciprocal())

    @property
    def variance(self) -> Any:
        inverse = self.concentration.reciprocal()
        second = facula.exp(facula.lgamma(1 + 2 * inverse))
        return self.scale.square() * (second - facula.exp(2 * facula.lgamma(1 + inverse)))

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = self.scale.new_empty(self._extended_shape(sample_shape)).exponential_()
        return self.scale * noise.pow(self.concentration.reciprocal())

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        k, z = self.concentration, value / self.scale
        return (k / self.scale).log() + (k - 1) * z.log() - z.pow(k)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -facula.expm1(-(value / self.scale).pow(self.concentration))

    def icdf(self, value: Any) -> Any:
        return self.scale * (-facula.log1p(-value)).pow(self.concentration.reciprocal())

    def entropy(self) -> Any:
        inverse = self.concentration.reciprocal()
        return euler_constant * (1 - inverse) + facula.log(self.scale * inverse) + 1


class Kumaraswamy(Distribution):
    """Numbers of (0, 1), much like `Beta`, with a simple distribution function."""

    arg_constraints = {  # type: ignore[assignment]
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval  # type: ignore[assignment]
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    def _moment(self, n: int) -> Any:
        a, b = self.concentration1, self.concentration0
        x = 1 + n / a
        return b * facula.exp(facula.lgamma(x) + facula.lgamma(b) - facula.lgamma(x + b))

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        value = ((a - 1) / (a * b - 1)).clamp(min=0).pow(1 / a)
        return facula.where((a >= 1) & (b >= 1) & ((a > 1) | (b > 1)), value, math.nan)

    @property
    def variance(self) -> Any:
        return self._moment(2) - self._moment(1).square()

    def icdf(self, value: Any) -> Any:
        inner = -facula.expm1(facula.log1p(-value) / self.concentration0)
        return inner.pow(1 / self.concentration1)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        inner = facula.log1p(-value.pow(self.concentration1))
        return -facula.expm1(self.concentration0 * inner)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        eps = facula.finfo(self.concentration1.dtype).eps
        noise = facula.rand(
            shape, dtype=self.concentration1.dtype, device=self.concentration1.device
        )
        return self.icdf(noise.clamp(min=eps, max=1 - eps))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        rest = facula.special.xlog1py(b - 1, -value.pow(a))
        return a.log() + b.log() + facula.xlogy(a - 1, value) + rest

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        harmonic = facula.digamma(b + 1) + euler_constant
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()


class ContinuousBernoulli(ExponentialFamily):
    """Numbers of [0, 1] with density proportional to ``p^x (1 - p)^(1 - x)``.
    [Loaiza-Ganem & Cunningham 2019]
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.unit_interval  # type: ignore[assignment]
    has_rsample = True
    _mean_carrier_measure = 0  # type: ignore[assignment]

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            fail(
                ValueError,
                "ContinuousBernoulli",
                "Either `probs` or `logits` must be specified, but not both.",
            )
        self._lims = lims
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
        given = probs is not None
        self._param = self.probs if given else self.logits
        super().__init__(self._param.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._lims = self._lims  # type: ignore[attr-defined]
        return new

    @lazy_property
    def probs(self) -> Any:
        """The parameter as a number of (0, 1)."""
        return clamp_probs(facula.sigmoid(self.logits))

    @lazy_property
    def logits(self) -> Any:
        """The parameter as a logit."""
        return probs_to_logits(self.probs, is_binary=True)

    def _away(self) -> tuple[Any, Any]:
        """Where the parameter is far enough from 1/2, and one that is."""
        p = clamp_probs(self.probs)
        away = (p <= self._lims[0]) | (p > self._lims[1])
        return away, facula.where(away, p, self._lims[0])

    def _log_constant(self) -> Any:
        away, p = self._away()
        # (logit p) / (2 p - 1), by its series where p is close to 1/2
        exact = facula.log(facula.log1p(-p).sub(p.log()).abs()) - facula.log((1 - 2 * p).abs())
        x = (clamp_probs(self.probs) - 0.5).square()
        return facula.where(away, exact, math.log(2.0) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Any:
        away, p = self._away()
        exact = p / (2 * p - 1) + 1 / (facula.log1p(-p) - p.log())
        x = clamp_probs(self.probs) - 0.5
        return facula.where(away, exact, 0.5 + (1 / 3 + 16 / 45 * x.square()) * x)

    @property
    def variance(self) -> Any:
        away, p = self._away()
        exact = p * (p - 1) / (1 - 2 * p).square() + 1 / (facula.log1p(-p) - p.log()).square()
        x = (clamp_probs(self.probs) - 0.5).square()
        return facula.where(away, exact, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def icdf(self, value: Any) -> Any:
        away, p = self._away()
        exact = (facula.log1p(-p + value * (2 * p - 1)) - facula.log1p(-p)) / (
            p.log() - facula.log1p(-p)
        )
        return facula.where(away, exact, value).clamp(min=0, max=1)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        away, p = self._away()
        exact = (p.pow(value) * (1 - p).pow(1 - value) + p - 1) / (2 * p - 1)
        inside = facula.where(away, exact, value)
        return facula.where(value <= 0, 0.0, facula.where(value >= 1, 1.0, inside))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(facula.rand(shape, dtype=self._param.dtype, device=self._param.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        cross = facula.nn.functional.binary_cross_entropy_with_logits(
            logits, value, reduction="none"
        )
        return self._log_constant() - cross

    def entropy(self) -> Any:
        p = clamp_probs(self.probs)
        log0, log1 = facula.log1p(-p), p.log()
        return self.mean * (log0 - log1) - self._log_constant() - log0

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        near = x.abs() < 4e-3
        safe = facula.where(near, 1.0, x)
        exact = facula.log(facula.expm1(safe).abs()) - facula.log(safe.abs())
        return facula.where(near, 0.5 * x + x.square() / 24, exact)


class VonMises(Distribution):
    """Angles around `loc`: the normal distribution of the circle."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        # log I0 by the scaled function, which does not overflow
        return (
            k * (facula.cos(value - self.loc) - 1)
            - math.log(2 * math.pi)
            - facula.special.i0e(k).log()
        )

    @property
    def mean(self) -> Any:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Any:
        """The circular variance."""
        return 1 - facula.special.i1e(self.concentration) / facula.special.i0e(self.concentration)

    def sample(self, sample_shape: Any = ()) -> Any:
        """By a wrapped Cauchy envelope, in float64. [Best & Fisher 1979]"""
        shape = self._extended_shape(sample_shape)
        with facula.no_grad():
            k = self.concentration.double().expand(shape).reshape(-1)
            tau = 1 + facula.sqrt(1 + 4 * k.square())
            rho = (tau - facula.sqrt(2 * tau)) / (2 * k)
            wide = (1 + rho.square()) / (2 * rho)
            # close to uniform the root above cancels: its limit is 1 / k + k
            wide = facula.where(k < 1e-5, 1 / k + k, wide)
            result = facula.zeros_like(k)
            left = facula.arange(k.shape[0])
            while left.numel():
                u = facula.rand(3, left.numel(), dtype=k.dtype)
                z, r, c = facula.cos(math.pi * u[0]), wide[left], k[left]
                f = (1 + r * z) / (r + z)
                y = c * (r - f)
                taken = (y * (2 - y) - u[1] > 0) | (facula.log(y / u[1]) + 1 - y >= 0)
                angle = (u[2] - 0.5).sign() * f.clamp(-1, 1).acos()
                result[left[taken]] = angle[taken]
                left = left[~taken]
            turned = result.reshape(tuple(shape)) + self.loc.double() + math.pi
            return (turned.remainder(2 * math.pi) - math.pi).to(self.loc.dtype)
