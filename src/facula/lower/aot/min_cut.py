"""What to hand from forward to backward: the cheapest cut through the joint graph.

Takes a joint graph.  Gives the partition that saves the fewest bytes when everything cheap may be
computed again in the backward graph.
Keeps true: products, convolutions, reductions and random states are never computed twice; elementwise
operators, views, copies and draws from a saved state may be, as long as their inputs are at hand.
Among equal prices the later values are kept, so that what comes before them can be fused away.
"""

from __future__ import annotations

from typing import Any

from facula.fx import GraphModule, Node
from facula.lower import table
from facula.lower.aot.max_flow import INFINITY, Network
from facula.lower.aot.partition import (
    Parts,
    default_partition,
    depends_on_tangents,
    joint_outputs,
    needed_for,
    split,
)

#: inputs are alive anyway: to read one again costs a part of what keeping something else does
INPUT_SHARE = 0.25
#: what the forward graph would not have to write for anyone else
FUSED_SHARE = 2.0


class _Costs:
    """What saving and recomputing the nodes of a joint graph costs."""

    def __init__(self, forward: set[Node], outputs: list[Any]) -> None:
        self.forward = forward
        self.outputs = {n for n in outputs if isinstance(n, Node)}

    def saving(self, node: Node) -> float:
        """The price of handing a value over."""
        if isinstance(node.meta.get("val"), (tuple, list)):
            return INFINITY
        size = float(table.bytes_of(node)) + 1.0
        if node.op == "placeholder":
            # what is written afterwards has to be copied to be kept
            return size * (FUSED_SHARE if node.meta.get("written") else INPUT_SHARE)
        return size if self._is_written(node) else size * FUSED_SHARE

    def _is_written(self, node: Node) -> bool:
        """Whether the forward graph writes the value to memory in any case."""
        if node in self.outputs or not table.is_cheap(node):
            return True
        readers = [user for user in node.users if user in self.forward]
        return any(not table.is_cheap(user) for user in readers)

    def again(self, node: Node) -> bool:
        """Whether the value may be computed again."""
        return table.is_cheap(node) or node.op == "get_attr"


def _saved_nodes(joint: GraphModule, num_fwd_outputs: int) -> list[Node]:
    graph = joint.graph
    outputs, gradients = joint_outputs(graph, num_fwd_outputs)
    late = depends_on_tangents(graph)
    forward = needed_for(outputs)
    costs = _Costs(forward, outputs)
    early = [n for n in graph.nodes if n not in late and n.op != "output"]
    number = {node: 2 * i for i, node in enumerate(early)}
    source, sink = 2 * len(early), 2 * len(early) + 1
    network = Network(2 * len(early) + 2)
    wanted = {n for n in gradients if isinstance(n, Node)}
    for node in early:
        entry, exit_ = number[node], number[node] + 1
        if node.op == "get_attr":
            network.edge(entry, exit_, INFINITY)
            continue
        network.edge(entry, exit_, costs.saving(node))
        if node.op == "placeholder" or not costs.again(node):
            network.edge(source, entry, INFINITY)
        if node in wanted or any(user in late for user in node.users):
            network.edge(exit_, sink, INFINITY)
        for user in node.users:
            if user in number:
                network.edge(exit_, number[user], INFINITY)
    _, near = network.cut(source, sink)
    return [n for n in early if near[number[n]] and not near[number[n] + 1]]


def min_cut_rematerialization_partition(
    joint_module: GraphModule,
    _joint_inputs: Any,
    compiler: str = "inductor",
    *,
    num_fwd_outputs: int,
    **options: object,
) -> Parts:
    """Save what is cheapest to keep, and compute the rest of what the backward reads again."""
    if not any(isinstance(n, Node) for n in joint_outputs(joint_module.graph, num_fwd_outputs)[1]):
        return default_partition(joint_module, _joint_inputs, num_fwd_outputs=num_fwd_outputs)
    saved = _saved_nodes(joint_module, num_fwd_outputs)
    return split(joint_module, saved, num_fwd_outputs)
