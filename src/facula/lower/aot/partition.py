"""A joint graph taken apart: forward and backward.

Takes: a joint graph whose placeholders are the inputs and, named `tangents_*`, the cotangents of the
forward outputs; its output is the forward outputs, then the gradients of the inputs.
Gives: a forward graph that also gives what the backward graph reads, and the backward graph.
Keeps true: both compute together what the joint graph does; values are handed over in one order,
tensors before numbers; a random state is drawn once, in the forward graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx import Graph, GraphModule, Node

Parts = tuple[GraphModule, GraphModule]


def is_tangent(node: Node) -> bool:
    """Whether a placeholder is a cotangent."""
    return node.op == "placeholder" and "tangents" in str(node.target)


def depends_on_tangents(graph: Graph) -> set[Node]:
    """The cotangents and everything computed from them."""
    found: set[Node] = set()
    for node in graph.nodes:
        if is_tangent(node) or any(n in found for n in node.all_input_nodes):
            found.add(node)
    return found


def needed_for(outputs: Iterable[Any], stops: Set[Node] = frozenset()) -> set[Node]:
    """The nodes that values are computed from, themselves and `stops` included, what those are
    computed from not.
    """
    found: set[Node] = set()
    pending = [n for n in outputs if isinstance(n, Node)]
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            if node not in stops:
                pending.extend(node.all_input_nodes)
    return found


def joint_outputs(graph: Graph, num_fwd_outputs: int) -> tuple[list[Any], list[Any]]:
    """The forward outputs and the gradients of a joint graph."""
    outputs = list(graph.output_node().args[0])
    return outputs[:num_fwd_outputs], outputs[num_fwd_outputs:]


def extract(graph: Graph, inputs: Sequence[Node], outputs: Sequence[Any], name: str) -> Graph:
    """The part of a graph that computes `outputs` from `inputs`.

    Raises:
        AssertionError: an output needs a placeholder that is not among the inputs.
    """
    made = Graph()
    known: dict[Node, Node] = {}
    for node in inputs:
        placeholder = made.placeholder(node.name)
        placeholder.meta = dict(node.meta)
        known[node] = placeholder
    wanted: set[Node] = set()
    pending = [n for n in outputs if isinstance(n, Node)]
    while pending:
        node = pending.pop()
        if node in known or node in wanted:
            continue
        if node.op == "placeholder":
            fail(
                AssertionError,
                "partition",
                f"a {name} graph of its inputs was required",
                node,
                hint="save the input in the forward graph",
            )
        wanted.add(node)
        pending.extend(node.all_input_nodes)
    for node in graph.nodes:
        if node in wanted:
            known[node] = made.node_copy(node, known.__getitem__)
    made.output(tuple([known[n] if isinstance(n, Node) else n for n in outputs]))
    return made


def _is_number(node: Node) -> bool:
    return not isinstance(node.meta.get("val"), core.Tensor)


def split(
    joint: GraphModule, saved: Iterable[Node], num_fwd_outputs: int, *, static: Any = None
) -> Parts:
    """Forward and backward for a choice of what is handed over."""
    graph = joint.graph
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    primals = [n for n in placeholders if not is_tangent(n)]
    tangents = [n for n in placeholders if is_tangent(n)]
    outputs, gradients = joint_outputs(graph, num_fwd_outputs)
    chosen = list(dict.fromkeys(saved))
    needed = needed_for(gradients, set(chosen) | set(tangents))
    chosen = [n for n in chosen if n in needed]
    handed = [n for n in chosen if not _is_number(n)] + [n for n in chosen if _is_number(n)]
    forward = extract(graph, primals, [*outputs, *handed], "forward")
    backward = extract(graph, [*handed, *tangents], gradients, "backward")
    parts = []
    for name, part in (("forward", forward), ("backward", backward)):
        module = GraphModule(joint, part)
        module.meta = dict(getattr(joint, "meta", {}) or {})
        module.meta["part"] = name
        parts.append(module)
    parts[0].meta["saved"] = len(handed)
    return parts[0], parts[1]


def default_partition(
    joint_module: GraphModule, _joint_inputs: Any, *, num_fwd_outputs: int, **options: object
) -> Parts:
    """Everything that needs no cotangent is forward; what the rest reads of it is handed over."""
    graph = joint_module.graph
    late = depends_on_tangents(graph)
    _, gradients = joint_outputs(graph, num_fwd_outputs)
    saved: dict[Node, None] = {}
    for node in graph.nodes:
        if node in late or node.op == "output" or node.op == "get_attr":
            continue
        pieces = _pieces(node)
        used = any(user in late and user.op != "output" for user in node.users)
        if pieces is None:
            if used or node in gradients:
                saved[node] = None
    return split(joint_module, saved, num_fwd_outputs)


def _pieces(node: Node) -> list[Node] | None:
    """The single results of a node with several, None for a node with one."""
    return list(node.users) if isinstance(node.meta.get("val"), (tuple, list)) else None
