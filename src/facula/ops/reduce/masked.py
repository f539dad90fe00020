"""Reductions and normalisations of the elements that a mask selects.

Takes tensors and a mask that broadcasts to them (what is not 0 counts). Gives compositions of
`where` and the plain operators, so gradients and devices follow. Keeps true: what is left out becomes the
value that does not change the result; without a mask everything counts.
"""

from __future__ import annotations

from math import inf, nan
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce.launch import wrap_dims
from facula.ops.reduce.masked_sparse import sparse_too
from facula.ops.table.registry import F, composite

_REDUCED = "int[1]? dim=None, *, bool keepdim=False, dtype? dtype=None, Tensor? mask=None"
_ALONG = "int dim, *, dtype? dtype=None, Tensor? mask=None"


def _dims(x: core.Tensor, dim: Any) -> tuple[int, ...]:
    return tuple(range(x.dim())) if not dim else tuple(dim)


def _least(dtype: core.dtype) -> Any:
    """The value below all others of a dtype."""
    if dtype.is_floating_point:
        return -inf
    return False if dtype is core.bool_ else core.iinfo(dtype).min


def _most(dtype: core.dtype) -> Any:
    """The value above all others of a dtype."""
    if dtype.is_floating_point:
        return inf
    return True if dtype is core.bool_ else core.iinfo(dtype).max


def _filled(op: str, x: core.Tensor, mask: Any, value: object) -> Any:
    """`x` with `value` where the mask leaves elements out."""
    if mask is None:
        return x
    mask = mask.bool()
    if mask.dim() > x.dim():
        fail(
            IndexError,
            op,
            "mask of no more dimensions than the input",
            f"{mask.dim()} and {x.dim()} dimensions",
            hint="unsqueeze() adds dimensions to the input",
        )
    return F.where(mask, x, F.full((), value, dtype=x.dtype, device=x.device))


def _wide(x: core.Tensor, dtype: core.dtype) -> Any:
    """The dtype of sums: int64 of whole numbers."""
    if dtype is not None:
        return dtype
    return x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else core.int64


def _inexact(x: core.Tensor, dtype: core.dtype) -> Any:
    """The dtype of logarithms and deviations: that of `x`, or the default one."""
    kind = x.dtype if dtype is None else dtype
    return kind if kind.is_floating_point or kind.is_complex else core.get_default_dtype()


def _count(x: Any, mask: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """How many elements count."""
    ones = F.ones(x.shape, dtype=core.int64, device=x.device)
    return _filled("masked", ones, mask, 0).sum(dims, keepdim)


@composite(f"_masked_sum(Tensor self, {_REDUCED}) -> Tensor", names=("masked.sum",), out=False)
@sparse_too
def _masked_sum(self, dim, keepdim, dtype, mask):
    """The sum of the elements that count."""
    x = _filled("masked.sum", self, mask, 0)
    return x.sum(_dims(x, dim), keepdim, dtype=_wide(x, dtype))


@composite(f"_masked_prod(Tensor self, {_REDUCED}) -> Tensor", names=("masked.prod",), out=False)
@sparse_too
def _masked_prod(self, dim, keepdim, dtype, mask):
    """The product of the elements that count."""
    x = _filled("masked.prod", self, mask, 1)
    result = x.to(_wide(x, dtype))
    for d in reversed(wrap_dims("masked.prod", dim, x.dim())):
        result = result.prod(d, keepdim)
    return result


def _extreme(
    op: str,
    x: core.Tensor,
    dim: Any,
    keepdim: bool,
    dtype: core.dtype,
    mask: core.Tensor,
    largest: bool,
) -> Any:
    kind = x.dtype
    x = _filled(op, x, mask, _least(kind) if largest else _most(kind))
    dims = _dims(x, dim)
    result = x.amax(dims, keepdim) if largest else x.amin(dims, keepdim)
    return result if dtype is None else result.to(dtype)


@composite(f"_masked_amax(Tensor self, {_REDUCED}) -> Tensor", names=("masked.amax",), out=False)
@sparse_too
def _masked_amax(self, dim, keepdim, dtype, mask):
    """The largest of the elements that count."""
    return _extreme("masked.amax", self, dim, keepdim, dtype, mask, True)


@composite(f"_masked_amin(Tensor self, {_REDUCED}) -> Tensor", names=("masked.amin",), out=False)
@sparse_too
def _masked_amin(self, dim, keepdim, dtype, mask):
    """The smallest of the elements that count."""
    return _extreme("masked.amin", self, dim, keepdim, dtype, mask, False)


_PLACE = "int? dim=None, *, bool keepdim=False, dtype? dtype=None, Tensor? mask=None"


@composite(f"_masked_argmax(Tensor self, {_PLACE}) -> Tensor", names=("masked.argmax",), out=False)
def _masked_argmax(self, dim, keepdim, dtype, mask):
    """Where the largest of the elements that count is."""
    found = _filled("masked.argmax", self, mask, _least(self.dtype)).argmax(dim, keepdim)
    return found.to(self.dtype if dtype is None else dtype)  # the values' dtype, as in PyTorch


@composite(f"_masked_argmin(Tensor self, {_PLACE}) -> Tensor", names=("masked.argmin",), out=False)
def _masked_argmin(self, dim, keepdim, dtype, mask):
    """Where the smallest of the elements that count is."""
    found = _filled("masked.argmin", self, mask, _most(self.dtype)).argmin(dim, keepdim)
    return found.to(self.dtype if dtype is None else dtype)  # the values' dtype, as in PyTorch


@composite(f"_masked_mean(Tensor self, {_REDUCED}) -> Tensor", names=("masked.mean",), out=False)
@sparse_too
def _masked_mean(self, dim, keepdim, dtype, mask):
    """The mean of the elements that count; NaN of none."""
    total = F._masked_sum(self, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _count(self, mask, _dims(self, dim), keepdim)


@composite(
    "_masked_median(Tensor self, int dim=-1, *, bool keepdim=False, dtype? dtype=None, Tensor? "
    "mask=None) -> Tensor",
    names=("masked.median",),
    out=False,
)
def _masked_median(self, dim, keepdim, dtype, mask):
    """The median of the elements that count, the lower one of two."""
    kind = self.dtype if dtype is None else dtype
    x = self if self.is_floating_point() else self.float()
    result = _filled("masked.median", x, mask, nan).nanmedian(dim, keepdim).values
    if self.is_floating_point():
        return result
    if not result.is_meta and bool(result.isnan().any()):
        fail(
            ValueError,
            "masked.median",
            "masked median expects no fully masked out rows if dtype is not floating point",
            kind,
            hint="convert the input with .float(): the median of such rows is nan then",
        )
    return result.to(kind)


@composite(
    f"_masked_logsumexp(Tensor self, {_REDUCED}) -> Tensor", names=("masked.logsumexp",), out=False
)
def _masked_logsumexp(self, dim, keepdim, dtype, mask):
    """The logarithm of the sum of exponentials of the elements that count."""
    kind = _inexact(self, dtype)
    x = _filled("masked.logsumexp", self.to(kind), mask, -inf)
    return x.logsumexp(_dims(x, dim), keepdim).to(self.dtype if dtype is None else dtype)


@composite(
    "_masked_logaddexp(Tensor self, Tensor other, *, dtype? dtype=None, Tensor? input_mask=None, "
    "Tensor? other_mask=None) -> Tensor",
    names=("masked.logaddexp",),
    out=False,
)
def _masked_logaddexp(self, other, dtype, input_mask, other_mask):
    """The logarithm of the sum of two exponentials, of which each may be left out."""
    kind = self.dtype if dtype is None else dtype
    first = _filled("masked.logaddexp", self.to(kind), input_mask, -inf)
    return F.logaddexp(first, _filled("masked.logaddexp", other.to(kind), other_mask, -inf))


@composite(
    "_masked_norm(Tensor self, float? ord=2.0, int[1]? dim=None, *, bool keepdim=False, dtype? "
    "dtype=None, Tensor? mask=None) -> Tensor",
    names=("masked.norm",),
    out=False,
)
@sparse_too
def _masked_norm(self, ord, dim, keepdim, dtype, mask):
    """The norm of the elements that count."""
    order = 2.0 if ord is None else ord
    x = _filled("masked.norm", self, mask, inf if order == -inf else 0)
    return F.linalg_vector_norm(x, order, _dims(x, dim), keepdim, dtype=dtype)


def _variance(
    x: core.Tensor,
    dim: Any,
    unbiased: Any,
    correction: Any,
    keepdim: bool,
    dtype: core.dtype,
    mask: core.Tensor,
) -> Any:
    """The mean square distance from the mean, in at least float32."""
    if unbiased is not None and correction is not None:
        fail(
            RuntimeError,
            "masked.var",
            "Only one of unbiased and correction may be given",
            hint="correction=1 is the same as unbiased=True",
        )
    less = (1 if unbiased is None else int(unbiased)) if correction is None else correction
    kind, dims = _inexact(x, dtype), _dims(x, dim)
    if kind.is_complex or not x.dtype.is_complex:  # a real result is of both parts of a number
        x = x.to(core.float32 if kind.itemsize == 2 else kind)
    count = _count(x, mask, dims, True)
    mean = _filled("masked.var", x, mask, 0).sum(dims, True) / count
    distance = _filled("masked.var", x - mean, mask, 0)
    square = distance * distance.conj() if x.is_complex() else distance * distance
    total = (F.real(square) if x.is_complex() else square).sum(dims, keepdim)
    free = (_count(x, mask, dims, keepdim) - less).clamp(min=0)
    return total / free, kind


_SPREAD = (
    "int[1]? dim=None, bool? unbiased=None, *, Number? correction=None, bool keepdim=False, dtype? "
    "dtype=None, Tensor? mask=None"
)


@composite(f"_masked_var(Tensor self, {_SPREAD}) -> Tensor", names=("masked.var",), out=False)
@sparse_too
def _masked_var(self, dim, unbiased, correction, keepdim, dtype, mask):
    """The variance of the elements that count."""
    found, kind = _variance(self, dim, unbiased, correction, keepdim, dtype, mask)
    return found.to(kind)


@composite(f"_masked_std(Tensor self, {_SPREAD}) -> Tensor", names=("masked.std",), out=False)
@sparse_too
def _masked_std(self, dim, unbiased, correction, keepdim, dtype, mask):
    """The standard deviation of the elements that count."""
    found, kind = _variance(self, dim, unbiased, correction, keepdim, dtype, mask)
    return found.sqrt().to(kind)


@composite(
    f"_masked_softmax(Tensor self, {_ALONG}) -> Tensor", names=("masked.softmax",), out=False
)
def _masked_softmax(self, dim, dtype, mask):
    """The softmax over the elements that count; 0 for the others."""
    kind = self.dtype if dtype is None else dtype
    return F.softmax(_filled("masked.softmax", self.to(kind), mask, -inf), dim)


@composite(
    f"_masked_log_softmax(Tensor self, {_ALONG}) -> Tensor",
    names=("masked.log_softmax",),
    out=False,
)
def _masked_log_softmax(self, dim, dtype, mask):
    """The logarithm of `softmax`."""
    kind = self.dtype if dtype is None else dtype
    return F.log_softmax(_filled("masked.log_softmax", self.to(kind), mask, -inf), dim)


@composite(
    f"_masked_softmin(Tensor self, {_ALONG}) -> Tensor", names=("masked.softmin",), out=False
)
def _masked_softmin(self, dim, dtype, mask):
    """The softmax of the negated elements that count."""
    kind = self.dtype if dtype is None else dtype
    return F.softmax(-_filled("masked.softmin", self.to(kind), mask, inf), dim)


@composite(
    "_masked_normalize(Tensor self, float ord, int dim, *, float eps=1e-12, dtype? dtype=None, "
    "Tensor? mask=None) -> Tensor",
    names=("masked.normalize",),
    out=False,
)
def _masked_normalize(self, ord, dim, eps, dtype, mask):
    """The elements that count, scaled to norm one along `dim`."""
    norm = F._masked_norm(self, ord, (dim,), keepdim=True, dtype=dtype, mask=mask)
    return _filled("masked.normalize", self, mask, 0) / norm.clamp(min=eps)


@composite(f"_masked_cumsum(Tensor self, {_ALONG}) -> Tensor", names=("masked.cumsum",), out=False)
def _masked_cumsum(self, dim, dtype, mask):
    """The sums of the elements that count up to each place."""
    return _filled("masked.cumsum", self, mask, 0).cumsum(dim, dtype=dtype or self.dtype)


@composite(
    f"_masked_cumprod(Tensor self, {_ALONG}) -> Tensor", names=("masked.cumprod",), out=False
)
def _masked_cumprod(self, dim, dtype, mask):
    """The products of the elements that count up to each place."""
    return _filled("masked.cumprod", self, mask, 1).cumprod(dim, dtype=dtype or self.dtype)
