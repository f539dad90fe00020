"""A program traced: one functional graph of its values and, where gradients are wanted, of those.

Takes: a function of flat inputs, and fake inputs.
Gives: `Traced`: the joint graph (placeholders `primals_*`, then `tangents_*`; outputs are the values,
then the gradients of the inputs), and the `Signature` of what else the program does.
Keeps true: the program runs once; its backward comes from the tape, whose gradient formulas are
operators, so that both are one trace; cotangents have the layout of the values that they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from facula import core
from facula.autograd import autocast
from facula.autograd.transforms.functionalization import FunctionalLevel
from facula.autograd.transforms.levels import Suspended, memory_of
from facula.autograd.transforms.wrapped import is_made_of_tensors
from facula.core.errors import fail
from facula.fx import Graph, GraphModule, Node, has_side_effect
from facula.fx.fake_tensor import FakeTensor
from facula.fx.proxy_tensor import get_proxy_mode, make_fx
from facula.lower import table
from facula.lower.aot.fakes import fake_inputs
from facula.lower.aot.signature import Signature, cotangent_strides, read_signature
from facula.lower.passes.memory import root_of
from facula.ops.random.philox import Draws
from facula.ops.table.overloads import overload_of
from facula.ops.table.registry import TABLE, F, operator

Tensor = core.Tensor


@operator("_cotangent(Tensor of) -> Tensor", names=(), out=False)
class Cotangent:
    """Stands for the cotangent of a value while a joint graph is traced; an input afterwards."""

    def meta(of: core.Tensor) -> Any:
        strides = cotangent_strides(of.shape, of.stride())
        return core.empty_strided(of.shape, strides, dtype=of.dtype, device=of.device)

    def cpu(out: object, of: Any) -> None:
        """Nothing: only shapes are traced."""


# a cotangent that no gradient reads is an input all the same: the backward run gives all of them
has_side_effect(TABLE["_cotangent"])


@dataclass(slots=True)
class Traced:
    """A traced program."""

    joint: GraphModule
    signature: Signature
    #: metas of the values
    metas: list[Any] = field(default_factory=list)
    #: the inputs that gradients are computed for; none where nothing is differentiable
    wanted: list[int] = field(default_factory=list)
    #: the values whose cotangents the graph takes
    cotangents: list[int] = field(default_factory=list)
    #: tensors that the function holds: inputs of the graph behind its own
    held: list[Any] = field(default_factory=list)
    #: tensors from outside, neither inputs nor `held`, that the program wrote to: the graph does not
    changed: list[Any] = field(default_factory=list)

    @property
    def training(self) -> bool:
        """Whether the graph has a backward part."""
        return bool(self.cotangents)


class _Program:
    """The function that is traced: runs the program, reads its signature, differentiates it."""

    def __init__(self, function: Callable[..., Any], gradients: bool, lift: bool) -> None:
        self.function = function
        self.gradients, self.lift = gradients, lift
        self.wanted: list[int] = []
        self.traced: Any = None

    def __call__(self, *args: Any) -> list[Any]:
        draws, recording = Draws(), core.is_grad_enabled()
        try:
            return self._traced(draws, args)
        finally:
            core.set_grad_enabled(recording)  # where the program raises in a block without
            draws.restore()

    def _traced(self, draws: Draws, args: Sequence[Any]) -> list[Any]:
        with FunctionalLevel(random=draws) as level:
            for x in args:
                if isinstance(x, Tensor):
                    level.alias_of(x)
            wanted = [_wants_gradient(x) for x in args]
            recording = core.is_grad_enabled()
            outputs = self.function(*args)
            core.set_grad_enabled(recording)  # the program may have left it otherwise
            held = _held(level, args) if self.lift else []
            changed = [] if self.lift else _changed(level, args)
            wanted += [_wants_gradient(x) for x in held]
            args = (*args, *held)
            signature, values = read_signature(level, args, outputs, self.gradients)
            traced = Traced(None, signature, [core.TensorMeta(v) for v in values], held=held)
            traced.changed = changed
            if self.gradients:
                self.wanted = [i for i, flag in enumerate(wanted) if flag]
            gradients: list[Any] = []
            chosen = [i for i, flag in enumerate(signature.differentiable) if flag]
            if chosen and self.wanted:
                traced.cotangents, traced.wanted = chosen, self.wanted
                gradients = self._differentiate(level, args, [values[i] for i in chosen])
            values = _on_own_memory(level, args, signature, values)
        self.traced = traced
        return [*values, *gradients]

    def _differentiate(
        self, level: FunctionalLevel, args: Sequence[Any], values: list[Tensor]
    ) -> list[Any]:
        recording = core.set_grad_enabled(False)
        try:
            cotangents = tuple(F._cotangent(v) for v in values)
            sources = tuple(args[i] for i in self.wanted)
            found = core.run_backward(tuple(values), cotangents, False, False, sources, True, False)
            _check_gradients(found)
            made = [None if g is None else level.value_of(g) for g in found]
        finally:
            core.set_grad_enabled(recording)
        return made


def _on_own_memory(
    level: FunctionalLevel, args: Sequence[Any], signature: Signature, values: Sequence[Tensor]
) -> list[Tensor]:
    """The values, those of results as copies where they lie on memory of an input or another result.

    What was copied into memory of the program's own is the copied tensor itself until here.
    """
    taken = {memory_of(x) for x in args if isinstance(x, Tensor)}
    made = list(values)
    recording = core.set_grad_enabled(False)
    try:
        for number in sorted({r.source for r in signature.results if r.kind.startswith("value")}):
            with Suspended(level.working):
                if memory_of(values[number]) in taken:
                    made[number] = values[number].clone()
            taken.add(memory_of(made[number]))
    finally:
        core.set_grad_enabled(recording)
    return made


def _check_gradients(found: Iterable[Any]) -> None:
    """Raise where a plain tensor's gradient is of a class that is made of several."""
    kinds = [type(g) for g in found if is_made_of_tensors(type(g))]
    if kinds:
        fail(
            RuntimeError,
            "compile",
            "plain gradients were required for plain tensors",
            f"a {kinds[0].__name__}, since the tensor meets one",
            hint="make the tensor one of that class first, or detach() it",
        )


def trace(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    gradients: bool = True,
    lift: bool = False,
    records: bool = False,
) -> Traced:
    """Trace a function of flat (fake) inputs that gives a flat list of results.

    lift: tensors that the function holds become inputs (`held`); else they are constants.
    records: gradients may be wanted though nothing is recorded when the function is called.
    """
    program = _Program(function, gradients and (records or core.is_grad_enabled()), lift)
    tracer = make_fx(
        program, decompositions, "fake", _allow_non_fake_inputs=True, _whole_indexing=True
    )
    with autocast.restored():
        joint = tracer(*inputs)
    traced: Traced = program.traced
    traced.joint = _with_inputs(joint, traced.held)
    joint.graph.take_apart()
    placeholders = [n for n in traced.joint.graph.nodes if n.op == "placeholder"]
    for write in traced.signature.writes:
        if write.value is not None:
            placeholders[write.input].meta["written"] = True
    _keep_old_elements(traced.joint, traced.signature, placeholders)
    return traced


def _keep_old_elements(
    joint: GraphModule, signature: Signature, placeholders: Sequence[Node]
) -> None:
    """Copy what one written input is given of another's old elements: writes come one by one."""
    output = joint.graph.output_node()
    values = list(output.args[0])
    copied = False
    for write in signature.writes:
        if write.value is None:
            continue
        node = values[write.value]
        if not isinstance(node, Node) or node is placeholders[write.input]:
            continue
        if not root_of(node).meta.get("written"):
            continue
        with joint.graph.inserting_before(output):
            copy = joint.graph.call_function(
                overload_of(Tensor.clone, (node.meta["val"],)), (node,)
            )
        recording = core.set_grad_enabled(False)
        try:
            copy.meta["val"] = node.meta["val"].clone()
        finally:
            core.set_grad_enabled(recording)
        values[write.value] = copy
        copied = True
    if copied:
        output.args = (values,)
        joint.renew()


def _wants_gradient(x: FakeTensor) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _changed(level: FunctionalLevel, args: Sequence[Any]) -> list[Any]:
    """The tensors from outside that the program wrote to without being given them."""
    given = {id(x) for x in args}
    written = [memory.tensor for memory in level.written()]
    return [
        t for t in written
        if id(t) not in given and core.storage_key(t) not in level.made
        and not isinstance(t, FakeTensor)
    ]  # fmt: skip


def _held(level: FunctionalLevel, args: Sequence[Any]) -> list[Any]:
    """The tensors from outside that the program read or wrote without being given them."""
    mode: Any = get_proxy_mode()
    given = {id(x) for x in args}
    read = [t for t, node in mode.tracer.known_tensors() if node.op == "get_attr"]
    written = [memory.tensor for memory in level.written()]
    found = {
        id(t): t for t in (*read, *written)
        if id(t) not in given and core.storage_key(t) not in level.made
        and not isinstance(t, FakeTensor)
    }  # fmt: skip
    return list(found.values())


def _with_inputs(joint: GraphModule, held: Sequence[Any]) -> GraphModule:
    """The same graph with inputs for held tensors and cotangents, named by their part, nothing unused."""
    stand_in = TABLE["_cotangent"]
    graph, made = joint.graph, Graph()
    known: dict[Node, Node] = {}
    used = _used(graph)

    def placeholder(node: Node, name: str) -> None:
        known[node] = made.placeholder(name)
        known[node].meta = dict(node.meta)

    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    stands = [
        n for n in graph.nodes
        if n.op == "call_function" and table.operator_of(n.target) is stand_in
    ]  # fmt: skip
    for number, node in enumerate(inputs, 1):
        placeholder(node, f"primals_{number}")
    reads = {id(getattr(joint, n.target)): n for n in graph.nodes if _reads_tensor(joint, n)}
    for number, (t, fake) in enumerate(zip(held, fake_inputs(held), strict=True), len(inputs) + 1):
        node = reads.get(id(t))
        if node is not None:
            placeholder(node, f"primals_{number}")
        made_node = known[node] if node is not None else made.placeholder(f"primals_{number}")
        made_node.meta["val"] = fake
    for number, node in enumerate(stands, 1):
        placeholder(node, f"tangents_{number}")
    for node in graph.nodes:
        if node not in known and node in used:
            known[node] = made.node_copy(node, known.__getitem__)
    return GraphModule(joint, made)


def _reads_tensor(joint: GraphModule, node: Node) -> bool:
    return node.op == "get_attr" and isinstance(getattr(joint, str(node.target), None), Tensor)


def _used(graph: Graph) -> set[Node]:
    """The nodes that outputs depend on, draws, which move a generator on, and numbers that are read."""
    found: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or node in found or table.is_random(node) or node.is_impure():
            found.add(node)
            found.update(node.all_input_nodes)
    return found
