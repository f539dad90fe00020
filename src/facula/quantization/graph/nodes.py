"""Helpers over the nodes of graphs: PyTorch's `ao.quantization.fx.utils`.

Takes: graphs and nodes. Gives: `NodeInfo`, and `_reroute_tuple_getitem_pattern`. Keeps true: a graph computes the
same afterwards.
"""

from __future__ import annotations

import operator
from collections import namedtuple
from typing import Any

from facula.fx import Graph, Node
from facula.quantization.graph.observing import nodes_in

__all__ = ["NodeInfo"]

NodeInfo = namedtuple("NodeInfo", "op target")


def _path_to(node: Any) -> tuple[Any, list[int]]:
    """The value that a chain of `getitem` begins with, and its indices."""
    places: list[int] = []
    while isinstance(node, Node) and node.op == "call_function" and node.target is operator.getitem:
        places.insert(0, node.args[1])
        node = node.args[0]
    return node, places


def _resolved(node: Any) -> Any:
    """What an element of a tuple is, where the graph made the tuple."""
    value, places = _path_to(node)
    while places:
        if not (isinstance(value, Node) and value.op == "call_function" and value.target is tuple):
            return None
        value = value.args[0][places.pop(0)]
        inner, more = _path_to(value)
        value, places = inner, more + places
    return value


def _reroute_tuple_getitem_pattern(graph: Graph) -> None:
    """Let what reads elements of tuples that the graph made read what they were made of."""
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not operator.getitem:
            continue
        found = _resolved(node)
        if isinstance(found, Node) and found is not node:
            node.replace_all_uses_with(found)


def all_arguments(node: Node) -> list[Node]:
    """The nodes among the arguments of a node, in their order."""
    return list(nodes_in([node.args, node.kwargs]))
