"""Between the two ways in which rows of a sparse matrix are told: one number an element, or where each row begins.

Takes tensors of positions. Gives tensors of positions. Keeps true: both ways and back is the same; nothing is checked
that a matrix would be checked for.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.ops.table.registry import F

__all__ = ["_convert_indices_from_coo_to_csr", "_convert_indices_from_csr_to_coo", "dsmm"]


def _kind(out_int32: bool) -> core.dtype:
    return core.int32 if out_int32 else core.int64


def _convert_indices_from_coo_to_csr(
    input: core.Tensor,  # noqa: A002 - PyTorch's name
    size: int,
    *,
    out_int32: bool = False,
) -> Any:
    """Where each of `size` rows begins, and the end, of the sorted rows of elements."""
    starts = F.arange(size + 1, dtype=input.dtype, device=input.device)
    return F.searchsorted(input, starts).to(_kind(out_int32))


def _convert_indices_from_csr_to_coo(
    crow_indices: core.Tensor,
    col_indices: core.Tensor,
    *,
    out_int32: bool = False,
    transpose: bool = False,
) -> Any:
    """Row and column of each element, (2, n), or (columns, rows) where transposed. Batches come first in a row."""
    kind = _kind(out_int32)
    rows = F.arange(crow_indices.shape[-1] - 1, dtype=kind, device=crow_indices.device)
    if crow_indices.dim() == 1:
        found = F.repeat_interleave(rows, crow_indices.diff().to(core.int64))
        pair = [col_indices.to(kind), found] if transpose else [found, col_indices.to(kind)]
        return F.stack(pair)
    each = [
        _convert_indices_from_csr_to_coo(starts, columns, out_int32=out_int32, transpose=transpose)
        for starts, columns in zip(
            crow_indices.flatten(0, -2), col_indices.flatten(0, -2), strict=True
        )
    ]
    batch = crow_indices.shape[:-1]
    places = F.ones(batch, dtype=core.bool_).nonzero().to(kind)
    counts = col_indices.shape[-1]
    return F.cat([places.repeat_interleave(counts, 0).t(), F.cat(each, 1)])


def dsmm(input: Any, mat2: Any) -> Any:  # noqa: A002 - PyTorch's name
    """The product of a sparse and a dense matrix, under its name in PyTorch's first versions.

    Args:
        input: sparse, [n, k]
        mat2: dense, [k, m]

    Example:
        >>> facula.dsmm(facula.eye(2).to_sparse(), facula.tensor([[1.0], [2.0]]))
        tensor([[1.],
                [2.]])
    """
    return F.mm(input, mat2)
