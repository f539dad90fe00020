"""`wrap_with_set_grad_enabled`: a part of a graph that runs with gradients recorded, or not.

Takes: a graph, and for some of its nodes whether they ran so. Gives: the operator, and `wrap_regions`, which puts
neighbours that ran alike into a function of their own.
Keeps true: the graph computes what it did; in a trace below the tape the parts run through.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from facula import core
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.higher_order.operator import HigherOrderOperator
from facula.fx.node import Node

__all__ = ["WrapWithSetGradEnabled", "wrap_regions", "wrap_with_set_grad_enabled"]


class WrapWithSetGradEnabled(HigherOrderOperator):
    """`wrap_with_set_grad_enabled(enabled, function, *operands)`."""

    def __init__(self) -> None:
        super().__init__("wrap_with_set_grad_enabled")

    def __call__(self, enabled: bool, function: Callable[..., Any], *args: object) -> Any:
        before = core.set_grad_enabled(enabled and core.is_grad_enabled())
        try:
            return function(*args)
        finally:
            core.set_grad_enabled(before)


wrap_with_set_grad_enabled = WrapWithSetGradEnabled()


def wrap_regions(module: GraphModule, otherwise: Mapping[Node, bool]) -> None:
    """Put the nodes that ran with gradients switched otherwise, neighbours together, into functions.

    Args:
        module: its graph is changed
        otherwise: node -> whether gradients were recorded there
    """
    regions: list[list[Node]] = []
    previous: Any = None
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        flag = otherwise.get(node)
        if flag is not None and flag is previous:
            regions[-1].append(node)
        elif flag is not None:
            regions.append([node])
        previous = flag
    for number, region in enumerate(regions, 1):
        _wrap(module, region, otherwise[region[0]], number)


def _wrap(module: GraphModule, region: list[Node], enabled: bool, number: int) -> None:
    """Put nodes into one function, which is called in their place."""
    graph, members = module.graph, set(region)
    inputs = list(dict.fromkeys(n for r in region for n in r.all_input_nodes if n not in members))
    outputs = [n for n in region if any(user not in members for user in n.users)]
    inner = Graph()
    known = {n: _placeholder(inner, n) for n in inputs}
    for node in region:
        known[node] = inner.node_copy(node, known.__getitem__)
    inner.output(tuple([known[n] for n in outputs]))
    name = f"submod_{number}"
    setattr(module, name, GraphModule(module, inner, name))
    with graph.inserting_after(region[-1]):
        read = graph.get_attr(name)
    with graph.inserting_after(read):
        call = graph.create_node(
            "call_function",
            wrap_with_set_grad_enabled,
            (enabled, read, *inputs),
            name=outputs[0].name if outputs else None,
        )
    call.meta["val"] = tuple([n.meta.get("val") for n in outputs])
    last = call
    for i, node in enumerate(outputs):
        with graph.inserting_after(last):
            last = graph.call_function(operator.getitem, (call, i))
        last.meta = dict(node.meta)
        node.replace_all_uses_with(last, delete_user_cb=lambda user: user not in members)
    for node in reversed(region):
        graph.erase_node(node)


def _placeholder(graph: Graph, node: Node) -> Node:
    made = graph.placeholder(node.name)
    made.meta = dict(node.meta)
    return made
