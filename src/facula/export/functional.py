"""A program without writes: its graph, traced once more.

Takes: an exported graph, its signature, and decompositions. Gives: a graph that writes to nothing, and the signature
that says what its first outputs are to be written to.
Keeps true: inputs are those of the graph before, in their order and under their names.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from facula import core, nn
from facula.capture.exports import exporting
from facula.export.chosen_sizes import name_choices
from facula.export.deferred import write_again
from facula.export.signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from facula.export.told_forms import in_told_forms
from facula.export.tracing import is_kept, output_argument
from facula.fx import Graph, GraphModule, Interpreter, Node
from facula.fx import traceback as fx_traceback
from facula.fx.pre_dispatch import called_whole, stays_whole
from facula.fx.proxy_tensor import lists_for_tuples, name_wholly
from facula.fx.shape_env import nodes_of_numbers, write_checks
from facula.fx.symbols import SymInt
from facula.lower.aot.export import ordered_outputs, set_outputs
from facula.lower.aot.tracing import Traced, trace
from facula.lower.table import definition_of
from facula.ops.table.overloads import overload_of
from facula.ops.table.registry import TABLE
from facula.ops.table.tags import Tag

Tensor = core.Tensor
_WRITTEN = {
    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
    InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
    InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
}


def functional(
    module: GraphModule, signature: ExportGraphSignature, rules: dict[Any, Any], told: bool = False
) -> tuple[GraphModule, ExportGraphSignature]:
    """The graph without writes and with decompositions, of the same inputs; and its signature.

    Args:
        module: the graph, whose nodes know their values
        signature: what its inputs and outputs are
        rules: operator -> function that computes it by others; composites without one stay, unless they give views
        told: nodes are PyTorch's operators, not the package's own
    """
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    at = [i for i, n in enumerate(placeholders) if isinstance(n.meta["val"], (Tensor, SymInt))]
    traced = _traced(module, placeholders, at, rules)
    env = env_of(module)
    if told:
        traced.joint = in_told_forms(traced.joint, rules, env)
    graph = traced.joint.graph
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    values = list(graph.output_node().args[0])[: len(traced.metas)]
    nodes, written = ordered_outputs(traced, values, [str(i) for i in at], inputs)
    with graph.inserting_before(graph.output_node()):
        nodes = nodes_of_numbers(graph, nodes)  # results that are sizes
    set_outputs(graph, nodes)
    _split_once(graph)
    if env is not None:
        write_checks(graph, env, overload_of(TABLE["_assert_scalar"]))
        write_again(module, graph, env)
    graph.eliminate_dead_code(is_kept)
    made = _with_inputs(traced.joint, placeholders, dict(zip(at, inputs, strict=True)))
    lists_for_tuples(made.graph)
    name_choices(made.graph)
    made.recompile()
    for old, new in ((module, made), (module.graph.output_node(), made.graph.output_node())):
        if "custom" in old.meta:
            new.meta["custom"] = old.meta["custom"]
    targets = [(number, signature.input_specs[int(number)]) for _, number in written]
    return made, _followed(
        signature, made, [_write_of(spec, placeholders[int(n)]) for n, spec in targets]
    )


def _split_once(graph: Graph) -> None:
    """Let the parts of one tensor, each of which was found by a split of its own, come out of one."""
    known: dict[tuple[Any, str], Node] = {}
    for node in list(graph.nodes):
        definition = definition_of(node)
        several = isinstance(node.meta.get("val"), (tuple, list)) and not node.is_impure()
        if definition is None or not several or definition.random:
            continue
        first = known.setdefault((node.target, f"{node.args} {node.kwargs}"), node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def env_of(module: GraphModule) -> Any:
    """The environment of a graph's symbols; None where it has none."""
    values = [n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder"]
    found = [v.fake_mode.shape_env for v in values if hasattr(v, "fake_mode")]
    found += [v.env for v in values if isinstance(v, SymInt)]
    return found[0] if found else None


class _Rerun(Interpreter):
    """Runs a graph for another trace."""

    def __init__(self, module: GraphModule, rules: dict[Any, Any]) -> None:
        super().__init__(module)
        self.garbage_collect_values = False
        self.rules = rules

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call; constants are copied by an ordinary operator."""
        if getattr(target, "_opname", "") == "lift_fresh_copy":
            return args[0].clone()
        found = NotImplemented
        if _is_composite(target):
            rule = self.rules.get(target)
            found = called_whole(target, args, kwargs) if rule is None else rule(*args, **kwargs)
        return super().call_function(target, args, kwargs) if found is NotImplemented else found


def _is_composite(target: Any) -> bool:
    """Whether a node calls an operator that is made of others and writes nothing."""
    operator = getattr(target, "_op", None)
    if not isinstance(operator, core.Op) or Tag.nondeterministic_seeded in target.tags:
        return False
    definition: Any = operator.definition
    return definition.kind == "composite" and stays_whole(definition) and not definition.mutated


def _traced(
    module: GraphModule, placeholders: list[Node], at: list[int], rules: dict[Any, Any]
) -> Traced:
    values = [n.meta["val"] for n in placeholders]

    def run(*given: Any) -> Any:
        name_wholly()
        inputs = list(values)
        for i, x in zip(at, given, strict=True):
            inputs[i] = x
        return list(_Rerun(module, rules).run(*inputs))

    for mode in {id(v.fake_mode): v.fake_mode for v in values if isinstance(v, Tensor)}.values():
        mode.numbers.clear()  # what is read is checked again
    # a composite that stands for itself is a call of its parts, which the trace sees
    parts = {op: rule for op, rule in rules.items() if getattr(op, "_op", None) is not rule}
    recording = core.set_grad_enabled(False)
    try:
        with exporting(), fx_traceback.preserve_node_meta():
            return trace(run, [values[i] for i in at], decompositions=parts, gradients=False)
    finally:
        core.set_grad_enabled(recording)


def _with_inputs(
    module: GraphModule, placeholders: list[Node], inputs: dict[int, Node]
) -> GraphModule:
    """The graph with the placeholders of another one, of which it may lack some, under their names."""
    graph = Graph()
    known: dict[Any, Any] = {}
    for i, old in enumerate(placeholders):
        made = graph.placeholder(old.name)
        made.meta = dict(old.meta)
        if i in inputs:
            known[inputs[i]] = made
    for node in module.graph.nodes:
        if node.op != "placeholder":
            known[node] = graph.node_copy(node, known.__getitem__)
    return GraphModule(
        module if any(n.op == "get_attr" for n in graph.nodes) else nn.Module(), graph
    )


def _write_of(spec: InputSpec, node: Node) -> OutputSpec:
    target = node.name if spec.kind is InputKind.USER_INPUT else spec.target
    return OutputSpec(_WRITTEN[spec.kind], TensorArgument(""), target)


def _followed(
    signature: ExportGraphSignature, module: GraphModule, writes: list[OutputSpec]
) -> ExportGraphSignature:
    """The signature for a graph with the same inputs, more writes and other nodes."""
    made = deepcopy(signature)
    made.output_specs[:0] = writes
    outputs = module.graph.output_node().args[0]
    for spec, value in zip(made.output_specs, outputs, strict=True):
        constant = spec.kind is OutputKind.USER_OUTPUT and not hasattr(value, "meta")
        if not constant:
            spec.arg = output_argument(value)
    return made
