"""Sums, norms and softmax of sparse tensors.

Takes: sparse tensors and dimensions. Gives: dense scalars, or sparse tensors of the dimensions left.
Keeps true: a sum over dimensions drops their indices and adds what falls together; softmax counts
elements that are not specified as minus infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce.launch import wrap_dims
from facula.ops.sparse_layouts.arithmetic import like_first
from facula.ops.sparse_layouts.convert import coalesced, flatten, sum_groups, to_coo
from facula.ops.sparse_layouts.rules import rule
from facula.ops.sparse_layouts.tensor import COO, SparseTensor, compose, rebuilt, values_of
from facula.ops.table.registry import F, composite


@rule("sum")
def total(self: SparseTensor, dim: int | Sequence[int], keepdim: bool, dtype: core.dtype) -> Any:
    """The sum over all dimensions (dense) or some of them (sparse); over none of them it is the tensor."""
    if dim is None:
        return values_of(self).sum(dtype=dtype)
    if not isinstance(dim, int) and not len(dim):
        if self._form is COO:
            whole = coalesced(self)
            return whole if dtype is None else whole.to(dtype)
        dim = range(self.dim())
    if self._form is not COO:
        if not keepdim:
            fail(
                RuntimeError,
                "sum",
                "reduction operations on CSR tensors with keepdim=False is unsupported",
                "keepdim=False",
                hint="pass keepdim=True, or convert with to_sparse() first",
            )
        made = total(to_coo(self), dim, True, dtype)
        made = made if isinstance(made, SparseTensor) else F.to_sparse(made, None)
        return like_first(self, coalesced(made))
    return _sum_dims(self, set(wrap_dims("sum", dim, self.dim())), keepdim, dtype)


def _sum_dims(sparse: SparseTensor, dims: set[int], keepdim: bool, dtype: core.dtype) -> Any:
    count = sparse.sparse_dim()
    index, values = sparse._places[0], values_of(sparse)
    inner = [d - count + 1 for d in sorted(dims) if d >= count]
    if inner or dtype is not None or not values.dtype.is_floating_point:
        values = values.sum(inner, keepdim, dtype=dtype) if inner else _widened(values, dtype)
    kept = [d for d in range(count) if d not in dims]
    size = [1 if d in dims else n for d, n in enumerate(sparse.shape) if keepdim or d not in dims]
    if not kept:
        added = values.sum(0)
        return added.reshape(size)
    if keepdim:
        rows = [index[d] if d in kept else F.zeros_like(index[0]) for d in range(count)]
        return coalesced(compose((F.stack(rows),), values, size))
    unique = sparse._unique and len(kept) == count
    return (
        compose((index[kept],), values, size, COO, unique)
        if unique
        else coalesced(compose((F.stack([index[d] for d in kept]),), values, size))
    )


def _widened(values: Any, dtype: core.dtype) -> Any:
    """Integers and bools add up in int64."""
    if dtype is not None:
        return values.to(dtype)
    exact = values.dtype.is_floating_point or values.dtype.is_complex
    return values if exact else values.to(core.int64)


@rule("vector_norm")
def vector_norm(self: Any, order: Any, dim: Any, keepdim: bool) -> Any:
    """The norm of all elements."""
    if dim is not None and len(dim) and len(dim) != self.dim():
        fail(
            RuntimeError,
            "norm",
            "sparse tensors have a norm of all dimensions only",
            list(dim),
            "use to_dense() first",
        )
    whole = coalesced(self) if self._form is COO else self
    values = values_of(whole)
    values = values.abs() if values.is_complex() else values
    made = F.vector_norm(values, order, None, False)
    return made.reshape([1] * self.dim()) if keepdim else made


@rule("norm")
def norm(self: Any, p: Any, dim: Any, keepdim: bool, dtype: core.dtype) -> Any:
    """The norm of all elements."""
    order = 2.0 if p is None or p == "fro" else float(p)
    made = vector_norm(self, order, None if dim is None else _several(dim), keepdim)
    return made if dtype is None else made.to(dtype)


def _several(dim: Any) -> Any:
    return (dim,) if isinstance(dim, int) else tuple(dim)


@rule("any")
def some(self: Any, dim: Any, keepdim: bool) -> Any:
    """Whether any element is not zero."""
    if dim is not None and len(dim):
        return NotImplemented
    return values_of(self).any()


# ------------------------------------------------------------------ facula.sparse


@composite(
    "sparse_sum(Tensor input, int[1]? dim=None, dtype? dtype=None) -> Tensor",
    names=("sparse.sum",),
    out=False,
)
def sparse_sum(input, dim, dtype):
    """The sum of a sparse tensor over all dimensions (dense) or some of them (sparse).

    Example:
        >>> facula.sparse.sum(facula.eye(2).to_sparse())
        tensor(2.)
    """
    if not isinstance(input, SparseTensor):
        fail(RuntimeError, "sparse.sum", "a sparse tensor was required", input.layout, "use sum()")
    return F.sum(input, dim, dtype=dtype)


def _groups(index: core.Tensor, size: core.Size, dim: int) -> tuple[Any, Any]:
    """The number of the line along `dim` on which each element lies, and how many lines there are."""
    others = [d for d in range(index.shape[0]) if d != dim]
    if not others:
        return F.zeros_like(index[0]), 1
    flat = flatten(F.stack([index[d] for d in others]), [size[d] for d in others])
    found, group = F.unique(flat, sorted=True, return_inverse=True)
    return group, found.shape[0]


def _softmax(op: str, input: core.Tensor, dim: int, dtype: core.dtype, logarithm: bool) -> Any:
    if not isinstance(input, SparseTensor) or input._form is not COO:
        fail(RuntimeError, op, "a COO tensor was required", input.layout, "use to_sparse()")
    sparse = coalesced(input if dtype is None else input.to(dtype))
    (dim,) = wrap_dims(op, (dim,), sparse.dim())
    values, count = values_of(sparse), sparse.sparse_dim()
    if not values.dtype.is_floating_point:
        fail(RuntimeError, op, "a floating-point tensor was required", values.dtype, "pass dtype=")
    if dim >= count:
        inner = F.log_softmax if logarithm else F.softmax
        return rebuilt(sparse, inner(values, dim - count + 1))
    if not values.shape[0]:
        return sparse
    group, lines = _groups(sparse._places[0], sparse.shape, dim)
    spread = group.reshape([-1] + [1] * (values.dim() - 1)).expand(values.shape)
    low = values.detach().new_full((lines, *values.shape[1:]), -float("inf"))
    top = low.scatter_reduce(0, spread, values.detach(), "amax").index_select(0, group)
    shifted = values - top.masked_fill(top == -float("inf"), 0)
    powers = shifted.exp()
    sums = sum_groups(powers, group, lines).index_select(0, group)
    return rebuilt(sparse, shifted - sums.log() if logarithm else powers / sums)


@composite(
    "sparse_softmax(Tensor input, int dim, *, dtype? dtype=None) -> Tensor",
    names=("sparse.softmax",),
    out=False,
)
def sparse_softmax(input, dim, dtype):
    """Softmax along a dimension over the specified elements.

    Example:
        >>> facula.sparse.softmax(facula.eye(2).to_sparse(), dim=1).to_dense()
        tensor([[1., 0.],
                [0., 1.]])
    """
    return _softmax("sparse.softmax", input, dim, dtype, False)


@composite(
    "sparse_log_softmax(Tensor input, int dim, *, dtype? dtype=None) -> Tensor",
    names=("sparse.log_softmax",),
    out=False,
)
def sparse_log_softmax(input, dim, dtype):
    """The logarithm of softmax along a dimension over the specified elements."""
    return _softmax("sparse.log_softmax", input, dim, dtype, True)
