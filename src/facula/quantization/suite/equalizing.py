"""Which layers to equalize: those that lose most; and all of PyTorch's `ao.quantization.fx._equalize`.

Takes: a prepared model and its quantized form. Gives: how far each layer's results are apart, and a configuration
for equalization. Keeps true: a layer is judged on the inputs that it gets in the quantized model.
"""

from __future__ import annotations

import copy
from typing import Any

import facula.nn as nn
from facula.fx import GraphModule
from facula.quantization.graph.custom import ATTRIBUTES
from facula.quantization.graph.equalizing import (
    EqualizationQConfig,
    _InputEqualizationObserver,
    _WeightEqualizationObserver,
    calculate_equalization_scale,
    default_equalization_qconfig,
    equalize,
    input_equalization_observer,
    is_equalization_observer,
    weight_equalization_observer,
)
from facula.quantization.suite.comparing import (
    add_shadow_loggers,
    extend_logger_results_with_comparison,
    extract_shadow_logger_info,
)
from facula.quantization.suite.errors import compute_sqnr
from facula.quantization.suite.loggers import OutputLogger

__all__ = [
    "EqualizationQConfig",
    "_InputEqualizationObserver",
    "_WeightEqualizationObserver",
    "_convert_equalization_ref",
    "calculate_equalization_scale",
    "default_equalization_qconfig",
    "get_equalization_qconfig_dict",
    "get_layer_sqnr_dict",
    "input_equalization_observer",
    "is_equalization_observer",
    "weight_equalization_observer",
]


def _convert_equalization_ref(model: GraphModule) -> GraphModule:
    """A copy of a prepared model whose inputs and weights are scaled, still in floats."""
    made: GraphModule = copy.deepcopy(model)
    equalize(made, made.meta[ATTRIBUTES].equalization_node_name_to_qconfig)
    return made


def get_layer_sqnr_dict(model_a: nn.Module, model_b: nn.Module, x: Any) -> dict[str, float]:
    """The ratio of signal and noise of each layer's results.

    Args:
        model_a: the prepared model
        model_b: its quantized form
        x: an input

    Returns:
        decibels, by the name of the layer

    Example:
        >>> from facula.ao.quantization import default_qconfig
        >>> from facula.ao.quantization.quantize_fx import convert_fx, prepare_fx
        >>> from facula.quantization.suite.equalizing import get_layer_sqnr_dict
        >>> model, x = facula.nn.Sequential(facula.nn.Linear(2, 3)).eval(), facula.randn(4, 2)
        >>> seen = prepare_fx(model, {"": default_qconfig}, (x,))
        >>> _ = seen(x)
        >>> list(get_layer_sqnr_dict(seen, convert_fx(seen), x))
        ['0']
    """
    both = add_shadow_loggers("float", model_a, "integers", model_b, OutputLogger)
    both(x)
    found = extract_shadow_logger_info(both, OutputLogger, "integers")
    extend_logger_results_with_comparison(found, "float", "integers", compute_sqnr, "sqnr")
    made: dict[str, float] = {}
    for by_type in found.values():
        for entry in by_type["node_output"]["integers"]:
            made[entry["fqn"]] = float(entry["sqnr"][0])
    return made


def get_equalization_qconfig_dict(
    layer_sqnr_dict: dict[str, float], num_layers_to_equalize: int
) -> dict[str, Any]:
    """A configuration that equalizes the layers with the smallest ratios.

    Args:
        layer_sqnr_dict: decibels, by the name of the layer
        num_layers_to_equalize: how many layers

    Returns:
        the configuration, for `prepare_fx(_equalization_config=)`

    Example:
        >>> from facula.quantization.suite.equalizing import get_equalization_qconfig_dict
        >>> [name for name, _ in get_equalization_qconfig_dict({"a": 40.0, "b": 20.0}, 1)["module_name"]]
        ['b']
    """
    names = sorted(layer_sqnr_dict, key=layer_sqnr_dict.__getitem__)[:num_layers_to_equalize]
    return {"module_name": [(name, default_equalization_qconfig) for name in names]}
