"""What changes graphs: values replaced, nodes made, moved and destroyed, copies of whole graphs.

Takes values, nodes and blocks. Gives the methods that `ir` has on them, under PyTorch's names.
Keeps true: a node that is destroyed has no readers; a value that is replaced is replaced in the results of
blocks, too; what a graph runs after a change is what it says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from facula.core.errors import fail
from facula.ops.table.schemas import types as T

__all__ = ["BlockEdits", "GraphEdits", "NodeEdits", "ValueEdits", "copied_node", "replaced"]


#: the type of a constant, and what asks graphs about memory: both lie above, and fill these
CONSTANT_TYPE: list[Callable[[Any], T.Type]] = []
ALIASES: list[Callable[[Any], Any]] = []


def replaced(graph: Any, old: Any, new: Any, after: object = None) -> None:
    """Reads of a value become reads of another; with ``after``, those of the nodes behind that only."""
    behind = after is None
    for node in graph.all_nodes():
        if behind or node is after:
            for block in node.blocks_ if behind else ():
                block.results = [new if v is old else v for v in block.results]
            if behind and new.node is not node:
                node.inputs_ = [new if v is old else v for v in node.inputs_]
            behind = True
    graph.results = [new if v is old else v for v in graph.results]


class ValueEdits:
    """What a value can be told."""

    __slots__: tuple[str, ...] = ()
    if TYPE_CHECKING:
        __slots__ = ("hint", "node", "type")
    type: Any
    hint: str
    node: Any

    def setType(self, type: Any) -> Any:
        """Say the type anew."""
        self.type = type
        return self

    def setDebugName(self, name: str) -> Any:
        """Say the name in the graph's text."""
        self.hint = name
        return self

    def replaceAllUsesWith(self, other: object) -> None:
        """Whoever reads this value reads the other one."""
        replaced(self.node.block.graph, self, other)

    def replaceAllUsesAfterNodeWith(self, node: object, other: object) -> None:
        """Whoever reads this value behind the node reads the other one."""
        replaced(self.node.block.graph, self, other, node)

    def isCompleteTensor(self) -> bool:
        """Whether dtype and sizes of the tensor are known."""
        return self.type.kind == "Tensor" and self.type.is_complete()

    def requires_grad(self) -> bool:
        """Whether the tensor may ask for a gradient."""
        return getattr(self.type, "wants_gradient", None) is not False

    def requiresGrad(self) -> bool | None:
        """Whether the tensor asks for a gradient; None where that is not known."""
        return getattr(self.type, "wants_gradient", None)


class NodeEdits:
    """What can be done to a node."""

    __slots__: tuple[str, ...] = ()
    if TYPE_CHECKING:
        __slots__ = (
            "attributes",
            "block",
            "blocks_",
            "inputs_",
            "kind_",
            "outputs_",
            "place",
            "signature",
        )
    attributes: dict[str, Any]
    block: Any
    blocks_: list[Any]
    inputs_: list[Any]
    kind_: str
    outputs_: list[Any]
    place: Any
    signature: Any

    def __call__(self) -> Any:
        return self  # PyTorch's graphs are asked `value.node()`

    def destroy(self) -> None:
        """Take the node out of its block; nobody may read what it gives."""
        graph = self.block.graph
        read = {v for n in graph.all_nodes() if n is not self for v in n.inputs_}
        read |= {v for b in graph.all_blocks() for v in b.results}
        if any(v in read for v in self.outputs_):
            fail(RuntimeError, "jit.graph", "a node whose results nobody reads was required", self.kind_,
                 hint="output.replaceAllUsesWith(other) first")  # fmt: skip
        self.block.nodes_.remove(self)

    def removeInput(self, i: int) -> None:
        """Read one value less."""
        del self.inputs_[i]

    def removeAllInputs(self) -> None:
        """Read nothing."""
        self.inputs_ = []

    def addInput(self, value: object) -> Any:
        """Read one value more."""
        self.inputs_.append(value)
        return value

    def replaceInput(self, i: int, value: Any) -> Any:
        """Read another value in a place; gives the one before."""
        before, self.inputs_[i] = self.inputs_[i], value
        return before

    def replaceInputWith(self, old: Any, new: Any) -> None:
        """Read another value wherever one is read."""
        self.inputs_ = [new if v is old else v for v in self.inputs_]

    def eraseOutput(self, i: int) -> None:
        """Give one value less."""
        del self.outputs_[i]

    def insertBefore(self, node: Any) -> Any:
        """Stand before another node."""
        return _placed(self, node.block, node.block.nodes_.index(node))

    def insertAfter(self, node: Any) -> Any:
        """Stand behind another node."""
        return _placed(self, node.block, node.block.nodes_.index(node) + 1)

    def moveBefore(self, node: object) -> None:
        """Stand before another node, and no more where it stood."""
        self.block.nodes_.remove(self)
        self.insertBefore(node)

    def moveAfter(self, node: object) -> None:
        """Stand behind another node, and no more where it stood."""
        self.block.nodes_.remove(self)
        self.insertAfter(node)

    def owningBlock(self) -> Any:
        """The block in which the node stands."""
        return self.block

    def schema(self) -> str:
        """The signature that the node's operator was chosen by."""
        return str(self.signature) if self.signature is not None else "(no schema)"

    def matches(self, schema: str) -> bool:
        """Whether the node calls the operator of a schema with arguments of its types."""
        if schema == self.schema():
            return True
        # lazily: signatures know types only, and are above the graph
        from facula.jit.signatures import declared

        name, types = declared(schema)
        have = [v.type for v in self.inputs_]
        if name.partition(".")[0] != self.kind_ or len(types) > len(have):
            return False
        fits = [_stands_for(h, t) for h, t in zip(have, types, strict=False)]
        return all(fits)

    def hasUses(self) -> bool:
        """Whether somebody reads what the node gives."""
        return any(v.uses() for v in self.outputs_)

    def copyAttributes(self, other: Any) -> Any:
        """Have the attributes of another node."""
        self.attributes = dict(other.attributes)
        return self

    def s_(self, name: str, value: Any) -> Any:
        """Set an attribute."""
        self.attributes[name] = value
        return self

    i_ = f_ = t_ = ival_ = s_

    def removeAttribute(self, name: str) -> Any:
        """Forget an attribute."""
        del self.attributes[name]
        return self


def _stands_for(have: Any, wanted: Any) -> bool:
    number = ("int", "float", "complex", "Scalar", "bool")
    return have == wanted or wanted.kind in ("Any", "Scalar") and have.kind in number or (
        wanted.kind == "Optional" and (have.kind == "NoneType" or _stands_for(have, wanted.item))
    )  # fmt: skip


def _placed(node: Any, block: Any, at: int) -> Any:
    block.nodes_.insert(at, node)
    node.block = block
    return node


class BlockEdits:
    """What can be asked of a block and done to it."""

    graph: Any
    owner: Any
    nodes_: list[Any]
    results: list[Any]
    parameters: list[Any]

    def all_blocks(self) -> Iterator[Any]:
        """The block and all blocks inside."""
        yield self
        for node in self.nodes_:
            for inner in node.blocks_:
                yield from inner.all_blocks()

    def returnNode(self) -> Any:
        """A node that reads what the block gives."""
        made = self.graph.create("prim::Return", self.results, 0)
        made.block = self
        return made

    return_node = returnNode

    def registerOutput(self, value: object) -> int:
        """Give one value more; its place."""
        self.results.append(value)
        return len(self.results) - 1

    def eraseOutput(self, i: int) -> None:
        """Give one value less."""
        del self.results[i]

    def replaceOutput(self, i: int, value: Any) -> None:
        """Give another value in a place."""
        self.results[i] = value

    def eraseInput(self, i: int) -> None:
        """Take one value less."""
        del self.parameters[i]

    def owningNode(self) -> Any:
        """The node inside of which the block is."""
        return self.owner


class GraphEdits(BlockEdits):
    """What can be done to a graph."""

    source: Any

    #: where new nodes go: a block, and the node that they stand before
    _point: tuple[Any, Any] | None = None

    def create(self, kind: str, inputs: Sequence[Any] | int = (), count: int = 1) -> Any:
        """A new node that stands nowhere yet."""
        given, count = ([], inputs) if isinstance(inputs, int) else (list(inputs), count)
        if any(value is None for value in given):
            fail(ValueError, "jit.graph", "values as inputs of a node were required", "None",
                 hint="graph.insertConstant(None) gives a value that is None")  # fmt: skip
        return type(self.source)(self, kind, given, [T.TENSOR] * count)

    def createClone(self, node: Any, fn: Callable[[Any], Any], copy_blocks: bool = True) -> Any:
        """A copy of a node of any graph, which stands nowhere yet.

        Args:
            node: the node
            fn: from a value that the node, or what is inside, reads to the one that the copy reads
            copy_blocks: whether what is inside is copied
        """
        made = copied_node(node, self, _Mapped(fn))
        if not copy_blocks:
            made.blocks_ = []
        return made

    def insertNode(self, node: object) -> Any:
        """Put a node to where new nodes go."""
        block, before = self._point or (self, None)
        at = len(block.nodes_) if before is None else block.nodes_.index(before)
        return _placed(node, block, at)

    appendNode = insertNode

    def prependNode(self, node: object) -> Any:
        """Put a node before all others."""
        return _placed(node, self, 0)

    def setInsertPoint(self, place: Any) -> None:
        """New nodes go before a node, or to the end of a block."""
        is_block = hasattr(place, "nodes_")
        self._point = (place, None) if is_block else (place.block, place)

    def insertPoint(self) -> Any:
        """The node before which new ones go, or the block to whose end they go."""
        block, before = self._point or (self, None)
        return before or block

    @contextlib.contextmanager
    def insert_point_guard(self, place: object) -> Iterator[None]:
        """In here, new nodes go before a node, or to the end of a block."""
        outer = self._point
        self.setInsertPoint(place)
        try:
            yield
        finally:
            self._point = outer

    def insertConstant(self, value: Any) -> Any:
        """A constant where new nodes go."""
        made = self.create("prim::Constant", [], 1)
        made.attributes["value"] = value
        made.outputs_[0].type = CONSTANT_TYPE[0](value)
        return self.insertNode(made).outputs_[0]

    def insertGraph(self, other: Any, inputs: Sequence[Any]) -> list[Any]:
        """The nodes of another graph, which reads these values, where new nodes go; what it gives."""
        values = dict(zip(other.parameters, inputs, strict=True))
        for node in other.nodes_:
            self.insertNode(copied_node(node, self, values))
        return [values[v] for v in other.results]

    def addInput(self, name: str = "") -> Any:
        """Take one tensor more."""
        return self.add_parameter(T.TENSOR, name)  # type: ignore[attr-defined]

    def permuteInputs(self, order: Sequence[int]) -> None:
        """Take the values in another order."""
        if sorted(order) != list(range(len(self.parameters))):
            fail(RuntimeError, "jit.graph", f"each of 0 to {len(self.parameters) - 1} once was required",
                 list(order), hint="an order of all inputs")  # fmt: skip
        self.parameters = [self.parameters[i] for i in order]

    def copy(self) -> Any:
        """Another graph that says the same."""
        made = type(self)()
        values: dict[Any, Any] = {}
        for p in self.parameters:
            values[p] = made.add_parameter(p.type, p.hint)  # type: ignore[attr-defined]
        made.nodes_ = [copied_node(node, made, values) for node in self.nodes_]
        made.results = [values[v] for v in self.results]
        return made


class _Mapped(dict[Any, Any]):
    """Values by what they stand for: what is not held, a function gives."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        super().__init__()
        self.fn = fn

    def get(self, key: Any, default: Any = None) -> Any:
        """What stands for a value."""
        return self[key] if key in self else self.fn(key)


def copied_node(node: Any, block: object, values: dict[Any, Any]) -> Any:
    """A copy of a node with what is inside, for a block; ``values`` says what stands for what it reads."""
    inputs = [values.get(v, v) for v in node.inputs_]
    types = [v.type for v in node.outputs_]
    made = type(node)(block, node.kind_, inputs, types, dict(node.attributes), node.place, node.run)
    made.signature = node.signature
    for old, new in zip(node.outputs_, made.outputs_, strict=True):
        new.hint = old.hint
        values[old] = new
    for inner in node.blocks_:
        own = made.add_block()
        for p in inner.parameters:
            values[p] = own.add_parameter(p.type, p.hint)
        own.nodes_ = [copied_node(each, own, values) for each in inner.nodes_]
        own.results = [values.get(v, v) for v in inner.results]
    return made
