"""Groups of nodes by the layer or function that they come from.

Takes: a graph whose nodes say where they come from, and layers and functions. Gives: a `SourcePartition` for each use.
Keeps true: a node is in the group of the innermost layer that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from facula.fx.graph import Graph
from facula.fx.node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """The nodes of one use of a layer or function.

    Args:
        nodes: the nodes.
        source: the layer's class, or the function.
        input_nodes: what they read from outside.
        output_nodes: those that are read outside.
        params: those that read attributes.

    >>> from facula.fx.passes.utils.source_matcher_utils import SourcePartition
    >>> SourcePartition([], facula.nn.ReLU).input_nodes
    []
    """

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def _named(kind: Any) -> str:
    """A class or function by its module and name."""
    if isinstance(kind, str):
        return kind.replace("torch.", "facula.", 1) if kind.startswith("torch.") else kind
    return f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', kind)}".replace(
        "torch.", "facula.", 1
    )


def _short(source: Any) -> str:
    """The name of a function alone, by which strings may ask for it."""
    return _named(source).rpartition(".")[2] if not isinstance(source, type) else ""


def _uses(node: Node) -> list[tuple[Any, Any]]:
    """Which uses a node is of, from the innermost: a key that tells uses apart, and the source."""
    meta, found = node.meta, []
    stack = meta.get("source_fn_stack")
    if stack:
        found.append(tuple(stack[-1]))
    if "torch_fn" in meta:
        found.append(tuple(meta["torch_fn"]))
    function = getattr(node.target, "_op", node.target)
    if node.op == "call_function":
        found.append((node.name, function))
    modules = list((meta.get("nn_module_stack") or {}).items())
    found += [(key, value[-1]) for key, value in reversed(modules)]
    return found


def _partition(nodes: list[Node], source: Any) -> SourcePartition:
    inside = set(nodes)
    inputs = dict.fromkeys(
        arg for node in nodes for arg in node.all_input_nodes if arg not in inside
    )
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    params = [node for node in nodes if node.op == "get_attr"]
    return SourcePartition(nodes, source, list(inputs), outputs, params)


def get_source_partitions(
    graph: Graph,
    wanted_sources: list[Any],
    filter_fn: Callable[[Node], bool] | None = None,
) -> dict[Any, list[SourcePartition]]:
    """The nodes of every use of some layers and functions.

    Args:
        graph: a graph whose nodes have `nn_module_stack`, `source_fn_stack` or `torch_fn` in their meta.
        wanted_sources: classes of layers, and functions.
        filter_fn: which nodes of a partition's results count: a partition counts if all of them do.

    Returns:
        From those that were found to their uses.

    >>> from facula.fx.passes.utils.source_matcher_utils import get_source_partitions
    >>> program = facula.export.export(facula.nn.Sequential(facula.nn.ReLU()), (facula.ones(2),))
    >>> found = get_source_partitions(program.graph, [facula.nn.ReLU])
    >>> [use.output_nodes for use in found[facula.nn.ReLU]]
    [[relu]]
    """
    wanted = {_named(source): source for source in wanted_sources}
    uses: dict[Any, dict[Any, list[Node]]] = {}
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        for key, source in _uses(node):
            found = wanted.get(_named(source), wanted.get(_short(source)))
            if found is not None:
                uses.setdefault(found, {}).setdefault(key, []).append(node)
                break
    made = {
        source: [_partition(nodes, source) for nodes in groups.values()]
        for source, groups in uses.items()
    }
    if filter_fn is None:
        return made
    kept = {
        source: [use for use in each if all(map(filter_fn, use.output_nodes))]
        for source, each in made.items()
    }
    return {source: each for source, each in kept.items() if each}


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether a group reads what another one gives.

    Args:
        subgraph1: the group that gives.
        subgraph2: the group that reads.

    >>> from facula.fx.passes.utils.source_matcher_utils import SourcePartition, check_subgraphs_connected
    >>> x, y, z, _ = facula.fx.symbolic_trace(lambda x: x.sin().cos()).graph.nodes
    >>> check_subgraphs_connected(SourcePartition([y], "sin"), SourcePartition([z], "cos"))
    True
    """
    given = set(subgraph1.nodes)
    return any(node in given for other in subgraph2.nodes for node in other.all_input_nodes)
