"""Constant propagation: what is computed from constants alone becomes a constant; branches on constants are taken.

Takes a graph. Gives it with the constants in it.
Keeps true: a node that raises stays; what draws, has effects, or is written to is never computed beforehand.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.node_operators import function_of
from facula.jit.passes.aliases import Aliases
from facula.jit.passes.cleaning import _keep, dce, key_of
from facula.jit.passes.effects import calls, draws, has_effects, is_mutable

__all__ = ["propagate_constants", "splice"]

_NEVER = ("prim::Constant", "prim::Uninitialized", "prim::If", "prim::Loop", "prim::GetAttr", "prim::Param",
          "prim::TupleUnpack", "prim::ListUnpack", "prim::unchecked_cast", "prim::isinstance",
          # weights stay integers until they are read
          "aten::dequantize", "aten::_saturate_weight_to_fp16")  # fmt: skip


def propagate_constants(graph: Graph, only_immutable: bool = False) -> bool:
    """Computes what constants give; whether anything changed."""
    aliases = None if only_immutable else Aliases(graph)
    work = _Propagation(graph, aliases)
    work.block(graph)
    dce(graph)
    return work.changed


def constant(value: Value) -> tuple[bool, Any]:
    """Whether a value is a constant, and which."""
    node = value.node
    return node.kind_ == "prim::Constant", node.attributes.get("value")


class _Propagation:
    def __init__(self, graph: Graph, aliases: Aliases | None) -> None:
        self.graph, self.aliases, self.changed = graph, aliases, False

    def block(self, block: Block) -> None:
        for node in list(block.nodes_):
            if node not in block.nodes_:
                continue
            if node.kind_ == "prim::If":
                self._if(node)
            elif node.kind_ == "prim::Loop":
                self._loop(node)
            elif node.kind_ in ("prim::TupleUnpack", "prim::unchecked_cast"):
                self._from_parts(node)
            else:
                for inner in node.blocks_:
                    self.block(inner)
                if self._can(node):
                    self._compute(node)

    def _can(self, node: Node) -> bool:
        if node.kind_ in _NEVER or node.kind_ in calls or node.blocks_ or not node.outputs_:
            return False
        if has_effects(node) or draws(node) or not all(constant(v)[0] for v in node.inputs_):
            return False
        if node.kind_.startswith(
            ("prim::profile", "prim::await", "aten::is_grad", "aten::get_default")
        ):
            return False
        mutable = [v for v in (*node.inputs_, *node.outputs_) if is_mutable(v.type)]
        if self.aliases is None:
            return not mutable
        return node not in self.aliases.writes and not any(
            self.aliases.has_writers(v, deep=True) for v in mutable
        )

    def _compute(self, node: Node) -> None:
        function = function_of(node)
        if function is None:
            return
        before = core.set_grad_enabled(False)
        try:
            made = function(*[constant(v)[1] for v in node.inputs_])
        except Exception:  # it stays, and raises when it runs
            return
        finally:
            core.set_grad_enabled(before)
        results = [made] if len(node.outputs_) == 1 else list(made)
        if not all(_is_plain(v) for v in results):
            return
        for out, value in zip(node.outputs_, results, strict=True):
            self._becomes(node, out, value)

    def _becomes(self, node: Node, out: Value, value: Any) -> None:
        made = Node(node.block, "prim::Constant", [], [out.type], {"value": value}, node.place)
        made.insertBefore(node)
        out.replaceAllUsesWith(made.outputs_[0])
        self.changed = True

    def _from_parts(self, node: Node) -> None:
        known, value = constant(node.inputs_[0])
        if not known:
            return
        if node.kind_ == "prim::unchecked_cast":
            if not is_mutable(node.outputs_[0].type):
                self._becomes(node, node.outputs_[0], value)
            return
        for out, item in zip(node.outputs_, value, strict=True):
            if not is_mutable(out.type):
                self._becomes(node, out, item)

    # ---- control
    def _if(self, node: Node) -> None:
        known, value = constant(node.inputs_[0])
        if known:
            side = node.blocks_[0 if value else 1]
            self.block(side)
            splice(node, side)
            self.changed = True
            return
        for inner in node.blocks_:
            self.block(inner)
        self._same_results(node)

    def _same_results(self, node: Node) -> None:
        """A result that both sides give alike needs no branch."""
        yes, no = node.blocks_
        kept = []
        for out, a, b in zip(list(node.outputs_), yes.results, no.results, strict=True):
            same = a is b
            if not same and constant(a)[0] and constant(b)[0] and not is_mutable(a.type):
                same = a.type == b.type and key_of(constant(a)[1]) == key_of(constant(b)[1])
                if same:
                    self._becomes(node, out, constant(a)[1])
                    kept.append(False)
                    continue
            if same and made_outside(a, node):
                out.replaceAllUsesWith(a)
                self.changed = True
            kept.append(not (same and made_outside(a, node)))
        _keep(node, kept)

    def _loop(self, node: Node) -> None:
        count, going = constant(node.inputs_[0]), constant(node.inputs_[1])
        if count[0] and count[1] <= 0 or going[0] and not going[1]:
            for out, first in zip(node.outputs_, node.inputs_[2:], strict=True):
                out.replaceAllUsesWith(first)
            node.destroy()
            self.changed = True
            return
        body = node.blocks_[0]
        kept = []
        for i, parameter in enumerate(body.parameters[1:]):
            first, last = node.inputs_[i + 2], body.results[i + 1]
            same = last is parameter or last is first
            if same:  # it is never changed
                parameter.replaceAllUsesWith(first)
                node.outputs_[i].replaceAllUsesWith(first)
                body.results[i + 1] = first
                self.changed = True
            kept.append(not same)
        _keep(node, kept)
        self.block(body)


def made_outside(value: Value, node: Node) -> bool:
    """Whether a value is made outside of a node's blocks."""
    block: Any = value.node.block
    while block is not None and block.owner is not None:
        if block.owner is node:
            return False
        block = block.owner.block
    return True


def splice(node: Node, block: Block) -> None:
    """What a block inside of a node does comes in the node's place."""
    at = node.block.nodes_.index(node)
    for each in block.nodes_:
        each.block = node.block
    node.block.nodes_[at:at] = block.nodes_
    block.nodes_ = []
    for out, value in zip(node.outputs_, block.results, strict=True):
        out.replaceAllUsesWith(value)
        if out.hint and not value.hint:
            value.hint = out.hint
    node.block.nodes_.remove(node)


def _is_plain(value: Any) -> bool:
    """Whether a value may stand in a constant."""
    if isinstance(value, (list, tuple)):
        return not hasattr(value, "_fields") and all(map(_is_plain, value))
    if isinstance(value, core.Tensor):
        plain = type(value) is core.Tensor or value.is_quantized
        return plain and not value.requires_grad
    return value is None or isinstance(value, (bool, int, float, complex, str, core.device))
