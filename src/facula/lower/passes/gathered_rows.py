"""Rows that are gathered only to be reduced into other rows: one call, without the rows between.

Takes and gives a flat graph with metas.
Keeps true: the gathered rows are read by the reduction alone; values, their order of summation and
the errors of bad indices stay.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.fx import Graph, Node
from facula.lower import table
from facula.lower.passes.small_products import Writer
from facula.ops.index.gather_scatter import takes_rows
from facula.ops.table.registry import F


def join_gathers_with_scatters(graph: Graph) -> int:
    """Reduce rows from where they are; gives how many calls went."""
    count = 0
    for node in list(graph.nodes):
        operator = table.operator_of(node.target) if node.op == "call_function" else None
        rule = _REDUCTIONS.get(operator) if operator is not None else None
        found = rule(node) if rule is not None else None
        if found is None:
            continue
        write = Writer(graph, node)
        target, rows, gathered, reduce, include_self = found
        source = _gathered(write, gathered)
        index = _rows_of(write, rows)
        if source is None or index is None:
            continue
        known = [n.meta["val"] for n in (target, index, *source)]
        if not takes_rows(*known):
            continue
        names = [table.operator_of(n.target).name for n in (gathered, node)]
        joined = write(F._gather_scatter, target, index, *source, reduce, include_self, *names)
        node.replace_all_uses_with(joined)
        graph.erase_node(node)
        graph.erase_node(gathered)
        count += 1
    return count


def _scattered(node: Node) -> Any:
    target, dim, index, values, *rest = node.args
    reduce = rest[0] if rest else node.kwargs.get("reduce", "sum")
    include_self = node.kwargs.get("include_self", rest[1] if len(rest) > 1 else True)
    return _checked(target, dim, index, values, reduce, include_self)


def _added(node: Node) -> Any:
    if node.kwargs.get("alpha", 1) != 1 or len(node.args) != 4:
        return None
    target, dim, index, values = node.args
    return _checked(target, dim, index, values, "sum", True)


def _checked(
    target: object, dim: int, index: Node, values: Node, reduce: str, include: bool
) -> Any:
    nodes = all(isinstance(n, Node) for n in (target, index, values))
    if not nodes or dim != 0 or len(values.users) != 1:
        return None
    shape = index.meta["val"].shape
    if len(shape) > 1 and tuple(shape) != tuple(values.meta["val"].shape):
        return None
    return target, index, values, reduce, include


#: operator -> what it reduces into, the rows, the values, how
_REDUCTIONS = {F.scatter_reduce: _scattered, F.scatter_add: _scattered, F.index_add: _added}


def _gathered(write: Writer, node: Node) -> tuple[Node, Node] | None:
    """The source and the places of gathered rows."""
    operator = table.operator_of(node.target) if node.op == "call_function" else None
    if operator not in (F.index_select, F.gather) or len(node.args) != 3:
        return None
    source, dim, places = node.args
    if dim != 0 or not isinstance(source, Node) or not isinstance(places, Node):
        return None
    if operator is F.gather and tuple(source.meta["val"].shape[1:]) != tuple(
        places.meta["val"].shape[1:]
    ):
        return None
    rows = _rows_of(write, places)
    return None if rows is None else (source, rows)


def _rows_of(write: Writer, index: Node) -> Node | None:
    """The numbers of rows, where an index says the same for all elements of a row."""
    value = index.meta["val"]
    if not isinstance(value, core.Tensor) or value.dim() == 0:
        return None
    if any(s and n > 1 for n, s in zip(value.shape[1:], value.stride()[1:], strict=True)):
        return None
    if 0 in value.shape:
        return None
    while index.meta["val"].dim() > 1:
        index = write(F.select, index, 1, 0)
    return index
