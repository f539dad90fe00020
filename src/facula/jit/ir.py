"""The graph of a scripted or traced function: nodes in blocks, each value made once.

Takes nodes as the lowering appends them. Gives `Graph`, `Block`, `Node` and `Value`, with PyTorch's names
for looking at them, and the text that PyTorch's `.graph` prints.
Keeps true: a value has one node that makes it, which stands before its uses, in its block or in one around.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from facula.core.errors import fail
from facula.jit.ir_editing import ALIASES, BlockEdits, GraphEdits, NodeEdits, ValueEdits
from facula.jit.tensor_types import SOME
from facula.ops.table.schemas import types as T

__all__ = ["Block", "Graph", "Node", "Value"]


class Use(NamedTuple):
    """A node that reads a value, and which of its inputs that is."""

    user: Any
    offset: int


class Value(ValueEdits):
    """What a node gives."""

    __slots__ = ("hint", "node", "type")

    def __init__(self, type: T.Type, node: Any, hint: str = "") -> None:
        self.type, self.node, self.hint = SOME if type is T.TENSOR else type, node, hint

    def debugName(self) -> str:
        """The name in the graph's text."""
        return self.node.block.graph.names()[self]

    def uses(self) -> list[Use]:
        """Where the value is read: nodes, and the results of blocks."""
        graph = self.node.block.graph
        read = [
            Use(node, i)
            for node in graph.all_nodes()
            for i, value in enumerate(node.inputs_)
            if value is self
        ]
        given = [(b, i) for b in graph.all_blocks() for i, v in enumerate(b.results) if v is self]
        return read + [Use(block.returnNode(), i) for block, i in given]

    def toIValue(self) -> Any:
        """The value of a constant; None for others."""
        return self.node.attributes.get("value") if self.node.kind_ == "prim::Constant" else None


class Node(NodeEdits):
    """One operation."""

    __slots__ = (
        "attributes",
        "block",
        "blocks_",
        "inputs_",
        "kind_",
        "outputs_",
        "place",
        "run",
        "signature",
    )

    def __init__(
        self,
        block: Block,
        kind: str,
        inputs: list[Value],
        types: list[T.Type],
        attributes: dict[str, Any] | None = None,
        place: Any = None,
        run: Any = None,
    ) -> None:
        self.block, self.kind_, self.inputs_ = block, kind, inputs
        self.outputs_ = [Value(t, self) for t in types]
        self.attributes = attributes or {}
        self.blocks_: list[Block] = []
        self.place, self.run = place, run
        #: the signature of an operator's node
        self.signature: Any = None

    def kind(self) -> str:
        """`aten::add`, `prim::If`, ..."""
        return self.kind_

    def inputs(self) -> Iterator[Value]:
        return iter(self.inputs_)

    def outputs(self) -> Iterator[Value]:
        return iter(self.outputs_)

    def output(self) -> Value:
        (only,) = self.outputs_
        return only

    def input(self) -> Value:
        (only,) = self.inputs_
        return only

    def hasAttribute(self, name: str) -> bool:
        return name in self.attributes

    def attributeNames(self) -> list[str]:
        return list(self.attributes)

    def s(self, name: str) -> Any:
        return self.attributes[name]

    i = f = t = ival = s

    def outputsAt(self, i: int) -> Value:
        return self.outputs_[i]

    def inputsAt(self, i: int) -> Value:
        return self.inputs_[i]

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """The nodes of a kind in the blocks inside."""
        return [n for block in self.blocks_ for n in block.findAllNodes(kind, recurse)]

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind in the blocks inside."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def blocks(self) -> Iterator[Block]:
        """The blocks inside: branches, or the body of a loop."""
        return iter(self.blocks_)

    def outputsSize(self) -> int:
        return len(self.outputs_)

    def inputsSize(self) -> int:
        return len(self.inputs_)

    def sourceRange(self) -> str:
        """Where in the user's source the operation stands."""
        return "" if self.place is None else self.place.text()

    def add_block(self) -> Block:
        """A new block inside: a branch, or the body of a loop."""
        self.blocks_.append(Block(self.block.graph, self))
        return self.blocks_[-1]

    def __str__(self) -> str:
        return _node_text(self, self.block.graph.names(), 0)


class Block(BlockEdits):
    """Nodes in order, with values that come in and values that go out."""

    def __init__(self, graph: Graph, owner: Node | None) -> None:
        self.graph, self.owner = graph, owner
        self.parameters: list[Value] = []
        self.nodes_: list[Node] = []
        self.results: list[Value] = []
        self.source = Node(self, "prim::Param", [], [])

    def nodes(self) -> Iterator[Node]:
        return iter(self.nodes_)

    def inputs(self) -> Iterator[Value]:
        return iter(self.parameters)

    def outputs(self) -> Iterator[Value]:
        return iter(self.results)

    def outputsSize(self) -> int:
        return len(self.results)

    def inputsSize(self) -> int:
        return len(self.parameters)

    def all_nodes(self, block: Block | None = None) -> Iterator[Node]:
        """All nodes, those inside of others after them."""
        for node in (block or self).nodes_:
            yield node
            for inner in node.blocks_:
                yield from self.all_nodes(inner)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """The nodes of a kind."""
        nodes = self.all_nodes() if recurse else self.nodes()
        return [n for n in nodes if n.kind_ == kind]

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def paramNode(self) -> Node:
        """The node that stands for what makes the values that come in."""
        self.source.outputs_ = self.parameters
        return self.source

    param_node = paramNode

    def add_parameter(self, type: T.Type, hint: str = "") -> Value:
        """A value that comes in."""
        made = Value(type, self.source, hint)
        self.parameters.append(made)
        return made


class Graph(GraphEdits, Block):
    """The outermost block."""

    def __init__(self) -> None:
        super().__init__(self, None)
        self._names: dict[Value, builtins.str] = {}

    def names(self) -> dict[Value, builtins.str]:
        """A name for each value: the variable's, numbered where it is used again, or a number."""
        taken: dict[builtins.str, int] = {}
        self._names = {}
        counter = 0
        for value in self._values(self):
            hint = value.hint.replace("$", "_")
            if hint:
                count = taken[hint] = taken.get(hint, 0) + 1
                self._names[value] = hint if count == 1 else f"{hint}.{count}"
            else:
                counter += 1
                self._names[value] = str(counter)
        return self._names

    def _values(self, block: Block) -> Iterator[Value]:
        yield from block.parameters
        for node in block.nodes_:
            yield from node.outputs_
            for inner in node.blocks_:
                yield from self._values(inner)

    def lint(self) -> None:
        """Raise where a value is read that nothing before it gives."""
        self._lint(self, set())

    def _lint(self, block: Block, known: set[Value]) -> None:
        known = known | set(block.parameters)
        for node in block.nodes_:
            for value in node.inputs_:
                if value not in known:
                    fail(RuntimeError, "jit.graph", "values that are made before they are read were required",
                         f"%{value.hint or '?'} in {node.kind_}",
                         hint="a change of the graph took its node away, or moved it")  # fmt: skip
            for inner in node.blocks_:
                self._lint(inner, known)
            known.update(node.outputs_)
        if not known.issuperset(block.results):
            fail(RuntimeError, "jit.graph", "results that the block makes were required", "others",
                 hint="a change of the graph took their node away")  # fmt: skip

    def str(self, print_source_ranges: bool = True) -> builtins.str:
        """The text, with the places in the source, or without."""
        text = builtins.str(self)
        return text if print_source_ranges else re.sub(r" # [^\n]*", "", text)

    def alias_db(self, isFrozen: bool = False, descend_function_calls: bool = False) -> Any:
        """Which values may share memory."""
        return ALIASES[0](self)

    def __str__(self) -> builtins.str:
        names = self.names()
        head = ",\n      ".join(f"%{names[v]} : {v.type.str()}" for v in self.parameters)
        lines = [f"graph({head}):"]
        lines.extend(_node_text(node, names, 1) for node in self.nodes_)
        lines.append(f"  return ({', '.join('%' + names[v] for v in self.results)})")
        return "\n".join(lines) + "\n"

    __repr__ = __str__


def constant_text(value: object) -> str:
    """A constant as graphs print it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str):
        return (
            '"'
            + value.replace("\\", "\\\\")
            .replace('"', '\\"')
            .replace("\n", "\\n")
            .replace("\t", "\\t")
            + '"'
        )
    if isinstance(value, float):
        text = repr(value)
        return text[:-1] if text.endswith(".0") else text
    if isinstance(value, (list, tuple)):
        body = ", ".join(map(constant_text, value))
        return f"[{body}]" if isinstance(value, list) else f"({body})"
    if value is None:
        return "None"
    return f"{value}" if not hasattr(value, "shape") else "<Tensor>"


def _node_text(node: Node, names: dict[Value, str], depth: int) -> str:
    pad = "  " * depth
    outputs = ", ".join(f"%{names[v]} : {v.type.str()}" for v in node.outputs_)
    shown = {
        k: (v if k != "name" else f'"{v}"') if k != "value" else constant_text(v)
        for k, v in node.attributes.items()
        if not (k == "value" and v is None)
    }
    attributes = "[" + ", ".join(f"{k}={v}" for k, v in shown.items()) + "]" if shown else ""
    inputs = ", ".join("%" + names[v] for v in node.inputs_)
    place = f" # {node.place.text()}" if node.place is not None else ""
    lines = []
    if (
        node.kind_ == "prim::CallFunction" and "name" in shown
    ):  # the function is an input, as in PyTorch's text
        short = node.attributes["name"].rpartition(".")[2]
        function = f"%{short}.{names[node.outputs_[0]]}"
        lines.append(f'{pad}{function} : Function = prim::Constant[name="{short}"]()')
        attributes, inputs = "", f"{function}, {inputs}" if inputs else function
    lines += [f"{pad}{outputs} = {node.kind_}{attributes}({inputs}){place}"]
    for i, block in enumerate(node.blocks_):
        parameters = ", ".join(f"%{names[v]} : {v.type.str()}" for v in block.parameters)
        lines.append(f"{pad}  block{i}({parameters}):")
        lines.extend(_node_text(inner, names, depth + 2) for inner in block.nodes_)
        lines.append(f"{pad}    -> ({', '.join('%' + names[v] for v in block.results)})")
    return "\n".join(lines)
