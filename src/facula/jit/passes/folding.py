"""Normalisations, sums and products folded into the convolutions and linear layers before them.

Takes a frozen graph: weights are constants. Gives it with other constants and fewer nodes.
Keeps true: a weight is folded only if it is a constant that this layer alone reads, and the layer's result is read by
the next node alone; results differ by rounding only.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.jit.ir import Graph, Node, Value
from facula.jit.ir_editing import copied_node
from facula.jit.node_operators import resolved
from facula.jit.passes.cleaning import dce
from facula.jit.passes.constants import constant
from facula.ops.table.registry import F
from facula.ops.table.schemas import types as T

__all__ = ["concatenate_linear", "fold_add_or_sub", "fold_batch_norm", "fold_linear_batch_norm", "fold_mul_or_div",
           "optimize_frozen_graph", "remove_dropout"]  # fmt: skip

_CONVOLUTIONS = ("aten::conv1d", "aten::conv2d", "aten::conv3d")


def _argument(node: Node, name: str) -> Value | None:
    """The input of a node by its name."""
    names = [p.name for p in node.signature.parameters] if node.signature is not None else []
    return node.inputs_[names.index(name)] if name in names else None


def _value(node: Node, name: str) -> tuple[bool, Any]:
    found = _argument(node, name)
    return (False, None) if found is None else constant(found)


def _replace(node: Node, name: str, value: core.Tensor) -> None:
    old = _argument(node, name)
    assert old is not None
    names = [p.name for p in node.signature.parameters]
    made = Node(node.block, "prim::Constant", [], [T.TENSOR], {"value": value}, node.place)
    made.insertBefore(node)
    node.inputs_[names.index(name)] = made.outputs_[0]


def _layers(
    graph: Graph, kinds: tuple[str, ...], after: tuple[str, ...]
) -> list[tuple[Node, Node]]:
    """Layers of constant weights whose result one node alone reads, and that node."""
    found = []
    for node in graph.all_nodes():
        if node.kind_ not in kinds or not node.outputs_:
            continue
        uses = node.outputs_[0].uses()
        if len(uses) == 1 and uses[0].user.kind_ in after and uses[0].user.block is node.block:
            known = _value(node, "weight"), _value(node, "bias")
            if known[0][0] and known[1][0] and isinstance(known[0][1], core.Tensor):
                found.append((node, uses[0].user))
    return found


def fold_batch_norm(graph: Graph) -> bool:
    """A batch normalisation becomes part of the convolution before it; whether there was one."""
    return _fold_normalized(graph, _CONVOLUTIONS)


def fold_linear_batch_norm(graph: Graph) -> bool:
    """A batch normalisation becomes part of the linear layer before it; whether there was one."""
    return _fold_normalized(graph, ("aten::linear",))


_NORMS = ("aten::batch_norm", "aten::_functional_batch_norm")


def _fold_normalized(graph: Graph, kinds: tuple[str, ...]) -> bool:
    changed = False
    for layer, norm in _layers(graph, kinds, _NORMS):
        names = ("weight", "bias", "running_mean", "running_var", "eps", "training")
        parts = [_value(norm, n) for n in names]
        if not all(known for known, _ in parts) or norm.inputs_[0] is not layer.outputs_[0]:
            continue
        scale, shift, mean, variance, eps, training = [v for _, v in parts]
        if training or mean is None or variance is None:
            continue
        weight, bias = _value(layer, "weight")[1], _value(layer, "bias")[1]
        if kinds == ("aten::linear",) and mean.numel() not in (1, weight.shape[0]):
            continue
        inverse = (variance + eps).rsqrt()
        factor = inverse if scale is None else inverse * scale
        first = -mean if bias is None else bias - mean
        offset = first * factor if shift is None else first * factor + shift
        _fold(layer, norm, weight * _along(factor, weight), offset.to(weight.dtype))
        changed = True
    if changed:
        dce(graph)
    return changed


def _along(factor: core.Tensor, weight: core.Tensor) -> core.Tensor:
    return factor.reshape([-1] + [1] * (weight.dim() - 1))


def _fold(layer: Node, after: Node, weight: core.Tensor, bias: core.Tensor) -> None:
    _replace(layer, "weight", weight.detach())
    _replace(layer, "bias", bias.detach())
    after.outputs_[0].replaceAllUsesWith(layer.outputs_[0])


def _broadcast(value: Any, weight: core.Tensor) -> core.Tensor | None:
    """A number, or a tensor with one element for each channel, as a vector of the channels."""
    if isinstance(value, (int, float)):
        return F.full([weight.shape[0]], float(value), dtype=weight.dtype)
    if not isinstance(value, core.Tensor) or F.result_type(weight, value) != weight.dtype:
        return None
    value = value.to(weight.dtype)
    if value.numel() == 1:
        return value.reshape([1]).expand([weight.shape[0]])
    channels = weight.shape[0]
    at = value.dim() - (weight.dim() - 1)
    shape = list(value.shape)
    fits = 0 <= at < value.dim() and shape[at] == channels and value.numel() == channels
    return value.reshape([channels]) if fits and value.dim() <= weight.dim() else None


def _other(layer: Node, after: Node) -> tuple[Any, bool]:
    """The constant operand of a node behind a layer, and whether the layer comes first."""
    for i in (0, 1):
        if after.inputs_[i] is layer.outputs_[0]:
            known, value = constant(after.inputs_[1 - i])
            return (value if known else None), i == 0
    return None, True


def fold_add_or_sub(graph: Graph) -> bool:
    """Sums with constants become part of the convolution's bias; whether there was one."""
    changed = False
    for layer, after in _layers(graph, _CONVOLUTIONS, ("aten::add", "aten::sub")):
        value, first = _other(layer, after)
        weight, bias = _value(layer, "weight")[1], _value(layer, "bias")[1]
        if value is None or len(after.inputs_) > 2 and constant(after.inputs_[2]) != (True, 1):
            continue
        if after.kind_ == "aten::sub" and not first:
            continue
        vector = _broadcast(value, weight)
        if vector is None:
            continue
        base = F.zeros([weight.shape[0]], dtype=weight.dtype) if bias is None else bias
        _fold(layer, after, weight, base - vector if after.kind_ == "aten::sub" else base + vector)
        changed = True
    if changed:
        dce(graph)
    return changed


def fold_mul_or_div(graph: Graph) -> bool:
    """Products with constants become part of the convolution's weight; whether there was one."""
    changed = False
    for layer, after in _layers(graph, _CONVOLUTIONS, ("aten::mul", "aten::div")):
        value, first = _other(layer, after)
        weight, bias = _value(layer, "weight")[1], _value(layer, "bias")[1]
        vector = None if value is None else _broadcast(value, weight)
        if vector is None or after.kind_ == "aten::div" and (not first or len(after.inputs_) > 2 and not (
                constant(after.inputs_[2]) == (True, None))):  # fmt: skip
            continue
        factor = 1 / vector if after.kind_ == "aten::div" else vector
        base = F.zeros([weight.shape[0]], dtype=weight.dtype) if bias is None else bias * factor
        _fold(layer, after, weight * _along(factor, weight), base)
        changed = True
    if changed:
        dce(graph)
    return changed


def concatenate_linear(graph: Graph) -> bool:
    """Linear layers of one input become one, whose result is taken apart; whether there were any."""
    groups: dict[Value, list[Node]] = {}
    for node in graph.all_nodes():
        parts = _value(node, "weight"), _value(node, "bias")
        constants = node.kind_ == "aten::linear" and all(
            k and isinstance(v, core.Tensor) for k, v in parts
        )
        if constants and node.block is graph:
            groups.setdefault(node.inputs_[0], []).append(node)
    changed = False
    for nodes in groups.values():
        if len(nodes) > 1 and len({_value(n, "weight")[1].dtype for n in nodes}) == 1:
            _joined(nodes)
            changed = True
    if changed:
        dce(graph)
    return changed


def _joined(nodes: list[Node]) -> None:
    first = nodes[0]
    sizes = [_value(n, "weight")[1].shape[0] for n in nodes]
    weight = F.cat([_value(n, "weight")[1] for n in nodes], 0)
    bias = F.cat([_value(n, "bias")[1] for n in nodes], 0)
    whole = copied_node(first, first.block, {}).insertBefore(first)
    _replace(whole, "weight", weight)
    _replace(whole, "bias", bias)
    place = whole
    start = 0
    for node, size in zip(nodes, sizes, strict=True):
        numbers = []
        for value in (-1, start, start + size, 1):
            made = Node(first.block, "prim::Constant", [], [T.INT], {"value": value})
            place = made.insertAfter(place)
            numbers.append(made.outputs_[0])
        part = Node(
            first.block, "aten::slice", [whole.outputs_[0], *numbers], [T.TENSOR], place=node.place
        )
        resolved(part)
        place = part.insertAfter(place)
        node.outputs_[0].replaceAllUsesWith(part.outputs_[0])
        start += size


def remove_dropout(graph: Graph) -> bool:
    """Dropouts that are off are taken out; whether there was one."""
    changed = False
    for node in list(graph.all_nodes()):
        own = "dropout" in node.kind_
        training = _argument(node, "training") if own else None
        training = _argument(node, "train") if own and training is None else training
        if own and training is not None and constant(training) == (True, False):
            node.outputs_[0].replaceAllUsesWith(node.inputs_[0])
            changed = True
    if changed:
        dce(graph)
    return changed


def optimize_frozen_graph(graph: Graph, optimize_numerics: bool = True) -> None:
    """Takes out what does nothing in inference, and folds layers into those before them."""
    remove_dropout(graph)
    if not optimize_numerics:
        return
    changed = True
    while changed:
        changed = False
        for fold in (fold_batch_norm, fold_add_or_sub, fold_mul_or_div, fold_linear_batch_norm):
            changed = fold(graph) or changed
