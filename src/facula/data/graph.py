"""Which pipes a pipe is made of.

Takes a pipe. Gives its graph: a dictionary of the pipe's id to the pipe and the graph of what it
holds. Keeps true: nothing of the pipes is run or changed; a pipe that holds itself ends there.
"""

from __future__ import annotations

import functools
import pickle
import types
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes.datapipe import IterDataPipe, MapDataPipe, _Functional

__all__ = ["traverse", "traverse_dps"]

DataPipe = IterDataPipe | MapDataPipe
DataPipeGraph = dict[int, tuple[Any, "DataPipeGraph"]]

#: what has attributes that are not its own
_OPAQUE = (type, types.ModuleType)


def _state_of(pipe: IterDataPipe) -> Any:
    """What a pipe would be pickled as: a pipe may say itself what belongs to it."""
    if type(pipe).__getstate__ is _Functional.__getstate__:
        return pipe.__dict__
    family = type(pipe)._family
    before = family.getstate_hook
    family.getstate_hook = staticmethod(lambda state: state)
    try:
        return pipe.__getstate__()
    finally:
        family.getstate_hook = before


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


def _looked_at(*parts: object) -> None:
    """What an object is reduced to: its parts, which are looked at in turn."""


class _Search(pickle.Pickler):
    """The pipes in a state, not those behind them.

    A pickler goes through Python's own containers faster than a loop could, and asks about
    everything else; what it writes is thrown away.
    """

    def __init__(self, ancestors: set[int], everywhere: bool) -> None:
        super().__init__(_Nowhere(), protocol=5)
        self.seen = set(ancestors)
        self.everywhere = everywhere
        self.found: list[Any] = []

    def visit(self, value: object) -> None:
        """Look at a value and what it holds."""
        self.dump(value)

    def reducer_override(self, value: object) -> Any:
        """Asked of everything that is no container, number or text of Python's own."""
        if value is _looked_at:
            return NotImplemented
        if not isinstance(value, (IterDataPipe, MapDataPipe)):
            return _looked_at, tuple(self.parts(value))
        if id(value) not in self.seen:
            self.seen.add(id(value))
            self.found.append(value)
        return _looked_at, ()

    def parts(self, value: Any) -> Iterator[Any]:
        """What a value holds."""
        if isinstance(value, Mapping):
            yield from value.keys()
            yield from value.values()
        elif isinstance(value, (list, tuple, set, frozenset)) or type(value).__name__ == "deque":
            yield from value
        elif self.everywhere and isinstance(value, types.MethodType):
            yield value.__self__
        elif self.everywhere and isinstance(value, functools.partial):
            yield from (value.func, value.args, value.keywords)
        elif hasattr(value, "__dict__") and not (callable(value) or isinstance(value, _OPAQUE)):
            yield from vars(value).values()


def _connected(pipe: Any, only_datapipe: bool, ancestors: set[int]) -> list[Any]:
    search = _Search(ancestors, not only_datapipe)
    state = _state_of(pipe)
    if isinstance(state, Mapping):
        values: list[Any] = list(state.values())
    else:
        values = list(state) if isinstance(state, (list, tuple)) else [state]
    for value in values:
        if not only_datapipe or isinstance(value, (IterDataPipe, MapDataPipe, Collection)):
            search.visit(value)
    return search.found


def _graph(pipe: object, only_datapipe: bool, ancestors: set[int]) -> DataPipeGraph:
    if not isinstance(pipe, (IterDataPipe, MapDataPipe)):
        fail(
            RuntimeError,
            "traverse_dps",
            f"Expected `IterDataPipe` or `MapDataPipe`, but {type(pipe)} is found",
            hint="IterableWrapper(values) makes a pipe of any iterable",
        )
    if id(pipe) in ancestors:
        return {}
    path = ancestors | {id(pipe)}
    below: DataPipeGraph = {}
    for each in _connected(pipe, only_datapipe, path):
        below.update(_graph(each, only_datapipe, path))
    return {id(pipe): (pipe, below)}


def traverse_dps(datapipe: Iterable[Any]) -> DataPipeGraph:
    """The graph of a pipe: what its attributes, and the containers among them, hold of pipes."""
    return _graph(datapipe, True, set())


def traverse(datapipe: Iterable[Any], only_datapipe: bool | None = None) -> DataPipeGraph:
    """Deprecated: like `traverse_dps`, by default also through functions and other objects."""
    message = (
        "`traverse` function is deprecated and will be removed after 1.13. Please use `traverse_dps` "
        "instead."
    )
    if not only_datapipe:
        message += " And, the behavior will be changed to the equivalent of `only_datapipe=True`."
    warnings.warn(message, FutureWarning, stacklevel=2)
    return _graph(datapipe, bool(only_datapipe), set())
