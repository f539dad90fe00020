"""Lists, dictionaries and tuples that were just built: their lengths, items and slices, and tuples taken apart.

Takes a graph. Gives it with what their parts say in the place of questions about them.
Keeps true: only containers that nobody writes to are looked into; a missing item or key stays an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.passes.aliases import Aliases
from facula.jit.passes.cleaning import dce, key_of
from facula.jit.passes.constants import constant, made_outside
from facula.ops.table.schemas import types as T

__all__ = ["list_idioms", "lower_tuples", "refine_integers", "refine_lengths"]


def list_idioms(graph: Graph, refine_list_len: bool = False) -> bool:
    """Replaces questions about containers that the graph builds; whether there were any."""
    if refine_list_len:
        refine_lengths(graph)
    aliases = Aliases(graph)
    changed = False
    for block in list(graph.all_blocks()):
        for node in list(block.nodes_):
            made = _asked(node, aliases)
            if made is not None:
                node.outputs_[0].replaceAllUsesWith(made)
                changed = True
    if changed:
        dce(graph)
    return changed


def _constant(node: Node, value: object, kind: T.Type) -> Value:
    made = Node(node.block, "prim::Constant", [], [kind], {"value": value}, node.place)
    made.insertBefore(node)
    return made.outputs_[0]


def _asked(node: Node, aliases: Aliases) -> Value | None:
    if (
        node.kind_ not in ("aten::len", "aten::__getitem__", "aten::slice", "aten::add")
        or not node.outputs_
    ):
        return None
    owner = node.inputs_[0]
    made = owner.node
    if aliases.has_writers(owner):
        return None
    if made.kind_ == "aten::size" and node.kind_ == "aten::len":
        sizes = getattr(made.inputs_[0].type, "shape", None)
        return None if sizes is None else _constant(node, len(sizes), T.INT)
    if made.kind_ == "prim::DictConstruct":
        return _of_dict(node, made)
    if made.kind_ != "prim::ListConstruct":
        return None
    items = made.inputs_
    if node.kind_ == "aten::len":
        return _constant(node, len(items), T.INT)
    if node.kind_ == "aten::__getitem__":
        known, at = constant(node.inputs_[1])
        return items[at] if known and -len(items) <= at < len(items) else None
    if aliases.has_writers(node.outputs_[0]):
        return None
    return _slice(node, items) if node.kind_ == "aten::slice" else _joined(node, items, aliases)


def _slice(node: Node, items: list[Value]) -> Value | None:
    places = [constant(v) for v in node.inputs_[1:]]
    if not all(known for known, _ in places) or node.outputs_[0].type.kind != "List":
        return None
    start, stop, step = [v for _, v in places]
    made = Node(
        node.block,
        "prim::ListConstruct",
        items[start:stop:step],
        [node.outputs_[0].type],
        place=node.place,
    )
    return made.insertBefore(node).outputs_[0]


def _joined(node: Node, items: list[Value], aliases: Aliases) -> Value | None:
    """`[a] + [b]`."""
    other = node.inputs_[1].node
    if other.kind_ != "prim::ListConstruct" or aliases.has_writers(node.inputs_[1]):
        return None
    made = Node(
        node.block, "prim::ListConstruct", [*items, *other.inputs_], [node.outputs_[0].type]
    )
    return made.insertBefore(node).outputs_[0]


def _of_dict(node: Node, made: Node) -> Value | None:
    keys = [constant(v) for v in made.inputs_[::2]]
    plain = all(known and isinstance(v, (int, float, str)) for known, v in keys)
    names = [key_of(v) for _, v in keys]
    if not plain or len(set(names)) < len(names):
        return None
    if node.kind_ == "aten::len":
        return _constant(node, len(names), T.INT)
    known, key = constant(node.inputs_[1]) if len(node.inputs_) == 2 else (False, None)
    if node.kind_ != "aten::__getitem__" or not known or key_of(key) not in names:
        return None
    return made.inputs_[2 * names.index(key_of(key)) + 1]


# ------------------------------------------------------------------ what branches say


def refine_lengths(graph: Graph) -> bool:
    """Where a branch says how long a list is, questions behind it have the answer."""
    aliases = Aliases(graph)

    def subject(node: Node) -> Any:
        if (
            node.kind_ != "aten::len"
            or node.inputs_[0].type.kind != "List"
            or aliases.has_writers(node.inputs_[0])
        ):
            return None
        return node.inputs_[0]

    return _Refinement(graph, lambda v: subject(v.node) if v.node.outputs_ else None).run()


def refine_integers(graph: Graph) -> bool:
    """Where a branch says which number an int is, it is that number there."""
    return _Refinement(graph, lambda v: v if v.type == T.INT else None).run()


Facts = dict[Any, int]


class _Refinement:
    """What is known of ints on the way through a graph: which subject has which number."""

    def __init__(self, graph: Graph, subject: Any) -> None:
        self.graph, self.subject, self.changed = graph, subject, False
        #: of a truth value: what holds where it is true, and where it is false
        self.facts: dict[Value, tuple[Facts, Facts]] = {}

    def run(self) -> bool:
        self._block(self.graph, {})
        return self.changed

    def _block(self, block: Block, known: Facts) -> Facts:
        known = dict(known)
        for node in list(block.nodes_):
            self._inputs(node, known)
            if node.kind_ in ("aten::eq", "aten::ne") and len(node.inputs_) == 2:
                self._comparison(node)
            elif node.kind_ == "aten::__not__":
                yes, no = self._of(node.inputs_[0])
                self.facts[node.outputs_[0]] = no, yes
            elif node.kind_ == "prim::If":
                known.update(self._if(node, known))
            else:
                for inner in node.blocks_:
                    self._block(inner, known)
        block.results = [self._value(v, known, block) for v in block.results]
        return known

    def _inputs(self, node: Node, known: Facts) -> None:
        if node.kind_ in ("aten::len",) and node.outputs_:
            found = self.subject(node.outputs_[0])
            if found is not None and found is not node.outputs_[0] and found in known:
                node.outputs_[0].replaceAllUsesWith(_constant(node, known[found], T.INT))
                self.changed = True
        for i, value in enumerate(node.inputs_):
            if self.subject(value) is value and value in known:
                node.inputs_[i] = _constant(node, known[value], T.INT)
                self.changed = True

    def _value(self, value: Value, known: Facts, block: Block) -> Value:
        if self.subject(value) is not value or value not in known:
            return value
        made = Node(block, "prim::Constant", [], [T.INT], {"value": known[value]})
        block.nodes_.append(made)
        self.changed = True
        return made.outputs_[0]

    def _comparison(self, node: Node) -> None:
        for a, b in (node.inputs_, node.inputs_[::-1]):
            found, (known, number) = self.subject(a), constant(b)
            if found is None or not known or type(number) is not int or constant(a)[0]:
                continue
            facts: tuple[Facts, Facts] = ({found: number}, {})
            self.facts[node.outputs_[0]] = facts if node.kind_ == "aten::eq" else facts[::-1]
            return
        for a, b in (node.inputs_, node.inputs_[::-1]):
            known, said = constant(b)
            if known and type(said) is bool and a.type == T.BOOL:
                yes, no = self._of(a)
                same = said == (node.kind_ == "aten::eq")
                self.facts[node.outputs_[0]] = (yes, no) if same else (no, yes)

    def _of(self, value: Value) -> tuple[Facts, Facts]:
        return self.facts.get(value, ({}, {}))

    def _if(self, node: Node, known: Facts) -> Facts:
        """What holds behind the branch."""
        yes, no = self._of(node.inputs_[0])
        sides = [
            self._block(block, {**known, **facts})
            for block, facts in zip(node.blocks_, (yes, no), strict=True)
        ]
        self._same_number(node, sides)
        raises = [_raises(block) for block in node.blocks_]
        for i, out in enumerate(node.outputs_):
            if out.type == T.BOOL:
                self.facts[out] = self._merged(node, i, sides, raises)
        if raises[0] and not raises[1]:
            return sides[1]
        if raises[1] and not raises[0]:
            return sides[0]
        return {k: v for k, v in sides[0].items() if sides[1].get(k) == v}

    def _same_number(self, node: Node, sides: list[Facts]) -> None:
        """A side that gives the number which the other side's int has there gives that int."""
        yes, no = node.blocks_
        for i, out in enumerate(node.outputs_):
            if out.type != T.INT:
                continue
            for own, other, facts in ((yes, no, sides[0]), (no, yes, sides[1])):
                known, number = constant(own.results[i])
                value = other.results[i]
                if (
                    known
                    and value in facts
                    and facts[value] == number
                    and made_outside(value, node)
                ):
                    own.results[i] = value
                    self.changed = True

    def _merged(
        self, node: Node, i: int, sides: list[Facts], raises: list[bool]
    ) -> tuple[Facts, Facts]:
        """What a truth value says that a branch gives: where it is true, and where it is false."""
        found = []
        for wanted in (True, False):
            ways = []
            for block, own, gone in zip(node.blocks_, sides, raises, strict=True):
                value = block.results[i]
                known, said = constant(value)
                if gone or known and said is not wanted:
                    continue
                ways.append({**own, **self._of(value)[0 if wanted else 1]})
            first = ways[0] if ways else {}
            found.append({k: v for k, v in first.items() if all(w.get(k) == v for w in ways)})
        return found[0], found[1]


def _raises(block: Block) -> bool:
    """Whether control cannot come to the end of a block."""
    for node in block.nodes_:
        if node.kind_ == "prim::RaiseException":
            return True
        if node.kind_ == "prim::If" and all(map(_raises, node.blocks_)):
            return True
    return False


# ------------------------------------------------------------------ tuples


def lower_tuples(graph: Graph, everywhere: bool = False) -> None:
    """Takes tuples apart that are built and unpacked; with ``everywhere``, inputs and results, too."""
    if everywhere:
        _flat_inputs(graph)
        for node in list(graph.all_nodes()):
            if node.kind_ in ("prim::If", "prim::Loop"):
                _flat_control(node)
    for block in list(graph.all_blocks()):
        for node in list(block.nodes_):
            _unpacked(node)
    if everywhere:
        graph.results = list(_flat(graph, graph.results, None))
    dce(graph)


def _unpacked(node: Node) -> None:
    made = node.inputs_[0].node if node.inputs_ else node
    if made.kind_ != "prim::TupleConstruct":
        return
    if node.kind_ == "prim::TupleUnpack":
        for out, value in zip(node.outputs_, made.inputs_, strict=True):
            out.replaceAllUsesWith(value)
    elif node.kind_ == "prim::TupleIndex" and constant(node.inputs_[1])[0]:
        node.outputs_[0].replaceAllUsesWith(made.inputs_[constant(node.inputs_[1])[1]])
    elif node.kind_ == "prim::TupleSlice":
        items = made.inputs_[node.attributes["beg"] : node.attributes["end"]]
        parts = Node(
            node.block, "prim::TupleConstruct", items, [node.outputs_[0].type], place=node.place
        )
        node.outputs_[0].replaceAllUsesWith(parts.insertBefore(node).outputs_[0])


def _flat_inputs(graph: Graph) -> None:
    made: list[Value] = []
    for p in graph.parameters:
        if p.type.kind != "Tuple":
            made.append(p)
            continue
        parts = [
            Value(t, graph.source, f"{p.hint}_{i}" if p.hint else "")
            for i, t in enumerate(p.type.inner)
        ]
        whole = Node(graph, "prim::TupleConstruct", list(parts), [p.type])
        graph.nodes_.insert(0, whole)
        p.replaceAllUsesWith(whole.outputs_[0])
        made.extend(parts)
    again = len(made) != len(graph.parameters)
    graph.parameters = made
    if again and any(p.type.kind == "Tuple" for p in made):
        _flat_inputs(graph)


def _flat(block: Block, values: list[Value], before: Node | None) -> Iterator[Value]:
    for value in values:
        if value.type.kind != "Tuple":
            yield value
        elif value.node.kind_ == "prim::TupleConstruct":
            yield from _flat(block, value.node.inputs_, before)
        else:
            node = Node(block, "prim::TupleUnpack", [value], list(value.type.inner))
            if before is None:
                block.nodes_.append(node)
            else:
                node.insertBefore(before)
            yield from _flat(block, node.outputs_, before)


def _flat_control(node: Node) -> None:
    """Results of branches and loops that are tuples become their parts."""
    if not any(v.type.kind == "Tuple" for v in node.outputs_):
        return
    start = 1 if node.kind_ == "prim::Loop" else 0
    outputs = node.outputs_
    made: list[Value] = []
    at = node.block.nodes_.index(node) + 1
    for out in outputs:
        if out.type.kind != "Tuple":
            made.append(out)
            continue
        parts = [Value(t, node) for t in out.type.inner]
        whole = Node(node.block, "prim::TupleConstruct", list(parts), [out.type])
        node.block.nodes_.insert(at, whole)
        out.replaceAllUsesWith(whole.outputs_[0])
        made.extend(parts)
    node.outputs_ = made
    for block in node.blocks_:
        block.results = block.results[:start] + list(_once(block, block.results[start:], None))
        if start:
            _flat_parameters(block)
    if start:
        node.inputs_ = node.inputs_[:2] + list(_once(node.block, node.inputs_[2:], node))
    _flat_control(node)


def _once(block: Block, values: list[Value], before: Node | None) -> Iterator[Value]:
    for value in values:
        if value.type.kind != "Tuple":
            yield value
            continue
        node = Node(block, "prim::TupleUnpack", [value], list(value.type.inner))
        if before is None:
            block.nodes_.append(node)
        else:
            node.insertBefore(before)
        yield from node.outputs_


def _flat_parameters(block: Block) -> None:
    made = block.parameters[:1]
    for p in block.parameters[1:]:
        if p.type.kind != "Tuple":
            made.append(p)
            continue
        parts = [Value(t, block.source) for t in p.type.inner]
        whole = Node(block, "prim::TupleConstruct", list(parts), [p.type])
        block.nodes_.insert(0, whole)
        p.replaceAllUsesWith(whole.outputs_[0])
        made.extend(parts)
    block.parameters = made
