"""`map`: a function applied to every row.

Takes: a function, a tree of tensors, and what it gets besides. Gives: the tree of stacked results.
Keeps true: rows are taken in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.fx import _pytree

from .slices import check_callable, common_length, row, stacked

__all__ = ["map"]


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:  # noqa: A001 - PyTorch's name
    """``f(x, *args)`` of every `x` along the first dimension of the tensors of `xs`, stacked.

    Raises:
        RuntimeError: there is no tensor to take rows of, or their lengths differ.
    """
    check_callable("map", f, "f")
    leaves = _pytree.tree_leaves(xs)
    if not leaves or any(not leaf.dim() for leaf in leaves):
        fail(
            RuntimeError,
            "map",
            "tensors of one dimension or more were required (map doesn't work with unmapped leaves)",
            [list(leaf.shape) for leaf in leaves],
            hint="pass what is the same for each row in args",
        )
    count = common_length("map", leaves, 0)
    return stacked([f(row(xs, 0, i), *args) for i in range(count)])


_fake_map = map
