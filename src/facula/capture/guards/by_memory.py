"""Graphs that write to their inputs, or count places in memory: compiled anew for inputs that lie otherwise.

Takes: a captured graph, a way to compile it for example inputs, and these. Gives: `ByMemory`, which runs the
program that was compiled for inputs that lie as the given ones do.
Keeps true: a write to one input is seen through another exactly as in eager; a graph has few such programs,
and inputs that lie otherwise still run it as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.capture.guards.by_sizes import CAPTURING
from facula.core import logs
from facula.fx.fake_tensor import FakeTensorMode
from facula.fx.one_memory import sharing

__all__ = ["ByMemory"]

log = logs.get_logger("dynamic")

#: programs for inputs on one memory that a graph has at most
PROGRAMS = 8


class ByMemory:
    """A compiled graph by how its inputs share memory; `places`: and where they lie in it."""

    def __init__(
        self,
        make: Callable[[list[Any]], Any],
        graph_module: Any,
        inputs: list[Any],
        name: str,
        places: bool = False,
    ) -> None:
        self.make, self.graph_module, self.name = make, graph_module, name
        self.places = places
        self.first = sharing(inputs, places)
        self.program = make(inputs)
        self.others: dict[Any, Any] = {}

    def function(self) -> Callable[..., Any]:
        """What to call with inputs: the core looks, where no input shares memory as a rule."""
        call: Any = core.ApartCall
        return self if self.first is not None else call(self.program, self)

    def __call__(self, *inputs: Any) -> Any:
        place = sharing(inputs, self.places)
        if place == self.first:
            return self.program(*inputs)
        found = self.others.get(place)
        if found is None:
            found = self._new(place, list(inputs))
        return found(*inputs)

    def _new(self, place: Any, inputs: list[Any]) -> Any:
        """The graph for inputs that lie in a way that was not there a moment ago."""
        with CAPTURING:
            found = self.others.get(place)
            if found is None:
                log.info("inputs of %s share memory in another way: %s", self.name, place)
                if len(self.others) >= PROGRAMS:
                    return self.graph_module.forward
                refused = self._refused(inputs)
                found = self.graph_module.forward if refused else self.make(inputs)
                self.others[place] = found
            return found

    def _refused(self, inputs: list[Any]) -> bool:
        """Whether a call writes over what it reads of inputs that lie so: as it stands, the graph raises that."""
        mode, keys = FakeTensorMode(allow_non_fake_inputs=True), core.thread_keys()
        generator = core.default_generator
        before = generator.clone_state()
        given = [mode.from_tensor(x) if isinstance(x, core.Tensor) else x for x in inputs]
        try:
            with mode:
                self.graph_module.forward(*given)
        except RuntimeError as error:
            return "operands apart from the result in memory" in str(error)
        except Exception:  # noqa: BLE001 - the compiler meets it too, and tells of it
            return False
        finally:
            generator.graphsafe_set_state(before)
            core.set_thread_keys(keys)
        return False
