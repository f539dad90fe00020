"""Exported graphs in the words that quantizers know: convolutions and pools by their public names, norms folded.

Takes: a graph of an exported program. Gives: the same graph with `conv2d`, `max_pool2d`, ... in the place of the
primitives below them, and without batch norms that scale a convolution by constants. Keeps true: results are the same,
but for the rounding of folded weights; weights that something else reads are not changed.
"""

from __future__ import annotations

import operator
from typing import Any

from facula import core, ops
from facula.fx import Node
from facula.ops.table.registry import F
from facula.quantization.pt2e.quantizer.annotate import call_word

__all__ = ["canonical", "fold_norms", "value_of"]


def value_of(model: object, node: Node) -> Any:
    """The tensor of a `get_attr` node."""
    made = model
    for part in node.target.split("."):
        made = getattr(made, part)
    return made


def _replace(model: Any, node: Node, target: Any, args: tuple[Any, ...]) -> Any:
    with model.graph.inserting_before(node):
        made = model.graph.call_function(target, args)
    made.meta.update(node.meta)
    node.replace_all_uses_with(made)
    return made


def _convolution(model: Any, node: Node) -> None:
    stride = node.args[3]
    target = getattr(ops.aten, f"conv{len(stride)}d").default
    _replace(model, node, target, tuple(node.args[:7]))
    model.graph.erase_node(node)


def _pool(model: Any, node: Node) -> None:
    users = list(node.users)
    kernel = node.args[1]
    first = all(u.target is operator.getitem and u.args[1] == 0 for u in users)
    if len(kernel) != 2 or not users or not first:
        return
    made = _replace(model, node, ops.aten.max_pool2d.default, tuple(node.args[:6]))
    made.meta["val"] = users[0].meta.get("val")
    for user in users:
        user.replace_all_uses_with(made)
        model.graph.erase_node(user)
    model.graph.erase_node(node)


def _adaptive(model: Any, node: Node) -> None:
    if len(node.args[1]) == 2:
        _replace(model, node, ops.aten.adaptive_avg_pool2d.default, tuple(node.args[:2]))
        model.graph.erase_node(node)


_PRIMITIVES = {"_conv": _convolution, "_max_pool": _pool, "_adaptive_avg_pool": _adaptive}


def canonical(model: Any) -> None:
    """Put public operators in the place of primitives."""
    for node in list(model.graph.nodes):
        step = _PRIMITIVES.get(call_word(node))
        if step is not None:
            step(model, node)


def _constants(model: object, nodes: tuple[Any, ...]) -> list[Any] | None:
    """The tensors of nodes that are constants (None for None); None where one is not."""
    found = []
    for node in nodes:
        if isinstance(node, Node) and node.op != "get_attr":
            return None
        found.append(None if node is None else value_of(model, node).detach())
    return found


def _constant(model: Any, before: Node, name: str, value: core.Tensor) -> Any:
    """A new constant of a graph."""
    number = 0
    while hasattr(model, f"{name}_{number}"):
        number += 1
    model.register_buffer(f"{name}_{number}", value)
    with model.graph.inserting_before(before):
        return model.graph.get_attr(f"{name}_{number}")


def _settings_of_norm(node: Node) -> tuple[Any, ...] | None:
    """Mean, variance, scale, shift and eps of a norm that computes with given statistics; None of any other node."""
    word = call_word(node)
    if word not in ("batch_norm", "batch_norm_eval") or not isinstance(node.args[0], Node):
        return None
    if word == "batch_norm_eval":
        return tuple(node.args[1:6])
    _, scale, shift, mean, variance, training, _, eps = node.args[:8]
    return None if training or mean is None else (mean, variance, scale, shift, eps)


def fold_norms(model: Any) -> None:
    """Convolutions followed by a norm with constants take its scale and shift into their weights."""
    for node in list(model.graph.nodes):
        settings = _settings_of_norm(node)
        if settings is None:
            continue
        layer = node.args[0]
        if call_word(layer) not in ("conv1d", "conv2d", "conv3d") or len(layer.users) != 1:
            continue
        mean, variance, scale, shift, eps = settings
        bias = layer.args[2] if len(layer.args) > 2 else None
        found = _constants(model, (layer.args[1], bias, mean, variance, scale, shift))
        if found is not None:
            _fold(model, node, layer, found, eps)


def _fold(model: Any, norm: Node, layer: Node, constants: list[Any], eps: float) -> None:
    weight, bias, mean, variance, scale, shift = constants
    factor = F.rsqrt(variance + eps) * (1.0 if scale is None else scale)
    made = weight * factor.reshape(-1, *[1] * (weight.dim() - 1))
    moved = ((0.0 if bias is None else bias) - mean) * factor + (0.0 if shift is None else shift)
    name = str(layer.args[1].target).replace(".", "_")
    first = _constant(model, layer, f"{name}_folded", made)
    second = _constant(model, layer, f"{name}_bias_folded", moved)
    layer.args = (layer.args[0], first, second, *layer.args[3:])
    norm.replace_all_uses_with(layer)
    model.graph.erase_node(norm)
