"""What nodes cost in memory, and whole-graph edits.

Takes graph modules.  Gives sizes of outputs and parameters in bytes, by node.
Keeps true: shapes come from `ShapeProp`; a parameter that several nodes read is counted once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from facula import core
from facula.core.errors import fail
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node, Target, map_aggregate, map_arg
from facula.fx.passes.shape_prop import ShapeProp

__all__ = [
    "get_size_of_all_nodes",
    "get_size_of_node",
    "get_tensor_meta",
    "replace_target_nodes_with",
    "size_bytes",
]


class size_bytes(NamedTuple):
    """Bytes of a node's result, and of it together with what it reads."""

    output_size: int
    total_size: int


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Put another opcode and target into all nodes with an opcode and a target."""
    graph = Graph()
    val_map: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args = map_arg(node.args, lambda n: val_map[n])
            kwargs = map_arg(node.kwargs, lambda n: val_map[n])
            val_map[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            val_map[node] = graph.node_copy(node, lambda n: val_map[n])
    fx_module.graph = graph


def get_size_of_all_nodes(fx_module: GraphModule, args: list[core.Tensor] | None = None) -> None:
    """Note in `node.size_bytes` what each node costs; with `args`, shapes are found first."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


def _nbytes(meta: Any) -> int:
    total = 0

    def add(x: object) -> Any:
        nonlocal total
        if hasattr(x, "shape") and hasattr(x, "dtype"):
            total += x.shape.numel() * x.dtype.itemsize
        return x

    map_aggregate(meta if not hasattr(meta, "shape") else [_Leaf(meta)], _unwrapped(add))
    return total


class _Leaf:
    """Keeps a named tuple from being taken apart."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _unwrapped(function: Callable[..., Any]) -> Any:
    return lambda x: function(x.value if isinstance(x, _Leaf) else x)


def get_tensor_meta(node: Node) -> Any:
    """What `ShapeProp` found out of a node's result.

    Args:
        node: the node.

    Raises:
        RuntimeError: nothing is known.

    Example:
        >>> from facula.fx.passes import graph_manipulation, shape_prop
        >>> traced = facula.fx.symbolic_trace(lambda x: x + 1)
        >>> _ = shape_prop.ShapeProp(traced).propagate(facula.ones(2, 3))
        >>> graph_manipulation.get_tensor_meta(list(traced.graph.nodes)[1]).shape
        facula.Size([2, 3])
    """
    found = node.meta.get("tensor_meta")
    if found is None:
        fail(
            RuntimeError,
            "get_tensor_meta",
            f"the shape of node {node} was required: Node {node} has no tensor metadata associated with it!",
            hint="run ShapeProp first",
        )
    return found


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """What a node costs.

    Raises:
        RuntimeError: its shape is not known.
    """
    meta = node.meta.get("tensor_meta", node.meta.get("val"))
    if meta is None:
        fail(RuntimeError, "get_size_of_node", f"the shape of node {node} was required: Node {node} has no "
             "tensor metadata associated with it!", hint="run ShapeProp first")  # fmt: skip
    output = _nbytes(meta)
    total = output
    if node.op == "call_module":
        module = fx_module.get_submodule(str(node.target))
        total += sum(p.numel() * p.element_size() for p in module.parameters())
        total += sum(b.numel() * b.element_size() for b in module.buffers())
    return size_bytes(output, total)
