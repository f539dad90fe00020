"""What the operator table says about the nodes of a graph.

Takes nodes whose targets are operators of the table (by whichever overload), core methods or plain
functions.  Gives their definitions, and the few questions that passes ask.
Keeps true: nothing is answered by a list of names: kinds and fields of definitions decide.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from facula import core
from facula.fx import GraphModule
from facula.fx.higher_order import HigherOrderOperator
from facula.fx.symbols import plain
from facula.ops.table.definition import Definition

if TYPE_CHECKING:
    from facula.fx import Node


def operator_of(target: object) -> Any:
    """The operator that a target names (by an overload, a packet, or itself), or None."""
    for name in ("_op", "_function"):
        found = getattr(target, name, None)
        if found is not None:
            target = found
    return target if isinstance(target, core.Op) else None


def is_copy(target: object) -> bool:
    """Whether a target is a method of the core that copies, casts or shows a tensor."""
    return getattr(target, "kind", "") == "method"


def definition_of(node: Node) -> Definition | None:
    """The definition behind a node, None where its target is no operator."""
    if node.op != "call_function":
        return None
    found = operator_of(node.target)
    return None if found is None else found.definition


def is_random(node: Node) -> bool:
    """Whether two runs of the node may give different results."""
    definition = definition_of(node)
    if definition is None and isinstance(node.target, HigherOrderOperator):
        return any(is_random(inner) for graph in graphs_of(node) for inner in graph.nodes)
    return definition is not None and definition.random


def graphs_of(node: Node) -> list[Any]:
    """The graphs of the functions that a call takes."""
    owner = node.graph.owning_module
    found = [
        functools.reduce(getattr, str(n.target).split("."), owner)
        for n in node.all_input_nodes
        if n.op == "get_attr" and owner is not None
    ]
    return [each.graph for each in found if isinstance(each, GraphModule)]


def is_view(node: Node) -> bool:
    """Whether the node shows memory of its argument, or picks one of several results."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    definition = definition_of(node)
    return definition is not None and definition.kind == "view"


def is_cheap(node: Node) -> bool:
    """Whether doing the node again costs about as much as reading its result from memory."""
    if node.op != "call_function" or is_random(node):
        return False
    definition = definition_of(node)
    if definition is None:
        return node.target is operator.getitem or is_copy(node.target)
    if definition.kind in ("pointwise", "view") or definition.cheap:
        return True
    # copies, casts and factories
    return definition.kind == "composite"


def values_of(node: Node) -> list[Any]:
    """The tensors that a node gives, as its `meta` describes them."""
    value = node.meta.get("val")
    if isinstance(value, core.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [v for v in value if isinstance(v, core.Tensor)]
    return []


def bytes_of(node: Node) -> int:
    """How much memory the results of a node take (for the example sizes); a number counts as one."""
    found = values_of(node)
    return sum(plain(math.prod(v.shape)) * v.dtype.itemsize for v in found) if found else 8


def complete(schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Arguments in schema order, defaults filled in."""
    given = []
    for k, parameter in enumerate(schema.parameters):
        if k < len(args) and not parameter.keyword_only:
            given.append(args[k])
        elif parameter.name in kwargs:
            given.append(kwargs[parameter.name])
        else:
            given.append(parameter.default if parameter.has_default else None)
    return given
