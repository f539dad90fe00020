"""Real arguments for functions whose results are constants of a captured program.

Takes: symbolic values. Gives: the objects that they stand for in the call that is captured.
Keeps true: tensors that the program has computed are computed by its graph so far, on copies, without gradients; a
function that would see what the program has written to objects breaks the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.values.kinds import NumberValue, ObjectValue, SequenceValue, TensorValue
from facula.fx import Graph, GraphModule, _pytree

__all__ = ["apart", "real_values"]


def real_values(d: Any, values: Sequence[Any]) -> list[Any]:
    """The objects that values stand for now."""
    values = [d.force(value) for value in values]
    tensors = list(_tensors(d, values))
    found = dict(zip(map(id, tensors), _computed(d, tensors), strict=True))
    return [_real(d, value, found) for value in values]


def apart(d: Any, result: Any) -> Any:
    """A result whose tensors are none that the program knows: they stay as they are now."""

    def copied(leaf: Any) -> Any:
        if isinstance(leaf, core.Tensor) and id(leaf) in d.tracked:
            return leaf.detach().clone()
        return leaf

    return _pytree.tree_map(copied, result)


def _tensors(d: Any, values: Sequence[Any]) -> Any:
    for value in map(d.force, values):
        if isinstance(value, TensorValue):
            yield value
        elif isinstance(value, SequenceValue):
            yield from _tensors(d, value.items)


def _real(d: Any, value: Any, found: dict[int, Any]) -> Any:
    value = d.force(value)
    if isinstance(value, TensorValue):
        return found[id(value)]
    if isinstance(value, SequenceValue) and value.basic in (list, tuple):
        items = [_real(d, item, found) for item in value.items]
        return value.kind(*items) if hasattr(value.kind, "_fields") else value.kind(items)
    if isinstance(value, NumberValue):
        return value.hint
    if isinstance(value, ObjectValue) and value.real is not None:
        d.guards.add("is", value.source, value.real)
        return value.real
    return d.constant_of(value)


def _computed(d: Any, tensors: list[TensorValue]) -> list[Any]:
    """Tensors as the graph so far gives them."""
    if all(value.real is not None and not core.writes(value.fake) for value in tensors):
        return [value.real for value in tensors]
    if d.enclosing:
        raise Break("data-dependent-value", "a constant result inside of a transform")
    nodes = [d.node_of(value) for value in tensors]
    graph = Graph()
    copies: dict[Any, Any] = {}
    inputs = {value.node: value for value in d.inputs}
    for node in d.graph.nodes:
        if node.op != "output":
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    graph.output([copies[node] for node in nodes])
    given = [_example(inputs[n]) for n in d.graph.nodes if n.op == "placeholder"]
    recording = core.is_grad_enabled()
    try:
        core.set_grad_enabled(False)
        return list(GraphModule(dict(d.attached), graph)(*given))
    finally:
        core.set_grad_enabled(recording)


def _example(value: Any) -> Any:
    return value.hint if isinstance(value, NumberValue) else value.real.detach().clone()
