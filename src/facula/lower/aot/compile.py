"""From a function and its arguments to a compiled program.

Takes: a function of flat inputs, the inputs, and compilers for graphs.
Gives: a function of a list of inputs that runs the compiled graphs as the program would run.
Keeps true: inputs that are one tensor are one input of the graphs; inputs that lie on the same memory,
of which one is written, come from one base, so that each sees the writes to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from facula import core
from facula.autograd.transforms.aliases import BeyondTensor
from facula.autograd.transforms.view_inverses import ViewStep
from facula.core import logs
from facula.core.errors import fail
from facula.core.stages import stage
from facula.fx import GraphModule, Node
from facula.lower.aot import runtime
from facula.lower.aot.fakes import fake_inputs
from facula.lower.aot.partial import Partial
from facula.lower.aot.partition import default_partition
from facula.lower.aot.signature import Signature
from facula.lower.aot.tracing import Traced, trace
from facula.lower.passes.memory import root_of
from facula.ops.table.overloads import overload_of
from facula.ops.table.registry import F

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
    #: gives the joint graph of a function and its inputs
    tracer: Callable[..., Traced] = trace
    #: writes to inputs stand in inference graphs, as `copy_`
    keep_writes: bool = False
    #: the program may turn the recording of gradients on itself
    records: bool = False
    #: of the program's inputs, those that a module owns: `meta["owned"]` of their placeholders
    owned: Sequence[bool] = ()
    #: nobody keeps the joint and the forward graph: they are taken apart when they have served
    passing: bool = False


def compile_flat(function: Callable[..., Any], inputs: Sequence[Any], options: Options) -> Any:
    """The compiled program: takes a list of inputs like `inputs`, gives the flat results."""
    plan = InputPlan(inputs)
    with stage("trace of forward and backward"):
        traced = _traced(plan, function, inputs, options)
    if options.owned and not plan.bases:
        placeholders = [n for n in traced.joint.graph.nodes if n.op == "placeholder"]
        for node, number in zip(placeholders, plan.kept, strict=False):
            node.meta["owned"] = options.owned[number]
    if traced.training:
        call = runtime.training_call(_boxed(training(traced, options)))
    else:
        call = runtime.inference_call(
            runtime.boxed_of(inference(traced, options)), traced.signature
        )
    return plan.wrap(call, traced.held)


def _traced(
    plan: InputPlan, function: Callable[..., Any], inputs: Sequence[Any], options: Options
) -> Traced:
    """The program with the inputs of its graphs chosen: whole memories, where it needs these."""
    try:
        traced = traced_with(plan, function, inputs, options)
    except BeyondTensor:
        plan.use_wholes(inputs)
        return traced_with(plan, function, inputs, options)
    if not plan.needs_bases(traced):
        return traced
    plan.use_bases(inputs, traced)
    return traced_with(plan, function, inputs, options)


def traced_with(
    plan: InputPlan, function: Callable[..., Any], inputs: Sequence[Any], options: Options
) -> Traced:
    fakes = fake_inputs(plan.taken(inputs))
    return options.tracer(
        plan.adapted(function), fakes, decompositions=options.decompositions, lift=True,
        records=options.records,
    )  # fmt: skip


def _show(part: str, module: GraphModule) -> None:
    """Log a flat graph."""
    log = logs.get_logger("aot")
    log.info("%s graph: %d nodes", part, len(module.graph.nodes))
    artifact = "aot_joint_graph" if part == "joint" else "aot_graphs"
    if logs.is_on(artifact):
        shown = module.print_readable(print_output=False)
        logs.artifact(artifact).debug("AOT %s graph:\n%s", part, shown)


def examples_of(module: GraphModule) -> list[Any]:
    """The fake inputs of a graph."""
    return [n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder"]


def _passed(module: GraphModule, options: Options) -> GraphModule:
    if options.passes is None:
        return module
    with stage("passes over the flat graph"):
        return options.passes(module)


def inference(traced: Traced, options: Options) -> Any:
    """What the compiler makes of a program without a backward part."""
    module = _passed(traced.joint, options)
    if options.keep_writes:
        _write_in_graph(module, traced.signature)
    # values that are nothing but an input's new elements: a compiler may write them there at once,
    # and give the input itself as the value
    kept = {r.source for r in traced.signature.results if r.kind.startswith("value")}
    module.meta["writes"] = {
        w.value: w.input
        for w in traced.signature.writes
        if w.value is not None and w.value not in kept
    }
    _show("inference", module)
    return options.inference_compiler(module, examples_of(module))


def _write_in_graph(module: GraphModule, signature: Signature) -> None:
    """Let the graph write to inputs, instead of giving the new elements as values."""
    graph = module.graph
    output = graph.output_node()
    values: list[Any] = list(output.args[0])
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    kept: set[int] = {r.source for r in signature.results if r.kind.startswith("value")}
    for write in signature.writes:
        if write.value is None:
            continue
        args = (inputs[write.input], values[write.value])
        with graph.inserting_before(output):
            metas = tuple(n.meta["val"] for n in args)
            node = graph.call_function(overload_of(Tensor.copy_, metas), args)
        node.meta["val"] = args[0].meta["val"]
        write.value = None
    places = {old: new for new, old in enumerate(sorted(kept))}
    output.args = (tuple(values[old] for old in places),)
    for result in signature.results:
        if result.kind.startswith("value"):
            result.source = places[result.source]
    signature.differentiable = [signature.differentiable[old] for old in places]
    signature.writes = [w for w in signature.writes if w.geometry]
    module.renew()


def training(traced: Traced, options: Options) -> runtime.Training:
    """A program with its forward and backward graphs compiled."""
    joint = _passed(traced.joint, options)
    _show("joint", joint)
    count = len(traced.metas)
    with stage("partition into forward and backward"):
        forward, backward = options.partition_fn(joint, examples_of(joint), num_fwd_outputs=count)
    _show("forward", forward)
    _show("backward", backward)
    program = _uncompiled(traced, forward, backward, options)
    if options.passing:
        joint.graph.take_apart()
        traced.joint.graph.take_apart()
    compiled_forward = _begun(options.fw_compiler, forward)
    if options.passing:
        forward.graph.take_apart()
    compiled_backward = _begun(options.bw_compiler, backward)
    program.forward, program.backward = compiled_forward(), compiled_backward()
    if options.passing and len(program.cotangents) == 1:  # no part of it will be wanted
        for node in backward.graph.nodes:
            node.meta.pop("val", None)
    return program


def _uncompiled(
    traced: Traced, forward: GraphModule, backward: GraphModule, options: Options
) -> runtime.Training:
    """What is known of a program before its graphs are compiled: which values go from one to the other."""
    count = len(traced.metas)
    outputs = list(forward.graph.output_node().args[0])
    first = set(outputs[:count])
    values = [n for n in outputs[:count] if isinstance(n, Node)]
    kept = outputs[count:]
    return runtime.Training(
        forward=_not_compiled,
        backward=_not_compiled,
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
        copied=tuple(i for i, n in enumerate(kept) if root_of(n).meta.get("written")),
        partial=Partial(backward, options.bw_compiler),
        graph=backward,
    )  # fmt: skip


def _boxed(program: runtime.Training) -> runtime.Training:
    """A program whose graphs take lists."""
    program.forward = runtime.boxed_of(program.forward)
    program.backward = runtime.boxed_of(program.backward)
    return program


def _not_compiled(inputs: list[Any]) -> Any:
    raise AssertionError("a program runs when its graphs have been compiled")


def _begun(compiler: Compiler, module: GraphModule) -> Callable[[], Any]:
    """A graph compiled, or where the compiler can do that (`compiler.begin`), on the way to it."""
    begin = getattr(compiler, "begin", None)
    if begin is not None:
        return cast(Callable[[], Any], begin(module, examples_of(module)))
    made = compiler(module, examples_of(module))
    return lambda: made


class InputPlan:
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
        self.bases: list[list[tuple[int, tuple[ViewStep, ...]]]] = []
        #: of the program's inputs on these bases, those that end with another geometry, and the steps to it
        self.reshaped: list[tuple[int, tuple[ViewStep, ...]]] = []
        #: whether the graphs take the whole memory of each input
        self.whole = False

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
        groups = [[inputs[i] for i, _ in group] for group in self.bases]
        return rest + [_base_of(views, self.whole) for views in groups]

    def needs_bases(self, traced: Traced) -> bool:
        """Whether a written input shares memory with another."""
        count = len(self.kept)  # behind these come tensors that the program holds
        written = {
            self.kept[w.input]
            for w in traced.signature.writes
            if w.value is not None and w.input < count
        }
        return any(written.intersection(group) for group in self.memories)

    def use_bases(self, inputs: Sequence[Any], traced: Traced) -> None:
        """Take the memory of inputs that share one as one input."""
        for group in self.memories:
            base = _base_of([inputs[i] for i in group])
            self.bases.append([(i, _steps_to(inputs[i], base)) for i in group])
        grouped = {number for group in self.memories for number in group}
        for write in traced.signature.writes:
            if write.geometry and write.input < len(self.kept):
                number = self.kept[write.input]
                if number in grouped:
                    self.reshaped.append((number, write.geometry))

    def use_wholes(self, inputs: Sequence[Any]) -> None:
        """Take the whole memory of each input: the program shows more of it than the inputs do."""
        alone = [i for i in self.kept if isinstance(inputs[i], Tensor) and inputs[i].numel()]
        shared = {i for group in self.memories for i in group}
        groups = [*self.memories, *([i] for i in alone if i not in shared)]
        bases = [_base_of([inputs[i] for i in group], whole=True) for group in groups]
        self.bases = [
            [(i, _steps_to(inputs[i], base)) for i in group]
            for group, base in zip(groups, bases, strict=True)
        ]
        self.memories, self.whole = groups, True

    def adapted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The program as a function of the inputs of the graphs."""
        if not self.bases and len(self.kept) == len(self.place):
            return function

        def program(*args: object) -> Any:
            given = self.spread(args)
            before = [_place_of(x) for x in given]
            made = function(*given)
            if self.whole and before != [_place_of(x) for x in given]:
                fail(
                    NotImplementedError,
                    "as_strided",
                    "inputs that keep their sizes and strides were required in a program that writes "
                    "to elements between or beyond theirs",
                    hint="use the form without the underscore of the view",
                )
            return made

        return program

    def spread(self, args: Sequence[Any]) -> list[Any]:
        """The program's inputs from those of the graphs."""
        if not self.bases:
            return [args[i] for i in self.place]
        views = {number for group in self.bases for number, _ in group}
        rest = [i for i in self.kept if i not in views]
        known = dict(zip(rest, args, strict=False))
        for base, group in zip(args[len(rest) :], self.bases, strict=True):
            for number, steps in group:
                view = base
                for step in steps:
                    view = step.apply(view)
                known[number] = view
        return [known[self.kept[i]] for i in self.place]

    def wrap(self, call: runtime.Boxed, held: Sequence[Any]) -> runtime.Boxed:
        """The compiled graphs as a function of the program's inputs; what it holds comes behind."""
        if self.reshaped:
            return self._reshaping(call, held)
        if held:
            return lambda args: call([*self.taken(args), *held])
        if not self.bases and len(self.kept) == len(self.place):
            return call
        if not self.bases:
            kept = self.kept
            return lambda args: call([args[i] for i in kept])
        return lambda args: call(self.taken(args))

    def _reshaping(self, call: runtime.Boxed, held: Sequence[Any]) -> runtime.Boxed:
        def run(args: Any) -> Any:
            made = call([*self.taken(args), *held])
            for number, steps in self.reshaped:
                runtime.reshape(args[number], steps)
            return made

        return run


def _base_of(views: list[Tensor], whole: bool = False) -> Tensor:
    """One tensor that covers the memory of several; `whole`: and all else that lies there."""
    bases = [v if v._base is None else v._base for v in views]
    dtype, found = views[0].dtype, bases[0]
    if all(x is found for x in bases) and all(v.dtype is dtype for v in views):
        tracked = any(v.requires_grad and v is not found for v in views)
        covers = not whole or found.numel() * dtype.itemsize == found.untyped_storage().nbytes()
        if covers and (found.requires_grad or not tracked):  # no view has a gradient of its own
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
    length = views[0].untyped_storage().nbytes() // dtype.itemsize
    return views[0].detach().as_strided((length,), (1,), 0)


def _place_of(x: object) -> Any:
    if not isinstance(x, Tensor):
        return None
    return tuple(x.shape), tuple(x.stride()), x.storage_offset()


def _steps_to(x: Tensor, base: Tensor) -> tuple[ViewStep, ...]:
    """The views that lead from the tensor of a whole memory to an input on it."""
    steps: list[ViewStep] = []
    if x.dtype is not base.dtype:
        steps.append(ViewStep(F.view_as_dtype, (x.dtype,), None, core.TensorMeta(base)))
        base = steps[0].apply(base.detach())
    place = (tuple(x.shape), tuple(x.stride()), x.storage_offset())
    return (*steps, ViewStep(F.as_strided, place, None, core.TensorMeta(base)))
