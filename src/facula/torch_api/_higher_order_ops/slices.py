"""What `map`, `scan` and `associative_scan` have in common: trees that are cut along a dimension, and stacked again.

Takes and gives: trees of tensors. Keeps true: the leaves of a tree that is cut have one length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula.core.errors import fail
from facula.fx import _pytree
from facula.ops.registry import F

__all__ = ["alike", "check_callable", "check_direction", "common_length", "row", "stacked"]


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


def check_direction(op: str, dim: Any, reverse: Any, kind: type[Exception] = RuntimeError) -> None:
    """Raise where a scan's dimension or direction is of another type."""
    if not isinstance(dim, int) or isinstance(dim, bool):
        fail(
            kind,
            op,
            "an int was required as dim (Dim must be an int)",
            type(dim).__name__,
            "dim=0 goes along rows",
        )
    if not isinstance(reverse, bool):
        fail(
            kind,
            op,
            "a bool was required as reverse (Reverse must be a bool)",
            type(reverse).__name__,
            "reverse=True begins at the last row",
        )


def alike(before: Any, after: Any) -> bool:
    """Whether two trees have one structure, and tensors of the same shapes and dtypes."""
    same = _pytree.tree_structure(before) == _pytree.tree_structure(after)
    pairs = zip(_pytree.tree_leaves(before), _pytree.tree_leaves(after), strict=False)
    return same and all(a.shape == b.shape and a.dtype is b.dtype for a, b in pairs)


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
