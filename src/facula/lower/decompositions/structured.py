"""Decompositions of operators that no program of the table describes.

Takes and gives what the operators do.
Keeps true: an operator stands here only where its parts fuse better than the whole, or where the
whole is but a shorter name.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.lower.decompositions.registered import register
from facula.ops.layers.loss import nll_rows
from facula.ops.table.registry import F

Tensor = core.Tensor


@register("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ w.T + b."""
    if weight.dim() != 2 or input.dim() == 1:
        product = F.matmul(input, weight.t() if weight.dim() == 2 else weight)
        return product if bias is None else product + bias
    rows = (
        input if input.dim() == 2 else input.reshape(math.prod(input.shape[:-1]), input.shape[-1])
    )
    whole = bias is not None and bias.dim() == 1
    product = F.addmm(bias, rows, weight.t()) if whole else F.mm(rows, weight.t())
    if bias is not None and not whole:
        product = product + bias
    if input.dim() == 2:
        return product
    return product.reshape([*input.shape[:-1], weight.shape[0]])


@register("dot")
def dot(self: Tensor, tensor: Tensor) -> Tensor:
    """The sum of products."""
    return F.sum(self * tensor, dtype=self.dtype)


@register("baddbmm")
def baddbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * self + alpha * batch1 @ batch2."""
    product = F.bmm(batch1, batch2)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return product + (self if beta == 1 else self * beta)


@register("std_correction")
def std_correction(self: Tensor, dim: object, correction: float, keepdim: bool) -> Tensor:
    """The root of the variance."""
    return F.var_correction(self, dim, correction, keepdim).sqrt()


@register("std_mean_correction")
def std_mean_correction(self: Tensor, dim: object, correction: float, keepdim: bool) -> Any:
    """The root of the variance, and the mean."""
    var, mean = F.var_mean_correction(self, dim, correction, keepdim)
    return var.sqrt(), mean


def _total(x: Tensor, mean: bool) -> Tensor:
    return x.mean() if mean else x.sum()


register("_nll_rows")(nll_rows)


@register("mse_total")
def mse_total(input: Tensor, target: Tensor, mean: bool) -> Tensor:
    """The sum or mean of squared differences."""
    difference = input - target
    return _total(difference * difference, mean)


@register("l1_total")
def l1_total(input: Tensor, target: Tensor, mean: bool) -> Tensor:
    """The sum or mean of absolute differences."""
    return _total((input - target).abs(), mean)


@register("nansum")
def nansum(
    self: Tensor, dim: object = None, keepdim: bool = False, *, dtype: core.dtype | None = None
) -> Tensor:
    """The sum of what is not NaN."""
    kept = F.where(self.isnan(), 0.0, self) if self.dtype.is_floating_point else self
    return F.sum(kept, dim, keepdim, dtype=dtype)


@register("count_nonzero")
def count_nonzero(self: Tensor, dim: object = None) -> Tensor:
    """How many elements are not zero."""
    return F.sum(self != 0, dim)


@register("aminmax")
def aminmax(self: Tensor, *, dim: object = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element."""
    dims = () if dim is None else dim
    return F.amin(self, dims, keepdim), F.amax(self, dims, keepdim)


@register("stack")
def stack(tensors: Any, dim: int = 0) -> Tensor:
    """The tensors along a new dimension."""
    return F.cat([t.unsqueeze(dim) for t in tensors], dim)


@register("tril")
def tril(self: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangles of matrices, the rest zero."""
    return _triangle(self, diagonal, True)


@register("triu")
def triu(self: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangles of matrices, the rest zero."""
    return _triangle(self, diagonal, False)


def _triangle(x: Tensor, diagonal: int, lower: bool) -> Tensor:
    height, width = x.shape[-2:]
    row = F.arange(height, device=x.device).unsqueeze(1)
    column = F.arange(width, device=x.device).unsqueeze(0)
    distance = column - row
    kept = distance <= diagonal if lower else distance >= diagonal
    return F.where(kept, x, F.zeros((), dtype=x.dtype, device=x.device))


@register("roll")
def roll(self: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    """Elements moved on along dimensions; those that fall off come in on the other side."""
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    if not dims:
        return roll(self.reshape(-1), shifts, (0,)).reshape(self.shape)
    x = self
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim] if x.dim() else 1
        start = -shift % size if size else 0
        if start:
            x = F.cat([x.narrow(dim, start, size - start), x.narrow(dim, 0, start)], dim)
    return x.clone() if x is self else x
