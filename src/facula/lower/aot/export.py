"""Programs as graphs to keep: with a signature that says what each input and output is.

Takes: a module (or function) and example inputs.
Gives: one flat graph, forward only or with its gradients, and its `GraphSignature`.
Keeps true: inputs are parameters, then buffers, then the user's; outputs are the new elements of
written buffers, then of written inputs, then the user's, then gradients.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from facula import core, nn
from facula.core.errors import fail
from facula.fx import GraphModule
from facula.fx import _pytree as pytree
from facula.fx.node import map_arg
from facula.fx.shape_env import numbers_as_nodes
from facula.lower.aot.api import functional_of
from facula.lower.aot.fakes import fake_inputs
from facula.lower.aot.tracing import Traced, trace
from facula.lower.decompositions.rules import decompositions_of
from facula.ops.table.overloads import overload_of
from facula.ops.table.registry import TABLE

if TYPE_CHECKING:
    from facula.fx import Graph, Node


Tensor = core.Tensor


@dataclass
class BackwardSignature:
    """Which outputs are gradients of what, and which is the loss."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclass
class GraphSignature:
    """What the inputs and outputs of an exported graph are, by the names of their nodes."""

    parameters: list[str]
    buffers: list[str]
    user_inputs: list[str]
    user_outputs: list[str]
    inputs_to_parameters: dict[str, str]
    inputs_to_buffers: dict[str, str]
    buffers_to_mutate: dict[str, str]
    parameters_to_mutate: dict[str, str]
    user_inputs_to_mutate: dict[str, str]
    in_spec: Any
    out_spec: Any
    backward_signature: BackwardSignature | None = None
    input_tokens: list[str] = field(default_factory=list)
    output_tokens: list[str] = field(default_factory=list)


#: what stands for other operators in the graphs of PyTorch, too: never a node of its own
def always_decomposed() -> dict[Any, Callable[..., Any]]:
    """The decompositions that exported graphs have unless asked otherwise."""
    return decompositions_of([TABLE["linear"]])


def aot_export_module(
    mod: nn.Module,
    args: Sequence[Any],
    *,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    trace_joint: bool,
    output_loss_index: int | None = None,
    pre_dispatch: bool = False,
    dynamic_shapes: bool | None = None,
    kwargs: dict[str, Any] | None = None,
) -> tuple[GraphModule, GraphSignature]:
    """The flat graph of a module's forward, or of forward and gradients, and its signature.

    Args:
        trace_joint: whether gradients of the parameters (and inputs that require grad) are outputs.
        output_loss_index: the output that they are gradients of; needed with `trace_joint`.
        decompositions: operator -> function that computes it by others.
        pre_dispatch, dynamic_shapes: kept for PyTorch's API; they change nothing here.

    Raises:
        RuntimeError: the loss is missing, not a scalar, or does not depend on a parameter.
    """
    if trace_joint and output_loss_index is None:
        fail(
            RuntimeError,
            "aot_export_module",
            "output_loss_index was required with trace_joint=True: if trace_joint=True it is "
            "required that one of your forward outputs must be a scalar loss",
            hint="pass the index of the loss among the outputs",
        )
    run, tensors = functional_of(mod)
    names = list(tensors)
    specs: dict[str, Any] = {}

    def program(*flat: Any) -> list[Any]:
        values = dict(zip(names, flat, strict=False))
        positional, named = pytree.tree_unflatten(list(flat[len(names) :]), specs["in"])
        leaves, specs["out"] = pytree.tree_flatten(run(values, tuple(positional), named))
        return leaves

    leaves, specs["in"] = pytree.tree_flatten((tuple(args), kwargs or {}))
    fakes = fake_inputs([*tensors.values(), *leaves])
    rules = {**always_decomposed(), **(decompositions or {})}
    recording = core.set_grad_enabled(trace_joint)
    try:
        if trace_joint:
            loss = output_loss_index or 0
            traced = trace(_loss_only(program, loss), fakes, decompositions=rules)
        else:
            traced = trace(program, fakes, decompositions=rules, gradients=False)
    finally:
        core.set_grad_enabled(recording)
    return _exported(traced, mod, names, specs, output_loss_index if trace_joint else None)


def _loss_only(program: Callable[..., Any], loss: int) -> Callable[..., Any]:
    """The program with history for its loss alone."""

    def run(*flat: Any) -> list[Any]:
        outputs = program(*flat)
        if not isinstance(outputs[loss], Tensor) or outputs[loss].numel() != 1:
            fail(
                RuntimeError,
                "aot_export_module",
                "a scalar was required as the loss: the output marked as the loss must be a scalar",
                getattr(outputs[loss], "shape", type(outputs[loss]).__name__),
                hint="reduce it with sum() or mean()",
            )
        return [
            x.detach() if isinstance(x, Tensor) and i != loss else x for i, x in enumerate(outputs)
        ]

    return run


def _exported(
    traced: Traced, mod: nn.Module, names: list[str], specs: dict[str, Any], loss: int | None
) -> tuple[GraphModule, GraphSignature]:
    if loss is not None and not traced.training:
        fail(
            RuntimeError,
            "aot_export_module",
            "a loss that depends on a parameter was required: the output does not require gradients",
            hint="compute the loss with parameters that require gradients, not under no_grad()",
        )
    module = traced.joint if loss is None else _with_unit_cotangent(traced.joint)
    graph = module.graph
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    inputs = [n for n in placeholders if not n.name.startswith("tangents")]
    given = list(graph.output_node().args[0])
    values, gradients = given[: len(traced.metas)], given[len(traced.metas) :]
    ordered, mutated = ordered_outputs(traced, values, names, inputs)
    set_outputs(graph, [*ordered, *[g for g in gradients if g is not None]])
    final: list[Any] = [getattr(n, "name", None) for n in graph.output_node().args[0]]
    user = final[len(mutated) : len(ordered)]
    backward = None
    if loss is not None:
        backward = _backward_signature(traced, gradients, names, inputs, user[loss])
    signature = _signature(mod, names, inputs, user, mutated, specs, backward)
    module.recompile()
    return module, signature


def _backward_signature(
    traced: Traced, gradients: list[Any], names: list[str], inputs: list[Any], loss: str
) -> BackwardSignature:
    """Which outputs are gradients, and of what."""
    pairs = [(g.name, i) for g, i in zip(gradients, traced.wanted, strict=True) if g is not None]
    return BackwardSignature(
        {g: names[i] for g, i in pairs if i < len(names)},
        {g: inputs[i].name for g, i in pairs if i >= len(names)},
        loss,
    )


def _signature(
    mod: nn.Module,
    names: list[str],
    inputs: list[Any],
    user: list[Any],
    mutated: list[tuple[str, str]],
    specs: dict[str, Any],
    backward: BackwardSignature | None,
) -> GraphSignature:
    """What the inputs and outputs of an exported graph are: the module's tensors, named, come first."""
    parameters = [n for n in names if n in dict(mod.named_parameters(remove_duplicate=False))]
    buffers = [n for n in names if n not in parameters]
    by_name = {name: inputs[i].name for i, name in enumerate(names)}
    return GraphSignature(
        parameters=parameters,
        buffers=buffers,
        user_inputs=[n.name for n in inputs[len(names) :]],
        user_outputs=user,
        inputs_to_parameters={by_name[p]: p for p in parameters},
        inputs_to_buffers={by_name[b]: b for b in buffers},
        buffers_to_mutate={o: n for o, n in mutated if n in buffers},
        parameters_to_mutate={o: n for o, n in mutated if n in parameters},
        user_inputs_to_mutate={o: n for o, n in mutated if n not in names},
        in_spec=specs["in"],
        out_spec=specs["out"],
        backward_signature=backward,
    )


def ordered_outputs(
    traced: Traced, values: list[Any], names: list[str], inputs: list[Any]
) -> tuple[list[Any], list[tuple[str, str]]]:
    """The outputs in order, and for each written input (output name, what was written)."""
    graph = values[0].graph if values else traced.joint.graph
    written: list[Any] = []
    mutated: list[tuple[str, str]] = []
    for write in traced.signature.writes:
        if write.geometry:
            fail(
                RuntimeError,
                "aot_export",
                "inputs of unchanged shape were required: found an input that received a metadata "
                "mutation, through e.g. a call to `.resize_()` or `.transpose_()`",
                hint="return a tensor of the new shape instead",
            )
        node = _own_node(graph, values[write.value or 0], written)
        name = names[write.input] if write.input < len(names) else inputs[write.input].name
        written.append(node)
        mutated.append((node.name, name))
    results: list[Any] = []
    for result in traced.signature.results:
        if result.kind == "constant":
            results.append(result.source)
            continue
        is_value = result.kind.startswith("value")
        node = values[result.source] if is_value else _input_now(traced, values, inputs, result)
        for step in result.steps:
            node = _view_node(graph, node, step)
        results.append(node)
    return [*written, *results], mutated


def _input_now(traced: Traced, values: list[Any], inputs: list[Any], result: Any) -> Any:
    for write in traced.signature.writes:
        if write.input == result.source and write.value is not None:
            return values[write.value]
    return inputs[result.source]


def _own_node(graph: Graph, node: Node, taken: list[Any]) -> Any:
    """A node that no other output is."""
    if node.op != "placeholder" and node not in taken:
        return node
    return _call(graph, Tensor.clone, (node,), {})


def _call(graph: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    known = map_arg(args, lambda n: n.meta["val"])
    target = overload_of(function, known, kwargs)
    with graph.inserting_before(graph.output_node()):
        name = str(getattr(target, "_opname", "")).lstrip("_") or None
        given = numbers_as_nodes(graph, args)
        node = graph.create_node("call_function", target, given, kwargs, name=name)
    recording = core.set_grad_enabled(False)
    try:
        node.meta["val"] = function(*known, **kwargs)
    finally:
        core.set_grad_enabled(recording)
    return node


def _view_node(graph: Graph, node: Node, step: Any) -> Any:
    if step.detaches:
        return _call(graph, Tensor.detach, (node,), {})
    args, kwargs = step.op.definition.trim((node, *step.args))
    made = _call(graph, step.op, args, kwargs)
    if step.pick is None:
        return made
    value = made.meta["val"][step.pick]
    with graph.inserting_before(graph.output_node()):
        picked = graph.call_function(operator.getitem, (made, step.pick))
    picked.meta["val"] = value
    return picked


def set_outputs(graph: Graph, outputs: list[Any]) -> None:
    graph.output_node().args = (tuple(outputs),)


def _with_unit_cotangent(joint: GraphModule) -> GraphModule:
    """The graph with ones for the cotangent of the loss."""
    graph = joint.graph
    for node in [n for n in graph.nodes if n.op == "placeholder"]:
        if not node.name.startswith("tangents"):
            continue
        value = node.meta["val"]
        target = TABLE["ones"]
        with graph.inserting_before(node.next):
            size = tuple(value.shape)
            options = {"dtype": value.dtype, "device": value.device}
            ones = graph.call_function(overload_of(target, (size,), options), (size,), options)
        ones.meta["val"] = value
        node.replace_all_uses_with(ones)
        graph.erase_node(node)
    return joint


def aot_export_joint_simple(
    func: Callable[..., Any],
    args: Sequence[Any],
    *,
    trace_joint: bool,
    num_params_buffers: int = 0,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
) -> GraphModule:
    """The flat graph of a function that writes to nothing and gives tensors.

    With `trace_joint` its inputs are the arguments and the cotangents, its outputs the results and
    the gradients.

    Raises:
        RuntimeError: the function writes to an argument, or gives one.
    """
    leaves, structure = pytree.tree_flatten(tuple(args))

    def program(*flat: Any) -> list[Any]:
        results = func(*pytree.tree_unflatten(list(flat), structure))
        return pytree.tree_leaves(results)

    recording = core.set_grad_enabled(trace_joint)
    try:
        traced = trace(
            program, fake_inputs(leaves), decompositions=decompositions, gradients=trace_joint
        )
    finally:
        core.set_grad_enabled(recording)
    if not traced.signature.plain:
        fail(
            RuntimeError,
            "aot_export_joint_simple",
            "a function that writes to no argument and gives none (or a view of one) was required: "
            "aot_export_joint_simple does not support input mutations or outputs that alias inputs",
            hint="aot_export_module describes these in its signature",
        )
    return traced.joint
