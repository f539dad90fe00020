"""Graphs that read numbers from elements, on backends that compile for fixed sizes.

Takes: a captured graph with nodes that read (`item`), or whose results have sizes that depend on elements
(`nonzero`), and a backend. Gives: `Pieces`, which runs these nodes as they are, and what stands between
them compiled.
Keeps true: nodes run in the order of the graph; a piece is compiled for the sizes that come.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.guards.by_sizes import BySizes
from facula.fx import Graph, GraphModule, Node
from facula.fx.node import map_arg

if TYPE_CHECKING:
    from facula.capture.values.kinds import Value


def _reads(node: Node) -> bool:
    """Whether a node runs as it is: it reads from elements, or takes a part of what such a node gives."""
    if node.meta.get("read") or "count" in node.meta:
        return True
    owner = node.args[0] if node.target is operator.getitem else None
    if not isinstance(owner, Node) or not isinstance(owner.meta.get("val"), (tuple, list)):
        return False
    return _reads(owner)


class _Piece:
    """Nodes that are compiled together."""

    def __init__(self, nodes: list[Node], behind: list[Node], owner: Value) -> None:
        own = set(nodes)
        later = {n for node in behind for n in node.all_input_nodes}
        #: what it takes and gives
        self.inputs = list(
            dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in own)
        )
        self.outputs = [n for n in nodes if n in later]
        graph, known = Graph(), {}
        for node in self.inputs:
            if node.op == "get_attr":
                known[node] = graph.node_copy(node)
        for node in self.inputs:
            if node.op != "get_attr":
                known[node] = graph.placeholder(node.name)
                known[node].meta = dict(node.meta)
        self.inputs = [n for n in self.inputs if n.op != "get_attr"]
        for node in nodes:
            known[node] = graph.node_copy(node, known.__getitem__)
        graph.output(tuple(known[n] for n in self.outputs))
        self.module = GraphModule(owner, graph)
        self.compiled: Any = None

    def run(self, values: dict[Node, Any], backend: Callable[..., Any], name: str) -> None:
        given = [values[n] for n in self.inputs]
        if self.compiled is None:
            dynamic = [
                frozenset(range(v.dim())) if isinstance(v, core.Tensor) else True for v in given
            ]
            self.compiled = BySizes(backend, self.module, given, dynamic, name)
        found = self.compiled(*given)
        values.update(zip(self.outputs, found, strict=True))


class Pieces:
    """A graph that reads from elements, compiled in pieces."""

    def __init__(self, backend: Callable[..., Any], graph_module: Any, function: str) -> None:
        self.backend, self.function, self.module = backend, function, graph_module
        nodes = list(graph_module.graph.nodes)
        self.placeholders = [n for n in nodes if n.op == "placeholder"]
        #: what the graph holds: the functions of a `cond`, say
        self.held = {n: getattr(graph_module, n.target) for n in nodes if n.op == "get_attr"}
        self.result = graph_module.graph.output_node().args[0]
        #: pieces, and between them nodes that read
        self.parts: list[Any] = []
        waiting: list[Node] = []
        for i, node in enumerate(nodes):
            if node.op == "output" or _reads(node):
                if waiting:
                    self.parts.append(_Piece(waiting, nodes[i:], graph_module))
                waiting = []
                if node.op != "output":
                    self.parts.append(node)
            elif node.op not in ("placeholder", "get_attr"):
                waiting.append(node)

    def __call__(self, *inputs: Any) -> Any:
        values: dict[Node, Any] = dict(zip(self.placeholders, inputs, strict=True)) | self.held
        for part in self.parts:
            if isinstance(part, _Piece):
                part.run(values, self.backend, self.function)
                continue
            args = map_arg(part.args, values.__getitem__)
            kwargs = map_arg(part.kwargs, values.__getitem__)
            if part.op == "call_method":
                values[part] = getattr(args[0], part.target)(*args[1:], **kwargs)
            else:
                values[part] = part.target(*args, **kwargs)
        return map_arg(self.result, values.__getitem__)
