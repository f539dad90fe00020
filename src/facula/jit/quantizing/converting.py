"""Observers of scripted modules become quantizations of the values that they looked at.

Takes: a module that calls observers, after they have seen numbers. Gives: one whose graph has `quantize_per_tensor` (or
`_per_channel`) and `dequantize` in the observers' places. Keeps true: scales and zero points are attributes of the
modules that had the observers; the numbers of a graph in floats are those of the graph of integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.jit.ir import Graph, Node, Value
from facula.jit.node_operators import resolved
from facula.jit.quantizing.observers import is_observer
from facula.jit.quantizing.trees import Change, children_of, rebuilt
from facula.ops.table.schemas import types as T
from facula.ops.table.schemas.codes import code_of
from facula.quantization.create import reduced
from facula.quantization.tensor import PER_CHANNEL, per_channel_symmetric

__all__ = ["Builder", "converted"]


class Builder:
    """Nodes that are put in front of another one."""

    def __init__(self, before: Node) -> None:
        self.before = before

    def put(self, kind: str, inputs: list[Any], types: list[T.Type], **attributes: object) -> Node:
        """A node of any kind."""
        made = Node(self.before.block, kind, inputs, types, attributes, self.before.place)
        return made.insertBefore(self.before)

    def constant(self, value: object, kind: T.Type) -> Value:
        """A constant."""
        return self.put("prim::Constant", [], [kind], value=value).outputs_[0]

    def attribute(self, owner: Value, name: str, kind: T.Type) -> Value:
        """An attribute of a module."""
        made = self.put("prim::GetAttr", [owner], [kind], name=name).outputs_[0]
        made.hint = name
        return made

    def call(self, kind: str, *inputs: Value, types: list[T.Type] | None = None) -> Value:
        """The result of an operator."""
        made = self.put(kind, list(inputs), types or [T.TENSOR])
        resolved(made)
        return made.outputs_[0]


class _Site:
    """One observer: the values it stands for, and what they become."""

    def __init__(self, name: str, base: str, observer: Any, weight: bool, dynamic: bool) -> None:
        self.name, self.base, self.weight = name, base, weight
        self.dtype, self.scheme = observer.dtype, getattr(observer, "qscheme", None)
        self.custom = str(getattr(observer, "custom_op", "") or "")
        self.by_call = dynamic and not weight
        self.half = observer.dtype is core.float16
        self.channels = self.scheme in (*PER_CHANNEL, per_channel_symmetric)
        self.axis = getattr(observer, "ch_axis", 0)

    def plain(self) -> bool:
        """Whether the value stays what it is."""
        return not self.table() and self.dtype is core.float32

    def table(self) -> bool:
        """Whether the value is a table that is packed by an operator of its own."""
        return self.weight and bool(self.custom)

    def names(self) -> dict[str, T.Type]:
        """The attributes that the module gets, with their types."""
        if self.plain() or self.table() or self.half or self.by_call:
            return {}
        if self.channels:
            kinds: tuple[T.Type, ...] = (T.TENSOR, T.TENSOR)
        else:
            kinds = (T.FLOAT, T.INT)
        return dict(zip((f"{self.base}_scale_0", f"{self.base}_zero_point_0"), kinds, strict=True))

    def values(self, observer: Any) -> list[Any]:
        """What the attributes are."""
        scale, zero = observer.calculate_qparams()
        if self.channels:
            return [scale.detach().clone(), zero.detach().clone()]
        return [float(scale.item()), int(zero.item())]

    def build(self, make: Builder, owner: Value, value: Value) -> Value:
        """The value after quantization."""
        if self.table():
            return make.call(f"quantized::{self.custom}_prepack", value)
        dtype = make.constant(code_of(self.dtype), T.INT)
        if self.half:
            return make.call("aten::_saturate_weight_to_fp16", value)
        if self.by_call:
            reduce = make.constant(reduced(), T.BOOL)
            made = make.put("aten::_choose_qparams_per_tensor", [value, reduce], [T.FLOAT, T.INT])
            given = list(made.outputs_)
        else:
            given = [make.attribute(owner, n, k) for n, k in self.names().items()]
        if self.channels and not self.by_call:
            axis = make.constant(self.axis, T.INT)
            quantized = make.call("aten::quantize_per_channel", value, *given, axis, dtype)
        else:
            quantized = make.call("aten::quantize_per_tensor", value, *given, dtype)
        quantized.hint = f"{self.base}_quant" if self.base else ""
        return make.call("aten::dequantize", quantized)


def _sites(module: Any, weights: set[int], dynamic: bool) -> list[_Site]:
    """The observers of a module."""
    found = []
    for name, child in module._modules.items():
        if is_observer(child):
            base = _base(module, name)
            found.append(_Site(name, base, child._observer, id(child) in weights, dynamic))
    taken: dict[str, int] = {}
    for site in found:
        count = taken[site.base] = taken.get(site.base, 0) + 1
        site.base = site.base if count == 1 else f"{site.base}.{count}"
    return found


def _calls(graph: Graph) -> list[tuple[Node, str]]:
    """The calls of observers, and the names of these."""
    found = []
    for node in graph.all_nodes():
        first = node.inputs_[0] if node.kind_ == "prim::CallMethod" else None
        if first is not None and is_observer(first.type) and node.attributes["name"] == "forward":
            found.append((node, first.node.attributes["name"]))
    return found


def _base(module: Any, name: str) -> str:
    """The name of the value that an observer looks at."""
    for unit in module._script_type.methods.values():
        graph = getattr(unit, "_graph", None)
        for node, own in _calls(graph) if graph is not None else ():
            if own == name:
                return str(node.inputs_[1].hint or "value").replace(".", "_")
    return "value"


def _change(module: object, weights: set[int], dynamic: bool) -> Change:
    sites = {site.name: site for site in _sites(module, weights, dynamic)}

    def kind(made: T.ClassType) -> None:
        for name, site in sites.items():
            made.attributes.pop(name, None)
            made.attributes.update(site.names())

    def put(made: Any) -> None:
        for name, site in sites.items():
            observer = made._modules.pop(name)._observer
            if site.names():
                made.__dict__.update(dict(zip(site.names(), site.values(observer), strict=True)))

    key = tuple(tuple(vars(s).values()) for s in sites.values())
    return Change(key, _replacing(sites), put, kind)


def _replacing(sites: dict[str, _Site]) -> Callable[[Any, Graph, dict[Value, Value]], None]:
    def change(unit: object, graph: Graph, values: dict[Value, Value]) -> None:
        for node, name in _calls(graph):
            value, site = node.inputs_[1], sites[name]
            made = value if site.plain() else site.build(Builder(node), graph.parameters[0], value)
            node.outputs_[0].replaceAllUsesWith(made)
            get = node.inputs_[0].node
            node.destroy()
            if not get.hasUses():
                get.destroy()

    return change


def converted(module: object, weights: set[int], dynamic: bool) -> Any:
    """A module with quantizations where observers were.

    Args:
        module: the module that calls observers
        weights: the identities of the observers of weights
        dynamic: whether other values are quantized by their own ranges at each call
    """
    changes = {
        id(each): _change(each, weights, dynamic)
        for each in children_of(module).values()
        if any(map(is_observer, each._modules.values()))
    }
    return rebuilt(module, changes)
