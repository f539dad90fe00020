"""`vmap` where PyTorch defines it, and the parts of it that other packages call.

Takes functions and nestings. Gives functions of batches. Keeps true: containers of tensors that map
themselves (`_add_batch_dim`, as tensordict's do) need nothing of this module replaced.
"""

from __future__ import annotations

from typing import Any

from facula.autograd.transforms.vmapping import add_batch_dim as _add_batch_dim
from facula.autograd.transforms.vmapping import name_of as _get_name
from facula.autograd.transforms.vmapping import remove_batch_dim, vmap
from facula.core import Tensor
from facula.fx._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

__all__ = [
    "Tensor",
    "_add_batch_dim",
    "_broadcast_to_and_flatten",
    "_get_name",
    "_maybe_remove_batch_dim",
    "tree_flatten",
    "tree_unflatten",
    "vmap",
]


def _maybe_remove_batch_dim(
    name: str, batched_output: object, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """An output of the function that is called `name`, with its batch in `out_dim`."""
    return remove_batch_dim(batched_output, vmap_level, batch_size, out_dim, name)
