"""From a function and its arguments to a compiled program.

Takes: a function of flat inputs, the inputs, and compilers for graphs.
Gives: a function of a list of inputs that runs the compiled graphs as the program would run.
Keeps true: inputs that are one tensor are one input of the graphs; inputs that lie on the same memory,
of which one is written, come from one base, so that each sees the writes to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from facula import core
from facula.autograd.transforms.view_inverses import ViewStep
from facula.core.errors import fail
from facula.fx import GraphModule, Node
from facula.lower.aot import runtime
from facula.lower.aot.fakes import fake_inputs
from facula.lower.aot.partition import default_partition
from facula.lower.aot.tracing import Traced, trace
from facula.ops.registry import F

Tensor = core.Tensor
Compiler = Callable[[GraphModule, list[Any]], Callable[..., Any]]


@dataclass(slots=True)
class Options:
    """What graphs are made and compiled with."""

    fw_compiler: Compiler
    bw_compiler: Compiler
    inference_compiler: Compiler
    partition_fn: Callable[..., Any] = default_partition
    decompositions: dict[Any, Callable[..., Any]] | None = None
    #: passes over flat graphs: a function from graph module to graph module
    passes: Callable[[GraphModule], GraphModule] | None = None


def compile_flat(function: Callable[..., Any], inputs: Sequence[Any], options: Options) -> Any:
    """The compiled program: takes a list of inputs like `inputs`, gives the flat results."""
    plan = _InputPlan(inputs)
    traced = _trace(plan, function, inputs, options)
    if plan.needs_bases(traced):
        plan.use_bases(inputs)
        traced = _trace(plan, function, inputs, options)
    call = _training(traced, options) if traced.training else _inference(traced, options)
    return plan.wrap(call)


def _trace(
    plan: _InputPlan, function: Callable[..., Any], inputs: Sequence[Any], options: Options
) -> Traced:
    fakes = fake_inputs(plan.taken(inputs))
    return trace(plan.adapted(function), fakes, decompositions=options.decompositions)


def examples_of(module: GraphModule) -> list[Any]:
    """The fake inputs of a graph."""
    return [n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder"]


def _inference(traced: Traced, options: Options) -> runtime.Boxed:
    module = traced.joint if options.passes is None else options.passes(traced.joint)
    # values that are nothing but an input's new elements: a compiler may write them there at once,
    # and give the input itself as the value
    kept = {r.source for r in traced.signature.results if r.kind.startswith("value")}
    module.meta["writes"] = {
        w.value: w.input
        for w in traced.signature.writes
        if w.value is not None and w.value not in kept
    }
    compiled = runtime.boxed_of(options.inference_compiler(module, examples_of(module)))
    return runtime.inference_call(compiled, traced.signature)


def _training(traced: Traced, options: Options) -> runtime.Boxed:
    joint = traced.joint if options.passes is None else options.passes(traced.joint)
    count = len(traced.metas)
    forward, backward = options.partition_fn(joint, examples_of(joint), num_fwd_outputs=count)
    outputs = list(forward.graph.output_node().args[0])
    first = set(outputs[:count])
    values = [n for n in outputs[:count] if isinstance(n, Node)]
    kept = outputs[count:]
    program = runtime.Training(
        forward=runtime.boxed_of(options.fw_compiler(forward, examples_of(forward))),
        backward=runtime.boxed_of(options.bw_compiler(backward, examples_of(backward))),
        signature=traced.signature,
        wanted=tuple(traced.wanted),
        metas=traced.metas,
        cotangents=tuple(traced.cotangents),
        passed=tuple(i for i, n in enumerate(outputs[:count]) if n.op == "placeholder"),
        shared=tuple(i for i, n in enumerate(kept) if n in first),
        exposed=tuple(
            i for i, n in enumerate(kept)
            if isinstance(n.meta.get("val"), Tensor) and not n.meta.get("written")
            and (n.op == "placeholder" or n in values)
        ),
        copied=tuple(i for i, n in enumerate(kept) if n.meta.get("written")),
    )  # fmt: skip
    return runtime.training_call(program)


class _InputPlan:
    """Which inputs the graphs take, and how the program's inputs come from them."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        first: dict[int, int] = {}
        #: for each input of the program, the input of the graphs that it is
        self.place = []
        #: the program's inputs that the graphs take
        self.kept: list[int] = []
        for number, x in enumerate(inputs):
            known = first.get(id(x)) if isinstance(x, Tensor) else None
            if known is None:
                known = len(self.kept)
                self.kept.append(number)
                if isinstance(x, Tensor):
                    first[id(x)] = known
            self.place.append(known)
        self.memories = self._shared_memories(inputs)
        #: for each base: the numbers (among the kept) of its views, and how they are views
        self.bases: list[list[tuple[int, ViewStep]]] = []

    def _shared_memories(self, inputs: Sequence[Any]) -> list[list[int]]:
        found: dict[int, list[int]] = {}
        for number in self.kept:
            x = inputs[number]
            if isinstance(x, Tensor) and x.numel():
                found.setdefault(core.storage_key(x), []).append(number)
        return [group for group in found.values() if len(group) > 1]

    def taken(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs of the graphs."""
        if not self.bases:
            return [inputs[i] for i in self.kept]
        views = {number for group in self.bases for number, _ in group}
        rest = [inputs[i] for i in self.kept if i not in views]
        return rest + [_base_of([inputs[i] for i, _ in group]) for group in self.bases]

    def needs_bases(self, traced: Traced) -> bool:
        """Whether a written input shares memory with another."""
        written = {self.kept[w.input] for w in traced.signature.writes if w.value is not None}
        return any(written.intersection(group) for group in self.memories)

    def use_bases(self, inputs: Sequence[Any]) -> None:
        """Take the memory of inputs that share one as one input."""
        for group in self.memories:
            base = _base_of([inputs[i] for i in group])
            meta = core.TensorMeta(base)
            self.bases.append([(i, _place(inputs[i], meta)) for i in group])

    def adapted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The program as a function of the inputs of the graphs."""
        if not self.bases and len(self.kept) == len(self.place):
            return function

        def program(*args: Any) -> Any:
            return function(*self.spread(args))

        return program

    def spread(self, args: Sequence[Any]) -> list[Any]:
        """The program's inputs from those of the graphs."""
        if not self.bases:
            return [args[i] for i in self.place]
        views = {number for group in self.bases for number, _ in group}
        rest = [i for i in self.kept if i not in views]
        known = dict(zip(rest, args, strict=False))
        for base, group in zip(args[len(rest) :], self.bases, strict=True):
            for number, step in group:
                known[number] = step.apply(base)
        return [known[self.kept[i]] for i in self.place]

    def wrap(self, call: runtime.Boxed) -> runtime.Boxed:
        """The compiled graphs as a function of the program's inputs."""
        if not self.bases and len(self.kept) == len(self.place):
            return call
        if not self.bases:
            kept = self.kept
            return lambda args: call([args[i] for i in kept])
        return lambda args: call(self.taken(args))


def _base_of(views: list[Tensor]) -> Tensor:
    """One tensor that covers the memory of several."""
    bases = {id(v if v._base is None else v._base): v for v in views}
    if len(bases) == 1:
        found = views[0] if views[0]._base is None else views[0]._base
        if found is not None:
            return found
    if any(v.requires_grad for v in views) and core.is_grad_enabled():
        fail(
            NotImplementedError,
            "compile",
            "views of one tensor were required as inputs that share memory, are written and "
            "require grad",
            "inputs that share memory otherwise",
            hint="clone() one of them",
        )
    dtype = views[0].dtype
    if any(v.dtype != dtype for v in views):
        fail(
            NotImplementedError,
            "compile",
            "one dtype was required of inputs that share memory and are written",
            ", ".join(sorted({str(v.dtype) for v in views})),
            hint="clone() one of them",
        )
    length = views[0].untyped_storage().nbytes() // dtype.itemsize
    return views[0].detach().as_strided((length,), (1,), 0)


def _place(x: Tensor, meta: Any) -> ViewStep:
    place = (tuple(x.shape), tuple(x.stride()), x.storage_offset())
    return ViewStep(F.as_strided, place, None, meta)
