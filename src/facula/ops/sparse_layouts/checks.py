"""The checks of sparse tensors' parts alone, without making a tensor.

Takes indices, values, a size and a layout. Gives None. Keeps true: what passes makes a tensor with
`check_invariants=True`, and what does not raises what that would raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.ops.sparse_layouts.create import (
    _PARTS,
    _check_dimensions,
    _check_parts,
    check_compressed,
    check_coo,
)


def _validate_sparse_coo_tensor_args(
    indices: core.Tensor, values: object, size: Any, is_coalesced: bool | None = None
) -> None:
    """Raise unless the parts make a tensor in coordinate layout."""
    op = "_validate_sparse_coo_tensor_args"
    _check_dimensions(op, indices, values, tuple(size))
    check_coo(op, indices, values, tuple(size), bool(is_coalesced))


def _validate_sparse_compressed_tensor_args(
    compressed_indices: Any, plain_indices: Any, values: object, size: Any, layout: core.layout
) -> None:
    """Raise unless the parts make a tensor in a compressed layout."""
    op = "_validate_sparse_compressed_tensor_args"
    _check_parts(op, compressed_indices, plain_indices, values, tuple(size), layout)
    check_compressed(op, compressed_indices, plain_indices, values, tuple(size), layout)


def _of_layout(layout: Any) -> Callable[..., None]:
    """The check of one compressed layout."""

    def check(compressed_indices: Any, plain_indices: Any, values: object, size: Any) -> None:
        _validate_sparse_compressed_tensor_args(
            compressed_indices, plain_indices, values, size, layout
        )

    check.__name__ = f"_validate_{str(layout).rpartition('.')[2]}_tensor_args"
    check.__doc__ = f"Raise unless the parts make a tensor in the layout {layout}."
    return check


_CHECKS = {check.__name__: check for check in map(_of_layout, _PARTS)}
_validate_sparse_csr_tensor_args = _CHECKS["_validate_sparse_csr_tensor_args"]
_validate_sparse_csc_tensor_args = _CHECKS["_validate_sparse_csc_tensor_args"]
_validate_sparse_bsr_tensor_args = _CHECKS["_validate_sparse_bsr_tensor_args"]
_validate_sparse_bsc_tensor_args = _CHECKS["_validate_sparse_bsc_tensor_args"]
