"""Loops written out: whole where their number of turns is a constant, or several turns at once.

Takes a graph. Gives it with fewer loops, or loops with fewer turns.
Keeps true: only loops that a number of turns alone ends are written out, and only small bodies.
"""

from __future__ import annotations

from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.ir_editing import copied_node
from facula.jit.node_operators import resolved
from facula.jit.passes.cleaning import dce
from facula.jit.passes.constants import constant
from facula.ops.table.schemas import types as T

__all__ = ["unroll", "unroll_constant"]

#: turns that are written out at once, and nodes of a body that may be
TURNS, LARGEST = 8, 32


def _loops(block: Block) -> list[Node]:
    """The loops of a block, inner ones first."""
    found = []
    for node in block.nodes_:
        for inner in node.blocks_:
            found.extend(_loops(inner))
        if node.kind_ == "prim::Loop":
            found.append(node)
    return found


def _counts(node: Node) -> bool:
    """Whether only the number of turns ends a loop."""
    body = node.blocks_[0]
    return constant(node.inputs_[1]) == (True, True) and constant(body.results[0]) == (True, True)


def _size(block: Block) -> int:
    return sum(1 + sum(map(_size, n.blocks_)) for n in block.nodes_)


def unroll(graph: Graph) -> bool:
    """Writes loops out; of those with many turns, several at once. Whether there were any."""
    changed = False
    for node in _loops(graph):
        if not _counts(node) or _size(node.blocks_[0]) > LARGEST:
            continue
        known, count = constant(node.inputs_[0])
        if known and count <= TURNS:
            _whole(node, count)
        else:
            _in_parts(node)
        changed = True
    dce(graph)
    return changed


def unroll_constant(graph: Graph) -> bool:
    """Writes loops out whose number of turns is a constant; whether there were any."""
    changed = False
    for node in _loops(graph):
        known, count = constant(node.inputs_[0])
        if known and _counts(node) and count <= TURNS and _size(node.blocks_[0]) <= LARGEST:
            _whole(node, count)
            changed = True
    dce(graph)
    return changed


def _turn(
    body: Block, target: Block, at: int, counter: Value, carried: list[Value]
) -> tuple[int, list[Value]]:
    """Copies of a body's nodes at a place in a block; where they end, and what the turn gives."""
    values = dict(zip(body.parameters, [counter, *carried], strict=True))
    for node in body.nodes_:
        target.nodes_.insert(at, copied_node(node, target, values))
        at += 1
    return at, [values.get(v, v) for v in body.results[1:]]


def _number(block: Block, at: int, value: object, kind: T.Type) -> Value:
    made = Node(block, "prim::Constant", [], [kind], {"value": value})
    block.nodes_.insert(at, made)
    return made.outputs_[0]


def _whole(node: Node, count: int) -> None:
    block, carried = node.block, list(node.inputs_[2:])
    for i in range(count):
        at = block.nodes_.index(node)
        counter = _number(block, at, i, T.INT)
        _, carried = _turn(node.blocks_[0], block, at + 1, counter, carried)
    for out, value in zip(node.outputs_, carried, strict=True):
        out.replaceAllUsesWith(value)
    node.destroy()


def _operator(block: Block, at: int, kind: str, inputs: list[Value]) -> Value:
    made = Node(block, kind, inputs, [T.INT])
    resolved(made)
    block.nodes_.insert(at, made)
    return made.outputs_[0]


def _in_parts(node: Node) -> None:
    """`for i in range(n)` as `n // 8` turns of eight bodies, and a loop for the rest."""
    block, body = node.block, node.blocks_[0]
    at = block.nodes_.index(node)
    eight = _number(block, at, TURNS, T.INT)
    parts = _operator(block, at + 1, "aten::__round_to_zero_floordiv", [node.inputs_[0], eight])
    done = _operator(block, at + 2, "aten::mul", [parts, eight])
    rest = _operator(block, at + 3, "aten::sub", [node.inputs_[0], done])
    tail = copied_node(node, block, {})
    block.nodes_.insert(block.nodes_.index(node) + 1, tail)
    for out, value in zip(node.outputs_, tail.outputs_, strict=True):
        out.replaceAllUsesWith(value)
    tail.inputs_ = [rest, node.inputs_[1], *node.outputs_]
    own = tail.blocks_[0]
    counter = _operator(own, 0, "aten::add", [own.parameters[0], done])
    for each in own.nodes_[1:]:
        _renamed(each, own.parameters[0], counter)
    own.results = [counter if v is own.parameters[0] else v for v in own.results]
    node.inputs_[0] = parts
    _several(body)


def _renamed(node: Node, old: Value, new: Value) -> None:
    node.inputs_ = [new if v is old else v for v in node.inputs_]
    for inner in node.blocks_:
        inner.results = [new if v is old else v for v in inner.results]
        for each in inner.nodes_:
            _renamed(each, old, new)


def _several(body: Block) -> None:
    """A body that does eight turns, each with a counter of its own."""
    once = Block(body.graph, body.owner)
    once.parameters, once.nodes_, once.results = body.parameters, body.nodes_, list(body.results)
    body.nodes_ = []
    body.parameters = []
    first = body.add_parameter(T.INT, "i")
    carried = [body.add_parameter(p.type, p.hint) for p in once.parameters[1:]]
    eight = _number(body, 0, TURNS, T.INT)
    start = _operator(body, 1, "aten::mul", [first, eight])
    for i in range(TURNS):
        at = len(body.nodes_)
        number = _number(body, at, i, T.INT)
        counter = _operator(body, at + 1, "aten::add", [start, number])
        _, carried = _turn(once, body, at + 2, counter, carried)
    going = _number(body, len(body.nodes_), True, T.BOOL)
    body.results = [going, *carried]
