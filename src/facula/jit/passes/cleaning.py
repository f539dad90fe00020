"""Dead code, equal computations, equal constants, and names in order.

Takes a graph. Gives it with less in it.
Keeps true: a node with effects, or that writes to what is still read, stays; only nodes whose inputs nobody writes
to count as equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.passes.aliases import Aliases, Place
from facula.jit.passes.effects import draws, has_effects, is_mutable

__all__ = ["canonicalize", "cse", "dce", "pool_constants", "tidy"]


class _Live:
    """Which nodes and values are needed."""

    def __init__(self, graph: Graph, effects: bool = True) -> None:
        self.graph, self.effects = graph, effects
        self.aliases = Aliases(graph)
        self.nodes: set[Node] = set()
        self.values: set[Value] = set(graph.results)
        self.seen: set[Place] = {p for v in graph.results for p in self.aliases.within(v)}
        count = -1
        while count != len(self.nodes) + len(self.values) + len(self.seen):
            count = len(self.nodes) + len(self.values) + len(self.seen)
            self._block(graph)

    def _need(self, value: Value) -> None:
        self.values.add(value)
        self.seen |= self.aliases.within(value)

    def _block(self, block: Block) -> bool:
        """Whether a node of the block is needed."""
        found = False
        for node in reversed(block.nodes_):
            if self._node(node):
                self.nodes.add(node)
                found = True
        return found

    def _node(self, node: Node) -> bool:
        inner = False
        if node.kind_ == "prim::Loop":
            inner = self._loop(node)
        else:
            for block in node.blocks_:
                if node.kind_ == "prim::If":
                    for out, value in zip(node.outputs_, block.results, strict=True):
                        if out in self.values:
                            self._need(value)
                else:
                    for value in block.results:
                        self._need(value)
                inner = self._block(block) or inner
        wrote = self.aliases.writes.get(node, set())
        outside = wrote & self.seen or any(p.outside for p in wrote)
        needed = inner or bool(outside) or any(v in self.values for v in node.outputs_)
        if needed or has_effects(node) and self.effects:
            count = 2 if node.kind_ == "prim::Loop" else len(node.inputs_)
            for value in node.inputs_[:count]:
                self._need(value)
            return True
        return False

    def _loop(self, node: Node) -> bool:
        body = node.blocks_[0]
        for i, parameter in enumerate(body.parameters[1:]):
            if node.outputs_[i] in self.values or parameter in self.values:
                self._need(body.results[i + 1])
                self._need(node.inputs_[i + 2])
                self.values.add(parameter)
        if node in self.nodes:
            self._need(body.results[0])
        return self._block(body)


def dce(graph: Graph) -> None:
    """Takes out what nobody needs, results of branches and loops included."""
    _forget_objects(graph)
    live = _Live(graph)
    for block in list(graph.all_blocks()):
        block.nodes_ = [n for n in block.nodes_ if n in live.nodes]
        for node in block.nodes_:
            if node.kind_ == "prim::If":
                _keep(node, [v in live.values for v in node.outputs_])
            elif node.kind_ == "prim::Loop":
                inside = node.blocks_[0].parameters[1:]
                pairs = zip(node.outputs_, inside, strict=True)
                _keep(node, [a in live.values or b in live.values for a, b in pairs])


def _forget_objects(graph: Graph) -> None:
    """Takes out objects that are made and filled, and that nobody looks at."""
    for node in list(graph.all_nodes()):
        if node.kind_ != "prim::CreateObject":
            continue
        users = [use.user for use in node.outputs_[0].uses() if use.offset == 0]
        filled_only = all(user.kind_ == "prim::SetAttr" for user in users)
        if filled_only and len(users) == len(node.outputs_[0].uses()):
            for user in users:
                user.destroy()
            node.destroy()


def _keep(node: Node, kept: list[bool]) -> None:
    if all(kept):
        return
    loop = node.kind_ == "prim::Loop"
    node.outputs_ = [v for v, k in zip(node.outputs_, kept, strict=True) if k]
    for block in node.blocks_:
        lead = block.results[:1] if loop else []
        rest = block.results[1:] if loop else block.results
        block.results = lead + [v for v, k in zip(rest, kept, strict=True) if k]
        if loop:
            inside = zip(block.parameters[1:], kept, strict=True)
            block.parameters = block.parameters[:1] + [v for v, k in inside if k]
    if loop:
        carried = zip(node.inputs_[2:], kept, strict=True)
        node.inputs_ = node.inputs_[:2] + [v for v, k in carried if k]


def key_of(value: Any) -> Any:
    """What tells constants apart: numbers of different types, nan and signs of zero, tensors as objects."""
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(key_of, value))
    if isinstance(value, (bool, int, str, bytes, type(None))):
        return type(value), value
    if isinstance(value, (float, complex)):
        return type(value), repr(value)
    return id(value)


def _key(node: Node) -> Any:
    attributes = tuple(sorted((k, key_of(v)) for k, v in node.attributes.items()))
    kinds = tuple(v.type.str() for v in node.outputs_)
    return node.kind_, tuple(node.inputs_), attributes, kinds


def cse(graph: Graph) -> bool:
    """One node for each computation that is written twice; whether there were any."""
    aliases = Aliases(graph)
    renamed: dict[Value, Value] = {}
    _cse(graph, [], aliases, renamed)
    return bool(renamed)


def _equal_once(node: Node, aliases: Aliases) -> bool:
    if node.blocks_ or has_effects(node) or draws(node) or node in aliases.writes:
        return False
    if node.kind_ == "prim::Uninitialized":
        return False
    if any(aliases.has_writers(v, deep=True) for v in (*node.inputs_, *node.outputs_)):
        return False
    # whom a result is given to may write to it: two results must not be one
    return not any(is_mutable(v.type) and aliases.is_outside(v) and node.kind_ != "prim::Constant"
                   and node.kind_ != "prim::GetAttr" for v in node.outputs_)  # fmt: skip


def _cse(
    block: Block, known: list[dict[Any, Node]], aliases: Aliases, renamed: dict[Value, Value]
) -> None:
    own: dict[Any, Node] = {}
    known = [*known, own]
    kept = []
    for node in block.nodes_:
        node.inputs_ = [renamed.get(v, v) for v in node.inputs_]
        if _equal_once(node, aliases):
            key = _key(node)
            same = next((d[key] for d in known if key in d), None)
            if same is not None:
                renamed.update(zip(node.outputs_, same.outputs_, strict=True))
                continue
            own[key] = node
        for inner in node.blocks_:
            _cse(inner, known, aliases, renamed)
        kept.append(node)
    block.nodes_ = kept
    block.results = [renamed.get(v, v) for v in block.results]


def pool_constants(graph: Graph) -> None:
    """Each constant once, before all other nodes."""
    found: dict[Any, Node] = {}
    renamed: dict[Value, Value] = {}
    for block in list(graph.all_blocks()):
        for node in [n for n in block.nodes_ if n.kind_ == "prim::Constant"]:
            key = (node.outputs_[0].type.str(), key_of(node.attributes.get("value")))
            first = found.setdefault(key, node)
            if first is not node:
                renamed[node.outputs_[0]] = first.outputs_[0]
        block.nodes_ = [n for n in block.nodes_ if n.kind_ != "prim::Constant"]
    for node in found.values():
        node.block = graph
    for node in graph.all_nodes():
        node.inputs_ = [renamed.get(v, v) for v in node.inputs_]
    for block in graph.all_blocks():
        block.results = [renamed.get(v, v) for v in block.results]
    graph.nodes_ = [*found.values(), *graph.nodes_]


def tidy(graph: Graph) -> None:
    """What every new graph goes through: flags that nobody reads go, constants stand first, each once."""
    _drop_results(graph)
    for block in list(graph.all_blocks()):
        _out_of_branches(block)
    _drop_results(graph)
    pool_constants(graph)


def _out_of_branches(block: Block) -> None:
    """Where one side of a branch raises, what the other does stands behind the branch."""
    behind = 0
    while behind < len(block.nodes_):  # what moves here is looked at, too
        node = block.nodes_[behind]
        behind += 1
        if node.kind_ != "prim::If":
            continue
        raises = [_ends_in_raise(b) for b in node.blocks_]
        if raises[0] == raises[1]:
            continue
        side = node.blocks_[1 if raises[0] else 0]
        for each in side.nodes_:
            each.block = block
        block.nodes_[behind:behind] = side.nodes_
        side.nodes_ = []
        for out, value in zip(node.outputs_, side.results, strict=True):
            out.replaceAllUsesWith(value)
            value.hint = value.hint or out.hint
        node.outputs_ = []
        for inner in node.blocks_:
            inner.results = []


def _ends_in_raise(block: Block) -> bool:
    """Whether the last thing that a block does is to raise."""
    plain = ("prim::Constant", "prim::Uninitialized")
    last = next((n for n in reversed(block.nodes_) if n.kind_ not in plain), None)
    return last is not None and last.kind_ == "prim::RaiseException"


def _drop_results(graph: Graph) -> None:
    """Takes out results of branches that nobody reads, and what only those read."""
    changed = True
    while changed:
        read = {v for n in graph.all_nodes() for v in n.inputs_}
        read |= {v for b in graph.all_blocks() for v in b.results}
        changed = False
        for block in list(graph.all_blocks()):
            for node in block.nodes_:
                if node.kind_ == "prim::If" and not all(v in read for v in node.outputs_):
                    _keep(node, [v in read for v in node.outputs_])
                    changed = True
            plain = ("prim::Constant", "prim::Uninitialized")
            kept = [n for n in block.nodes_ if n.kind_ not in plain or n.outputs_[0] in read]
            changed = changed or len(kept) < len(block.nodes_)
            block.nodes_ = kept


def canonicalize(graph: Graph, keep_unique_names: bool = True) -> Graph:
    """A copy whose values are named by their order, but for those with a name of their own."""
    made = graph.copy()
    for value in made._values(made):
        if not keep_unique_names or value.hint.isdigit():
            value.hint = ""
    return made


def simplified(graph: Graph, simplify: Callable[[Node], Value | None]) -> bool:
    """Reads of a node's only result become reads of what ``simplify`` says; whether it said something."""
    changed = False
    for block in list(graph.all_blocks()):
        for node in list(block.nodes_):
            made = simplify(node)
            if made is not None and made is not node.outputs_[0]:
                node.outputs_[0].replaceAllUsesWith(made)
                changed = True
    return changed
