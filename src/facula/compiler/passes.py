"""A pass: one line of the pipeline (`pipeline`), which has a name, a condition, and something to show.

Takes: a name, what does it, and what is done instead where it is left out (`FACULA_PASSES=-name`, or an
option that is off). Gives: `Pass`, called as what does it is; `GraphPass`, over flat graphs; `PASSES`.
Keeps true: every pass names itself in the place of a fault, is timed, and is shown to `trace`; with the option
`debug` what it gives is checked; to leave out a pass that nothing can stand in for is an error.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from facula.compiler import options, trace
from facula.core import config as settings
from facula.core.errors import fail
from facula.core.stages import stage
from facula.lower.verify import verify

if TYPE_CHECKING:
    from facula.nn import Module


__all__ = ["PASSES", "GraphPass", "Pass", "left_out", "nothing", "same"]

#: every pass by its name, in the order of the pipeline
PASSES: dict[str, Pass] = {}


def nothing(*given: Any, **words: object) -> int:
    """What stands in for a pass that says how much it changed."""
    return 0


def same(given: object, *rest: object, **words: object) -> Any:
    """What stands in for a pass that gives another form of its first argument."""
    return given


class Pass:
    """One line of the pipeline.

    Args:
        name: how it is named in traces, faults and `FACULA_PASSES`.
        function: what does it, or `module:name` where it is imported when it is first wanted.
        instead: what is done where the pass is left out; None where there is no other way.
        when: the option that has to be on.
        shows: a function from what the pass took and what it gave to (text, suffix of a file), or None.
        checks: raises where what the pass took and gave can not be right; for the option `debug`.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any] | str,
        *,
        instead: Callable[..., Any] | str | None = None,
        when: str | None = None,
        shows: Callable[[tuple[Any, ...], Any], tuple[str, str] | None] | None = None,
        checks: Callable[[tuple[Any, ...], Any], Any] | None = None,
    ) -> None:
        self.name, self.function, self.instead, self.when = name, function, instead, when
        self.shows, self.checks = shows, checks
        #: how often it ran, and how long in all
        self.runs, self.seconds = 0, 0.0
        PASSES[name] = self

    def is_on(self) -> bool:
        """Whether the pass is done."""
        return (self.when is None or options.get(self.when)) and self.name not in left_out()

    def __call__(self, *given: Any, **words: Any) -> Any:
        if self.instead is not None and not self.is_on():
            trace.line(self.name, None)
            return _resolved(self.instead)(*given, **words)
        begun = time.perf_counter()
        with stage(self.name):
            found = self.run(*given, **words)
        spent = time.perf_counter() - begun
        self.runs, self.seconds = self.runs + 1, self.seconds + spent
        if self.checks is not None and options.get("debug"):
            with stage(f"check of what {self.name} gives"):
                self.checks(given, found)
        if trace.folder() is not None:
            shown = self.shows(given, found) if self.shows is not None else None
            trace.line(self.name, spent, *(shown or ()))
        return found

    def run(self, *given: Any, **words: Any) -> Any:
        """What the pass is, without its name and its watchers."""
        return _resolved(self.function)(*given, **words)


class GraphPass(Pass):
    """A pass over a flat graph, which says how much it changed."""

    def __init__(self, name: str, function: Callable[..., int], **more: Any) -> None:
        super().__init__(name, function, shows=_graph_shown, checks=self._check, **more)

    def _check(self, given: tuple[Any, ...], changes: int) -> None:
        verify(given[0], after=self.name)

    def run(self, module: Module, *rest: Any) -> int:
        """The pass over the graph of a module."""
        return _resolved(self.function)(module.graph, *rest)


class ModulePass(GraphPass):
    """A pass that needs the module of a graph as well."""

    def run(self, module: Module, *rest: Any) -> int:
        """The pass over the module."""
        return _resolved(self.function)(module, *rest)


def _graph_shown(given: tuple[Any, ...], changes: Any) -> tuple[str, str] | None:
    return (given[0].code, "py") if changes else None


def _resolved(function: Callable[..., Any] | str) -> Callable[..., Any]:
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


def left_out() -> frozenset[str]:
    """The names of the passes that the setting `FACULA_PASSES` leaves out."""
    return _parsed(settings.get("passes") or "")


@functools.cache
def _parsed(text: str) -> frozenset[str]:
    known = {_plain(name): name for name in PASSES}
    found = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name = known.get(_plain(item[1:]))
        if item[0] != "-" or name is None:
            _refuse(item, "-name of a pass, one of " + ", ".join(PASSES), known)
        elif PASSES[name].instead is None:
            possible = [each for each, p in PASSES.items() if p.instead is not None]
            _refuse(item, "a pass that something else can stand in for", dict.fromkeys(possible))
        else:
            found.append(name)
    return frozenset(found)


def _refuse(item: str, required: str, known: dict[str, Any]) -> None:
    # lazily: for messages only
    import difflib

    near = difflib.get_close_matches(_plain(item.lstrip("-")), list(known), 1)
    hint = f"did you mean -{near[0]}?" if near else f"for example -{next(iter(known))}"
    fail(ValueError, "FACULA_PASSES", f"{required}, was required", got=repr(item), hint=hint)


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "-").replace("_", "-")
