"""Graphs, signatures and nestings from JSON that anybody may have written.

Takes: what `description` wrote, or what somebody made of it. Gives: the graph, the signature, the
nestings and the guards.
Keeps true: a file names operators of the table, functions of `FUNCTIONS`, dtypes and containers, and
nothing else is looked up; a name that becomes code is an identifier; no code is written or run while
reading; whatever is wrong is an exception of Python's that `archive.load` turns into its own.
"""

from __future__ import annotations

from typing import Any

from facula import core, nn, ops
from facula.core.errors import fail
from facula.export import signature as kinds
from facula.export.description import CORE_KINDS, FUNCTIONS, type_name
from facula.export.dynamic_shapes import ValueRanges
from facula.fx import Graph, GraphModule, Node, names
from facula.fx import _pytree as pytree
from facula.fx.fake_tensor import FakeTensorMode
from facula.fx.graph_module import code_on_demand
from facula.fx.higher_order import OPERATORS, ControlFlow
from facula.fx.higher_order.grad_regions import WrapWithSetGradEnabled
from facula.fx.shape_env import ShapeEnv, ShapeGuard
from facula.fx.symbols import Atom, Expr, SymInt, number

_ATOMS = ("floordiv", "mod", "max", "min")
_RELATIONS = ("==", "!=", "<", "<=", ">", ">=")
#: sizes, strides and factors fit into 64 bits
_LARGEST = 1 << 62
_LARGEST_POWER = 16
#: graphs of functions in one another
_DEEPEST = 32


def _refused(required: str, got: object) -> Any:
    return fail(
        RuntimeError,
        "export.load",
        f"{required} was required",
        got,
        hint="load it with the version that wrote it",
    )


def _known(x: object, kind: type, what: str) -> Any:
    """A value of exactly a kind."""
    return x if type(x) is kind else _refused(what, repr(x)[:100])


def _name(x: str, what: str) -> str:
    """A name that may become code."""
    return x if names.is_name(x) else _refused(f"an identifier as {what}", repr(x)[:100])


def _whole(x: int, least: int = -_LARGEST) -> int:
    good = type(x) is int and least <= x <= _LARGEST
    return x if good else _refused(f"a whole number from {least} on", repr(x)[:100])


# ------------------------------------------------------------------ expressions


def read_expr(data: object) -> Expr:
    """The expression."""
    terms = {}
    for factor, monomial in _known(data, list, "an expression"):
        atoms = tuple((_read_atom(atom), _power(power)) for atom, power in monomial)
        terms[atoms] = _whole(factor)
    return Expr(terms)


def _power(x: int) -> int:
    return x if _whole(x, 1) <= _LARGEST_POWER else _refused("a power that is small", x)


def _read_atom(data: list[Any]) -> Atom:
    op, args = data
    if op == "symbol":
        (symbol,) = args
        return Atom(op, (_name(symbol, "a symbol"),))
    if op not in _ATOMS:
        _refused("a known function of sizes", repr(op)[:100])
    left, right = map(read_expr, args)
    return Atom(op, (left, right))


def read_guards(data: Any) -> list[ShapeGuard]:
    """What must hold of sizes."""
    made = []
    for left, relation, right in data:
        if relation not in _RELATIONS:
            _refused("a known relation", repr(relation)[:100])
        made.append(ShapeGuard(read_expr(left), relation, read_expr(right)))
    return made


def read_ranges(data: Any) -> dict[str, ValueRanges]:
    """The values that sizes may have."""
    return {
        _name(symbol, "a symbol"): ValueRanges(_whole(lower), _known(upper, int, "a bound"))
        for symbol, (lower, upper) in data.items()
    }


# ------------------------------------------------------------------ targets and arguments


def read_target(name: Any) -> Any:
    """What a node calls."""
    found = FUNCTIONS.get(_known(name, str, "the name of an operator"))
    if found is None and name.startswith("higher_order."):
        found = OPERATORS.get(name.removeprefix("higher_order."))
        kinds = (ControlFlow, WrapWithSetGradEnabled)
        return found if isinstance(found, kinds) else _refused("a known operator", name[:100])
    return found if found is not None else _overload(name)


def _overload(name: str) -> Any:
    space, _, rest = name.partition(".")
    operator, _, overload = rest.partition(".")
    found: Any = None
    if overload and space in ops.table.overloads.known_namespaces():
        packet = getattr(ops.table.overloads.namespace(space), operator, None)
        if isinstance(packet, ops.table.overloads.Packet):
            found = getattr(packet, overload, None)
    if not isinstance(found, ops.table.overloads.OpOverload):
        _refused("an operator of this version", repr(name)[:100])
    return found


def read_value(x: object, nodes: dict[str, Node]) -> Any:
    """The argument."""
    if isinstance(x, list):
        return [read_value(v, nodes) for v in x]
    if not isinstance(x, dict):
        return x
    (kind, held), = x.items()  # fmt: skip
    if kind in CORE_KINDS:
        return _core_value(kind, held)
    if kind == "node":
        return nodes[held]
    if kind == "float":
        return float(_known(held, str, "a number"))
    if kind == "complex":
        real, imaginary = held
        return complex(float(real), float(imaginary))
    if kind == "tuple":
        return tuple([read_value(v, nodes) for v in held])
    if kind == "slice":
        start, stop, step = held
        return slice(read_value(start, nodes), read_value(stop, nodes), read_value(step, nodes))
    if kind == "dict":
        return {read_value(k, nodes): read_value(v, nodes) for k, v in held}
    return _refused("a value of a known kind", repr(kind)[:100])


def _core_value(kind: str, name: str) -> Any:
    if kind == "device":
        return core.device(_known(name, str, "a device"))
    found = getattr(core, name, None) if names.is_name(name) else None
    return found if isinstance(found, getattr(core, kind)) else _refused(f"a {kind}", repr(name))


# ------------------------------------------------------------------ graphs


def _read_meta(data: Any, mode: FakeTensorMode) -> Any:
    env: Any = mode.shape_env
    if isinstance(data, list):
        return tuple([_read_meta(v, mode) for v in data])
    if "size" in data:
        hint, size = _whole(data["hint"]), read_expr(data["size"])
        _know([size], [hint], env)
        return SymInt(hint, size, env)
    if "value" in data:
        return read_value(data["value"], {})
    dtype = _core_value("dtype", data["dtype"])
    sizes_hint, strides_hint = (tuple([_whole(n, 0) for n in part]) for part in data["hint"])
    plain = core.empty_strided(sizes_hint, strides_hint, dtype=dtype, device="meta")
    device = _core_value("device", data["device"])
    made: Any = core.fake_tensor(mode.tensor_class, plain, mode, device)
    sizes = tuple(read_expr(e) for e in data["sizes"])
    strides = tuple(read_expr(e) for e in data["strides"])
    if len(sizes) != len(sizes_hint) or len(strides) != len(sizes_hint):
        _refused("as many expressions as sizes", f"{len(sizes)} and {len(strides)}")
    if any(e.constant is None for e in (*sizes, *strides)):
        made._symbolic = (sizes, strides, number(0))
        _know([*sizes, *strides], [*sizes_hint, *strides_hint], env)
    return made.requires_grad_(_known(data["requires_grad"], bool, "a bool"))


def _know(expressions: list[Expr], hints: list[int], env: ShapeEnv) -> None:
    """Note the symbols that stand alone, with their values in the example; any other must be known by then."""
    for expr, hint in zip(expressions, hints, strict=True):
        if expr.symbol is not None:
            env.hints.setdefault(expr.symbol, hint)
    for expr in expressions:
        if not expr.free_symbols <= env.hints.keys():
            _refused("sizes of symbols that stand for a size", str(expr)[:100])


def read_graph(data: object, env: ShapeEnv) -> GraphModule:
    """The graph, as a module without attributes but the graphs of functions; its code is written when
    somebody runs it."""
    return _read_graph(data, FakeTensorMode(allow_non_fake_inputs=True, shape_env=env), 0)


def _read_graph(data: Any, mode: FakeTensorMode, depth: int) -> GraphModule:
    graph, root = Graph(), nn.Module()
    nodes: dict[str, Node] = {}
    for entry in data:
        node = _read_node(entry, graph, nodes, whole=not depth)
        nodes[node.name] = node
        if node.op == "get_attr":
            if depth > _DEEPEST or hasattr(root, str(node.target)):
                _refused("graphs in a few graphs, each with its own name", depth)
            root.add_module(str(node.target), _read_graph(entry["graph"], mode, depth + 1))
        elif entry["val"] is not None and node.op != "output":
            node.meta["val"] = _read_meta(entry["val"], mode)
        if entry["stack_trace"] is not None:
            node.meta["stack_trace"] = _known(entry["stack_trace"], str, "a stack trace")
    if not nodes or node.op != "output":
        _refused("a graph with an output at its end", f"{len(nodes)} nodes")
    graph.lint()
    with code_on_demand():
        return GraphModule(root, graph)


def _read_node(entry: dict[Any, Any], graph: Graph, nodes: dict[str, Node], whole: bool) -> Node:
    op, target = entry["op"], entry["target"]
    if op not in ("placeholder", "call_function", "output", "get_attr"):
        _refused("a flat graph", repr(op)[:100])
    if op == "call_function":
        target = read_target(target)
    else:
        _name(target, f"the target of a {op}")
    name = _name(entry["name"], "the name of a node")
    args, kwargs = read_value(entry["args"], nodes), read_value(entry["kwargs"], nodes)
    for key in _known(kwargs, dict, "keywords"):
        _name(key, "a keyword")
    if op == "placeholder" and (args or kwargs):
        _refused("an input without a default", repr(args)[:100])
    if op == "get_attr" and target.startswith("_"):
        _refused("the name of a graph", repr(target)[:100])
    if op == "output" and whole:
        _known(_known(args, tuple, "arguments")[0], tuple, "a tuple of results")
    node = graph.create_node(op, target, args, kwargs, name=name)
    return node if node.name == name else _refused("a name that is free", name)


# ------------------------------------------------------------------ signatures


_ARGUMENTS = {
    c.__name__: c for c in (kinds.TensorArgument, kinds.SymIntArgument, kinds.ConstantArgument)
}


def read_signature(data: Any) -> kinds.ExportGraphSignature:
    """The signature."""

    def argument(arg: dict[str, Any]) -> Any:
        values = [_known(arg["name"], str, "a name")]
        if "value" in arg:
            values.append(read_value(arg["value"], {}))
        return _ARGUMENTS[arg["type"]](*values)

    def target(spec: dict[str, Any]) -> str | None:
        held = spec["target"]
        return None if held is None else _known(held, str, "a name")

    return kinds.ExportGraphSignature(
        [
            kinds.InputSpec(
                kinds.InputKind[s["kind"]], argument(s["arg"]), target(s), s["persistent"]
            )
            for s in data["inputs"]
        ],
        [
            kinds.OutputSpec(kinds.OutputKind[s["kind"]], argument(s["arg"]), target(s))
            for s in data["outputs"]
        ],
    )


def check_signature(
    signature: kinds.ExportGraphSignature, graph: Graph, held: dict[str, Any]
) -> None:
    """Whether a signature speaks of the inputs and outputs of a graph, and of tensors that are held."""
    placeholders = [n.name for n in graph.nodes if n.op == "placeholder"]
    if placeholders != [spec.arg.name for spec in signature.input_specs]:
        _refused(f"a signature of the inputs {placeholders}", "another")
    results = graph.output_node().args[0]
    if len(results) != len(signature.output_specs):
        _refused(f"a signature of {len(results)} outputs", len(signature.output_specs))
    specs: list[Any] = [*signature.input_specs, *signature.output_specs]
    for spec in specs:
        users = spec.kind in (kinds.InputKind.USER_INPUT, kinds.OutputKind.USER_OUTPUT)
        if users or spec.target in held:
            continue
        if spec.kind is kinds.OutputKind.USER_INPUT_MUTATION and spec.target in placeholders:
            continue
        _refused("a tensor of the file as what the signature names", repr(spec.target)[:100])


# ------------------------------------------------------------------ nestings


def read_spec(data: Any) -> Any:
    """The nesting; its containers must be known to pytree."""
    if data is None:
        return pytree.treespec_leaf()
    known = {type_name(kind): kind for kind in pytree.SUPPORTED_NODES}
    kind = known.get(_known(data["type"], str, "the name of a container"))
    if kind is None:
        fail(
            RuntimeError,
            "export.load",
            "containers that pytree knows were required",
            data["type"][:100],
            "import what registers it first",
        )
    children = [read_spec(c) for c in data["children"]]
    return pytree.TreeSpec(kind, read_value(data["context"], {}), children)
