"""`scan`: a state carried along a dimension.

Takes: a function of the state and a row, the first state, and trees of tensors. Gives: the last state, and the
stacked results.
Keeps true: results stand in the order of the rows, whichever way they were gone through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.fx import _pytree

from .slices import alike, check_callable, check_direction, common_length, row, stacked

__all__ = ["scan"]


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """``carry, y = combine_fn(carry, x)`` along `dim` of the tensors of `xs`; gives the last carry, and all
    `y` stacked.

    Raises:
        RuntimeError: there is no state, the lengths differ, or a state has another shape or dtype than the one before.
    """
    check_callable("scan", combine_fn, "Combine_fn")
    check_direction("scan", dim, reverse)
    first = _pytree.tree_leaves(init)
    if not first or any(not hasattr(leaf, "shape") for leaf in first):
        fail(
            RuntimeError,
            "scan",
            "tensors were required as init (scan() operator requires init leaves; all init leaves "
            "must be a Tensor)",
            first,
            hint="pass zeros() where there is no state to begin with",
        )
    leaves = _pytree.tree_leaves(xs)
    if not leaves:
        return init, []
    dim = dim + leaves[0].dim() if dim < 0 else dim
    order = range(common_length("scan", leaves, dim))
    carry, out = init, []
    for i in reversed(order) if reverse else order:
        given = combine_fn(carry, row(xs, dim, i))
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            fail(
                RuntimeError,
                "scan",
                "a pair of state and result was required of combine_fn",
                type(given).__name__,
                hint="return carry, y",
            )
        _check_state(carry, given[0])
        carry = given[0]
        out.append(given[1])
    return carry, stacked(out[::-1] if reverse else out)


def _check_state(before: Any, after: Any) -> None:
    """That a state can take the place of the one before."""
    if not alike(before, after):
        fail(
            RuntimeError,
            "scan",
            "a state of the structure, shapes and dtypes of the one before was required (The tree "
            "structure of the inits and the carries are not identical, or their metadata differ)",
            _pytree.tree_map(lambda x: (tuple(x.shape), x.dtype), after),
            hint="convert what combine_fn returns first",
        )


def _fake_scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    return scan(combine_fn, init, xs, dim=dim, reverse=reverse)
