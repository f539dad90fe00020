"""Masked operators of sparse tensors: what is not stored does not count.

Takes: sparse inputs, sparse masks. Gives: `sparse_too`, which lets a masked reduction take both, and `_where`.
Keeps true: a result has the input's layout and stores the elements that some counted element went into; it is
computed on dense
copies, so it takes the memory of those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F

__all__ = ["_where", "sparse_too"]

_COMPRESSED = (core.sparse_csr, core.sparse_csc, core.sparse_bsr, core.sparse_bsc)


def sparse_too(function: Callable[..., Any]) -> Callable[..., Any]:
    """A masked reduction that takes sparse inputs and masks as well."""
    code = function.__code__
    names = code.co_varnames[1 : code.co_argcount]

    def run(self: Any, *args: Any) -> Any:
        mask = args[-1]
        if self.layout is core.strided and (mask is None or mask.layout is core.strided):
            return function(self, *args)
        if self.layout is core.strided:
            return function(self, *args[:-1], mask.to_dense())
        given = dict(zip(names, args, strict=True))
        counted = _stored(self) if mask is None else _dense(mask).expand(self.shape)
        result = function(self.to_dense(), *args[:-1], counted)
        ndim = self.dim()
        dims = range(ndim) if not given["dim"] else [d % ndim for d in given["dim"] if ndim]
        for d in sorted(dims, reverse=True):
            counted = counted.any(d, keepdim=given["keepdim"])
        return _like(result, counted, self)

    run.__doc__ = function.__doc__
    return run


def _dense(mask: core.Tensor) -> Any:
    return mask if mask.layout is core.strided else mask.to_dense()


def _stored(x: core.Tensor) -> Any:
    """Whether an element is stored, as a dense tensor of bools."""
    if x.layout is core.sparse_coo:
        x = x.coalesce()
        found = F.zeros(x.shape, dtype=core.bool_, device=x.device)
        found[tuple(x.indices())] = True
        return found
    ones = x.to_sparse_coo() if x.layout is not core.sparse_csr else x
    if ones.layout is core.sparse_coo:
        return _stored(ones)
    rows = F.repeat_interleave(ones.crow_indices().diff())
    found = F.zeros(x.shape, dtype=core.bool_, device=x.device)
    found[rows, ones.col_indices().long()] = True
    return found


def _like(result: Any, counted: Any, x: core.Tensor) -> Any:
    """The elements that count, in the layout of a tensor."""
    places = counted.nonzero().t()
    values = result[counted] if result.dim() else result.reshape(1)[counted.reshape(1)]
    if x.layout is core.sparse_coo:
        return F.sparse_coo_tensor(places, values, result.shape, is_coalesced=True)
    if result.dim() != 2:
        fail(
            ValueError,
            "masked",
            f"a result of two dimensions was required of the layout {x.layout}",
            f"{result.dim()} dimensions",
            hint="reduce with keepdim=True, or convert with to_sparse_coo()",
        )
    made = F.sparse_coo_tensor(places, values, result.shape, is_coalesced=True)
    return made.to_sparse(layout=x.layout)


def _where(mask: core.Tensor, input: core.Tensor, fill_value: Any) -> Any:  # noqa: A002 - PyTorch's name
    """``where(mask, input, fill_value)`` of sparse tensors: stores the elements that the mask selects, those
    that `input` does
    not store as 0; the dense part of a hybrid tensor holds `fill_value` where the mask leaves elements out.
    """
    if mask.layout is core.strided:
        return F.where(mask, _dense(input), fill_value)
    chosen, values = _dense(mask), _dense(input)
    if mask.layout is core.sparse_coo and mask.dense_dim():
        rows = chosen.flatten(mask.sparse_dim()).any(-1)
        inner = F.where(chosen, values, fill_value)[rows]
        places = rows.nonzero().t()
        return F.sparse_coo_tensor(places, inner, values.shape, is_coalesced=True)
    return _like(F.where(chosen, values, fill_value), chosen, mask)
