"""Distributions made of others: independent events, transformed values, mixtures, and those that are
transforms of a known one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.distributions import constraints
from facula.distributions.continuous import Normal
from facula.distributions.discrete import Bernoulli, Categorical
from facula.distributions.distribution import Distribution
from facula.distributions.transforms import (
    ComposeTransform,
    ExpTransform,
    SigmoidTransform,
    StickBreakingTransform,
    Transform,
)
from facula.distributions.utils import broadcast_all, clamp_probs, sum_rightmost
from facula.nn import functional as F


class Independent(Distribution):
    """A distribution whose last batch dimensions count as dimensions of the event: log-probabilities
    are summed over them.

    Args:
        base_distribution: what is reread
        reinterpreted_batch_ndims: how many dimensions
        validate_args: whether parameters and values are checked; None for the class's setting

    Example:
        >>> p = facula.distributions.Independent(facula.distributions.Normal(facula.zeros(3), 1.0), 1)
        >>> p.batch_shape, p.event_shape, p.log_prob(facula.zeros(3))
        (facula.Size([]), facula.Size([3]), tensor(-2.7568))
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = tuple(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > len(batch):
            fail(
                ValueError,
                "Independent",
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape)",
                f"{reinterpreted_batch_ndims} and {len(batch)}",
                hint="expand() gives the base more batch dimensions",
            )
        shape = batch + tuple(base_distribution.event_shape)
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Independent, _instance)
        inner = tuple(self.event_shape)[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(tuple(batch_shape) + inner)
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        base = self.base_dist.support
        if self.reinterpreted_batch_ndims:
            return constraints.independent(base, self.reinterpreted_batch_ndims)
        return base

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: core.Tensor) -> Any:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            fail(
                NotImplementedError,
                "Independent",
                "Enumeration over cartesian product is not implemented",
                hint="enumerate base_dist.enumerate_support() and combine the values",
            )
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The values of a distribution, put through transforms.

    Args:
        base_distribution: where values come from
        transforms: a `Transform` or a list, the first one first
        validate_args: whether parameters and values are checked; None for the class's setting

    Example:
        >>> d = facula.distributions
        >>> p = d.TransformedDistribution(d.Normal(0.0, 1.0), d.ExpTransform())
        >>> p.log_prob(facula.tensor(1.0))
        tensor(-0.9189)
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        given = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(given, (list, tuple)) or not all(isinstance(t, Transform) for t in given):
            fail(
                ValueError,
                "TransformedDistribution",
                "transforms must be a Transform or a list of Transforms",
                transforms,
                hint="the instances are in facula.distributions.transforms",
            )
        self.transforms = list(given)
        base_shape = tuple(base_distribution.batch_shape) + tuple(base_distribution.event_shape)
        base_events = len(base_distribution.event_shape)
        transform = ComposeTransform(self.transforms)
        if len(base_shape) < transform.domain.event_dim:
            fail(
                ValueError,
                "TransformedDistribution",
                f"base_distribution needs to have shape with size at least {transform.domain.event_dim}",
                base_shape,
                hint="expand() or Independent gives the base more dimensions",
            )
        shape = tuple(transform.forward_shape(base_shape))
        expanded = tuple(transform.inverse_shape(shape))
        if base_shape != expanded:
            cut = len(expanded) - base_events
            base_distribution = base_distribution.expand(expanded[:cut])
        more = transform.domain.event_dim - base_events
        if more > 0:
            base_distribution = Independent(base_distribution, more)
        self.base_dist = base_distribution
        events = transform.codomain.event_dim + max(base_events - transform.domain.event_dim, 0)
        cut = len(shape) - events
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(TransformedDistribution, _instance)
        new.transforms = self.transforms
        whole = tuple(batch_shape) + tuple(self.event_shape)
        for t in reversed(self.transforms):
            whole = tuple(t.inverse_shape(whole))
        cut = len(whole) - len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(whole[:cut])
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def _forward(self, x: core.Tensor) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with facula.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        event_dim, result, y = len(self.event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            change = transform.log_abs_det_jacobian(x, y)
            result = result - sum_rightmost(change, event_dim - transform.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return result + sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _monotonic(self, value: core.Tensor) -> Any:
        """The probability turned around where the transforms fall."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: core.Tensor) -> Any:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonic(self.base_dist.cdf(value))

    def icdf(self, value: core.Tensor) -> Any:
        return self._forward(self.base_dist.icdf(self._monotonic(value)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist!r}, {self.transforms!r})"


class LogNormal(TransformedDistribution):
    """The exponential of a normal variable.

    Args:
        loc: mean of the logarithm
        scale: standard deviation of the logarithm, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.LogNormal(facula.tensor(0.0), facula.tensor(1.0))
        >>> p.mean, p.log_prob(facula.tensor(1.0))
        (tensor(1.6487), tensor(-0.9189))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc: object, scale: object, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(LogNormal, _instance))

    @property
    def loc(self) -> Any:
        """The mean of the logarithm."""
        return self.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Any:
        """The deviation of the logarithm."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Any:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Points of a simplex of K + 1: a normal vector of K, by stick breaking. [Aitchison & Shen 1980]

    Args:
        loc: mean of the vector, ``[*, K]``
        scale: standard deviations, ``[*, K]``, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.LogisticNormal(facula.zeros(2), facula.ones(2))
        >>> p.event_shape, p.sample().sum().round()
        (facula.Size([3]), tensor(1.))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex

    def __init__(self, loc: object, scale: object, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))  # type: ignore[assignment]
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(LogisticNormal, _instance))

    @property
    def loc(self) -> Any:
        """The means of the normal vector."""
        return self.base_dist.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Any:
        """The deviations of the normal vector."""
        return self.base_dist.base_dist.scale  # type: ignore[attr-defined]


class LogitRelaxedBernoulli(Distribution):
    """Logits of relaxed Bernoulli values. [Maddison, Mnih & Teh 2017]

    Args:
        temperature: how far values are from 0 and 1, a number or tensor
        probs: the probability of 1; give it or ``logits``
        logits: the same as ``log(p / (1 - p))``
        validate_args: whether arguments and values are checked

    Example:
        >>> p = facula.distributions.LogitRelaxedBernoulli(facula.tensor(1.0), facula.tensor(0.5))
        >>> p.log_prob(facula.tensor(0.0)).exp()
        tensor(0.2500)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: object,
        probs: object = None,
        logits: object = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        base = Bernoulli(probs, logits, validate_args=validate_args)
        self.probs, self.logits = base.probs, base.logits
        self._param = base._param
        super().__init__(base.batch_shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        p = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(facula.rand(shape, dtype=p.dtype, device=p.device))
        noise = u.log() - (-u).log1p() + p.log() - (-p).log1p()
        return noise / self.temperature

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return facula.as_tensor(self.temperature).log() + difference - 2 * F.softplus(difference)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers of (0, 1) that come close to 0 or 1 at a low temperature, with gradients. [Maddison,
    Mnih & Teh 2017; Jang, Gu & Poole 2017]

    Args:
        temperature: positive
        probs: the probability of 1, in [0, 1]; give it or ``logits``
        logits: ``log(p / (1 - p))``
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.RelaxedBernoulli(facula.tensor(0.5), facula.tensor(0.3))
        >>> p.rsample((2,)).shape
        facula.Size([2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(
        self,
        temperature: object,
        probs: object = None,
        logits: object = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedBernoulli, _instance))

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)


class ExpRelaxedCategorical(Distribution):
    """Logarithms of relaxed one-hot vectors. [Maddison, Mnih & Teh 2017]

    Args:
        temperature: how far values are from the logarithms of 0 and 1, a number or tensor
        probs: not negative, their sums divide them; give it or ``logits``
        logits: unnormalised logarithms of the same
        validate_args: whether arguments and values are checked

    Example:
        >>> d = facula.distributions.ExpRelaxedCategorical(facula.tensor(1.0), facula.ones(3))
        >>> bool((d.rsample().exp().sum() - 1).abs() < 1e-5)
        True
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: object,
        probs: object = None,
        logits: object = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        base = Categorical(probs, logits)
        self.probs, self.logits = base.probs, base.logits
        self._param = base._param
        shape = tuple(base.param_shape)
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(facula.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        count = int(self.event_shape[0])
        logits, value = broadcast_all(self.logits, value)
        norm = math.lgamma(count) + (count - 1) * facula.as_tensor(self.temperature).log()
        score = logits - value * self.temperature
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + norm


class RelaxedOneHotCategorical(TransformedDistribution):
    """Points of a simplex that come close to its corners at a low temperature, with gradients.
    [Maddison, Mnih & Teh 2017; Jang, Gu & Poole 2017]

    Args:
        temperature: positive
        probs: of each class along the last dimension, scaled to sum to 1; give it or ``logits``
        logits: log-probabilities of the classes, up to a constant
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.RelaxedOneHotCategorical(facula.tensor(0.5), facula.tensor([0.3, 0.7]))
        >>> p.rsample().sum().round()
        tensor(1.)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex

    def __init__(
        self,
        temperature: object,
        probs: object = None,
        logits: object = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(RelaxedOneHotCategorical, _instance)
        return super().expand(batch_shape, new)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)


class MixtureSameFamily(Distribution):
    """One of several distributions, chosen at random.

    Args:
        mixture_distribution: a `Categorical` over the components
        component_distribution: whose last batch dimension are the components
        validate_args: whether parameters and values are checked; None for the class's setting

    Example:
        >>> d = facula.distributions
        >>> parts = d.Normal(facula.tensor([-1.0, 1.0]), 1.0)
        >>> p = d.MixtureSameFamily(d.Categorical(facula.ones(2)), parts)
        >>> p.mean, p.variance
        (tensor(0.), tensor(2.))
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            fail(
                ValueError,
                "MixtureSameFamily",
                "The Mixture distribution needs to be an instance of Categorical",
                type(mixture_distribution).__name__,
                hint="Categorical(probs=weights) is one",
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        batch = tuple(component_distribution.batch_shape)
        if not batch or mixture_distribution._num_events != batch[-1]:
            fail(
                ValueError,
                "MixtureSameFamily",
                "`mixture_distribution` and `component_distribution` need one number of components",
                f"{mixture_distribution._num_events} and {batch}",
                hint="the last batch dimension of the components is the number of weights",
            )
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(
            batch[:-1], component_distribution.event_shape, validate_args=validate_args
        )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        count = self._mixture_distribution._num_events
        new._component_distribution = self._component_distribution.expand((*batch_shape, count))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._event_ndims = self._event_ndims
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _weights(self) -> Any:
        probs = self._mixture_distribution.probs
        return probs.reshape(tuple(probs.shape) + (1,) * self._event_ndims)

    @property
    def mean(self) -> Any:
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Any:
        weights, dim = self._weights(), -1 - self._event_ndims
        within = (weights * self._component_distribution.variance).sum(dim)
        means = self._component_distribution.mean
        return within + (weights * (means - self.mean.unsqueeze(dim)).square()).sum(dim)

    def cdf(self, value: core.Tensor) -> Any:
        parts = self._component_distribution.cdf(value.unsqueeze(-1 - self._event_ndims))
        return (parts * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        parts = self._component_distribution.log_prob(value.unsqueeze(-1 - self._event_ndims))
        return facula.logsumexp(parts + self._mixture_distribution.logits.log_softmax(-1), dim=-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with facula.no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            parts = self._component_distribution.sample(sample_shape)
            dim = len(tuple(sample_shape)) + len(self._batch_shape)
            index = chosen.reshape(tuple(chosen.shape) + (1,) * (self._event_ndims + 1))
            shape = list(parts.shape)
            shape[dim] = 1
            return parts.gather(dim, index.expand(shape)).squeeze(dim)
