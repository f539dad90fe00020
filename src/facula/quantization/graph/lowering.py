"""Reference graphs to graphs of integers.

Takes: a reference graph. Gives: the graph with layers and operators of integers where ``dequantize -> op ->
quantize`` stood. Keeps true: what has no form of integers stays in floats between `dequantize` and
`quantize_per_tensor`; every rule looks at the graph only, so that a reference graph from a file is lowered like any
other.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula import core, ops
from facula.fx import Node
from facula.nn import functional
from facula.quantization import eager, fuse
from facula.quantization.calls import FIXED, FIXED_MODULES, KEEPING_METHODS, modules_of, named
from facula.quantization.create import quantize_per_tensor
from facula.quantization.create import quantize_per_tensor_dynamic as per_call
from facula.quantization.graph.arguments import arguments, own_arguments, spread
from facula.quantization.graph.matching import same_call
from facula.quantization.graph.observing import free_name, nodes_in
from facula.quantization.modules import dynamic as nnqd
from facula.quantization.modules import embedding as tables
from facula.quantization.modules import intrinsic as nni
from facula.quantization.modules import quantized as nnq
from facula.quantization.modules import reference

#: operators and modules whose results keep the parameters of the input
_KEEPING = named("fx", "shared") | KEEPING_METHODS | {*FIXED}
_KEEPING_MODULES = (*modules_of(named("fx", "shared")), nn.Identity, *FIXED_MODULES)
#: reference layer -> layer of integers; the same with relu behind
_STATIC: dict[Any, tuple[Any, Any]] = {
    reference.Linear: (nnq.Linear, nnq.LinearReLU),
    **{
        getattr(reference, f"Conv{n}d"): (getattr(nnq, f"Conv{n}d"), getattr(nnq, f"ConvReLU{n}d"))
        for n in (1, 2, 3)
    },
    **{
        getattr(reference, f"ConvTranspose{n}d"): (getattr(nnq, f"ConvTranspose{n}d"), None)
        for n in (1, 2, 3)
    },
}
_BATCHED = {
    functional.linear: "linear",
    **{getattr(functional, f"conv{n}d"): f"conv{n}d" for n in (1, 2, 3)},
    **{getattr(functional, f"conv_transpose{n}d"): f"conv_transpose{n}d" for n in (1, 2, 3)},
}
#: what graphs give classes of integers, and eager mode computes with its own operators
_MORE_TARGETS: dict[Any, Any] = {nn.Softmax: nnq.Softmax}
#: functions whose form of integers takes scale and zero point of the result, as their last arguments
_OWN = {"matmul"} | {name.rstrip("_") for name in named("fx", "own")} - {"softmax"}


#: where a graph notes the names of packed weights, and of scales and zero points of results, that it reads, in its
#: `meta`: they are no tensors, but parts of its state
PACKED = "packed_weights"


def keep_packed(model: Any) -> None:
    """Let the state of a model have its packed weights, too."""
    if model.meta.get(PACKED):
        model._register_state_dict_hook(_save_packed)
        model._register_load_state_dict_pre_hook(_load_packed, with_module=True)


def _save_packed(model: Any, state: Any, prefix: str, meta: object) -> None:
    for name in model.meta.get(PACKED, ()):
        value = getattr(model, name)
        state[prefix + name] = core.tensor(value) if isinstance(value, (int, float)) else value


def _load_packed(model: Any, state: Any, prefix: str, *_: object) -> None:
    for name in model.meta.get(PACKED, ()):
        if prefix + name in state:
            value = state.pop(prefix + name)
            setattr(model, name, value.item() if isinstance(value, core.Tensor) else value)


class _Chosen:
    """Stands for an observer whose choice is known."""

    def __init__(self, scale: Any, zero: Any, dtype: Any) -> None:
        self.scale, self.zero, self.dtype = scale, zero, dtype

    def calculate_qparams(self) -> Any:
        """The choice."""
        return self.scale, self.zero


def word(node: Any) -> str:
    """The name of the function or method that a node calls."""
    if node.op == "call_method":
        return str(node.target).rstrip("_")
    name = str(getattr(node.target, "__name__", node.target)).rpartition("::")[2]
    return (
        {"iadd": "add", "imul": "mul", "concat": "cat"}.get(name, name)
        .removeprefix("_functional_")
        .rstrip("_")
    )


class Lowering:
    """One graph on its way."""

    def __init__(
        self, model: Any, scopes: dict[str, tuple[str, Any]], configs: dict[str, Any] | None = None
    ) -> None:  # fmt: skip
        self.model, self.graph, self.scopes = model, model.graph, scopes
        self.configs = configs or {}
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.done: dict[Any, Any] = {}
        #: float weight and bias of each function, by the name of what they were packed to
        self.originals: dict[str, list[Any]] = {}

    def run(self) -> None:
        """Lower everything that can be lowered."""
        for node in list(self.graph.nodes):
            if node.op == "call_function" and node.target is quantize_per_tensor:
                self._static(node)
        for node in list(self.graph.nodes):
            self._without_result(node)
        self._under_one_name()
        self.graph.eliminate_dead_code()
        self.model.delete_all_unused_submodules()
        self._drop_unread()
        keep_packed(self.model)
        self.graph.lint()
        self.model.recompile()

    def _under_one_name(self) -> None:
        """Calls that came to the same layer name it alike: the name that it had."""
        names: dict[int, str] = {}
        for node in self.graph.nodes:
            if node.op == "call_module":
                known = names.get(id(self.modules.get(node.target)), node.target)
                names[id(self.modules.get(node.target))] = min(known, node.target, key=len)
        for node in self.graph.nodes:
            if node.op == "call_module":
                node.target = names[id(self.modules.get(node.target))]

    # ---------------------------------------------------------------- what stands where

    def _module(self, node: Any) -> Any:
        return (
            self.modules.get(str(node.target))
            if isinstance(node, Node) and node.op == "call_module"
            else None
        )

    def integers(self, value: Any) -> Any:
        """The integers that a value is made of, or None."""
        if isinstance(value, Node) and value.op == "call_method" and value.target == "dequantize":
            source = value.args[0]
            half = source.op == "call_method" and source.target == "to"
            dynamic = source.op == "call_function" and source.target is per_call
            return None if half or dynamic else source
        return None

    def _is_relu(self, node: Any) -> bool:
        if not isinstance(node, Node):
            return False
        if node.op == "call_module":
            return type(self._module(node)) is nn.ReLU
        return node.op in ("call_function", "call_method") and word(node) == "relu"

    def _constant(self, node: Any) -> Any:
        """The value of a node that takes nothing but attributes of the model."""
        if not isinstance(node, Node):
            return node
        if node.op == "get_attr":
            made = self.model
            for part in node.target.split("."):
                made = getattr(made, part)
            return made
        args = [self._constant(a) for a in node.args]
        if node.op == "call_method":
            return getattr(args[0], node.target)(*args[1:])
        return node.target(*args)

    def _is_constant(self, value: Any) -> bool:
        if not isinstance(value, Node):
            return True
        known = value.op == "get_attr" or value.op in ("call_function", "call_method")
        return (
            known
            and all(self._is_constant(n) for n in value.all_input_nodes)
            and (value.op == "get_attr" or bool(value.all_input_nodes))
        )

    # ---------------------------------------------------------------- static

    def _static(self, node: Any) -> None:
        """The operator in front of a quantization, and the relu between."""
        source, scale, zero = node.args[0], node.args[1], node.args[2]
        if not isinstance(source, Node) or len(source.users) > 1:
            return
        relu = None
        if (
            self._is_relu(source)
            and isinstance(source.args[0], Node)
            and self.integers(source.args[0]) is None
        ):
            relu, source = source, source.args[0]
            if len(source.users) > 1:
                return
        if source.name in self.configs and self.configs[source.name] is None:
            return  # it is to stay in floats
        made = (
            self._layer(source, relu, node, scale, zero)
            or self._function(source, relu, node, scale, zero)
            or self._binary(source, relu, node, scale, zero)
            or (None if relu is not None else self._plain(source, node, scale, zero))
        )
        if made is not None:
            node.replace_all_uses_with(made)
            self.graph.erase_node(node)

    def _layer(self, source: Any, relu: object, node: object, scale: object, zero: object) -> Any:
        module = self._module(source)
        given = self.integers(source.args[0]) if module is not None and source.args else None
        if given is None:
            return None
        fused = isinstance(module, nni._FusedModule)
        layer = module[0] if fused else module
        classes = _STATIC.get(type(layer))
        if classes is None or layer.weight_dtype is not core.qint8:
            return None
        target = self._target(module, layer, classes, relu, fused)
        if target is None:
            return None
        chosen = float(self._constant(scale)), int(self._constant(zero))
        key = (source.target, target, *chosen)
        if key not in self.done:
            made = target.from_reference(layer, *chosen)
            if hasattr(made, "negative_slope") and fused:
                made.negative_slope = module[1].negative_slope
            self.done[key] = made
        self._place(source, self.done[key])
        source.args = (given, *source.args[1:])
        return source

    def _target(
        self, module: Any, layer: object, classes: tuple[Any, Any], relu: object, fused: bool
    ) -> Any:
        if fused:
            kind = type(module)
            if kind in (nni.LinearLeakyReLU, nni.LinearTanh):
                return getattr(nnq, kind.__name__)
            return classes[1] if relu is None and type(module[1]) is nn.ReLU else None
        return classes[0] if relu is None else classes[1]

    def _place(self, node: Any, module: object) -> None:
        """Let a call go to another module: in the place of its own, where nothing else calls that."""
        calls = [n for n in self.graph.nodes if n.op == "call_module" and n.target == node.target]
        if len(calls) > 1:
            parent, last = fuse._parent(self.model, node.target)
            head = node.target[: len(node.target) - len(last)]
            node.target = head + free_name(parent, f"{last}_")
        self._put(node.target, module)

    def _put(self, name: str, module: Any) -> None:
        parent, last = fuse._parent(self.model, name)
        setattr(parent, last, module)
        self.modules[name] = module

    def _function(
        self, source: Any, relu: object, node: object, scale: object, zero: object
    ) -> Any:
        """Linear functions and convolutions of integers, whose weight is packed once."""
        name = next(
            (
                w
                for f, w in _BATCHED.items()
                if source.op == "call_function" and same_call(source.target, f)
            ),
            None,
        )
        if name is None or relu is not None and "transpose" in name:
            return None
        values = arguments(name, source)
        given, weight = self.integers(values[0]), self.integers(values[1])
        if (
            given is None
            or weight is None
            or not self._is_constant(weight)
            or not self._is_constant(values[2])
        ):
            return None
        integers = self._constant(weight)
        if integers.dtype is not core.qint8:
            return None
        bias = self._constant(values[2])
        packed = self._packed(source, name, integers, bias, values[3:])
        call = getattr(ops.quantized, name + ("" if relu is None else "_relu"))
        with self.graph.inserting_before(node):
            kept = self._attribute(source, packed, weight.args[0], bias)
            return self.graph.call_function(
                call, (given, kept, self._number(scale), self._number(zero))
            )

    def _packed(
        self, source: object, name: str, weight: object, bias: object, geometry: list[Any]
    ) -> Any:
        pack = getattr(ops.quantized, f"{name}_prepack")
        if not geometry:
            return pack(weight, bias)
        return pack(weight, bias, *spread(geometry, int(name[-2])))

    def _attribute(self, source: Any, packed: object, weight: Any, bias: Any) -> Any:
        path = str(self.scopes.get(source.name, ("", None))[0]).replace(".", "_")
        name = free_name(self.model, f"{path}_packed_weight_")
        self._keep(name, packed)
        self.originals[name] = [self._constant(weight), bias]
        return self.graph.get_attr(name)

    def _keep(self, name: str, value: object) -> None:
        setattr(self.model, name, value)
        if name not in self.model.meta.setdefault(PACKED, []):
            self.model.meta[PACKED].append(name)

    def _number(self, node: Any) -> Any:
        """A scale or zero point as a number that the model has: an operator of integers takes no tensors there."""
        value = self._constant(node)
        if isinstance(node, Node) and isinstance(value, core.Tensor):
            del self.model._buffers[node.target]
            self._keep(node.target, value.item())
        return node

    def _binary(self, source: Any, relu: object, node: object, scale: object, zero: object) -> Any:
        """Sums and products of two tensors, or of one and a number."""
        if (
            source.op != "call_function"
            or word(source) not in ("add", "mul")
            or len(source.args) != 2
            or source.kwargs
        ):
            return None
        name = word(source)
        made = [self.integers(a) for a in source.args]
        rest = "" if relu is None else "_relu"
        tensors = [m for m in made if m is not None]
        if len(tensors) == 2:
            call, args = (
                getattr(ops.quantized, name + rest),
                (*made, self._number(scale), self._number(zero)),
            )
        elif len(tensors) == 1:
            number = source.args[1] if made[0] is not None else source.args[0]
            if isinstance(number, Node) and self._may_be_tensor(number):
                return None
            call, args = getattr(ops.quantized, name + rest), (tensors[0], number)
        else:
            return None
        with self.graph.inserting_before(node):
            return self.graph.call_function(call, args)

    def _may_be_tensor(self, node: Any) -> bool:
        """Whether nothing says that a node gives a number: sizes, and what is computed of them."""
        if node.op == "call_method" and node.target in ("size", "dim", "numel"):
            return False
        name = getattr(node.target, "__name__", "")
        if node.op == "call_function" and node.target is getattr:
            return node.args[1] not in ("shape", "ndim")
        if node.op == "call_function" and getattr(node.target, "__module__", "") == "_operator":
            return (
                name != "getitem"
                and any(map(self._may_be_tensor, nodes_in(node.args)))
                or (name == "getitem" and self._may_be_tensor(node.args[0]))
            )
        return True

    def _plain(self, source: Any, node: object, scale: object, zero: object) -> Any:
        """Everything that takes one tensor of integers, or a list of them."""
        if source.op not in ("call_function", "call_method", "call_module") or not source.args:
            return None
        first = source.args[0]
        if isinstance(first, (list, tuple)):
            given: Any = [self.integers(v) for v in first]
            if not given or any(g is None for g in given):
                return None
        else:
            given = self.integers(first)
            if given is None:
                return None
        if source.op == "call_module":
            return self._own_module(source, given, node, scale, zero)
        name = word(source)
        if name in _OWN:
            return self._own(source, name, given, node, scale, zero)
        if name not in _KEEPING and f"{name}_" not in _KEEPING and name != "cat":
            return None
        source.args = (given, *source.args[1:])
        return source

    def _own_module(self, source: Any, given: Any, node: Any, scale: Any, zero: Any) -> Any:
        module = self._module(source)
        kind = type(module)
        target = _MORE_TARGETS.get(kind) or eager.DEFAULT_STATIC_QUANT_MODULE_MAPPINGS.get(kind)
        if (
            target is None
            or hasattr(module, "weight_dtype")
            or kind in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
        ):
            if kind not in _KEEPING_MODULES:
                return None
        elif kind is not nn.ReLU6 and target is not kind:
            module.activation_post_process = _Chosen(
                self._constant(scale), self._constant(zero), node.args[3]
            )
            made = target.from_float(module)
            made.train(module.training)
            self._place(source, made)
        source.args = (given, *source.args[1:])
        return source

    def _own(
        self, source: object, name: str, given: object, node: object, scale: object, zero: object
    ) -> Any:
        """A function whose result has parameters of its own."""
        args = own_arguments(self, name, source, given, scale, zero)
        if args is None:
            return None
        self._number(scale), self._number(zero)
        with self.graph.inserting_before(node):
            return self.graph.call_function(getattr(ops.quantized, name), *args)

    # ---------------------------------------------------------------- dynamic, and weights only

    def _without_result(self, node: Any) -> None:
        """What takes integers of its own, and gives numbers."""
        if self._asks_size(node):
            return
        relu = None
        module = self._module(node)
        layer = module[0] if isinstance(module, nni._FusedModule) else module
        if isinstance(layer, (reference.Embedding, reference.EmbeddingBag)):
            self._table(node, layer)
            return
        if node.op == "call_function" and any(same_call(node.target, f) for f in _BATCHED):
            self._dynamic_function(node)
            return
        if not isinstance(layer, reference.Linear):
            return
        found = self._by_call(node.args[0])
        if (
            found is None
            and layer.weight_dtype is core.float16
            and not self._is_dequantized(node.args[0])
        ):
            found = node.args[0], core.float16, False
        if found is None:
            return
        users = list(node.users)
        if layer is module and len(users) == 1 and self._is_relu(users[0]):
            relu = users[0]
        self._dynamic_layer(node, module, layer, relu, found)

    def _is_dequantized(self, value: Any) -> bool:
        return (
            isinstance(value, Node) and value.op == "call_method" and value.target == "dequantize"
        )

    def _is_half(self, value: Any) -> bool:
        """Whether a value has gone through floats of 16 bits."""
        source = value.args[0] if self._is_dequantized(value) else None
        return source is not None and source.op == "call_method" and source.target == "to"

    def _by_call(self, value: Any) -> tuple[Any, Any, bool] | None:
        """What becomes integers (or floats of 16 bits) by its own range: the numbers, the dtype, a smaller range."""
        if not (
            isinstance(value, Node) and value.op == "call_method" and value.target == "dequantize"
        ):
            return None
        source = value.args[0]
        if source.op == "call_function" and source.target is per_call:
            return source.args[0], source.args[1], bool(source.args[2])
        return None

    def _dynamic_layer(self, node: Any, module: Any, layer: Any, relu: Any, found: Any) -> None:
        numbers, dtype, _ = found
        wanted = core.float16 if dtype is core.float16 else core.qint8
        if layer.weight_dtype is not wanted:
            return
        fused = layer is not module or relu is not None
        target = nnqd.LinearReLU if fused else nnqd.Linear
        key = (node.target, target)
        if key not in self.done:
            self.done[key] = target.from_reference(layer)
        self._place(node, self.done[key])
        node.args = (numbers, *node.args[1:])
        if relu is not None:
            relu.replace_all_uses_with(node)
            self.graph.erase_node(relu)

    def _dynamic_function(self, node: Any) -> None:
        name = next(w for f, w in _BATCHED.items() if same_call(node.target, f))
        values = arguments(name, node)
        found = self._by_call(values[0])
        weight = values[1]
        if found is None and self._is_half(weight) and not self._is_dequantized(values[0]):
            found = values[0], core.float16, False
        if found is None or not self._is_constant(weight) or not self._is_constant(values[2]):
            return
        numbers, dtype, reduced = found
        users = list(node.users)
        relu = (
            users[0] if len(users) == 1 and self._is_relu(users[0]) and name == "linear" else None
        )
        suffix = "" if relu is None else "_relu"
        bias = self._constant(values[2])
        if dtype is core.float16:
            if name != "linear":
                return
            numbered = weight
            packed = ops.quantized.linear_prepack_fp16(self._constant(weight).float(), bias)
            call = getattr(ops.quantized, f"linear{suffix}_dynamic_fp16")
            more: tuple[Any, ...] = ()
        else:
            integers = self.integers(weight)
            if integers is None:
                return
            numbered = integers.args[0]
            packed = self._packed(node, name, self._constant(integers), bias, values[3:])
            call = getattr(ops.quantized, f"{name}{suffix}_dynamic")
            more = (reduced,)
        with self.graph.inserting_before(node):
            kept = self._attribute(node, packed, numbered, bias)
            made = self.graph.call_function(call, (numbers, kept, *more))
        (relu or node).replace_all_uses_with(made)
        if relu is not None:
            self.graph.erase_node(relu)
        self.graph.erase_node(node)

    def _table(self, node: Any, layer: Any) -> None:
        if layer.weight_dtype not in (core.quint8, core.quint4x2):
            return
        target = getattr(tables, type(layer).__name__)
        key = (node.target, target)
        if key not in self.done:
            self.done[key] = target.from_reference(layer)
        self._place(node, self.done[key])

    def _asks_size(self, node: Any) -> bool:
        """Sizes are those of the integers, too."""
        method = node.op == "call_method" and node.target == "size"
        attribute = (
            node.op == "call_function"
            and node.target is getattr
            and node.args[1] in ("shape", "ndim")
        )
        if not (method or attribute):
            return False
        given = self.integers(node.args[0])
        if given is not None:
            node.args = (given, *node.args[1:])
        return True

    def _drop_unread(self) -> None:
        """Scales and zero points that nothing reads any more."""
        read = {n.target for n in self.graph.nodes if n.op == "get_attr"}
        for name in list(self.model._buffers):
            if name not in read and ("_scale_" in name or "_zero_point_" in name):
                del self.model._buffers[name]
