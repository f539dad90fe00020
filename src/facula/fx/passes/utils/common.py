"""A graph as a module of its own, and whether two graphs are the same.

Takes: graphs. Gives: `lift_subgraph_as_module`, `compare_graphs`.
Keeps true: modules and parameters are shared, not copied.
"""

from __future__ import annotations

from typing import Any

from facula import nn
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.passes.utils.matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(nn.Module):
    """A module that has others as its attributes.

    Args:
        d: from names to modules.

    >>> from facula.fx.passes.utils.common import HolderModule
    >>> [name for name, _ in HolderModule({"a": facula.nn.ReLU()}).named_children()]
    ['a']
    """

    def __init__(self, d: dict[str, nn.Module]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def _put(root: Any, path: str, value: Any) -> None:
    """Sets an attribute of a dotted path, with modules on the way."""
    *way, last = path.split(".")
    for part in way:
        if not hasattr(root, part):
            root.add_module(part, HolderModule({}))
        root = getattr(root, part)
    setattr(root, last, value)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """A module of a graph that calls modules and reads attributes of another.

    Args:
        gm: the module that has them.
        subgraph: the graph, which is changed.
        comp_name: the name that the new module will have, for the mapping.
        class_name: of the new module.

    Returns:
        The module, and from names in it, behind `comp_name`, to names in `gm`.

    >>> from facula.fx.passes.utils.common import lift_subgraph_as_module
    >>> traced = facula.fx.symbolic_trace(facula.nn.Sequential(facula.nn.Linear(2, 2)))
    >>> lifted, names = lift_subgraph_as_module(traced, traced.graph, "part")
    >>> names
    {'part.0': '0'}
    """
    root = HolderModule({})
    names: dict[str, str] = {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = str(node.target)
        value: Any = gm
        for part in target.split("."):
            value = getattr(value, part)
        _put(root, target, value)
        names[f"{comp_name}.{target}" if comp_name else target] = target
    return GraphModule(root, subgraph, class_name), names


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs have the same inputs, calls and results.

    Args:
        left, right: the graphs.

    >>> from facula.fx.passes.utils.common import compare_graphs
    >>> one, other = (facula.fx.symbolic_trace(lambda x: x.sin()).graph for _ in range(2))
    >>> compare_graphs(one, other), compare_graphs(one, facula.fx.symbolic_trace(lambda x: x).graph)
    (True, False)
    """
    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return len(left.nodes) == len(right.nodes) and len(matcher.match(right)) > 0
