"""Chains of nodes in a graph that look as a pattern says.

Takes: a node and a pattern, from the first layer to the last. Gives: `apply_match`, the nodes.
Keeps true: inside of a chain nobody else reads a node, so that its rows may go.
"""

from __future__ import annotations

import operator
from typing import Any

from facula import nn
from facula.fx import Node
from facula.nn.utils.parametrize import type_before_parametrizations
from facula.quantization.utils import MatchAllNode

__all__ = ["apply_match"]


def _match(modules: dict[str, nn.Module], node: Node, current: Any) -> bool:
    """Whether a node is a call of this class of modules, function or method, or `"output"`."""
    if current is MatchAllNode:
        return True
    if isinstance(current, type) and issubclass(current, nn.Module):
        found = modules.get(node.target) if node.op == "call_module" else None
        return found is not None and type_before_parametrizations(found) is current
    if node.op == "call_function":
        return bool(node.target is current)
    if node.op in ("call_method", "output"):
        return isinstance(current, str) and node.target == current
    return False


def _is_result(node: Node) -> bool:
    """Whether a node is a result of the graph, or read as one and by nothing else."""
    return node.op == "output" or all(user.op == "output" for user in node.users)


def _only_reader(modules: dict[str, nn.Module], node: Node, current: Any) -> Node | None:
    """The node that reads another one and fits; None where none does, or something else reads it as well.

    What an LSTM puts out, and its state, may be results of the model, which get smaller then."""
    readers = [user for user in node.users if user.users or user.op == "output"]
    if current is operator.getitem:
        fitting = [user for user in readers if _match(modules, user, current) and user.args[1] == 0]
    else:
        fitting = [user for user in readers if _match(modules, user, current)]
    others = [user for user in readers if user not in fitting]
    if operator.getitem in (current, node.target):
        others = [user for user in others if not _is_result(user)]
    if len(fitting) != 1 or others:
        return None
    return fitting[0]


def apply_match(
    modules: dict[str, nn.Module], pattern: Any, node: Node, matched_node_pattern: list[Node]
) -> list[Node] | None:
    """The chain that begins at a node and looks as the pattern says; None where there is none.

    Args:
        modules: the modules of the graph by name.
        pattern: a tuple of classes, functions and names, the first one stands for `node`.
        node: where the chain begins.
        matched_node_pattern: what stands in front of it.

    >>> from facula.ao.pruning._experimental.pruner.match_utils import apply_match
    >>> traced = facula.fx.symbolic_trace(facula.nn.Sequential(facula.nn.Linear(2, 2), facula.nn.ReLU()))
    >>> first = list(traced.graph.nodes)[1]
    >>> pattern = (facula.nn.Linear, facula.nn.ReLU)
    >>> apply_match(dict(traced.named_modules()), pattern, first, [])
    [_0, _1]
    """
    chain = list(matched_node_pattern)
    for place, current in enumerate(pattern if isinstance(pattern, tuple) else (pattern,)):
        if place:
            reader = _only_reader(modules, node, current)
            if reader is None:
                return None
            node = reader
        elif not _match(modules, node, current):
            return None
        chain.append(node)
    return chain
