"""What must hold of a flat graph.

Takes a graph module.  Gives nothing, or raises with the node that is wrong.
Keeps true: only inputs, constants, functional operators and picks of results; arguments stand before
their uses; `meta["val"]` of every node is what its operator gives for the metas of its arguments.
"""

from __future__ import annotations

import operator
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx import GraphModule, Node
from facula.fx.higher_order import HigherOrderOperator
from facula.fx.node import map_arg
from facula.lower import table

OPCODES = ("placeholder", "get_attr", "call_function", "output")


def verify(module: GraphModule, *, after: str = "tracing", metas: bool = True) -> None:
    """Check a flat graph.

    Raises:
        AssertionError: something does not hold; the message names the node and the last pass.
    """
    seen: set[Node] = set()
    for node in module.graph.nodes:
        _check_form(node, seen, after)
        if metas and node.op == "call_function":
            _check_meta(node, after)
        seen.add(node)
    module.graph.lint()


def _wrong(node: Node, wanted: str, got: object, after: str) -> Any:
    return fail(
        AssertionError,
        "verify",
        f"{wanted} was required of node {node.name}",
        f"{got}, after {after}",
        hint="the pass named last broke the graph: FACULA_TRACE writes every stage",
    )


def _check_form(node: Node, seen: set[Node], after: str) -> None:
    if node.op not in OPCODES:
        _wrong(node, f"one of {OPCODES}", node.op, after)
    for argument in node.all_input_nodes:
        if argument not in seen:
            _wrong(node, "an order in which arguments come first", argument.name, after)
    if node.op != "call_function" or node.target is operator.getitem:
        return
    schema = getattr(node.target, "_schema", None)
    if getattr(schema, "is_mutable", False) or "out" in node.kwargs:
        _wrong(node, "an operator that writes nothing", node.target, after)

    known = table.is_copy(node.target) or isinstance(node.target, HigherOrderOperator)
    if table.operator_of(node.target) is None and not known:
        _wrong(node, "an operator of the table", node.target, after)


def _check_meta(node: Node, after: str) -> None:
    known = node.meta.get("val")
    if known is None:
        _wrong(node, "a meta 'val'", "none", after)
    inputs = [n.meta.get("val") for n in node.all_input_nodes]
    if any(n.op == "get_attr" and n.meta.get("val") is None for n in node.all_input_nodes):
        return
    if not inputs:
        return
    args = map_arg(node.args, lambda n: n.meta["val"])
    kwargs = map_arg(node.kwargs, lambda n: n.meta["val"])
    recording = core.set_grad_enabled(False)
    try:
        found = node.target(*args, **kwargs)
    finally:
        core.set_grad_enabled(recording)
    _compare(node, known, found, after)


def _compare(node: Node, known: Any, found: Any, after: str) -> None:
    if isinstance(known, core.Tensor):
        a = (tuple(known.shape), tuple(known.stride()), known.dtype, known.device)
        b = (tuple(found.shape), tuple(found.stride()), found.dtype, found.device)
        if a != b:
            _wrong(node, f"a meta that follows from its arguments ({b})", a, after)
    elif isinstance(known, (tuple, list)):
        if len(known) != len(found):
            _wrong(node, f"{len(found)} results", len(known), after)
        for one, other in zip(known, found, strict=True):
            _compare(node, one, other, after)
