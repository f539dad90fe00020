"""Dynamic graphs on backends that compile for fixed sizes.

Takes: a captured graph with dynamic sizes, and a backend. Gives: `BySizes`, the graph compiled for each
combination of sizes that comes, or for many at once; `compiled_by`, what a backend makes of a graph.
Keeps true: what runs was compiled for these very sizes, or by a program that said it fits them; memory
is bounded by `config.sizes_kept`.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.capture import config
from facula.capture.errors import BackendCompilerFailed
from facula.capture.events import COUNTERS, Event, happened
from facula.capture.faults import suppressed
from facula.core import logs

log = logs.get_logger("dynamic")

#: programs are captured and compiled one at a time: the modes of a trace are the process's
CAPTURING = threading.RLock()


def compiled_by(backend: Any, graph_module: Any, inputs: list[Any], function: str) -> Any:
    """What a backend makes of a graph; the thread's modes, which graphs may change, stay as they are."""
    keys = core.thread_keys()
    try:
        return backend(graph_module, inputs)
    except Exception as error:
        found = BackendCompilerFailed(backend, error)
        if not suppressed(found, function, "the captured graph runs as it is"):
            raise found from error
        return graph_module.forward
    finally:
        core.set_thread_keys(keys)


#: programs for many sizes that a dynamic graph has at most; other sizes are compiled on their own
SYMBOLIC_PROGRAMS = 16


def for_sizes(
    backend: Callable[..., Any],
    graph_module: Any,
    inputs: list[Any],
    dynamic: list[Any],
    keys: list[Any],
) -> Any:
    """The graph compiled for many sizes, None where the backend has no such programs."""
    words: dict[str, Any] = {}
    while isinstance(backend, functools.partial):
        words = {**backend.keywords, **words}
        backend = backend.func
    make = getattr(backend, "for_sizes", None)
    if make is None or not any(isinstance(x, core.Tensor) for x in inputs):
        return None  # symbols are made of the sizes of tensors
    modes = core.thread_keys()
    try:
        return make(graph_module, inputs, dynamic, keys, **words)
    finally:
        core.set_thread_keys(modes)


class BySizes:
    """A dynamic graph for a backend that compiles for fixed sizes: once for each combination, or
    where the backend can do that, for many at once (`for_sizes`).

    Keeps the `config.sizes_kept` combinations that were used last.
    """

    def __init__(
        self,
        backend: Callable[..., Any],
        graph_module: Any,
        inputs: list[Any],
        dynamic: list[Any],
        function: str,
    ) -> None:
        self.backend, self.graph_module, self.function = backend, graph_module, function
        #: for each input the dimensions that may change
        self.dynamic = dynamic
        #: how many combinations no such program served: for every second one another is made, since
        #: one costs as much as ten combinations on their own
        self.unserved = 0
        #: programs for many combinations
        self.symbolic: list[Any] = []
        graph_module.meta["dynamic"] = True  # the backend may make one library for all sizes
        self.compiled: OrderedDict[tuple, Any] = OrderedDict()
        self.compiled[self._key(inputs)] = compiled_by(backend, graph_module, inputs, function)

    @staticmethod
    def _key(inputs: Sequence[Any]) -> tuple:
        return tuple(
            (tuple(value.shape), value.stride()) if isinstance(value, core.Tensor) else value
            for value in inputs
        )

    def __call__(self, *inputs: Any) -> Any:
        key = self._key(inputs)
        found = self.compiled.get(key)
        if found is None:
            found = self._new(key, list(inputs))
        elif len(self.compiled) > 1:
            with contextlib.suppress(KeyError):  # another thread has just forgotten it
                self.compiled.move_to_end(key)
        return found(*inputs)

    def _new(self, key: tuple, inputs: list[Any]) -> Any:
        """The graph compiled for a combination that was not there a moment ago."""
        with CAPTURING:
            found = self.compiled.get(key)  # another thread may have had it made
            if found is None:
                found = self.compiled[key] = self._made(key, inputs)
                self._forget()
            return found

    def _made(self, key: tuple, inputs: list[Any]) -> Any:
        """The graph compiled for a new combination."""
        found = None
        for program in self.symbolic:
            found = program.at(key)
            if found is not None:
                return found
        self.unserved += 1
        failure = None
        if self.unserved % 2 == 0 and len(self.symbolic) < SYMBOLIC_PROGRAMS:
            try:
                found = self._symbolic(key, inputs)
            except Exception as error:  # noqa: BLE001 - compiled on its own, what the user did raises again
                failure = error
        if found is None:
            found = compiled_by(self.backend, self.graph_module, inputs, self.function)
        if failure is not None:
            self._tell(failure)
        return found

    def _symbolic(self, key: tuple, inputs: list[Any]) -> Any:
        """One more program for many combinations; gives it for this one."""
        keys = list(self.compiled)
        made = for_sizes(self.backend, self.graph_module, inputs, self.dynamic, keys)
        if made is None:
            return None
        self.symbolic.append(made)
        return made.at(key)

    def _tell(self, failure: Exception) -> None:
        COUNTERS["stats"]["symbolic_sizes_failed"] += 1
        cause = f"{type(failure).__name__}: {failure}"
        hint = "each combination of sizes is compiled on its own, which is slower"
        event = Event("symbolic sizes failed", "internal", self.function, None, cause, hint)
        happened(event)
        log.warning("symbolic sizes failed in %s: %s", self.function, cause)

    def _forget(self) -> None:
        """Drop what was used longest ago; what still has to run backward is held by the tape."""
        while len(self.compiled) > max(config.sizes_kept, 1):
            with contextlib.suppress(KeyError):
                self.compiled.popitem(last=False)
            COUNTERS["stats"]["sizes_forgotten"] += 1
