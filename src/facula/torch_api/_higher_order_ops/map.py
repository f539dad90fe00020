"""`map` under the name of PyTorch's module, and the loop that it stands for."""

from collections.abc import Callable
from typing import Any

from facula.fx import _pytree as pytree
from facula.fx.higher_order import map, map_impl
from facula.ops.table.registry import F

__all__ = ["map", "map_impl"]


def _fake_map(f: Callable[..., Any], xs: object, *args: object) -> Any:
    """The loop in Python."""
    leaves, spec = pytree.tree_flatten(xs)
    rows = [f(pytree.tree_unflatten(list(row), spec), *args) for row in zip(*leaves, strict=True)]
    flat = [pytree.tree_leaves(row) for row in rows]
    whole = [F.stack(list(parts)) for parts in zip(*flat, strict=True)]
    return pytree.tree_unflatten(whole, pytree.tree_structure(rows[0]))
