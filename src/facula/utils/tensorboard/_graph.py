"""Graphs of modules as TensorBoard draws them.

Takes: a module and its inputs, or a file of ONNX. Gives: `GraphDef`. Keeps true: calls of modules
keep their path, so that TensorBoard can fold them.
"""

from __future__ import annotations

import importlib
from typing import Any

from facula.fx import Tracer
from facula.fx.proxy import TraceError
from facula.fx.proxy_tensor import make_fx
from facula.utils.tensorboard import _wire as wire
from facula.utils.tensorboard._wire import Message

__all__ = ["graph_of", "graph_of_onnx"]


def graph_of(model: Any, inputs: Any) -> Message:
    """The graph of a module: by symbolic trace, or, where it asks for sizes, with the inputs."""
    try:
        traced = Tracer().trace(model)
    except (TraceError, TypeError, ValueError, RuntimeError, NotImplementedError):
        if inputs is None:
            raise
        given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        traced = make_fx(lambda *args: model(*args))(*given).graph
    made: Message = wire.GraphDef(
        node=[_drawn(node) for node in traced.nodes], versions=wire.VersionDef(producer=22)
    )
    return made


def _drawn(node: Any) -> Any:
    kind = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "call")
    return wire.NodeDef(
        name=_place(node),
        op=f"{node.op}:{kind}",
        input=[_place(n) for n in node.all_input_nodes],
        attr=wire.attributes({"target": wire.AttrValue(s=str(node.target))}),
    )


def _place(node: Any) -> str:
    """The name under which `_drawn` draws a node."""
    if node.op == "call_module":
        return f"{str(node.target).replace('.', '/')}/{node.name}"
    return str(node.name)


def graph_of_onnx(path: str) -> Message:
    """The graph of a file of ONNX, which the library onnx reads."""
    graph = importlib.import_module("onnx").load(path).graph
    nodes = [wire.NodeDef(name=part.name, op="Variable") for part in [*graph.input, *graph.output]]
    for node in graph.node:
        kinds = ", ".join(attribute.name for attribute in node.attribute)
        nodes.append(
            wire.NodeDef(
                name=node.output[0],
                op=node.op_type,
                input=list(node.input),
                attr=wire.attributes({"parameters": wire.AttrValue(s=kinds)}),
            )
        )
    made: Message = wire.GraphDef(node=nodes, versions=wire.VersionDef(producer=22))
    return made
