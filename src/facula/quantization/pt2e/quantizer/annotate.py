"""Patterns by which quantizers annotate: layers with weights, sums, and what passes integers on.

Takes: nodes of an exported graph, and a `QuantizationConfig`. Gives: annotations. Keeps true: a node that has an
annotation keeps it; a layer followed by a relu that nothing else takes is one with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from facula.fx import Node
from facula.quantization.calls import named
from facula.quantization.pt2e.quantizer.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    SharedQuantizationSpec,
)

__all__ = ["QuantizationConfig", "annotation_of", "call_word", "layer_path"]

#: activations that are one with what stands before
_ACTIVATIONS = named("xnnpack", "activation")


@dataclass(eq=True, frozen=True)
class QuantizationConfig:
    """What activations, results, weights and biases become."""

    input_activation: QuantizationSpec | None
    output_activation: QuantizationSpec | None
    weight: QuantizationSpec | None
    bias: QuantizationSpec | None = None
    is_qat: bool = False


def call_word(node: Node) -> str:
    """The name of the operator that a node calls, without its overload; "" where it calls none."""
    if node.op != "call_function":
        return ""
    name = getattr(node.target, "_schema_name", None) or str(node.target)
    return name.rpartition("::")[2].removeprefix("aten.").partition(".")[0]


def annotation_of(node: Node) -> QuantizationAnnotation | None:
    """What quantizers have said of a node."""
    return node.meta.get("quantization_annotation")


def layer_path(node: Node) -> str:
    """The module that holds a layer's weight, by the weight's name."""
    weight = node.args[1] if len(node.args) > 1 else None
    if isinstance(weight, Node) and weight.op == "get_attr":
        return weight.target.rpartition(".")[0]
    return ""


def setting(
    node: Node,
    by_module: dict[str, QuantizationConfig | None],
    by_operator: dict[str, QuantizationConfig | None],
    otherwise: QuantizationConfig | None,
) -> QuantizationConfig | None:
    """That of the module which holds a node's weight, else of its operator, else that of everything."""
    path = layer_path(node)
    for name, config in by_module.items():
        if path == name or path.startswith(f"{name}."):
            return config
    return by_operator.get(call_word(node), otherwise)


def _followed(node: Node) -> Any:
    """The activation that is one with a node, or None."""
    users = list(node.users)
    if len(users) == 1 and call_word(users[0]) in _ACTIVATIONS and annotation_of(users[0]) is None:
        return users[0]
    return None


def _finish(node: Node, inputs: dict[Any, Any], output: object) -> None:
    """Annotate a node, or it and its activation together."""
    last = _followed(node)
    own = None if last is not None else output
    node.meta["quantization_annotation"] = QuantizationAnnotation(inputs, own, _annotated=True)
    if last is not None:
        made = QuantizationAnnotation({}, output, _annotated=True)
        last.meta["quantization_annotation"] = made


def nodes_left(model: Any, words: frozenset[str]) -> Iterator[Any]:
    """Nodes that call one of some operators and have no annotation."""
    for node in model.graph.nodes:
        if call_word(node) in words and annotation_of(node) is None:
            yield node


def layer(node: Node, config: QuantizationConfig) -> None:
    """Annotate a layer with a weight."""
    x, weight = node.args[:2]
    inputs = {x: config.input_activation, weight: config.weight}
    bias = node.args[2] if len(node.args) > 2 else None
    if bias is not None and config.bias is not None:
        inputs[bias] = config.bias
    _finish(node, {k: v for k, v in inputs.items() if v is not None}, config.output_activation)


def arithmetic(node: Node, config: QuantizationConfig) -> None:
    """Annotate a sum or a product of two tensors."""
    values = [a for a in node.args[:2] if isinstance(a, Node)]
    if len(values) == 2 and config.input_activation is not None:
        inputs = dict.fromkeys(values, config.input_activation)
        _finish(node, inputs, config.output_activation)


def joined(node: Node, config: QuantizationConfig) -> None:
    """Annotate `cat`: all values and the result have the first one's parameters."""
    first, *rest = dict.fromkeys(node.args[0])
    if config.input_activation is None:
        return
    shared = SharedQuantizationSpec((first, node))
    inputs = {first: config.input_activation, **dict.fromkeys(rest, shared)}
    _finish(node, inputs, shared)


def is_quantized(node: Node) -> bool:
    """Whether a node's result is annotated."""
    found = annotation_of(node)
    return found is not None and found.output_qspec is not None


def passing(node: Node) -> None:
    """Annotate what moves numbers, where its input is annotated: the result has the same parameters."""
    x = node.args[0] if node.args else None
    if isinstance(x, Node) and is_quantized(x):
        shared = SharedQuantizationSpec(x)
        node.meta["quantization_annotation"] = QuantizationAnnotation(
            {x: shared}, shared, _annotated=True
        )
