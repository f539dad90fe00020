"""Calls on constants, done once.

Takes: a flat graph and what its constants are.  Gives the graph with results as constants.
Keeps true: what the caller gets is made anew each time; inputs, draws and factories are left alone
(code makes those cheaper than memory keeps them); only small results are kept.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.autograd.transforms.levels import Suspended
from facula.fx import GraphModule, Node
from facula.fx.node import map_arg
from facula.lower import table
from facula.lower.passes.memory import shown_by_outputs

#: results up to this many bytes are kept
LIMIT = 1 << 16


def fold_constants(module: GraphModule) -> int:
    """Compute what depends on constants alone; gives how many nodes went."""
    values: dict[Node, Any] = {}
    shown = shown_by_outputs(module.graph)
    for node in module.graph.nodes:
        if node.op == "get_attr":
            values[node] = _attribute(module, node.target)
            continue
        inputs = node.all_input_nodes
        if node.op != "call_function" or not inputs or table.is_random(node) or node in shown:
            continue
        if any(n not in values for n in inputs) or table.bytes_of(node) > LIMIT:
            continue
        values[node] = _run(node, values)
    done = [
        node
        for node, value in values.items()
        if node.op == "call_function" and isinstance(value, core.Tensor)
        if any(user not in values for user in node.users)
    ]
    for number, node in enumerate(done):
        _replace(module, node, values[node], number)
    return len(done)


def _attribute(module: GraphModule, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _run(node: Node, values: dict[Node, Any]) -> Any:
    args = map_arg(node.args, values.__getitem__)
    kwargs = map_arg(node.kwargs, values.__getitem__)
    recording = core.set_grad_enabled(False)
    try:
        with Suspended([]):
            return node.target(*args, **kwargs)
    finally:
        core.set_grad_enabled(recording)


def _replace(module: GraphModule, node: Node, value: core.Tensor, number: int) -> None:
    name = f"_folded_constant{number}"
    while hasattr(module, name):
        number += 1
        name = f"_folded_constant{number}"
    module.register_buffer(name, value.contiguous())
    graph = module.graph
    with graph.inserting_before(node):
        constant = graph.get_attr(name)
    constant.meta = dict(node.meta)
    node.replace_all_uses_with(constant)
