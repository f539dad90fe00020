"""Distributions of vectors and matrices that need factorisations: normal with a covariance,
Wishart, LKJ.

Takes parameters of any leading shapes that broadcast; matrices by themselves or by their Cholesky
factor. Gives `Distribution`s. Keeps true: densities and samples go through triangular factors,
never through an explicit inverse.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail, message
from facula.distributions import constraints
from facula.distributions.continuous import Beta, Chi2
from facula.distributions.distribution import Distribution, ExponentialFamily
from facula.distributions.utils import lazy_property

LOG_TAU = math.log(2 * math.pi)


def precision_to_scale_tril(precision: core.Tensor) -> Any:
    """The lower Cholesky factor of the inverse of positive-definite matrices.

    The factor of the matrix turned by half a circle, turned back, is an upper one; its inverse is
    the result.
    """
    factor = facula.linalg.cholesky(precision.flip(-2, -1)).flip(-2, -1).mT
    one = facula.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return facula.linalg.solve_triangular(factor, one, upper=False)


def mahalanobis(factor: core.Tensor, difference: core.Tensor) -> Any:
    """``d^T (L L^T)^-1 d`` for vectors d that broadcast against lower factors L."""
    n, own = difference.shape[-1], tuple(factor.shape[:-2])
    batch = facula.broadcast_shapes(own, tuple(difference.shape[:-1]))
    inner = batch[len(batch) - len(own) :]
    columns = difference.expand((*batch, n)).reshape((-1, *inner, n)).movedim(0, -1)
    factor = factor.expand((*inner, n, n))
    solved = facula.linalg.solve_triangular(factor, columns, upper=False)
    return solved.square().sum(-2).movedim(-1, 0).reshape(batch)


def half_log_det(factor: core.Tensor) -> Any:
    """Half of the logarithm of the determinant of ``L L^T``."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _one_of(name: str, **given: Any) -> str:
    """The only keyword that was given."""
    found = [k for k, v in given.items() if v is not None]
    if len(found) != 1:
        fail(
            ValueError,
            name,
            f"Exactly one of {' or '.join(given)} may be specified.",
            found or "none",
            hint="pass one of them by its name",
        )
    return found[0]


def _given_matrix(op: str, covariance: Any, precision: Any, factor: Any) -> tuple[str, Any]:
    """The name and the value of the only matrix that was given."""
    given = {
        "covariance_matrix": covariance,
        "precision_matrix": precision,
        "scale_tril": factor,
    }
    name = _one_of(op, **given)
    if given[name].dim() < 2:
        fail(
            ValueError,
            op,
            f"{name} must be at least two-dimensional, with optional leading batch dimensions",
            f"{given[name].dim()}-d",
            hint="facula.diag_embed(vector) makes a matrix",
        )
    return name, given[name]


#: the lower Cholesky factor of the covariance, by what was given
_FACTOR: dict[str, Callable[[Any], Any]] = {
    "scale_tril": lambda matrix: matrix,
    "covariance_matrix": facula.linalg.cholesky,
    "precision_matrix": precision_to_scale_tril,
}


class _Matrices(Distribution):
    """Covariance, precision and Cholesky factor, each computed out of the one that was given."""

    _unbroadcasted_scale_tril: Any

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new: Any = super().expand(batch_shape, _instance)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    def _whole(self, matrix: core.Tensor) -> Any:
        size = matrix.shape[-1]
        return matrix.expand((*self._batch_shape, size, size))

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The product of the factor and its transpose."""
        factor = self._unbroadcasted_scale_tril
        return self._whole(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return self._whole(facula.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(_Matrices):
    """The normal distribution of vectors; give one of the three matrices.

    Args:
        loc: the mean, ``[*, n]``
        covariance_matrix: ``[*, n, n]``, positive definite
        precision_matrix: its inverse
        scale_tril: its lower Cholesky factor, which is what is computed with
        validate_args: whether parameters and values are checked; None for the class's setting

    Shape:
        samples are ``[*, n]``.

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.MultivariateNormal(facula.zeros(2), facula.eye(2))
        >>> p.log_prob(facula.zeros(2)), p.entropy()
        (tensor(-1.8379), tensor(2.8379))
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            fail(
                ValueError,
                "MultivariateNormal",
                "loc must be at least one-dimensional.",
                "0-d",
                hint="loc.reshape(1) has a dimension",
            )
        name, matrix = _given_matrix(
            "MultivariateNormal", covariance_matrix, precision_matrix, scale_tril
        )
        batch = facula.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        size = loc.shape[-1]
        setattr(self, name, matrix.expand((*batch, size, size)))
        self.loc = loc.expand((*batch, size))
        super().__init__(batch, (size,), validate_args=validate_args)
        self._unbroadcasted_scale_tril = _FACTOR[name](matrix)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        factor = self._unbroadcasted_scale_tril
        return factor.square().sum(-1).expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        noise = facula.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        factor = self._unbroadcasted_scale_tril
        distance = mahalanobis(factor, value - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_TAU + distance) - half_log_det(factor)

    def entropy(self) -> Any:
        own = half_log_det(self._unbroadcasted_scale_tril)
        return (0.5 * self._event_shape[0] * (1 + LOG_TAU) + own).expand(self._batch_shape)


def _check_low_rank(name: str, loc: Any, cov_factor: Any, cov_diag: Any) -> None:
    if loc.dim() < 1:
        fail(
            ValueError,
            name,
            "loc must be at least one-dimensional.",
            "0-d",
            hint="loc.reshape(1) has a dimension",
        )
    if cov_factor.dim() < 2:
        fail(
            ValueError,
            name,
            "cov_factor must be at least two-dimensional, with optional leading batch dimensions",
            f"{cov_factor.dim()}-d",
            hint="unsqueeze(-1) makes a matrix of one column",
        )
    size = loc.shape[-1]
    if cov_factor.shape[-2] != size:
        fail(
            ValueError,
            name,
            f"cov_factor must be a batch of matrices with shape {size} x m",
            hint=f"loc has {size} elements; every one has a row of cov_factor",
        )
    if cov_diag.shape[-1:] != (size,):
        fail(
            ValueError,
            name,
            f"cov_diag must be a batch of vectors with shape ({size},)",
            hint=f"loc has {size} elements; every one has a variance",
        )


def _low_rank_batch(loc: Any, cov_factor: Any, cov_diag: Any) -> tuple[int, ...]:
    """The batch shape of the three parameters, which must fit each other."""
    name = "LowRankMultivariateNormal"
    _check_low_rank(name, loc, cov_factor, cov_diag)
    try:
        return facula.broadcast_shapes(
            tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])
        )
    except RuntimeError as error:
        raise ValueError(
            message(
                name,
                (
                    f"Incompatible batch shapes: loc {tuple(loc.shape)}, cov_factor "
                    f"{tuple(cov_factor.shape)}, cov_diag {tuple(cov_diag.shape)}"
                ),
                hint="sizes of batch dimensions are equal or 1, from the last on",
            )
        ) from error


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors with covariance ``W W^T + diag(D)``; work is with matrices of
    k rows. [Woodbury 1950]

    Args:
        loc: the mean, ``[*, n]``
        cov_factor: W, ``[*, n, k]``
        cov_diag: D, ``[*, n]``, positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> factor, rest = facula.tensor([[1.0], [0.0]]), facula.ones(2)
        >>> p = facula.distributions.LowRankMultivariateNormal(facula.zeros(2), factor, rest)
        >>> p.covariance_matrix, p.log_prob(facula.zeros(2))
        (tensor([[2., 0.],
                [0., 1.]]), tensor(-2.1845))
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        batch = _low_rank_batch(loc, cov_factor, cov_diag)
        size = loc.shape[-1]
        self.loc = loc.expand((*batch, size))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, size))
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch, (size,), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))
        return new

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        own = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return own.expand((*self._batch_shape, *self._event_shape))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """``W W^T + diag(D)``."""
        factor = self._unbroadcasted_cov_factor
        own = factor @ factor.mT + facula.diag_embed(self._unbroadcasted_cov_diag)
        return own.expand((*self._batch_shape, *own.shape[-2:]))

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        one = facula.eye(scaled.shape[-2], dtype=scaled.dtype, device=scaled.device)
        own = root * facula.linalg.cholesky(scaled @ scaled.mT + one)
        return own.expand((*self._batch_shape, *own.shape[-2:]))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        half = facula.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        own = facula.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - half.mT @ half
        return own.expand((*self._batch_shape, *own.shape[-2:]))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        low = facula.randn((*shape[:-1], self.cov_factor.shape[-1]), **options)
        own = facula.randn(shape, **options)
        along = (self._unbroadcasted_cov_factor @ low.unsqueeze(-1)).squeeze(-1)
        return self.loc + along + self._unbroadcasted_cov_diag.sqrt() * own

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        factor, diagonal = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        distance = low_rank_mahalanobis(factor, diagonal, value - self.loc, self._capacitance_tril)
        own = low_rank_log_det(diagonal, self._capacitance_tril)
        return -0.5 * (self._event_shape[0] * LOG_TAU + own + distance)

    def entropy(self) -> Any:
        own = low_rank_log_det(self._unbroadcasted_cov_diag, self._capacitance_tril)
        whole = 0.5 * (self._event_shape[0] * (1 + LOG_TAU) + own)
        return whole.expand(self._batch_shape)


def capacitance_tril(factor: core.Tensor, diagonal: core.Tensor) -> Any:
    """The lower factor of ``I + W^T D^-1 W``."""
    inner = factor.mT @ (factor / diagonal.unsqueeze(-1))
    one = facula.eye(inner.shape[-1], dtype=inner.dtype, device=inner.device)
    return facula.linalg.cholesky(inner + one)


def low_rank_log_det(diagonal: core.Tensor, capacitance: core.Tensor) -> Any:
    """The logarithm of the determinant of ``W W^T + diag(D)``."""
    return 2 * half_log_det(capacitance) + diagonal.log().sum(-1)


def low_rank_mahalanobis(factor: Any, diagonal: Any, difference: Any, capacitance: Any) -> Any:
    """``d^T (W W^T + diag(D))^-1 d``."""
    scaled = difference / diagonal
    inner = (factor.mT @ scaled.unsqueeze(-1)).squeeze(-1)
    return (difference * scaled).sum(-1) - mahalanobis(capacitance, inner)


class Wishart(_Matrices, ExponentialFamily):
    """Sums of outer products of ``df`` normal vectors: positive-definite matrices; give one of the
    three. [Wishart 1928]

    Args:
        df: degrees of freedom, more than n - 1
        covariance_matrix: of the vectors, ``[*, n, n]``
        precision_matrix: its inverse
        scale_tril: its lower Cholesky factor
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.Wishart(facula.tensor(3.0), facula.eye(2))
        >>> p.mean, p.log_prob(facula.eye(2))
        (tensor([[3., 0.],
                [0., 3.]]), tensor(-3.5310))
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> Any:
        """What the parameters must satisfy; enough degrees of freedom for the size of the matrices."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = _given_matrix("Wishart", covariance_matrix, precision_matrix, scale_tril)
        if not isinstance(df, facula.Tensor):
            df = facula.tensor(float(df), dtype=matrix.dtype, device=matrix.device)
        batch = facula.broadcast_shapes(tuple(df.shape), tuple(matrix.shape[:-2]))
        event = tuple(matrix.shape[-2:])
        if bool((df <= event[-1] - 1).any()):
            fail(
                ValueError,
                "Wishart",
                "Value of df must be greater than ndim - 1",
                f"df={df}, ndim={event[-1]}",
                hint=f"take df above {event[-1] - 1}",
            )
        setattr(self, name, matrix.expand((*batch, *event)))
        self.df = df.expand(batch)
        self._batch_shape, self._event_shape = facula.Size(batch), facula.Size(event)
        super().__init__(batch, event, validate_args=validate_args)
        if bool((self.df < event[-1]).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        self._unbroadcasted_scale_tril = _FACTOR[name](matrix)

    def _degrees(self) -> Any:
        """The degrees of freedom that are left for each row of a sample."""
        size = self._event_shape[-1]
        used = facula.arange(size, dtype=self.df.dtype, device=self.df.device)
        return self.df.unsqueeze(-1) - used

    @property
    def mean(self) -> Any:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = facula.where(factor > 0, factor, math.nan)
        return factor[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Any:
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df[..., None, None] * (matrix.square() + outer)

    def rsample(self, sample_shape: Any = (), max_try_correction: Any = None) -> Any:
        """Products of the scale factor and random triangles. [Bartlett 1933]

        Samples that rounding made singular are drawn again, up to `max_try_correction` times (3; 10
        for few degrees of freedom).
        """
        if max_try_correction is None:
            max_try_correction = 3 if bool((self.df >= self._event_shape[-1]).all()) else 10
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sample = self._drawn(sample_shape)
            for _ in range(max_try_correction):
                singular = ~self.support.check(sample)
                if not bool(singular.any()):
                    return sample
                again = self._drawn(sample_shape)
                sample = facula.where(singular[..., None, None], again, sample)
        if bool((~self.support.check(sample)).any()):
            warnings.warn("Singular sample detected.", stacklevel=2)
        return sample

    def _drawn(self, sample_shape: Sequence[int]) -> Any:
        size = self._event_shape[-1]
        degrees = self._degrees().expand((*self._batch_shape, size))
        shape = (*sample_shape, *self._batch_shape)
        along = Chi2(degrees, validate_args=False).rsample(sample_shape)
        along = along.clamp(min=facula.finfo(along.dtype).tiny).sqrt()
        below = facula.randn((*shape, size, size), dtype=along.dtype, device=along.device).tril(-1)
        half = self._unbroadcasted_scale_tril @ (below + facula.diag_embed(along))
        return half @ half.mT

    def log_prob(self, value: core.Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        size, df, factor = self._event_shape[-1], self.df, self._unbroadcasted_scale_tril
        inner = facula.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        shape = (df - size - 1) / 2 * facula.linalg.slogdet(value).logabsdet
        norm = df * (size * math.log(2) / 2 + half_log_det(factor))
        return shape - inner / 2 - norm - facula.mvlgamma(df / 2, p=size)

    def entropy(self) -> Any:
        size, df = self._event_shape[-1], self.df
        volume = half_log_det(self._unbroadcasted_scale_tril)
        spread = (size + 1) * (size * math.log(2) / 2 + volume)
        digammas = facula.digamma(self._degrees() / 2).sum(-1)
        whole = spread + facula.mvlgamma(df / 2, p=size)
        return whole - (df - size - 1) / 2 * digammas + df * size / 2

    @property
    def _natural_params(self) -> Any:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: core.Tensor, y: core.Tensor) -> Any:
        size = self._event_shape[-1]
        power = y + (size + 1) / 2
        volume = -facula.linalg.slogdet(-2 * x).logabsdet + size * math.log(2)
        return power * volume + facula.mvlgamma(power, p=size)


class LKJCholesky(Distribution):
    """Lower Cholesky factors of random correlation matrices. [Lewandowski, Kurowicka & Joe 2009]

    Args:
        dim: rows of the matrices, at least 2
        concentration: 1 for uniform matrices, more for matrices near the identity; positive
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its range, or shapes do not broadcast.

    Example:
        >>> p = facula.distributions.LKJCholesky(2, 1.0)
        >>> p.log_prob(facula.eye(2)), p.sample().shape
        (tensor(-0.6931), facula.Size([2, 2]))
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            fail(
                ValueError,
                "LKJCholesky",
                "Expected dim to be an integer greater than or equal to 2.",
                dim,
                hint="a correlation matrix needs two variables",
            )
        self.dim = dim
        if not isinstance(concentration, facula.Tensor):
            concentration = facula.tensor(float(concentration))
        self.concentration = concentration
        batch = tuple(concentration.shape)
        self._beta = self._marginals(concentration)
        super().__init__(batch, (dim, dim), validate_args=validate_args)

    def _marginals(self, concentration: core.Tensor) -> Beta:
        """How much of each row's length lies off the diagonal."""
        rows = facula.arange(self.dim - 1, dtype=concentration.dtype, device=concentration.device)
        rows = 0.5 * facula.cat([rows.new_zeros((1,)), rows])
        top = concentration.unsqueeze(-1) + 0.5 * (self.dim - 2)
        return Beta(rows + 0.5, top - rows, validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new: Any = super().expand(batch_shape, _instance)
        new._beta = new._marginals(new.concentration)
        return new

    def sample(self, sample_shape: Any = ()) -> Any:
        """Onion sampling: each row is a direction and a share of its length."""
        with facula.no_grad():
            share = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            normal = facula.randn(shape, dtype=share.dtype, device=share.device).tril(-1)
            direction = normal / normal.norm(dim=-1, keepdim=True)
            direction = facula.cat(
                [facula.zeros_like(direction[..., :1, :]), direction[..., 1:, :]], -2
            )
            rows = share.sqrt() * direction
            tiny = facula.finfo(rows.dtype).tiny
            along = (1 - rows.square().sum(-1)).clamp(min=tiny).sqrt()
            return rows + facula.diag_embed(along)

    def log_prob(self, value: core.Tensor) -> Any:
        """By the powers of the diagonal. [Lewandowski et al. 2009, page 1999]"""
        if self._validate_args:
            self._validate_sample(value)
        count = self.dim - 1
        along = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        rest = facula.arange(2, self.dim + 1, device=value.device, dtype=self.concentration.dtype)
        power = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - rest
        body = (power * along.log()).sum(-1)
        alpha = self.concentration + 0.5 * count
        top = facula.mvlgamma(alpha - 0.5, p=count)
        constant = 0.5 * count * math.log(math.pi) + top - facula.lgamma(alpha) * count
        return body - constant


def _batch_mv(bmat: core.Tensor, bvec: core.Tensor) -> Any:
    """Matrices times vectors, of leading shapes that broadcast."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_lowrank_logdet(W: Any, D: Any, capacitance_tril: Any) -> Any:
    """The logarithm of the determinant of ``W W^T + diag(D)``, for libraries that call it."""
    return low_rank_log_det(D, capacitance_tril)


# names by which libraries import these
_precision_to_scale_tril = precision_to_scale_tril
_batch_mahalanobis = mahalanobis
_batch_capacitance_tril = capacitance_tril
_batch_lowrank_mahalanobis = low_rank_mahalanobis
