"""Quantization of exported programs: `prepare_pt2e`, `prepare_qat_pt2e`, `convert_pt2e`.

Takes: the module of an exported program, and a quantizer. Gives: the module with observers; after it has run on
examples, with integers. Keeps true: the module that is given is changed, as in PyTorch; what nothing annotates
stays in float.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.fx import GraphModule
from facula.quantization.pt2e.canonical import canonical, fold_norms
from facula.quantization.pt2e.convert import convert, is_observer
from facula.quantization.pt2e.prepare import observe
from facula.quantization.pt2e.quantizer.quantizer import Quantizer

__all__ = ["convert_pt2e", "prepare_pt2e", "prepare_qat_pt2e"]


def _check_model(op: str, model: GraphModule) -> None:
    if not isinstance(model, GraphModule):
        fail(
            ValueError,
            op,
            "the module of an exported program was required",
            type(model).__name__,
            hint="facula.export.export(model, example_inputs).module() gives one",
        )


def _prepared(op: str, model: GraphModule, quantizer: object, folds: bool) -> Any:
    _check_model(op, model)
    if not isinstance(quantizer, Quantizer):
        fail(
            TypeError,
            op,
            "a Quantizer was required",
            type(quantizer).__name__,
            hint="XNNPACKQuantizer().set_global(get_symmetric_quantization_config()) is one",
        )
    canonical(model)
    if folds:
        fold_norms(model)
    model = quantizer.transform_for_annotation(model)
    quantizer.annotate(model)
    quantizer.validate(model)
    observe(model, quantizer)
    model.graph.eliminate_dead_code()
    model.recompile()
    return model


def prepare_pt2e(model: GraphModule, quantizer: object) -> Any:
    """Observers where a quantizer annotates; norms behind convolutions are folded into their weights.

    Example:
        >>> from facula.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
        >>> from facula.ao.quantization.quantizer import xnnpack_quantizer as q
        >>> x = facula.ones(2, 3)
        >>> program = facula.export.export(facula.nn.Linear(3, 4), (x,)).module()
        >>> settings = q.get_symmetric_quantization_config()
        >>> prepared = prepare_pt2e(program, q.XNNPACKQuantizer().set_global(settings))
        >>> prepared(x).shape
        facula.Size([2, 4])
    """
    return _prepared("prepare_pt2e", model, quantizer, True)


def prepare_qat_pt2e(model: GraphModule, quantizer: object) -> Any:
    """The same for training: a quantizer whose specifications make fake quantization. Norms stay where they are."""
    return _prepared("prepare_qat_pt2e", model, quantizer, False)


def convert_pt2e(
    model: GraphModule, use_reference_representation: bool = False, fold_quantize: bool = True
) -> Any:
    """Integers in the place of what was observed.

    fold_quantize: constant weights are kept as integers; else their quantization stays in the graph.
    """
    _check_model("convert_pt2e", model)
    if use_reference_representation:
        fail(
            NotImplementedError,
            "convert_pt2e",
            "use_reference_representation=False was required",
            True,
            hint="graphs of integers have quantize and dequantize operators here",
        )
    if not any(is_observer(module) for module in model.modules()):
        fail(
            ValueError,
            "convert_pt2e",
            "a module with observers was required",
            "one without",
            hint="prepare_pt2e(model, quantizer) puts them in, where the quantizer annotates",
        )
    convert(model, fold_quantize)
    model.recompile()
    return model
