"""Hooks on tensors that the captured program computes.

Takes: a tensor's value, and the function that gets its gradient in the backward pass.
Gives: a node that registers the function, captured as a graph of its own, when the graph runs.
Keeps true: a hook that does more than to compute a gradient (it keeps it, prints, changes an object)
ends the segment, and is registered by Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.breaks import Break, Earlier
from facula.capture.rules.higher_order import subgraph
from facula.capture.values.kinds import Known, NodeValue, TensorValue, Value

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic
    from facula.fx import Graph


class _Handle:
    """Stands for what `register_hook` gives; no program can ask for more than to drop it."""


def with_hook(tensor: Any, graph: Graph, replaces: bool, *more: object) -> None:
    """Have a graph see, and with `replaces` replace, the gradient of a tensor.

    more: what the graph reads besides the gradient.
    """

    def hook(gradient: Any) -> Any:
        found = graph(gradient, *more)
        return found[0] if replaces else None

    tensor.register_hook(hook)


def register(d: Any, owner: TensorValue, hook: Value) -> NodeValue:
    """`owner.register_hook(hook)` of a tensor that the segment has made."""
    if not owner.fake.requires_grad or d.enclosing:
        raise Break("backward", "Tensor.register_hook()")
    gradient = TensorValue(d.fakes.run(core.Tensor.detach, [owner.fake], {}))
    graph, lifted, result = subgraph(d, hook, [gradient], may_be_none=True)
    result = d.force(result)
    replaces = isinstance(result, TensorValue)
    if not replaces and not (isinstance(result, Known) and result.obj is None):
        raise Break("backward", "a hook that gives something other than a gradient")
    parts = tuple(d.argument(value)[0] for value in lifted)
    inner = d.attach(graph, "hook")
    made = d._new_node(
        "call_function", with_hook, (d.node_of(owner), inner, replaces, *parts), {}, None
    )
    d.operator_count += 1
    value = d.made(NodeValue(_Handle(), made))
    cells = getattr(d.force(hook), "cells", ())
    d.hooked.append((value, [(cell, cell.content) for cell in cells]))
    return value


def check_hooks(d: Symbolic) -> None:
    """That the variables which hooks read are at the segment's end what they were captured with."""
    for value, cells in d.hooked:
        if any(cell.content is not content for cell, content in cells):
            reason = Break("unsupported-mutation", "a variable that a hook reads is set behind it")
            raise Earlier(value.birth, reason)
