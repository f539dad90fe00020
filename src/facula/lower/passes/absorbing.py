"""What follows an operator, done by the operator itself, where its definition says how.

Takes: a flat graph without gradients. Gives: `absorb_followers`, which puts one call in the place of two.
Keeps true: only a value that nobody else reads is taken up; what can follow is the business of the definition
(`Definition.absorbs`), not of this pass.
"""

from __future__ import annotations

from typing import Any

from facula.fx import Graph, Node
from facula.lower import table
from facula.lower.passes.epilogues import Builder, given_to

__all__ = ["absorb_followers"]


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
    rule = getattr(definition, "absorbs", None)
    user = next(iter(node.users)) if len(node.users) == 1 else None
    if rule is None or user is None or user.op != "call_function":
        return None
    operator = table.operator_of(user.target)
    if table.definition_of(user) is None or user.all_input_nodes.count(node) != 1:
        return None
    given: list[Any] = given_to(user)
    at = next((k for k, value in enumerate(given) if value is node), None)
    made: Node | None = None
    if at is not None:
        made = rule(Builder(graph, user), given_to(node), operator, given, at)
    if made is None:
        return None
    made.meta = {**user.meta, "val": made.meta["val"]}
    user.replace_all_uses_with(made)
    graph.erase_node(user)
    graph.erase_node(node)
    return made
