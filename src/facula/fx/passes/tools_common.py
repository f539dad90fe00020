"""What several passes need.

Takes nodes and graph modules.  Gives names, tensors in results, and groups of nodes that stay together.
Keeps true: nothing is changed but by `legalize_graph`.
"""

from __future__ import annotations

from collections.abc import Mapping

from facula import core, nn
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node
from facula.fx.passes.operator_support import target_name
from facula.fx.passes.utils.fuser_utils import legalize_graph, topo_sort

__all__ = [
    "CALLABLE_NODE_OPS", "FxNetAccFusionsFinder", "NodeList", "NodeSet", "get_acc_ops_name",
    "get_node_target", "is_node_output_tensor", "legalize_graph", "stable_topological_sort",
]  # fmt: skip

NodeList = list[Node]
NodeSet = set[Node]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k: object) -> str:
    """The name of a function or class."""
    if isinstance(k, str):
        return k
    return f"{getattr(k, '__module__', '')}.{getattr(k, '__name__', k)}"


def get_node_target(submodules: Mapping[str, nn.Module], node: Node) -> str:
    """The name of what a node calls."""
    return target_name(node, submodules)


def is_node_output_tensor(node: Node) -> bool:
    """Whether a node gives a tensor, as far as its meta says."""
    kind = node.meta.get("type")
    if isinstance(kind, type):
        return issubclass(kind, core.Tensor)
    return isinstance(node.meta.get("val"), core.Tensor)


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Puts the nodes of a graph into an order that runs, and moves only those that have to be.

    Args:
        gm: the module, which is changed.

    Example:
        >>> from facula.fx.passes.tools_common import stable_topological_sort
        >>> gm = facula.fx.symbolic_trace(lambda x: x.sin().cos())
        >>> x, y, z, _ = gm.graph.nodes
        >>> z.append(y)
        >>> [node.name for node in stable_topological_sort(gm).graph.nodes]
        ['x', 'sin', 'cos', 'output']
    """
    for node in topo_sort(gm.graph.nodes):
        gm.graph._root.prepend(node)
    gm.recompile()
    return gm


class FxNetAccFusionsFinder:
    """Finds groups of nodes that exchange anything but tensors: they can not be parted."""

    def __init__(self, module: GraphModule, acc_nodes: NodeSet) -> None:
        self.module = module
        self.nodes = list(module.graph.nodes)
        self.acc_nodes = acc_nodes

    def __call__(self) -> dict[Node, NodeSet]:
        """Node -> its group, for nodes that have one."""
        groups: dict[Node, NodeSet] = {}
        for node in self.nodes:
            if (
                node not in self.acc_nodes
                or is_node_output_tensor(node)
                or node.op not in CALLABLE_NODE_OPS
            ):
                continue
            group = {node, *(u for u in node.users if u.op != "output")}
            for member in list(group):
                group |= groups.get(member, set())
            for member in group:
                groups[member] = group
        return {n: g for n, g in groups.items() if g <= self.acc_nodes}
