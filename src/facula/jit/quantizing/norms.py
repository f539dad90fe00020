"""Normalisations behind convolutions become part of the convolutions' parameters, in trees of scripted modules.

Takes: a scripted module in evaluation mode. Gives: another one, without the calls of those norms. Keeps true: a norm is
folded only where a module's convolution is read by it alone, and both stand in one graph; the given module stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.jit.ir import Graph, Node, Value
from facula.jit.node_operators import resolved
from facula.jit.passes.inlining import _drop_unused
from facula.jit.quantizing import roles
from facula.jit.quantizing.flat import Flat
from facula.jit.quantizing.trees import Change, compiled_units, rebuilt
from facula.nn import Parameter
from facula.nn.utils.fusion import fuse_conv_bn_weights
from facula.ops.table.registry import F
from facula.ops.table.schemas import types as T

__all__ = ["folded"]


class _Pair:
    """A convolution's node and that of the norm behind it, in a flat graph."""

    def __init__(self, flat: Flat, layer: Node, norm: Node) -> None:
        self.flat, self.layer, self.norm = flat, layer, norm
        self.given = flat.origins[layer.outputs_[0]]
        self.result = flat.origins[norm.outputs_[0]]
        self.places = roles.arguments(layer)
        self.weight = flat.attribute(self.places["weight"])

    def fits(self) -> bool:
        """Whether both stand in one graph, and all numbers are attributes."""
        together = self.given.unit is self.result.unit and self.given.owner is self.result.owner
        mean = self.flat.attribute(roles.arguments(self.norm)["running_mean"])
        together = together and mean is not None and not mean[0].training and self._reaches_bias()
        return together and self.weight is not None and self._numbers() is not None

    def _reaches_bias(self) -> bool:
        """Whether the convolution can read the bias that its module gets."""
        if self.weight is None:
            return False
        owner, unit = self.weight[0], self.flat.units[self.layer]
        value = self.places.get("bias")
        place = None if value is None else self.flat.attribute(value)
        if place is not None and (place[0] is not owner or place[1] != "bias"):
            return False
        plain = place is not None or getattr(owner, "bias", None) is None
        known = value is not None and (place is not None or value.type == T.NONE)
        own = unit in compiled_units(owner._script_type).values()
        return known and plain and (own or unit is self.result.unit)

    def _numbers(self) -> Any:
        """Weight and bias of the norm, means, variances and epsilon."""
        found = []
        names = roles.arguments(self.norm)
        for name in ("weight", "bias", "running_mean", "running_var", "eps"):
            value = names.get(name)
            place = None if value is None else self.flat.attribute(value)
            if place is not None:
                found.append(getattr(place[0], place[1]))
            elif value is not None and value.node.kind_ == "prim::Constant":
                found.append(value.node.attributes.get("value"))
            else:
                return None
        return found if found[2] is not None and found[3] is not None else None

    def parameters(self) -> tuple[Any, Any]:
        """The convolution's parameters with the norm in them."""
        owner, name = self.weight  # type: ignore[misc]
        weight, bias = getattr(owner, name), getattr(owner, "bias", None)
        scale, shift, mean, variance, eps = self._numbers()
        turned = "transpose" in roles.name_of(self.layer)
        scale = F.ones_like(mean) if scale is None else scale
        shift = F.zeros_like(mean) if shift is None else shift
        made = fuse_conv_bn_weights(weight, bias, mean, variance, eps, scale, shift, turned)
        return Parameter(made[0].detach()), Parameter(made[1].detach())


def _pairs(module: object) -> list[_Pair]:
    flat = Flat(module)
    uses: dict[Value, list[Node]] = {}
    for node in flat.graph.all_nodes():
        for value in node.inputs_:
            uses.setdefault(value, []).append(node)
    given = {v for b in flat.graph.all_blocks() for v in b.results}
    found, weights = [], []
    for node in flat.graph.all_nodes():
        if roles.role(node) != "layer":
            continue
        place = flat.attribute(roles.arguments(node)["weight"])
        weights.append(None if place is None else (id(place[0]), place[1]))
        readers = [n for n in uses.get(node.outputs_[0], []) if n.kind_ not in roles.SIZES]
        single = len(readers) == 1 and node.outputs_[0] not in given
        if single and "conv" in roles.name_of(node) and roles.name_of(readers[0]) == "batch_norm":
            pair = _Pair(flat, node, readers[0])
            if pair.fits():
                found.append((weights[-1], pair))
    return [pair for place, pair in found if weights.count(place) == 1]


def _without(pairs: list[_Pair]) -> Callable[[Any, Graph, dict[Value, Value]], None]:
    """Takes the calls of norms out of a graph."""

    def change(unit: object, graph: Graph, values: dict[Value, Value]) -> None:
        for pair in pairs:
            if pair.result.unit is unit:
                result = values[pair.result.value]
                result.replaceAllUsesWith(values[pair.given.value])
                result.node.destroy()
        _read_bias(graph)
        _drop_unused(graph)

    return change


def _read_bias(graph: Graph) -> None:
    """Convolutions read the bias of their module where they read that there is none."""
    for node in list(graph.all_nodes()):
        names = roles.arguments(node) if roles.role(node) == "layer" else {}
        weight, bias = names.get("weight"), names.get("bias")
        if weight is None or bias is None or bias.type != T.NONE:
            continue
        owner = weight.node.inputs_[0] if weight.node.kind_ == "prim::GetAttr" else None
        kind = None if owner is None else owner.type
        if (
            owner is None
            or not isinstance(kind, T.ClassType)
            or kind.attributes.get("bias") != T.TENSOR
        ):
            continue
        get = Node(node.block, "prim::GetAttr", [owner], [T.TENSOR], {"name": "bias"})
        get.outputs_[0].hint = "bias"
        get.insertBefore(node)
        at = list(names).index("bias")
        node.inputs_[at] = get.outputs_[0]
        node.signature = node.run = None
        resolved(node)


def _with_bias(unit: object, graph: Graph, values: dict[Value, Value]) -> None:
    _read_bias(graph)


def folded(module: object) -> Any:
    """A module without the norms behind its convolutions.

    Args:
        module: the scripted module
    """
    pairs = _pairs(module)
    changes: dict[int, Change] = {}
    calls: dict[int, list[_Pair]] = {}
    for pair in pairs:
        calls.setdefault(id(pair.result.owner), []).append(pair)
        changes[id(pair.weight[0])] = _layer(pair)  # type: ignore[index]
    for key, own in calls.items():
        changes[key] = _joined(changes.get(key), _caller(own))
    return rebuilt(module, changes)


def _caller(pairs: list[_Pair]) -> Change:
    key = tuple((id(p.result.unit), id(p.result.value)) for p in pairs)
    return Change(("norms", key), _without(pairs))


def _layer(pair: _Pair) -> Change:
    weight, bias = pair.parameters()
    name = pair.weight[1]  # type: ignore[index]

    def module(made: Any) -> None:
        made.__dict__.pop("bias", None)  # None is an attribute of modules from files
        made._parameters.update({name: weight, "bias": bias})

    def kind(made: T.ClassType) -> None:
        made.attributes["bias"] = T.TENSOR
        if "bias" not in made.parameters:
            made.parameters.append("bias")

    return Change(("bias",), _with_bias, module, kind)


def _joined(first: Change | None, second: Change) -> Change:
    """Two changes of one module, one after the other."""
    if first is None:
        return second
    one, two = first, second

    def graph(unit: object, graph: Graph, values: dict[Value, Value]) -> None:
        for each in (one, two):
            if each.graph is not None:
                each.graph(unit, graph, values)

    return Change((one.key, two.key), graph, one.module, one.kind)
