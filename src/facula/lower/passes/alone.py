"""Operators with several results of which only one is read.

Takes and gives a flat graph with metas.
Keeps true: the result stays what it was; a definition names the operator that gives it alone
(`Definition.alone`), with the same arguments.
"""

from __future__ import annotations

import operator

from facula.fx import Graph, Node
from facula.lower import table
from facula.ops.table.overloads import overload_of
from facula.ops.table.registry import F


def leave_unread_results_out(graph: Graph) -> int:
    """Call what gives the only result that is read; gives how many calls changed."""
    count = 0
    for node in list(graph.nodes):
        definition = table.definition_of(node)
        named = definition.alone if definition is not None else None
        if not named or any(user.target is not operator.getitem for user in node.users):
            continue
        read = {user.args[1] for user in node.users}
        if len(read) == 1 and read <= named.keys():
            (number,) = read
            _replace(graph, node, number, getattr(F, named[number]))
            count += 1
    return count


def _replace(graph: Graph, node: Node, number: int, function: object) -> None:
    known = [a.meta["val"] if isinstance(a, Node) else a for a in node.args]
    target = overload_of(function, tuple(known), node.kwargs)
    with graph.inserting_before(node):
        alone = graph.call_function(target, node.args, node.kwargs)
    alone.meta = {**node.meta, "val": node.meta["val"][number]}
    for user in list(node.users):
        user.replace_all_uses_with(alone)
        graph.erase_node(user)
    graph.erase_node(node)
