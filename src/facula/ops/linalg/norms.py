"""Norms and condition numbers of matrices.

Takes matrices or batches of them; gives real numbers. Keeps true: norms that are sums or extremes
are reductions, the others come from singular values, and all are differentiable.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.linalg.launch import check_kind, check_matrix, check_square
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.registry import F, composite


def _two_dims(op: str, dim: Sequence[int], rank: int) -> tuple[int, int]:
    """The two different dimensions of a matrix norm."""
    if len(dim) != 2:
        fail(
            RuntimeError,
            op,
            f"{op}: dim must be a 2-tuple",
            dim,
            hint="dim=(-2, -1) are the last two",
        )
    first, last = (wrap_dim(op, d, rank) for d in dim)
    if first == last:
        fail(
            RuntimeError,
            op,
            f"{op}: dims must be different",
            dim,
            hint="dim=(-2, -1) are the last two",
        )
    return first, last


def _in_dtype(op: str, x: core.Tensor, dtype: core.dtype) -> Any:
    if dtype is None:
        return x
    if not (dtype.is_floating_point or dtype.is_complex):
        fail(
            RuntimeError,
            op,
            f"{op}: dtype should be floating point or complex",
            dtype,
            hint="for example dtype=facula.float32",
        )
    if x.dtype.is_complex and not dtype.is_complex:
        fail(
            RuntimeError,
            op,
            f"{op}: dtype should be complex for complex inputs",
            dtype,
            hint="leave dtype out, or give a complex one",
        )
    return x.to(dtype)


def _restored(x: core.Tensor, dims: tuple[int, int], keepdim: bool) -> Any:
    """A number a matrix, with dimensions of size 1 in the places of the matrix."""
    if keepdim:
        for d in sorted(dims):
            x = x.unsqueeze(d)
    return x


def _by_values(values: Any, ord: Any) -> Any:
    if ord == "nuc":
        return values.sum(-1)
    if ord == 2 and values.shape[-1] == 0:
        return values.sum(-1)
    return values.amax(-1) if ord == 2 else values.amin(-1)


@composite(
    "linalg_matrix_norm(Tensor A, any ord='fro', any dim=[-2, -1], bool keepdim=False, *, dtype? "
    "dtype=None) -> Tensor",
    file_arguments={"A": "self"},
    file_keeps=("ord",),
    overload="ord:number=default, str_ord",
    names=("linalg.matrix_norm",),
    keyword_aliases={"input": "A"},
)
def linalg_matrix_norm(A, ord, dim, keepdim, dtype):  # noqa: N803
    """A norm of matrices: 'fro', 'nuc' (sum of singular values), 2 and -2 (their extremes), 1 and
    inf (columns, rows).
    """
    op = "linalg.matrix_norm"
    check_matrix(op, A)
    check_kind(op, A, low=True)
    dims = _two_dims(op, (dim,) if isinstance(dim, int) else tuple(dim), A.dim())
    _check_order(op, ord)
    if ord == "fro":
        return F.linalg_vector_norm(A, 2, dims, keepdim, dtype=dtype)
    if ord == "nuc" or abs(ord) == 2:
        check_kind(op, A)
        x = _in_dtype(op, A, dtype).movedim(dims, (-2, -1))
        return _restored(_by_values(F._linalg_svdvals(x, "linalg.svd"), ord), dims, keepdim)
    x = _in_dtype(op, A, dtype).abs()
    summed, extreme = dims if abs(ord) == 1 else (dims[1], dims[0])
    if not keepdim and extreme > summed:
        extreme -= 1
    sums = x.sum(summed, keepdim)
    if ord > 0 and sums.shape[extreme] == 0:
        return sums.sum(extreme, keepdim)  # of no sums the largest is 0
    return sums.amax(extreme, keepdim) if ord > 0 else sums.amin(extreme, keepdim)


def _check_order(op: str, ord: Any) -> None:
    if isinstance(ord, str):
        known = ord in ("fro", "nuc")
    else:
        known = isinstance(ord, (int, float)) and not isinstance(ord, bool)
        known = known and abs(ord) in (1, 2, inf)
    if not known:
        fail(
            RuntimeError,
            op,
            f"{op}: Order {ord} not supported.",
            f"{op} got an invalid norm type: {ord}" if op == "linalg.cond" else repr(ord),
            hint="take 'fro', 'nuc', 1, 2, inf or one of these numbers negative",
        )


@composite(
    "linalg_norm(Tensor self, any ord=None, any dim=None, bool keepdim=False, *, dtype? dtype=None) "
    "-> Tensor",
    names=("linalg.norm",),
    keyword_aliases={"A": "self"},
    overload="ord:str=ord_str, default",
    file_arguments={"dim": "dim[]"},
)
def linalg_norm(self, ord, dim, keepdim, dtype):
    """A vector norm or a matrix norm, by how many dimensions are given (or there are)."""
    op = "linalg.norm"
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if dims is not None and len(dims) not in (1, 2):
        fail(
            RuntimeError,
            op,
            f"{op}: If dim is specified, it must be of length 1 or 2.",
            dims,
            hint="linalg.vector_norm() takes any number of dimensions",
        )
    if dims is None and ord is not None and self.dim() not in (1, 2):
        fail(
            RuntimeError,
            op,
            f"{op}: If dim is not specified but ord is, the input must be 1D or 2D.",
            f"{self.dim()}D",
            hint="linalg.vector_norm() takes any number of dimensions",
        )
    if isinstance(ord, str) or (
        ord is not None and (len(dims) == 2 if dims is not None else self.dim() == 2)
    ):
        return F.linalg_matrix_norm(self, ord, dims or (-2, -1), keepdim, dtype=dtype)
    if ord is None and dims is None and self.dim() > 1:
        norm = F.linalg_vector_norm(self.reshape(-1), 2, None, False, dtype=dtype)
        return norm.reshape((1,) * self.dim()) if keepdim else norm
    return F.linalg_vector_norm(self, 2 if ord is None else ord, dims, keepdim, dtype=dtype)


@composite(
    "nuclear_norm(Tensor self, any dim=None, bool keepdim=False) -> Tensor", names=("nuclear_norm",)
)
def nuclear_norm(self, dim, keepdim):
    """The sum of the singular values."""
    if dim is None and self.dim() != 2:
        fail(
            RuntimeError,
            "nuclear_norm",
            "Expected a tensor with 2 dimensions",
            self.dim(),
            hint="dim=(-2, -1) chooses the matrices of a batch",
        )
    return F.linalg_matrix_norm(self, "nuc", (-2, -1) if dim is None else dim, keepdim)


@composite(
    "linalg_cond(Tensor A, any p=None) -> Tensor",
    file_arguments={"A": "self"},
    names=("linalg.cond",),
    keyword_aliases={"input": "A"},
)
def linalg_cond(A, p):  # noqa: N803
    """The condition number in a norm: the ratio of extreme singular values, or |A| |A^-1|."""
    op = "linalg.cond"
    check_matrix(op, A)
    if isinstance(p, bool) or not (p is None or isinstance(p, (int, float, str))):
        fail(
            RuntimeError,
            op,
            f"{op} got an invalid norm type",
            repr(p),
            hint="take None, 'fro', 'nuc', 1, 2, inf or one of these numbers negative",
        )
    if p is None or p in (2, -2):
        values = F.linalg_svdvals(A)
        if values.numel() == 0:
            return F.zeros(values.shape[:-1], dtype=values.dtype, device=A.device)
        largest, least = values[..., 0], values[..., -1]
        result = least / largest if p == -2 else largest / least
        return result
    check_square(op, A)
    check_kind(op, A)
    _check_order(op, p)
    if A.numel() == 0:
        real = A.dtype.to_real() if A.is_complex() else A.dtype
        return F.zeros(A.shape[:-2], dtype=real, device=A.device)
    if p == "nuc":
        values = F.linalg_svdvals(A)
        return values.sum(-1) * values.reciprocal().sum(-1)
    inverse, info = F._linalg_inverse(A, "")
    norms = F.linalg_matrix_norm(A, p) * F.linalg_matrix_norm(inverse, p)
    return F.where(info != 0, F.full_like(norms, inf), norms)
