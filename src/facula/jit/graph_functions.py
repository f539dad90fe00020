"""Functions of graphs that no source text stands behind: parsed, frozen, or put together by a program.

Takes a graph. Gives a unit that runs it, as those of sources do.
Keeps true: the graph is the unit's own; it runs as it stands at the first call.
"""

from __future__ import annotations

import ast
from typing import Any

from facula.jit.functions import Empty, FunctionUnit
from facula.jit.ir import Graph, Node
from facula.jit.source import Source
from facula.ops.schemas import types as T

__all__ = ["unit_of_graph"]


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


def _joined(graph: Graph) -> None:
    """One result: the tuple of all, or None."""
    if not graph.results:
        made = Node(graph, "prim::Constant", [], [T.NONE], {"value": None})
    else:
        kinds = [v.type for v in graph.results]
        made = Node(graph, "prim::TupleConstruct", list(graph.results), [T.tuple_of(kinds)])
    graph.nodes_.append(made)
    graph.results = [made.outputs_[0]]
