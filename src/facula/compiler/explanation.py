"""`explain`: what capture makes of a function for given arguments.

Takes: a callable, then its arguments. Gives: an `ExplainOutput`: graphs, breaks with their causes and
rewrites, operators, guards, recompiles.
Keeps true: the function runs once, through captured graphs that nothing lowers.
"""

from __future__ import annotations

import dataclasses
import time
import weakref
from collections.abc import Callable
from typing import Any

from facula.capture.driver import Session
from facula.capture.events import LISTENERS, Event
from facula.compiler.api import compile_with, listening
from facula.compiler.backends import lookup_backend


@dataclasses.dataclass
class BreakReason:
    """One break."""

    code: str
    reason: str
    user_stack: list[Any]
    rewrite: str = ""

    def __str__(self) -> str:
        where = f"\n  {self.user_stack[0]}" if self.user_stack else ""
        return f"[{self.code}] {self.reason}{where}\n  hint: {self.rewrite}"


@dataclasses.dataclass
class ExplainOutput:
    """What was found."""

    graphs: list[Any]
    graph_count: int
    graph_break_count: int
    break_reasons: list[BreakReason]
    op_count: int
    ops_per_graph: list[list[Any]]
    out_guards: list[str]
    recompiles: list[str]
    compile_times: str
    #: faults of the compiler that `suppress_errors` hid
    suppressed_errors: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        text = (
            f"Graph Count: {self.graph_count}\nGraph Break Count: {self.graph_break_count}\n"
            f"Op Count: {self.op_count}\n"
        )
        text += "Break Reasons:\n"
        for n, reason in enumerate(self.break_reasons, 1):
            text += f"Break Reason {n}:\n  {reason}\n"
        for n, ops in enumerate(self.ops_per_graph, 1):
            text += f"Ops of graph {n}: {', '.join(map(str, ops))}\n"
        text += "Guards:\n" + "".join(f"  {guard}\n" for guard in self.out_guards)
        text += "".join(f"Recompile: {reason}\n" for reason in self.recompiles)
        text += "".join(f"Suppressed error: {cause}\n" for cause in self.suppressed_errors)
        return text + self.compile_times


def explain(function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """How a function is captured for given arguments: ``explain(f)(*args)``.

    The result prints graphs, breaks with their lines and hints, guards and times, and has them as
    attributes (``graph_count``, ``graph_break_count``, ``break_reasons``, ``graphs``).

    Args:
        function: what is captured
        *args, **kwargs: where they are given here, ``explain(f, *args)`` is the result itself

    Example:
        >>> def f(x):
        ...     if x.sum() > 0:
        ...         x = x + 1
        ...     return x
        >>> report = facula.compiler.explain(f)(facula.ones(2))
        >>> report.graph_count, report.graph_break_count
        (2, 1)
    """
    if args or kwargs:
        return explain(function)(*args, **kwargs)

    def run(*args: Any, **kwargs: Any) -> ExplainOutput:
        graphs: list[Any] = []
        events: list[Event] = []

        def backend(graph_module: Any, inputs: object) -> Any:
            graphs.append(graph_module)
            return graph_module.forward

        session = Session(backend)
        start = time.perf_counter()
        with listening(events.append):
            compile_with(session, function)(*args, **kwargs)
        return _output(graphs, events, session, time.perf_counter() - start)

    return run


class ExplainWithBackend:
    """A backend that explains what another one is given: ``compile(f, backend=ExplainWithBackend("inductor"))``.

    Args:
        backend: the other one, or its name

    Example:
        >>> from facula._dynamo.backends.debugging import ExplainWithBackend
        >>> explained = ExplainWithBackend("eager")
        >>> facula.compile(lambda x: x.sin() + 1, backend=explained)(facula.zeros(1))
        tensor([1.])
        >>> explained.output().graph_count, explained.output().op_count
        (1, 2)
    """

    def __init__(self, backend: str | Callable[..., Any]) -> None:
        self.backend = lookup_backend(backend)
        self.graphs: list[Any] = []
        self.breaks = _latest_breaks()
        self.start = time.perf_counter()

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        """Note a graph, and hand it on."""
        self.graphs.append(gm)
        return self.backend(gm, example_inputs)

    def output(self) -> ExplainOutput:
        """What was found so far."""
        session = Session(self.backend)
        return _output(self.graphs, self.breaks, session, time.perf_counter() - self.start)


def _latest_breaks() -> list[Event]:
    """A list that gets every event from now on, as long as somebody holds it."""
    events = _Events()
    reference = weakref.ref(events)

    def listen(event: Event) -> None:
        held = reference()
        if held is None:
            LISTENERS.remove(listen)
        else:
            held.append(event)

    LISTENERS.append(listen)
    return events


class _Events(list[Event]):
    """A list that may be referred to weakly."""

    __slots__ = ("__weakref__",)


def _output(graphs: list, events: list[Event], session: Session, seconds: float) -> ExplainOutput:
    breaks = [e for e in events if e.kind == "graph break"]
    reasons = [BreakReason(e.code, e.cause, [e.line] if e.line else [], e.rewrite) for e in breaks]
    ops = [
        [node.target for node in graph.graph.nodes if node.op.startswith("call_")]
        for graph in graphs
    ]
    entries = [entry for place in session.places.values() for entry in place.entries]
    guards = [guard.label() for entry in entries for guard in entry.guards]
    guards += [label for entry in entries for label in entry.watched.labels()]
    return ExplainOutput(
        graphs=graphs,
        graph_count=len(graphs),
        graph_break_count=len(breaks),
        break_reasons=reasons,
        op_count=sum(map(len, ops)),
        ops_per_graph=ops,
        out_guards=guards,
        recompiles=[e.cause for e in events if e.kind == "recompile"],
        compile_times=f"Compile Times: {seconds:.3f} s\n",
        suppressed_errors=[e.cause for e in events if e.kind == "suppressed error"],
    )
