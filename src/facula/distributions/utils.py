"""Helpers of distributions: broadcasting of parameters, probabilities and logits, cached attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.nn import functional as F

euler_constant = 0.57721566490153286060


def broadcast_all(*values: object) -> tuple[Any, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the dtype of the tensors."""
    tensors = [v for v in values if isinstance(v, facula.Tensor)]
    for v in values:
        if not isinstance(v, (facula.Tensor, int, float)):
            fail(
                ValueError,
                "broadcast_all",
                "Input arguments must all be instances of Number or torch.Tensor",
                type(v).__name__,
                hint="facula.as_tensor(value) makes a tensor",
            )
    if not tensors:
        tensors = [facula.tensor(0.0, dtype=facula.get_default_dtype())]
    options = {"dtype": tensors[0].dtype, "device": tensors[0].device}
    made = [v if isinstance(v, facula.Tensor) else facula.tensor(v, **options) for v in values]
    return facula.broadcast_tensors(*made)


def clamp_probs(probs: core.Tensor) -> Any:
    """Probabilities kept off 0 and 1, so that their logarithms are finite."""
    eps = facula.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: core.Tensor, is_binary: bool = False) -> Any:
    """Probabilities out of logits."""
    return facula.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def probs_to_logits(probs: core.Tensor, is_binary: bool = False) -> Any:
    """Logits out of probabilities."""
    clamped = clamp_probs(probs)
    return facula.log(clamped) - facula.log1p(-clamped) if is_binary else facula.log(clamped)


class lazy_property:  # noqa: N801 - PyTorch's name
    """An attribute that is computed when it is first read, with gradients, and then kept."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: object, kind: object = None) -> Any:
        if instance is None:
            return self
        with facula.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def sum_rightmost(value: core.Tensor, dim: int) -> Any:
    """The sum over the last `dim` dimensions."""
    if dim == 0:
        return value
    return value.reshape(tuple(value.shape[: value.dim() - dim]) + (-1,)).sum(-1)


def tril_matrix_to_vec(mat: core.Tensor, diag: int = 0) -> Any:
    """The lower triangles of matrices as vectors, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        fail(
            ValueError,
            "tril_matrix_to_vec",
            f"diag in [-{n}, {n - 1}] was required",
            diag,
            hint="diag=0 is the main diagonal, diag=-1 that below it",
        )
    rows, columns = facula.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: core.Tensor, diag: int = 0) -> Any:
    """Vectors as lower triangles, row by row."""
    count = vec.shape[-1]
    n = round(
        (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5)
        / 2
    )
    rows, columns = facula.tril_indices(n, n, diag)
    if rows.shape[0] != count:
        fail(
            ValueError,
            "vec_to_tril_matrix",
            "The size of last dimension is not a triangular number",
            count,
            hint="n rows with the diagonal hold n * (n + 1) / 2 numbers",
        )
    matrix = vec.new_zeros((*vec.shape[:-1], n, n))
    flat = (rows * n + columns).expand((*vec.shape[:-1], count))
    return matrix.flatten(-2).scatter(-1, flat, vec).reshape(matrix.shape)


def _standard_normal(shape: Any, dtype: core.dtype, device: Any) -> Any:
    """Draws of the standard normal distribution."""
    return facula.randn(shape, dtype=dtype, device=device)


_sum_rightmost = sum_rightmost
