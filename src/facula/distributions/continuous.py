"""Distributions of numbers: location-scale families, the gamma family, and bounded ones.

Takes: parameters as numbers or tensors. Gives: samples, densities, distribution functions, moments,
entropies. Keeps true: `rsample` has the derivative of a sample by the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.distributions import constraints
from facula.distributions.distribution import Distribution, ExponentialFamily
from facula.distributions.utils import (
    broadcast_all,
    euler_constant,
)

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class _LocationScale(Distribution):
    """Parameters `loc` and `scale` that broadcast."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: object, scale: object, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _checked(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution, density ``exp(-(x - loc)^2 / (2 scale^2)) / (scale sqrt(2 pi))``.

    Args:
        loc: the mean
        scale: the standard deviation, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Normal(facula.tensor(0.0), facula.tensor(1.0))
        >>> p.log_prob(facula.tensor(0.0)), p.cdf(facula.tensor(0.0))
        (tensor(-0.9189), tensor(0.5000))
    """

    _mean_carrier_measure = 0

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

    def log_prob(self, value: core.Tensor) -> Any:
        return -0.5 * self._checked(value).square() - self.scale.log() - HALF_LOG_TAU

    def cdf(self, value: core.Tensor) -> Any:
        return 0.5 * (1 + facula.erf(self._checked(value) / math.sqrt(2)))

    def icdf(self, value: core.Tensor) -> Any:
        return self.loc + self.scale * facula.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + HALF_LOG_TAU + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.loc / self.scale.square(), -0.5 * self.scale.square().reciprocal()

    def _log_normalizer(self, x: core.Tensor, y: core.Tensor) -> Any:
        return -0.25 * x.square() / y + 0.5 * facula.log(-math.pi / y)


class Laplace(_LocationScale):
    """The two-sided exponential distribution, density ``exp(-|x - loc| / scale) / (2 scale)``.

    Args:
        loc: the mean
        scale: positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Laplace(facula.tensor(0.0), facula.tensor(1.0))
        >>> p.log_prob(facula.tensor(0.0)), p.variance
        (tensor(-0.6931), tensor(2.))
    """

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
        u = self.loc.new_empty(self._extended_shape(sample_shape))
        u = u.uniform_(facula.finfo(u.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * facula.log1p(-u.abs())

    def log_prob(self, value: core.Tensor) -> Any:
        return -facula.log(2 * self.scale) - self._checked(value).abs()

    def cdf(self, value: core.Tensor) -> Any:
        z = self._checked(value)
        return 0.5 - 0.5 * z.sign() * facula.expm1(-z.abs())

    def icdf(self, value: core.Tensor) -> Any:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * facula.log1p(-2 * term.abs())

    def entropy(self) -> Any:
        return 1 + facula.log(2 * self.scale)


class Cauchy(_LocationScale):
    """The Cauchy distribution, density ``1 / (pi scale (1 + ((x - loc) / scale)^2))``; it has no mean.

    Args:
        loc: the median
        scale: half the width at half the height, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Cauchy(facula.tensor(0.0), facula.tensor(1.0))
        >>> p.cdf(facula.tensor(1.0)), p.mean
        (tensor(0.7500), tensor(nan))
    """

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

    def log_prob(self, value: core.Tensor) -> Any:
        return -math.log(math.pi) - self.scale.log() - self._checked(value).square().log1p()

    def cdf(self, value: core.Tensor) -> Any:
        return facula.atan(self._checked(value)) / math.pi + 0.5

    def icdf(self, value: core.Tensor) -> Any:
        return facula.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The distribution of a largest value: distribution function ``exp(-exp(-(x - loc) / scale))``.

    Args:
        loc: the mode
        scale: positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Gumbel(facula.tensor(0.0), facula.tensor(1.0))
        >>> p.mean, p.log_prob(facula.tensor(0.0))
        (tensor(0.5772), tensor(-1.))
    """

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
        limits = facula.finfo(self.loc.dtype)
        shape = self._extended_shape(sample_shape)
        share = facula.rand(shape, dtype=self.loc.dtype, device=self.loc.device)
        share = limits.tiny + share * (1 - limits.eps - limits.tiny)
        return self.loc - self.scale * (-share.log()).log()

    def log_prob(self, value: core.Tensor) -> Any:
        z = self._checked(value)
        return -z - facula.exp(-z) - self.scale.log()

    def cdf(self, value: core.Tensor) -> Any:
        return facula.exp(-facula.exp(-self._checked(value)))

    def icdf(self, value: core.Tensor) -> Any:
        return self.loc - self.scale * facula.log(-facula.log(value))

    def entropy(self) -> Any:
        return self.scale.log() + (1 + euler_constant)


class _Half(Distribution):
    """The absolute value of a distribution around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base: type

    def __init__(self, scale: core.Tensor, validate_args: bool | None = None) -> None:
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

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        inside = self._whole.log_prob(value) + math.log(2)
        return facula.where(value >= 0, inside, -math.inf)

    def cdf(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self._whole.cdf(value) - 1

    def icdf(self, prob: core.Tensor) -> Any:
        return self._whole.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self._whole.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal variable of mean 0.

    Args:
        scale: the normal variable's standard deviation, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.HalfNormal(facula.tensor(1.0))
        >>> p.mean, p.log_prob(facula.tensor(0.0))
        (tensor(0.7979), tensor(-0.2258))
    """

    base = Normal

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The absolute value of a Cauchy variable of median 0.

    Args:
        scale: of that variable, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.HalfCauchy(facula.tensor(1.0))
        >>> p.cdf(facula.tensor(1.0))
        tensor(0.5000)
    """

    base = Cauchy

    @property
    def mean(self) -> Any:
        return facula.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Any:
        return self._whole.variance


class Uniform(Distribution):
    """Uniform numbers of [low, high).

    Args:
        low: the lower end
        high: the upper end, larger
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Uniform(facula.tensor(0.0), facula.tensor(4.0))
        >>> p.mean, p.log_prob(facula.tensor(1.0))
        (tensor(2.), tensor(-1.3863))
    """

    arg_constraints = {
        "low": constraints.dependent(is_discrete=False, event_dim=0),
        "high": constraints.dependent(is_discrete=False, event_dim=0),
    }
    has_rsample = True

    def __init__(self, low: object, high: object, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not (self.low < self.high).all():
            fail(
                ValueError,
                "Uniform",
                "Uniform is not defined when low>= high",
                f"{low} and {high}",
                hint="exchange low and high where they are in the wrong order",
            )

    @constraints.dependent_property(is_discrete=False, event_dim=0)
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

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return facula.log(inside.to(self.low.dtype)) - facula.log(self.high - self.low)

    def cdf(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: core.Tensor) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return facula.log(self.high - self.low)


class Exponential(ExponentialFamily):
    """Waiting times: density ``rate exp(-rate x)`` for x from 0 on.

    Args:
        rate: positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Exponential(facula.tensor(2.0))
        >>> p.mean, p.log_prob(facula.tensor(0.0))
        (tensor(0.5000), tensor(0.6931))
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: core.Tensor, validate_args: bool | None = None) -> None:
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

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -facula.expm1(-self.rate * value)

    def icdf(self, value: core.Tensor) -> Any:
        return -facula.log1p(-value) / self.rate

    def entropy(self) -> Any:
        return 1 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: core.Tensor) -> Any:
        return -facula.log(-x)


class Gamma(ExponentialFamily):
    """The gamma distribution: density proportional to ``x^(concentration - 1) exp(-rate x)``.

    Args:
        concentration: the shape, positive
        rate: the inverse scale, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Gamma(facula.tensor(2.0), facula.tensor(4.0))
        >>> p.mean, p.log_prob(facula.tensor(0.5))
        (tensor(0.5000), tensor(0.0794))
    """

    arg_constraints = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, concentration: object, rate: object, validate_args: bool | None = None
    ) -> None:
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

    def log_prob(self, value: core.Tensor) -> Any:
        value = facula.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration, self.rate
        return facula.xlogy(a, b) + facula.xlogy(a - 1, value) - b * value - facula.lgamma(a)

    def cdf(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return facula.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + facula.lgamma(a) + (1 - a) * facula.digamma(a)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: core.Tensor, y: core.Tensor) -> Any:
        return facula.lgamma(x + 1) + (x + 1) * facula.log(-y.reciprocal())


class Chi2(Gamma):
    """The sum of ``df`` squared standard normal numbers.

    Args:
        df: degrees of freedom, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Chi2(facula.tensor(3.0))
        >>> p.mean, p.variance
        (tensor(3.), tensor(6.))
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: object, validate_args: bool | None = None) -> None:
        (half,) = broadcast_all(df)
        super().__init__(0.5 * half, facula.full_like(half, 0.5), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Chi2, _instance)
        return self._expanded(batch_shape, new, ("concentration", "rate"))

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """Points of a simplex: density proportional to the product of ``x_i^(concentration_i - 1)``.

    Args:
        concentration: ``[*, K]``, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Shape:
        events are vectors of K positive numbers that sum to 1.

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Dirichlet(facula.tensor([1.0, 3.0]))
        >>> p.mean, p.log_prob(facula.tensor([0.5, 0.5]))
        (tensor([0.2500, 0.7500]), tensor(-0.2877))
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: core.Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            fail(
                ValueError,
                "Dirichlet",
                "`concentration` parameter must be at least one-dimensional.",
                concentration.dim(),
                hint="concentration.reshape(1) has a dimension",
            )
        self.concentration = concentration
        shape = tuple(concentration.shape)
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return facula._sample_dirichlet(self.concentration.expand(shape))

    def log_prob(self, value: core.Tensor) -> Any:
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

    def _log_normalizer(self, x: core.Tensor) -> Any:
        return facula.lgamma(x).sum(-1) - facula.lgamma(x.sum(-1))


class Beta(ExponentialFamily):
    """Numbers of (0, 1): density proportional to ``x^(concentration1 - 1) (1 - x)^(concentration0 -
    1)``.

    Args:
        concentration1: alpha, positive
        concentration0: beta, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Beta(facula.tensor(2.0), facula.tensor(1.0))
        >>> p.mean, p.log_prob(facula.tensor(0.5))
        (tensor(0.6667), tensor(0.))
    """

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: object, concentration0: object, validate_args: bool | None = None
    ) -> None:
        both = broadcast_all(concentration1, concentration0)
        self._dirichlet = Dirichlet(facula.stack(both, -1), validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
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

    def log_prob(self, value: core.Tensor) -> Any:
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

    def _log_normalizer(self, x: core.Tensor, y: core.Tensor) -> Any:
        return facula.lgamma(x) + facula.lgamma(y) - facula.lgamma(x + y)
