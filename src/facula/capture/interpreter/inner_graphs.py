"""Functions captured as graphs of their own, from inside of whatever calls them.

Takes: the interpreter (`d`), a symbolic function, and nestings of arguments. Gives: `InnerFunction`, which
can be called with stand-ins once and is a graph module afterwards; nestings taken apart and put together.
Keeps true: tensors that the function reads from outside are `lifted`: further inputs of its graph;
nothing that the function made stays behind outside of it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.exports import is_exporting
from facula.capture.values.kinds import (
    CellValue,
    DictValue,
    Known,
    NodeValue,
    NumberValue,
    ObjectValue,
    SequenceValue,
    TensorValue,
)
from facula.fx import Graph, GraphModule

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic
    from facula.capture.values.kinds import Value


class Slot:
    """The place of a tensor in a nesting."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Opaque:
    """An argument that nothing looks into on its way to the function: a symbolic value."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


def mapped(nested: Any, leaf: Callable[[Any], Any]) -> Any:
    """A nesting of tuples, lists and dictionaries with a function applied to its leaves."""
    if isinstance(nested, (tuple, list)):
        items = [mapped(item, leaf) for item in nested]
        return type(nested)(*items) if hasattr(nested, "_fields") else type(nested)(items)
    if isinstance(nested, dict):
        made = copy.copy(nested)
        for key, item in nested.items():
            made[key] = mapped(item, leaf)
        return made
    return leaf(nested)


def split(nested: object) -> tuple[list[Any], Any]:
    """The tensors and functions of a nesting, and the nesting with slots in their place."""
    found: list[Any] = []

    def leaf(value: object) -> Any:
        if isinstance(value, core.Tensor) or callable(value):
            found.append(value)
            return Slot(len(found) - 1)
        return value

    return found, mapped(nested, leaf)


def build(template: object, values: Sequence[Any]) -> Any:
    """The nesting with values in the slots."""
    return mapped(template, lambda v: values[v.number] if isinstance(v, Slot) else v)


def given_of(d: Any, nested: object) -> tuple[Any, list[Any], Any]:
    """Symbolic arguments as stand-ins, the values among them that are nodes, and the template."""
    leaves: list[Any] = []

    def take(value: object) -> Any:
        if isinstance(value, tuple):
            return tuple([take(item) for item in value])
        if isinstance(value, dict):
            return {key: take(item) for key, item in value.items()}
        return _template(d, value, leaves)

    template = take(nested)
    return build(template, [leaf.fake for leaf in leaves]), leaves, template


def _template(d: Symbolic, value: Any, leaves: list[Any]) -> Any:
    """A symbolic value as a template; what is a node goes to `leaves`."""
    value = d.force(value)
    if isinstance(value, (TensorValue, NodeValue)):
        if isinstance(value, TensorValue) and is_exporting():
            d.by_fake.setdefault(id(value.fake), value)  # which of its sizes may change
        leaves.append(value)
        return Slot(len(leaves) - 1)
    if isinstance(value, SequenceValue):
        items = [_template(d, item, leaves) for item in value.items]
        return value.kind(*items) if hasattr(value.kind, "_fields") else value.kind(items)
    if isinstance(value, DictValue):
        d.complete(value)
        made = {
            d.constant_of(key): _template(d, item, leaves) for key, item in value.items.values()
        }
        return made if value.kind is dict else value.kind(made)
    if isinstance(value, NumberValue):
        return d.specialise(value).obj
    if isinstance(value, Known):
        return value.obj
    return Opaque(value)


def symbolic_of(d: Symbolic, template: Any, parts: Sequence[Any]) -> Any:
    """The symbolic value of a nesting, from those of its slots."""
    if isinstance(template, Slot):
        return parts[template.number]
    if isinstance(template, Opaque):
        return template.value
    if isinstance(template, (tuple, list)):
        items = [symbolic_of(d, item, parts) for item in template]
        return d.made(SequenceValue(type(template), items))
    if isinstance(template, dict):
        keys = [d.lift(key) for key in template]
        items = [symbolic_of(d, item, parts) for item in template.values()]
        return d.build_dict(keys, items, type(template))
    return d.lift(template)


class InnerFunction:
    """A symbolic function that is called with stand-ins: captured the first time, then a graph."""

    def __init__(self, d: Symbolic, function: Any) -> None:
        self.d, self.function = d, function
        self.name = _name_of(function)
        self.module: GraphModule | None = None
        #: the values from outside that the graph takes behind its own inputs
        self.lifted: list[Any] = []
        #: the result, with slots for what the graph gives
        self.template: Any = None

    def __call__(self, *args: Any, **words: Any) -> Any:
        if self.module is None:
            return self._capture(args, words)
        values = self.module(*split((args, words))[0], *[value.fake for value in self.lifted])
        return build(self.template, values)

    def _capture(self, args: tuple, words: dict) -> Any:
        d = self.d
        outer = (d.graph, d.last_placeholder, d.inputs, d.operator_count)
        d.graph, d.last_placeholder, d.inputs = Graph(), None, []
        d.enclosing.append(([], []))
        try:
            values, template = split((args, words))
            inputs = [_input(d, n, value) for n, value in enumerate(values)]
            positional, named = template
            result = d.call(
                self.function,
                [symbolic_of(d, part, inputs) for part in positional],
                {name: symbolic_of(d, part, inputs) for name, part in named.items()},
            )
            results: list[Any] = []
            self.template = _template(d, result, results)
            d.graph.output(tuple([d.node_of(value) for value in results]))
            check_nothing_stays(d, d.graph)
            self.lifted = d.enclosing[-1][0]
            for node in d.graph.nodes:
                node.meta.pop("val", None)  # of a level that is left soon
            self.module = GraphModule(dict(d.attached), d.graph)
        finally:
            d.enclosing.pop()
            d.graph, d.last_placeholder, d.inputs, d.operator_count = outer
        return build(self.template, [value.fake for value in results])


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "name", None) or getattr(function, "kind", None) or function
    name = getattr(name, "__name__", name)
    return name if isinstance(name, str) and name.isidentifier() else "function"


def _input(d: Symbolic, number: int, value: object) -> Any:
    node = d.graph.placeholder(f"input_{number}")
    d.last_placeholder = node
    if not isinstance(value, core.Tensor):
        return NodeValue(value, node)
    made = TensorValue(value, node)
    outer = d.by_fake.get(id(value)) if is_exporting() else None
    if isinstance(outer, TensorValue):
        made.dynamic = outer.dynamic
    d.by_fake[id(value)] = made
    return made


def check_nothing_stays(d: Symbolic, graph: Graph) -> None:
    """Break where something of an inner graph was put into an object from outside."""
    for value in list(d.effects.values()):
        parts: list[Any] = []
        if isinstance(value, SequenceValue):
            parts = value.items
        elif isinstance(value, DictValue):
            parts = [item for key, (_, item) in value.items.items() if key in value.overwritten]
        elif isinstance(value, CellValue):
            parts = [value.content]
        elif isinstance(value, ObjectValue):
            parts = [item for _, item in value.slots.values()]
        if any(_is_of(d, part, graph) for part in parts):
            raise Break("unsupported-mutation", "a function inside of a transform keeps a tensor")
    for _, name, value in d.attribute_writes.values():
        if _is_of(d, value, graph):
            raise Break("unsupported-mutation", f"a transform's tensor is kept as .{name}")


def _is_of(d: Symbolic, value: object, graph: Graph) -> bool:
    value = getattr(value, "value", None) or value
    if isinstance(value, TensorValue):
        return value.node is not None and value.node.graph is graph
    if isinstance(value, SequenceValue):
        return any(_is_of(d, item, graph) for item in value.items)
    return False
