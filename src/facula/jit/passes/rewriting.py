"""Patterns of nodes, found in graphs and replaced by others.

Takes graphs: one, a pattern, and what stands in the pattern's place. Gives the matches, or the graph changed.
Keeps true: a match is taken only if nobody else reads what is inside of it; matches do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from facula.core.errors import fail
from facula.jit.ir import Graph, Node, Value
from facula.jit.ir_editing import copied_node
from facula.jit.ir_reading import parse_ir
from facula.jit.passes.cleaning import key_of
from facula.ops.table.schemas import types as T

__all__ = ["Match", "find_matches", "rewrite"]


class Match(NamedTuple):
    """Where a pattern was found."""

    anchor: Node
    values: dict[Value, Value]
    nodes: dict[Node, Node]

    def named(self, pattern: Graph) -> dict[str, Value]:
        """What the named values of the pattern are in the graph."""
        return {old.hint: new for old, new in self.values.items() if old.hint}


class _Matcher:
    def __init__(self, pattern: Graph, anchor: Node) -> None:
        self.pattern, self.anchor = pattern, anchor
        self.values: dict[Value, Value] = {}
        self.nodes: dict[Node, Node] = {}

    def run(self) -> Match | None:
        last = self.pattern.results[0].node
        if not self.node(last, self.anchor):
            return None
        for result in self.pattern.results[1:]:
            if result not in self.values:
                return None
        inside = set(self.nodes.values())
        given = {self.values[v] for v in self.pattern.results}
        for node in inside:
            for value in node.outputs_:
                if value not in given and any(use.user not in inside for use in value.uses()):
                    return None
        return Match(self.anchor, self.values, self.nodes)

    def value(self, wanted: Value, have: Value) -> bool:
        if wanted in self.values:
            return self.values[wanted] is have
        if wanted in self.pattern.parameters:
            self.values[wanted] = have
            return True
        return self.node(wanted.node, have.node, wanted, have)

    def node(
        self, wanted: Node, have: Node, out: Value | None = None, got: Value | None = None
    ) -> bool:
        if wanted in self.nodes:
            return self.nodes[wanted] is have
        if wanted.kind_ == "match::module":
            return self._module(wanted, have)
        same = wanted.kind_ == have.kind_ and len(wanted.inputs_) == len(have.inputs_)
        if not same or len(wanted.outputs_) != len(have.outputs_) or have.block is not self.anchor.block and (
            have.kind_ != "prim::Constant"):  # fmt: skip
            return False
        if (
            out is not None
            and got is not None
            and wanted.outputs_.index(out) != have.outputs_.index(got)
        ):
            return False
        for name, value in wanted.attributes.items():
            if not _equal(have.attributes.get(name, _MISSING), value):
                return False
        self.nodes[wanted] = have
        self.values.update(zip(wanted.outputs_, have.outputs_, strict=True))
        pairs = zip(wanted.inputs_, have.inputs_, strict=True)
        return all([self.value(a, b) for a, b in pairs])

    def _module(self, wanted: Node, have: Node) -> bool:
        """`match::module[name="Conv2d"](%self)`: a module of that class, as an attribute."""
        kind = have.outputs_[0].type if have.outputs_ else None
        if have.kind_ != "prim::GetAttr" or not isinstance(kind, T.ClassType):
            return False
        if kind.name.rpartition(".")[2] != wanted.attributes["name"]:
            return False
        self.nodes[wanted] = have
        self.values[wanted.outputs_[0]] = have.outputs_[0]
        return self.value(wanted.inputs_[0], have.inputs_[0])


_MISSING = object()


def _equal(a: Any, b: Any) -> bool:
    a = "forward" if isinstance(a, str) and a.startswith("forward__") else a
    return key_of(a) == key_of(b)


def find_matches(pattern: Graph, graph: Graph) -> list[Match]:
    """All places where a pattern stands in a graph, in order."""
    found = []
    for block in list(graph.all_blocks()):
        for node in list(block.nodes_):
            made = _Matcher(pattern, node).run()
            if made is not None:
                found.append(made)
    return found


Filter = Callable[[Match, dict[str, Value]], bool]


def rewrite(
    pattern: str,
    replacement: str,
    graph: Graph,
    value_name_pairs: Sequence[tuple[str, str]] = (),
    filters: Sequence[Filter] = (),
) -> bool:
    """Replaces each match of a pattern; whether there were any.

    Args:
        pattern: the text of a graph of the nodes to find
        replacement: the text of a graph with as many results
        graph: the graph to change
        value_name_pairs: of values of the replacement, those of the pattern whose places in the source they get
        filters: say of each match whether it counts
    """
    wanted, other = parse_ir(pattern), parse_ir(replacement)
    if len(wanted.results) != len(other.results):
        fail(RuntimeError, "jit.rewrite", "a replacement with as many results as the pattern has was required",
             len(other.results), hint="return (%a, %b)")  # fmt: skip
    taken: set[Node] = set()
    #: what stands for values that earlier matches replaced
    renamed: dict[Value, Value] = {}
    changed = False
    for match in find_matches(wanted, graph):
        inside = set(match.nodes.values())
        if (
            inside & taken
            or any(v not in match.values for v in wanted.parameters)
            or not all(f(match, match.named(wanted)) for f in filters)
        ):
            continue
        taken |= inside
        _replace(match, wanted, other, dict(value_name_pairs), renamed)
        changed = True
    if changed:
        dce_nodes(graph, taken)
    return changed


def _replace(
    match: Match, wanted: Graph, other: Graph, pairs: dict[str, str], renamed: dict[Value, Value]
) -> None:
    anchor = match.anchor
    block = anchor.block
    read = [match.values[p] for p in wanted.parameters]
    given = dict(zip(other.parameters, (renamed.get(v, v) for v in read), strict=False))
    places = {old.hint: new.node.place for old, new in match.values.items() if old.hint}
    at = block.nodes_.index(anchor) + 1
    values: dict[Value, Value] = dict(given)
    for node in other.nodes_:
        made = copied_node(node, block, values)
        made.signature = made.run = None  # by the types that it reads here
        for old, new in zip(node.outputs_, made.outputs_, strict=True):
            made.place = places.get(pairs.get(old.hint, ""), made.place)
            new.hint = ""
        block.nodes_.insert(at, made)
        at += 1
    for old, new in zip(wanted.results, other.results, strict=True):
        source, target = match.values[old], values[new]
        if isinstance(target.type, T.Type) and target.type == T.TENSOR:
            target.type = source.type if target not in given.values() else target.type
        source.replaceAllUsesWith(target)
        renamed[source] = target


def dce_nodes(graph: Graph, nodes: set[Node]) -> None:
    """Takes those nodes out that nobody reads now."""
    again = True
    while again:
        again = False
        read = {v for n in graph.all_nodes() for v in n.inputs_}
        read |= {v for b in graph.all_blocks() for v in b.results}
        for block in list(graph.all_blocks()):
            kept = [n for n in block.nodes_ if n not in nodes or any(v in read for v in n.outputs_)]
            again = again or len(kept) < len(block.nodes_)
            block.nodes_ = kept
