"""Which values of a flat graph lie on memory that its caller sees.

Takes a flat graph.  Gives sets of nodes.
Keeps true: a view lies on the memory of its argument; everything else is on memory of its own.
"""

from __future__ import annotations

from facula.fx import Graph, Node
from facula.lower import table


def viewed(node: Node) -> Node | None:
    """The node whose memory a view shows, None for memory of its own."""
    if table.is_view(node) or _may_show(node):
        return next(iter(node.all_input_nodes), None)
    return None


def _may_show(node: Node) -> bool:
    """Whether the result may be (a view of) the argument: `detach`, pieces, a cast to the same."""
    if node.op != "call_function" or node.target is None:
        return False
    definition = table.definition_of(node)
    if definition is None:
        return table.is_copy(node.target) and node.target._opname not in ("clone", "_to_copy")
    return bool(definition.copied) or definition.kind == "composite"


def root_of(node: Node) -> Node:
    """The node that owns the memory that a node shows."""
    found = viewed(node)
    while found is not None:
        node = found
        found = viewed(node)
    return node


def outputs_of(graph: Graph) -> list[Node]:
    """The nodes that the graph gives."""
    return list(graph.output_node().all_input_nodes)


def shown_by_outputs(graph: Graph) -> set[Node]:
    """The outputs, and everything whose memory they show."""
    found: set[Node] = set()
    for node in outputs_of(graph):
        current: Node | None = node
        while current is not None and current not in found:
            found.add(current)
            current = viewed(current)
    return found
