"""Calls that compute the same twice.

Takes and gives a flat graph.
Keeps true: two results of the program stay two tensors; draws are never joined.
"""

from __future__ import annotations

from typing import Any

from facula.fx import Graph, Node
from facula.lower import table
from facula.lower.passes.memory import shown_by_outputs


def _key(value: object) -> Any:
    """Something hashable that is equal exactly for equal arguments."""
    if isinstance(value, (list, tuple)):
        return (len(value), *[_key(v) for v in value])
    if isinstance(value, dict):
        return tuple([(k, _key(v)) for k, v in value.items()])
    if isinstance(value, slice):
        return ("slice", _key(value.start), _key(value.stop), _key(value.step))
    if isinstance(value, Node):
        return value
    if isinstance(value, float):
        # -0.0 and nan, too, are equal to themselves only
        return (type(value), value.hex())
    return (type(value), value)


def join_common_calls(graph: Graph) -> int:
    """Let equal calls be one; gives how many went."""
    kept: dict[Any, Node] = {}
    shown = shown_by_outputs(graph)
    count = 0
    for node in list(graph.nodes):
        if node.op not in ("call_function", "get_attr") or table.is_random(node):
            continue
        try:
            key = (node.op, node.target, _key(node.args), _key(node.kwargs))
            first = kept.setdefault(key, node)
        except TypeError:  # an argument without a hash
            continue
        if first is node or (first in shown and node in shown):
            continue
        if node in shown:
            shown.add(first)
        node.replace_all_uses_with(first)
        graph.erase_node(node)
        count += 1
    return count
