"""Which class stands for which: PyTorch's `ao.quantization.quantization_mappings`.

Takes: classes of float modules, float functions. Gives: their classes and operators of integers, tables of them.
Keeps true: tables that are handed out are copies, so that a change counts where it was made.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula import ops
from facula.core.errors import fail
from facula.nn import functional
from facula.quantization import fake_quantize as fq
from facula.quantization import operators
from facula.quantization.calls import FIXED_MODULES
from facula.quantization.eager import (
    DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    DEFAULT_QAT_MODULE_MAPPINGS,
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    no_observer_set,
)
from facula.quantization.modules import embedding as tables
from facula.quantization.modules import qat as nnqat
from facula.quantization.modules import reference, stubs

__all__ = [
    "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS",
    "DEFAULT_MODULE_TO_ACT_POST_PROCESS",
    "DEFAULT_QAT_MODULE_MAPPINGS",
    "DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS",
    "get_default_compare_output_module_list",
    "get_default_dynamic_quant_module_mappings",
    "get_default_float_to_quantized_operator_mappings",
    "get_default_qat_module_mappings",
    "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings",
    "get_default_static_quant_reference_module_mappings",
    "get_dynamic_quant_module_class",
    "get_embedding_qat_module_mappings",
    "get_embedding_static_quant_module_mappings",
    "get_quantized_operator",
    "get_static_quant_module_class",
    "no_observer_set",
]

assert operators is not None  # it defines what `ops.quantized` gives

DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    stubs.QuantStub: stubs.Quantize,
    stubs.DeQuantStub: stubs.DeQuantize,
    **{
        getattr(nn, name): getattr(reference, name)
        for name in (
            "Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding "
            "EmbeddingBag"
        ).split()
    },
}
DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS: dict[Any, Any] = {
    functional.elu: ops.quantized.elu,
    functional.hardswish: ops.quantized.hardswish,
    functional.instance_norm: ops.quantized.instance_norm,
    functional.layer_norm: ops.quantized.layer_norm,
    functional.leaky_relu: ops.quantized.leaky_relu,
    functional.dropout: ops.quantized.dropout,
}
DEFAULT_MODULE_TO_ACT_POST_PROCESS: dict[Any, Any] = {
    kind: fq.fixed_range(interval, True) for kind, interval in FIXED_MODULES.items()
}


def get_default_static_quant_reference_module_mappings() -> dict[Any, Any]:
    """Float layer -> reference layer."""
    return dict(DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS)


def get_embedding_static_quant_module_mappings() -> dict[Any, Any]:
    """Float layer -> layer of integers, with tables that were trained."""
    made = {nnqat.EmbeddingBag: tables.EmbeddingBag, nnqat.Embedding: tables.Embedding}
    return {**DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, **made}


def get_embedding_qat_module_mappings() -> dict[Any, Any]:
    """Float layer -> layer for training, tables too."""
    made = {nn.EmbeddingBag: nnqat.EmbeddingBag, nn.Embedding: nnqat.Embedding}
    return {**DEFAULT_QAT_MODULE_MAPPINGS, **made}


def _class_for(kind: object, table: dict[Any, Any], more: Any, op: str) -> Any:
    found = {**table, **(more or {})}.get(kind)
    if found is None:
        fail(AssertionError, op, "a float module that has a form of integers was required: Floating point "
             "module class does not have a corresponding quantized module class", kind,
             hint="name one in the additional mapping")  # fmt: skip
    return found


def get_static_quant_module_class(
    float_module_class: object,
    additional_static_quant_mapping: object = None,
    is_reference: bool = False,
) -> Any:
    """The class of integers, or the reference class, for a float class; AssertionError where there is none."""
    table = DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    if is_reference:
        table = DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS
    op = "get_static_quant_module_class"
    return _class_for(float_module_class, table, additional_static_quant_mapping, op)


def get_dynamic_quant_module_class(
    float_module_class: object, additional_dynamic_quant_mapping: object = None
) -> Any:
    """The class that quantizes its inputs, for a float class; AssertionError where there is none."""
    table, op = DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, "get_dynamic_quant_module_class"
    return _class_for(float_module_class, table, additional_dynamic_quant_mapping, op)


def get_default_compare_output_module_list() -> set[Any]:
    """The classes whose results the numeric suite compares."""
    found = {nn.Sequential}
    for table in (
        DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
        DEFAULT_QAT_MODULE_MAPPINGS,
        DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    ):
        found |= {*table, *table.values()}
    return found


def get_default_float_to_quantized_operator_mappings() -> dict[Any, Any]:
    """Float function -> operator of integers."""
    return dict(DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS)


def get_quantized_operator(float_op: object) -> Any:
    """The operator of integers for a float function; AssertionError where there is none."""
    found = DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.get(float_op)
    if found is None:
        fail(AssertionError, "get_quantized_operator", "a function that has a form of integers was required: "
             "Operator does not have corresponding quantized op", float_op,
             hint="get_default_float_to_quantized_operator_mappings() has all of them")  # fmt: skip
    return found


def _get_special_act_post_process(module: object) -> Any:
    """What observes the results of a module whose interval is known; None for others."""
    return DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type(module))


def _has_special_act_post_process(module: Any) -> bool:
    """Whether a module that is trained has results in an interval that is known."""
    return module.training and type(module) in DEFAULT_MODULE_TO_ACT_POST_PROCESS
