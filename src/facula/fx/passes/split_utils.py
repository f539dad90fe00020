"""Splitting a graph by tags.

Takes a graph module whose nodes have `tag` attributes.  Gives a module with a submodule for each tag.
Keeps true: submodules are called in the order that is given, and have the tags as names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from facula.core.errors import fail
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node
from facula.fx.passes.split_module import split_module
from facula.fx.passes.tools_common import is_node_output_tensor

__all__ = [
    "Component",
    "getattr_recursive",
    "move_non_tensor_nodes_on_boundary",
    "setattr_recursive",
    "split_by_tags",
]


@dataclass
class Component:
    """One part of a graph while it is made.

    Args:
        graph: of the part.
        order: its place among the parts.
        name: of the submodule.
        input_placeholders: the inputs of `graph`.
        orig_inputs: the nodes of the whole graph that they stand for.
        orig_outputs: the nodes of the whole graph that the part gives.
        getattr_maps: from nodes of the whole graph that read attributes to those of `graph`.
        constructor_args: names of what the part's module is made with.
        gm: the part's module, once it is made.

    Example:
        >>> from facula.fx.passes.split_utils import Component
        >>> Component(facula.fx.Graph(), 0, "part").orig_inputs
        []
    """

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


def getattr_recursive(obj: object, name: str) -> object:
    """The attribute of a dotted path; None where there is none."""
    for part in name.split("."):
        if not hasattr(obj, part):
            return None
        obj = getattr(obj, part)
    return obj


def setattr_recursive(obj: object, attr: str, value: object) -> None:
    """Set the attribute of a dotted path."""
    *prefix, last = attr.split(".")
    for part in prefix:
        obj = getattr(obj, part)
    setattr(obj, last, value)


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> GraphModule | tuple[GraphModule, dict[str, str]]:
    """A module with a submodule for each tag.

    Args:
        gm: nodes other than inputs, attributes and the output have `node.tag`.
        tags: in the order in which the submodules run.
        return_fqn_mapping: give names in the new module -> names in the old one as well.
        return_tuple: submodules with one result return it in a tuple.
        GraphModuleCls: kept for PyTorch's API.
    """

    def tag_of(node: Node) -> str:
        tag = getattr(node, "tag", None)
        if tag not in tags:
            fail(
                AssertionError,
                "split_by_tags",
                f"one of the tags {tags} was required of node {node}",
                tag,
                hint="node.tag names the part of a node",
            )
        return str(tag)

    mapping: dict[str, str] = {}
    made = split_module(gm, gm, tag_of, mapping, tuple_return=return_tuple)  # type: ignore[arg-type]
    for node in made.graph.nodes:
        if node.op == "call_module":
            name = str(node.target).removeprefix("submod_")
            made.add_module(name, made.get_submodule(str(node.target)))
            delattr(made, str(node.target))
            node.target = name
    made.recompile()
    mapping = {k.removeprefix("submod_"): v for k, v in mapping.items()}
    return (made, mapping) if return_fqn_mapping else made


def move_non_tensor_nodes_on_boundary(subgraphs: list[list[Node]]) -> None:
    """Put nodes that give no tensor together with their users, when all of these are in one part."""
    where = {node: i for i, nodes in enumerate(subgraphs) for node in nodes}
    for i, nodes in enumerate(subgraphs):
        for node in list(reversed(nodes)):
            targets = {where[u] for u in node.users if u in where}
            if not is_node_output_tensor(node) and len(targets) == 1 and i not in targets:
                target = targets.pop()
                nodes.remove(node)
                subgraphs[target].insert(0, node)
                where[node] = target
