"""What `map`, `scan` and `associative_scan` have in common: trees that are cut along a dimension, and stacked again.

Takes and gives: trees of tensors. Keeps true: the leaves of a tree that is cut have one length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula.core.errors import fail
from facula.fx import _pytree
from facula.ops.registry import F

__all__ = ["check_callable", "common_length", "row", "stacked"]


def check_callable(op: str, function: Any, name: str, kind: type[Exception] = RuntimeError) -> None:
    """Raise where what should be called can not be."""
    if not callable(function):
        fail(
            kind,
            op,
            f"a function was required ({name} must be a callable)",
            type(function).__name__,
            hint="pass a function of tensors",
        )


def common_length(op: str, leaves: Sequence[Any], dim: int) -> int:
    """The size of all leaves in a dimension."""
    sizes = {leaf.shape[dim] for leaf in leaves}
    if len(sizes) != 1 or 0 in sizes:
        fail(
            RuntimeError,
            op,
            f"tensors of one size above 0 in dimension {dim} were required (All xs leaves must at "
            "least have 'dim' number of dimensions and scan dimension > 0)",
            [list(leaf.shape) for leaf in leaves],
            hint="cut them to one length",
        )
    return int(sizes.pop())


def row(tree: Any, dim: int, at: int) -> Any:
    """The part of each leaf at one place."""
    return _pytree.tree_map(lambda leaf: leaf.select(dim, at), tree)


def stacked(trees: Sequence[Any], dim: int = 0) -> Any:
    """A tree of stacks of the leaves of trees of one structure; leaves that are no tensors are those of the first."""
    leaves = [_pytree.tree_leaves(tree) for tree in trees]
    spec = _pytree.tree_structure(trees[0])
    whole = [
        parts[0] if parts[0] is None else F.stack(list(parts), dim)
        for parts in zip(*leaves, strict=True)
    ]
    return _pytree.tree_unflatten(whole, spec)
