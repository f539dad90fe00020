"""Types of what is taken out of containers, by the types of the containers.

Takes: a graph some of whose nodes have types. Gives: the same, with types of `getitem` nodes.
Keeps true: a node with a type keeps it.
"""

from __future__ import annotations

import operator
import typing
from typing import Any

from facula.fx.graph import Graph

__all__ = ["annotate_getitem_nodes"]


def annotate_getitem_nodes(graph: Graph) -> None:
    """Gives `getitem` nodes the types that lists, tuples, dictionaries and named tuples have inside.

    Args:
        graph: the graph, which is changed.

    >>> from facula.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes
    >>> def first(x: list[facula.Tensor]):
    ...     return x[0]
    >>> graph = facula.fx.symbolic_trace(first).graph
    >>> annotate_getitem_nodes(graph)
    >>> [node.type for node in graph.nodes][1]
    <class 'facula.Tensor'>
    """
    for node in graph.nodes:
        if node.target is not operator.getitem or node.type is not None:
            continue
        holder, place = node.args
        kind = getattr(holder, "type", None)
        if kind is not None:
            node.type = _inside(kind, place)


def _inside(kind: Any, place: Any) -> Any:
    """The type at a place of a container's type; None where nothing is known."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is list and parts:
        return kind if isinstance(place, slice) else parts[0]
    if origin is dict and len(parts) == 2:
        return parts[1]
    if not isinstance(place, int):
        return None
    if origin is tuple and parts:
        if len(parts) == 2 and parts[1] is Ellipsis:
            return parts[0]
        return parts[place] if -len(parts) <= place < len(parts) else None
    fields = getattr(kind, "_fields", None)  # a named tuple
    if fields and -len(fields) <= place < len(fields):
        return typing.get_type_hints(kind).get(fields[place])
    return None
