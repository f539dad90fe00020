"""Transforms that have little to do here: `functionalize`, and looking behind wrappers.

Takes functions and tensors.  Gives functions of the same results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.transforms.levels import BatchedTensor


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """`func`, with the same results: in-place operations inside of it are seen by nobody else.

    Called eagerly there is nothing to remove; a tracer of the function removes writes itself.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}."
            " Valid options are:\n     remove='mutations': all inplace and out= operators will be "
            "removed from the program, and replaced with their out-of-place equivalents.\n"
            "     remove='mutations_and_views': In addition to the above, all aliasing operators "
            "{view} will be replaced with their non-aliasing counterparts, {view}_copy.\n"
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped


def debug_unwrap(tensor: core.Tensor, *, recurse: bool = True) -> Any:
    """What a function transform's wrapper holds: for looking only, its results are not transformed.

    With `recurse` the wrappers of all transforms come off, else that of the innermost one.
    """
    while isinstance(tensor, BatchedTensor):
        tensor = tensor.value
        if not recurse:
            break
    return tensor
