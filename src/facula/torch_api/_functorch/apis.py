"""`vmap` and `grad` where PyTorch defines them, and `vmap` in a number of parts.

Takes functions of one entry. Gives functions of batches. Keeps true: parts give what one run gives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula.autograd.transforms.vmapping import in_dims_of, vmap
from facula.core.errors import fail

from ..func import grad, grad_and_value

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]


def chunk_vmap(
    func: Callable[..., Any],
    in_dims: object = 0,
    out_dims: object = 0,
    randomness: str = "error",
    chunks: int = 2,
) -> Callable[..., Any]:
    """`vmap` that runs a batch in so many parts, the last of which may be smaller."""
    if chunks < 1:
        required = f"vmap: chunks should be at least 1. (got {chunks})"
        fail(ValueError, "chunk_vmap", required, hint="chunks=1 takes all entries at once")

    @functools.wraps(func)
    def mapped(*args: object, **kwargs: object) -> Any:
        size = in_dims_of(in_dims, args, func)[0]
        part = max(-(-size // chunks), 1)
        return vmap(func, in_dims, out_dims, randomness, chunk_size=part)(*args, **kwargs)

    return mapped
