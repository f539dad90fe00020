"""Graphs, signatures and nestings as JSON.

Takes: what an exported program is made of, without tensors. Gives: lists, dictionaries, numbers and
strings; `description_reader` makes the objects again.
Keeps true: what is read back is equal; what a file can not name is refused here, when it is written.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from facula import core, ops
from facula.core.errors import fail
from facula.export import signature as kinds
from facula.fx import Graph, GraphModule, Node
from facula.fx.codegen import INPLACE_METHODS, MAGIC_METHODS
from facula.fx.higher_order import ControlFlow
from facula.fx.higher_order.grad_regions import WrapWithSetGradEnabled
from facula.fx.symbolic_run import sizes_of
from facula.fx.symbols import Atom, Expr, SymBool, SymInt, number
from facula.fx.unbacked import UnbackedFloat

Tensor = core.Tensor
#: functions on numbers that graphs may call besides operators: each gives a value of its arguments and
#: does nothing else (`operator.call`, `attrgetter` and their kin would let a file call anything)
FUNCTIONS: dict[str, Any] = {
    **{
        f"operator.{name}": getattr(operator, name)
        for name in (
            *MAGIC_METHODS,
            *INPLACE_METHODS,
            "not_",
            "truth",
            "abs",
            "index",
            "is_",
            "is_not",
        )
    },
    **{f"math.{name}": f for name, f in vars(math).items() if callable(f) and name[0] != "_"},
    **{f"builtins.{f.__name__}": f for f in (max, min, abs, round, pow)},
}
_FUNCTION_NAMES = {function: name for name, function in reversed(FUNCTIONS.items())}
CORE_KINDS = ("dtype", "device", "layout", "memory_format")


def _unreadable(what: str, got: object) -> Any:
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


# ------------------------------------------------------------------ targets and arguments


def write_target(target: object) -> str:
    """The name of what a node calls."""
    text = str(target)
    if isinstance(target, ops.table.overloads.OpOverload):
        return text
    if isinstance(target, (ControlFlow, WrapWithSetGradEnabled)):
        return f"higher_order.{target.name()}"
    known = _FUNCTION_NAMES.get(target)
    return known if known is not None else _unreadable("an operator", target)


def write_value(x: object) -> Any:
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
    for kind in CORE_KINDS:
        if isinstance(x, getattr(core, kind)):
            return {kind: str(x).rpartition(".")[2]}
    return _unreadable("a number, string, dtype, device or list", type(x).__name__)


# ------------------------------------------------------------------ graphs


def _write_meta(value: object) -> Any:
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
    if isinstance(value, (SymBool, UnbackedFloat)):
        return None  # how it was computed stands in the graph
    return {"value": write_value(value)}


def write_graph(graph: Graph) -> list[dict[str, Any]]:
    """A graph as a list of nodes."""
    made = []
    for node in graph.nodes:
        target = str(node.target)
        if node.op == "call_function":
            target = write_target(node.target)
        elif node.op not in ("placeholder", "output", "get_attr"):
            _unreadable("a flat graph", node.op)
        made.append(
            {
                **({"graph": _write_inner(graph, target)} if node.op == "get_attr" else {}),
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


def _write_inner(graph: Graph, name: str) -> list[dict[str, Any]]:
    """The graph of a function that an operator takes."""
    found: Any = getattr(graph.owning_module, name, None)
    if not isinstance(found, GraphModule):
        _unreadable("the graph of a function", name)
    return write_graph(found.graph)


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


# ------------------------------------------------------------------ nestings


def type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def write_spec(spec: Any) -> Any:
    """A nesting: None for a leaf."""
    if spec.is_leaf():
        return None
    return {
        "type": type_name(spec.type),
        "context": write_value(spec.context),
        "children": [write_spec(c) for c in spec.children_specs],
    }
