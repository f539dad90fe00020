"""Writes made unnecessary: operators in place become those that give a new value, and activations the other way round.

Takes a graph. Gives it with fewer writes, or with more.
Keeps true: a write becomes a new value only where the value it writes to was made in this graph, is seen from nowhere
else, and is read by nobody between; an activation writes to its input only where nobody else has that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.jit.ir import Graph, Node, Value
from facula.jit.node_operators import resolved
from facula.jit.passes.aliases import Aliases, reads
from facula.jit.passes.cleaning import dce
from facula.jit.passes.constants import constant
from facula.jit.passes.effects import fresh
from facula.jit.signatures import operator_named, signatures
from facula.ops.table.registry import TABLE

__all__ = ["activations_in_place", "activations_out_of_place", "remove_mutation"]

#: in place -> the operator that gives a like tensor, and the arguments between the two
_FILLS = {
    "aten::zero_": "aten::zeros_like",
    "aten::fill_": "aten::full_like",
    "aten::normal_": "aten::normal",
}


def remove_mutation(graph: Graph) -> bool:
    """Takes out writes to lists and tensors; whether there were any."""
    lists = remove_list_mutation(graph)
    return remove_tensor_mutation(graph) or lists


def _while_any(graph: Graph, take_out: Callable[[Node, Aliases], bool]) -> bool:
    """Takes out one write after the other, looking anew at the graph after each; whether there were any."""
    changed = False
    while _first(graph, take_out, Aliases(graph)):
        changed = True
    return changed


def _first(graph: Graph, take_out: Callable[[Node, Aliases], bool], aliases: Aliases) -> bool:
    nodes = (node for block in list(graph.all_blocks()) for node in list(block.nodes_))
    return any(take_out(node, aliases) for node in nodes)


# ------------------------------------------------------------------ lists


def remove_list_mutation(graph: Graph) -> bool:
    """Takes out writes to lists that the graph builds."""
    return _while_any(graph, _list_write)


def _list_write(node: Node, aliases: Aliases) -> bool:
    write = _LISTS.get(node.kind_)
    owner = node.inputs_[0] if write is not None else None
    if (
        owner is None
        or owner.node.kind_ != "prim::ListConstruct"
        or owner.node.block is not node.block
    ):
        return False
    nodes = node.block.nodes_
    first = next(
        (n for n in nodes if owner in reads(n) or aliases.wrote(n) & aliases.of(owner)), None
    )
    if first is not node and not _only_looks(nodes, owner.node, node, owner, aliases):
        return False
    if node.outputs_ and node.outputs_[0].uses():
        return False
    assert write is not None
    items = write(
        list(owner.node.inputs_), [constant(v) for v in node.inputs_[1:]], node.inputs_[1:]
    )
    if items is None:
        return False
    made = Node(node.block, "prim::ListConstruct", items, [owner.type], place=node.place)
    made.outputs_[0].hint = owner.hint
    made.insertBefore(node)
    owner.replaceAllUsesAfterNodeWith(node, made.outputs_[0])
    node.destroy()
    return True


def _only_looks(nodes: list[Node], start: Node, end: Node, owner: Value, aliases: Aliases) -> bool:
    """Whether what reads the list between its making and the write only asks it."""
    between = nodes[nodes.index(start) + 1 : nodes.index(end)]
    for node in between:
        if owner in reads(node) and node.kind_ not in ("aten::len", "aten::__getitem__"):
            return False
        if aliases.wrote(node) & aliases.of(owner):
            return False
    return True


Constants = list[tuple[bool, Any]]


def _append(items: list[Value], known: Constants, given: list[Value]) -> list[Value] | None:
    return [*items, given[0]]


def _insert(items: list[Value], known: Constants, given: list[Value]) -> list[Value] | None:
    if not known[0][0]:
        return None
    items.insert(known[0][1], given[1])
    return items


def _set(items: list[Value], known: Constants, given: list[Value]) -> list[Value] | None:
    if not known[0][0] or not -len(items) <= known[0][1] < len(items):
        return None
    items[known[0][1]] = given[1]
    return items


_LISTS: dict[str, Callable[[list[Value], Constants, list[Value]], list[Value] | None]] = {
    "aten::append": _append, "aten::insert": _insert, "aten::_set_item": _set,
}  # fmt: skip

# ------------------------------------------------------------------ tensors


def remove_tensor_mutation(graph: Graph, chosen: Callable[[Node], bool] | None = None) -> bool:
    """Writes to tensors that the graph makes become new tensors."""
    return _while_any(
        graph,
        lambda node, aliases: (chosen is None or chosen(node)) and _tensor_write(node, aliases),
    )


def _functional(node: Node) -> str | None:
    """The name of the operator that gives what this one writes."""
    if (
        not node.kind_.startswith("aten::")
        or not node.kind_.endswith("_")
        or node.kind_.endswith("__")
    ):
        return None
    if node.signature is None or not node.outputs_:
        return None
    special = _FILLS.get(node.kind_)
    if special is not None:
        return special
    return node.kind_[:-1] if signatures(node.kind_[:-1]) else None


def _tensor_write(node: Node, aliases: Aliases) -> bool:
    name = _functional(node)
    if name is None:
        return False
    target = node.inputs_[0]
    home = target.node
    if home.block is not node.block or not _made_here(target, node, aliases):
        return False
    if not _joined_to(home, target, node, aliases):
        return False
    made = Node(node.block, name, _arguments(node, name), [node.outputs_[0].type], place=node.place)
    if not resolved(made):
        return False
    made.outputs_[0].hint = target.hint
    made.insertBefore(node)
    if made.kind_ != node.kind_[:-1]:
        _like(made, node)
    target.replaceAllUsesAfterNodeWith(node, made.outputs_[0])
    node.outputs_[0].replaceAllUsesWith(made.outputs_[0])
    node.destroy()
    return True


def _arguments(node: Node, name: str) -> list[Value]:
    if name == "aten::normal":
        return [*node.inputs_[1:3], node.inputs_[0], *node.inputs_[3:]]
    return list(node.inputs_)


def _like(made: Node, node: Node) -> None:
    if made.kind_ == "aten::normal":
        # the mean and the deviation, over the sizes and dtype of the tensor
        source = node.inputs_[0]
        run = signatures("aten::normal_")[-1].run
        empty = signatures("aten::empty_like")[-1].run
        made.run = lambda mean, std, like, *rest: run(empty(like, *[None] * 5), mean, std, *rest)
        made.inputs_[2] = source


def _made_here(target: Value, node: Node, aliases: Aliases) -> bool:
    """Whether a tensor was made by the graph, and nothing else stands for its memory."""
    home = target.node
    if home.kind_ == "prim::If":
        at = home.outputs_.index(target)
        return all(
            b.results[at].node.block is b and _made_here(b.results[at], node, aliases)
            and len(b.results[at].uses()) == 1
            for b in home.blocks_
        )  # fmt: skip
    if home.kind_ in ("prim::Param", "prim::Loop", "prim::Constant") or not fresh(home):
        return False
    return not any(p.outside for p in aliases.of(target))


def _joined_to(home: Node, target: Value, node: Node, aliases: Aliases) -> bool:
    """Whether nobody reads the tensor between its making and the write, under any name."""
    nodes = node.block.nodes_
    places = aliases.of(target)
    for each in nodes[nodes.index(home) + 1 : nodes.index(node)]:
        if aliases.reads(each) & places or aliases.wrote(each) & places:
            return False
    # who holds the same memory under another name would not see the new value
    for value, found in aliases.places.items():
        same = value is target or value in node.outputs_
        if same or not found & places:
            continue
        inside = home.kind_ == "prim::If" and any(value in b.results for b in home.blocks_)
        if not inside and _before(value, node, nodes):
            return False
    return True


def _before(value: Value, node: Node, nodes: list[Node]) -> bool:
    return value.node in nodes and nodes.index(value.node) < nodes.index(node)


# ------------------------------------------------------------------ activations


def _is_activation(name: str) -> bool:
    """Whether an operator has a form of `nn.functional` that is told whether to write to its input."""
    return f"_functional_{name}" in TABLE


def _is_of_one(name: str) -> bool:
    """Whether an operator goes over the elements of one tensor."""
    found = operator_named(name)
    if not isinstance(found, core.Op) or found.definition.kind != "pointwise":
        return False
    operands = [p for p in found.definition.schema.parameters if p.type in ("Tensor", "Operand")]
    return len(operands) == 1


def activations_in_place(graph: Graph) -> bool:
    """Activations write to their input where nobody else has that."""
    aliases = Aliases(graph)
    changed = False
    for node in list(graph.all_nodes()):
        own = node.kind_.removeprefix("aten::")
        if not _is_activation(own) or not _is_own(node, aliases):
            continue
        made = Node(
            node.block,
            node.kind_ + "_",
            list(node.inputs_),
            [node.outputs_[0].type],
            place=node.place,
        )
        if not resolved(made):
            continue
        made.insertBefore(node)
        made.outputs_[0].hint = node.outputs_[0].hint
        node.outputs_[0].replaceAllUsesWith(made.outputs_[0])
        node.destroy()
        changed = True
    return changed


def _is_own(node: Node, aliases: Aliases) -> bool:
    value = node.inputs_[0]
    if value.node.kind_ in (
        "prim::Param",
        "prim::Constant",
        "prim::GetAttr",
    ) or aliases.has_writers(value):
        return False
    places = aliases.of(value)
    if any(p.outside for p in places) or not places:
        return False
    dtype = getattr(value.type, "element", None)
    if dtype is not None and not dtype.is_floating_point:
        return False
    others = [v for v, found in aliases.places.items() if v is not value and found & places]
    return not others and len(value.uses()) == 1 and value.node.block is node.block


def activations_out_of_place(graph: Graph) -> bool:
    """Activations that write become those that give a new tensor."""

    def chosen(node: Node) -> bool:
        own = node.kind_.removeprefix("aten::").removesuffix("_")
        return node.kind_.endswith("_") and (_is_activation(own) or _is_of_one(own))

    changed = remove_tensor_mutation(graph, chosen)
    if changed:
        dce(graph)
    return changed
