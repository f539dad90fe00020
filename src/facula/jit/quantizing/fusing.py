"""Graphs of numbers between `dequantize` and `quantize_per_tensor` become graphs of integers.

Takes: a frozen module, whose weights, scales and zero points are constants. Gives: the module with operators of
integers and packed weights. Keeps true: which operator of integers does what an operator does follows from their names
and from the names of their arguments; what has none stays on numbers.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.jit.ir import Graph, Node, Value
from facula.jit.packed_types import type_of_object
from facula.jit.passes.cleaning import dce
from facula.jit.passes.constants import constant
from facula.jit.quantizing import roles
from facula.jit.quantizing.converting import Builder
from facula.jit.quantizing.spreading import integers_of
from facula.ops.table.schema import REQUIRED
from facula.ops.table.schemas import types as T

__all__ = ["fused"]


class _Fusing:
    def __init__(self, module: Any, graph: Graph) -> None:
        self.module, self.graph, self.count = module, graph, 0
        for node in list(graph.all_nodes()):
            if node.kind_ == "aten::quantize_per_tensor" and node.outputs_[0].uses():
                self._static(node)
        for node in list(graph.all_nodes()):
            if roles.name_of(node) == "linear":
                self._dynamic(node)
        self._shared()
        dce(graph)

    # ---- results that become integers
    def _static(self, node: Node) -> None:
        source = node.inputs_[0].node
        relu = None
        if source.kind_ in ("prim::Param", "prim::Constant") or len(node.inputs_[0].uses()) > 1:
            return
        if roles.name_of(source) == "relu" and integers_of(source.inputs_[0]) is None:
            if len(source.inputs_[0].uses()) > 1:
                return
            relu, source = source, source.inputs_[0].node
        kind = roles.role(source)
        if source.kind_.endswith("_") and len(source.inputs_[0].uses()) > 1:
            return  # others see what it writes
        if kind in ("shared", "fixed"):
            if relu is None:
                self._on_integers(source, node)
            return
        operator = roles.form(roles.name_of(source) + ("" if relu is None else "_relu"))
        if operator is None or not kind:
            return
        make = Builder(node)
        given = self._packed(source, make) if kind == "layer" else self._read(source, make)
        if given is None:
            return
        inputs = self._bound(operator, source, given, node, make)
        if inputs is None:
            return
        name = operator.definition.name
        made = make.put(name, inputs, [T.TENSOR])
        made.outputs_[0].hint = node.outputs_[0].hint
        roles.arguments(made)
        node.outputs_[0].replaceAllUsesWith(made.outputs_[0])
        node.destroy()

    def _read(self, source: Node, make: Builder) -> list[Value] | None:
        """The integers that a node reads: tensors, or the list of them."""
        first = source.inputs_[0]
        if first.type == T.list_of(T.TENSOR):
            if first.node.kind_ != "prim::ListConstruct":
                return None
            listed = [integers_of(v) for v in first.node.inputs_]
            if not listed or any(v is None for v in listed):
                return None
            return [make.put("prim::ListConstruct", listed, [first.type]).outputs_[0]]
        count = 2 if roles.role(source) == "arithmetic" else 1
        found = [integers_of(v) for v in source.inputs_[:count]]
        if count == 2 and len(source.inputs_) > 2 and constant(source.inputs_[2]) != (True, 1):
            return None
        return None if any(v is None for v in found) else found  # type: ignore[return-value]

    def _bound(
        self, operator: Any, source: Node, given: list[Value], node: Node, make: Builder
    ) -> Any:
        """The inputs of an operator of integers; None where something that it needs is not said."""
        names, rest, made = roles.arguments(source), list(given), []
        parameters = operator.definition.schema.parameters
        chosen = {
            "output_scale",
            "Y_scale_i",
            *(() if "output_scale" in [p.name for p in parameters] else ("scale",)),
        }
        for p in parameters:
            value = names.get(p.name, names.get(f"running_{p.name}"))
            if rest:
                made.append(rest.pop(0))
            elif p.name in chosen:
                made.append(node.inputs_[1])
            elif "zero_point" in p.name:
                made.append(node.inputs_[2])
            elif value is not None:
                made.append(value)
            else:
                return None if p.default is REQUIRED else made
        return made

    # ---- weights
    def _packed(self, source: Node, make: Builder, dtype: Any = core.qint8) -> list[Value] | None:
        """The integers that a layer reads, and its packed weight."""
        names = roles.arguments(source)
        given = integers_of(source.inputs_[0])
        packed = self._pack(source, names, dtype)
        if given is None or packed is None:
            return None
        return [given, self._kept(packed, make)]

    def _pack(self, source: Node, names: dict[str, Value], dtype: Any) -> Any:
        weight = integers_of(names["weight"])
        bias = constant(names["bias"]) if "bias" in names else (True, None)
        if weight is None or not constant(weight)[0] or not bias[0]:
            return None
        integers = constant(weight)[1]
        if integers is None or integers.dtype is not dtype:
            return None
        name = roles.name_of(source)
        pack = roles.form(f"{name}_prepack")
        given: list[Any] = [integers, bias[1]]
        for p in pack.definition.schema.parameters[2:]:
            known, value = constant(names[p.name]) if p.name in names else (False, None)
            if not known or isinstance(value, str):
                return None
            dims = int(name[-2])
            listed = p.type.startswith("int[") and isinstance(value, int)
            given.append([value] * dims if listed else value)
        return pack(*given)

    def _kept(self, packed: Any, make: Builder) -> Value:
        """A packed weight as an attribute of the module."""
        name = f"_packed_weight_{self.count}"
        self.count += 1
        kind = type_of_object(packed)
        assert kind is not None
        self.module._script_type.attributes[name] = kind
        self.module.__dict__[name] = packed
        return make.attribute(self.graph.parameters[0], name, kind)

    # ---- numbers that become integers on the way
    def _dynamic(self, node: Node) -> None:
        names = roles.arguments(node)
        weight, numbers = names["weight"], node.inputs_[0]
        uses = node.outputs_[0].uses()
        relu = uses[0].user if len(uses) == 1 and roles.name_of(uses[0].user) == "relu" else None
        make = Builder(node)
        rest = "" if relu is None else "_relu"
        if weight.node.kind_ == "aten::_saturate_weight_to_fp16" or self._is_half(weight):
            made = self._halves(node, names, make, rest)
        else:
            made = self._by_range(node, numbers, names, make, rest)
        if made is None:
            return
        last = node if relu is None else relu
        last.outputs_[0].replaceAllUsesWith(made)
        last.destroy()
        if relu is not None:
            node.destroy()

    def _is_half(self, weight: Value) -> bool:
        return bool(weight.node.attributes.get("half"))

    def _by_range(
        self, node: Node, numbers: Value, names: dict[str, Value], make: Builder, rest: str
    ) -> Any:
        source = numbers.node
        quantized = source.inputs_[0].node if source.kind_ == "aten::dequantize" else None
        chosen = (
            quantized.inputs_[1].node
            if quantized is not None and len(quantized.inputs_) == 4
            else None
        )
        if chosen is None or chosen.kind_ != "aten::_choose_qparams_per_tensor":
            return None
        packed = self._pack(node, names, core.qint8)
        if packed is None:
            return None
        kept = self._kept(packed, make)
        assert quantized is not None
        return make.call(
            f"quantized::linear{rest}_dynamic", quantized.inputs_[0], kept, chosen.inputs_[1]
        )

    def _halves(self, node: Node, names: dict[str, Value], make: Builder, rest: str) -> Any:
        source = names["weight"]
        source = source.node.inputs_[0] if source.node.inputs_ else source
        weight, bias = (
            constant(source),
            constant(names["bias"]) if "bias" in names else (True, None),
        )
        if not weight[0] or not bias[0]:
            return None
        packed = roles.form("linear_prepack_fp16")(weight[1], bias[1])
        kept = self._kept(packed, make)
        return make.call(f"quantized::linear{rest}_dynamic_fp16", node.inputs_[0], kept)

    # ---- results with the input's parameters
    def _on_integers(self, source: Node, node: Node) -> None:
        """What computes with the parameters of its input takes the integers."""
        found = {v: integers_of(v) for v in roles.tensors(source)}
        if len(found) != 1 or None in found.values():
            return
        source.inputs_ = [found.get(v, v) for v in source.inputs_]
        node.outputs_[0].replaceAllUsesWith(source.outputs_[0])
        node.destroy()

    def _shared(self) -> None:
        """Sizes are those of the integers, or of the numbers that became integers on the way."""
        for node in self.graph.all_nodes():
            if node.kind_ not in roles.SIZES:
                continue
            source = node.inputs_[0].node
            if source.kind_ == "aten::dequantize" and roles.is_tensor(source.outputs_[0]):
                integers = source.inputs_[0]
                by_call = integers_of(node.inputs_[0]) is None and integers.node.inputs_
                node.inputs_[0] = integers.node.inputs_[0] if by_call else integers


def fused(module: Any, graph: Graph) -> None:
    """Operators of integers for those between numbers of integers, in a frozen module.

    Args:
        module: the frozen module
        graph: that of its method
    """
    _Fusing(module, graph)
