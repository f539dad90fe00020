"""An exported program as a module again.

Takes: an exported graph, its signature and the tensors that it reads.
Gives: a `GraphModule` with the parameters and buffers under their paths, called as the original was.
Keeps true: inputs that the graph was not made for are refused, with the name of the input; what the
program writes to is written: buffers, parameters, inputs.
"""

from __future__ import annotations

import re
from typing import Any

from facula import core, nn, ops
from facula.core.errors import fail
from facula.export.input_check import GuardsFn, InputCheck, NestedAsExported
from facula.export.signature import ConstantArgument, InputKind, OutputKind, SymIntArgument
from facula.fx import Graph, GraphModule, Node
from facula.fx.call_codegen import CallCodeGen
from facula.fx.codegen import _PyTreeInfo
from facula.fx.symbolic_run import sizes_of

Tensor = core.Tensor


def _parameter_names(program: Any) -> list[str]:
    """A name for each argument: those of the exported forward; `*args` has one for each."""
    positional, named = program.in_spec.children_specs
    names = list(program.argument_names)
    keywords = [re.sub(r"\W", "_", str(key)) for key in named.context or ()]
    count = positional.num_children
    rest = (
        [n for n in names if n not in keywords]
        if len(names) != count + len(keywords)
        else names[:count]
    )
    if len(rest) != count:
        last = rest[-1] if rest else "args"
        rest = rest[:-1] + [f"{last}_{i}" for i in range(count - len(rest[:-1]))]
    return [*rest, *keywords]


def _refuse_mode(self: nn.Module, mode: bool = True) -> nn.Module:
    return fail(
        NotImplementedError,
        "export",
        "the mode in which the program was exported was required: Calling train() or eval() (Calling train() is "
        "not supported yet. Calling eval() is not supported yet.)",
        hint="call train() or eval() on the module before export()",
    )


def unlift(program: Any, check_guards: bool = True) -> GraphModule:
    """The module of an exported program; `check_guards` says whether it looks at sizes, dtypes and values."""
    root, signature = nn.Module(), program.graph_signature
    for name, value in (*program.state_dict.items(), *program.constants.items()):
        parameter = isinstance(value, nn.Parameter)
        put(root, name, value, parameter, name not in program.state_dict)
    for node in program.graph.find_nodes(op="get_attr"):  # graphs of functions
        setattr(root, str(node.target), getattr(program.graph_module, str(node.target)))
    graph, inputs, expected, names = _body(program)
    check = InputCheck(program, expected, names)
    if check_guards and names:
        _call_guards(root, graph, check)
    module = GraphModule(root, graph, "GraphModule")
    info = _PyTreeInfo(_parameter_names(program), program.in_spec, program.out_spec)
    graph = module.graph
    module._inputs = check
    module.register_forward_pre_hook(NestedAsExported(check), with_kwargs=True)
    put_state(module, program)
    graph.set_codegen(CallCodeGen(info))
    module.recompile()
    module.training = program.training
    if "custom" in program.graph_module.meta:
        module.meta["custom"] = program.graph_module.meta["custom"]
    module._facula_exported = signature
    type(module).train = _refuse_mode
    type(module).eval = lambda self: _refuse_mode(self)
    return module


def _call_guards(root: nn.Module, graph: Graph, check: InputCheck) -> None:
    """Enter the call that checks the inputs, behind what is read of the module."""
    root._guards_fn = GuardsFn(check)
    nodes = list(graph.nodes)
    inputs = [n for n in nodes if n.op == "placeholder"]
    first = next(
        n for n in nodes if n.op not in ("placeholder", "get_attr") or _reads_graph(root, n)
    )
    with graph.inserting_before(first):
        graph.call_module("_guards_fn", tuple(inputs))


def _reads_graph(root: nn.Module, node: Node) -> bool:
    return isinstance(getattr(root, str(node.target), None), GraphModule)


def put_state(module: nn.Module, program: Any) -> None:
    """Give a module the parameters, buffers and constants of a program under their paths."""
    for name, value in (*program.state_dict.items(), *program.constants.items()):
        put(module, name, value, isinstance(value, nn.Parameter), name not in program.state_dict)


def put(root: nn.Module, path: str, value: Any, parameter: bool, hidden: bool) -> None:
    """Register a tensor under its path."""
    *owners, last = path.split(".")
    at = root
    for name in owners:
        inner = at._modules.get(name)
        if inner is None:
            inner = nn.Module()
            at.add_module(name, inner)
        at = inner
    if last in at._parameters or last in at._buffers:
        if hidden and not parameter:
            at._non_persistent_buffers_set.add(last)
        return
    vars(at).pop(last, None)
    if parameter:
        at.register_parameter(last, value)
    else:
        at.register_buffer(last, value, persistent=not hidden)


def _body(program: Any) -> tuple[Graph, list[Node], list[Any], list[str]]:
    """The graph with attributes for what is not the user's, and writes before its end."""
    source, signature = program.graph, program.graph_signature
    graph = Graph()
    known: dict[Node, Node] = {}
    by_name: dict[str, Node] = {}
    holders: dict[str, Node] = {}
    expected: list[Any] = []
    names: list[str] = []
    placeholders = [n for n in source.nodes if n.op == "placeholder"]
    pairs = list(zip(placeholders, signature.input_specs, strict=True))
    for node, spec in pairs:
        if spec.kind is InputKind.USER_INPUT:
            known[node] = by_name[node.name] = graph.placeholder(node.name)
            known[node].meta = dict(node.meta)
            names.append(node.name)
            expected.append(_expectation(node, spec))
    for node, spec in pairs:
        if spec.kind is not InputKind.USER_INPUT:
            made = known[node] = holders[spec.target] = graph.get_attr(spec.target)
            made.meta = dict(node.meta)
    for node in source.nodes:
        if node.op not in ("placeholder", "output"):
            known[node] = graph.node_copy(node, known.__getitem__)
    values = [known.get(v, v) if isinstance(v, Node) else v for v in source.output_node().args[0]]
    results = []
    holds: dict[Any, Node] = {}  # a value that is written -> what it is written to
    for value, spec in zip(values, signature.output_specs, strict=True):
        if spec.kind is OutputKind.USER_OUTPUT:
            results.append(holds.get(value, value) if isinstance(value, Node) else value)
            continue
        target = by_name.get(spec.target) if spec.kind is OutputKind.USER_INPUT_MUTATION else None
        target = holders[spec.target] if target is None else target
        given = value
        if spec.kind is OutputKind.PARAMETER_MUTATION:
            target = graph.call_function(ops.aten.detach.default, (target,))
            given = graph.call_function(ops.aten.detach.default, (value,))
        written = graph.call_function(ops.aten.copy_.default, (target, given))
        if spec.kind is not OutputKind.PARAMETER_MUTATION:
            holds[value] = written
    graph.output(tuple(results))
    return graph, placeholders, expected, names


def _expectation(node: Node, spec: Any) -> Any:
    if isinstance(spec.arg, ConstantArgument):
        return None, spec.arg.value
    value = node.meta["val"]
    if isinstance(spec.arg, SymIntArgument):
        return None, value.expr
    return sizes_of(value), value.dtype
