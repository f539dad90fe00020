"""Quantization of scripted modules: PyTorch's `ao.quantization.quantize_jit`.

Takes: scripted or traced modules, and configurations by the names of their parts. Gives: modules with observers
(`prepare_jit`), and of these modules of integers (`convert_jit`). Keeps true: without `inplace` the given module stays
as it is; a module of integers is saved and loaded like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.jit.freezing import freeze_module
from facula.jit.graph_functions import unit_of_graph
from facula.jit.module_views import _set_view, module_of, view_of
from facula.jit.passes.cleaning import dce
from facula.jit.passes.constants import propagate_constants
from facula.jit.passes.inlining import inlined
from facula.jit.passes.mutation import remove_list_mutation, remove_tensor_mutation
from facula.jit.quantizing import roles
from facula.jit.quantizing.converting import converted
from facula.jit.quantizing.flat import Flat
from facula.jit.quantizing.fusing import fused
from facula.jit.quantizing.norms import folded
from facula.jit.quantizing.observers import is_observer, scripted
from facula.jit.quantizing.observing import observed
from facula.jit.quantizing.spreading import spread
from facula.jit.quantizing.tables import packed_tables
from facula.jit.quantizing.trees import children_of, compiled_units, rebuilt
from facula.jit.script_objects import ScriptModule
from facula.quantization.qconfig import QConfig
from facula.quantization.quant_type import QuantType

__all__ = [
    "convert_dynamic_jit",
    "convert_jit",
    "fuse_conv_bn_jit",
    "prepare_dynamic_jit",
    "prepare_jit",
    "quantize_dynamic_jit",
    "quantize_jit",
    "script_qconfig",
    "script_qconfig_dict",
]


def _check(model: Any) -> None:
    if not isinstance(model, ScriptModule):
        fail(ValueError, "quantize_jit", "a scripted module was required (input must be a script module, got: "
             f"{type(model)})", type(model).__name__, hint="jit.script(model.eval()) makes one")  # fmt: skip
    if "forward" not in model._script_type.methods:
        fail(ValueError, "quantize_jit", "a forward was required (input script module does not have forward method)",
             model.original_name, hint="define forward in the module")  # fmt: skip


def _placed(model: object, made: object, inplace: bool) -> Any:
    """The new module, or the given one that has become it."""
    if not inplace:
        return made
    _set_view(model, made)
    return model


def script_qconfig(qconfig: Any) -> Any:
    """A configuration whose observers are modules of scripts, each copied to where it is used.

    Args:
        qconfig: what makes the observers

    Example:
        >>> from facula.ao.quantization import default_qconfig, quantize_jit
        >>> from facula.ao.quantization.quantize_jit import script_qconfig
        >>> script_qconfig(default_qconfig).weight.hasattr("min_val")
        True
    """
    return QConfig(
        activation=view_of(scripted(qconfig.activation())),
        weight=view_of(scripted(qconfig.weight())),
    )


def script_qconfig_dict(qconfig_dict: dict[str, Any]) -> dict[str, Any]:
    """`script_qconfig` of each configuration; None stays None.

    Args:
        qconfig_dict: configurations by names

    Example:
        >>> from facula.ao.quantization.quantize_jit import script_qconfig_dict
        >>> script_qconfig_dict({"fc": None})
        {'fc': None}
    """
    return {k: script_qconfig(v) if v else None for k, v in qconfig_dict.items()}


def fuse_conv_bn_jit(model: object, inplace: bool = False) -> Any:
    """A module without the normalisations behind its convolutions, whose parameters do what those did.

    Args:
        model: a scripted or traced module in evaluation mode
        inplace: whether the module itself is changed

    Example:
        >>> from facula.ao.quantization.quantize_jit import fuse_conv_bn_jit
        >>> layers = facula.nn.Sequential(facula.nn.Conv2d(1, 1, 1), facula.nn.BatchNorm2d(1)).eval()
        >>> fuse_conv_bn_jit(facula.jit.script(layers)).graph.findAllNodes("prim::CallMethod").__len__()
        1
    """
    return _placed(model, folded(model), inplace)


def insert_observers(
    model: object,
    method: str,
    configs: dict[str, Any],
    inplace: bool,
    quant_type: QuantType = QuantType.STATIC,
) -> Any:
    """A module that calls observers; no normalisation is folded before.

    Args:
        model: the scripted module, or the view of it
        method: the method to look into
        configs: scripted configurations by names
        inplace: whether the module itself is changed
        quant_type: whether all values are observed or, `DYNAMIC`, what linear layers take
    """
    module = module_of(model)
    made = _without_lists(rebuilt(module))
    return _placed(
        module, observed(made, configs, quant_type == QuantType.DYNAMIC, method), inplace
    )


def _without_lists(model: object) -> Any:
    """A module whose graphs write to no lists, so that these are known by what they are made of."""
    for each in children_of(model).values():
        for unit in compiled_units(each._script_type).values():
            remove_list_mutation(unit.graph)
    return model


def _prepare(model: object, configs: dict[str, Any], inplace: bool, quant_type: QuantType) -> Any:
    _check(model)
    if not all(isinstance(name, str) for name in configs):
        fail(ValueError, "quantize_jit", "qconfig_dict should only contain names(str) as keys", [
             type(name).__name__ for name in configs], hint="'' stands for the whole module")  # fmt: skip
    made = observed(_without_lists(folded(model)), configs, quant_type == QuantType.DYNAMIC)
    return _placed(model, made, inplace)


def prepare_jit(model: object, qconfig_dict: dict[str, Any], inplace: bool = False) -> Any:
    """A scripted module with observers, which is then run on some inputs.

    Args:
        model: a scripted or traced module in evaluation mode
        qconfig_dict: configurations by the names of modules; "" for the whole, None for no quantization
        inplace: whether the module itself is changed

    Raises:
        ValueError: the module is not scripted, or a name is no text.

    Example:
        >>> from facula.ao.quantization import default_qconfig, prepare_jit
        >>> prepared = prepare_jit(facula.jit.script(facula.nn.Linear(2, 2).eval()), {"": default_qconfig})
        >>> [name for name, _ in prepared.named_children()]
        ['_observer_0', '_observer_1', '_observer_2']
    """
    return _prepare(model, qconfig_dict, inplace, QuantType.STATIC)


def prepare_dynamic_jit(model: object, qconfig_dict: dict[str, Any], inplace: bool = False) -> Any:
    """A scripted module with observers of the weights of linear layers.

    Args:
        model: a scripted or traced module
        qconfig_dict: configurations by the names of modules
        inplace: whether the module itself is changed

    Raises:
        ValueError: the module is not scripted, or a name is no text.

    Example:
        >>> from facula.ao.quantization import default_dynamic_qconfig, prepare_dynamic_jit
        >>> layer = facula.jit.script(facula.nn.Linear(2, 2))
        >>> len(list(prepare_dynamic_jit(layer, {"": default_dynamic_qconfig}).children()))
        2
    """
    return _prepare(model, qconfig_dict, inplace, QuantType.DYNAMIC)


def _weights(model: object, dynamic: bool) -> set[int]:
    """The observers of weights; in a dynamic model they look at the weights now."""
    flat = Flat(model)
    found: set[int] = set()
    for node in flat.graph.all_nodes():
        if node.kind_ != "prim::CallMethod" or not is_observer(node.inputs_[0].type):
            continue
        observer = flat.objects[node.inputs_[0]]
        place = flat.attribute(node.inputs_[1])
        reads = [
            use.user for use in node.outputs_[0].uses()
            if roles.arguments(use.user).get("weight") is node.outputs_[0]
        ]  # fmt: skip
        if reads:
            found.add(id(observer))
            if dynamic and place is not None:
                observer._observer(getattr(place[0], place[1]))
    return found


def _convert(
    model: Any, inplace: bool, debug: bool, quant_type: QuantType, preserved_attrs: list[str] | None
) -> Any:
    _check(model)
    model.eval()
    dynamic = quant_type == QuantType.DYNAMIC
    made = converted(model, _weights(model, dynamic), dynamic)
    kind = made._script_type
    unit = kind.methods["forward"].compiled()
    graph = inlined(unit.graph)
    packed_tables(graph)
    kind.methods["forward"] = unit_of_graph(
        graph, unit.name, kind, list(unit.parameters), unit.result_type()
    )
    if not debug:
        made = freeze_module(made, list(preserved_attrs or ()))
        graph = made._unit_named("forward").compiled().graph
    propagate_constants(graph)
    remove_tensor_mutation(graph)
    spread(graph)
    if not debug:
        fused(made, graph)
    propagate_constants(graph)
    dce(graph)
    return _placed(model, made, inplace)


def convert_jit(
    model: object,
    inplace: bool = False,
    debug: bool = False,
    preserved_attrs: list[str] | None = None,
) -> Any:
    """A module of integers, of one whose observers have seen inputs.

    Args:
        model: what `prepare_jit` gave
        inplace: whether the module itself is changed
        debug: whether the graph stays one of numbers, with `quantize_per_tensor` and `dequantize`, and the module keeps
            its weights
        preserved_attrs: names of attributes and methods that stay

    Raises:
        ValueError: the module is not scripted.

    Example:
        >>> from facula.ao.quantization import convert_jit, default_qconfig, prepare_jit
        >>> prepared = prepare_jit(facula.jit.script(facula.nn.Linear(2, 2).eval()), {"": default_qconfig})
        >>> _ = prepared(facula.ones(1, 2))
        >>> convert_jit(prepared).graph.findNode("quantized::linear") is not None
        True
    """
    return _convert(model, inplace, debug, QuantType.STATIC, preserved_attrs)


def convert_dynamic_jit(
    model: object,
    inplace: bool = False,
    debug: bool = False,
    preserved_attrs: list[str] | None = None,
) -> Any:
    """A module whose linear layers have integers as weights and quantize what they take.

    Args:
        model: what `prepare_dynamic_jit` gave
        inplace: whether the module itself is changed
        debug: whether the graph stays one of numbers
        preserved_attrs: names of attributes and methods that stay

    Raises:
        ValueError: the module is not scripted.

    Example:
        >>> from facula.ao.quantization import convert_dynamic_jit, default_dynamic_qconfig, prepare_dynamic_jit
        >>> layer = facula.jit.script(facula.nn.Linear(2, 2))
        >>> made = convert_dynamic_jit(prepare_dynamic_jit(layer, {"": default_dynamic_qconfig}))
        >>> made.graph.findNode("quantized::linear_dynamic") is not None
        True
    """
    return _convert(model, inplace, debug, QuantType.DYNAMIC, preserved_attrs)


def quantize_jit(
    model: object,
    qconfig_dict: dict[str, Any],
    run_fn: Callable[..., Any],
    run_args: Any,
    inplace: bool = False,
    debug: bool = False,
) -> Any:
    """A module of integers: observers are put in, the module is run, and observers become quantizations.

    Args:
        model: a scripted or traced module in evaluation mode
        qconfig_dict: configurations by the names of modules; "" for the whole, None for no quantization
        run_fn: runs the module on some inputs
        run_args: its arguments behind the module
        inplace: whether the module itself is changed
        debug: whether the graph stays one of numbers

    Raises:
        ValueError: the module is not scripted.
        AssertionError: nothing runs the module.

    Example:
        >>> from facula.ao.quantization import default_qconfig, quantize_jit
        >>> layer = facula.jit.script(facula.nn.Linear(2, 2).eval())
        >>> made = quantize_jit(layer, {"": default_qconfig}, lambda m, x: m(x), [facula.ones(1, 2)])
        >>> made(facula.ones(1, 2)).shape
        facula.Size([1, 2])
    """
    for name, given in (("function", run_fn), ("dataset", run_args)):
        if not given:
            fail(AssertionError, "quantize_jit", f"Must provide calibration {name} for post training static "
                 "quantization", given, hint="quantize_jit(model, qconfigs, run_fn, [inputs])")  # fmt: skip
    made = prepare_jit(model, qconfig_dict, inplace)
    run_fn(made, *run_args)
    return convert_jit(made, True, debug)


def quantize_dynamic_jit(
    model: object, qconfig_dict: dict[str, Any], inplace: bool = False, debug: bool = False
) -> Any:
    """A module whose linear layers have integers as weights and quantize what they take.

    Args:
        model: a scripted or traced module
        qconfig_dict: configurations by the names of modules
        inplace: whether the module itself is changed
        debug: whether the graph stays one of numbers

    Raises:
        ValueError: the module is not scripted.

    Example:
        >>> from facula.ao.quantization import default_dynamic_qconfig, quantize_dynamic_jit
        >>> layer = facula.jit.script(facula.nn.Linear(2, 2))
        >>> quantize_dynamic_jit(layer, {"": default_dynamic_qconfig})(facula.ones(1, 2)).shape
        facula.Size([1, 2])
    """
    made = prepare_dynamic_jit(model, qconfig_dict, inplace)
    return convert_dynamic_jit(made, True, debug)
