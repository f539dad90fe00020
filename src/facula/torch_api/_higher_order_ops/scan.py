"""`scan` under the name of PyTorch's module, and the loop that it stands for."""

from collections.abc import Callable
from typing import Any

from facula.fx import _pytree as pytree
from facula.fx.higher_order import scan, scan_op
from facula.ops.table.registry import F

__all__ = ["scan", "scan_op"]


def _fake_scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: object,
    xs: object = None,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """The loop in Python."""
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves:
        return init, []
    order = range(leaves[0].shape[dim])
    carry, rows = init, []
    for at in reversed(order) if reverse else order:
        x = pytree.tree_unflatten([leaf.select(dim, at) for leaf in leaves], spec)
        carry, y = combine_fn(carry, x)
        rows.append(y)
    rows = rows[::-1] if reverse else rows
    flat = [pytree.tree_leaves(row) for row in rows]
    whole = [F.stack(list(parts)) for parts in zip(*flat, strict=True)]
    return carry, pytree.tree_unflatten(whole, pytree.tree_structure(rows[0]))
