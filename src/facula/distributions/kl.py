"""Kullback-Leibler divergences between distributions.

Takes: two distributions. Gives: ``KL(p || q)``, by a formula registered for their classes.
Keeps true: the formula of the closest pair of classes is used; a pair without one raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula
from facula import core
from facula.core.errors import fail, no_attribute
from facula.distributions import composed, continuous, continuous_shapes, discrete
from facula.distributions.distribution import Distribution, ExponentialFamily
from facula.distributions.utils import euler_constant, sum_rightmost

_FORMULAS: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}
# The formula found for a pair of classes, or None; emptied when a formula is registered.
_FOUND: dict[tuple[type, type], Callable[[Any, Any], Any] | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator: the formula of `kl_divergence` for a pair of classes and their subclasses.

    Args:
        type_p, type_q: subclasses of `Distribution`, or classes that distributions of a library derive from too

    Raises:
        TypeError: one is no class.

    Example:
        >>> class Mine(facula.distributions.Normal):
        ...     pass
        >>> @facula.distributions.register_kl(Mine, Mine)
        ... def _(p, q):
        ...     return facula.zeros(())
        >>> facula.distributions.kl_divergence(Mine(0.0, 1.0), Mine(5.0, 1.0))
        tensor(0.)
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            fail(
                TypeError,
                "register_kl",
                "Expected type_p and type_q to be classes, as the subclasses of Distribution are",
                kind,
                hint="pass the classes, not instances",
            )

    def decorate(function: Callable[..., Any]) -> Any:
        _FORMULAS[type_p, type_q] = function
        _FOUND.clear()
        return function

    return decorate


def _formula(type_p: type, type_q: type) -> Callable[[Any, Any], Any] | None:
    """The formula whose classes are the closest, counted along both lines of inheritance."""
    if (type_p, type_q) in _FOUND:
        return _FOUND[type_p, type_q]
    found = []
    for (p, q), function in _FORMULAS.items():
        if issubclass(type_p, p) and issubclass(type_q, q):
            found.append((type_p.__mro__.index(p) + type_q.__mro__.index(q), function))
    closest = min(found, key=lambda pair: pair[0])[1] if found else None
    _FOUND[type_p, type_q] = closest
    return closest


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """The Kullback-Leibler divergence ``KL(p || q)``, in nats, for each member of the batch.

    Args:
        p, q: distributions

    Raises:
        NotImplementedError: no formula is registered for this pair of classes.

    Example:
        >>> p, q = facula.distributions.Normal(0.0, 1.0), facula.distributions.Normal(1.0, 1.0)
        >>> facula.distributions.kl_divergence(p, q)
        tensor(0.5000)
    """
    function = _formula(type(p), type(q))
    if function is None:
        fail(
            NotImplementedError,
            "kl_divergence",
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}",
            hint="register one with register_kl",
        )
    return function(p, q)


def _infinite_outside(value: core.Tensor, outside: core.Tensor) -> Any:
    return facula.where(outside, math.inf, value)


@register_kl(ExponentialFamily, ExponentialFamily)
def _same_family(p: ExponentialFamily, q: ExponentialFamily) -> Any:
    """The Bregman divergence of the log-normaliser. [Nielsen & Nock 2010]"""
    if type(p) is not type(q):
        fail(
            NotImplementedError,
            "kl_divergence",
            "The cross KL-divergence between different exponential families cannot be computed using "
            "Bregman divergences",
            f"{type(p).__name__} and {type(q).__name__}",
            hint="register_kl() adds a formula for the pair",
        )
    with facula.enable_grad():
        own = [x.detach().requires_grad_() for x in p._natural_params]
        normalizer = p._log_normalizer(*own)
        gradients = facula.autograd.grad(normalizer.sum(), own, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for theirs, mine, gradient in zip(q._natural_params, own, gradients, strict=True):
        result = result - sum_rightmost((theirs - mine) * gradient, len(q.event_shape))
    return result


@register_kl(continuous.Normal, continuous.Normal)
def _normal(p: continuous.Normal, q: continuous.Normal) -> Any:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(continuous.Laplace, continuous.Laplace)
def _laplace(p: continuous.Laplace, q: continuous.Laplace) -> Any:
    ratio, gap = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + gap / q.scale + ratio * facula.exp(-gap / p.scale) - 1


@register_kl(continuous.Cauchy, continuous.Cauchy)
def _cauchy(p: continuous.Cauchy, q: continuous.Cauchy) -> Any:
    spread = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return spread.log() - (4 * p.scale * q.scale).log()


@register_kl(continuous.Gumbel, continuous.Gumbel)
def _gumbel(p: continuous.Gumbel, q: continuous.Gumbel) -> Any:
    ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
    growth = facula.exp(shift + facula.lgamma(1 + ratio))
    return -ratio.log() - shift + ratio * euler_constant + growth - (1 + euler_constant)


@register_kl(continuous.HalfNormal, continuous.HalfNormal)
def _half_normal(p: continuous.HalfNormal, q: continuous.HalfNormal) -> Any:
    return _normal(p._whole, q._whole)


@register_kl(continuous.HalfCauchy, continuous.HalfCauchy)
def _half_cauchy(p: continuous.HalfCauchy, q: continuous.HalfCauchy) -> Any:
    return _cauchy(p._whole, q._whole)


@register_kl(continuous.Uniform, continuous.Uniform)
def _uniform(p: continuous.Uniform, q: continuous.Uniform) -> Any:
    value = ((q.high - q.low) / (p.high - p.low)).log()
    return _infinite_outside(value, (q.low > p.low) | (q.high < p.high))


@register_kl(continuous.Uniform, continuous.Normal)
def _uniform_normal(p: continuous.Uniform, q: continuous.Normal) -> Any:
    width = p.high - p.low
    middle = (0.5 * (p.high + p.low) - q.loc) / q.scale
    body = 0.5 * math.log(2 * math.pi) + q.scale.log() - width.log()
    return body + 0.5 * ((width / q.scale).square() / 12 + middle.square())


@register_kl(continuous.Exponential, continuous.Exponential)
def _exponential(p: continuous.Exponential, q: continuous.Exponential) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(continuous.Exponential, continuous.Gamma)
def _exponential_gamma(p: continuous.Exponential, q: continuous.Gamma) -> Any:
    ratio, a = q.rate / p.rate, q.concentration
    return -a * ratio.log() + ratio + facula.lgamma(a) + a * euler_constant - (1 + euler_constant)


@register_kl(continuous.Gamma, continuous.Gamma)
def _gamma(p: continuous.Gamma, q: continuous.Gamma) -> Any:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + facula.lgamma(b)
        - facula.lgamma(a)
        + (a - b) * facula.digamma(a)
        + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(continuous_shapes.InverseGamma, continuous_shapes.InverseGamma)
def _inverse_gamma(p: continuous_shapes.InverseGamma, q: continuous_shapes.InverseGamma) -> Any:
    # one and the same function of both samples, which can be undone, leaves the divergence
    one, other = (continuous.Gamma(d.concentration, d.rate, validate_args=False) for d in (p, q))
    return _gamma(one, other)


@register_kl(continuous.Gamma, continuous.Exponential)
def _gamma_exponential(p: continuous.Gamma, q: continuous.Exponential) -> Any:
    a = p.concentration
    return -p.entropy() - q.rate.log() + q.rate * a / p.rate


@register_kl(continuous.Beta, continuous.Beta)
def _beta(p: continuous.Beta, q: continuous.Beta) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(continuous.Dirichlet, continuous.Dirichlet)
def _dirichlet(p: continuous.Dirichlet, q: continuous.Dirichlet) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norm = facula.lgamma(total) - facula.lgamma(b.sum(-1))
    norm = norm + (facula.lgamma(b) - facula.lgamma(a)).sum(-1)
    return norm + ((a - b) * (facula.digamma(a) - facula.digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(continuous_shapes.Pareto, continuous_shapes.Pareto)
def _pareto(p: continuous_shapes.Pareto, q: continuous_shapes.Pareto) -> Any:
    ratio, alpha = p.scale / q.scale, q.alpha / p.alpha
    return _infinite_outside(q.alpha * ratio.log() - alpha.log() + alpha - 1, p.scale < q.scale)


@register_kl(continuous_shapes.ContinuousBernoulli, continuous_shapes.ContinuousBernoulli)
def _continuous_bernoulli(
    p: continuous_shapes.ContinuousBernoulli, q: continuous_shapes.ContinuousBernoulli
) -> Any:
    slope = p.mean * (p.logits - q.logits)
    constant = p._log_constant() + facula.log1p(-p.probs)
    return slope + constant - q._log_constant() - facula.log1p(-q.probs)


def _xlog_ratio(x: core.Tensor, y: core.Tensor) -> Any:
    """``x log(x / y)``: 0 where x is, infinite where only y is 0."""
    return facula.where(x == 0, 0.0, _infinite_outside(x * (x / y).log(), (y == 0) & (x > 0)))


@register_kl(discrete.Bernoulli, discrete.Bernoulli)
def _bernoulli(p: discrete.Bernoulli, q: discrete.Bernoulli) -> Any:
    return _xlog_ratio(p.probs, q.probs) + _xlog_ratio(1 - p.probs, 1 - q.probs)


@register_kl(discrete.Bernoulli, discrete.Poisson)
def _bernoulli_poisson(p: discrete.Bernoulli, q: discrete.Poisson) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(discrete.Binomial, discrete.Binomial)
def _binomial(p: discrete.Binomial, q: discrete.Binomial) -> Any:
    if (p.total_count < q.total_count).any():
        fail(
            NotImplementedError,
            "kl_divergence",
            "KL between Binomials where q.total_count > p.total_count is not implemented",
            hint="exchange p and q, or estimate it from samples: (p.log_prob(x) - "
            "q.log_prob(x)).mean()",
        )
    value = p.total_count * _bernoulli(p, q)
    return _infinite_outside(value, p.total_count > q.total_count)


@register_kl(discrete.Categorical, discrete.Categorical)
def _categorical(p: discrete.Categorical, q: discrete.Categorical) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms = facula.where(q.probs == 0, math.inf, terms)
    return facula.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(discrete.OneHotCategorical, discrete.OneHotCategorical)
def _one_hot(p: discrete.OneHotCategorical, q: discrete.OneHotCategorical) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(discrete.Geometric, discrete.Geometric)
def _geometric(p: discrete.Geometric, q: discrete.Geometric) -> Any:
    return -p.entropy() - facula.log1p(-q.probs) / p.probs - q.logits


@register_kl(discrete.Poisson, discrete.Poisson)
def _poisson(p: discrete.Poisson, q: discrete.Poisson) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(composed.Independent, composed.Independent)
def _independent(p: composed.Independent, q: composed.Independent) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        fail(
            NotImplementedError,
            "kl_divergence",
            "one number of reinterpreted dimensions was required",
            hint="make both with the same reinterpreted_batch_ndims",
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(composed.TransformedDistribution, composed.TransformedDistribution)
def _transformed(p: composed.TransformedDistribution, q: composed.TransformedDistribution) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        fail(
            NotImplementedError,
            "kl_divergence",
            "the same transforms were required",
            hint="estimate it from samples of p: (p.log_prob(x) - q.log_prob(x)).mean()",
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(composed.LogNormal, composed.LogNormal)
def _log_normal(p: composed.LogNormal, q: composed.LogNormal) -> Any:
    return _normal(p.base_dist, q.base_dist)


def __getattr__(name: str) -> Any:
    """A formula by the names of its classes, such as `_kl_normal_normal`."""
    if name == "_KL_REGISTRY":
        return _FORMULAS
    if name == "_KL_MEMOIZE":
        return _FOUND
    if name.startswith("_kl_"):
        for (p, q), function in _FORMULAS.items():
            if name == f"_kl_{p.__name__}_{q.__name__}".lower():
                return function
    raise no_attribute(__name__, name)
