"""Functions of graphs that no source text stands behind: parsed, frozen, or put together by a program.

Takes a graph. Gives a unit that runs it, as those of sources do.
Keeps true: the graph is the unit's own; it runs as it stands at the first call.
"""

from __future__ import annotations

import ast
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.jit.builder import Builder
from facula.jit.functions import Empty, FunctionUnit
from facula.jit.ir import Graph, Node, Value
from facula.jit.signatures import Signature, signature_of_operator
from facula.jit.source import Source
from facula.ops.table.schema import REQUIRED
from facula.ops.table.schemas import types as T

__all__ = ["unit_of_graph", "unit_of_operator"]


def unit_of_graph(
    graph: Graph,
    name: str,
    self_type: T.ClassType | None = None,
    parameters: list[tuple[str, T.Type, Any]] | None = None,
    result: T.Type | None = None,
) -> FunctionUnit:
    """A unit that runs a graph.

    Args:
        graph: what it runs
        name: the function's name
        self_type: the class whose method it is
        parameters: names, types and defaults of the arguments, where the graph does not say them
        result: the type of the result, where the graph does not say it
    """
    if len(graph.results) != 1:
        _joined(graph)
    arguments = ast.arguments([], [], None, [], [], None, [])
    own = name.rpartition(".")[2]
    made = FunctionUnit(
        name,
        ast.FunctionDef(own, arguments, [], [], lineno=1),
        Source("", "<graph>"),
        lambda n: None,
        {},
        self_type,
    )
    names = graph.names()
    made._read = True
    made._parameters = parameters or [
        (p.hint or f"input_{names[p]}", p.type, Empty) for p in graph.parameters
    ]
    made.found_result = made._result = result or graph.results[0].type
    made.graph = graph
    return made


def unit_of_operator(operator: core.Op) -> FunctionUnit:
    """A unit with the arguments of an operator, which calls it.

    Args:
        operator: what it calls
    """
    signature = signature_of_operator(operator)
    name = operator.definition.public_name
    graph = Graph()
    builder = Builder(graph, Source("", "<graph>"))
    parameters: list[tuple[str, T.Type, Any]] = []
    for p in signature.parameters:
        kind = T.TENSOR if p.type.kind == "Union" else p.type
        if kind.kind == "Any":
            fail(RuntimeError, "jit.script", "a function whose arguments have one type each was required", name,
                 hint="call it in a function with annotations, and script that")  # fmt: skip
        own = "input" if p.name == "self" else p.name  # as functions of nn.functional have it
        parameters.append((own, kind, Empty if p.default is REQUIRED else p.default))
        graph.add_parameter(kind, own)
    values = dict(zip((p.name for p in signature.parameters), graph.parameters, strict=True))
    flag = values.get("inplace")
    if flag is None:
        graph.results = [_called(builder, signature, values)]
    else:  # two operators
        branch = builder.emit("prim::If", [flag], [T.TENSOR])
        for written in (True, False):
            builder.block = branch.add_block()
            chosen = {**values, "inplace": builder.constant(written)}
            builder.block.results = [_called(builder, signature, chosen)]
        graph.results = [branch.outputs_[0]]
    return unit_of_graph(graph, f"__torch__.torch.nn.functional.{name}", None, parameters)


def _called(builder: Builder, signature: Signature, values: dict[str, Value]) -> Value:
    """A call of an operator with all of its arguments."""
    named = {p.name: values[p.name] for p in signature.parameters if p.keyword_only}
    given = [v for name, v in values.items() if name not in named]
    return builder.call(signature.name, given, named, [signature])


def _joined(graph: Graph) -> None:
    """One result: the tuple of all, or None."""
    if not graph.results:
        made = Node(graph, "prim::Constant", [], [T.NONE], {"value": None})
    else:
        kinds = [v.type for v in graph.results]
        made = Node(graph, "prim::TupleConstruct", list(graph.results), [T.tuple_of(kinds)])
    graph.nodes_.append(made)
    graph.results = [made.outputs_[0]]
