"""Backward runs as graphs: what the tape would do, compiled, gradients of all nodes in one graph.

Takes: a compiler, `(GraphModule) -> callable`, such as `facula.compile`; then calls of `backward`
while it is on.
Gives: the gradients that the engine would give.
Keeps true: a graph serves every tape that does the same to tensors of the same kind
(`core.tape_of`); leaves get their gradients, and what listens to that is called, after the graph.
Runs that hooks listen to, or whose gradients are to be differentiated, stay with the engine, which
`COUNTERS["compiled_autograd"]` counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from facula import core
from facula.capture import driver
from facula.capture.driver import Session
from facula.capture.events import COUNTERS
from facula.fx import GraphModule
from facula.lower.aot.fakes import fake_inputs
from facula.lower.aot.tracing import trace
from facula.ops.table.registry import F

Tensor = core.Tensor
Compiler = Callable[[GraphModule], Callable[..., Any]]
#: how many tapes are compiled before all are forgotten
LIMIT = 64


class _Program:
    """A compiled run: the callable, and where its inputs and results are."""

    def __init__(self, call: Callable[..., Any], places: list[Any], results: list[int]) -> None:
        self.call = call
        #: of each input behind the cotangents: its number among the kept tensors, or a tensor
        self.places = places
        #: of each result: the number of its leaf
        self.results = results


class AutogradCompiler:
    """Stands before the engine (`core.BACKWARD`)."""

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler
        self.programs: dict[Any, _Program] = {}

    def __call__(
        self,
        tensors: tuple[Any, ...],
        grads: tuple[Any, ...],
        retain_graph: bool,
        create_graph: bool,
        inputs: tuple[Any, ...],
        allow_unused: bool,
        accumulate: bool,
    ) -> Any:
        """The result of `core.run_backward`, or NotImplemented where the engine is to run."""
        if not _plain(tensors, inputs):
            return NotImplemented
        if create_graph:
            return _left_to_engine()
        key, kept, leaves, watched = core.tape_of(tensors)
        if watched or any(all(x is not leaf for leaf in leaves) for x in inputs):
            return _left_to_engine()
        cotangents = _cotangents(tensors, grads)
        if cotangents is None:
            return NotImplemented  # the engine says what is wrong
        targets = list(inputs) if inputs else leaves
        whole = (key, _kinds(cotangents), tuple(_position(leaves, x) for x in targets))
        before, core.BACKWARD[0] = core.BACKWARD[0], None
        recording = core.set_grad_enabled(False)
        try:
            program = self.programs.get(whole)
            if program is None:
                program = self._compile(whole, tensors, cotangents, targets, kept)
            found = self._run(program, cotangents, kept, len(targets))
        finally:
            core.set_grad_enabled(recording)
            core.BACKWARD[0] = before
        if not retain_graph:
            core.release_tape(tensors)
        if not accumulate:
            return tuple(found)
        for leaf, gradient in zip(targets, found, strict=True):
            if gradient is not None:
                core.accumulate_into(leaf, gradient)
        return ()

    def _run(
        self, program: _Program, cotangents: list[Any], kept: list[Any], count: int
    ) -> list[Any]:
        behind = [kept[p] if type(p) is int else p for p in program.places]
        values = program.call(*cotangents, *behind)
        found: list[Any] = [None] * count
        for number, value in zip(program.results, values, strict=True):
            found[number] = value
        return found

    def _compile(
        self, key: object, tensors: tuple[Any, ...], cotangents: list[Any], targets: list[Any],
        kept: list[Any],
    ) -> _Program:  # fmt: skip
        """Trace a run, compile its graph, and remember both."""
        reached: list[int] = []

        def run(*given: Any) -> list[Any]:
            found = core.run_backward(tensors, given, True, False, tuple(targets), True, False)
            reached[:] = [n for n, g in enumerate(found) if g is not None]
            return [found[n] for n in reached]

        traced = trace(run, fake_inputs(cotangents), gradients=False, lift=True)
        module = _of_results(traced)
        COUNTERS["compiled_autograd"]["captures"] += 1
        place_of = {core.tensor_place(t): n for n, t in reversed(list(enumerate(kept)))}
        places = [place_of.get(core.tensor_place(t), t) for t in traced.held]
        program = _Program(self.compiler(module), places, list(reached))
        if len(self.programs) >= LIMIT:
            self.programs.clear()
        self.programs[key] = program
        return program


def _of_results(traced: Any) -> GraphModule:
    """The traced graph, giving the results of the run in order (one gradient may be two of them)."""
    module: GraphModule = traced.joint
    graph = module.graph
    values = list(graph.output_node().args[0])
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    made = []
    for result in traced.signature.results:
        node = values[result.source] if result.kind.startswith("value") else inputs[result.source]
        for step in result.steps:
            with graph.inserting_before(graph.output_node()):
                positional, keywords = step.op.definition.trim((node, *step.args))
                node = graph.call_function(step.op, positional, keywords)
        made.append(node)
    graph.output_node().args = (tuple(made),)
    module.recompile()
    return module


def _plain(tensors: Sequence[Any], inputs: Sequence[Any]) -> bool:
    """Whether a run is between plain tensors, with nothing watching operators."""
    if core.interpreters() or core.DISPATCH_MODES or core.FUNCTION_MODES:
        return False
    return all(isinstance(t, Tensor) for t in tensors) and all(
        isinstance(x, Tensor) and x.is_leaf and x.requires_grad for x in inputs
    )


def _left_to_engine() -> Any:
    COUNTERS["compiled_autograd"]["engine"] += 1
    return NotImplemented


def _cotangents(tensors: Sequence[Any], grads: Sequence[Any]) -> list[Any] | None:
    """The cotangents, ones for a number that has none."""
    found = []
    for number, t in enumerate(tensors):
        grad = grads[number] if number < len(grads) else None
        if grad is None:
            if t.numel() != 1:
                return None
            grad = F.ones_like(t.detach())
        found.append(grad.detach())
    return found


def _kinds(tensors: Sequence[Any]) -> tuple[Any, ...]:
    return tuple((t.shape, t.stride(), t.dtype, t.device) for t in tensors)


def _position(leaves: Sequence[Any], x: Tensor) -> int:
    return next(n for n, leaf in enumerate(leaves) if leaf is x)


def set_compiler(compiler: Compiler | None) -> Any:
    """Have backward runs compiled, or (None) not; gives what was set."""
    before = core.BACKWARD[0]
    core.BACKWARD[0] = None if compiler is None else AutogradCompiler(compiler)
    return before


@contextlib.contextmanager
def enable(compiler_fn: Compiler, dynamic: bool = True) -> Iterator[None]:
    """A block in which backward runs are compiled by `compiler_fn(graph_module)`."""
    before = set_compiler(compiler_fn)
    try:
        yield
    finally:
        core.BACKWARD[0] = before


@contextlib.contextmanager
def disable() -> Iterator[None]:
    """A block in which the engine runs."""
    before, core.BACKWARD[0] = core.BACKWARD[0], None
    try:
        yield
    finally:
        core.BACKWARD[0] = before


@contextlib.contextmanager
def _of_session(session: Session) -> Iterator[None]:
    """A block in which backward runs are compiled by what compiles the program around them."""
    made = session.__dict__.get("backward_compiler")
    if made is None:
        again = session.again()
        made = session.__dict__["backward_compiler"] = AutogradCompiler(
            lambda module: again.wrap(type(module).forward).__get__(module)
        )
    before, core.BACKWARD[0] = core.BACKWARD[0], made
    try:
        yield
    finally:
        core.BACKWARD[0] = before


driver.COMPILED_BACKWARD[0] = _of_session


def in_compiled_autograd_region() -> bool:
    """Whether backward runs are compiled now."""
    return core.BACKWARD[0] is not None


def reset() -> None:
    """Forget what was compiled, and stop compiling."""
    core.BACKWARD[0] = None
