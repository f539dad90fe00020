"""Graphs, signatures and nestings as JSON.

Takes: what an exported program is made of, without tensors. Gives: lists, dictionaries, numbers and
strings; and the objects again.
Keeps true: what is read back is equal; a name that is no operator, dtype or container is refused, so
that a file can not call anything else.
"""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

from facula import core, nn, ops
from facula.core.errors import fail
from facula.export import signature as kinds
from facula.fx import Graph, GraphModule, Node
from facula.fx import _pytree as pytree
from facula.fx.fake_tensor import FakeTensorMode
from facula.fx.shape_env import ShapeEnv
from facula.fx.symbolic_run import sizes_of
from facula.fx.symbols import Atom, Expr, SymInt, number

Tensor = core.Tensor
#: functions on numbers that graphs may call besides operators
_MODULES = {"operator": operator, "math": math}
_BUILTINS = ("max", "min", "abs", "round", "pow")
_CORE_KINDS = ("dtype", "device", "layout", "memory_format")


def _unreadable(what: str, got: Any) -> Any:
    return fail(
        RuntimeError,
        "export",
        f"{what} was required (it can not be kept in a file)",
        got,
        hint="export the program without it, as numbers, strings and tensors",
    )


# ------------------------------------------------------------------ expressions


def write_expr(expr: Expr) -> list[Any]:
    """An expression as a list of terms: factor, and atoms with powers."""
    return [
        [factor, [[_write_atom(atom), power] for atom, power in monomial]]
        for monomial, factor in expr.terms.items()
    ]


def _write_atom(atom: Atom) -> list[Any]:
    return [atom.op, [write_expr(x) if isinstance(x, Expr) else x for x in atom.args]]


def read_expr(data: list[Any]) -> Expr:
    """The expression."""
    return Expr(
        {tuple((_read_atom(atom), power) for atom, power in monomial): f for f, monomial in data}
    )


def _read_atom(data: list[Any]) -> Atom:
    op, args = data
    return Atom(op, tuple(read_expr(x) if isinstance(x, list) else x for x in args))


# ------------------------------------------------------------------ targets and arguments


def write_target(target: Any) -> str:
    """The name of what a node calls."""
    text = str(target)
    if isinstance(target, ops.overloads.OpOverload):
        return text
    name = getattr(target, "__name__", "")
    for module, held in _MODULES.items():
        if getattr(held, name, None) is target:
            return f"{module}.{name}"
    if name in _BUILTINS and getattr(builtins, name) is target:
        return f"builtins.{name}"
    return _unreadable("an operator", target)


def read_target(name: str) -> Any:
    """What a node calls."""
    first, _, rest = name.partition(".")
    if first in _MODULES and not rest.startswith("_") and hasattr(_MODULES[first], rest):
        return getattr(_MODULES[first], rest)
    if first == "builtins" and rest in _BUILTINS:
        return getattr(builtins, rest)
    at: Any = ops
    for part in name.split("."):
        at = None if part.startswith("__") else getattr(at, part, None)
    if not isinstance(at, ops.overloads.OpOverload):
        fail(
            RuntimeError,
            "export.load",
            "an operator of this version was required",
            name,
            hint="load it with the version that wrote it",
        )
    return at


def write_value(x: Any) -> Any:
    """An argument of a node: a plain value, or `{kind: ...}`."""
    if isinstance(x, Node):
        return {"node": x.name}
    if x is None or isinstance(x, (bool, str)):
        return x
    if isinstance(x, SymInt):
        return {"size": write_expr(x.expr)}
    if isinstance(x, int):
        return x
    if isinstance(x, float):
        return x if math.isfinite(x) else {"float": repr(x)}
    if isinstance(x, complex):
        return {"complex": [repr(x.real), repr(x.imag)]}
    if isinstance(x, tuple):
        return {"tuple": [write_value(v) for v in x]}
    if isinstance(x, list):
        return [write_value(v) for v in x]
    if isinstance(x, slice):
        return {"slice": [write_value(v) for v in (x.start, x.stop, x.step)]}
    if isinstance(x, dict):
        return {"dict": [[write_value(k), write_value(v)] for k, v in x.items()]}
    for kind in _CORE_KINDS:
        if isinstance(x, getattr(core, kind)):
            return {kind: str(x).rpartition(".")[2]}
    return _unreadable("a number, string, dtype, device or list", type(x).__name__)


def read_value(x: Any, nodes: dict[str, Node]) -> Any:
    """The argument."""
    if isinstance(x, list):
        return [read_value(v, nodes) for v in x]
    if not isinstance(x, dict):
        return x
    (kind, held), = x.items()  # fmt: skip
    if kind in _CORE_KINDS:
        return core.device(held) if kind == "device" else _core_value(kind, held)
    if kind == "node":
        return nodes[held]
    if kind == "float":
        return float(held)
    if kind == "complex":
        return complex(float(held[0]), float(held[1]))
    if kind == "tuple":
        return tuple(read_value(v, nodes) for v in held)
    if kind == "slice":
        return slice(*[read_value(v, nodes) for v in held])
    if kind == "dict":
        return {read_value(k, nodes): read_value(v, nodes) for k, v in held}
    return fail(
        RuntimeError,
        "export.load",
        "a value of a known kind was required",
        kind,
        hint="load it with the version that wrote it",
    )


def _core_value(kind: str, name: str) -> Any:
    found = getattr(core, name, None)
    if not isinstance(found, getattr(core, kind)):
        fail(
            RuntimeError,
            "export.load",
            f"a {kind} was required",
            name,
            hint="load it with the version that wrote it",
        )
    return found


# ------------------------------------------------------------------ graphs


def _write_meta(value: Any) -> Any:
    """What a node gives: a tensor without its elements, a number, or a list of these."""
    if isinstance(value, Tensor):
        geometry = getattr(value, "_symbolic", None)
        sizes = sizes_of(value)
        strides = geometry[1] if geometry else [number(s) for s in Tensor.stride(value)]
        return {
            "hint": [list(Tensor.size(value)), list(Tensor.stride(value))],
            "sizes": [write_expr(e) for e in sizes],
            "strides": [write_expr(e) for e in strides],
            "dtype": str(value.dtype).rpartition(".")[2],
            "device": str(value.device),
            "requires_grad": value.requires_grad,
        }
    if isinstance(value, (list, tuple)):
        return [_write_meta(v) for v in value]
    if isinstance(value, SymInt):
        return {"hint": value.expr.value(value.env.example), "size": write_expr(value.expr)}
    return {"value": write_value(value)}


def _read_meta(data: Any, mode: FakeTensorMode) -> Any:
    env: Any = mode.shape_env
    if isinstance(data, list):
        return tuple(_read_meta(v, mode) for v in data)
    if "size" in data:
        return SymInt(data["hint"], read_expr(data["size"]), env)
    if "value" in data:
        return read_value(data["value"], {})
    dtype = _core_value("dtype", data["dtype"])
    plain = core.empty_strided(*map(tuple, data["hint"]), dtype=dtype, device="meta")
    made: Any = core.fake_tensor(mode.tensor_class, plain, mode, core.device(data["device"]))
    sizes = tuple(read_expr(e) for e in data["sizes"])
    strides = tuple(read_expr(e) for e in data["strides"])
    if any(e.constant is None for e in (*sizes, *strides)):
        made._symbolic = (sizes, strides, number(0))
        for size, expr in zip(data["hint"][0], sizes, strict=True):
            if expr.symbol is not None:
                env.hints.setdefault(expr.symbol, size)
    return made.requires_grad_(data["requires_grad"])


def write_graph(graph: Graph) -> list[dict[str, Any]]:
    """A graph as a list of nodes."""
    made = []
    for node in graph.nodes:
        target = str(node.target)
        if node.op == "call_function":
            target = write_target(node.target)
        elif node.op not in ("placeholder", "output"):
            _unreadable("a flat graph", node.op)
        made.append(
            {
                "op": node.op,
                "name": node.name,
                "target": target,
                "args": write_value(tuple(node.args)),
                "kwargs": write_value(dict(node.kwargs)),
                "val": _write_meta(node.meta["val"]) if node.meta.get("val") is not None else None,
                "stack_trace": node.meta.get("stack_trace"),
            }
        )
    return made


def read_graph(data: list[dict[str, Any]], env: ShapeEnv) -> GraphModule:
    """The graph, as a module without attributes."""
    graph = Graph()
    nodes: dict[str, Node] = {}
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=env)
    for entry in data:
        op, target = entry["op"], entry["target"]
        if op not in ("placeholder", "call_function", "output"):
            fail(
                RuntimeError,
                "export.load",
                "a flat graph was required",
                op,
                hint="load it with the version that wrote it",
            )
        function = read_target(target) if op == "call_function" else target
        args, kwargs = read_value(entry["args"], nodes), read_value(entry["kwargs"], nodes)
        node = graph.create_node(op, function, args, kwargs, name=entry["name"])
        nodes[entry["name"]] = node
        if entry["val"] is not None and op != "output":
            node.meta["val"] = _read_meta(entry["val"], mode)
        if entry["stack_trace"]:
            node.meta["stack_trace"] = entry["stack_trace"]
    graph.lint()
    return GraphModule(nn.Module(), graph)


# ------------------------------------------------------------------ signatures


def write_signature(signature: kinds.ExportGraphSignature) -> dict[str, Any]:
    """A signature as dictionaries."""

    def written(spec: Any) -> dict[str, Any]:
        arg = {"type": type(spec.arg).__name__, "name": spec.arg.name}
        if isinstance(spec.arg, kinds.ConstantArgument):
            arg["value"] = write_value(spec.arg.value)
        made = {"kind": spec.kind.name, "arg": arg, "target": spec.target}
        return {**made, "persistent": getattr(spec, "persistent", None)}

    return {
        "inputs": [written(s) for s in signature.input_specs],
        "outputs": [written(s) for s in signature.output_specs],
    }


_ARGUMENTS = {
    c.__name__: c for c in (kinds.TensorArgument, kinds.SymIntArgument, kinds.ConstantArgument)
}


def read_signature(data: dict[str, Any]) -> kinds.ExportGraphSignature:
    """The signature."""

    def argument(arg: dict[str, Any]) -> Any:
        values = [arg["name"]]
        if "value" in arg:
            values.append(read_value(arg["value"], {}))
        return _ARGUMENTS[arg["type"]](*values)

    return kinds.ExportGraphSignature(
        [
            kinds.InputSpec(
                kinds.InputKind[s["kind"]], argument(s["arg"]), s["target"], s["persistent"]
            )
            for s in data["inputs"]
        ],
        [
            kinds.OutputSpec(kinds.OutputKind[s["kind"]], argument(s["arg"]), s["target"])
            for s in data["outputs"]
        ],
    )


# ------------------------------------------------------------------ nestings


def _type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def write_spec(spec: Any) -> Any:
    """A nesting: None for a leaf."""
    if spec.is_leaf():
        return None
    return {
        "type": _type_name(spec.type),
        "context": write_value(spec.context),
        "children": [write_spec(c) for c in spec.children_specs],
    }


def read_spec(data: Any) -> Any:
    """The nesting; its containers must be known to pytree."""
    if data is None:
        return pytree.treespec_leaf()
    known = {_type_name(kind): kind for kind in pytree.SUPPORTED_NODES}
    kind = known.get(data["type"])
    if kind is None:
        fail(
            RuntimeError,
            "export.load",
            "containers that pytree knows were required",
            data["type"],
            "import what registers it first",
        )
    children = [read_spec(c) for c in data["children"]]
    return pytree.TreeSpec(kind, read_value(data["context"], {}), children)
