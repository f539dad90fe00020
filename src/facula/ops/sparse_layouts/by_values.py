"""Gradients of functions of sparse tensors are checked by their values.

Takes a function and its inputs, of which some are sparse. Gives a function of dense tensors, and these: in
the place of a sparse input stand its values, of those places that are specified (`masked`), or of all places.
Keeps true: values pass into the sparse tensor with their history, so gradients of both kinds go the way of
the function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.ops.sparse_layouts.tensor import SparseTensor, rebuilt, values_of
from facula.ops.table.registry import F

_BLOCKS = (core.sparse_bsr, core.sparse_bsc)


def of_values(func: Callable[..., Any], inputs: tuple, masked: bool) -> tuple[Any, tuple]:
    """(the function of values, its inputs); both as they are where no input is sparse."""
    sparse = {k: x for k, x in enumerate(inputs) if isinstance(x, SparseTensor) and x.requires_grad}
    if not sparse:
        return func, inputs
    patterns = {k: _specified(x.detach(), masked) for k, x in sparse.items()}
    values = tuple(
        values_of(patterns[k]).clone().requires_grad_() if k in patterns else x
        for k, x in enumerate(inputs)
    )

    def called(*args: Any) -> Any:
        built = [rebuilt(patterns[k], x) if k in patterns else x for k, x in enumerate(args)]
        return _dense(func(*built))

    return called, values


def _specified(x: Any, masked: bool) -> Any:
    """A sparse tensor with its own places, each once, or with all that it has."""
    coo = x.layout is core.sparse_coo
    if masked:
        return x.coalesce() if coo else x
    dense = x.to_dense()
    every = F.ones_like(dense)
    if coo:
        return dense.sparse_mask(every.to_sparse(x.sparse_dim()))
    block = None
    if x.layout in _BLOCKS:
        lines = x.crow_indices() if x.layout is core.sparse_bsr else x.ccol_indices()
        block = x.values().shape[lines.dim() : lines.dim() + 2]
    mask = every.to_sparse(layout=x.layout, blocksize=block, dense_dim=x.dense_dim())
    return dense.sparse_mask(mask)


def _dense(result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return tuple(_dense(r) for r in result)
    return result.to_dense() if isinstance(result, SparseTensor) else result
