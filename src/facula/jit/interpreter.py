"""Runs graphs: each block becomes a list of steps over a frame of values, made once.

Takes a graph and the arguments. Gives the results.
Keeps true: what runs is the graph as data; an error inside names the place in the user's source; a
graph that was changed is prepared again by whoever changed it (`Program` is made anew). What a file
runs while it is read ends after a number of steps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from facula.core.errors import fail
from facula.jit.errors import as_runtime_error, note_place
from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.node_operators import needed
from facula.jit.script_profile import PROFILES, timed

__all__ = ["Program"]

Step = Callable[[list[Any]], None]

#: steps that the `__setstate__` of a file may take, all together
STEPS = 1_000_000


class _Bound(threading.local):
    #: steps that are left, in a list; None: as many as it takes
    left: list[int] | None = None


_BOUND = _Bound()


@contextmanager
def bounded(steps: int = STEPS) -> Iterator[None]:
    """Scripted code in here is an error when it takes more steps."""
    before, _BOUND.left = _BOUND.left, [steps]
    try:
        yield
    finally:
        _BOUND.left = before


def _measured(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that takes as many steps as its list or text is long: those double easily."""

    def run(*args: Any) -> Any:
        if len(args) == 2 and _BOUND.left is not None:
            _spend(_BOUND.left, _repeated(*args) // 64)
        made = function(*args)
        if isinstance(made, (list, str)) and _BOUND.left is not None:
            _spend(_BOUND.left, len(made) // 64)
        return made

    return run


def _repeated(a: object, b: object) -> int:
    """How long a list or text becomes that is repeated."""
    if isinstance(a, int):
        a, b = b, a
    return len(a) * max(b, 0) if isinstance(a, (list, str)) and isinstance(b, int) else 0


def _spend(left: list[int], steps: int) -> None:
    left[0] -= steps + 1
    if left[0] < 0:
        fail(RuntimeError, "jit.load", f"code that ends within {STEPS} steps was required for what runs "
             "while a file is read", "more",
             hint="a __setstate__ in the file works too long, or for ever")  # fmt: skip


def _own(value: Any) -> Any:
    """A list or dictionary for one run."""
    if isinstance(value, list):
        return [_own(v) for v in value]
    if isinstance(value, dict):
        return {k: _own(v) for k, v in value.items()}
    if type(value) is tuple:
        return tuple(_own(v) for v in value)
    return value


class Program:
    """A graph, ready to run."""

    def __init__(self, graph: Graph, name: str = "", *, times: bool = False) -> None:
        self.graph, self.name = graph, name
        #: whether profiles hear of its operators, and the program of which they do
        self.times = times
        self.timed: Program | None = None
        self.slots: dict[Value, int] = {}
        self.constants: list[tuple[int, Any]] = []
        #: constants that somebody could write to: each run has its own
        self.containers: list[tuple[int, Any]] = []
        self.inputs = [self.slot(v) for v in graph.parameters]
        self.steps = self.block(graph)
        self.results = [self.slot(v) for v in graph.results]
        self.initial = [None] * len(self.slots)
        for slot, value in self.constants:
            self.initial[slot] = value

    def slot(self, value: Value) -> int:
        """The place of a value in the frame."""
        return self.slots.setdefault(value, len(self.slots))

    def __call__(self, *arguments: Any) -> Any:
        if PROFILES and not self.times:
            self.timed = self.timed or Program(self.graph, self.name, times=True)
            return self.timed(*arguments)
        frame = self.initial.copy()
        for slot, value in self.containers:
            frame[slot] = _own(value)
        for slot, value in zip(self.inputs, arguments, strict=True):
            frame[slot] = value
        if _BOUND.left is not None:
            _spend(_BOUND.left, len(self.steps))
        for step in self.steps:
            step(frame)
        results = self.results
        return frame[results[0]] if len(results) == 1 else tuple(frame[r] for r in results)

    # ---- preparation
    def block(self, block: Block) -> list[Step]:
        """The steps of a block."""
        return self._steps(iter(block.nodes_))

    def _steps(self, nodes: Iterator[Node]) -> list[Step]:
        """The steps of nodes, up to the end of the context that they stand in."""
        made = []
        for node in nodes:
            if node.kind_ == "prim::Exit":
                made.append(self._operation(node))
                break
            if node.kind_ == "prim::Enter":
                made.append(self._operation(node))
                made.append(self._context(self._steps(nodes)))
            elif node.kind_ == "prim::Constant":
                value = node.attributes.get("value")
                self.constants.append((self.slot(node.outputs_[0]), value))
                if isinstance(value, (list, dict, tuple)):
                    self.containers.append((self.slot(node.outputs_[0]), value))
            elif node.kind_ == "prim::If":
                made.append(self._if(node))
            elif node.kind_ == "prim::Loop":
                made.append(self._loop(node))
            else:
                made.append(self._operation(node))
        return made

    def _context(self, steps: list[Step]) -> Step:
        """The body of a `with` and what leaves it: that runs as well where the body raises."""
        *body, leave = steps

        def run(frame: list[Any]) -> None:
            try:
                for step in body:
                    step(frame)
            except BaseException:
                leave(frame)
                raise
            leave(frame)

        return run

    def _copies(self, sources: list[Value], targets: list[Value]) -> tuple[list[int], list[int]]:
        return [self.slot(v) for v in sources], [self.slot(v) for v in targets]

    def _if(self, node: Node) -> Step:
        condition = self.slot(node.inputs_[0])
        branches = []
        for block in node.blocks_:
            steps = self.block(block)
            branches.append((steps, *self._copies(block.results, node.outputs_)))
        yes, no = branches

        def run(frame: list[Any]) -> None:
            steps, sources, targets = yes if frame[condition] else no
            for step in steps:
                step(frame)
            for source, target in zip(sources, targets, strict=True):
                frame[target] = frame[source]

        return run

    def _loop(self, node: Node) -> Step:
        body = node.blocks_[0]
        limit, condition = self.slot(node.inputs_[0]), self.slot(node.inputs_[1])
        first, carried = self._copies(node.inputs_[2:], body.parameters[1:])
        counter = self.slot(body.parameters[0])
        steps = self.block(body)
        again = self.slot(body.results[0])
        last, _ = self._copies(body.results[1:], [])
        _, outputs = self._copies([], node.outputs_)

        def run(frame: list[Any]) -> None:
            values = [frame[i] for i in first]
            count, going, most = 0, frame[condition], frame[limit]
            left = _BOUND.left
            while going and count < most:
                if left is not None:
                    _spend(left, len(steps))
                frame[counter] = count
                for slot, value in zip(carried, values, strict=True):
                    frame[slot] = value
                for step in steps:
                    step(frame)
                values = [frame[i] for i in last]
                going = frame[again]
                count += 1
            for slot, value in zip(outputs, values, strict=True):
                frame[slot] = value

        return run

    def _operation(self, node: Node) -> Step:
        function = needed(node)
        if _BOUND.left is not None:
            function = _measured(function)
        if self.times:
            function = timed(function, node.kind_, node.place)
        inputs, outputs = self._copies(node.inputs_, node.outputs_)
        place, name = node.place, self.name

        def run(frame: list[Any]) -> None:
            try:
                made = function(*[frame[i] for i in inputs])
            except Exception as error:
                raised = as_runtime_error(error)
                if place is not None:
                    note_place(raised, place, name)
                if raised is error:
                    raise
                raise raised from None
            if len(outputs) == 1:
                frame[outputs[0]] = made
            elif outputs:
                for slot, value in zip(outputs, made, strict=True):
                    frame[slot] = value

        return run
