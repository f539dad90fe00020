"""Layers that follow each other and become one module, by the patterns of a `BackendConfig`.

Takes: a traced model. Gives: the model with fused modules. Keeps true: a layer that is called in several places is
fused only where all of them fit in the same way.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula.fx import Node
from facula.nn import functional
from facula.ops.table.registry import own_operators
from facula.quantization.backend_config.classes import BackendConfig
from facula.quantization.fuse import _parent
from facula.quantization.graph.matching import Match, MatchAllNode, all_matches, same_call


def _method(config: Any) -> Any:
    """What fuses the modules of a match, called with them in the shape of the match."""
    if config._pattern_complex_format is not None or not isinstance(config.pattern, tuple):
        return config.fuser_method
    method = config.fuser_method
    if len(config.pattern) == 2:
        return lambda is_qat, last, first: method(is_qat, first, last)
    return lambda is_qat, last, before: method(is_qat, before[1], before[0], last)


def _part(node: Any, modules: dict[str, Any], training: bool) -> Any:
    """What stands for a node where its module is asked for."""
    if isinstance(node, tuple):
        return tuple(_part(n, modules, training) for n in node)
    if not isinstance(node, Node):
        return MatchAllNode
    if node.op == "call_module":
        return modules[str(node.target)]
    for function, kind in _MODULES:
        if node.op == "call_function" and same_call(node.target, function):
            made = kind()
            made.train(training)
            return made
    return node.target if node.op in ("call_function", "call_method") else MatchAllNode


#: functions that are computed by a module in a fused one
_MODULES = (
    (functional.relu, nn.ReLU),
    (own_operators()["relu"], nn.ReLU),
    (functional.leaky_relu, nn.LeakyReLU),
    (functional.tanh, nn.Tanh),
)


def _has_state(module: Any) -> bool:
    return any(True for _ in (*module.parameters(), *module.buffers()))


def _ready(match: Match, found: dict[Any, Match], graph: Any, modules: dict[str, Any]) -> bool:
    """Whether all calls of the layers of a match are in such matches; a relu may be called elsewhere."""
    for node in match.nodes:
        if (
            node.op != "call_module"
            or node is not match.root
            and not _has_state(modules[node.target])
        ):
            continue
        for other in graph.nodes:
            same = other.op == "call_module" and other.target == node.target
            if same and (other not in found or found[other].pattern is not match.pattern):
                return False
    return True


def fuse_graph(model: Any, is_qat: bool, backend: BackendConfig) -> None:
    """Make one module of the layers of every pattern that a backend fuses."""
    configs = {
        pattern: config
        for pattern, config in backend._pattern_complex_format_to_config.items()
        if config.fuser_method is not None
    }
    modules = dict(model.named_modules(remove_duplicate=False))
    found = all_matches(model.graph, modules, configs)
    ready = [
        match
        for match in {id(m): m for m in found.values()}.values()
        if not (is_qat and _is_turned(match, modules))
        and _ready(match, found, model.graph, modules)
    ]
    for match in ready:
        _fuse(model, match, modules, is_qat)
    model.graph.lint()
    model.recompile()
    model.delete_all_unused_submodules()


def _is_turned(match: Match, modules: dict[str, Any]) -> bool:
    """Whether the layer is a transposed convolution, which cannot be trained with its norm."""
    turned = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    return match.root.op == "call_module" and type(modules[match.root.target]) in turned


def _fuse(model: Any, match: Match, modules: dict[str, Any], is_qat: bool) -> None:
    root = match.root
    training = modules[root.target].training if root.op == "call_module" else model.training
    for node in match.nodes:
        if node.op == "call_module" and node is not root:
            modules[str(node.target)].train(training)
    parts = _part(match.parts, modules, training)
    method = _method(match.config)
    fused = method(is_qat, *parts) if isinstance(parts, tuple) else method(is_qat, parts)
    for holder in (fused, *fused.children()):
        holder.training = training
    parent, last = _parent(model, str(root.target))
    setattr(parent, last, fused)
    root.args = (*root.args, *match.extra)
    order = [n for n in model.graph.nodes if n in match.nodes]
    if match.extra:
        match.last.prepend(root)
    match.last.replace_all_uses_with(root)
    for node in reversed(order):
        if node is not root:
            model.graph.erase_node(node)
