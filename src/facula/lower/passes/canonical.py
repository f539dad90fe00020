"""Calls with their arguments in one form.

Takes and gives a flat graph.
Keeps true: arguments stand where the schema has them, without those that are at their defaults.
"""

from __future__ import annotations

from facula import core
from facula.core.errors import fail
from facula.fx import Graph, Node
from facula.lower import table


def canonical_arguments(graph: Graph) -> int:
    """Bring all calls of operators into one form; gives how many changed."""
    count = 0
    for node in graph.nodes:
        operator = table.operator_of(node.target) if node.op == "call_function" else None
        if operator is not None and _rewrite(node, operator):
            count += 1
    return count


def _rewrite(node: Node, operator: core.Op) -> bool:
    definition = operator.definition
    parameters = definition.schema.parameters
    if "out" in node.kwargs:
        fail(
            ValueError,
            str(node.target),
            "a call without out= was required in a flat graph",
            hint="copy_() the result instead",
        )
    positional = [p for p in parameters if not p.keyword_only]
    if len(node.args) > len(positional):
        return False  # trailing numbers that are one list
    given = {p.name: a for p, a in zip(positional, node.args, strict=False)}
    given.update(node.kwargs)
    if any(p.name not in given and not p.has_default for p in parameters):
        return False
    bound = tuple(given.get(p.name, p.default) for p in parameters)
    args, kwargs = definition.trim(bound)
    if args == node.args and kwargs == dict(node.kwargs):
        return False
    node.args, node.kwargs = args, kwargs
    return True
