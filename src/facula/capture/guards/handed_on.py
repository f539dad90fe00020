"""A captured graph for a backend that compiles for the sizes and the memory of its examples.

Takes: a captured graph, its examples, and what capture knows of it.
Gives: the graph compiled as often as its calls need.
Keeps true: a backend of the program's own that hands a captured graph on to one of ours, as it is or as a copy, gets
what `compile` itself would make of it: the knowledge is part of the graph until it is used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from facula.capture.guards.by_memory import ByMemory
from facula.capture.guards.by_sizes import BySizes, compiled_by
from facula.capture.guards.pieces import Pieces

__all__ = ["Captured", "compiled", "handed_on", "note"]

_NAME = "captured"


class Captured(NamedTuple):
    """What capture knows of a graph."""

    function: str
    #: for each input the dimensions that may change; None where none may
    dynamic: list[Any] | None
    #: whether the graph reads numbers from elements
    reads: bool
    #: whether it writes to inputs that may share memory
    by_memory: bool
    #: whether it counts places in memory, as `as_strided` does
    places: bool


def note(graph_module: Any, known: Captured) -> None:
    """Leave with a graph what is known of it, for a backend that gets it later."""
    graph_module.meta[_NAME] = known


def handed_on(backend: Any, graph_module: Any, inputs: list[Any]) -> Any:
    """A captured graph that a backend of the program's own has handed on, compiled; None for other graphs."""
    known = getattr(graph_module, "meta", {}).pop(_NAME, None)
    if known is None or not any((known.dynamic, known.reads, known.by_memory, known.places)):
        return None
    return compiled(backend, graph_module, inputs, known)


def compiled(backend: Any, graph_module: Any, inputs: list[Any], known: Captured) -> Any:
    """The graph compiled by a backend that looks at its examples."""

    def make(examples: list[Any]) -> Any:
        if known.reads:
            return Pieces(backend, graph_module, known.function)
        if known.dynamic is not None:
            return BySizes(backend, graph_module, examples, known.dynamic, known.function)
        return compiled_by(backend, graph_module, examples, known.function)

    if known.by_memory or known.places:
        return ByMemory(make, graph_module, inputs, known.function, known.places).function()
    return make(inputs)
