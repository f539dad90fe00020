"""One module for each part of a graph.

Takes a graph module and a function that says to which part each node belongs.  Gives a module that
calls the parts, `submod_<part>`, one after the other.
Keeps true: the result does what the whole did; a part gets what it uses, and gives what others use;
parts that need each other in a circle are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any

from facula import nn
from facula.core.errors import fail
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node, map_arg

__all__ = ["Partition", "split_module", "split_module_simple"]


class Partition:
    """One part: its nodes, what it takes and what it gives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.dependencies: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}


def split_module(
    m: GraphModule,
    root_m: nn.Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module with a submodule for each part of a graph.

    Args:
        m: the graph.
        root_m: what its nodes read from.
        split_callback: the number (or name) of the part of a node.
        qualname_map: gets names in the new module -> names in the old one.
        keep_original_order: call parts in the order of their first nodes, if that is possible.
        keep_original_node_name: nodes in parts keep their names.
        keep_original_input_name: placeholders of parts have the names of what they take.
        partition_affix: put before the numbers in `submod_<affix>_<part>`.
        tuple_return: parts with one result return it in a tuple.
    """
    root_m = m if root_m is None else root_m
    parts, owner = _parts(m, split_callback, partition_affix)
    _connect(m, parts, owner)
    order = _ordered(parts, bool(keep_original_order))
    for name in order:
        _fill(parts[name], root_m, qualname_map, tuple_return)
    return _assemble(m, root_m, parts, order, owner, tuple_return)


def split_module_simple(
    m: GraphModule, node_to_partition: dict[Node, int], *, partition_affix: str | None = None
) -> GraphModule:
    """Splits a graph module by a table of its nodes.

    Args:
        m: the module.
        node_to_partition: the number of the part of every node that calls something.
        partition_affix: put before the numbers in `submod_<affix>_<part>`.

    Example:
        >>> from facula.fx.passes.split_module import split_module_simple
        >>> traced = facula.fx.symbolic_trace(lambda x: x.sin().cos())
        >>> _, y, z, _ = traced.graph.nodes
        >>> made = split_module_simple(traced, {y: 0, z: 1})
        >>> [name for name, _ in made.named_children()]
        ['submod_0', 'submod_1']
    """
    return split_module(m, m, node_to_partition.__getitem__, partition_affix=partition_affix)


def _parts(
    m: GraphModule, callback: Callable[[Node], int], affix: str | None
) -> tuple[dict[str, Partition], dict[Node, str]]:
    parts: dict[str, Partition] = {}
    owner: dict[Node, str] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op == "get_attr":
            continue  # read by each part that uses it
        name = str(callback(node))
        name = name if affix is None else f"{affix}_{name}"
        parts.setdefault(name, Partition(name)).nodes.append(node)
        owner[node] = name
    return parts, owner


def _connect(m: GraphModule, parts: dict[str, Partition], owner: dict[Node, str]) -> None:
    """Note what crosses the borders of parts."""
    for node in m.graph.nodes:
        mine = owner.get(node)
        for used in node._input_nodes:
            theirs = owner.get(used)
            if mine is None or theirs == mine:
                if mine is None and theirs is not None and node.op == "output":
                    parts[theirs].outputs[used] = None
                continue
            if used.op == "get_attr":
                continue
            parts[mine].inputs[used] = None
            if theirs is not None:
                parts[theirs].outputs[used] = None
                parts[mine].dependencies[theirs] = None


def _ordered(parts: dict[str, Partition], keep: bool) -> list[str]:
    """The parts, each behind those that it needs."""
    done: dict[str, None] = {}
    waiting = list(parts)
    while waiting:
        ready = [n for n in waiting if all(d in done for d in parts[n].dependencies)]
        if not ready:
            fail(RuntimeError, "split_module", "parts that do not need each other in a circle were required:"
                 " cycle exists between partitions!", got=waiting,
                 hint="put the nodes between two nodes of a part into the same part")  # fmt: skip
        done[ready[0]] = None
        waiting.remove(ready[0])
    return list(done)


def _fill(
    part: Partition, root: nn.Module, qualname_map: dict[str, str] | None, tuple_return: bool
) -> None:
    """Copy the nodes of a part into its graph."""
    env, graph = part.environment, part.graph
    for used in part.inputs:
        made = graph.placeholder(used.name, type_expr=used.type)
        made.meta = used.meta.copy()
        env[used] = made
    for node in part.nodes:
        for used in node._input_nodes:
            if used.op == "get_attr" and used not in env:
                env[used] = _read(part, root, used, qualname_map)
        target = node.target
        if node.op == "call_module":
            target = _local(part, root, str(node.target), qualname_map)
        made = graph.create_node(
            node.op,
            target,
            map_arg(node.args, lambda n: env[n]),
            map_arg(node.kwargs, lambda n: env[n]),
            node.name,
            node.type,
        )
        made.meta = node.meta.copy()
        env[node] = made
    results = tuple(env[n] for n in part.outputs)
    graph.output(results[0] if len(results) == 1 and not tuple_return else results)


def _read(part: Partition, root: nn.Module, node: Node, qualname_map: Any) -> Node:
    made = part.graph.get_attr(_local(part, root, str(node.target), qualname_map))
    made.meta = node.meta.copy()
    return made


def _local(part: Partition, root: nn.Module, path: str, qualname_map: Any) -> str:
    """The name of an attribute of the root inside of a part."""
    value: Any = root
    for piece in path.split("."):
        value = getattr(value, piece)
    name = path.replace(".", "_")
    part.targets[name] = value
    if qualname_map is not None and isinstance(value, nn.Module):
        qualname_map[f"{part.submod_name}.{name}"] = path
    return name


def _assemble(
    m: GraphModule,
    root: nn.Module,
    parts: dict[str, Partition],
    order: list[str],
    owner: dict[Node, str],
    tuple_return: bool,
) -> GraphModule:
    graph = Graph()
    env: dict[Node, Node] = {}
    members: dict[str, Any] = {}
    for node in m.graph.nodes:
        if node.op == "placeholder":
            env[node] = graph.node_copy(node)
        elif node.op == "get_attr" and any(user not in owner for user in node.users):
            env[node] = graph.node_copy(node)
            members[str(node.target)] = _value_at(root, str(node.target))
    for name in order:
        part = parts[name]
        made = GraphModule(part.targets, part.graph)
        made.training = root.training
        members[part.submod_name] = made
        call = graph.call_module(part.submod_name, tuple(env[n] for n in part.inputs))
        outputs = list(part.outputs)
        if len(outputs) == 1 and not tuple_return:
            env[outputs[0]] = call
            call.meta = outputs[0].meta.copy()
        else:
            for i, out in enumerate(outputs):
                env[out] = graph.call_function(getitem, (call, i))
                env[out].meta = out.meta.copy()
    old = m.graph.output_node()
    new = graph.output(map_arg(old.args[0], lambda n: env[n]), old.type)
    new.meta = old.meta.copy()
    return GraphModule(members, graph)


def _value_at(root: Any, path: str) -> Any:
    for piece in path.split("."):
        root = getattr(root, piece)
    return root
