"""A program traced: one functional graph of its values and, where gradients are wanted, of those.

Takes: a function of flat inputs, and fake inputs.
Gives: `Traced`: the joint graph (placeholders `primals_*`, then `tangents_*`; outputs are the values,
then the gradients of the inputs), and the `Signature` of what else the program does.
Keeps true: the program runs once; its backward comes from the tape, whose gradient formulas are
operators, so that both are one trace; cotangents have the layout of the values that they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from facula import core
from facula.autograd.transforms.functionalization import FunctionalLevel
from facula.fx import Graph, GraphModule, Node
from facula.fx.proxy_tensor import make_fx
from facula.lower import table
from facula.lower.aot.signature import Signature, read_signature
from facula.ops.philox import Draws
from facula.ops.registry import TABLE, F, operator

Tensor = core.Tensor


@operator("_cotangent(Tensor of) -> Tensor", names=(), out=False)
class Cotangent:
    """Stands for the cotangent of a value while a joint graph is traced; an input afterwards."""

    def meta(of: Any) -> Any:
        return core.empty_strided(of.shape, of.stride(), dtype=of.dtype, device=of.device)

    def cpu(out: Any, of: Any) -> None:
        """Nothing: only shapes are traced."""


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

    @property
    def training(self) -> bool:
        """Whether the graph has a backward part."""
        return bool(self.cotangents)


class _Program:
    """The function that is traced: runs the program, reads its signature, differentiates it."""

    def __init__(self, function: Callable[..., Any], wanted: list[int]) -> None:
        self.function = function
        self.wanted = wanted
        self.traced: Any = None

    def __call__(self, *args: Any) -> list[Any]:
        draws = Draws()
        try:
            return self._traced(draws, args)
        finally:
            draws.restore()

    def _traced(self, draws: Draws, args: Sequence[Any]) -> list[Any]:
        with FunctionalLevel(random=draws) as level:
            for x in args:
                if isinstance(x, Tensor):
                    level.alias_of(x)
            outputs = self.function(*args)
            signature, values = read_signature(level, args, outputs)
            traced = Traced(None, signature, [core.TensorMeta(v) for v in values])
            gradients: list[Any] = []
            chosen = [i for i, flag in enumerate(signature.differentiable) if flag]
            if chosen and self.wanted:
                traced.cotangents, traced.wanted = chosen, self.wanted
                gradients = self._differentiate(level, args, [values[i] for i in chosen])
        self.traced = traced
        return [*values, *gradients]

    def _differentiate(self, level: Any, args: Sequence[Any], values: list[Tensor]) -> list[Any]:
        recording = core.set_grad_enabled(False)
        try:
            cotangents = tuple(F._cotangent(v) for v in values)
            sources = tuple(args[i] for i in self.wanted)
            found = core.run_backward(tuple(values), cotangents, False, False, sources, True, False)
            made = [None if g is None else level.value_of(g) for g in found]
        finally:
            core.set_grad_enabled(recording)
        return made


def trace(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    gradients: bool = True,
) -> Traced:
    """Trace a function of flat (fake) inputs that gives a flat list of results."""
    recording = gradients and core.is_grad_enabled()
    wanted = [
        i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad and recording
    ]
    program = _Program(function, wanted)
    joint = make_fx(program, decomposition_table=decompositions, tracing_mode="real")(*inputs)
    traced: Traced = program.traced
    traced.joint = _with_cotangents(joint)
    placeholders = [n for n in traced.joint.graph.nodes if n.op == "placeholder"]
    for write in traced.signature.writes:
        if write.value is not None:
            placeholders[write.input].meta["written"] = True
    return traced


def _with_cotangents(joint: GraphModule) -> GraphModule:
    """The same graph with inputs for the cotangents, inputs named by their part, nothing unused."""
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
    for number, node in enumerate(stands, 1):
        placeholder(node, f"tangents_{number}")
    for node in graph.nodes:
        if node not in known and node in used:
            known[node] = made.node_copy(node, known.__getitem__)
    return GraphModule(joint, made)


def _used(graph: Graph) -> set[Node]:
    """The nodes that outputs depend on, and draws, which move a generator on."""
    found: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or node in found or table.is_random(node):
            found.add(node)
            found.update(node.all_input_nodes)
    return found
