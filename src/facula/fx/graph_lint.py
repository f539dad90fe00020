"""Checks of a graph.

Takes a graph.  Raises `RuntimeError` with what is wrong: a node of another graph, an argument that
comes later, a name that is taken, an opcode or target that does not fit, an attribute that the owning
module does not have.
Keeps true: nothing is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.core.errors import fail
from facula.fx import names
from facula.fx.node import OPCODES, Node
from facula.nn import Module

if TYPE_CHECKING:
    from facula.fx.graph import Graph


def _wrong(required: str, got: object = None) -> None:
    fail(
        RuntimeError,
        "lint",
        required,
        got=got,
        hint="look at print(graph): some change of the graph left it incomplete",
    )


def check(graph: Graph) -> None:
    """Raise for the first thing that is wrong with a graph."""
    seen: set[Node] = set()
    taken: set[str] = set()
    for node in graph.nodes:
        if node.op not in OPCODES or node.op == "root":
            _wrong(f"a known opcode was required of node {node}", node.op)
        if node.graph is not graph:
            _wrong(
                f"nodes of this graph were required: Node '{node}' does not belong to this Graph!"
            )
        for used in node._input_nodes:
            if used not in seen:
                where = "is defined later" if used.graph is graph else "belongs to another graph"
                _wrong(
                    f"arguments that were computed before were required: Argument '{used}' of Node "
                    f"'{node}' was used before it has been defined! It {where}."
                )
        if node.name in taken:
            _wrong(f"unique names were required: Node redefined name {node.name}!")
        _check_users(node)
        _check_target(node)
        taken.add(node.name)
        seen.add(node)
    if graph.owning_module is not None:
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _check_attribute(graph.owning_module, node)


def _check_users(node: Node) -> None:
    for user in node.users:
        if node not in user._input_nodes or user._erased:
            _wrong(f"users that use the node were required of '{node}'", user.name)


def _check_target(node: Node) -> None:
    if node.op == "call_function":
        if not callable(node.target):
            _wrong(f"a callable target was required of node '{node}'", repr(node.target))
    elif not isinstance(node.target, str):
        _wrong(f"a string was required as the target of node '{node}'", repr(node.target))
    elif node.op == "placeholder" and not names.is_parameter(node.target):
        _wrong(f"an identifier was required as the target of node '{node}'", repr(node.target))
    if not names.is_name(node.name):
        _wrong("identifiers were required as names of nodes", repr(node.name))
    if not all(isinstance(key, str) for key in node.kwargs):
        _wrong(f"keywords that are strings were required of node '{node}'", repr(node.kwargs))
    if node.op == "output" and node._next.op != "root":
        _wrong(f"an output at the end was required: node '{node._next}' stands behind it")


def _check_attribute(owner: object, node: Node) -> None:
    at = owner
    for part in str(node.target).split("."):
        if not hasattr(at, part):
            _wrong(
                f"an attribute of the owning module was required: Node {node} target {node.target} "
                f"references nonexistent attribute {part} of {type(at).__name__}"
            )
        at = getattr(at, part)
    if node.op == "call_module" and not isinstance(at, Module):
        _wrong(
            f"a submodule was required: Node {node} target {node.target} does not reference an nn.Module",
            type(at).__name__,
        )
