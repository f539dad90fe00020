"""Taking groups of nodes out of a graph into submodules.

Takes a graph module and groups of its nodes.  Gives the module, changed: each group is one call.
Keeps true: the module computes what it did; nodes are in an order that fits the new calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import getitem

from facula.core.errors import fail
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node

__all__ = [
    "erase_nodes",
    "fuse_as_graphmodule",
    "fuse_by_partitions",
    "insert_subgm",
    "legalize_graph",
    "topo_sort",
    "validate_partition",
]


def topo_sort(nodes: Iterable[Node]) -> list[Node]:
    """Nodes in an order in which each stands behind those that it uses; otherwise as they were."""
    wanted = list(nodes)
    inside = set(wanted)
    done: dict[Node, None] = {}
    waiting = [(n, False) for n in reversed(wanted)]
    path: set[Node] = set()
    while waiting:
        node, left = waiting.pop()
        if left:
            path.discard(node)
            done[node] = None
            continue
        if node in done:
            continue
        if node in path:
            fail(AssertionError, "topo_sort", "nodes without a circle were required: topological sorted nodes "
                 "doesn't have same length as input nodes", got=node.name,
                 hint="a node comes after the nodes that it uses: graph.lint() finds where it does not")  # fmt: skip
        path.add(node)
        waiting.append((node, True))
        waiting.extend(
            (u, False) for u in reversed(node.all_input_nodes) if u in inside and u not in done
        )
    return list(done)


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Put the nodes of a graph into an order that runs."""
    order = topo_sort(gm.graph.nodes)
    output = [n for n in order if n.op == "output"]
    inputs = [n for n in order if n.op == "placeholder"]
    rest = [n for n in order if n.op not in ("output", "placeholder")]
    for node in [*inputs, *rest, *output]:
        gm.graph._root.prepend(node)
    return gm


def fuse_as_graphmodule(
    gm: GraphModule, nodes: list[Node], module_name: str
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """A module of some nodes, with the nodes that it takes and the nodes that it gives."""
    inside = set(nodes)
    graph = Graph()
    env: dict[Node, Node] = {}
    inputs: dict[Node, None] = {}
    for node in nodes:
        for used in node.all_input_nodes:
            if used not in inside and used not in inputs:
                inputs[used] = None
                env[used] = graph.placeholder(used.name, used.type)
                env[used].meta = used.meta.copy()
    for node in topo_sort(nodes):
        env[node] = graph.node_copy(node, lambda n: env[n])
    outputs = tuple(n for n in nodes if any(u not in inside for u in n.users))
    results = tuple(env[n] for n in outputs)
    graph.output(results[0] if len(results) == 1 else results)
    graph.lint()
    return GraphModule(gm, graph, class_name=module_name), tuple(inputs), outputs


def validate_partition(partition: list[Node]) -> bool:
    """Whether a group of nodes can be one call: nothing that it gives comes back to it from outside.

    Args:
        partition: the nodes.

    Example:
        >>> from facula.fx.passes.utils.fuser_utils import validate_partition
        >>> _, y, z, w, _ = facula.fx.symbolic_trace(lambda x: x.sin().cos().tan()).graph.nodes
        >>> validate_partition([y, z]), validate_partition([y, w])
        (True, False)
    """
    inside = set(partition)
    waiting = [user for node in partition for user in node.users if user not in inside]
    seen = set(waiting)
    while waiting:
        for user in waiting.pop().users:
            if user in inside:
                return False
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return True


def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Puts a call of a module into a graph, whose results take the places of nodes.

    Args:
        gm: the module, which is changed.
        sub_gm: what is called; its class's name is its name in `gm`.
        orig_inputs: the nodes that it takes.
        orig_outputs: the nodes whose readers read its results.
        insertion_point: the node behind which the call stands; None is in front of the output.

    Example:
        >>> from facula.fx.passes.utils import fuser_utils
        >>> gm = facula.fx.symbolic_trace(lambda x: x.sin().cos())
        >>> nodes = list(gm.graph.nodes)[1:3]
        >>> made, inputs, outputs = fuser_utils.fuse_as_graphmodule(gm, nodes, "part")
        >>> _ = fuser_utils.insert_subgm(gm, made, inputs, outputs)
        >>> fuser_utils.erase_nodes(gm, nodes)
        >>> [node.op for node in gm.graph.nodes]
        ['placeholder', 'call_module', 'output']
    """
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    place = (
        gm.graph.inserting_before(gm.graph.output_node())
        if insertion_point is None
        else gm.graph.inserting_after(insertion_point)
    )
    with place:
        call = gm.graph.call_module(name, orig_inputs)
    result = sub_gm.graph.output_node().args[0]
    if len(orig_outputs) == 1 and not isinstance(result, tuple):
        call.meta = orig_outputs[0].meta.copy()
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=False)
        return gm
    behind = call
    for place_of, old in enumerate(orig_outputs):
        with gm.graph.inserting_after(behind):
            behind = gm.graph.call_function(getitem, (call, place_of))
        behind.meta = old.meta.copy()
        old.replace_all_uses_with(behind, delete_user_cb=_not(behind))
    return gm


def _not(node: Node) -> Callable[[Node], bool]:
    return lambda user: user is not node


def erase_nodes(gm: GraphModule, nodes: list[Node]) -> None:
    """Takes nodes out of a graph, the last one first.

    Args:
        gm: the module, which is changed.
        nodes: nodes that nothing else reads, each behind what it reads.
    """
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def _outside(nodes: list[Node]) -> Callable[[Node], bool]:
    inside = set(nodes)
    return lambda user: user not in inside


def fuse_by_partitions(
    gm: GraphModule, partitions: Iterable[Iterable[Node]], prefix: str = "fused_"
) -> GraphModule:
    """Put each group of nodes into a submodule `<prefix><number>`."""
    taken: set[Node] = set()
    for number, nodes in enumerate(partitions):
        nodes = list(nodes)
        twice = taken.intersection(nodes)
        if twice:
            fail(
                AssertionError,
                "fuse_by_partitions",
                "groups without a node in common",
                sorted(node.name for node in twice),
                hint="take it out of one of them",
            )
        taken.update(nodes)
        name = f"{prefix}{number}"
        order = topo_sort(sorted(nodes))
        if not validate_partition(order):
            fail(
                AssertionError,
                "fuse_by_partitions",
                "groups that nothing outside depends on and leads back to (Invalid partition, found dependency cycles)",
                [node.name for node in order],
                hint="take the nodes between into the group, or part it",
            )
        made, inputs, outputs = fuse_as_graphmodule(gm, order, name)
        gm.add_submodule(name, made)
        with gm.graph.inserting_before(gm.graph.output_node()):
            call = gm.graph.call_module(name, inputs)
            if len(outputs) == 1:
                replaced = [call]
                call.meta = outputs[0].meta.copy()
            else:
                replaced = [gm.graph.call_function(getitem, (call, i)) for i in range(len(outputs))]
        for old, new in zip(outputs, replaced, strict=True):
            old.replace_all_uses_with(new, delete_user_cb=_outside(order))
        for node in reversed(order):
            gm.graph.erase_node(node)
        legalize_graph(gm)
    gm.graph.lint()
    gm.recompile()
    return gm
