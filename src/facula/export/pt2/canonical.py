"""One form for programs that differ in names and in the order of independent calls alone.

Takes: the record of a program. Gives: the record of the same program in that form.
Keeps true: what is given is not changed; what the program computes stays; what is noted of nodes is left out.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

from facula.export.pt2 import records as R
from facula.export.pt2.union import Union

__all__ = ["canonicalize"]


def canonicalize(ep: R.ExportedProgram, constants: set[str] | None = None) -> R.ExportedProgram:
    """The program in its one form: values are called `_0`, `_1`, ... in the order in which they are made.

    Args:
        ep: the record of a program
        constants: names that stay what they are
    """
    made = copy.deepcopy(ep)
    made.opset_version = dict(sorted(made.opset_version.items()))
    made.range_constraints = dict(sorted(made.range_constraints.items()))
    module = made.graph_module
    names = _ordered(module.graph, constants or set())
    for call in module.module_call_graph:
        call.signature = None if call.fqn else call.signature
    for spec in (*module.signature.input_specs, *module.signature.output_specs):
        _rename(spec, names)
    return made


def _values(x: Any) -> Iterator[Any]:
    """The parts of a record that name a value: tensors, and numbers by name."""
    if isinstance(x, Union):
        if x.type == "as_name":
            yield x
        elif x.type != "as_graph":
            yield from _values(x.value)
    elif isinstance(x, R.TensorArgument):
        yield x
    elif isinstance(x, (list, tuple)):
        for item in x:
            yield from _values(item)
    elif isinstance(x, dict):
        yield from _values(list(x.values()))
    elif dataclasses.is_dataclass(x):
        for field in dataclasses.fields(x):
            yield from _values(getattr(x, field.name))


def _name(value: Any) -> str:
    return str(value.name if isinstance(value, R.TensorArgument) else value.as_name)


def _rename(x: Any, names: dict[str, str]) -> None:
    for value in _values(x):
        field = "name" if isinstance(value, R.TensorArgument) else "as_name"
        setattr(value, field, names.get(_name(value), _name(value)))


def _ordered(graph: R.Graph, kept: set[str]) -> dict[str, str]:
    """Sort the nodes of a graph and rename its values; gives the names."""
    order: dict[str, int] = {}
    for value in _values(graph.inputs):
        order.setdefault(_name(value), len(order))
    waiting = list(enumerate(graph.nodes))
    nodes = []
    while waiting:
        ready = [
            (i, n) for i, n in waiting if all(_name(v) in order for v in _values(n.inputs))
        ]  # fmt: skip
        i, node = min(ready or waiting[:1], key=lambda item: _rank(item[1], order, item[0]))
        waiting.remove((i, node))
        nodes.append(node)
        for value in _values(node.outputs):
            order.setdefault(_name(value), len(order))
    graph.nodes = nodes
    names = {name: name if name in kept else f"_{place}" for name, place in order.items()}
    for node in nodes:
        node.metadata, node.name = {}, None
        _rename((node.inputs, node.outputs), names)
        for given in node.inputs:
            if given.arg.type == "as_graph":
                _ordered(given.arg.as_graph.graph, kept)
    _rename((graph.inputs, graph.outputs), names)
    for field in ("tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values"):
        found = {names.get(name, name): value for name, value in getattr(graph, field).items()}
        setattr(graph, field, dict(sorted(found.items())))
    return names


def _rank(node: R.Node, order: dict[str, int], place: int) -> tuple[Any, ...]:
    read = [order.get(_name(value), len(order)) for value in _values(node.inputs)]
    return read, node.target, place
