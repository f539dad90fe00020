"""Programs compiled once for many sizes.

Takes: a function of flat inputs that are fake tensors with symbols for sizes, and compilers that give
functions from the values of symbols to what runs. Gives: `SymbolicProgram`: the program for other
sizes, without tracing, lowering or writing C again.
Keeps true: every decision that was taken about sizes on the way is a guard; sizes that do not meet all
guards do not fit, and are compiled on their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from facula import core
from facula.autograd import autocast
from facula.autograd.transforms.aliases import BeyondTensor
from facula.autograd.transforms.view_inverses import ViewStep
from facula.core.stages import stage
from facula.fx import Graph, GraphModule
from facula.fx.experimental.symbolic_shapes import StatelessSymbolicContext
from facula.fx.fake_tensor import FakeTensorMode
from facula.fx.shape_env import ShapeEnv
from facula.fx.size_functions import function_of, holds
from facula.fx.symbols import SymInt, number, plain
from facula.lower.aot import runtime
from facula.lower.aot.compile import InputPlan, Options, inference, traced_with, training
from facula.lower.aot.fakes import as_leaf, fake_mode_of
from facula.lower.aot.partial import Partial
from facula.lower.aot.signature import Result, Signature, Write
from facula.lower.aot.tracing import Traced
from facula.lower.at_sizes import (
    AtSizes,
    Deferred,
    geometry,
    graph_at,
    put_numbers_in_place,
    same_graph,
    symbols_of,
)

Tensor = core.Tensor
#: the geometry of the inputs of a program: (sizes, strides) of tensors, numbers as they are
Key = tuple[Any, ...]


class NotSymbolic(Exception):
    """A program that is compiled for each combination of sizes on its own."""


class TrialFailed(Exception):
    """A program with symbols that is another one than those for its sizes: a fault of the compiler's."""


def with_symbols(inputs: Sequence[Any], dynamic: Sequence[Any]) -> list[Any]:
    """Fake inputs of one mode: a symbol stands for each size that may change.

    Args:
        inputs: tensors and numbers.
        dynamic: for each the dimensions that may change; of an int, whether it may.
    """
    env = ShapeEnv()
    env.fixes_quotients = True
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=env)
    found: list[Any] = []
    made: dict[int, Any] = {}  # what is one tensor stays one
    for x, dims in zip(inputs, dynamic, strict=True):
        if isinstance(x, Tensor):
            if id(x) not in made:
                made[id(x)] = _with_symbols(mode, x, dims)
            found.append(made[id(x)])
        else:
            found.append(env.create_symint(x) if dims and type(x) is int else x)
    return found


def _with_symbols(mode: FakeTensorMode, x: Tensor, dims: Any) -> Tensor:
    context = StatelessSymbolicContext([d in dims for d in range(x.dim())]) if dims else None
    made = mode.from_tensor(x.detach(), static_shapes=not dims, symbolic_context=context)
    return as_leaf(made, x)


class SymbolicProgram:
    """A program for all sizes that meet its guards."""

    def __init__(
        self, env: Any, inputs: Sequence[Any], at: Callable[[list[int]], Any], probe: Probe
    ) -> None:
        self.names = list(env.hints)
        #: symbols that are another's, or a number
        self.replaced = dict(env.replacements)
        self.guards, self._at, self._probe = tuple(env.guards), at, probe
        given = [_geometry(x) for x in inputs]
        #: where the inputs say what a symbol is: (number of the input, dimension or None, name)
        self.sources = _sources(given)
        self._expected = function_of(tuple(given), self.names)
        self._holds = holds(env.guards, self.names)
        equal = [guard for guard in env.guards if guard.relation == "=="]
        self._needs = holds(equal, self.names)
        self.example = tuple(env.hints.values())

    def at(self, key: Key, best: bool = True) -> Callable[..., Any] | None:
        """The program for inputs with this geometry; None where they do not fit.

        `best`: where it is also what these sizes would be compiled to alone. Without it, decisions that
        compare sizes (which loops are joined, what is called as a whole) may be other ones.
        """
        values = self.values(key, best)
        return None if values is None else self._at(values)

    def values(self, key: Key, best: bool = True) -> list[int] | None:
        """What the symbols are for inputs with this geometry; None where they do not fit."""
        known: dict[str, int] = {}
        for place, dim, name in self.sources:
            found = key[place] if dim is None else key[place][0][dim]
            if known.setdefault(name, found) != found or found < 2:
                return None
        for name, expr in self.replaced.items():
            if not expr.free_symbols - known.keys():
                known.setdefault(name, expr.value(known))
        values = [known[name] for name in self.names]
        decided = self._holds if best else self._needs
        fits = self._expected(*values) == key and decided(*values)
        return values if fits and self._probe.passes(values) else None

    def other_sizes(self, keys: Iterable[Key]) -> list[int] | None:
        """Sizes that fit and are not the example: of one of these keys, or close to the example."""
        near = ([n + step for n in self.example] for step in (1, -1, 2, 3, -2, 8, -8, 16, -16, 64))
        guesses = [self._expected(*values) for values in near]
        for key in (*keys, *guesses):
            values = self.values(key)
            if values is not None and tuple(values) != self.example:
                return values
        return None


class Probe:
    """The program on stand-ins of given sizes: whether its operators take them, and give what they are
    expected to. What an operator asks of its arguments is known to itself alone, and is no guard; nor is
    the size up to which a result has the form that it has for the sizes at which it was tried."""

    def __init__(self, function: Callable[..., Any], inputs: Sequence[Any], env: Any) -> None:
        self.function, self.inputs = function, list(inputs)
        given = [core.fake_snapshot(x) if isinstance(x, Tensor) else x for x in inputs]
        found = self._run(fake_mode_of(inputs), given)
        self.names = list(env.hints)
        self.expected = function_of(found, self.names)

    def passes(self, values: Sequence[int]) -> bool:
        """Whether the program runs for given values of the symbols as it should."""
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        at = AtSizes(dict(zip(self.names, values, strict=True)), mode)
        try:
            found = self._run(mode, at.inputs(self.inputs))
        except Exception:  # noqa: BLE001 - the program raises it again, where these sizes are compiled alone
            return False
        return bool(found == self.expected(*values))

    def _run(self, mode: FakeTensorMode, given: Sequence[Any]) -> list[Any]:
        """The geometry of what each operator gives, and of the results."""
        recording, keys = core.set_grad_enabled(False), core.thread_keys()
        generator = core.default_generator
        before = generator.clone_state()
        found: list[Any] = []
        mode.observer = lambda result: found.append(geometry(result))
        try:
            with mode, autocast.restored():
                results = self.function(*given)
        finally:
            mode.observer = None
            generator.graphsafe_set_state(before)
            core.set_thread_keys(keys)
            core.set_grad_enabled(recording)
        return [*found, *map(geometry, results)]


def _require_sizes(graph: Graph, env: ShapeEnv) -> None:
    """Guards that sizes of inner values are none of 0 and 1 either, where they are not now: such
    dimensions broadcast, and lie in memory as they like."""
    two = number(2)
    for node in graph.nodes:
        value = node.meta.get("val")
        for x in value if isinstance(value, (tuple, list)) else (value,):
            for size in x.shape if isinstance(x, Tensor) else ():
                if isinstance(size, SymInt) and plain(size) >= 2:
                    env.note(size.expr, ">=", two, True)
                elif isinstance(size, SymInt):
                    env.note(size.expr, "==", number(plain(size)), True)


def _geometry(x: object) -> Any:
    return (tuple(x.shape), tuple(x.stride())) if isinstance(x, Tensor) else x


def _sources(given: Sequence[Any]) -> list[tuple[int, int | None, str]]:
    found: list[tuple[int, int | None, str]] = []
    for place, x in enumerate(given):
        if isinstance(x, SymInt):
            found.append((place, None, str(x.expr.symbol)))
        elif isinstance(x, tuple):
            sizes = [(d, n.expr.symbol) for d, n in enumerate(x[0]) if isinstance(n, SymInt)]
            found += [(place, d, name) for d, name in sizes if name is not None]
    return found


def compile_for_sizes(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    options: Options,
    caller: Callable[[Any], Callable[..., Any]],
    keys: Iterable[Key] = (),
) -> SymbolicProgram:
    """A program of flat inputs for many sizes; `caller` says how it is called.

    The program is tried for sizes other than the example (of one of `keys`, where one fits): tracing
    and lowering for these alone must give the same graphs, kernels and numbers.

    Raises:
        NotSymbolic: inputs share memory that is written, or the sizes are fixed.
        TrialFailed: the trial gave something else.
    """
    plan = InputPlan(inputs)
    with stage("trace of forward and backward"):
        try:
            traced = traced_with(plan, function, inputs, options)
        except BeyondTensor:
            raise NotSymbolic("more of a written input's memory is shown than the input") from None
    if plan.needs_bases(traced):
        raise NotSymbolic("a written input shares memory with another")
    put_numbers_in_place(traced.joint.graph)
    env = fake_mode_of(inputs).shape_env
    _require_sizes(traced.joint.graph, env)
    graph = Graph()
    graph.output(graph.graph_copy(traced.joint.graph, {}))
    program, held = _Program(traced, options, graph), traced.held

    def at(values: list[int]) -> Callable[..., Any]:
        return caller(plan.wrap(program.at(values), held))

    made = SymbolicProgram(env, inputs, at, Probe(function, inputs, env))
    sizes = made.other_sizes(keys)
    if sizes is None:
        raise NotSymbolic("no other sizes fit")
    program.check(function, inputs, dict(zip(made.names, sizes, strict=True)))
    return made


class _Program:
    """Compiled graphs, and what else a program does, as functions of the symbols' values."""

    def __init__(self, traced: Traced, options: Options, graph: Graph) -> None:
        self.traced, self.options, self.graph = traced, options, graph
        self.signature = traced.signature
        self.names = list(symbols_of(graph).shape_env.hints)
        self.training = training(traced, options) if traced.training else None
        self.inference = None if traced.training else inference(traced, options)

    def at(self, values: list[int]) -> runtime.Boxed:
        """The program for given values."""
        at = AtSizes(dict(zip(self.names, values, strict=True)))
        signature = signature_at(self.signature, at)
        if self.training is not None:
            return self._training(self.training, signature, values, at)
        compiled: Any = self.inference
        return runtime.inference_call(runtime.boxed_of(compiled(*values)), signature)

    def _training(
        self, program: Any, signature: Signature, values: list[int], at: AtSizes
    ) -> runtime.Boxed:
        sizes, backward, compiler = at.sizes, program.graph, self.options.bw_compiler
        wanted = set(program.cotangents)
        return runtime.training_call(
            replace(
                program,
                forward=runtime.boxed_of(program.forward(*values)),
                backward=runtime.boxed_of(program.backward(*values)),
                signature=signature,
                metas=[at.of(m) if i in wanted else None for i, m in enumerate(program.metas)],
                partial=Deferred(lambda: Partial(graph_at(backward, sizes), compiler)),
                graph=Deferred(lambda: graph_at(backward, sizes)),
            )
        )

    def check(
        self, function: Callable[..., Any], inputs: Sequence[Any], sizes: dict[str, int]
    ) -> None:
        """Compare with the program that is traced and lowered for given sizes alone; once."""
        at, traced = AtSizes(sizes), self.traced
        given = at.inputs(inputs)
        alone = traced_with(InputPlan(given), function, given, self.options)
        here = graph_at(GraphModule(traced.joint, self.graph), sizes)
        if not same_graph(here.graph, alone.joint.graph) or _effects(
            signature_at(traced.signature, at), at.of(traced.metas), traced
        ) != _effects(alone.signature, alone.metas, alone):
            raise TrialFailed(f"the trace for {sizes} is another one")
        program = self.training
        compiled: list[Any] = [self.inference]
        if program is not None:
            compiled = [program.forward, program.backward]
        for each in compiled:
            if not each.check(sizes):
                raise TrialFailed(f"the kernels for {sizes} are others")
        self.graph = self.traced = None  # type: ignore[assignment]  # graphs are many objects


def _effects(signature: Signature, metas: Sequence[Any], traced: Traced) -> Any:
    """What a program does besides computing, as values that compare."""

    def steps(given: Sequence[ViewStep]) -> Any:
        return [(s.op, geometry(s.args), s.pick, geometry(s.meta)) for s in given]

    writes = [(w.input, w.value, w.hidden, steps(w.geometry)) for w in signature.writes]
    results = [(r.kind, r.source, steps(r.steps)) for r in signature.results]
    return (
        writes, results, signature.differentiable, geometry(metas), traced.wanted, traced.cotangents,
    )  # fmt: skip


def signature_at(signature: Signature, at: AtSizes) -> Signature:
    """What a program does besides computing, for given sizes."""
    if signature.plain:
        return signature

    def steps(given: tuple[ViewStep, ...]) -> tuple[ViewStep, ...]:
        return tuple(ViewStep(s.op, at.of(s.args), s.pick, at.of(s.meta)) for s in given)

    writes = [Write(w.input, w.value, w.hidden, steps(w.geometry)) for w in signature.writes]
    results = [Result(r.kind, at.of(r.source), steps(r.steps)) for r in signature.results]
    return Signature(writes, results, signature.differentiable)


__all__ = ["NotSymbolic", "SymbolicProgram", "compile_for_sizes", "signature_at"]
