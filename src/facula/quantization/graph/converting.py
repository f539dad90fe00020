"""Observed graphs to reference graphs.

Takes: a model that was prepared and run on examples. Gives: the model with `quantize_per_tensor` (or by channel,
dynamic, `to(float16)`) and `dequantize` in the places of observers, and reference layers in those of layers with
weights. Keeps true: a reference graph computes in floats what the integers stand for; nothing but it is needed to
lower it.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.fx import GraphModule, Node
from facula.quantization import fake_quantize as fq
from facula.quantization import fuse
from facula.quantization.create import (
    quantize_per_channel,
    quantize_per_tensor,
    quantize_per_tensor_dynamic,
)
from facula.quantization.custom_config import ConvertCustomConfig
from facula.quantization.graph import custom
from facula.quantization.graph.observing import free_name
from facula.quantization.modules import intrinsic as nni
from facula.quantization.modules import recurrent, reference, stubs
from facula.quantization.utils import (
    activation_is_dynamically_quantized,
    is_per_channel,
    weight_is_quantized,
)

_INTEGERS = (core.quint8, core.qint8, core.qint32)


class Converting:
    """One model on its way."""

    def __init__(
        self, model: GraphModule, settings: ConvertCustomConfig, is_reference: bool, convert: Any
    ) -> None:
        self.model, self.graph, self.settings = model, model.graph, settings
        self.is_reference, self._convert = is_reference, convert
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.attributes = model.meta[custom.ATTRIBUTES]
        self.configs = self.attributes.node_name_to_qconfig
        self.scopes = self.attributes.node_name_to_scope
        self.done: dict[int, Any] = {}
        self.customs: dict[
            str, Any
        ] = {}  # names of modules with a form of their own, and the observed ones
        self.custom_nodes: set[Any] = set()  # calls of modules that give integers by themselves

    def run(self) -> None:
        """Make the reference graph."""
        self._look_at_weights()
        inputs = 0
        for node in list(self.graph.nodes):
            if node.op == "placeholder":
                if inputs in self.attributes.input_quantized_indexes:
                    self._numbers_of(node)
                inputs += 1
            elif node.op == "call_module":
                self._module(node)
            elif node.op == "output":
                self._results(node)
        for name, module in list(self.modules.items()):
            if (
                fq.is_activation_post_process(module)
                and "." not in name
                and hasattr(self.model, name)
            ):
                delattr(self.model, name)
        self.graph.lint()
        self.model.recompile()

    def _look_at_weights(self) -> None:
        """Run the observers of weights that are no layer's."""
        for node in self.graph.nodes:
            if node.op == "call_module" and fq.is_activation_post_process(
                self.modules[node.target]
            ):
                source = node.args[0]
                if isinstance(source, Node) and source.op == "get_attr":
                    self.modules[node.target](_attribute(self.model, source.target))

    # ---------------------------------------------------------------- nodes

    def _module(self, node: Any) -> None:
        module = self.modules[node.target]
        if fq.is_activation_post_process(module):
            self._observer(node, module)
        elif isinstance(module, stubs.DeQuantStub):
            with self.graph.inserting_before(node):
                made = self.graph.call_method("dequantize", (node.args[0],))
            node.replace_all_uses_with(made)
            self.graph.erase_node(node)
        elif custom.ATTRIBUTES in getattr(module, "meta", {}):
            self._standalone(node, module)
        elif node.target in self.customs or custom.is_observed_custom(module, self.settings):
            self._custom(node, module)
        else:
            self._layer(node, module)

    def _unquantized(self, node: Any) -> bool:
        """Whether nothing around an observer has a configuration."""
        around = [n for n in (*node.all_input_nodes, *node.users)]
        return all(n.name in self.configs and self.configs[n.name] is None for n in around)

    def _observer(self, node: Any, module: Any) -> None:
        source = node.args[0]
        if source in self.custom_nodes:
            with self.graph.inserting_before(node):
                made = self.graph.call_method("dequantize", (source,))
            return self._replace(node, made)
        dynamic = bool(getattr(module, "is_dynamic", False))
        halves = dynamic and module.dtype is core.float16  # the layer that takes them says so
        if halves or self._unquantized(node) or module.dtype not in (*_INTEGERS, core.float16):
            return self._replace(node, source)
        with self.graph.inserting_before(node):
            if module.dtype is core.float16:
                integers = self.graph.call_method("to", (source, core.float16))
            elif dynamic:
                reduced = bool(getattr(module, "reduce_range", False))
                given = (source, module.dtype, reduced)
                integers = self.graph.call_function(quantize_per_tensor_dynamic, given)
            else:
                integers = self._integers(node, source, module)
            made = self.graph.call_method("dequantize", (integers,))
        return self._replace(node, made)

    def _replace(self, node: Any, made: Any) -> None:
        node.replace_all_uses_with(made)
        self.graph.erase_node(node)

    def _integers(self, node: Any, source: Any, module: Any) -> Any:
        scale, zero = module.calculate_qparams()
        prefix = self._prefix(node)
        channels = is_per_channel(module.qscheme)
        if not channels:
            scale, zero = scale.reshape(()), zero.reshape(())
        scale_node = self.constant(f"{prefix}_scale_", scale.to(core.float32))
        zero_node = self.constant(f"{prefix}_zero_point_", zero.to(core.int64))
        if channels:
            given = (source, scale_node, zero_node, int(module.ch_axis), module.dtype)
            return self.graph.call_function(quantize_per_channel, given)
        return self.graph.call_function(
            quantize_per_tensor, (source, scale_node, zero_node, module.dtype)
        )

    def constant(self, prefix: str, value: core.Tensor) -> Any:
        """A node that reads a tensor, which becomes a buffer of the model."""
        name = free_name(self.model, prefix)
        self.model.register_buffer(name, value.detach().clone())
        return self.graph.get_attr(name)

    def _prefix(self, node: Any) -> str:
        """The name of the module whose value is observed; where nothing computes it, of the first that takes it."""
        source = node.args[0]
        if self.configs.get(source.name) is not None:
            return self._path(source)
        users = [u for u in node.users if u.op != "output"]
        linear = [
            u for u in users if "linear" in str(getattr(u.target, "__name__", u.target)).lower()
        ]
        first = (linear or users or [source])[0]
        return f"{self._path(first)}_input"

    def _path(self, node: Any) -> str:
        return str(self.scopes.get(node.name, ("", None))[0]).replace(".", "_")

    def _numbers_of(self, node: Any) -> None:
        users = list(node.users)
        with self.graph.inserting_after(node):
            made = self.graph.call_method("dequantize", (node,))
        for user in users:
            user.replace_input_with(node, made)

    def _results(self, node: Any) -> None:
        places = self.attributes.output_quantized_indexes
        if not places:
            return
        value = node.args[0]
        parts = list(value) if isinstance(value, (list, tuple)) else [value]
        for index in places:
            if index < len(parts):
                parts[index] = _without_dequantize(parts[index])
        node.args = (type(value)(parts) if isinstance(value, (list, tuple)) else parts[0],)

    # ---------------------------------------------------------------- modules

    def _standalone(self, node: Any, module: Any) -> None:
        attributes = module.meta[custom.ATTRIBUTES]
        args = list(node.args)
        for index in attributes.input_quantized_indexes:
            args[index] = _without_dequantize(args[index])
        node.args = tuple(args)
        if attributes.output_quantized_indexes:
            self._numbers_of(node)
        if id(module) not in self.done:
            self.done[id(module)] = self._convert(module, self.is_reference)
        self._put(node.target, self.done[id(module)])

    def _custom(self, node: Any, module: Any) -> None:
        module = self.customs.setdefault(node.target, module)
        if custom.takes_integers(module):
            node.args = tuple(_without_dequantize(a) for a in node.args)
            self.custom_nodes.add(node)
        if id(module) not in self.done:
            self.done[id(module)] = custom.quantized_form(module, self.settings)
        self._put(node.target, self.done[id(module)])

    def _layer(self, node: Any, module: Any) -> None:
        """The reference layer in the place of a layer with a weight."""
        config = getattr(module, "qconfig", None)
        if config is not None and type(module) in recurrent.BY_FLOAT:
            return self._recurrent_layer(node, module, config)
        if config is None or node.name not in self.attributes.observed_node_names:
            return
        if not reference.exists_for(module) or not weight_is_quantized(config):
            return
        if id(module) not in self.done:
            made = reference.of(module)
            if getattr(module, "_relu", False):
                made = _FUSED[type(made[0])](*made)
            self.done[id(module)] = made
            for part in (made, *made.children()):
                part.train(module.training)
        self._put(node.target, self.done[id(module)])

    def _recurrent_layer(self, node: Any, module: Any, config: Any) -> None:
        """A recurrent layer that quantizes its inputs; a reference graph keeps it in floats."""
        if self.is_reference or not activation_is_dynamically_quantized(config):
            return
        if id(module) not in self.done:
            self.done[id(module)] = recurrent.BY_FLOAT[type(module)].from_float(module)
        self._put(node.target, self.done[id(module)])

    def _put(self, name: str, module: Any) -> None:
        parent, last = fuse._parent(self.model, name)
        setattr(parent, last, module)
        self.modules[name] = module


#: reference layers with a relu that was a part of a layer for training
_FUSED: dict[Any, Any] = {
    reference.Linear: nni.LinearReLU,
    **{getattr(reference, f"Conv{n}d"): getattr(nni, f"ConvReLU{n}d") for n in (1, 2, 3)},
}


def _attribute(model: Any, name: str) -> Any:
    for part in name.split("."):
        model = getattr(model, part)
    return model


def _without_dequantize(value: Any) -> Any:
    """A value before it became numbers again; lists and tuples of such, too."""
    if isinstance(value, (list, tuple)):
        return type(value)(_without_dequantize(v) for v in value)
    if isinstance(value, Node) and value.op == "call_method" and value.target == "dequantize":
        return value.args[0]
    return value
