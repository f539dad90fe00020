"""Models before and after quantization, side by side: PyTorch's `ao.ns._numeric_suite_fx`.

Takes: two models. Gives: their weights in pairs, models whose layers keep their results, models with another in the
shadow, and what all of those have kept. Keeps true: models compute what they computed; a model that is no graph is
traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula.nn as nn
from facula.core.errors import fail
from facula.fx import GraphModule
from facula.quantization.quantize_fx import QuantizationTracer
from facula.quantization.suite.candidates import (
    _n_shadows_compare_weights,
    _prepare_n_shadows_add_loggers_model,
    convert_n_shadows_model,
    extract_results_n_shadows_model,
    loggers_set_enabled,
    loggers_set_save_activations,
    prepare_n_shadows_model,
    print_comparisons_n_shadows_model,
)
from facula.quantization.suite.kinds import (
    SCOPES,
    Results,
    get_target_type_str,
    maybe_add_missing_fqns,
    rekey_logger_info_on_node_name_of_model,
)
from facula.quantization.suite.loggers import OutputComparisonLogger, OutputLogger
from facula.quantization.suite.pairs import get_matching_subgraph_pairs
from facula.quantization.suite.passes import add_loggers_to_model, create_a_shadows_b
from facula.quantization.suite.records import _extract_logger_info_one_model
from facula.quantization.suite.weights import (
    extract_weight_from_node,
    get_op_to_type_to_weight_extraction_fn,
)
from facula.quantization.suite_types import NSSingleResultValuesType

__all__ = [
    "NSTracer",
    "OutputComparisonLogger",
    "OutputLogger",
    "_n_shadows_compare_weights",
    "_prepare_n_shadows_add_loggers_model",
    "add_loggers",
    "add_shadow_loggers",
    "convert_n_shadows_model",
    "extend_logger_results_with_comparison",
    "extract_logger_info",
    "extract_results_n_shadows_model",
    "extract_shadow_logger_info",
    "extract_weights",
    "loggers_set_enabled",
    "loggers_set_save_activations",
    "prepare_n_shadows_model",
    "print_comparisons_n_shadows_model",
]


class NSTracer(QuantizationTracer):
    """Traces a model; layers that are fused or quantized, and observers, stay calls."""


def _traced(model: Any) -> GraphModule:
    """The model as a graph; one that is a graph stays what it is."""
    if isinstance(model, GraphModule):
        return model
    skipped: tuple[list[str], list[Any]] = [], []
    tracer = NSTracer(*skipped)
    made = GraphModule(model, tracer.trace(model))
    made.meta[SCOPES] = tracer.where
    made.train(model.training)
    return made


# ------------------------------------------------------------------ weights


def _extract_weights_one_model(
    model_name: str, model: GraphModule, nodes_and_names_to_instrument: list[tuple[Any, str]], results: Results,
    op_to_type_to_weight_extraction_fn: Any = None,
) -> None:  # fmt: skip
    """Put the weights of a model into a table of results."""
    table = op_to_type_to_weight_extraction_fn or get_op_to_type_to_weight_extraction_fn()
    kind = NSSingleResultValuesType.WEIGHT.value
    for node, name in nodes_and_names_to_instrument:
        found = extract_weight_from_node(node, model, table)
        if found is not None:
            results.setdefault(name, {kind: {}})[kind][model_name] = [found]


def _extract_weights_impl(
    model_name_a: str, gm_a: GraphModule, model_name_b: str, gm_b: GraphModule,
    base_name_to_sets_of_related_ops: Any = None, unmatchable_types_map: Any = None,
    op_to_type_to_weight_extraction_fn: Any = None,
) -> Results:  # fmt: skip
    """`extract_weights` of two graphs."""
    pairs = get_matching_subgraph_pairs(
        gm_a, gm_b, base_name_to_sets_of_related_ops, unmatchable_types_map
    )
    results: Results = {}
    for place, (name, gm) in enumerate(((model_name_a, gm_a), (model_name_b, gm_b))):
        nodes = [(pair[place].base_op_node, ref_name) for ref_name, pair in pairs.items()]
        _extract_weights_one_model(name, gm, nodes, results, op_to_type_to_weight_extraction_fn)
    maybe_add_missing_fqns(results)
    return rekey_logger_info_on_node_name_of_model(results, model_name_b)


def extract_weights(
    model_name_a: str, model_a: nn.Module, model_name_b: str, model_b: nn.Module,
    base_name_to_sets_of_related_ops: object = None, unmatchable_types_map: object = None,
    op_to_type_to_weight_extraction_fn: object = None,
) -> Results:  # fmt: skip
    """The weights of two models, layer by layer.

    Args:
        model_name_a: the name of the first model
        model_a: the first model
        model_name_b: the name of the second model
        model_b: the second model
        base_name_to_sets_of_related_ops: what is whose form; None for facula's own
        unmatchable_types_map: what is left out; None for facula's own
        op_to_type_to_weight_extraction_fn: what takes weights out of nodes; None for facula's own

    Returns:
        by the name of a layer, then ``weight``, then the model's name: a list of records

    Errors:
        GraphMatchingException: the models do not compute the same layers

    Example:
        >>> from facula.quantization.suite.comparing import extract_weights
        >>> model = facula.nn.Sequential(facula.nn.Linear(2, 3))
        >>> found = extract_weights("a", model, "b", model)["_0"]["weight"]
        >>> found["a"][0]["values"][0].shape, found["b"][0]["fqn"]
        (Size([3, 2]), '0')
    """
    return _extract_weights_impl(
        model_name_a, _traced(model_a), model_name_b, _traced(model_b), base_name_to_sets_of_related_ops,
        unmatchable_types_map, op_to_type_to_weight_extraction_fn,
    )  # fmt: skip


# ------------------------------------------------------------------ results


def _add_loggers_one_model(
    model_name: str, model: GraphModule, nodes_and_names_to_instrument_inputs: list[tuple[Any, str, str]],
    nodes_and_names_to_instrument_outputs: list[tuple[Any, str, str]], logger_cls: Callable[..., Any],
) -> GraphModule:  # fmt: skip
    inputs, outputs = (
        {node: (name, called) for node, name, called in nodes}
        for nodes in (nodes_and_names_to_instrument_inputs, nodes_and_names_to_instrument_outputs)
    )
    return add_loggers_to_model(model, inputs, outputs, logger_cls, model_name)


def _add_loggers_impl(
    name_a: str, gm_a: GraphModule, name_b: str, gm_b: GraphModule, logger_cls: Callable[..., Any],
    should_log_inputs: bool, base_name_to_sets_of_related_ops: Any = None, unmatchable_types_map: Any = None,
) -> tuple[GraphModule, GraphModule]:  # fmt: skip
    """`add_loggers` to two graphs."""
    pairs = get_matching_subgraph_pairs(
        gm_a, gm_b, base_name_to_sets_of_related_ops, unmatchable_types_map
    )
    made = []
    for place, (name, gm) in enumerate(((name_a, gm_a), (name_b, gm_b))):
        inputs, outputs = [], []
        for ref_name, pair in pairs.items():
            part = pair[place]
            called = get_target_type_str(part.base_op_node, gm)
            if should_log_inputs:
                inputs.append((part.start_node, ref_name, called))
            outputs.append((part.end_node, ref_name, called))
        made.append(_add_loggers_one_model(name, gm, inputs, outputs, logger_cls))
    return made[0], made[1]


def add_loggers(
    name_a: str, model_a: nn.Module, name_b: str, model_b: nn.Module, logger_cls: Callable[..., Any],
    should_log_inputs: bool = False, base_name_to_sets_of_related_ops: Any = None, unmatchable_types_map: Any = None,
) -> tuple[nn.Module, nn.Module]:  # fmt: skip
    """Both models with loggers behind the layers that belong together.

    Args:
        name_a: the name of the first model
        model_a: the first model
        name_b: the name of the second model
        model_b: the second model
        logger_cls: what makes a logger: `OutputLogger`
        should_log_inputs: whether inputs of layers are kept, too
        base_name_to_sets_of_related_ops: what is whose form; None for facula's own
        unmatchable_types_map: what is left out; None for facula's own

    Returns:
        both models as graphs

    Errors:
        GraphMatchingException: the models do not compute the same layers

    Example:
        >>> from facula.quantization.suite.comparing import OutputLogger, add_loggers
        >>> model = facula.nn.Sequential(facula.nn.Linear(2, 3))
        >>> a, b = add_loggers("a", model, "b", model, OutputLogger)
        >>> _ = a(facula.ones(1, 2))
        >>> [len(m.stats) for m in a.modules() if isinstance(m, OutputLogger)]
        [1]
    """
    return _add_loggers_impl(
        name_a, _traced(model_a), name_b, _traced(model_b), logger_cls, should_log_inputs,
        base_name_to_sets_of_related_ops, unmatchable_types_map,
    )  # fmt: skip


def _finished(results: Results, name: str) -> Results:
    maybe_add_missing_fqns(results)
    return rekey_logger_info_on_node_name_of_model(results, name)


def extract_logger_info(
    model_a: nn.Module, model_b: nn.Module, logger_cls: Callable[..., Any], model_name_to_use_for_layer_names: str
) -> Results:  # fmt: skip
    """What the loggers of two models have kept.

    Args:
        model_a: the first model
        model_b: the second model
        logger_cls: the class of the loggers
        model_name_to_use_for_layer_names: the model whose nodes name the layers

    Returns:
        by the name of a layer, then the kind of result, then the model's name: a list of records

    Example:
        >>> from facula.quantization.suite.comparing import OutputLogger, add_loggers, extract_logger_info
        >>> model = facula.nn.Sequential(facula.nn.Linear(2, 3))
        >>> models = add_loggers("a", model, "b", model, OutputLogger)
        >>> _ = [m(facula.ones(1, 2)) for m in models]
        >>> list(extract_logger_info(*models, OutputLogger, "b")["_0"]["node_output"])
        ['a', 'b']
    """
    results: Results = {}
    for model in (model_a, model_b):
        _extract_logger_info_one_model(model, results, logger_cls)
    return _finished(results, model_name_to_use_for_layer_names)


# ------------------------------------------------------------------ shadows


def _add_shadow_loggers_impl(
    name_a: str, gm_a: GraphModule, name_b: str, gm_b: GraphModule, logger_cls: Callable[..., Any],
    should_log_inputs: bool, base_name_to_sets_of_related_ops: Any = None, node_type_to_io_type_map: Any = None,
    unmatchable_types_map: Any = None,
) -> GraphModule:  # fmt: skip
    """`add_shadow_loggers` to two graphs."""
    pairs = get_matching_subgraph_pairs(
        gm_a, gm_b, base_name_to_sets_of_related_ops, unmatchable_types_map
    )
    return create_a_shadows_b(
        name_a, gm_a, name_b, gm_b, pairs, logger_cls, should_log_inputs, node_type_to_io_type_map
    )


def add_shadow_loggers(
    name_a: str, model_a: nn.Module, name_b: str, model_b: nn.Module, logger_cls: Callable[..., Any],
    should_log_inputs: bool = False, base_name_to_sets_of_related_ops: object = None,
    node_type_to_io_type_map: object = None, unmatchable_types_map: object = None,
) -> nn.Module:  # fmt: skip
    """The second model, with each layer of the first in the shadow of its own: both get the second one's inputs.

    Args:
        name_a: the name of the first model
        model_a: the model whose layers run in the shadow
        name_b: the name of the second model
        model_b: the model that gives the results
        logger_cls: what makes a logger: `OutputLogger`
        should_log_inputs: whether inputs of layers are kept, too
        base_name_to_sets_of_related_ops: what is whose form; None for facula's own
        node_type_to_io_type_map: what takes and gives floats or integers; None for facula's own
        unmatchable_types_map: what is left out; None for facula's own

    Returns:
        the second model as a graph

    Errors:
        GraphMatchingException: the models do not compute the same layers

    Example:
        >>> from facula.quantization.suite.comparing import OutputLogger, add_shadow_loggers
        >>> model = facula.nn.Sequential(facula.nn.Linear(2, 3))
        >>> both = add_shadow_loggers("a", model, "b", model, OutputLogger)
        >>> sum(isinstance(m, OutputLogger) for m in both.modules())
        2
    """
    return _add_shadow_loggers_impl(
        name_a, _traced(model_a), name_b, _traced(model_b), logger_cls, should_log_inputs,
        base_name_to_sets_of_related_ops, node_type_to_io_type_map, unmatchable_types_map,
    )  # fmt: skip


def extract_shadow_logger_info(
    model_a_shadows_b: nn.Module, logger_cls: Callable[..., Any], model_name_to_use_for_layer_names: str
) -> Results:  # fmt: skip
    """What the loggers of a model with shadows have kept.

    Args:
        model_a_shadows_b: the model
        logger_cls: the class of the loggers
        model_name_to_use_for_layer_names: the model whose nodes name the layers

    Returns:
        by the name of a layer, then the kind of result, then the model's name: a list of records

    Example:
        >>> from facula.quantization.suite.comparing import (
        ...     OutputLogger, add_shadow_loggers, extract_shadow_logger_info)
        >>> model = facula.nn.Sequential(facula.nn.Linear(2, 3))
        >>> both = add_shadow_loggers("a", model, "b", model, OutputLogger)
        >>> _ = both(facula.ones(1, 2))
        >>> sorted(extract_shadow_logger_info(both, OutputLogger, "b")["_0"]["node_output"])
        ['a', 'b']
    """
    results: Results = {}
    _extract_logger_info_one_model(model_a_shadows_b, results, logger_cls)
    return _finished(results, model_name_to_use_for_layer_names)


def extend_logger_results_with_comparison(
    results: Results, model_name_1: str, model_name_2: str, comparison_fn: Callable[..., Any], comparison_name: str
) -> None:  # fmt: skip
    """Adds a comparison with the first model's values to the records of the second.

    Args:
        results: the records, which are changed
        model_name_1: the model that is compared with
        model_name_2: the model whose records grow
        comparison_fn: the comparison: `compute_sqnr`
        comparison_name: the key of its results

    Errors:
        AssertionError: records of the models do not have the same places

    Example:
        >>> from facula.quantization.suite.comparing import extend_logger_results_with_comparison, extract_weights
        >>> from facula.quantization.suite.errors import compute_cosine_similarity
        >>> model = facula.nn.Sequential(facula.nn.Linear(2, 3))
        >>> found = extract_weights("a", model, "b", model)
        >>> extend_logger_results_with_comparison(found, "a", "b", compute_cosine_similarity, "cosine")
        >>> found["_0"]["weight"]["b"][0]["cosine"][0].round(decimals=4)
        tensor([1.])
    """
    for by_type in results.values():
        for by_model in by_type.values():
            for name in (model_name_1, model_name_2):
                if name not in by_model:
                    fail(AssertionError, "extend_logger_results_with_comparison",
                         "the name of a model with results was required", name,
                         hint=f"one of {list(by_model)}")  # fmt: skip
            known = {(e["index_within_arg"], e["index_of_arg"]): e for e in by_model[model_name_1]}
            for entry in by_model[model_name_2]:
                other = known.get((entry["index_within_arg"], entry["index_of_arg"]))
                pairs = [] if other is None else zip(other["values"], entry["values"], strict=False)
                entry[comparison_name] = [comparison_fn(a, b) for a, b in pairs]
