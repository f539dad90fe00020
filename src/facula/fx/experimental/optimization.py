"""Passes for inference on traced models.

Takes a module.  Gives `fuse` (convolutions with the batch norms behind them become one), and
`remove_dropout`.
Keeps true: the module that is given stays as it is, unless `inplace`; results stay the same up to
rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from facula import nn
from facula.fx._symbolic_trace import Tracer, symbolic_trace
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.interpreter import Transformer
from facula.fx.node import Argument, Node, Target
from facula.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = [
    "extract_subgraph", "fuse", "matches_module_pattern", "optimize_for_inference", "remove_dropout",
    "replace_node_module",
]  # fmt: skip

_PATTERNS: tuple[tuple[type, type, Any], ...] = (
    (nn.Conv1d, nn.BatchNorm1d, fuse_conv_bn_eval),
    (nn.Conv2d, nn.BatchNorm2d, fuse_conv_bn_eval),
    (nn.Conv3d, nn.BatchNorm3d, fuse_conv_bn_eval),
    (nn.Linear, nn.BatchNorm1d, fuse_linear_bn_eval),
)


def _parent_name(target: str) -> tuple[str, str]:
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Whether a node calls a module of the second class on what one of the first class gives."""
    if not node.args or not isinstance(node.args[0], Node):
        return False
    for wanted, at in zip(pattern, (node.args[0], node), strict=True):
        if at.op != "call_module" or type(modules.get(str(at.target))) is not wanted:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: nn.Module) -> None:
    """Have a node call another module under the same name."""
    parent, name = _parent_name(str(node.target))
    modules[str(node.target)] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """A module in which batch norms are part of the convolutions (or linear layers) before them.

    Args:
        model: in evaluation mode.
        inplace: change the model itself.
        no_trace: it is a `GraphModule` already.
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    for first, second, fusion in _PATTERNS:
        for node in traced.graph.nodes:
            if not matches_module_pattern((first, second), node, modules):
                continue
            source: Node = node.args[0]
            norm = modules[str(node.target)]
            shared = len(source.users) > 1 or _calls(traced, str(source.target)) > 1
            if shared or not norm.track_running_stats:
                continue  # somebody else needs the result without the norm, or the norm is not fixed
            replace_node_module(source, modules, fusion(modules[str(source.target)], norm))
            node.replace_all_uses_with(source)
            traced.graph.erase_node(node)
    made = GraphModule(traced, traced.graph)
    made.delete_all_unused_submodules()
    return made


def _calls(module: GraphModule, target: str) -> int:
    return sum(n.op == "call_module" and n.target == target for n in module.graph.nodes)


def remove_dropout(model: nn.Module) -> nn.Module:
    """A module without its dropout layers."""

    class DropoutRemover(Transformer):
        def call_module(
            self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
        ) -> Any:
            if isinstance(self.submodules[str(target)], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return DropoutRemover(symbolic_trace(model)).transform()


def extract_subgraph(
    orig_module: nn.Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """A module of some nodes of a graph.

    Args:
        orig_module: what they read from.
        nodes: in order.
        inputs: the nodes that become inputs.
        outputs: the nodes that are returned.
    """
    graph = Graph()
    env: dict[Node, Node] = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        env[node] = graph.node_copy(node, lambda n: env[n])
    graph.output([env[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def optimize_for_inference(
    model: nn.Module,
    pass_config: dict[str, Any] | None = None,
    tracer: type[Tracer] = Tracer,
) -> nn.Module:
    """A faster module for inference: norms fused, dropout removed.

    Args:
        model: in evaluation mode.
        pass_config: `{"conv_bn_fuse": False, "remove_dropout": False}` leave these out.
        tracer: the class that traces.
    """
    config = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if config["remove_dropout"]:
        model = remove_dropout(model)
    if config["conv_bn_fuse"]:
        model = fuse(model)
    made = tracer()
    graph = made.trace(copy.deepcopy(model))
    return GraphModule(made.root, graph)
