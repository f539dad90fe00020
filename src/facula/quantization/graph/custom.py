"""Modules that are quantized by themselves, or in a way of their own, and the borders of a graph.

Takes: `PrepareCustomConfig` and `ConvertCustomConfig`. Gives: which modules those are, their observed and their
quantized forms, and which inputs and results are integers. Keeps true: a module that is quantized by itself is a
graph of its own, prepared and converted like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.quantization.backend_config.classes import BackendConfig
from facula.quantization.custom_config import ConvertCustomConfig, PrepareCustomConfig
from facula.quantization.fuse import _parent
from facula.quantization.utils import (
    activation_is_statically_quantized,
    get_swapped_custom_module_class,
)

#: what a graph remembers of its preparation, in `meta`
ATTRIBUTES = "_observed_graph_module_attrs"


class Customs:
    """The settings of a graph that is prepared."""

    def __init__(
        self, model: Any, settings: PrepareCustomConfig, backend: BackendConfig, prepare: Callable[..., Any]
    ) -> None:  # fmt: skip
        self.backend = backend
        self.model, self.settings, self._prepare = model, settings, prepare
        self.quantized_inputs = list(settings.input_quantized_indexes)
        self.quantized_outputs = list(settings.output_quantized_indexes)
        self._classes = {
            kind for table in settings.float_to_observed_mapping.values() for kind in table
        }

    def _module(self, node: Any) -> Any:
        return self.model.get_submodule(str(node.target))

    def is_standalone(self, node: Any) -> bool:
        """Whether a node calls a module that is quantized by itself."""
        return self._entry(node) is not None

    def _entry(self, node: Any) -> Any:
        names, classes = (
            self.settings.standalone_module_names,
            self.settings.standalone_module_classes,
        )
        return names.get(node.target) or classes.get(type(self._module(node)))

    def owns(self, node: Any) -> bool:
        """Whether a call of a module is quantized in a way of its own."""
        return self.is_standalone(node) or type(self._module(node)) in self._classes

    def output_maker(self, config: Any, module: Any) -> Callable[[], Any]:
        """What makes the observer of a result."""
        return config.activation

    def prepare_standalone(self, observing: Any, node: Any, config: Any) -> None:
        """Prepare a module as a graph of its own, with observers in front of inputs that it wants as integers."""
        entry = self._entry(node)
        mapping = entry.qconfig_mapping
        made = self._prepare(self._module(node), mapping, config, entry)
        attributes = made.meta[ATTRIBUTES]
        inputs = attributes.input_quantized_indexes
        node.args = tuple(
            observing._seen(a, config.activation) if i in inputs else a
            for i, a in enumerate(node.args)
        )
        parent, last = _parent(self.model, str(node.target))
        setattr(parent, last, made)
        observing.modules[str(node.target)] = made
        if attributes.output_quantized_indexes:
            observing.quantized[node] = (core.quint8, False)

    def observe(self, observing: Any, node: Any, config: Any) -> None:
        """Put the observed form of a module into its place."""
        module = self._module(node)
        if type(module) not in self._classes:
            return  # a second call of a module that is observed already
        module.qconfig = config
        kind = get_swapped_custom_module_class(
            module, self.settings.float_to_observed_mapping, config
        )
        made = kind.from_float(module)
        made.qconfig = config
        behind = [observing.modules.get(str(u.target)) for u in node.users if u.op == "call_module"]
        if behind and behind[0] is not None:
            made.activation_post_process = behind[0]
        parent, last = _parent(self.model, str(node.target))
        setattr(parent, last, made)
        observing.modules[str(node.target)] = made


def quantized_form(module: Any, settings: ConvertCustomConfig) -> Any:
    """The quantized form of an observed module."""
    config = module.qconfig
    kind = get_swapped_custom_module_class(module, settings.observed_to_quantized_mapping, config)
    made = kind.from_observed(module)
    return made


def is_observed_custom(module: Any, settings: ConvertCustomConfig) -> bool:
    """Whether a module is the observed form of another."""
    tables = settings.observed_to_quantized_mapping.values()
    return any(type(module) in table for table in tables)


def takes_integers(module: Any) -> bool:
    """Whether an observed module's quantized form takes and gives integers."""
    return activation_is_statically_quantized(module.qconfig)
