"""Graphs with all calls written out, and graphs that take another's place.

Takes graphs, and the objects that some of their inputs are. Gives new graphs.
Keeps true: the graphs of the functions that are called stay as they are; a method of an object that is known is that
of its own class, also where an interface is all that the graph says.
"""

from __future__ import annotations

from typing import Any

from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.running import own_attribute
from facula.jit.script_objects import INLINE

__all__ = ["UNKNOWN", "become", "inline", "inlined", "with_objects"]

UNKNOWN = object()


class _Copy:
    """A graph that is being written out."""

    def __init__(self, graph: Graph, objects: dict[Value, Any]) -> None:
        self.graph, self.block = graph, graph
        self.objects = objects  # of the new graph's values: what they are known to be
        self.values: dict[Value, Value] = {}
        self.under_way: list[Any] = []

    def nodes(self, block: Block) -> None:
        """Copies of all nodes of a block."""
        for node in block.nodes_:
            if node.kind_ in ("prim::CallMethod", "prim::CallFunction"):
                self._call(node)
            elif node.kind_ == "prim::GetAttr":
                self._attribute(node)
            elif node.kind_ in ("prim::fork", "prim::awaitable") and self.objects:
                self._task(node)
            else:
                self._node(node)

    def _known(self, value: Value) -> Any:
        return self.objects.get(self.values[value], UNKNOWN)

    def _node(self, node: Node) -> Node:
        inputs = [self.values[v] for v in node.inputs_]
        types = [v.type for v in node.outputs_]
        made = Node(
            self.block, node.kind_, inputs, types, dict(node.attributes), node.place, node.run
        )
        made.signature = node.signature
        self.block.nodes_.append(made)
        for old, new in zip(node.outputs_, made.outputs_, strict=True):
            new.hint = old.hint
            self.values[old] = new
        for inner in node.blocks_:
            outer, self.block = self.block, made.add_block()  # type: ignore[assignment]
            for p in inner.parameters:
                self.values[p] = self.block.add_parameter(p.type, p.hint)
            self.nodes(inner)
            self.block.results = [self.values[v] for v in inner.results]
            self.block = outer
        return made

    def _unit(self, node: Node) -> Any:
        """The function that a call runs; None where that is not known."""
        if node.kind_ == "prim::CallFunction":
            return node.attributes["function"].compiled()
        kind: Any = node.inputs_[0].type
        known = self._known(node.inputs_[0])
        if known is not UNKNOWN and known is not None:
            kind = getattr(known, "_script_type", kind)
        if kind.is_interface or known is None:
            return None
        found = kind.methods.get(node.attributes["name"])
        return None if found is None else found.compiled()

    def _call(self, node: Node) -> None:
        unit = self._unit(node)
        if not isinstance(getattr(unit, "_graph", None), Graph) or unit in self.under_way:
            self._node(node)
            return
        outer, self.values = self.values, {
            p: self.values[v] for p, v in zip(unit.graph.parameters, node.inputs_, strict=True)
        }  # fmt: skip
        self.under_way.append(unit)
        self.nodes(unit.graph)
        self.under_way.pop()
        result = self.values[unit.graph.results[0]]
        self.values = outer
        self.values[node.outputs_[0]] = result

    def _task(self, node: Node) -> None:
        """A task that gets objects that are known: its own graph, in which they are attributes that are known."""
        # lazily: units are made of graphs, and graphs of units
        from facula.jit.graph_functions import unit_of_graph

        unit = node.attributes.get("function")
        graph = getattr(unit.compiled(), "_graph", None) if unit is not None else None
        pairs = zip(graph.parameters, node.inputs_, strict=True) if graph is not None else ()
        known = {p: self._known(v) for p, v in pairs}
        known = {p: v for p, v in known.items() if v is not UNKNOWN and hasattr(v, "_script_type")}
        if unit is None or graph is None or not known:
            self._node(node)
            return
        made, objects = with_objects(graph, known)
        node_ = self._node(node)
        node_.attributes["function"] = unit_of_graph(made, unit.name, result=unit.result_type())
        self.objects.update(objects)

    def _attribute(self, node: Node) -> None:
        owner = self._known(node.inputs_[0])
        made = self._node(node)
        if owner is not UNKNOWN and owner is not None:
            self.objects[made.outputs_[0]] = own_attribute(owner, node.attributes["name"], UNKNOWN)


def with_objects(graph: Graph, objects: dict[Value, Any]) -> tuple[Graph, dict[Value, Any]]:
    """The graph with all calls written out, and what its values are known to be."""
    made = Graph()
    copy = _Copy(made, {})
    for p in graph.parameters:
        copy.values[p] = made.add_parameter(p.type, p.hint)
        if p in objects:
            copy.objects[copy.values[p]] = objects[p]
    copy.nodes(graph)
    made.results = [copy.values[v] for v in graph.results]
    _drop_unused(made)
    return made, copy.objects


def inlined(graph: Graph) -> Graph:
    """The graph with all calls written out."""
    return with_objects(graph, {})[0]


def _drop_unused(graph: Graph) -> None:
    """Removes constants and look-ups that nobody reads."""
    pure = ("prim::Constant", "prim::GetAttr")
    while True:
        used = {v for n in graph.all_nodes() for v in n.inputs_}
        used |= {v for b in graph.all_blocks() for v in b.results}
        dropped = False
        for block in list(graph.all_blocks()):
            kept = [n for n in block.nodes_ if n.kind_ not in pure or n.outputs_[0] in used]
            dropped = dropped or len(kept) < len(block.nodes_)
            block.nodes_ = kept
        if not dropped:
            return


def become(graph: Graph, other: Graph) -> None:
    """The graph says what another one says; that one is used up."""
    graph.parameters, graph.nodes_, graph.results = other.parameters, other.nodes_, other.results
    graph.source = other.source
    graph.source.block = graph
    for node in graph.nodes_:
        node.block = graph
    for block in graph.all_blocks():
        block.graph = graph
        block.source.block = block


def inline(graph: Graph) -> None:
    """Calls of functions and methods are written out."""
    become(graph, inlined(graph))


INLINE.append(inlined)
