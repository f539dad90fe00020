"""`_dynamo.export`: a function as one graph module, which takes what the function takes.

Takes: a function or module, then its arguments. Gives: an `ExportResult`: the graph module, and no guards.
Keeps true: the module computes what the function does for these arguments, and for others of their shapes for which the
program takes the same way; nobody checks that later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from facula.compiler.api import compile as _compile
from facula.core.errors import fail
from facula.fx import GraphModule, _pytree
from facula.fx.graph import Graph

__all__ = ["ExportResult", "export"]


class ExportResult(NamedTuple):
    """What `export` gives."""

    graph_module: GraphModule
    guards: set[Any]


class _Recorder:
    """A backend that keeps the one graph, and what went in and came out."""

    def __init__(self) -> None:
        self.module: Any = None
        self.inputs: tuple[Any, ...] = ()
        self.outputs: tuple[Any, ...] = ()

    def __call__(self, module: Any, inputs: object) -> Any:
        self.module = module

        def run(*given: Any) -> Any:
            self.inputs = given
            self.outputs = module(*given)
            return self.outputs

        return run


def _place(value: object, among: Any) -> int | None:
    """Where an object stands in a row of objects."""
    return next((i for i, other in enumerate(among) if other is value), None)


def export(
    f: Callable[..., Any],
    *extra_args: object,
    aten_graph: bool = False,
    same_signature: bool = True,
    assume_static_by_default: bool = False,
    **extra: object,
) -> Any:
    """``export(f)(*args)`` captures the function as one graph; it must not end anywhere in between.

    Args:
        aten_graph: operators below their gradients, as `make_fx` writes them.
        same_signature: the module takes the function's arguments in their structure.
    """
    if extra_args:
        return export(f, aten_graph=aten_graph, same_signature=same_signature)(*extra_args)

    def inner(*args: object, **kwargs: object) -> ExportResult:
        recorder = _Recorder()
        result = _compile(f, backend=recorder, fullgraph=True, dynamic=False)(*args, **kwargs)
        if recorder.module is None:
            fail(
                RuntimeError,
                "export",
                "a function with an operator on tensors was required",
                getattr(f, "__name__", f),
                hint="a function without tensors has no graph",
            )
        made = _with_signature(recorder, (args, kwargs), result)
        if aten_graph:
            # lazily: few graphs are wanted below their gradients
            from facula.fx.proxy_tensor import make_fx

            made = make_fx(made)(*_pytree.tree_leaves((args, kwargs)))
        return ExportResult(made, set())

    return inner


def _with_signature(recorder: _Recorder, given: object, result: object) -> GraphModule:
    """The graph with the function's arguments as placeholders, and its result as output."""
    leaves = _pytree.tree_leaves(given)
    graph, root = Graph(), recorder.module
    arguments = [graph.placeholder(f"arg{i}") for i in range(len(leaves))]
    extra: dict[str, Any] = {}
    values: dict[Any, Any] = {}
    holders = [node for node in root.graph.nodes if node.op == "placeholder"]
    for node, value in zip(holders, recorder.inputs, strict=True):
        at = _place(value, leaves)
        if at is None:  # read from outside: it stays what it is
            name = f"_captured_{len(extra)}"
            extra[name] = value
            values[node] = graph.get_attr(name)
        else:
            values[node] = arguments[at]
            values[node].meta.update(node.meta)
    outputs = graph.graph_copy(root.graph, values)
    nodes = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    found, spec = _pytree.tree_flatten(result)
    chosen = []
    for leaf in found:
        at = _place(leaf, recorder.outputs)
        own = _place(leaf, leaves)
        chosen.append(nodes[at] if at is not None else arguments[own] if own is not None else leaf)
    graph.output(_pytree.tree_unflatten(chosen, spec))
    return GraphModule({**dict(_parts(root)), **extra}, graph)


def _parts(root: GraphModule) -> Any:
    """What the nodes of a graph module name."""
    for node in root.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            value = root
            for part in node.target.split("."):
                value = getattr(value, part)
            yield node.target, value
