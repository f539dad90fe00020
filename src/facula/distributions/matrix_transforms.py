"""Transforms onto sets of matrices: correlations and positive-definite ones.

Takes unconstrained numbers; gives factors and matrices. Keeps true: as in `transforms`, under which
PyTorch's programs find them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.distributions import constraints
from facula.distributions.transforms import LowerCholeskyTransform, Transform
from facula.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from facula.nn import functional as F


class CorrCholeskyTransform(Transform):
    """Vectors of n (n - 1) / 2 numbers to Cholesky factors of correlation matrices of n rows.

    The numbers become partial correlations by tanh. [Lewandowski, Kurowicka & Joe 2009]

    Args:
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.CorrCholeskyTransform()
        >>> t(facula.zeros(3))
        tensor([[1., 0., 0.],
                [0., 1., 0.],
                [0., 0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        limit = facula.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(facula.tanh(x).clamp(-1 + limit, 1 - limit), -1)
        left = (1 - partial.square()).sqrt().cumprod(-1)
        one = facula.eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return (partial + one) * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: core.Tensor) -> Any:
        left = 1 - (y * y).cumsum(-1)
        shifted = F.pad(left[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(shifted, -1).sqrt()
        return (partial.log1p() - (-partial).log1p()) / 2

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), -2)
        shares = 0.5 * left.log().sum(-1)
        return shares - 2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        if len(shape) < 1:
            fail(
                ValueError,
                "CorrCholeskyTransform",
                "Too few dimensions on input",
                shape,
                hint="a vector of n * (n - 1) / 2 numbers makes an n by n factor",
            )
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            fail(
                ValueError,
                "CorrCholeskyTransform",
                "Input is not a flattened lower-diagonal number",
                count,
                hint="a vector of n * (n - 1) / 2 numbers makes an n by n factor",
            )
        return facula.Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        if len(shape) < 2:
            fail(
                ValueError,
                "CorrCholeskyTransform",
                "Too few dimensions on input",
                shape,
                hint="the factor is a matrix, with batch dimensions in front",
            )
        if shape[-2] != shape[-1]:
            fail(
                ValueError,
                "CorrCholeskyTransform",
                "Input is not square",
                shape,
                hint="the factor of a correlation matrix has as many rows as columns",
            )
        return facula.Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class PositiveDefiniteTransform(Transform):
    """Square matrices to positive-definite ones: the product of a lower triangle and its transpose.

    Args:
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.PositiveDefiniteTransform()
        >>> t(facula.tensor([[0.0, 1.0], [2.0, 0.0]]))
        tensor([[1., 2.],
                [2., 5.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = object.__hash__

    def _call(self, x: core.Tensor | None) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: core.Tensor) -> Any:
        return LowerCholeskyTransform().inv(facula.linalg.cholesky(y))
