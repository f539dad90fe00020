"""Looking at graphs of pipes, and changing them.

Takes graphs of `traverse_dps`. Gives pipes, or the graph after a change. Keeps true: where a pipe is
replaced, all that held it hold the new one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from facula.core.errors import fail
from facula.data.dataloader2.random import SeedGenerator
from facula.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from facula.data.graph import DataPipe, DataPipeGraph, traverse_dps
from facula.data.graph_settings import get_all_graph_pipes, is_own_method

__all__ = [
    "DataPipe",
    "DataPipeGraph",
    "find_dps",
    "list_dps",
    "remove_dp",
    "replace_dp",
    "set_datapipes_seed",
    "set_graph_random_seed",
    "traverse_dps",
]


def list_dps(graph: DataPipeGraph, exclude_dps: Any = None) -> list[Any]:
    """The pipes of a graph, without some, and without what stands before those."""
    excluded = exclude_dps if isinstance(exclude_dps, (list, tuple)) else [exclude_dps]
    ids = {
        id(below)
        for pipe in excluded
        if pipe is not None
        for below in get_all_graph_pipes(traverse_dps(pipe))
    }
    return [pipe for pipe in get_all_graph_pipes(graph) if id(pipe) not in ids]


def find_dps(graph: DataPipeGraph, dp_type: type) -> list[Any]:
    """The pipes of exactly one class."""
    return [pipe for pipe in get_all_graph_pipes(graph) if type(pipe) is dp_type]


def _swapped(value: Any, old: IterDataPipe, new: IterDataPipe) -> Any:
    """A value with one pipe put for another one, also within its containers."""
    if value is old:
        return new
    if isinstance(value, dict):
        return {key: _swapped(each, old, new) for key, each in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(_swapped(each, old, new) for each in value)
    return value


def _refuse_absent(graph: DataPipeGraph, pipe: object, op: str) -> None:
    if all(each is not pipe for each in get_all_graph_pipes(graph)):
        fail(
            RuntimeError,
            op,
            "a pipe of the graph was required",
            pipe,
            hint="list_dps(graph) names those of a graph",
        )


def replace_dp(graph: DataPipeGraph, old_datapipe: Any, new_datapipe: Any) -> DataPipeGraph:
    """The graph with a new pipe in the place of another one."""
    _refuse_absent(graph, old_datapipe, "replace_dp")
    (last,) = (pipe for pipe, _ in graph.values())
    if last is old_datapipe:
        return traverse_dps(new_datapipe)
    for pipe in get_all_graph_pipes(graph):
        if pipe is not new_datapipe and pipe is not old_datapipe:
            for name, value in list(vars(pipe).items()):
                changed = _swapped(value, old_datapipe, new_datapipe)
                if changed is not value:
                    setattr(pipe, name, changed)
    return traverse_dps(last)


def remove_dp(graph: DataPipeGraph, datapipe: Iterable[Any]) -> DataPipeGraph:
    """The graph without a pipe, which must have one source."""
    _refuse_absent(graph, datapipe, "remove_dp")
    ((_, below),) = traverse_dps(datapipe).values()
    if len(below) != 1:
        fail(
            RuntimeError,
            "remove_dp",
            "a pipe with one source was required, or there is nothing to take its place",
            f"{len(below)} sources",
            hint="replace_dp puts another pipe in its place",
        )
    ((source, _),) = below.values()
    return replace_dp(graph, datapipe, source)


def set_datapipes_seed(pipes: list[Any], seed_generator: SeedGenerator, shared: bool) -> None:
    """Give random pipes seeds of one of the two rows."""
    for pipe in pipes:
        if is_own_method(pipe, "set_seed"):
            draw = seed_generator.generate_shared_seed if shared else seed_generator.generate_seed
            pipe.set_seed(draw())


def set_graph_random_seed(
    datapipe: IterDataPipe | MapDataPipe, seed_generator: SeedGenerator
) -> Any:
    """Give the random pipes of a graph their seeds: shared ones before values are dealt out among
    readers, since all must deal out the same order; the reader's own behind.
    """
    pipes = get_all_graph_pipes(traverse_dps(datapipe))
    before: dict[int, Any] = {}
    for pipe in pipes:
        if is_own_method(pipe, "apply_sharding"):
            for each in get_all_graph_pipes(traverse_dps(pipe)):
                before[id(each)] = each
    set_datapipes_seed([pipe for pipe in pipes if id(pipe) in before], seed_generator, True)
    set_datapipes_seed([pipe for pipe in pipes if id(pipe) not in before], seed_generator, False)
    return datapipe
