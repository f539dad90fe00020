"""The memory of objects that a graph looks up: which of it the graph writes to.

Takes graphs with what their values are known to be. Gives the memory, by what tells it apart.
Keeps true: memory that is not known to stay is counted as written; tensors count by their storage, lists and
dictionaries by themselves.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.jit.ir import Graph, Node, Value
from facula.jit.passes.aliases import Aliases, Place
from facula.jit.passes.effects import calls

__all__ = ["KnownMemory", "storages"]


def _key(value: Any) -> Any:
    if isinstance(value, core.Tensor):
        strided = value.layout == core.strided and not value.is_nested
        return ("storage", hash(value.untyped_storage())) if strided else ("tensor", id(value))
    return "container", id(value)


def storages(value: Any) -> tuple[set[Any], set[Any]]:
    """What tells a value's memory apart, and that of what it holds."""
    if isinstance(value, core.Tensor):
        return {_key(value)}, set()
    if isinstance(value, (list, tuple, dict)):
        items = value.values() if isinstance(value, dict) else value
        inside: set[Any] = set()
        for item in items:
            own, more = storages(item)
            inside |= own | more
        return ({_key(value)} if not isinstance(value, tuple) else set()), inside
    return set(), set()


class KnownMemory:
    """What graphs write to, of objects that are known."""

    def __init__(self) -> None:
        self.places: dict[Any, Place] = {}
        #: what is written to, and what of it by way of a list, tuple or dictionary
        self.written: set[Any] = set()
        self.written_inside: set[Any] = set()
        #: what attributes are assigned, by object and name
        self.slots: dict[tuple[int, str], set[Place]] = {}

    def look(self, graph: Graph, known: dict[Value, Any]) -> None:
        """Adds what a graph writes to."""
        found = _Known(graph, known, self)
        names = {place: key for key, place in self.places.items()}
        written = {names[p] for p in found.written if p in names}
        self.written |= {key for _, key in written}
        self.written_inside |= {key for inside, key in written if inside}

    def place(self, value: Any, inside: bool = False) -> Place:
        """The place of a value."""
        key = inside, _key(value)
        if key not in self.places:
            self.places[key] = Place(str(key))
            if isinstance(value, (list, tuple, dict)):
                items = value.values() if isinstance(value, dict) else value
                plain = (list, tuple, dict, core.Tensor)
                self.places[key].holds |= {
                    self.place(v, True) for v in items if isinstance(v, plain)
                }
        return self.places[key]


class _Known(Aliases):
    """Aliases in which attributes have the memory that they have."""

    def __init__(self, graph: Graph, known: dict[Value, Any], memory: KnownMemory) -> None:
        self.known, self.memory = known, memory
        super().__init__(graph)

    def _output(self, node: Node, out: Value) -> None:
        found = self.known.get(out)
        if node.kind_ == "prim::GetAttr" and isinstance(found, (list, tuple, dict, core.Tensor)):
            slot = self._slot(node)
            self._add(
                out,
                {self.memory.place(found)}
                | (self.memory.slots.get(slot, set()) if slot else set()),
            )
            return
        super()._output(node, out)

    def _slot(self, node: Node) -> tuple[int, str] | None:
        owner = self.known.get(node.inputs_[0])
        return None if owner is None else (id(owner), node.attributes["name"])

    def _operation(self, node: Node) -> None:
        super()._operation(node)
        if node.kind_ == "prim::SetAttr" and self._slot(node) is not None:
            self.memory.slots.setdefault(self._slot(node), set()).update(self.of(node.inputs_[1]))  # type: ignore[arg-type]
        if node.kind_ in calls:
            inside = {p for v in node.inputs_ for p in self.within(v)}
            self.writes[node] = self.writes.get(node, set()) | inside
