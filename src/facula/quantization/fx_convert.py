"""Observed graphs to graphs of integers.

Takes: a model that was prepared and run on examples. Gives: the model with layers of integers, `quantize_per_tensor`
where
numbers become integers, `dequantize` where they become numbers again. Keeps true: a value is kept as integers while
what
takes it takes integers, so that neither stands between two quantized layers.
"""

from __future__ import annotations

from typing import Any

from facula import core, ops
from facula.fx import Graph, GraphModule
from facula.quantization import eager, fuse
from facula.quantization import fake_quantize as fq
from facula.quantization.create import quantize_per_tensor
from facula.quantization.fx_patterns import is_relu, kind, target_of, word
from facula.quantization.modules import reference


class Value:
    """What a node of the observed graph has become: numbers, integers, or both."""

    def __init__(self, numbers: Any = None, integers: Any = None, observer: Any = None) -> None:
        self.numbers, self.integers, self.observer = numbers, integers, observer


class Converting:
    """One model on its way."""

    def __init__(self, model: GraphModule, is_reference: bool) -> None:
        self.model, self.is_reference = model, is_reference
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.graph = Graph()
        self.values: dict[Any, Value] = {}
        self.count = 0

    def run(self) -> Any:
        """The model of integers."""
        for node in self.model.graph.nodes:
            self._convert(node)
        for name in list(self.model._modules):
            if name.startswith("activation_post_process_"):
                delattr(self.model, name)
        made = GraphModule(self.model, self.graph)
        for module in made.modules():
            vars(module).pop("qconfig", None)
        made.graph.eliminate_dead_code()
        made.graph.lint()
        made.recompile()
        made.train(self.model.training)
        return made

    # ---------------------------------------------------------------- values

    def numbers(self, node: Any) -> Any:
        """A value as numbers."""
        value = self.values[node]
        if value.numbers is None:
            value.numbers = self.graph.call_method("dequantize", (value.integers,))
        return value.numbers

    def integers(self, node: Any) -> Any:
        """A value as integers; None where nothing says how."""
        value = self.values[node]
        if value.integers is None and value.observer is not None:
            scale, zero = self._parameters(value.observer)
            constants = [self._constant("scale", scale), self._constant("zero_point", zero)]
            arguments = (value.numbers, *constants, value.observer.dtype)
            value.integers = self.graph.call_function(quantize_per_tensor, arguments)
            self.count += 1
        return value.integers

    def _parameters(self, observer: Any) -> tuple[Any, Any]:
        scale, zero = observer.calculate_qparams()
        return scale.reshape(()), zero.reshape(())

    def _constant(self, what: str, value: core.Tensor) -> Any:
        name = f"_input_{what}_{self.count}"
        number = value.to(core.float32) if what == "scale" else value.to(core.int64)
        self.model.register_buffer(name, number.detach().clone())
        return self.graph.get_attr(name)

    # ---------------------------------------------------------------- nodes

    def _convert(self, node: Any) -> None:
        if node.op == "output":
            self.graph.node_copy(node, self.numbers)
            return
        if node.op == "call_module" and fq.is_activation_post_process(self.modules[node.target]):
            self._observed(node)
            return
        if node.op in ("placeholder", "get_attr"):
            self.values[node] = Value(self.graph.node_copy(node, self.numbers))
            return
        if self._quantized(node):
            return
        made = self.graph.node_copy(node, self.numbers)
        self.values[node] = Value(made)

    def _observed(self, node: Any) -> None:
        value = self.values[node.args[0]]
        observer = self.modules[node.target]
        if value.integers is None and value.observer is None:
            value.observer = observer
        self.values[node] = value

    def _behind(self, node: Any) -> Any:
        """The observer of a result, or None."""
        for user in node.users:
            if user.op == "call_module":
                module = self.modules[user.target]
                if fq.is_activation_post_process(module):
                    return module
        return None

    def _quantized(self, node: Any) -> bool:
        """Put in the form of integers, where there is one; whether there was."""
        what = kind(node, self.modules)
        if what == "weighted":
            return self._weighted(node)
        if what == "shared":
            return self._relu_of_pair(node) or self._shared(node)
        if node.meta.get("quantized_relu"):
            self.values[node] = Value()
            return True
        observer = self._behind(node) if what else None
        if observer is None:
            return False
        if self.is_reference:
            return False
        if what == "arithmetic":
            return self._arithmetic(node, observer, "")
        return self._function(node, observer)

    def _weighted(self, node: Any) -> bool:
        module = self.modules[node.target]
        config = getattr(module, "qconfig", None)
        if config is None:
            return False
        observer = self._behind(node)
        if observer is None:
            return self._dynamic(node, module, config)
        source = self.integers(node.args[0])
        if source is None:
            return False
        if self.is_reference:
            self._put(node.target, reference.of(module))
            self.values[node] = Value(self._copy(node, self.numbers_again(node.args[0])))
            return True
        module.activation_post_process = observer
        self._put(node.target, target_of(module).from_float(module))
        self.values[node] = Value(integers=self._copy(node, source))
        return True

    def numbers_again(self, node: Any) -> Any:
        """A value as numbers that have been integers."""
        return self.graph.call_method("dequantize", (self.integers(node),))

    def _dynamic(self, node: Any, module: Any, config: Any) -> bool:
        target = eager.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS.get(type(module))
        made = config.activation()
        half = getattr(made, "dtype", None) is core.float16
        if target is None or not (getattr(made, "is_dynamic", False) or half):
            return False
        self._put(node.target, target.from_float(module))
        self.values[node] = Value(self.graph.node_copy(node, self.numbers))
        return True

    def _put(self, name: str, module: GraphModule) -> None:
        parent, last = fuse._parent(self.model, name)
        setattr(parent, last, module)
        self.modules[name] = module

    def _copy(self, node: Any, first: Any) -> Any:
        """The node with another first argument."""
        made = self.graph.node_copy(node, lambda n: first if n is node.args[0] else self.numbers(n))
        return made

    def _shared(self, node: Any) -> bool:
        first = node.args[0] if node.args else None
        if first is None or not hasattr(first, "op") or self.values[first].integers is None:
            return False
        if self.is_reference:
            return False
        self.values[node] = Value(integers=self._copy(node, self.values[first].integers))
        return True

    def _relu_of_pair(self, node: Any) -> bool:
        first = node.args[0] if node.args else None
        if first is None or not hasattr(first, "op") or not first.meta.get("quantized_relu"):
            return False
        observer = self._behind(node)
        if (
            observer is not None
            and is_relu(node, self.modules)
            and not self.is_reference
            and (self._arithmetic(first, observer, "_relu"))
        ):
            self.values[node] = self.values[first]
            return True
        self.values[first] = Value(self.graph.node_copy(first, self.numbers))
        return False

    def _arithmetic(self, node: Any, observer: Any, suffix: str) -> bool:
        name = word(node, self.modules)
        scale, zero = (x.item() for x in self._parameters(observer))
        if name == "cat":
            parts = [self.integers(x) for x in node.args[0]]
            dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
            arguments: tuple[Any, ...] = (parts, dim, scale, zero)
        else:
            parts = [self.integers(x) for x in node.args[:2]]
            arguments = (*parts, scale, zero)
        if any(x is None for x in parts):
            return False
        target = getattr(ops.quantized, name + suffix)
        self.values[node] = Value(integers=self.graph.call_function(target, arguments))
        return True

    def _function(self, node: Any, observer: Any) -> bool:
        """A function or module whose result has parameters of its own."""
        source = self.integers(node.args[0])
        if source is None:
            return False
        if node.op == "call_module":
            module = self.modules[node.target]
            target = target_of(module)
            if target is None:
                self.values[node] = Value(integers=self._copy(node, source))
                return True
            module.activation_post_process = observer
            self._put(node.target, target.from_float(module))
            self.values[node] = Value(integers=self._copy(node, source))
            return True
        name = word(node, self.modules)
        if name in ("sigmoid", "hardsigmoid", "tanh"):  # their parameters are known
            self.values[node] = Value(integers=self._copy(node, source))
            return True
        if name != "hardswish":
            return False
        scale, zero = (x.item() for x in self._parameters(observer))
        made = self.graph.call_function(ops.quantized.hardswish, (source, scale, zero))
        self.values[node] = Value(integers=made)
        return True
