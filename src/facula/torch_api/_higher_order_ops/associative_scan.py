"""`associative_scan`: all partial results of an associative function.

Takes: a function of two rows, and a tree of tensors. Gives: the tree of results, of the same shapes.
Keeps true: each result is what the function makes of all rows up to its own, combined from the first on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.fx import _pytree

from .slices import alike, check_callable, check_direction, common_length, row, stacked

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int = 0,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Partial results of `combine_fn` along `dim` of the tensors of `xs`, like `cumsum` of an addition.

    Raises:
        ValueError: an argument is of another type, or the function gives another structure or shape.
    """
    check_callable("associative_scan", combine_fn, "Combine_fn", ValueError)
    check_direction("associative_scan", dim, reverse, ValueError)
    if combine_mode not in ("pointwise", "generic"):
        fail(
            ValueError,
            "associative_scan",
            "pointwise or generic was required as combine_mode (Combine_mode must either 'pointwise' or 'generic')",
            combine_mode,
            hint="leave it out",
        )
    leaves = _pytree.tree_leaves(xs)
    if not leaves:
        fail(
            ValueError,
            "associative_scan",
            "a tensor was required (Expected at least 1 xs leaf)",
            hint="pass a tensor, or a tree of them",
        )
    if any(not hasattr(leaf, "shape") for leaf in leaves):
        fail(
            ValueError,
            "associative_scan",
            "tensors were required (xs leaves must be a Tensor)",
            [type(x).__name__ for x in leaves],
            "convert with tensor()",
        )
    dim = dim + leaves[0].dim() if dim < 0 else dim
    order: Any = range(common_length("associative_scan", leaves, dim))
    order = order[::-1] if reverse else order
    total = row(xs, dim, order[0])
    out = [total]
    for i in order[1:]:
        made = combine_fn(total, row(xs, dim, i))
        _check_like(total, made)
        total = made
        out.append(total)
    return stacked(out[::-1] if reverse else out, dim)


def _check_like(before: Any, after: Any) -> None:
    if not alike(before, after):
        fail(
            RuntimeError,
            "associative_scan",
            "results like the arguments were required of combine_fn (The pytree of the output of the "
            "operator needs to match the xs pytree; the shapes and dtypes, too)",
            _pytree.tree_map(lambda x: (tuple(x.shape), x.dtype), after),
            hint="a function that changes shapes or dtypes is no associative one",
        )


_fake_associative_scan = associative_scan
