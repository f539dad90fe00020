"""FX graph mode: a model is traced, observed and converted, without borders of its own.

Takes: a model and a `QConfigMapping`. Gives: `prepare_fx`, `prepare_qat_fx`, `convert_fx`,
`convert_to_reference_fx`, `fuse_fx`.
Keeps true: what cannot be quantized stays in float; the model that is given is not changed but where PyTorch changes
it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import facula.nn as nn
from facula.core.errors import fail
from facula.fx import GraphModule, Tracer
from facula.quantization import fuse
from facula.quantization.backend_config.classes import BackendConfig
from facula.quantization.backend_config.native import get_native_backend_config
from facula.quantization.custom_config import (
    ConvertCustomConfig,
    FuseCustomConfig,
    PrepareCustomConfig,
)
from facula.quantization.graph import configurations, equalizing, fusing, matching
from facula.quantization.graph.converting import Converting
from facula.quantization.graph.custom import ATTRIBUTES, Customs
from facula.quantization.graph.lowering import Lowering
from facula.quantization.graph.numbers import numbers
from facula.quantization.graph.observing import Observing
from facula.quantization.modules import functional
from facula.quantization.modules import intrinsic as nni
from facula.quantization.qconfig_mapping import QConfigMapping, as_mapping

#: where a graph keeps the attributes that the settings named, in `meta`
PRESERVED = _USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"

__all__ = [
    "convert_fx",
    "convert_to_reference_fx",
    "fuse_fx",
    "prepare_fx",
    "prepare_qat_fx",
]


class QuantizationTracer(Tracer):
    """Traces a model; fused layers, and what the settings name, stay calls."""

    record_stack_traces = True

    def __init__(self, skipped_module_names: Any = (), skipped_module_classes: Any = ()) -> None:
        super().__init__()
        self.skipped_module_names = list(skipped_module_names)
        self.skipped_module_classes = list(skipped_module_classes)
        self.inside: list[tuple[str, Any]] = []
        self.where: dict[str, tuple[str, Any]] = {}

    def is_leaf_module(self, m: object, module_qualified_name: str) -> bool:
        """Whether a module stays a call."""
        ours = type(m).__module__.startswith(("facula.quantization", "torch.quantization"))
        if isinstance(m, functional.FXFloatFunctional):
            return False
        return (
            super().is_leaf_module(m, module_qualified_name)
            or isinstance(m, nni._FusedModule)
            or ours
            or module_qualified_name in self.skipped_module_names
            or type(m) in self.skipped_module_classes
        )

    def call_module(
        self, m: object, forward: Callable[..., Any], args: object, kwargs: object
    ) -> Any:
        """Remember which module is running; what looks at results of a FloatFunctional is no part of a graph."""
        path = self.path_of_module(m)
        if type(m) is nn.Identity and path.rpartition(".")[2] == "activation_post_process":
            return args[0]  # type: ignore[index]
        self.inside.append((path, type(m)))
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self.inside.pop()

    def create_node(self, *args: object, **kwargs: object) -> Any:
        """Note the module that the node stands in."""
        node = super().create_node(*args, **kwargs)
        self.where[node.name] = self.inside[-1] if self.inside else ("", type(self.root))
        return node


def _traced(model: GraphModule, settings: Any, more: Any = ()) -> tuple[Any, dict[str, Any]]:
    """The model as a graph, and which module each node stands in."""
    names, kinds = list(more[0]) if more else [], list(more[1]) if more else []
    names += list(getattr(settings, "non_traceable_module_names", ()))
    kinds += list(getattr(settings, "non_traceable_module_classes", ()))
    if not more and isinstance(settings, PrepareCustomConfig):
        names += list(settings.standalone_module_names)
        kinds += list(settings.standalone_module_classes)
    for table in getattr(settings, "float_to_observed_mapping", {}).values():
        kinds += list(table)
    tracer = QuantizationTracer(names, kinds)
    made = GraphModule(model, tracer.trace(model))
    _keep(made, model, settings)
    made.train(model.training)
    return made, tracer.where


def _keep(made: Any, model: Any, settings: object) -> None:
    """Take the attributes over that the settings name; with `deepcopy` they stay."""
    names = getattr(settings, "preserved_attributes", ()) or ()
    kept = dict(model.meta.get(PRESERVED, {})) if isinstance(model, GraphModule) else {}
    kept |= {name: getattr(model, name) for name in names if hasattr(model, name)}
    for name, value in kept.items():
        setattr(made, name, value)
    if kept:
        made.meta[PRESERVED] = kept


@dataclass
class ObservedGraphModuleAttrs:
    """What a prepared graph remembers."""

    node_name_to_qconfig: dict[str, Any]
    node_name_to_scope: dict[str, Any]
    prepare_custom_config: PrepareCustomConfig
    equalization_node_name_to_qconfig: dict[str, Any]
    qconfig_mapping: QConfigMapping
    is_qat: bool
    observed_node_names: set[str]
    backend_config: BackendConfig
    is_observed_standalone_module: bool = False
    standalone_module_input_quantized_idxs: list[int] | None = None
    standalone_module_output_quantized_idxs: list[int] | None = None

    @property
    def input_quantized_indexes(self) -> list[int]:
        """The inputs that are integers."""
        return list(self.prepare_custom_config.input_quantized_indexes)

    @property
    def output_quantized_indexes(self) -> list[int]:
        """The results that stay integers."""
        return list(self.prepare_custom_config.output_quantized_indexes)


def _settings(given: object, kind: Any) -> Any:
    """Settings, from such, from a dictionary, or from nothing."""
    if given is None:
        return kind()
    return kind.from_dict(given) if isinstance(given, dict) else given


def _backend(given: Any) -> BackendConfig:
    if given is None:
        return get_native_backend_config()
    return BackendConfig.from_dict(given) if isinstance(given, dict) else given


def _prepared(
    model: object, mapping: Any, settings: Any, is_qat: bool, example_inputs: object, backend: Any, alone: bool = False,
    equalization: object = None,
) -> Any:  # fmt: skip
    settings, backend = _settings(settings, PrepareCustomConfig), _backend(backend)
    made, where = _traced(model, settings)
    fusing.fuse_graph(made, is_qat, backend)
    mapping = as_mapping(mapping).copied()
    configs = configurations.configure(made, mapping, where)
    if is_qat:
        _train_layers(made, backend)
    modules = dict(made.named_modules(remove_duplicate=False))

    def prepare_inner(module: object, given: object, config: object, entry: Any) -> Any:
        inner = given if given is not None else QConfigMapping().set_global(config)
        return _prepared(
            module, inner, entry.prepare_custom_config, is_qat, entry.example_inputs,
            entry.backend_config or backend, True,
        )  # fmt: skip

    customs = Customs(made, settings, backend, prepare_inner)
    patterns = {
        pattern: config
        for pattern, config in backend._pattern_complex_format_to_config.items()
        if not isinstance(pattern, tuple) or config.fuser_method is None
    }
    matches = matching.all_matches(made.graph, modules, patterns, customs.owns)
    plain = numbers(made, example_inputs)
    names = {node.name: config for node, config in configs.items()}
    observing = Observing(made, configs, matches, plain, customs)
    observing.run()
    observed = {node.name for node in observing.observed}
    equalized = (
        {} if equalization is None else equalizing.observe(made, as_mapping(equalization), where)
    )
    made.meta[ATTRIBUTES] = ObservedGraphModuleAttrs(
        names, where, settings, equalized, mapping, is_qat, observed, backend, alone
    )
    return made


def _train_layers(model: Any, backend: BackendConfig) -> None:
    """Put layers for training into the places of those with a configuration."""
    table = {
        config.pattern: config.qat_module
        for config in backend.configs
        if config.qat_module is not None
    }
    called = {n.target for n in model.graph.nodes if n.op == "call_module"}
    for name, module in list(model.named_modules()):
        if name not in called:
            continue  # it is a part of a module that stays as it is
        target, config = table.get(type(module)), getattr(module, "qconfig", None)
        if target is None or config is None or not name:
            continue
        parent, last = fuse._parent(model, name)
        made = target.from_float(module)
        made.qconfig = config
        setattr(parent, last, made)


def prepare_fx(
    model: GraphModule, qconfig_mapping: object, example_inputs: object = None, prepare_custom_config: object = None,
    _equalization_config: object = None, backend_config: object = None,
) -> Any:  # fmt: skip
    """The model as a graph with observers, to be run on examples; `_equalization_config` names layers to equalize."""
    return _prepared(
        model, qconfig_mapping, prepare_custom_config, False, example_inputs, backend_config,
        equalization=_equalization_config,
    )  # fmt: skip


def prepare_qat_fx(
    model: GraphModule, qconfig_mapping: object, example_inputs: object = None, prepare_custom_config: object = None,
    backend_config: object = None,
) -> Any:  # fmt: skip
    """The model as a graph to be trained: weights and results pass through their levels."""
    return _prepared(
        model, qconfig_mapping, prepare_custom_config, True, example_inputs, backend_config
    )


def _converted(
    graph_module: object, is_reference: bool, settings: Any = None, mapping: object = None, remove: bool = True,
    backend: object = None, keep: bool = False,
) -> Any:  # fmt: skip
    if not isinstance(graph_module, GraphModule):
        fail(
            ValueError,
            "convert_fx",
            "a GraphModule from prepare_fx was required: input model must be a GraphModule",
            type(graph_module).__name__,
            hint="prepare_fx(model, qconfig_mapping, example_inputs) gives one",
        )
    settings = _settings(settings, ConvertCustomConfig)
    model = copy.deepcopy(graph_module)
    attributes = model.meta[ATTRIBUTES]
    if mapping is not None:
        _reconfigure(model, as_mapping(mapping), attributes)

    def convert_inner(inner: object, reference: bool) -> Any:
        return _converted(inner, reference, settings, None, remove, backend)

    equalizing.equalize(model, attributes.equalization_node_name_to_qconfig)
    Converting(model, settings, is_reference, convert_inner).run()
    if not is_reference:
        lowering = Lowering(model, attributes.node_name_to_scope, attributes.node_name_to_qconfig)
        lowering.run()
        if keep:
            model.original_weights_lookup = lowering.originals
    if remove:
        for module in model.modules():
            vars(module).pop("qconfig", None)
    _keep(model, graph_module, settings)
    return model


def _reconfigure(model: object, mapping: QConfigMapping, attributes: Any) -> None:
    """Take the configurations of nodes away that are None in a mapping for conversion."""
    if not configurations.same_mapping(mapping, attributes.qconfig_mapping):
        fail(ValueError, "convert_fx", "qconfig_mapping: the configurations that the model was prepared with, or None, "
             "were required", "another one", hint="a copy of the mapping with some of its values None")  # fmt: skip
    found = configurations.configure(model, mapping, attributes.node_name_to_scope)
    for node, config in found.items():
        if config is None:
            attributes.node_name_to_qconfig[node.name] = None


def convert_fx(
    graph_module: object, convert_custom_config: object = None, _remove_qconfig: bool = True,
    qconfig_mapping: object = None, backend_config: object = None, keep_original_weights: bool = False,
) -> Any:  # fmt: skip
    """The model of integers.

    With ``keep_original_weights`` its ``original_weights_lookup`` has the float weight and the bias, or
    None, of each function call, by the name of the attribute that they were packed to.
    """
    return _converted(
        graph_module, False, convert_custom_config, qconfig_mapping, _remove_qconfig, backend_config,
        keep_original_weights,
    )  # fmt: skip


def convert_to_reference_fx(
    graph_module: object, convert_custom_config: object = None, _remove_qconfig: bool = True,
    qconfig_mapping: object = None, backend_config: object = None,
) -> Any:  # fmt: skip
    """The model as float layers between `dequantize` and `quantize_per_tensor`."""
    return _converted(
        graph_module, True, convert_custom_config, qconfig_mapping, _remove_qconfig, backend_config
    )


def fuse_fx(
    model: GraphModule, fuse_custom_config: object = None, backend_config: object = None
) -> Any:
    """The model as a graph whose layers, norms and relus are one, for inference."""
    if model.training:
        fail(
            AssertionError,
            "fuse_fx",
            "a model in eval mode was required",
            "a model in training mode",
            hint="call model.eval() first",
        )
    made, _ = _traced(model, _settings(fuse_custom_config, FuseCustomConfig))
    fusing.fuse_graph(made, False, _backend(backend_config))
    return made
