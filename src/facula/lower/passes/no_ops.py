"""Calls that change nothing.

Takes and gives a flat graph with metas.
Keeps true: what the caller sees is the same memory, or memory of its own, as before; a value keeps
its shape, strides and dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.fx import Graph, Node
from facula.lower import table
from facula.lower.passes.memory import root_of, shown_by_outputs
from facula.ops.table.registry import F


def _same_layout(a: Node, b: Node) -> bool:
    x, y = a.meta.get("val"), b.meta.get("val")
    if not isinstance(x, core.Tensor) or not isinstance(y, core.Tensor):
        return False
    if (x.shape, x.dtype, x.device, x.stride()) != (y.shape, y.dtype, y.device, y.stride()):
        return False
    # the places of views are counted from the storage's first element
    return x.storage_offset() == y.storage_offset()


def _argument(node: Node) -> Node | None:
    first = node.args[0] if node.args else None
    return first if isinstance(first, Node) else None


def _copies(node: Node) -> bool:
    """Whether the node copies or casts, by a method of the core or an operator that does it."""
    if table.is_copy(node.target):
        return node.target._opname in ("clone", "_to_copy", "contiguous", "detach")
    return table.operator_of(node.target) is F.lift_fresh_copy


def _views_everything(node: Node) -> bool:
    definition = table.definition_of(node)
    if definition is None or definition.kind != "view":
        return False
    # a transposition of equal sizes changes strides, and those were compared, as was the offset
    return node.args[0].meta.get("val").shape == node.meta.get("val").shape


def _neutral(node: Node) -> bool:
    """Multiplication and division by one."""
    operator = table.operator_of(node.target)
    return operator in (F.mul, F.div) and len(node.args) > 1 and _is_one(node.args[1])


def _is_one(value: Any) -> bool:
    return type(value) in (int, float) and value == 1


def remove_no_ops(graph: Graph) -> int:
    """Replace calls that change nothing by their argument; gives how many went."""
    shown = shown_by_outputs(graph)
    count = 0
    for node in list(graph.nodes):
        source = _argument(node) if node.op == "call_function" else None
        if source is None or not _same_layout(node, source):
            continue
        shares = _views_everything(node)
        if not (shares or _copies(node) or _neutral(node)):
            continue
        if node in shown and not _may_be_seen(node, source, shown, shares):
            continue
        node.replace_all_uses_with(source)
        if node in shown:
            shown.add(source)
        graph.erase_node(node)
        count += 1
    return count


def _may_be_seen(node: Node, source: Node, shown: set[Node], shares: bool) -> bool:
    """Whether the caller may get the argument's memory in place of the call's."""
    root = root_of(source)
    return root.op == "call_function" and root not in shown


def merge_views(graph: Graph) -> int:
    """A view of a view of the same kind is one view; gives how many went."""
    count = 0
    for node in list(graph.nodes):
        operator = table.operator_of(node.target) if node.op == "call_function" else None
        rule = _MERGED.get(operator) if operator is not None else None
        inner = _argument(node)
        if rule is None or inner is None or inner.op != "call_function":
            continue
        if table.operator_of(inner.target) is operator and rule(node, inner):
            count += 1
    return count


def _merged_view(node: Node, inner: Node) -> bool:
    first = inner.args[0].meta["val"]
    if not first.is_contiguous() or not isinstance(node.args[1], (tuple, list)):
        return False
    if not isinstance(inner.args[1], (tuple, list)):
        return False
    node.args = (inner.args[0], tuple(node.meta["val"].shape))
    return True


def _merged_permute(node: Node, inner: Node) -> bool:
    rank = len(node.args[1])
    before = [d % rank for d in inner.args[1]]
    node.args = (inner.args[0], tuple(before[d % rank] for d in node.args[1]))
    return True


_MERGED: dict[Any, Callable[[Node, Node], bool]] = {
    F.view: _merged_view,
    F.permute: _merged_permute,
}
