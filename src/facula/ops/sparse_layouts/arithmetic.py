"""Arithmetic of sparse tensors: sums, products and quotients with sparse and dense ones and numbers.

Takes and gives tensors; a sum with a dense tensor is dense, a product with one is sparse.
Keeps true: operands with the same places keep them; scaling does not coalesce; results of two
tensors in compressed layouts have the layout of the first.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.sparse_layouts.convert import (
    coalesced,
    compressed,
    dense_of,
    elements,
    flatten,
    to_coo,
)
from facula.ops.sparse_layouts.rules import inplace_rule, rule
from facula.ops.sparse_layouts.tensor import (
    BLOCKED,
    COO,
    SparseTensor,
    compose,
    rebuilt,
    same_places,
    values_of,
)
from facula.ops.table.registry import F

Tensor = core.Tensor


def like_first(first: SparseTensor, made: SparseTensor) -> Any:
    """A COO result in the layout of the first operand."""
    if first._form is COO:
        return made
    block = None
    if first._form in BLOCKED:
        batch = first._places[0].dim() - 1
        block = tuple(first._stored.shape[batch + 1 : batch + 3])
    return compressed(made, first._form, block)


def _same_shape(op: str, a: SparseTensor, b: SparseTensor) -> None:
    if a.shape != b.shape:
        fail(
            RuntimeError,
            op,
            "expected 'self' and 'other' to have same size",
            f"{list(a.shape)} and {list(b.shape)}",
            hint="sparse tensors do not broadcast; use to_dense() first",
        )


def _times(values: object, factor: Any) -> Any:
    return values if type(factor) is not bool and factor == 1 else values * factor


# ------------------------------------------------------------------ sums


@rule("add")
def add(self: Any, other: Any, alpha: Any) -> Any:
    """``self + alpha * other``."""
    sparse = isinstance(self, SparseTensor), isinstance(other, SparseTensor)
    if sparse == (True, True):
        return _add_sparse(self, other, alpha)
    dense = other if sparse[0] else self
    if not isinstance(dense, Tensor) or (dense.dim() == 0 and (self if sparse[0] else other).dim()):
        fail(
            RuntimeError,
            "add",
            "add(sparse, dense) is not supported with a number: another tensor of the same shape",
            dense,
            "use to_dense() first",
        )
    if sparse[0]:
        scaled = _times(other, alpha)
        return _add_to_dense(scaled, self, 1)
    return _add_to_dense(self, other, alpha)


def _add_to_dense(dense: Tensor, sparse: SparseTensor, alpha: int) -> Any:
    if dense.shape != sparse.shape:
        return dense + _times(dense_of(sparse), alpha)
    dtype = core.promote_types(dense.dtype, sparse.dtype)
    index, values = elements(sparse)
    flat = flatten(index, sparse.shape[: index.shape[0]])
    rows = dense.to(dtype).reshape(
        [-1, *values.shape[1:]] if dense.numel() else _flat(sparse, index)
    )
    return rows.index_add(0, flat, _times(values.to(dtype), alpha)).reshape(dense.shape)


def _flat(sparse: SparseTensor, index: core.Tensor) -> list[int]:
    count = 1
    for n in sparse.shape[: index.shape[0]]:
        count *= n
    return [count, *sparse.shape[index.shape[0] :]]


def _add_sparse(a: SparseTensor, b: SparseTensor, alpha: float) -> Any:
    _same_shape("add", a, b)
    dtype = core.promote_types(a.dtype, b.dtype)
    one, other = values_of(a).to(dtype), _times(values_of(b).to(dtype), alpha)
    if same_places(a, b):
        return rebuilt(a, F.add(one, other))
    first, second = to_coo(a), to_coo(b)
    for empty, kept, factor in ((second, a, 1), (first, b, alpha)):
        if not empty._nnz() and first.sparse_dim() != second.sparse_dim():
            return rebuilt(kept, _times(values_of(kept).to(dtype), factor).clone())
    if first.sparse_dim() != second.sparse_dim():
        fail(
            RuntimeError,
            "add",
            "expected 'self' and 'other' to have same number of sparse dimensions",
            f"{first.sparse_dim()} and {second.sparse_dim()}",
            hint=f"x.to_dense().to_sparse({first.sparse_dim()}) has {first.sparse_dim()} of them",
        )
    index = F.cat([first._places[0], second._places[0]], 1)
    values = F.cat([values_of(first).to(dtype), _times(values_of(second).to(dtype), alpha)], 0)
    made = compose((index,), values, a.shape)
    if a._form is COO and not (first._unique and second._unique):
        return made
    return like_first(a, coalesced(made))


@rule("sub")
def sub(self: object, other: object, alpha: Any) -> Any:
    """``self - alpha * other``."""
    return add(self, other, -alpha)


@rule("rsub")
def rsub(self: object, other: object, alpha: Any) -> Any:
    """``other - alpha * self``."""
    return add(other, self, -alpha)


@inplace_rule("add")
def add_(target: core.Tensor, other: SparseTensor, alpha: Any) -> Any:
    """Add a sparse tensor to a dense one where its elements are."""
    plain = target.is_contiguous() and target.dtype is other.dtype and target.shape == other.shape
    recording = core.is_grad_enabled() and (target.requires_grad or other.requires_grad)
    if not plain or recording:
        return NotImplemented
    index, values = elements(other)
    rows = target.view([*_flat(other, index)])
    rows.index_add_(0, flatten(index, other.shape[: index.shape[0]]), values, alpha=alpha)
    return target


@inplace_rule("sub")
def sub_(target: core.Tensor, other: object, alpha: Any) -> Any:
    """Subtract a sparse tensor from a dense one where its elements are."""
    return add_(target, other, -alpha)


# ------------------------------------------------------------------ products


@rule("mul")
def mul(self: Any, other: Any) -> Any:
    """``self * other``: specified where a sparse operand is."""
    if isinstance(self, SparseTensor) and isinstance(other, SparseTensor):
        return _multiply_sparse(self, other)
    sparse, factor = (self, other) if isinstance(self, SparseTensor) else (other, self)
    if not isinstance(factor, Tensor):
        return rebuilt(sparse, values_of(sparse) * factor)
    if factor.dim() == 0 or factor.numel() == 1 and factor.dim() <= sparse.dim():
        return rebuilt(sparse, values_of(sparse) * factor.reshape(()))
    return _multiply_dense(sparse, factor)


def _multiply_dense(sparse: SparseTensor, dense: Tensor) -> Any:
    """A product with a dense tensor that broadcasts to the sparse one."""
    if dense.dim() > sparse.dim() or any(
        n not in (1, size) for n, size in zip(dense.shape[::-1], sparse.shape[::-1], strict=False)
    ):
        fail(
            RuntimeError,
            "mul",
            f"a dense tensor that broadcasts to {list(sparse.shape)} was required",
            list(dense.shape),
            hint="a sparse tensor does not grow; use to_dense() for the full result",
        )
    index, values = elements(sparse)
    whole = dense.expand(sparse.shape)
    factors = F.index(whole, tuple(index.unbind(0))) if index.shape[0] else whole.unsqueeze(0)
    return rebuilt(sparse, (values * factors).reshape(sparse._stored.shape))


def _multiply_sparse(a: SparseTensor, b: SparseTensor) -> Any:
    """The elements that both operands specify; one without dimensions is a number."""
    for whole, number in ((a, b), (b, a)):
        if whole.dim() and not number.dim():
            factor = values_of(number).sum(dtype=number.dtype)
            return rebuilt(whole, values_of(whole) * factor)
    _same_shape("mul", a, b)
    if same_places(a, b) and (a._form is not COO or a._unique):
        return rebuilt(a, values_of(a) * values_of(b))
    first, second = coalesced(to_coo(a)), coalesced(to_coo(b))
    if first.sparse_dim() != second.sparse_dim():
        fail(
            RuntimeError,
            "mul",
            "expected as many sparse dimensions",
            second.sparse_dim(),
            hint=f"x.to_dense().to_sparse({first.sparse_dim()}) has {first.sparse_dim()} of them",
        )
    index, values = first._places[0], values_of(first)
    others, sizes = values_of(second), a.shape[: index.shape[0]]
    keys = flatten(second._places[0], sizes)
    if not keys.shape[0]:
        empty = index[:, :0]
        return like_first(a, compose((empty,), values[:0] * others[:0], a.shape, COO, True))
    wanted = flatten(index, sizes)
    position = F.searchsorted(keys, wanted).clamp(max=keys.shape[0] - 1)
    kept = (keys.index_select(0, position) == wanted).nonzero().reshape(-1)
    product = values.index_select(0, kept) * others.index_select(0, position.index_select(0, kept))
    return like_first(a, compose((index.index_select(1, kept),), product, a.shape, COO, True))


@rule("div")
def div(self: Any, other: object, rounding_mode: object) -> Any:
    """``self / other`` of a sparse tensor by a number or a 0-d tensor."""
    _check_divisor(self, other, rounding_mode)
    if rounding_mode is not None:
        self = coalesced(self) if self._form is COO else self
    return rebuilt(self, F.div(values_of(self), other, rounding_mode=rounding_mode))


@rule("true_divide")
def true_divide(self: object, other: object) -> Any:
    """``self / other`` of a sparse tensor by a number or a 0-d tensor."""
    return div(self, other, None)


@rule("floor_divide")
def floor_divide(self: object, other: object) -> Any:
    """``floor(self / other)`` of a sparse tensor by a number or a 0-d tensor."""
    return div(self, other, "floor")


def _check_divisor(self: SparseTensor, other: object, rounding_mode: object) -> None:
    sparse = isinstance(other, SparseTensor)
    if sparse or not isinstance(self, SparseTensor) or (isinstance(other, Tensor) and other.dim()):
        fail(
            RuntimeError,
            "div",
            f"Sparse {'floor ' if rounding_mode == 'floor' else ''}division requires a scalar or "
            "zero-dim dense tensor divisor",
            "a sparse divisor"
            if sparse
            else list(other.shape)
            if isinstance(other, Tensor)
            else "",
            hint="dense tensors can be divided: use to_dense() first",
        )


@rule("neg")
def neg(self: Any) -> Any:
    """``-self``."""
    return rebuilt(self, -values_of(self))


@rule("pow")
def power(self: Any, exponent: Any) -> Any:
    """``self ** exponent``: of the values, where the exponent is a number other than zero."""
    if not isinstance(exponent, Tensor) and exponent == 0:
        fail(
            RuntimeError,
            "pow",
            "cannot raise to zeroth power on sparse tensor; it would make the result tensor dense",
            exponent,
            hint="use to_dense() first",
        )
    if self._form is COO and not isinstance(exponent, Tensor):
        whole = coalesced(self)
        return rebuilt(whole, values_of(whole) ** exponent)
    return NotImplemented
