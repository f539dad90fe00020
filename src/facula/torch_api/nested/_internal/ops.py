"""Dimensions of jagged tensors as dimensions of their rows, under PyTorch's name."""

from __future__ import annotations

from typing import Any

__all__: list[str] = []


def _outer_to_inner_dim(ndim: int, dim: Any, ragged_dim: int, canonicalize: bool = False) -> Any:
    """The dimension of the rows that a dimension of the batch is; the batch and the ragged one are the first."""
    if isinstance(dim, (tuple, list)):
        inner = [_outer_to_inner_dim(ndim, d, ragged_dim, canonicalize) for d in dim]
        return type(dim)(dict.fromkeys(inner))
    at = dim % ndim if canonicalize else dim
    return 0 if at < 2 else at - 1
