"""Distributions of whole numbers and of choices.

Takes: probabilities or logits, rates, counts. Gives: samples, probabilities, moments, entropies.
Keeps true: of `probs` and `logits` exactly one is given, and the other follows from it.
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
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from facula.nn import functional as F


def _one_of(op: str, probs: core.Tensor | None, logits: core.Tensor | None) -> None:
    if (probs is None) == (logits is None):
        fail(
            ValueError,
            op,
            "Either `probs` or `logits` must be specified, but not both.",
            hint="pass one of them by its name: probs=... or logits=...",
        )


class _Chance(Distribution):
    """Binary probabilities, given as such or as logits."""

    _clamped = False

    def _take(self, probs: core.Tensor | None, logits: Any, *others: object) -> list[Any]:
        """Store the parameter that is given, broadcast with others; gives the others."""
        _one_of(type(self).__name__, probs, logits)
        name = "probs" if probs is not None else "logits"
        *rest, value = broadcast_all(*others, probs if probs is not None else logits)
        setattr(self, name, value)
        self._param = value
        return rest

    @lazy_property
    def logits(self) -> Any:
        """Log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.shape


class Bernoulli(_Chance, ExponentialFamily):
    """0 or 1.

    Args:
        probs: the probability of 1, in [0, 1]; give it or ``logits``
        logits: ``log(p / (1 - p))``
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Bernoulli(facula.tensor(0.25))
        >>> p.mean, p.log_prob(facula.tensor(1.0)), p.entropy()
        (tensor(0.2500), tensor(-1.3863), tensor(0.5623))
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return facula.where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        with facula.no_grad():
            return facula.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value.to(logits.dtype), reduction="none")

    def entropy(self) -> Any:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Any:
        values = facula.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((2,) + (1,) * len(self._batch_shape))
        return values.expand((2, *self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (facula.logit(self.probs),)

    def _log_normalizer(self, x: core.Tensor) -> Any:
        return F.softplus(x)


class Geometric(_Chance):
    """The number of failures before the first success.

    Args:
        probs: the probability of success, in (0, 1]; give it or ``logits``
        logits: ``log(p / (1 - p))``
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Geometric(facula.tensor(0.25))
        >>> p.mean, p.log_prob(facula.tensor(0.0))
        (tensor(3.), tensor(-1.3863))
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            fail(
                ValueError,
                "Geometric",
                "Expected parameter probs to be positive",
                self.probs,
                hint="probs is the probability of success of one trial",
            )

    @property
    def mean(self) -> Any:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Any:
        return facula.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with facula.no_grad():
            u = facula.rand(shape, dtype=self.probs.dtype, device=self.probs.device)
            u = u.clamp(min=facula.finfo(u.dtype).tiny)
            return (u.log() / facula.log1p(-self.probs)).floor()

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        return facula.special.xlog1py(value, -probs) + probs.log()

    def entropy(self) -> Any:
        return (
            F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
            / self.probs
        )


class Binomial(_Chance):
    """How many of ``total_count`` trials succeed.

    Args:
        total_count: the number of trials
        probs: the probability of success, in [0, 1]; give it or ``logits``
        logits: ``log(p / (1 - p))``
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Binomial(3, facula.tensor(0.5))
        >>> p.mean, p.log_prob(facula.tensor(1.0))
        (tensor(1.5000), tensor(-0.9808))
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = probs if probs is not None else logits
        _one_of("Binomial", probs, logits)
        count, like = broadcast_all(total_count, given)
        self.total_count = count.to(like.dtype)
        self._take(like if probs is not None else None, like if probs is None else None)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with facula.no_grad():
            return facula.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        choose = facula.lgamma(n + 1) - facula.lgamma(value + 1) - facula.lgamma(n - value + 1)
        return choose + value * logits - n * F.softplus(logits)

    def entropy(self) -> Any:
        total = int(self.total_count.max())
        if not self.total_count.min() == total:
            fail(
                NotImplementedError,
                "Binomial",
                "Inhomogeneous total count not supported by `entropy`.",
                hint="make a distribution for each total_count",
            )
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(facula.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        total = int(self.total_count.max())
        if not self.total_count.min() == total:
            fail(
                NotImplementedError,
                "Binomial",
                "Inhomogeneous total count not supported by `enumerate_support`.",
                hint="make a distribution for each total_count",
            )
        values = facula.arange(1 + total, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class NegativeBinomial(_Chance):
    """The number of successes before ``total_count`` failures.

    Args:
        total_count: failures to wait for
        probs: the probability of success, in [0, 1); give it or ``logits``
        logits: ``log(p / (1 - p))``
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.NegativeBinomial(2, facula.tensor(0.5))
        >>> p.mean, p.log_prob(facula.tensor(1.0))
        (tensor(2.), tensor(-1.3863))
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._take(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * facula.exp(self.logits)

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / facula.sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Poisson counts of gamma rates."""
        with facula.no_grad():
            shape = self._extended_shape(sample_shape)
            gamma = facula._standard_gamma(self.total_count.expand(shape))
            return facula.poisson(gamma * facula.exp(self.logits))

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        body = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        choose = facula.lgamma(n + value) - facula.lgamma(1 + value) - facula.lgamma(n)
        return body + facula.where(n + value == 0, 0.0, choose)


class Poisson(ExponentialFamily):
    """Counts of independent events: ``P(k) = rate^k exp(-rate) / k!``.

    Args:
        rate: the mean, not negative
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Poisson(facula.tensor(2.0))
        >>> p.mean, p.log_prob(facula.tensor(0.0))
        (tensor(2.), tensor(-2.))
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: core.Tensor, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    variance = mean

    @property
    def mode(self) -> Any:
        return self.rate.floor()

    def sample(self, sample_shape: Any = ()) -> Any:
        with facula.no_grad():
            return facula.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return facula.xlogy(value, rate) - rate - facula.lgamma(value + 1)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (facula.log(self.rate),)

    def _log_normalizer(self, x: core.Tensor) -> Any:
        return facula.exp(x)


class Categorical(Distribution):
    """A choice out of K classes, 0 to K - 1.

    Args:
        probs: of each class along the last dimension, scaled to sum to 1; give it or ``logits``
        logits: log-probabilities of the classes, up to a constant
        validate_args: whether parameters and values are checked; None for the class's setting

    Shape:
        parameters ``[*, K]``, samples ``[*]``, integers.

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Categorical(facula.tensor([1.0, 3.0]))
        >>> p.probs, p.log_prob(facula.tensor(1))
        (tensor([0.2500, 0.7500]), tensor(-0.2877))
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        _one_of("Categorical", probs, logits)
        given = probs if probs is not None else logits
        if given.dim() < 1:
            fail(
                ValueError,
                "Categorical",
                f"`{'probs' if probs is not None else 'logits'}` parameter must be at least "
                "one-dimensional.",
                given.dim(),
                hint="every row is a distribution: reshape(1) makes one of a number",
            )
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._param = self.probs if probs is not None else self.logits
        self._num_events = int(self._param.shape[-1])
        super().__init__(tuple(self._param.shape[:-1]), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._num_events = self._num_events  # type: ignore[attr-defined]
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        """Normalised log-probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.shape

    @property
    def mean(self) -> Any:
        shape = self._extended_shape()
        return facula.full(shape, math.nan, dtype=self.probs.dtype, device=self.probs.device)

    variance = mean

    @property
    def mode(self) -> Any:
        return self.probs.argmax(dim=-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        count = math.prod(tuple(sample_shape))
        flat = self.probs.detach().reshape(-1, self._num_events)
        drawn = (
            facula.multinomial(flat, count, True) if count else flat.new_empty((flat.shape[0], 0))
        )
        return drawn.T.reshape(tuple(self._extended_shape(sample_shape))).long()

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value = value.long().unsqueeze(-1)
        value, logits = facula.broadcast_tensors(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        logits = self.logits.clamp(min=facula.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = facula.arange(self._num_events, dtype=facula.int64, device=self._param.device)
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class _OverCategorical(Distribution):
    """What stands on a categorical distribution and has its parameters."""

    _categorical: Categorical

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Normalised log-probabilities."""
        return self._categorical.logits

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(type(self), _instance)
        new._categorical = self._categorical.expand(batch_shape)
        for name in ("total_count",):
            if hasattr(self, name):
                setattr(new, name, getattr(self, name))
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new


class OneHotCategorical(_OverCategorical):
    """A choice out of K classes, as a vector with one 1.

    Args:
        probs: of each class along the last dimension, scaled to sum to 1; give it or ``logits``
        logits: log-probabilities of the classes, up to a constant
        validate_args: whether parameters and values are checked; None for the class's setting

    Shape:
        parameters and samples ``[*, K]``.

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.OneHotCategorical(facula.tensor([1.0, 3.0]))
        >>> p.mean, p.log_prob(facula.tensor([0.0, 1.0]))
        (tensor([0.2500, 0.7500]), tensor(-0.2877))
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = tuple(self._categorical.param_shape)
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return F.one_hot(self.probs.argmax(-1), self.probs.shape[-1]).to(self.probs.dtype)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        indices = self._categorical.sample(sample_shape)
        return F.one_hot(indices, self._categorical._num_events).to(self.probs.dtype)

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n = int(self.event_shape[0])
        values = facula.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose ``rsample`` passes gradients on to the probabilities. [Bengio, Leonard
    & Courville 2013]

    Args:
        probs: of each class along the last dimension, scaled to sum to 1; give it or ``logits``
        logits: log-probabilities of the classes, up to a constant
        validate_args: whether parameters and values are checked; None for the class's setting

    Shape:
        parameters and samples ``[*, K]``.

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.OneHotCategoricalStraightThrough(facula.tensor([1.0, 3.0]))
        >>> p.rsample().sum()
        tensor(1.)
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(_OverCategorical):
    """Counts of ``total_count`` choices out of K classes.

    Args:
        total_count: the number of choices, one int
        probs: of each class along the last dimension, scaled to sum to 1; give it or ``logits``
        logits: log-probabilities of the classes, up to a constant
        validate_args: whether parameters and values are checked; None for the class's setting

    Shape:
        parameters and samples ``[*, K]``; samples sum to ``total_count``.

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Multinomial(4, facula.tensor([1.0, 3.0]))
        >>> p.mean, p.log_prob(facula.tensor([1.0, 3.0]))
        (tensor([1., 3.]), tensor(-0.8630))
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            fail(
                NotImplementedError,
                "Multinomial",
                "inhomogeneous total_count is not supported",
                hint="make a distribution for each total_count",
            )
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        shape = tuple(self._categorical.param_shape)
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        drawn = self._categorical.sample((self.total_count, *tuple(sample_shape)))
        counted = F.one_hot(drawn, self._categorical._num_events).sum(0)
        return counted.to(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = facula.where((value == 0) & (logits == -math.inf), 0.0, logits)
        factorials = facula.lgamma(value.sum(-1) + 1) - facula.lgamma(value + 1).sum(-1)
        return factorials + (logits * value).sum(-1)

    def entropy(self) -> Any:
        n = facula.tensor(float(self.total_count), dtype=self.probs.dtype)
        binomial = Binomial(self.total_count, probs=self.probs)
        support = binomial.enumerate_support()[1:]
        weighted = facula.exp(binomial.log_prob(support)) * facula.lgamma(support + 1)
        return n * self._categorical.entropy() - facula.lgamma(n + 1) + weighted.sum((0, -1))
