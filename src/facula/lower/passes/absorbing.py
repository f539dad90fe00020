"""What follows an operator, done by the operator itself, where its definition says how.

Takes: a flat graph without gradients. Gives: `absorb_followers`, which puts one call in the place of several;
`lower_by_operators`, passes that definitions name (`Definition.lowers`).
Keeps true: only a value that nobody else reads is taken up; what can follow is the business of the definition
(`Definition.absorbs`), not of this pass.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from facula.fx import Graph, Node
from facula.lower import table
from facula.lower.passes.epilogues import Builder, given_to

__all__ = ["absorb_followers", "lower_by_operators"]


def absorb_followers(graph: Graph) -> int:
    """Let operators do what follows them; gives how many calls went."""
    count = 0
    for node in list(graph.nodes):
        made: Node | None = node
        while made is not None:
            made = _absorbed(graph, made)
            count += made is not None
    return count


def _absorbed(graph: Graph, node: Node) -> Node | None:
    """The call that does what a node and the one behind it do; None where there is none."""
    definition = table.definition_of(node) if node.op == "call_function" else None
    rule = None if definition is None else definition.absorbs
    user = next(iter(node.users)) if len(node.users) == 1 else None
    if rule is None or user is None or user.op != "call_function":
        return None
    operator = table.operator_of(user.target)
    if table.definition_of(user) is None or user.all_input_nodes.count(node) != 1:
        return None
    given: list[Any] = given_to(user)
    at = next((k for k, value in enumerate(given) if value is node), None)
    made: Node | None = None
    build = Builder(graph, user)
    if at is not None:
        made = rule(build, given_to(node), operator, given, at)
    if made is None:
        return None
    last = build.before
    made.meta = dict(last.meta)  # with the order that readers expect: `follow_orders` changes it
    last.replace_all_uses_with(made)
    _erase_unread(graph, last)
    return made


def _erase_unread(graph: Graph, node: Node) -> None:
    """Erase a call, and those that only it read."""
    if node.op == "call_function" and not node.users:
        inputs = node.all_input_nodes
        graph.erase_node(node)
        for each in inputs:
            _erase_unread(graph, each)


def lower_by_operators(graph: Graph) -> int:
    """The passes that operators of the graph bring along; gives how much they changed."""
    found = [table.definition_of(n) for n in graph.nodes if n.op == "call_function"]
    count = 0
    for path in dict.fromkeys(d.lowers for d in found if d is not None and d.lowers):
        module, _, name = path.partition(":")
        count += getattr(import_module(module), name)(graph)
    return count
