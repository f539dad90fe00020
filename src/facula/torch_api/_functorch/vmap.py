"""`vmap` where PyTorch defines it, and the parts of it that other packages call.

Takes functions and nestings. Gives functions of batches. Keeps true: containers of tensors that map
themselves (`_add_batch_dim`, as tensordict's do) need nothing of this module replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.autograd.transforms.batching import VmapLevel
from facula.autograd.transforms.levels import is_batched
from facula.autograd.transforms.vmapping import add_batch_dim as _add_batch_dim
from facula.autograd.transforms.vmapping import name_of as _get_name
from facula.autograd.transforms.vmapping import remove_batch_dim, vmap
from facula.core import Tensor
from facula.core.errors import fail
from facula.fx._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

__all__ = [
    "Tensor",
    "_add_batch_dim",
    "_broadcast_to_and_flatten",
    "_get_name",
    "_maybe_remove_batch_dim",
    "restore_vmap",
    "tree_flatten",
    "tree_unflatten",
    "vmap",
]


def restore_vmap(
    func: Callable[..., Any], in_dims: Any, batch_size: int, randomness: str
) -> Callable[..., tuple[Any, Any]]:
    """A function that runs `func` on the entries of its inputs, and gives whole batches and their dimensions.

    What the function gives without a batch stays as it is, with None for its dimension.
    """

    def inner(*args: object, **kwargs: object) -> tuple[Any, Any]:
        with VmapLevel(batch_size, randomness) as level:
            leaves, spec = tree_flatten(args)
            dims = _broadcast_to_and_flatten(in_dims, spec)
            if dims is None:
                required = "in_dims with the structure of the inputs were required"
                hint = "one entry for each input; None keeps an input whole"
                fail(ValueError, "restore_vmap", required, in_dims, hint)
            entries = [
                leaf if dim is None else _add_batch_dim(leaf, dim, level.number)
                for leaf, dim in zip(leaves, dims, strict=True)
            ]
            outputs, form = tree_flatten(func(*tree_unflatten(entries, spec), **kwargs))
        found = [
            (v.value, v.batch_dim) if is_batched(v, level.number) else (v, None) for v in outputs
        ]
        values, places = zip(*found, strict=True) if found else ((), ())
        return tree_unflatten(list(values), form), tree_unflatten(list(places), form)

    return inner


def _maybe_remove_batch_dim(
    name: str, batched_output: object, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """An output of the function that is called `name`, with its batch in `out_dim`."""
    return remove_batch_dim(batched_output, vmap_level, batch_size, out_dim, name)
