"""Graphs to be observed: layers that follow each other become one, and observers stand behind values.

Takes: a traced model and a `QConfigMapping`. Gives: the model with observers (or layers for training).
Keeps true: a value has one observer; what keeps the parameters of its input has its input's; what has no
configuration, and what is no tensor, is left as it is.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula import core
from facula.fx.fake_tensor import FakeTensorMode
from facula.fx.interpreter import Interpreter
from facula.fx.shape_env import ShapeEnv
from facula.quantization import eager, fuse
from facula.quantization.fx_patterns import FIXED, is_relu, kind, word

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_FIRST = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


# ------------------------------------------------------------------ fusing


def fuse_graph(model: nn.Module, is_qat: bool) -> None:
    """Make one module of each layer, its norm and its relu."""
    for node in list(model.graph.nodes):
        modules = dict(model.named_modules(remove_duplicate=False))
        if node.op != "call_module" or type(modules[node.target]) not in (
            *_FIRST, *_TRANSPOSED, nn.BatchNorm2d, nn.BatchNorm3d
        ):  # fmt: skip
            continue
        chain = _chain(node, modules)
        if len(chain) > 1:
            _fuse_chain(model, chain, modules, is_qat)
    model.graph.lint()
    model.recompile()


def _next(node: Any, modules: dict[str, Any]) -> Any:
    users = list(node.users)
    if len(users) != 1 or not users[0].args or users[0].args[0] is not node:
        return None
    return users[0]


def _chain(node: Any, modules: dict[str, Any]) -> list[Any]:
    """A layer and what may be fused with it."""
    layer, chain = modules[node.target], [node]
    following = _next(node, modules)
    if _calls_of(node.target, node.graph) > 1:
        return chain
    takes_norm = type(layer) in (*_FIRST, *_TRANSPOSED)
    if (
        takes_norm
        and following is not None
        and following.op == "call_module"
        and (type(modules[following.target]) in _NORMS)
        and _calls_of(following.target, node.graph) == 1
    ):
        chain.append(following)
        following = _next(following, modules)
    if following is not None and is_relu(following, modules) and type(layer) not in _TRANSPOSED:
        if not (type(layer) is nn.Linear and len(chain) > 1):
            chain.append(following)
    return chain


def _fuse_chain(model: nn.Module, chain: list[Any], modules: dict[str, Any], is_qat: bool) -> None:
    parts = [modules[n.target] if n.op == "call_module" else nn.ReLU() for n in chain]
    if type(parts[0]) in _TRANSPOSED and is_qat:
        return
    for part in parts:
        part.training = parts[0].training
    fused = fuse.get_fuser_method(parts, is_qat)(*parts)
    name = chain[0].target
    for holder in (fused, *fused.children()):
        holder.training = parts[0].training
    parent, last = fuse._parent(model, name)
    setattr(parent, last, fused)
    chain[-1].replace_all_uses_with(chain[0])
    for node in reversed(chain[1:]):
        model.graph.erase_node(node)
        if node.op == "call_module" and not _calls_of(node.target, model.graph):
            parent, last = fuse._parent(model, node.target)
            setattr(parent, last, nn.Identity())


def _calls_of(target: str, graph: Any) -> int:
    """How often a graph calls a module."""
    return sum(n.op == "call_module" and n.target == target for n in graph.nodes)


# ------------------------------------------------------------------ configurations


def configure(model: nn.Module, mapping: Any, where: dict[str, Any]) -> dict[Any, Any]:
    """The configuration of every node; `where`: node name -> the module that the call stands in."""
    modules = dict(model.named_modules(remove_duplicate=False))
    counts: dict[Any, int] = {}
    found: dict[Any, Any] = {}
    for node in model.graph.nodes:
        if node.op == "call_module":
            module = modules[node.target]
            base = module[0] if isinstance(module, fuse.nni._FusedModule) else module
            inside = node.target.rpartition(".")[0]
            key = (inside, type(base))
            config = mapping.of(node.target, type(module), inside, counts.get(key, 0))
            if type(base) is not type(module) and type(module) not in mapping.object_type_qconfigs:
                config = mapping.of(node.target, type(base), inside, counts.get(key, 0))
            counts[key] = counts.get(key, 0) + 1
            module.qconfig = config
        elif node.op in ("call_function", "call_method"):
            inside = where.get(node.name, "")
            key = (inside, node.target)
            config = mapping.of(inside, node.target, inside, counts.get(key, 0))
            counts[key] = counts.get(key, 0) + 1
        else:
            config = mapping.global_qconfig
        found[node] = config
    return found


def train_layers(model: nn.Module) -> None:
    """Put layers for training into the places of those with a configuration."""
    for name, module in list(model.named_modules()):
        target = eager.DEFAULT_QAT_MODULE_MAPPINGS.get(type(module))
        config = getattr(module, "qconfig", None)
        if target is None or config is None or not name or not _static(config):
            continue
        parent, last = fuse._parent(model, name)
        made = target.from_float(module)
        made.qconfig = config
        setattr(parent, last, made)


def _static(config: Any) -> bool:
    """Whether activations become 8-bit integers ahead of time."""
    if config is None or config.activation is None:
        return False
    try:
        made = config.activation()
    except TypeError:
        return False
    dynamic = getattr(made, "is_dynamic", False)
    return getattr(made, "dtype", None) in (core.quint8, core.qint8) and not dynamic


# ------------------------------------------------------------------ observers


def _may_be_number(value: Any) -> bool:
    """Whether a node may give a number: a size, or what is computed of such."""
    return hasattr(value, "op") and (
        value.op == "call_method"
        or value.op == "call_function"
        and (value.target is getattr or getattr(value.target, "__module__", "") == "_operator")
    )


class _Kinds(Interpreter):
    """Runs a graph without elements and notes which nodes give no tensors."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.plain: set[Any] = set()

    def run_node(self, n: Any) -> Any:
        """The value of a node."""
        value = super().run_node(n)
        if not isinstance(value, core.Tensor):
            self.plain.add(n)
        return value


def numbers(model: Any, example_inputs: Any) -> set[Any]:
    """The nodes that give numbers and other values which are no tensors: nothing of them is observed.

    The model runs without elements, and only where arithmetic may meet a number; one that does not run so
    has none.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    met = [
        v for n in model.graph.nodes if kind(n, modules) == "arithmetic" for v in n.all_input_nodes
    ]
    if not any(map(_may_be_number, met)) or example_inputs is None:
        return set()
    kinds = _Kinds(model)
    given = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    try:
        with FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True, allow_non_fake_inputs=True):
            kinds.run(*given)
    except Exception:
        # a program that asks for elements: what is known until there counts
        return kinds.plain
    return kinds.plain


class Observing:
    """One model that gets its observers."""

    def __init__(self, model: nn.Module, configs: dict[Any, Any], plain: set[Any]) -> None:
        self.model, self.configs, self.plain = model, configs, plain
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.behind: dict[Any, Any] = {}  # value -> the node of its observer
        self.count = 0

    def run(self) -> None:
        """Put observers in front of and behind everything that can be quantized."""
        for node in list(self.model.graph.nodes):
            config = self.configs.get(node)
            what = kind(node, self.modules)
            if not what or node in self.plain:
                continue
            if what == "shared":
                self._shared(node)
                continue
            if not _static(config) or not self._possible(node, what, config):
                continue
            for value in self._inputs(node, what):
                self._observe_input(node, value, config)
            users = list(node.users)
            fused = what == "arithmetic" and word(node, self.modules) in ("add", "mul", "cat")
            if fused and len(users) == 1 and is_relu(users[0], self.modules):
                node.meta["quantized_relu"] = True
                continue
            self._observe_output(node, self._maker(node, config))

    def _possible(self, node: Any, what: str, config: Any) -> bool:
        if what != "weighted":
            return True
        module = self.modules[node.target]
        weight = getattr(module, "weight_fake_quant", None) or config.weight()
        return getattr(weight, "dtype", None) is core.qint8

    def _inputs(self, node: Any, what: str) -> list[Any]:
        if what == "arithmetic":
            first = node.args[0]
            values = list(first) if isinstance(first, (list, tuple)) else list(node.args[:2])
        else:
            values = list(node.args[:1]) or [node.kwargs.get("input")]
        return [v for v in values if hasattr(v, "op") and v not in self.plain]

    def _maker(self, node: object, config: object) -> Any:
        interval = FIXED.get(word(node, self.modules).lower())
        return eager.activation_maker(config, interval)

    def _put(self, value: object, observer: Any) -> Any:
        """A node that calls an observer on a value."""
        if isinstance(observer, str):
            name = observer
        else:
            name = f"activation_post_process_{self.count}"
            self.count += 1
            observer.train(self.model.training)
            self.model.add_module(name, observer)
        with self.model.graph.inserting_after(value):
            made = self.model.graph.call_module(name, (value,))
        self.behind[value] = made
        return made

    def _observe_input(self, node: Any, value: Any, config: Any) -> None:
        if value in self.behind.values():
            return
        made = self.behind.get(value) or self._put(value, config.activation())
        node.replace_input_with(value, made)

    def _observe_output(self, node: Any, maker: Any) -> None:
        self._through(node, self._put(node, maker()))

    def _through(self, node: Any, made: object) -> None:
        for user in list(node.users):
            if user is not made:
                user.replace_input_with(node, made)

    def _shared(self, node: Any) -> None:
        first = node.args[0] if node.args else None
        if first is not None and hasattr(first, "op") and first.meta.get("quantized_relu"):
            self._observe_output(node, self.configs[first].activation)
            return
        known = set(self.behind.values())
        if first is not None and first in known:
            self._through(node, self._put(node, first.target))


def observe(model: nn.Module, configs: dict[Any, Any], plain: set[Any]) -> None:
    """Put observers into a graph; `plain` are the nodes that give no tensors."""
    Observing(model, configs, plain).run()
    model.graph.lint()
    model.recompile()
