"""Quantizations go over from what an operator reads to what it gives.

Takes: a flat graph with `dequantize`. Gives: the graph in which operators that move elements take integers, and results
with the input's parameters, or with parameters that are known, are quantized by these. Keeps true: what an operator
computes of numbers stays an operator on numbers between `dequantize` and `quantize_per_tensor`.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.node_operators import resolved
from facula.jit.passes.containers import list_idioms, lower_tuples
from facula.jit.quantizing import roles
from facula.jit.quantizing.converting import Builder
from facula.ops.table.schemas import types as T
from facula.ops.table.schemas.codes import code_of
from facula.quantization.rules import _OWN_RANGE, RULES

__all__ = ["integers_of", "spread"]


def integers_of(value: Value) -> Value | None:
    """The integers that a value is made of; None of other numbers."""
    node = value.node
    if node.kind_ != "aten::dequantize" or not roles.is_tensor(value):
        return None
    source = node.inputs_[0].node
    if source.kind_.startswith("aten::quantize_per_tensor"):
        scale = source.inputs_[1].node
        if scale.kind_ == "aten::_choose_qparams_per_tensor":
            return None
    return node.inputs_[0]


def moves(definition: Any) -> bool:
    """Whether an operator gives elements of its input, so that it can run on the integers."""
    if definition is None:
        return True
    name = definition.name
    return definition.kind == "view" or definition.quantized == "moves" or name in RULES or (
        definition.kind == "composite" and not definition.quantized)  # fmt: skip


class _Spreading:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        #: lists of integers
        self.lists: set[Value] = set()
        #: what stands at a block's end while nodes are put there
        self.end: Node | None = None
        self.block(graph)

    def block(self, block: Block) -> None:
        for node in list(block.nodes_):
            for inner in node.blocks_:
                self.block(inner)
            if node.kind_ == "prim::If":
                self._if(node)
            else:
                self._node(node)

    def _if(self, node: Node) -> None:
        """Where both sides give numbers of integers, the branch gives the integers."""
        behind = node.block.nodes_.index(node) + 1
        for i, out in enumerate(node.outputs_):
            found = [integers_of(b.results[i]) for b in node.blocks_]
            if not roles.is_tensor(out) or any(f is None for f in found):
                continue
            for inner, integers in zip(node.blocks_, found, strict=True):
                assert integers is not None
                inner.results[i] = integers
            made = Node(node.block, "aten::dequantize", [out], [T.TENSOR], {}, node.place)
            out.replaceAllUsesWith(made.outputs_[0])
            made.inputs_ = [out]
            resolved(made)
            node.block.nodes_.insert(behind, made)

    def _node(self, node: Node) -> None:
        if node.kind_ == "prim::ListUnpack":
            self._unpacked(node)
            return
        if node.kind_.endswith("_") and not self._forgotten(node):
            return
        kind = roles.role(node)
        read = roles.tensors(node)
        if kind not in ("shared", "fixed", "arithmetic") or len(read) != 1 or not node.outputs_:
            return
        integers = integers_of(read[0])
        if integers is not None and read[0] not in node.inputs_ and kind == "shared":
            self._list(node, integers)
        if integers is None or read[0] not in node.inputs_:
            return
        if self._quantized_next(node) and kind != "arithmetic":
            return
        definition = roles.definition_of(node)
        if kind == "arithmetic":
            self._with_number(node, read[0], integers)
        elif kind == "shared" and moves(definition):
            self._swap(node, read[0], integers)
        elif roles.is_tensor(node.outputs_[0]):
            self._again(node, integers, definition.quantized if kind == "fixed" else "")

    def _unpacked(self, node: Node) -> None:
        """The items of a list: those that it was made of, or the numbers of its integers."""
        made = node.inputs_[0].node
        alone = len(node.inputs_[0].uses()) == 1
        if node.inputs_[0] in self.lists:
            for out in node.outputs_:
                self._numbers_behind(node, out)
        elif (
            made.kind_ == "prim::ListConstruct"
            and alone
            and len(made.inputs_) == len(node.outputs_)
        ):
            for out, item in zip(node.outputs_, made.inputs_, strict=True):
                out.replaceAllUsesWith(item)
            node.destroy()

    def _forgotten(self, node: Node) -> bool:
        """Whether nobody but the node itself sees what it writes; of views, those behind it see the result."""
        number = node.inputs_[0]
        definition = roles.definition_of(node)
        if definition is not None and definition.kind == "view" and integers_of(number) is not None:
            node.kind_ = f"aten::{roles.name_of(node)}"
            node.signature = node.run = None
            number.replaceAllUsesAfterNodeWith(node, node.outputs_[0])
            resolved(node)
            return True
        nodes = node.block.nodes_
        readers = [use.user for use in number.uses()]
        inside = all(r.block is node.block and r in nodes for r in readers)
        return inside and all(nodes.index(r) <= nodes.index(node) for r in readers)

    def _list(self, node: Node, integers: Value) -> None:
        """An operator on a list of one tensor takes the list of its integers."""
        given = next(v for v in node.inputs_ if v.type == T.list_of(T.TENSOR))
        make = Builder(node)
        listed = make.put("prim::ListConstruct", [integers], [given.type]).outputs_[0]
        node.inputs_ = [listed if v is given else v for v in node.inputs_]
        self._numbers_behind(node, node.outputs_[0])

    def _quantized_next(self, node: Node) -> bool:
        uses = node.outputs_[0].uses()
        return len(uses) == 1 and uses[0].user.kind_.startswith("aten::quantize_per_tensor")

    def _behind(self, node: Node) -> Builder:
        nodes = node.block.nodes_
        at = nodes.index(node) + 1
        if at == len(nodes):
            end = Node(node.block, "prim::Return", [], [])
            nodes.append(end)
            self.end = end
        return Builder(nodes[at])

    def _done(self, node: Node) -> None:
        if self.end is not None:
            node.block.nodes_.remove(self.end)
            self.end = None

    def _swap(self, node: Node, number: Value, integers: Value) -> None:
        """The operator on the integers, and their numbers behind it."""
        out = node.outputs_[0]
        if not roles.is_tensor(out):
            unpacked = all(use.user.kind_ == "prim::ListUnpack" for use in out.uses())
            if out.type != T.list_of(T.TENSOR) or not unpacked:
                return
            self.lists.add(out)
        node.inputs_ = [integers if v is number else v for v in node.inputs_]
        if roles.is_tensor(out):
            self._numbers_behind(node, out)

    def _numbers_behind(self, node: Node, out: Value) -> None:
        """Whoever reads what a node gives reads its numbers."""
        make = self._behind(node)
        made = make.put("aten::dequantize", [], [T.TENSOR])
        out.replaceAllUsesWith(made.outputs_[0])
        made.inputs_ = [out]
        resolved(made)
        self._done(node)

    def _again(self, node: Node, integers: Value, interval: str) -> None:
        """The operator on numbers, whose results are quantized."""
        out = node.outputs_[0]
        make = self._behind(node)
        anchor = make.put("prim::Return", [], [])
        make.before = anchor
        if interval:
            scale, zero = _OWN_RANGE[interval][core.quint8]
            given = [make.constant(scale, T.FLOAT), make.constant(zero, T.INT)]
            given.append(make.constant(code_of(core.quint8), T.INT))
        else:
            given = [
                make.call("aten::q_scale", integers, types=[T.FLOAT]),
                make.call("aten::q_zero_point", integers, types=[T.INT]),
                make.call("prim::dtype", integers, types=[T.INT]),
            ]
        quantized = make.put("aten::quantize_per_tensor", [], [T.TENSOR])
        number = make.call("aten::dequantize", quantized.outputs_[0])
        out.replaceAllUsesWith(number)
        quantized.inputs_ = [out, *given]
        resolved(quantized)
        anchor.block.nodes_.remove(anchor)
        self._done(node)

    def _with_number(self, node: Node, number: Value, integers: Value) -> None:
        """A sum or product with a number: the integers' own."""
        at = node.inputs_.index(number)
        other = node.inputs_[1 - at] if len(node.inputs_) > 1 else None
        name = roles.name_of(node)
        operator = roles.form(f"{name}_scalar")
        if other is None or roles.is_tensor(other) or operator is None or len(node.inputs_) > 2 and (
                node.inputs_[2].node.attributes.get("value") not in (1, None)):  # fmt: skip
            return
        uses = node.outputs_[0].uses()
        relu = uses[0].user if len(uses) == 1 and roles.name_of(uses[0].user) == "relu" else None
        last = node if relu is None or relu.block is not node.block else relu
        rest = "" if last is node else "_relu"
        make = Builder(last)
        quantized = make.call(f"quantized::{name}_scalar{rest}", integers, other)
        made = make.call("aten::dequantize", quantized)
        last.outputs_[0].replaceAllUsesWith(made)
        last.destroy()
        if last is not node:
            node.destroy()


def spread(graph: Graph) -> None:
    """Let operators take integers where they can.

    Args:
        graph: the flat graph
    """
    lower_tuples(graph)
    list_idioms(graph)
    _Spreading(graph)
