"""Kullback-Leibler divergences between different families, and between normal distributions of
vectors.

Takes: two distributions. Gives: formulas for `kl.kl_divergence`.
Keeps true: where the first gives probability to what the second excludes, the divergence is
infinite.
"""

from __future__ import annotations

import math
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.distributions import continuous, continuous_shapes, discrete
from facula.distributions.kl import _infinite_outside, register_kl
from facula.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
    low_rank_log_det,
    low_rank_mahalanobis,
    mahalanobis,
)

Beta, Exponential = continuous.Beta, continuous.Exponential
Gamma, Gumbel, Laplace = continuous.Gamma, continuous.Gumbel, continuous.Laplace
Normal, Uniform = continuous.Normal, continuous.Uniform
Pareto, ContinuousBernoulli = continuous_shapes.Pareto, continuous_shapes.ContinuousBernoulli
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)

#: supports that reach beyond those of the second family
_WIDER: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    discrete.Poisson: (discrete.Bernoulli, discrete.Binomial),
}


def _infinite(p: Any, q: Any) -> Any:
    """The second excludes what the first allows."""
    parameter = getattr(p, next(iter(p.arg_constraints)))
    return parameter.new_full(p.batch_shape, math.inf)


for _first, _seconds in _WIDER.items():
    for _second in _seconds:
        register_kl(_first, _second)(_infinite)


def _expected_square(p: continuous.Distribution, centre: facula.Tensor) -> Any:
    """The mean of ``(x - centre)^2``."""
    return p.variance + (p.mean - centre).square()


def _against_normal(p: continuous.Distribution, q: continuous.Normal) -> Any:
    """Any family of known entropy, mean and variance against a normal one."""
    spread = _expected_square(p, q.loc) / (2 * q.scale.square())
    return -p.entropy() + HALF_LOG_TAU + q.scale.log() + spread


def _against_exponential(p: continuous.Distribution, q: continuous.Exponential) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


def _against_gamma(p: continuous.Distribution, q: continuous.Gamma, mean_log: facula.Tensor) -> Any:
    constant = facula.lgamma(q.concentration) - q.concentration * q.rate.log()
    return -p.entropy() + constant - (q.concentration - 1) * mean_log + q.rate * p.mean


for _first in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace):
    register_kl(_first, Normal)(_against_normal)
for _first in (Beta, ContinuousBernoulli, Pareto, Uniform):
    register_kl(_first, Exponential)(_against_exponential)


@register_kl(Pareto, Normal)
def _pareto_normal(p: continuous_shapes.Pareto, q: continuous.Normal) -> Any:
    return facula.where(p.alpha <= 2, math.inf, _against_normal(p, q))


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Any:
    return facula.where(p.alpha <= 1, math.inf, _against_exponential(p, q))


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Any:
    total = p.concentration1 + p.concentration0
    return _against_gamma(p, q, facula.digamma(p.concentration1) - facula.digamma(total))


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Any:
    value = _against_gamma(p, q, p.scale.log() + p.alpha.reciprocal())
    return facula.where(p.alpha <= 1, math.inf, value)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Any:
    whole = facula.special.xlogy(p.high, p.high) - facula.special.xlogy(p.low, p.low)
    value = _against_gamma(p, q, whole / (p.high - p.low) - 1)
    return _infinite_outside(value, p.low < 0)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Any:
    return _infinite_outside(_against_exponential(p, q), p.low < 0)


def _within(p: continuous.Uniform, low: core.Tensor | float, high: core.Tensor | float) -> Any:
    return (p.low >= low) & (p.high <= high)


@register_kl(Uniform, Beta)
def _uniform_beta(p: continuous.Uniform, q: continuous.Beta) -> Any:
    xlogy, width = facula.special.xlogy, p.high - p.low
    up = (xlogy(p.high, p.high) - xlogy(p.low, p.low)) / width - 1
    down = (xlogy(1 - p.low, 1 - p.low) - xlogy(1 - p.high, 1 - p.high)) / width - 1
    a, b = q.concentration1, q.concentration0
    norm = facula.lgamma(a) + facula.lgamma(b) - facula.lgamma(a + b)
    value = -width.log() + norm - (a - 1) * up - (b - 1) * down
    return _infinite_outside(value, ~_within(p, 0, 1))


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Any:
    value = -p.entropy() - p.mean * q.logits - facula.log1p(-q.probs) - q._log_constant()
    return _infinite_outside(value, ~_within(p, 0, 1))


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Any:
    width = (p.high - p.low) / q.scale
    low, high = (p.low - q.loc) / q.scale, (p.high - q.loc) / q.scale
    tail = (facula.exp(-low) - facula.exp(-high)) / width
    return q.scale.log() - (p.high - p.low).log() + 0.5 * (low + high) + tail


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Any:
    xlogy = facula.special.xlogy
    mean_log = (xlogy(p.high, p.high) - xlogy(p.low, p.low)) / (p.high - p.low) - 1
    value = -p.entropy() - q.alpha.log() - q.alpha * q.scale.log() + (q.alpha + 1) * mean_log
    return _infinite_outside(value, p.low < q.scale)


def _uniform_inside(p: Any, q: Any) -> Any:
    """Families on [0, 1] against a uniform one that must hold it."""
    value = -p.entropy() + (q.high - q.low).log()
    return _infinite_outside(value, (q.low > 0) | (q.high < 1))


for _first in (Beta, ContinuousBernoulli):
    register_kl(_first, Uniform)(_uniform_inside)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.entropy() - p.mean * q.logits - facula.log1p(-q.probs) - q._log_constant()


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Any:
    scaled = p.rate * q.scale
    shift = q.loc / q.scale
    return (
        scaled.log() - 1 - shift + scaled.reciprocal() + facula.exp(shift) * scaled / (scaled + 1)
    )


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Any:
    scaled, shift = p.rate * q.scale, q.loc / q.scale
    tail = facula.exp(shift) * (1 + scaled.reciprocal()).pow(-p.concentration)
    return -p.entropy() + q.scale.log() - shift + p.concentration / scaled + tail


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Any:
    gap, ratio = (p.loc - q.loc) / q.scale, p.scale / q.scale
    return -p.entropy() + q.scale.log() + gap + facula.exp(0.5 * ratio.square() - gap)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    gap = p.loc - q.loc
    inner = gap / p.scale
    distance = math.sqrt(2 / math.pi) * p.scale * facula.exp(-0.5 * inner.square())
    distance = distance + gap * facula.erf(math.sqrt(0.5) * inner)
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


@register_kl(discrete.Binomial, discrete.Poisson)
def _binomial_poisson(p: discrete.Binomial, q: discrete.Poisson) -> Any:
    mean = p.total_count * p.probs
    return -p.entropy() - mean * q.rate.log() + q.rate + _mean_log_factorial(p)


def _mean_log_factorial(p: Any) -> Any:
    values = p.enumerate_support()
    return (p.log_prob(values).exp() * facula.lgamma(values + 1)).sum(0)


# ------------------------------------------------------------------ normal distributions of vectors


def _trace_of_ratio(p_factor: facula.Tensor, q_factor: facula.Tensor) -> Any:
    """The trace of ``(L_q L_q^T)^-1 L_p L_p^T``."""
    n = max(p_factor.shape[-2], q_factor.shape[-2])
    batch = facula.broadcast_shapes(tuple(p_factor.shape[:-2]), tuple(q_factor.shape[:-2]))
    left = q_factor.expand((*batch, n, n))
    right = p_factor.expand((*batch, n, p_factor.shape[-1]))
    return facula.linalg.solve_triangular(left, right, upper=False).square().sum((-2, -1))


@register_kl(MultivariateNormal, MultivariateNormal)
def _normals(p: MultivariateNormal, q: MultivariateNormal) -> Any:
    if p.event_shape != q.event_shape:
        fail(
            ValueError,
            "kl_divergence",
            (
                "KL-divergence between two Multivariate Normals with different event shapes "
                "cannot be computed"
            ),
            got=f"{tuple(p.event_shape)} and {tuple(q.event_shape)}",
            hint="both need vectors of one length",
        )
    own, other = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    volume = half_log_det(other) - half_log_det(own)
    distance = mahalanobis(other, q.loc - p.loc)
    return volume + 0.5 * (_trace_of_ratio(own, other) + distance - p.event_shape[0])


def _volume(distribution: Any) -> Any:
    """The logarithm of the determinant of the covariance."""
    if isinstance(distribution, LowRankMultivariateNormal):
        diagonal = distribution._unbroadcasted_cov_diag
        return low_rank_log_det(diagonal, distribution._capacitance_tril)
    return 2 * half_log_det(distribution._unbroadcasted_scale_tril)


def _roots(distribution: Any) -> list[Any]:
    """Matrices whose products with their transposes sum to the covariance."""
    if isinstance(distribution, LowRankMultivariateNormal):
        root = facula.diag_embed(distribution._unbroadcasted_cov_diag.sqrt())
        return [distribution._unbroadcasted_cov_factor, root]
    return [distribution._unbroadcasted_scale_tril]


def _low_rank_trace(root: facula.Tensor, q: LowRankMultivariateNormal) -> Any:
    """The trace of the inverse covariance of q times ``root root^T``: by Woodbury's identity."""
    diagonal, factor = q._unbroadcasted_cov_diag, q._unbroadcasted_cov_factor
    whole = (root.square() / diagonal.unsqueeze(-1)).sum((-2, -1))
    inner = (factor / diagonal.unsqueeze(-1)).mT @ root
    batch = facula.broadcast_shapes(tuple(inner.shape[:-2]), tuple(q._capacitance_tril.shape[:-2]))
    inner = inner.expand((*batch, *inner.shape[-2:]))
    capacitance = q._capacitance_tril.expand((*batch, *q._capacitance_tril.shape[-2:]))
    less = facula.linalg.solve_triangular(capacitance, inner, upper=False)
    return whole - less.square().sum((-2, -1))


def _low_rank(p: Any, q: Any) -> Any:
    """Against a covariance of low rank and a diagonal, or from one."""
    difference = q.loc - p.loc
    if isinstance(q, LowRankMultivariateNormal):
        factor, diagonal = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag
        distance = low_rank_mahalanobis(factor, diagonal, difference, q._capacitance_tril)
        trace = sum(_low_rank_trace(root, q) for root in _roots(p))
    else:
        other = q._unbroadcasted_scale_tril
        distance = mahalanobis(other, difference)
        trace = sum(_trace_of_ratio(root, other) for root in _roots(p))
    return 0.5 * (_volume(q) - _volume(p) + trace + distance - p.event_shape[0])


for _first, _second in (
    (LowRankMultivariateNormal, LowRankMultivariateNormal),
    (MultivariateNormal, LowRankMultivariateNormal),
    (LowRankMultivariateNormal, MultivariateNormal),
):
    register_kl(_first, _second)(_low_rank)
