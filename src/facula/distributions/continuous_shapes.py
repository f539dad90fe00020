"""Continuous distributions with heavy tails, on bounded intervals, and on the circle.

Takes parameters of any shapes that broadcast. Gives `Distribution`s.
Keeps true: as in `continuous`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.distributions import constraints
from facula.distributions.continuous import HALF_LOG_TAU, Chi2, Gamma  # noqa: F401
from facula.distributions.distribution import Distribution, ExponentialFamily
from facula.distributions.utils import (
    broadcast_all,
    clamp_probs,
    euler_constant,
    lazy_property,
    probs_to_logits,
)


class StudentT(Distribution):
    """Student's t: density proportional to ``(1 + ((x - loc) / scale)^2 / df)^(-(df + 1) / 2)``.
    [Gosset 1908]

    Args:
        df: degrees of freedom, positive
        loc: the median
        scale: positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.StudentT(facula.tensor(3.0))
        >>> p.variance, p.log_prob(facula.tensor(0.0))
        (tensor(3.), tensor(-1.0009))
    """

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self, df: object, loc: object = 0.0, scale: object = 1.0, validate_args: bool | None = None
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

    def log_prob(self, value: core.Tensor) -> Any:
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
    """The ratio of two chi-squared variables over their degrees of freedom.

    Args:
        df1, df2: degrees of freedom, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.FisherSnedecor(facula.tensor(1.0), facula.tensor(4.0))
        >>> p.mean, p.log_prob(facula.tensor(1.0))
        (tensor(2.), tensor(-1.5387))
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: object, df2: object, validate_args: bool | None = None) -> None:
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

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        norm = facula.lgamma(a + b) - facula.lgamma(a) - facula.lgamma(b)
        body = a * ratio.log() + (a - 1) * value.log() - (a + b) * facula.log1p(ratio * value)
        return norm + body


class Pareto(Distribution):
    """Numbers from ``scale`` on with a power-law tail: ``P(X > x) = (scale / x)^alpha``.

    Args:
        scale: the least value, positive
        alpha: the tail's exponent, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Pareto(facula.tensor(1.0), facula.tensor(2.0))
        >>> p.mean, p.log_prob(facula.tensor(2.0))
        (tensor(2.), tensor(-1.3863))
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    has_rsample = True

    def __init__(
        self, scale: core.Tensor, alpha: object, validate_args: bool | None = None
    ) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
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

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * value.log()

    def cdf(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 1 - (self.scale / value).pow(self.alpha)

    def icdf(self, value: core.Tensor) -> Any:
        return self.scale * (1 - value).pow(-1 / self.alpha)

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class GeneralizedPareto(Distribution):
    """Excesses over a threshold. [Pickands 1975]

    Args:
        loc: the threshold
        scale: positive
        concentration: the tail index; 0 is the exponential distribution
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.GeneralizedPareto(facula.tensor(0.0), facula.tensor(1.0), facula.tensor(0.5))
        >>> p.log_prob(facula.tensor(1.0)), p.mean
        (tensor(-1.2164), tensor(2.))
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self, loc: object, scale: object, concentration: object, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        upper = facula.where(
            self.concentration < 0, self.loc - self.scale / self.concentration, math.inf
        )
        return constraints.interval(self.loc, upper)

    def _small(self) -> tuple[Any, Any]:
        """Where the tail index counts as 0, and one that may be divided by."""
        zero = self.concentration.abs() < facula.finfo(self.concentration.dtype).eps
        return zero, facula.where(zero, 1.0, self.concentration)

    def icdf(self, value: core.Tensor) -> Any:
        zero, k = self._small()
        survival = facula.log1p(-value)
        return self.loc + self.scale * facula.where(
            zero, -survival, facula.expm1(-k * survival) / k
        )

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(facula.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        zero, k = self._small()
        z = (value - self.loc) / self.scale
        tail = facula.where(zero, -z, -(1 / k + 1) * facula.log1p(k * z))
        return tail - self.scale.log()

    def log_survival_function(self, value: core.Tensor) -> Any:
        """The logarithm of the probability of values above this one."""
        zero, k = self._small()
        z = (value - self.loc) / self.scale
        return facula.where(zero, -z, -facula.log1p(k * z) / k)

    def cdf(self, value: core.Tensor) -> Any:
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
    """Powers of waiting times: ``P(X > x) = exp(-(x / scale)^concentration)``.

    Args:
        scale: positive
        concentration: the shape, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Weibull(facula.tensor(1.0), facula.tensor(2.0))
        >>> p.mean, p.log_prob(facula.tensor(1.0))
        (tensor(0.8862), tensor(-0.3069))
    """

    arg_constraints = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True

    def __init__(
        self, scale: object, concentration: object, validate_args: bool | None = None
    ) -> None:
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

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        k, z = self.concentration, value / self.scale
        return (k / self.scale).log() + (k - 1) * z.log() - z.pow(k)

    def cdf(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -facula.expm1(-(value / self.scale).pow(self.concentration))

    def icdf(self, value: core.Tensor) -> Any:
        return self.scale * (-facula.log1p(-value)).pow(self.concentration.reciprocal())

    def entropy(self) -> Any:
        inverse = self.concentration.reciprocal()
        return euler_constant * (1 - inverse) + facula.log(self.scale * inverse) + 1


class Kumaraswamy(Distribution):
    """Numbers of (0, 1) with distribution function ``1 - (1 - x^concentration1)^concentration0``; much
    like `Beta`. [Kumaraswamy 1980]

    Args:
        concentration1: positive
        concentration0: positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Kumaraswamy(facula.tensor(1.0), facula.tensor(1.0))
        >>> p.mean, p.log_prob(facula.tensor(0.5))
        (tensor(0.5000), tensor(0.))
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

    def icdf(self, value: core.Tensor) -> Any:
        inner = -facula.expm1(facula.log1p(-value) / self.concentration0)
        return inner.pow(1 / self.concentration1)

    def cdf(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        inner = facula.log1p(-value.pow(self.concentration1))
        return -facula.expm1(self.concentration0 * inner)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        noise = facula.rand(
            shape, dtype=self.concentration1.dtype, device=self.concentration1.device
        )
        rest = 1 - noise.pow(self.concentration0.reciprocal())
        return rest.pow(self.concentration1.reciprocal())

    def log_prob(self, value: core.Tensor) -> Any:
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
    """Numbers of [0, 1] with density proportional to ``p^x (1 - p)^(1 - x)``. [Loaiza-Ganem &
    Cunningham 2019]

    Args:
        probs: p, in (0, 1); give it or ``logits``
        logits: ``log(p / (1 - p))``
        lims: around 1/2, between which a Taylor series is used
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.ContinuousBernoulli(facula.tensor(0.25))
        >>> p.mean, p.log_prob(facula.tensor(0.5))
        (tensor(0.4102), tensor(-0.0498))
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: object = None,
        logits: object = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            fail(
                ValueError,
                "ContinuousBernoulli",
                "Either `probs` or `logits` must be specified, but not both.",
                hint="logits are log(probs / (1 - probs))",
            )
        self._lims = lims
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
        given = probs is not None
        self._param = self.probs if given else self.logits
        super().__init__(self._param.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: object = None) -> Any:
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

    def icdf(self, value: core.Tensor) -> Any:
        away, p = self._away()
        exact = (facula.log1p(-p + value * (2 * p - 1)) - facula.log1p(-p)) / (
            p.log() - facula.log1p(-p)
        )
        return facula.where(away, exact, value).clamp(min=0, max=1)

    def cdf(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        away, p = self._away()
        exact = (p.pow(value) * (1 - p).pow(1 - value) + p - 1) / (2 * p - 1)
        inside = facula.where(away, exact, value)
        return facula.where(value <= 0, 0.0, facula.where(value >= 1, 1.0, inside))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(facula.rand(shape, dtype=self._param.dtype, device=self._param.device))

    def log_prob(self, value: core.Tensor) -> Any:
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

    def _log_normalizer(self, x: core.Tensor) -> Any:
        near = x.abs() < 4e-3
        safe = facula.where(near, 1.0, x)
        exact = facula.log(facula.expm1(safe).abs()) - facula.log(safe.abs())
        return facula.where(near, 0.5 * x + x.square() / 24, exact)


class VonMises(Distribution):
    """Angles around ``loc``: density proportional to ``exp(concentration cos(x - loc))``. Samples by
    rejection. [Best & Fisher 1979]

    Args:
        loc: the mean angle
        concentration: the inverse of a variance, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.VonMises(facula.tensor(0.0), facula.tensor(1.0))
        >>> p.log_prob(facula.tensor(0.0)), p.mean
        (tensor(-1.0738), tensor(0.))
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(
        self, loc: object, concentration: object, validate_args: bool | None = None
    ) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: core.Tensor) -> Any:
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
            given = self.concentration.double()
            k = facula.where(given < 0, math.nan, given).clamp(min=1e-200)
            tau = 1 + facula.sqrt(1 + 4 * k.square())
            rho = (tau - facula.sqrt(2 * tau)) / (2 * k)
            r = (1 + rho.square()) / (2 * rho)
            # close to uniform the root above cancels: its limit is 1 / k + k
            r = facula.where(k < 1e-5, 1 / k + k, r)
            result = facula.zeros(shape, dtype=k.dtype, device=k.device)
            # what is no number is never taken
            done = k.isnan().expand(shape).clone()
            result = facula.where(done, k, result)
            # nothing is taken where `r` is 1 in float64; a normal variable is as near as that
            narrow = (k > 1e10).expand(shape)
            if bool(narrow.any()):
                near = facula.randn(shape, dtype=k.dtype, device=k.device) / k.sqrt()
                result, done = facula.where(narrow, near, result), done | narrow
            fixed = done
            while not bool(done.all()):  # what is done draws along, and may be replaced
                u = facula.rand((3, *shape), dtype=k.dtype, device=k.device)
                z = facula.cos(math.pi * u[0])
                f = (1 + r * z) / (r + z)
                y = k * (r - f)
                taken = (y * (2 - y) - u[1] > 0) | (facula.log(y / u[1]) + 1 - y >= 0)
                angle = (u[2] - 0.5).sign() * f.clamp(-1, 1).acos()
                result = facula.where(taken & ~fixed, angle, result)
                done = done | taken
            turned = result + math.pi + self.loc.double()
            return (turned.remainder(2 * math.pi) - math.pi).to(self.loc.dtype)


class InverseGamma(Distribution):
    """The reciprocal of a gamma variable.

    Args:
        concentration: the shape, positive
        rate: the scale of the reciprocal, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.InverseGamma(facula.tensor(3.0), facula.tensor(4.0))
        >>> p.mean, p.log_prob(facula.tensor(1.0))
        (tensor(2.), tensor(-0.5343))
    """

    arg_constraints = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True

    def __init__(
        self, concentration: object, rate: object, validate_args: bool | None = None
    ) -> None:
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

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration, self.rate
        return a * b.log() - facula.lgamma(a) - (a + 1) * value.log() - b / value

    def cdf(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return facula.special.gammaincc(self.concentration, self.rate / value)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + facula.lgamma(a) - (1 + a) * facula.digamma(a)
