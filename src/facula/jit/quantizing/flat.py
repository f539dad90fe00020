"""A scripted module as one graph, with the place of each value in the module's own graphs.

Takes: a scripted module and the name of a method. Gives: `Flat`, the graph with all calls written out, which module
each node belongs to, and where each value stands outermost. Keeps true: the module's graphs stay as they are.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

from facula import core
from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.node_operators import function_of, resolved
from facula.jit.passes.effects import draws, has_effects, written
from facula.jit.passes.inlining import UNKNOWN, _Copy
from facula.ops.table.schemas import types as T

__all__ = ["Flat", "Origin"]


def _asks(node: Node) -> bool:
    """Whether a node answers a question with a bool, does nothing else, and reads no element of a tensor."""
    return (
        [v.type for v in node.outputs_] == [T.BOOL]
        and resolved(node)
        and all(p.type.kind != "Tensor" for p in node.signature.parameters)
        and not (has_effects(node) or draws(node) or written(node))
    )


class Origin(NamedTuple):
    """Where a value stands: how deep, in which unit of which module, and as what."""

    depth: int
    owner: Any
    unit: Any
    value: Value


class Flat(_Copy):
    """The graph of a method with all calls written out.

    Args:
        module: the scripted module
        method: the name of its method
    """

    def __init__(self, module: Any, method: str = "forward") -> None:
        unit = module._unit_named(method).compiled()
        super().__init__(Graph(), {})
        self.module = module
        self.frames: list[tuple[Any, Any]] = [(module, unit)]
        #: where each value stands outermost; the module whose method has each node, functions being their callers'
        self.origins: dict[Value, Origin] = {}
        self.owners: dict[Node, Any] = {}
        #: the unit in whose graph each node stands
        self.units: dict[Node, Any] = {}
        for p in unit.graph.parameters:
            self.values[p] = self.graph.add_parameter(p.type, p.hint)
            self._note(self.values[p], p)
        self.objects[self.graph.parameters[0]] = module
        self.nodes(unit.graph)
        self.graph.results = [self.values[v] for v in unit.graph.results]

    def _note(self, new: Value, old: Value) -> None:
        depth = len(self.frames)
        known = self.origins.get(new)
        if known is None or depth < known.depth:
            self.origins[new] = Origin(depth, *self.frames[-1], old)

    def nodes(self, block: Block) -> None:
        """Copies of all nodes; of branches that are decided, those of the side that is taken."""
        for node in block.nodes_:
            side = self._side(node) if node.kind_ == "prim::If" else None
            if side is None:
                one: Any = SimpleNamespace(nodes_=[node])
                super().nodes(one)
                continue
            self.nodes(side)
            for out, value in zip(node.outputs_, side.results, strict=True):
                self.values[out] = self.values[value]
                self._note(self.values[out], out)

    def _side(self, node: Node) -> Block | None:
        """The side of a branch that is taken in evaluation; None where that is not known."""
        known, value = self._decided(self.values[node.inputs_[0]])
        return node.blocks_[0 if value else 1] if known else None

    def _decided(self, value: Value) -> tuple[bool, Any]:
        """Whether a value is known before the graph runs, and which: of constants, of what is None, of `training`."""
        node = value.node
        if node.kind_ == "prim::Constant":
            return True, node.attributes.get("value")
        if node.kind_ == "prim::GetAttr":
            found = self.objects.get(value, UNKNOWN)
            plain = node.attributes["name"] == "training" or found is None
            return plain or isinstance(found, core.Tensor), found
        if not _asks(node):
            return False, None
        given = [self._decided(v) for v in node.inputs_]
        if not all(known for known, _ in given):
            return False, None
        function = function_of(node)
        return (False, None) if function is None else (True, function(*[v for _, v in given]))

    def _node(self, node: Node) -> Node:
        made = super()._node(node)
        self.owners[made], self.units[made] = self.frames[-1]
        if node.kind_ == "prim::unchecked_cast" and made.inputs_[0] in self.objects:
            self.objects[made.outputs_[0]] = self.objects[made.inputs_[0]]
        for old, new in zip(node.outputs_, made.outputs_, strict=True):
            self._note(new, old)
        return made

    def _call(self, node: Node) -> None:
        unit = self._unit(node)
        own = node.kind_ == "prim::CallMethod"
        found = self._known(node.inputs_[0]) if own else self.frames[-1][0]
        self.frames.append((self.frames[-1][0] if found is UNKNOWN else found, unit))
        super()._call(node)
        self.frames.pop()
        self._note(self.values[node.outputs_[0]], node.outputs_[0])

    def attribute(self, value: Value) -> tuple[Any, str] | None:
        """The module and the name of the attribute that a value is; None of other values."""
        node = value.node
        while node.kind_ == "prim::unchecked_cast":
            node = node.inputs_[0].node
        if node.kind_ != "prim::GetAttr" or node.inputs_[0] not in self.objects:
            return None
        return self.objects[node.inputs_[0]], node.attributes["name"]
