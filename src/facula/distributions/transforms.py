"""Transforms: differentiable maps between supports, with the logarithm of their volume change.

Takes: a tensor. Gives: `t(x)`, `t.inv(y)`, `t.log_abs_det_jacobian(x, y)`.
Keeps true: `t.inv(t(x))` is `x` where the transform is bijective; a domain or codomain event of
`event_dim` dimensions gives one volume change.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

import facula
from facula import core
from facula.distributions import constraints
from facula.distributions.transform_base import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    identity_transform,
)
from facula.distributions.transform_base import _InverseTransform as _InverseTransform
from facula.distributions.utils import broadcast_all, sum_rightmost
from facula.nn import functional as F

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class _Rising(Transform):
    """A bijective map of numbers that rises; equal to others of its class."""

    domain = constraints.real
    bijective = True
    sign = +1

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = object.__hash__


class ExpTransform(_Rising):
    """``exp(x)``, to positive numbers.

    Args:
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.ExpTransform()
        >>> t(facula.tensor([0.5])), t.inv(t(facula.tensor([0.5])))
        (tensor([1.6487]), tensor([0.5000]))
    """

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: core.Tensor) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        return x


class PowerTransform(Transform):
    """``x^exponent`` of positive numbers.

    Args:
        exponent: the power
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.PowerTransform(2.0)
        >>> t(facula.tensor([0.5])), t.inv(t(facula.tensor([0.5])))
        (tensor([0.2500]), tensor([0.5000]))
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: core.Tensor) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        return (self.exponent * y / x).abs().log()

    def _shape(self, shape: Sequence[int]) -> Any:
        return facula.broadcast_shapes(tuple(shape), tuple(self.exponent.shape))

    forward_shape = inverse_shape = _shape


def _clipped_sigmoid(x: Any) -> Any:
    """The sigmoid, kept off 0 and 1, where its inverse is not finite."""
    info = facula.finfo(x.dtype)
    return facula.sigmoid(x).clamp(min=info.tiny, max=1.0 - info.eps)


class SigmoidTransform(_Rising):
    """``1 / (1 + exp(-x))``, to (0, 1).

    Args:
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.SigmoidTransform()
        >>> t(facula.tensor([0.5])), t.inv(t(facula.tensor([0.5])))
        (tensor([0.6225]), tensor([0.5000]))
    """

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        return _clipped_sigmoid(x)

    def _inverse(self, y: core.Tensor) -> Any:
        info = facula.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_Rising):
    """``log(1 + exp(x))``, to positive numbers.

    Args:
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.SoftplusTransform()
        >>> t(facula.tensor([0.5])), t.inv(t(facula.tensor([0.5])))
        (tensor([0.9741]), tensor([0.5000]))
    """

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return F.softplus(x)

    def _inverse(self, y: core.Tensor) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        return -F.softplus(-x)


class TanhTransform(_Rising):
    """``tanh(x)``, to (-1, 1).

    Args:
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.TanhTransform()
        >>> t(facula.tensor([0.5])), t.inv(t(facula.tensor([0.5])))
        (tensor([0.4621]), tensor([0.5000]))
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: core.Tensor) -> Any:
        return facula.atanh(y)

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """``|x|``: not one to one; its inverse gives the positive number.

    Args:
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.AbsTransform()
        >>> t(facula.tensor([-2.0])), t.inv(t(facula.tensor([-2.0])))
        (tensor([2.]), tensor([2.]))
    """

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: core.Tensor) -> Any:
        return y


class AffineTransform(Transform):
    """``loc + scale * x``.

    Args:
        loc: what is added
        scale: the factor
        event_dim: how many dimensions are one event
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.AffineTransform(1.0, 2.0)
        >>> t(facula.tensor([0.5])), t.inv(t(facula.tensor([0.5])))
        (tensor([2.]), tensor([0.5000]))
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale = loc, scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    def _constraint(self) -> Any:
        if self.event_dim == 0:
            return constraints.real
        return constraints.independent(constraints.real, self.event_dim)

    @property
    def domain(self) -> Any:
        return self._constraint()

    @property
    def codomain(self) -> Any:
        return self._constraint()

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(bool(facula.as_tensor(a == b).all()) for a, b in pairs)

    __hash__ = object.__hash__

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, facula.Tensor):
            return self.scale.sign()
        return 1 if self.scale > 0 else -1 if self.scale < 0 else 0

    def _call(self, x: object) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: core.Tensor) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        if isinstance(self.scale, facula.Tensor):
            change = self.scale.abs().log()
        else:
            change = facula.full_like(x, math.log(abs(self.scale)))
        shape = tuple(x.shape)
        if self.event_dim:
            change = change.expand(shape)
        change = sum_rightmost(change, self.event_dim)
        return change.expand(shape[: len(shape) - self.event_dim])

    def _shape(self, shape: Sequence[int]) -> Any:
        sizes = [tuple(getattr(v, "shape", ())) for v in (self.loc, self.scale)]
        return facula.broadcast_shapes(tuple(shape), *sizes)

    forward_shape = inverse_shape = _shape


class SoftmaxTransform(Transform):
    """``softmax(x)`` over the last dimension: not one to one; its inverse gives logarithms.

    Args:
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.SoftmaxTransform()
        >>> t(facula.tensor([0.0, 0.0])), t.inv(t(facula.tensor([0.0, 0.0])))
        (tensor([0.5000, 0.5000]), tensor([-0.6931, -0.6931]))
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        powers = (x - x.max(-1, True)[0]).exp()
        return powers / powers.sum(-1, True)

    def _inverse(self, y: core.Tensor) -> Any:
        return y.log()


class StickBreakingTransform(Transform):
    """Vectors of n numbers to points of a simplex of n + 1, by breaking off shares of a stick.

    Args:
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.StickBreakingTransform()
        >>> t(facula.tensor([0.0, 0.0])), t.inv(t(facula.tensor([0.0, 0.0])))
        (tensor([0.3333, 0.3333, 0.3333]), tensor([ 0.0000e+00, -1.1921e-07]))
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__

    @staticmethod
    def _offset(x: core.Tensor, count: int) -> Any:
        return facula.arange(count, 0, -1, dtype=x.dtype, device=x.device)

    def _call(self, x: Any) -> Any:
        share = facula.sigmoid(x - self._offset(x, x.shape[-1]).log())
        rest = (1 - share).cumprod(-1)
        return F.pad(share, [0, 1], value=1) * F.pad(rest, [1, 0], value=1)

    def _inverse(self, y: core.Tensor) -> Any:
        head = y[..., :-1]
        rest = (1 - head.cumsum(-1)).clamp(min=facula.finfo(y.dtype).tiny)
        return head.log() - rest.log() + self._offset(y, head.shape[-1]).log()

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        x = x - self._offset(x, x.shape[-1]).log()
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return facula.Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return facula.Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """Square matrices to lower triangles with a positive diagonal (its exponential).

    Args:
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.LowerCholeskyTransform()
        >>> t(facula.tensor([[0.0, 1.0], [2.0, 0.0]]))
        tensor([[1., 0.],
                [2., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: core.Tensor) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class CatTransform(Transform):
    """Transforms of pieces along a dimension, put together again.

    Args:
        tseq: a transform for each
        dim: the dimension
        lengths: of the pieces; None for 1 each
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> d = facula.distributions
        >>> t = d.CatTransform([d.ExpTransform(), d.AffineTransform(0.0, 2.0)], dim=0)
        >>> t(facula.tensor([0.0, 3.0]))
        tensor([1., 6.])
    """

    transforms: list[Transform]

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The whole length."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _pieces(self, value: core.Tensor) -> list[Any]:
        return list(value.split(self.lengths, self.dim))

    def _call(self, x: Any) -> Any:
        pairs = zip(self.transforms, self._pieces(x), strict=True)
        return facula.cat([t(piece) for t, piece in pairs], self.dim)

    def _inverse(self, y: core.Tensor) -> Any:
        pairs = zip(self.transforms, self._pieces(y), strict=True)
        return facula.cat([t.inv(piece) for t, piece in pairs], self.dim)

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        changes = []
        for t, a, b in zip(self.transforms, self._pieces(x), self._pieces(y), strict=True):
            changes.append(
                sum_rightmost(t.log_abs_det_jacobian(a, b), self.event_dim - t.event_dim)
            )
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return facula.cat(changes, dim) if dim < 0 else reduce(operator.add, changes)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    @property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Transforms of slices along a dimension, put together again.

    Args:
        tseq: a transform for each
        dim: the dimension
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> d = facula.distributions
        >>> t = d.StackTransform([d.ExpTransform(), d.AffineTransform(0.0, 2.0)], dim=0)
        >>> t(facula.tensor([0.0, 3.0]))
        tensor([1., 6.])
    """

    transforms: list[Transform]

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, value: core.Tensor) -> list[Any]:
        return list(value.unbind(self.dim))

    def _call(self, x: Any) -> Any:
        pairs = zip(self.transforms, self._slices(x), strict=True)
        return facula.stack([t(piece) for t, piece in pairs], self.dim)

    def _inverse(self, y: core.Tensor) -> Any:
        pairs = zip(self.transforms, self._slices(y), strict=True)
        return facula.stack([t.inv(piece) for t, piece in pairs], self.dim)

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        triples = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        return facula.stack([t.log_abs_det_jacobian(a, b) for t, a, b in triples], self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    @property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """The distribution function of a distribution: its values become uniform.

    Args:
        distribution: of single numbers, with ``cdf`` and ``icdf``
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.CumulativeDistributionTransform(facula.distributions.Normal(0.0, 1.0))
        >>> t(facula.tensor([0.0])), t.inv(t(facula.tensor([0.0])))
        (tensor([0.5000]), tensor([0.]))
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: core.Tensor) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
