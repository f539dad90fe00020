"""`associative_scan` under the name of PyTorch's module, and the loop that it stands for."""

from collections.abc import Callable
from typing import Any

from facula.fx import _pytree as pytree
from facula.fx.higher_order import associative_scan, associative_scan_op
from facula.ops.table.registry import F

__all__ = ["associative_scan", "associative_scan_op"]


def _fake_associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: object, dim: int, reverse: bool = False
) -> Any:
    """The loop in Python."""
    leaves, spec = pytree.tree_flatten(xs)
    order = range(leaves[0].shape[dim])
    total, rows = None, []
    for at in reversed(order) if reverse else order:
        x = pytree.tree_unflatten([leaf.select(dim, at) for leaf in leaves], spec)
        total = x if total is None else combine_fn(total, x)
        rows.append(pytree.tree_leaves(total))
    rows = rows[::-1] if reverse else rows
    return pytree.tree_unflatten([F.stack(list(p), dim) for p in zip(*rows, strict=True)], spec)
