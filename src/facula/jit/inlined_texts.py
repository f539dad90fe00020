"""Which nodes of a graph are written where they are read, `return torch.relu(torch.add(x, y))`, and not on a line.

Takes a graph. Gives the nodes.
Keeps true: what is read once, and at the place where it would be computed: the order in which nodes run stays, and
names that the program gave to values stay; texts are nested `DEEPEST` deep at most.
"""

from __future__ import annotations

from typing import Any

from facula.jit.ir import Block, Graph, Node, Value

__all__ = ["inlined", "is_counted"]

#: parentheses inside of each other: parsers have bounds
DEEPEST = 20
#: nodes that have lines of their own: what refines types, or is more than an expression
_LINES = ("prim::isinstance", "prim::fork", "prim::awaitable", "prim::Enter", "prim::PythonOp")
#: nodes that read names
_READ_NAMES = ("prim::fork", "prim::awaitable", "prim::Enter", "prim::Exit", "prim::isinstance")


def inlined(graph: Graph) -> set[Node]:
    """The nodes whose text stands in that of what reads them."""
    return _Scan(graph).found


class _Scan:
    """Walks from what is read to what is computed right before it."""

    def __init__(self, graph: Graph) -> None:
        self.found: set[Node] = set()
        self.uses: dict[Value, list[tuple[Node | None, int]]] = {}
        for node in graph.all_nodes():
            for i, value in enumerate(node.inputs_):
                self.uses.setdefault(value, []).append((node, i))
        for block in graph.all_blocks():
            for i, value in enumerate(block.results):
                self.uses.setdefault(value, []).append((None, i))
        self.block(graph)

    def block(self, block: Block) -> None:
        nodes = block.nodes_
        self._inputs(nodes, _before(nodes, len(nodes)), block.results, DEEPEST)
        for at in reversed(range(len(nodes))):
            self._node(nodes, at, DEEPEST)

    def _node(self, nodes: list[Node], at: int, left: int) -> int:
        """The place before all that is written in a node's text."""
        if nodes[at] in self.found:
            return at
        for inner in nodes[at].blocks_:
            self.block(inner)
        return self._inputs(nodes, _before(nodes, at), nodes[at].inputs_, left)

    def _inputs(self, nodes: list[Node], place: int, values: list[Value], left: int) -> int:
        for value in reversed(values):
            here = place >= 0 and value.node is nodes[place]
            if here and left and self._may(value):
                node = nodes[place]
                place = self._node(nodes, place, left - 1)
                self.found.add(node)
        return place

    def _may(self, value: Value) -> bool:
        """Whether a value is read once, by something that takes an expression."""
        node: Any = value.node
        uses = self.uses.get(value, ())
        if len(uses) != 1 or len(node.outputs_) != 1 or node.blocks_ or node.kind_ in _LINES:
            return False
        user, offset = uses[0]
        if user is None:
            return True
        named = bool(value.hint) or node.kind_ == "prim::GetAttr"
        if user.kind_ == "prim::Loop" and (offset >= 2 or offset == 0 and not is_counted(user)):
            return False
        return not named and user.kind_ not in _READ_NAMES


def is_counted(loop: Node) -> bool:
    """Whether a loop is written as `for i in range(n)`: nothing but the count ends it."""
    ends = (loop.inputs_[1], loop.blocks_[0].results[0])
    return all(
        v.node.kind_ == "prim::Constant" and v.node.attributes.get("value") is True for v in ends
    )


def _before(nodes: list[Node], at: int) -> int:
    """The place of the last node before a place that is no constant; -1 where there is none."""
    at -= 1
    while at >= 0 and nodes[at].kind_ == "prim::Constant":
        at -= 1
    return at
