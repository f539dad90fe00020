"""Nodes that nothing reads.

Takes and gives a flat graph.
Keeps true: inputs stay; a draw stays, since it moves its generator on.
"""

from __future__ import annotations

from facula.fx import Graph
from facula.lower import table


def remove_dead_code(graph: Graph) -> int:
    """Remove what no output needs; gives how many nodes went."""
    count = 0
    for node in reversed(list(graph.nodes)):
        if node.op in ("placeholder", "output") or node.users or table.is_random(node):
            continue
        graph.erase_node(node)
        count += 1
    return count
