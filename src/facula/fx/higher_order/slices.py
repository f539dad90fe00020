"""What `map`, `scan` and `associative_scan` have in common: leaves cut along their first dimension, and checks.

Takes and gives: flat lists of tensors, and trees. Keeps true: the leaves that are cut have one length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.ops.table.registry import F

__all__ = [
    "alike",
    "check_callable",
    "check_direction",
    "check_leaves",
    "common_length",
    "moved",
    "row",
    "stacked",
]

Tensor = core.Tensor


def check_callable(
    op: str, function: object, name: str, kind: type[Exception] = RuntimeError
) -> None:
    """Raise where what should be called can not be."""
    if not callable(function):
        fail(
            kind,
            op,
            f"a function was required ({name} must be a callable)",
            type(function).__name__,
            hint="pass a function of tensors",
        )


def check_direction(
    op: str, dim: object, reverse: object, kind: type[Exception] = RuntimeError
) -> None:
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


def check_leaves(op: str, leaves: Sequence[Any], what: str, kind: type[Exception]) -> None:
    """Raise where there is a leaf that is no dense tensor."""
    if any(not isinstance(leaf, Tensor) for leaf in leaves):
        fail(
            kind,
            op,
            f"tensors were required (all {what} leaves must be a Tensor)",
            [type(x).__name__ for x in leaves],
            "convert with tensor()",
        )
    if any(leaf.layout is not core.strided for leaf in leaves):
        fail(
            kind,
            op,
            f"dense tensors were required ({what} leaves must dense Tensors)",
            [str(x.layout) for x in leaves],
            "to_dense() gives one",
        )


def alike(before: object, after: object) -> bool:
    """Whether two trees have one structure, and tensors of the same shapes and dtypes."""
    same = pytree.tree_structure(before) == pytree.tree_structure(after)
    pairs = zip(pytree.tree_leaves(before), pytree.tree_leaves(after), strict=False)
    return same and all(a.shape == b.shape and a.dtype is b.dtype for a, b in pairs)


def common_length(op: str, leaves: Sequence[Any], dim: int) -> Any:
    """The size of all leaves in a dimension."""
    if any(not -leaf.dim() <= dim < leaf.dim() for leaf in leaves):
        _lengths(op, leaves, dim)
    sizes = [leaf.shape[dim] for leaf in leaves]
    if any(size != sizes[0] for size in sizes) or sizes[0] == 0:
        _lengths(op, leaves, dim)
    return sizes[0]


def _lengths(op: str, leaves: Sequence[Any], dim: int) -> None:
    fail(
        RuntimeError,
        op,
        f"tensors of one size above 0 in dimension {dim} were required (All xs leaves must at "
        "least have 'dim' number of dimensions and scan dimension > 0)",
        [list(leaf.shape) for leaf in leaves],
        hint="cut them to one length",
    )


def row(leaves: Sequence[Any], at: int) -> list[Any]:
    """The part of each leaf at one place of its first dimension."""
    return [leaf.select(0, at) for leaf in leaves]


def stacked(rows: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """The rows of each result in one tensor; what is no tensor is that of the first row."""
    return tuple([
        F.stack(list(parts), 0) if isinstance(parts[0], Tensor) else parts[0]
        for parts in zip(*rows, strict=True)
    ])  # fmt: skip


def moved(leaves: Sequence[Any], source: int, target: int, reverse: bool) -> list[Any]:
    """Leaves with a dimension in another place, where asked in the other order."""
    found = []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            leaf = leaf.movedim(source, target) if source != target else leaf
            leaf = leaf.flip(target) if reverse else leaf
        found.append(leaf)
    return found
