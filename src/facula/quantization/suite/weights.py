"""The weights of layers, before and after quantization: PyTorch's `ao.ns.fx.weight_utils`.

Takes: nodes that call layers with weights. Gives: the weights, and records of them. Keeps true: a weight is the
tensor that the layer computes with, quantized where it is.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula import ops
from facula.fx import GraphModule, Node
from facula.nn import functional
from facula.nn.utils.parametrize import type_before_parametrizations
from facula.quantization.modules import intrinsic, qat, recurrent
from facula.quantization.suite.kinds import attribute, fqn_of, get_target_type_str
from facula.quantization.suite.relations import get_base_name_to_sets_of_related_ops
from facula.quantization.suite_types import NSSingleResultValuesType

__all__ = ["extract_weight_from_node", "get_op_to_type_to_weight_extraction_fn"]


def mod_weight_detach(mod: Any) -> Any:
    """The weight of a float layer."""
    return mod.weight.detach()


def mod_0_weight_detach(mod: Any) -> Any:
    """The weight of the first of fused layers."""
    return mod[0].weight.detach()


def mod_weight_bias_0(mod: Any) -> Any:
    """The weight of a layer that packs it."""
    return mod._weight_bias()[0]


def _layer_weight(mod: object) -> Any:
    if isinstance(mod, intrinsic._FusedModule) and not isinstance(mod, qat._Weighted):
        return mod_0_weight_detach(mod)
    return mod_weight_bias_0(mod) if hasattr(mod, "_weight_bias") else mod_weight_detach(mod)


def get_conv_mod_weight(mod: object) -> Any:
    """The weight of a convolution, fused or quantized or neither."""
    return _layer_weight(mod)


def get_linear_mod_weight(mod: object) -> Any:
    """The weight of a linear layer, fused or quantized or neither."""
    return _layer_weight(mod)


def get_lstm_weight(mod: Any) -> list[Any]:
    """The weights of a recurrent float layer: of inputs and of states, for each layer."""
    return [w.detach() for name, w in mod.named_parameters() if name.startswith("weight")]


def get_qlstm_weight(mod: Any) -> list[Any]:
    """The weights of a recurrent layer of integers: of inputs and of states, for each layer."""
    return list(mod.get_weight().values())


def get_lstm_mod_weights(mod: object) -> list[Any]:
    """The weights of a recurrent layer, quantized or not."""
    packed = isinstance(mod, recurrent.RNNBase)
    return get_qlstm_weight(mod) if packed else get_lstm_weight(mod)


def _float_weight(node: Node, gm: GraphModule) -> Any:
    """The tensor that a function's weight is read from, behind observers and conversions."""
    weight: Any = node.args[1] if len(node.args) > 1 else node.kwargs.get("weight")
    while isinstance(weight, Node) and weight.op != "get_attr":
        weight = weight.args[0] if weight.args else None
    return attribute(gm, str(weight.target)).detach() if isinstance(weight, Node) else None


def get_conv_fun_weight(node: Node, gm: GraphModule) -> Any:
    """The weight that a convolution function is called with."""
    return _float_weight(node, gm)


def get_linear_fun_weight(node: Node, gm: GraphModule) -> Any:
    """The weight that a linear function is called with."""
    return _float_weight(node, gm)


def _packed_weight(node: Node, gm: GraphModule) -> Any:
    packed: Any = node.args[1]
    return attribute(gm, str(packed.target)).unpack()[0] if packed.op == "get_attr" else None


def get_qconv_fun_weight(node: Node, gm: GraphModule) -> Any:
    """The weight that a convolution of integers is called with."""
    return _packed_weight(node, gm)


def get_qlinear_fun_weight(node: Node, gm: GraphModule) -> Any:
    """The weight that a linear function of integers is called with."""
    return _packed_weight(node, gm)


def _functions(name: str, floats: object, integers: Any) -> dict[Any, Any]:
    found = {getattr(functional, name): floats}
    for form in (name, f"{name}_relu"):
        found[getattr(ops.quantized, form)] = integers
    return found


def get_op_to_type_to_weight_extraction_fn() -> dict[str, dict[Any, Any]]:
    """What takes the weight out of a module, or of the node that calls a function.

    Returns:
        functions by class and by function

    Example:
        >>> from facula.quantization.suite.weights import get_op_to_type_to_weight_extraction_fn
        >>> get_op_to_type_to_weight_extraction_fn()["call_module"][facula.nn.Linear](facula.nn.Linear(2, 3)).shape
        Size([3, 2])
    """
    modules: dict[Any, Any] = {}
    readers = {nn.Linear: get_linear_mod_weight, nn.LSTM: get_lstm_mod_weights}
    readers |= {getattr(nn, f"Conv{n}d"): get_conv_mod_weight for n in (1, 2, 3)}
    for members in get_base_name_to_sets_of_related_ops().values():
        for kind, reader in readers.items():
            if kind in members:
                modules |= dict.fromkeys((m for m in members if isinstance(m, type)), reader)
    calls = _functions("linear", get_linear_fun_weight, get_qlinear_fun_weight)
    for n in (1, 2, 3):
        calls |= _functions(f"conv{n}d", get_conv_fun_weight, get_qconv_fun_weight)
    return {"call_module": modules, "call_function": calls}


def extract_weight_from_node(
    node: Node, gm: GraphModule, op_to_type_to_weight_extraction_fn: dict[str, dict[Any, Any]] | None = None
) -> dict[str, Any] | None:  # fmt: skip
    """The record of a node's weight; None where it has none."""
    table = op_to_type_to_weight_extraction_fn or get_op_to_type_to_weight_extraction_fn()
    if node.op == "call_function":
        reader = table["call_function"].get(node.target)
        weight = None if reader is None else reader(node, gm)
    elif node.op == "call_module":
        module = gm.get_submodule(str(node.target))
        reader = table["call_module"].get(type_before_parametrizations(module))
        weight = None if reader is None else reader(module)
    else:
        return None
    if weight is None:
        return None
    text = get_target_type_str(node, gm)
    return {
        "type": NSSingleResultValuesType.WEIGHT.value,
        "values": [weight],
        "prev_node_name": node.name,
        "prev_node_target_type": text,
        "ref_node_name": node.name,
        "ref_node_target_type": text,
        "index_within_arg": 0,
        "index_of_arg": 0,
        "fqn": fqn_of(node, gm),
    }
