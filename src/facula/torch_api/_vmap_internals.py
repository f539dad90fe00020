"""`torch._vmap_internals`: the vmap of PyTorch's first programs with it.

Takes a function of one entry. Gives one of a batch. Keeps true: it is `facula.func.vmap`, with entries that may not
draw random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.autograd.transforms import vmap as _of_entries

__all__ = ["vmap"]


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    """A function of a batch, of one of an entry.

    Args:
        func: of one entry
        in_dims: where the arguments have their entries; None for those that are the same for all
        out_dims: where the results get theirs

    Example:
        >>> from facula._vmap_internals import vmap
        >>> vmap(facula.sum)(facula.ones(2, 3))
        tensor([3., 3.])
    """
    return _of_entries(func, in_dims, out_dims)


_vmap = vmap
