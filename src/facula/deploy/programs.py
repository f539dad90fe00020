"""Exported programs as functions of constants and inputs, compiled, and what they launch.

Takes: an `ExportedProgram`. Gives: `Source`: its inputs, constants and symbols; `compiled_regions`: the
launches of its compiled graphs for all sizes, what is made of the constants ahead, and the C text of
fused kernels for each variant.
Keeps true: what is noted is what the compiled graph runs; a program that changes state is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from facula import core
from facula.codegen.c.loops.fused_unit import Unit
from facula.compiler import backend, pipeline
from facula.compiler import options as config
from facula.compiler.pipeline import begin_graph, lowered
from facula.core.errors import fail
from facula.deploy.fitting import Expression, Point, stacked
from facula.deploy.kernels import VARIANTS
from facula.deploy.noting import Noted, note
from facula.deploy.program_text import Value
from facula.deploy.regions import Region, regions
from facula.export.core_forms import composites
from facula.export.exported_program import ExportedProgram
from facula.export.signature import ConstantArgument, InputKind, OutputKind
from facula.fx.size_functions import number_text
from facula.fx.symbols import SymInt, plain
from facula.lower.aot.api import aot_module_for_sizes, aot_module_simplified
from facula.lower.aot.for_sizes import NotSymbolic, with_symbols
from facula.lower.passes.freezing import Frozen
from facula.runtime import cpu_features, libraries

if TYPE_CHECKING:
    from facula.fx import Node


Tensor = core.Tensor
#: what stands for "no end" in the range of a size, tried from there down
FAR = 1 << 16


class Source:
    """An exported program: placeholders in order, which are constants, and the symbols of sizes."""

    def __init__(self, program: ExportedProgram) -> None:
        program = program._decomposed(composites())  # what it writes to, it says in its signature
        self.program, self.module = program, program.graph_module
        self.constants: list[tuple[str, Tensor]] = []
        self.owned: list[bool] = []
        self.inputs: list[Any] = []
        self.given: list[Any] = []  # of each placeholder: ("constant", k), ("input", k) or a value
        self.symbols: list[str] = []
        self.ranges: list[tuple[int, int]] = []
        #: sizes of the export's own inputs, no two of them equal
        self.example: Point = ()
        self._refuse_writes()
        nodes = [n for n in self.module.graph.nodes if n.op == "placeholder"]
        for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True):
            self._add(node, spec)

    def _refuse_writes(self) -> None:
        kinds = {spec.kind for spec in self.program.graph_signature.output_specs}
        if kinds - {OutputKind.USER_OUTPUT}:
            fail(
                NotImplementedError,
                "package",
                "a program that changes neither its buffers nor its inputs was required",
                ", ".join(sorted(k.name for k in kinds - {OutputKind.USER_OUTPUT})),
                hint="call eval() on the module before export()",
            )

    def _add(self, node: Node, spec: Any) -> None:
        if spec.kind is not InputKind.USER_INPUT:
            held = self.program.constants
            found = held if spec.target in held else self.program.state_dict
            self.given.append(("constant", len(self.constants)))
            self.constants.append((spec.target, found[spec.target].detach()))
            self.owned.append(spec.kind is not InputKind.CONSTANT_TENSOR)
        elif isinstance(spec.arg, ConstantArgument):
            self.given.append(("value", spec.arg.value))
        else:
            self.given.append(("input", len(self.inputs)))
            self.inputs.append(self._value(node))

    def _value(self, node: Node) -> Value:
        value = node.meta["val"]
        sizes = tuple(self._size(n) for n in value.shape)
        return Value(node.name, value.dtype.code, sizes)

    def _size(self, size: Any) -> tuple[int, int, int]:
        if isinstance(size, int) and not hasattr(size, "expr"):
            return 0, int(size), 0
        names = sorted(size.expr.free_symbols)
        if not names:
            return 0, int(size), 0
        (name,) = names
        if name not in self.symbols:
            bounds = self.program.range_constraints.get(name)
            most = FAR if bounds is None else min(int(bounds.upper), FAR)
            self.symbols.append(name)
            self.ranges.append((0 if bounds is None else int(bounds.lower), most))
            offset = size.expr.value({name: 0})
            self._example_of((plain(size) - offset) // (size.expr.value({name: 1}) - offset))
        offset = size.expr.value({name: 0})
        return size.expr.value({name: 1}) - offset, offset, self.symbols.index(name)

    def _example_of(self, size: int) -> None:
        least, most = self.ranges[-1]
        wanted = (size, *range(max(least, 2), min(most, least + 64)))
        self.example += (next((n for n in wanted if n not in self.example and n >= 2), size),)

    def tensors(self, point: Point) -> list[Tensor]:
        """Inputs of these sizes, whose elements are not set."""
        made = []
        for value in self.inputs:
            shape = [b + (a * point[k] if a else 0) for a, b, k in value.sizes]
            made.append(core.empty(tuple(shape), dtype=_DTYPES[value.code]))
        return made

    def arguments(self, inputs: Sequence[Any]) -> list[Any]:
        """What the graph is called with."""
        found = []
        for kind, number in self.given:
            if kind == "value":
                found.append(number)
            else:
                found.append(self.constants[number][1] if kind == "constant" else inputs[number])
        return found

    def flags(self) -> list[bool]:
        """Of each argument, whether it is a parameter or buffer."""
        return [kind == "constant" and self.owned[number] for kind, number in self.given]

    def moving(self) -> list[Any]:
        """Of each argument, the dimensions that may change."""
        found: list[Any] = []
        for kind, number in self.given:
            sizes = self.inputs[number].sizes if kind == "input" else ()
            found.append([d for d, (a, _, _) in enumerate(sizes) if a])
        return found


_DTYPES = {d.code: d for d in vars(core).values() if isinstance(d, core.dtype)}


@dataclass(slots=True)
class Parts:
    """What a package is made of."""

    source: Source
    regions: list[Region] = field(default_factory=list)
    derived: list[Tensor] = field(default_factory=list)
    #: for each variant the texts of fused units
    fused: dict[str, list[str]] = field(default_factory=dict)


class Graphs:
    """Compiles the flat graphs of a program, and keeps what a package needs of them."""

    def __init__(self, variants: Sequence[str], chosen: dict[str, Any], fuses: bool = True) -> None:
        self.variants, self.chosen, self.fuses = variants, chosen, fuses
        self.fused: dict[str, list[str]] = {variant: [] for variant in variants}
        self.frozen: list[Frozen] = []
        #: expressions among the numbers of launches
        self.expressions: dict[Any, None] = {}

    def compiled(self, module: Any, examples: Sequence[Any]) -> Any:
        """The compiler of flat graphs."""
        with config.patch(self.chosen):
            frozen = backend.specialised(module)
        if self.fuses:
            finish = begin_graph(module, {**self.chosen, "force_disable_caches": True})
            self._texts(module)
            call = finish()
        else:
            call = lambda args: module(*args)  # noqa: E731
            call._boxed_call = True  # type: ignore[attr-defined]
        if frozen is None:
            return call.boxed if hasattr(call, "boxed") else call
        self.frozen.append(frozen)
        inner = call.boxed if hasattr(call, "boxed") else call

        def run(args: list[Any]) -> Any:
            return inner([*args, *frozen.results])

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _texts(self, module: Any) -> None:
        with config.patch(self.chosen):
            own = lowered(module)
            for number in (own.plan.size, *(n for each in own.unit.numbers for n in each)):
                if isinstance(number, SymInt):
                    self.expressions[number.env.simplified(number.expr)] = None
            if not own.unit.drivers:
                return
            for variant in self.variants:
                if variant == cpu_features.detected():
                    text = own.unit.text
                else:
                    with cpu_features.as_if(variant):
                        text = _renamed(lowered(module), own)
                self.fused[variant].append(text)


def _renamed(other: Any, own: Any) -> str:
    """The unit of another variant under the names of this one; this one's text, where the launches are
    others."""
    if _launches(other) != _launches(own):
        return str(own.unit.text)
    text = other.unit.text
    for there, here in zip(other.unit.drivers, own.unit.drivers, strict=True):
        text = text.replace(f'"{there}"', f'"{here}"')
    return str(text)


def _launches(given: Any) -> Any:
    """What a package relies on of a lowered graph, beside its text."""
    slots = [
        [None if b is None else b.name for b in step.slots]
        if hasattr(step, "slots")
        else step.origin
        for step in given.order
    ]
    unit: Unit = given.unit
    numbers = [[number_text(n) for n in each] for each in unit.numbers]
    places = sorted((b.name, number_text(n)) for b, n in given.plan.offsets.items())
    return slots, numbers, places, number_text(given.plan.size), len(unit.drivers)


def compiled_parts(
    source: Source,
    variants: Sequence[str],
    options: dict[str, Any] | None = None,
    fuses: bool = True,
) -> Parts:
    """Compile a program and note what it launches."""
    parts = Parts(source)
    recording = core.set_grad_enabled(False)
    try:
        # this processor too: what is made of the constants is made here once
        every = variants or [variant for each in VARIANTS.values() for variant in each]
        with cpu_features.serving([*every, libraries.kernel_variant()]):
            if source.symbols and fuses:
                _dynamic(parts, variants, options or {})
            else:
                _static(parts, variants, options or {}, fuses)
    finally:
        core.set_grad_enabled(recording)
    return parts


def _chosen(options: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**config.chosen(None, options), **more}


def _compile(graphs: Graphs, source: Source, point: Point) -> Callable[..., Any]:
    """The program for inputs of given sizes."""
    arguments = source.arguments(source.tensors(point))
    with config.patch(graphs.chosen):
        return aot_module_simplified(
            pipeline.captured(source.module),
            arguments,
            fw_compiler=graphs.compiled,
            partition_fn=pipeline.partition,
            passes=backend.passes_of(graphs.chosen),
            tracer=pipeline.to_joint,
            owned=source.flags(),
        )


def _flat(results: tuple[Any, ...]) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def _noted(
    call: Any, source: Source, inputs: Sequence[Any], derived: Sequence[Any], dry: bool
) -> Noted:
    held = [tensor for _, tensor in source.constants]
    return note(lambda: _flat(call(*source.arguments(inputs))), inputs, [*held, *derived], dry=dry)


def _static(parts: Parts, variants: Sequence[str], options: dict[str, Any], fuses: bool) -> None:
    source = parts.source
    graphs = Graphs(variants, _chosen(options), fuses)
    if source.symbols:
        fail(
            NotImplementedError,
            "package",
            "fixed sizes were required",
            f"sizes that vary: {', '.join(source.symbols)}",
            hint="export without dynamic_shapes",
        )
    call = _compile(graphs, source, ())
    parts.fused = graphs.fused
    held = [tensor for _, tensor in source.constants]
    ahead = Region((), Noted([], 0, []), [])
    if graphs.frozen:
        (frozen,) = graphs.frozen
        given = source.arguments(source.tensors(()))
        inputs = [given[k] for k in frozen.places]
        noted = note(lambda: _held_results(frozen, inputs), [], held, dry=False)
        ahead = Region((), noted, list(noted.numbers))
        parts.derived = list(frozen.results)
    noted = _noted(call, source, source.tensors(()), parts.derived, True)
    parts.regions = [ahead, Region((), noted, list(noted.numbers))]


def _held_results(frozen: Frozen, inputs: Sequence[Any]) -> list[Any]:
    frozen.results = list(frozen.module(*inputs))
    return frozen.results


def _dynamic(parts: Parts, variants: Sequence[str], options: dict[str, Any]) -> None:
    source = parts.source
    programs = _Programs(source, variants, options)

    def note_at(point: Point) -> Noted:
        inputs = source.tensors(point)
        return _noted(programs.at(point, inputs), source, inputs, (), True)

    ranges = programs.reached()
    empty = Region(ranges, Noted([], 0, []), [])
    parts.regions = [empty, *regions(note_at, ranges, programs.expressions)]
    parts.fused = programs.fused()


class _Programs:
    """The compiled forms of a program: for as many sizes as the compiler's decisions hold, and others."""

    def __init__(self, source: Source, variants: Sequence[str], options: dict[str, Any]) -> None:
        self.source, self.variants, self.options = source, variants, options
        self.all: list[tuple[Any, Graphs]] = []
        self.fixed: dict[Point, tuple[Any, Graphs]] = {}

    def fused(self) -> dict[str, list[str]]:
        """The fused units of all of them, each once."""
        every = [graphs for _, graphs in (*self.all, *self.fixed.values())]
        return {
            variant: list(dict.fromkeys(t for graphs in every for t in graphs.fused[variant]))
            for variant in self.variants
        }

    def expressions(self) -> list[Expression]:
        """The expressions of all programs, over the symbols of the source."""
        found: dict[Expression, None] = {}
        for program, graphs in self.all:
            sizes = {}
            for place, dim, name in program.sources:
                kind, number = self.source.given[place]
                if kind == "input" and dim is not None:
                    sizes[name] = self.source.inputs[number].sizes[dim]
            for expression in graphs.expressions:
                if expression.free_symbols <= sizes.keys():
                    found[stacked(expression, sizes)] = None
        return list(found)

    def reached(self) -> tuple[tuple[int, int], ...]:
        """The ranges of sizes, as far up as there is memory for the inputs."""
        ranges = list(self.source.ranges)
        while True:
            point = tuple(most for _, most in ranges)
            if sum(x.numel() for x in _meta_inputs(self.source, point)) < 1 << 28:
                return tuple(ranges)
            widest = max(range(len(ranges)), key=lambda k: ranges[k][1])
            least, most = ranges[widest]
            ranges[widest] = (least, max(most // 2, least))

    def at(self, point: Point, inputs: Sequence[Any]) -> Any:
        """What runs for these sizes."""
        arguments = self.source.arguments(inputs)
        key = tuple(_geometry(x) for x in arguments)
        if not self.all and min(point) >= 2:
            self._add(self.source.example)
        found = self._known(key)
        if found is not None:
            return found
        if point in self.fixed:
            return self.fixed[point][0]
        if len(self.all) < 4 and min(point) >= 2 and self._add(point):
            found = self._known(key)
            if found is not None:
                return found
        if len(self.fixed) >= 32:
            fail(
                NotImplementedError,
                "package",
                "a program that the compiler makes for many sizes at once was required",
                f"32 sizes that need one of their own, {point} among them",
                hint="narrow the range of Dim(min=, max=), or export with fixed sizes",
            )
        graphs = Graphs(self.variants, _chosen(self.options, freezing=False))
        call = _compile(graphs, self.source, point)
        self.fixed[point] = call, graphs
        return call

    def _known(self, key: tuple[Any, ...]) -> Any:
        """The first program that serves sizes."""
        return next(filter(None, (p.at(key, best=False) for p, _ in self.all)), None)

    def _add(self, point: Point) -> bool:
        """Compile a program with symbols, with a point as the example."""
        graphs = Graphs(self.variants, _chosen(self.options, dynamic=True))
        arguments = self.source.arguments(self.source.tensors(point))
        try:
            self.all.append((self._symbolic(graphs, arguments, point), graphs))
        except NotSymbolic:
            return False
        return True

    def _near(self, point: Point) -> Iterator[Any]:
        """Geometries of inputs of sizes close by, for the compiler to try the program with."""
        for axis, (least, most) in enumerate(self.source.ranges):
            for step in (1, -1, 2, -2, 3, -3, 5, -5, 16, -16):
                if max(least, 2) <= point[axis] + step <= most:
                    sizes = (*point[:axis], point[axis] + step, *point[axis + 1 :])
                    yield tuple(map(_geometry, self.source.arguments(self.source.tensors(sizes))))

    def _symbolic(self, graphs: Graphs, arguments: Sequence[Any], point: Point) -> Any:
        with config.patch(graphs.chosen):
            return aot_module_for_sizes(
                pipeline.captured(self.source.module),
                with_symbols(arguments, self.source.moving()),
                graphs.compiled,
                pipeline.partition,
                passes=backend.passes_of(graphs.chosen),
                tracer=pipeline.to_joint,
                keys=self._near(point),
            )


def _geometry(x: Tensor) -> Any:
    return (tuple(x.shape), tuple(x.stride())) if isinstance(x, Tensor) else x


def _meta_inputs(source: Source, point: Point) -> list[Tensor]:
    with core.device("meta"):
        return source.tensors(point)
