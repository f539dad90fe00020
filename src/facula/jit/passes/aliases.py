"""Which values of a graph may share memory, and which nodes write to it.

Takes a graph. Gives `Aliases`: questions about pairs of values, writers, and whether nodes may change places.
Keeps true: an answer "may not" is sure; what comes from outside (inputs, attributes, results of calls) may be any
other such value of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from facula import core
from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.ir_editing import ALIASES
from facula.jit.passes.effects import calls, fresh, handed_on, has_effects, is_mutable, written

__all__ = ["Aliases", "Place"]

_UNPACKED = ("prim::TupleUnpack", "prim::ListUnpack", "prim::TupleIndex", "aten::__getitem__", "aten::pop",
             "aten::unbind_items", "aten::get", "aten::values", "aten::keys", "aten::items", "prim::TupleSlice",
             "aten::popitem", "aten::setdefault", "aten::list", "aten::slice", "aten::copy")  # fmt: skip
_PACKED = ("prim::TupleConstruct", "prim::ListConstruct", "prim::DictConstruct")
_STORED = (
    "aten::append",
    "aten::insert",
    "aten::_set_item",
    "aten::extend",
    "aten::update",
    "aten::setdefault",
)


class Place:
    """Memory that values may stand for, and what lies in it."""

    __slots__ = ("holds", "name", "outside")

    def __init__(self, name: str, outside: bool = False) -> None:
        self.name, self.outside = name, outside
        self.holds: set[Place] = set()

    def __repr__(self) -> str:
        return self.name


class Aliases:
    """The memory of a graph's values, and who writes to it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.places: dict[Value, set[Place]] = {}
        self._outside: dict[str, Place] = {}
        self._own: dict[Value, Place] = {}
        self._objects: dict[Any, Place] = {}
        self.writes: dict[Node, set[Place]] = {}
        for value in graph.parameters:
            self._add(value, self._from_outside(value))
        size = -1
        while size != self._size():
            size = self._size()
            self._block(graph)
        self.written = {p for found in self.writes.values() for p in found}

    def _size(self) -> int:
        held = {p for found in self.places.values() for p in found}
        return sum(map(len, self.places.values())) + sum(len(p.holds) for p in held)

    def _add(self, value: Value, more: Iterable[Place]) -> None:
        if is_mutable(value.type):
            self.places.setdefault(value, set()).update(more)

    def _from_outside(self, value: Value) -> set[Place]:
        key = value.type.str() if value.type.kind != "Optional" else value.type.item.str()
        if key not in self._outside:
            made = self._outside[key] = Place(f"outside {key}", outside=True)
            made.holds.add(made)
            for inner in value.type.inner:
                if is_mutable(inner):
                    made.holds |= self._from_outside(Value(inner, value.node))
        return {self._outside[key]}

    def _constant(self, value: Any) -> set[Place]:
        """The memory of a constant: tensors of one storage share it, and stay from call to call."""
        if isinstance(value, (list, tuple, dict)):
            items = value.values() if isinstance(value, dict) else value
            key: Any = id(value)
            if key not in self._objects:
                self._objects[key] = Place("a constant")
                self._objects[key].holds = {p for v in items for p in self._constant(v)}
        elif isinstance(value, core.Tensor):
            strided = value.layout == core.strided and not value.is_nested
            key = "storage", hash(value.untyped_storage()) if strided else id(value)
            self._objects.setdefault(key, Place("a constant", outside=True))
        else:
            return set()
        return {self._objects[key]}

    def _new(self, value: Value) -> Place:
        if value not in self._own:
            self._own[value] = Place(value.hint or value.node.kind_)
        return self._own[value]

    def of(self, value: Value) -> set[Place]:
        """The memory that a value may stand for."""
        return self.places.get(value, set())

    def within(self, value: Value) -> set[Place]:
        """The memory of a value and of all that it holds."""
        found: set[Place] = set()
        rest = list(self.of(value))
        while rest:
            place = rest.pop()
            if place not in found:
                found.add(place)
                rest.extend(place.holds)
        return found

    # ---- the graph
    def _block(self, block: Block) -> None:
        for node in block.nodes_:
            self._node(node)

    def _node(self, node: Node) -> None:
        if node.kind_ == "prim::If":
            for inner in node.blocks_:
                self._block(inner)
                for out, value in zip(node.outputs_, inner.results, strict=True):
                    self._add(out, self.of(value))
        elif node.kind_ == "prim::Loop":
            self._loop(node)
        elif node.kind_ in _PACKED:
            own = self._new(node.outputs_[0])
            for value in node.inputs_:
                own.holds |= self.of(value)
            self._add(node.outputs_[0], [own])
        else:
            for inner in node.blocks_:
                self._block(inner)
            self._operation(node)

    def _loop(self, node: Node) -> None:
        body = node.blocks_[0]
        carried = body.parameters[1:]
        for given in (node.inputs_[2:], body.results[1:]):
            for parameter, value in zip(carried, given, strict=True):
                self._add(parameter, self.of(value))
        self._block(body)
        for out, first, last in zip(node.outputs_, node.inputs_[2:], body.results[1:], strict=True):
            self._add(out, self.of(first) | self.of(last))

    def _operation(self, node: Node) -> None:
        places = written(node)
        found: set[Place] = set()
        for i in places:
            deep = node.kind_ in calls
            found |= self.within(node.inputs_[i]) if deep else self.of(node.inputs_[i])
        if node.kind_ in calls:
            found |= set(self._outside.values())
            for value in node.inputs_:
                for place in self.within(value):
                    place.holds |= self._from_outside(value) if is_mutable(value.type) else set()
        if node.kind_ in _STORED:
            for target in self.of(node.inputs_[0]):
                for value in node.inputs_[1:]:
                    target.holds |= self.of(value)
        if found:
            self.writes[node] = found
        for out in node.outputs_:
            self._output(node, out)

    def _output(self, node: Node, out: Value) -> None:
        if not is_mutable(out.type):
            return
        if node.kind_ == "prim::Constant":
            self._add(out, self._constant(node.attributes.get("value")))
            return
        if (
            node.kind_ == "prim::GetAttr"
            or node.kind_ in calls
            or node.kind_.startswith("prim::awaitable")
        ):
            self._add(out, self._from_outside(out))
            return
        holders = node.inputs_ and any(
            is_mutable(v.type) and v.type.kind != "Tensor" for v in node.inputs_
        )
        if node.kind_ in _UNPACKED and holders or node.kind_ == "aten::list":
            for place in self.of(node.inputs_[0]):
                self._add(out, place.holds)
            if out.type.kind != "Tensor":
                self._add(out, [self._new(out)])
                for place in self.of(node.inputs_[0]):
                    self._new(out).holds |= place.holds
            return
        if fresh(node):
            self._add(out, [self._new(out)])
            return
        self._handed_on(node, out)

    def _handed_on(self, node: Node, out: Value) -> None:
        """A result that may be, or be made of, what was given."""
        places = handed_on(node)
        if not places and node.signature is None:
            self._add(out, self._from_outside(out))
        for i in places:
            value = node.inputs_[i]
            self._add(out, self.of(value))
            if value.type.kind != out.type.kind:
                self._add(out, self.within(value))
        if out.type.kind != "Tensor" and places:
            # a list or tuple of parts: it holds what it was made of
            own = self._new(out)
            self._add(out, [own])
            own.holds |= {p for i in places for p in self.within(node.inputs_[i])}
        if not places:
            self._add(out, [self._new(out)])

    # ---- questions
    def has_writers(self, value: Value, deep: bool = False) -> bool:
        """Whether somebody writes to a value."""
        found = self.within(value) if deep else self.of(value)
        return any(self._is_written(p) for p in found)

    def _is_written(self, place: Place) -> bool:
        return place in self.written

    def is_outside(self, value: Value) -> bool:
        """Whether a value may be seen from outside of the graph."""
        found = self.within(value)
        given = {p for v in self.graph.results for p in self.within(v)}
        return any(p.outside for p in found) or bool(found & given)

    def may_alias(self, a: Value, b: Value) -> bool:
        """Whether two values may share memory."""
        return a is b and is_mutable(a.type) or bool(self.of(a) & self.of(b))

    def may_contain_alias(self, a: Any, b: Any) -> bool:
        """Whether two values, or what they hold, may share memory; lists of values are asked each."""
        if isinstance(a, (list, tuple)):
            return any(self.may_contain_alias(v, b) for v in a)
        if isinstance(b, (list, tuple)):
            return any(self.may_contain_alias(a, v) for v in b)
        return a is b and is_mutable(a.type) or bool(self.within(a) & self.within(b))

    def reads(self, node: Node) -> set[Place]:
        """The memory that a node, or what is inside, looks at."""
        found = {p for v in node.inputs_ for p in self.within(v)}
        for inner in node.blocks_:
            for each in inner.nodes_:
                found |= self.reads(each)
        return found

    def wrote(self, node: Node) -> set[Place]:
        """The memory that a node, or what is inside, writes to."""
        found = set(self.writes.get(node, ()))
        for inner in node.blocks_:
            for each in inner.nodes_:
                found |= self.wrote(each)
        return found

    def writers_between(self, value: Value, first: Node, last: Node) -> bool:
        """Whether a node between two others of one block writes to a value or what it holds."""
        nodes = first.block.nodes_
        places = self.within(value)
        between = nodes[nodes.index(first) + 1 : nodes.index(last)]
        return any(self.wrote(n) & places for n in between)

    def commute(self, a: Node, b: Node) -> bool:
        """Whether two nodes that stand side by side may change places."""
        if any(v.node is a for v in reads(b)) or _effects(a) and _effects(b):
            return False
        wrote_a, wrote_b = self.wrote(a), self.wrote(b)
        return not (wrote_a & (self.reads(b) | wrote_b) or wrote_b & self.reads(a))

    def move_after_topologically_valid(self, node: Node, target: Node) -> bool:
        """Move a node behind another where that changes nothing; whether it was moved."""
        return self._move(node, target, after=True)

    def move_before_topologically_valid(self, node: Node, target: Node) -> bool:
        """Move a node before another where that changes nothing; whether it was moved."""
        return self._move(node, target, after=False)

    def _move(self, node: Node, target: Node, after: bool) -> bool:
        nodes = node.block.nodes_
        if target.block is not node.block:
            return False
        at, to = nodes.index(node), nodes.index(target)
        if at < to:
            passed = nodes[at + 1 : to + (1 if after else 0)]
            good = all(self.commute(node, other) for other in passed)
        else:
            passed = nodes[to + (1 if after else 0) : at]
            good = all(self.commute(other, node) for other in passed)
        if good:
            (node.moveAfter if after else node.moveBefore)(target)
        return good

    def __str__(self) -> str:
        names = self.graph.names()
        lines = [f"%{names[v]}: {sorted(map(str, found))}" for v, found in self.places.items()]
        return "\n".join([*lines, f"WILDCARD (comes from outside): {self._outside_names(names)}"])

    def _outside_names(self, names: dict[Value, str]) -> str:
        """The values whose memory the caller may know."""
        found = [v for v, places in self.places.items() if any(p.outside for p in places)]
        return ", ".join(f"%{names[v]}" for v in found) or "none"

    def to_graphviz_str(self) -> str:
        """The values and their memory as a graph in the language of graphviz."""
        names = self.graph.names()
        lines = [
            f'  "%{names[v]}" -> "{place}";'
            for v, found in self.places.items()
            for place in sorted(map(str, found))
        ]
        return "\n".join(["digraph alias_db {", *lines, "}", ""])


def reads(node: Node) -> list[Value]:
    """What a node reads, with what its blocks read and give."""
    found = list(node.inputs_)
    for inner in node.blocks_:
        found.extend(inner.results)
        for each in inner.nodes_:
            found.extend(reads(each))
    return found


def _effects(node: Node) -> bool:
    return has_effects(node) or any(_effects(n) for b in node.blocks_ for n in b.nodes_)


ALIASES.append(Aliases)
