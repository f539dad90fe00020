"""Transforms that have little to do here: `functionalize`, and looking behind wrappers.

Takes functions and tensors.  Gives functions of the same results.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from facula import core
from facula.autograd.transforms.functionalization import FunctionalLevel
from facula.autograd.transforms.levels import BatchedTensor
from facula.autograd.transforms.tree import map_leaves
from facula.core.errors import fail


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function without writes inside: what it does to its arguments is done to them once, at the
    end.

    Args:
        func: of tensors
        remove: 'mutations', or 'mutations_and_views' where views become copies, too

    Example:
        >>> facula.func.functionalize(lambda x: x.clone().add_(1))(facula.zeros(2))
        tensor([1., 1.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        fail(
            RuntimeError,
            "functionalize",
            (
                f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. "
                "Valid options are:\n     remove='mutations': all inplace and out= operators "
                "will be removed from the program, and replaced with their out-of-place "
                "equivalents.\n     remove='mutations_and_views': In addition to the above, "
                "all aliasing operators {view} will be replaced with their non-aliasing "
                "counterparts, {view}_copy.\n"
            ),
            hint="leave remove out for 'mutations'",
        )

    @functools.wraps(func)
    def wrapped(*args: object, **kwargs: object) -> Any:
        with FunctionalLevel(views=remove == "mutations_and_views") as level:
            outputs = func(*args, **kwargs)
            results = map_leaves(level.value_of, outputs)
            written = [(m, level.value_of(m.tensor)) for m in level.written()]
        for memory, value in written:
            if memory.hidden:
                with _unrecorded():
                    memory.tensor.copy_(value)
            else:
                memory.tensor.copy_(value)
        return results

    return wrapped


@contextlib.contextmanager
def _unrecorded() -> Iterator[None]:
    recording = core.set_grad_enabled(False)
    try:
        yield
    finally:
        core.set_grad_enabled(recording)


def debug_unwrap(tensor: core.Tensor, *, recurse: bool = True) -> Any:
    """What a function transform's wrapper holds: for looking only.

    Args:
        tensor: inside of a transform
        recurse: whether the wrappers of all transforms come off

    Example:
        >>> seen = []
        >>> def f(x):
        ...     seen.append(facula.func.debug_unwrap(x).shape)
        ...     return x
        >>> _ = facula.vmap(f)(facula.ones(3, 2))
        >>> seen
        [facula.Size([3, 2])]
    """
    while isinstance(tensor, BatchedTensor):
        tensor = tensor.value
        if not recurse:
            break
    return tensor
