"""FX graph mode: a model is traced, observed and converted, without borders of its own.

Takes: a model and a `QConfigMapping`. Gives: `prepare_fx`, `prepare_qat_fx`, `convert_fx`,
`convert_to_reference_fx`, `fuse_fx`.
Keeps true: what cannot be quantized stays in float; the model that is given is not changed but where PyTorch changes
it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.fx import GraphModule, Tracer
from facula.quantization import fx_prepare
from facula.quantization.fx_convert import Converting
from facula.quantization.modules import functional
from facula.quantization.modules import intrinsic as nni
from facula.quantization.qconfig_mapping import as_mapping

__all__ = [
    "convert_fx",
    "convert_to_reference_fx",
    "fuse_fx",
    "prepare_fx",
    "prepare_qat_fx",
]


class QuantizationTracer(Tracer):
    """Traces a model; fused layers, and what the settings name, stay calls."""

    def __init__(self, skipped_module_names: Any = (), skipped_module_classes: Any = ()) -> None:
        super().__init__()
        self.skipped_module_names = list(skipped_module_names)
        self.skipped_module_classes = list(skipped_module_classes)
        self.inside: list[str] = []
        self.where: dict[str, str] = {}

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
        """Remember which module is running."""
        self.inside.append(self.path_of_module(m))
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self.inside.pop()

    def create_node(self, *args: object, **kwargs: object) -> Any:
        """Note the module that the node stands in."""
        node = super().create_node(*args, **kwargs)
        self.where[node.name] = self.inside[-1] if self.inside else ""
        return node


def _setting(settings: object, name: str, default: tuple[Any, ...] | None) -> Any:
    if isinstance(settings, dict):
        return settings.get(name, default)
    return getattr(settings, name, default) if settings is not None else default


def _traced(model: GraphModule, settings: object) -> tuple[Any, dict[str, str]]:
    """The model as a graph, and which module each node stands in."""
    names = list(_setting(settings, "non_traceable_module_name", ()) or ())
    names += list(_setting(settings, "non_traceable_module_names", ()) or ())
    kinds = list(_setting(settings, "non_traceable_module_class", ()) or ())
    kinds += list(_setting(settings, "non_traceable_module_classes", ()) or ())
    tracer = QuantizationTracer(names, kinds)
    graph = tracer.trace(model)
    made = GraphModule(model, graph)
    for name in _setting(settings, "preserved_attributes", ()) or ():
        setattr(made, name, getattr(model, name))
    made.train(model.training)
    return made, tracer.where


#: settings that graphs do not have yet: by their attributes and by their keys
_LACKING = (
    "standalone_module_names", "standalone_module_name", "standalone_module_classes",
    "standalone_module_class", "float_to_observed_mapping", "float_to_observed_custom_module_class",
    "input_quantized_indexes", "input_quantized_idxs", "output_quantized_indexes",
    "output_quantized_idxs", "observed_to_quantized_mapping",
    "observed_to_quantized_custom_module_class",
)  # fmt: skip


def _refuse_lacking(
    op: str, settings: object, backend: object = None, equalization: object = None
) -> None:
    """NotImplementedError for settings that would change the result and are not there yet."""
    found = [name for name in _LACKING if _setting(settings, name, None)]
    found += ["backend_config"] if backend is not None else []
    found += ["_equalization_config"] if equalization is not None else []
    if found:
        fail(
            NotImplementedError,
            op,
            "settings that graph mode has were required",
            ", ".join(found),
            hint="non_traceable_module_names, non_traceable_module_classes and "
            "preserved_attributes are there; eager mode takes custom modules",
        )


def _prepared(
    model: GraphModule, mapping: object, settings: object, is_qat: bool, example_inputs: Any
) -> Any:
    made, where = _traced(model, settings)
    fx_prepare.fuse_graph(made, is_qat)
    mapping = as_mapping(mapping)
    configs = fx_prepare.configure(made, mapping, where)
    plain = fx_prepare.numbers(made, example_inputs)
    if is_qat:
        fx_prepare.train_layers(made)
    fx_prepare.observe(made, configs, plain)
    made.meta["_observed_graph_module_attrs"] = {"is_qat": is_qat, "qconfig_mapping": mapping}
    return made


def prepare_fx(
    model: GraphModule, qconfig_mapping: object, example_inputs: object = None, prepare_custom_config: object = None,
    _equalization_config: object = None, backend_config: object = None,
) -> Any:  # fmt: skip
    """The model as a graph with observers, to be run on examples."""
    _refuse_lacking("prepare_fx", prepare_custom_config, backend_config, _equalization_config)
    return _prepared(model, qconfig_mapping, prepare_custom_config, False, example_inputs)


def prepare_qat_fx(
    model: GraphModule, qconfig_mapping: object, example_inputs: object = None, prepare_custom_config: object = None,
    backend_config: object = None,
) -> Any:  # fmt: skip
    """The model as a graph to be trained: weights and results pass through their levels."""
    _refuse_lacking("prepare_qat_fx", prepare_custom_config, backend_config)
    return _prepared(model, qconfig_mapping, prepare_custom_config, True, example_inputs)


def _converted(graph_module: GraphModule, is_reference: bool) -> Any:
    if not isinstance(graph_module, GraphModule):
        fail(
            ValueError,
            "convert_fx",
            "a GraphModule from prepare_fx was required: input model must be a GraphModule",
            type(graph_module).__name__,
            hint="prepare_fx(model, qconfig_mapping, example_inputs) gives one",
        )
    return Converting(copy.deepcopy(graph_module), is_reference).run()


def convert_fx(
    graph_module: object, convert_custom_config: object = None, _remove_qconfig: bool = True,
    qconfig_mapping: object = None, backend_config: object = None, keep_original_weights: bool = False,
) -> Any:  # fmt: skip
    """The model of integers."""
    _refuse_lacking("convert_fx", convert_custom_config, backend_config)
    return _converted(graph_module, False)


def convert_to_reference_fx(
    graph_module: object, convert_custom_config: object = None, _remove_qconfig: bool = True,
    qconfig_mapping: object = None, backend_config: object = None,
) -> Any:  # fmt: skip
    """The model as float layers between `dequantize` and `quantize_per_tensor`."""
    _refuse_lacking("convert_to_reference_fx", convert_custom_config, backend_config)
    return _converted(graph_module, True)


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
    _refuse_lacking("fuse_fx", fuse_custom_config, backend_config)
    made, _ = _traced(model, fuse_custom_config)
    fx_prepare.fuse_graph(made, False)
    return made
