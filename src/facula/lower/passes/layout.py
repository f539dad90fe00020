"""Images stay channels last between the operators that read them fastest so.

Takes: a joint or inference graph whose nodes have fake tensors as `meta["val"]`.
Gives: `prefer_channels_last`: the same graph, in which operators that name image arguments
(`Definition.images`) get them channels last; every node behind them runs on the strides that follow.
Keeps true: results of the graph keep their strides, so that callers and cotangents see nothing; a
view that depends on strides reads a value in its first order; where conversions would move more
memory than they save, nothing changes. Forward and backward are one graph here, so they agree.
"""

from __future__ import annotations

import operator
from math import prod
from typing import Any

from facula import core
from facula.autograd.transforms.levels import Suspended
from facula.fx import Graph, Node
from facula.fx.node import map_arg
from facula.lower import table
from facula.ops.table.overloads import overload_of
from facula.ops.table.registry import F

Tensor = core.Tensor
_CLONE = overload_of(core.Tensor.clone)
#: how much dearer a conversion between fused loops is than one inside of a convolution
COST = 2
_FORMATS = {4: core.channels_last, 5: core.channels_last_3d}


class _GiveUp(Exception):
    """A value can not be had in an order that somebody needs."""


def prefer_channels_last(graph: Graph) -> int:
    """Let images lie channels last where that saves memory traffic; gives how many nodes changed."""
    saved = sum(_moved_inside(node) for node in graph.nodes)
    if not saved:
        return 0
    trial = _Trial(graph)
    recording = core.set_grad_enabled(False)
    try:
        with Suspended([]):
            trial.run()
    except _GiveUp:
        return 0
    finally:
        core.set_grad_enabled(recording)
    return trial.commit() if COST * trial.moved < saved else 0


def follow_orders(graph: Graph) -> None:
    """Let every node run on the strides that its arguments have now, where calls were replaced by others of another
    order; `meta["val"]` says what the order was. Results of the graph keep theirs."""
    trial = _Trial(graph)
    recording = core.set_grad_enabled(False)
    try:
        with Suspended([]):
            trial.run()
            trial.commit()
    except _GiveUp:
        _turn_back(graph)
    finally:
        core.set_grad_enabled(recording)


def _turn_back(graph: Graph) -> None:
    """Give every result of a call on images the order that `meta["val"]` says."""
    for node in [n for n in graph.nodes if n.op == "call_function" and _images(n)]:
        old, new = node.meta["val"], node.target(*map_arg(node.args, lambda n: n.meta["val"]))
        if isinstance(old, Tensor) and not _same_order(new, old):
            users = list(node.users)
            trial = _Trial(graph)
            trial.values[node], trial.first[node] = new, old
            turned = trial._ordered(node, node)
            node.meta["val"] = new
            for user in users:
                user.replace_input_with(node, turned)


def calls_on_images(graph: Graph) -> bool:
    """Whether a graph has operators on images."""
    return any(_images(node) for node in graph.nodes if node.op == "call_function")


def _images(node: Node) -> list[tuple[int, Node]]:
    """The arguments of a node that are images, and their places."""
    definition = table.definition_of(node)
    names = definition.images if definition is not None else ()
    found = []
    for place, parameter in enumerate(definition.schema.parameters if names else ()):  # type: ignore[union-attr]
        if parameter.name in names and place < len(node.args):
            argument = node.args[place]
            if isinstance(argument, Node) and _is_image(argument.meta.get("val")):
                found.append((place, argument))
    return found


def _is_image(val: Tensor) -> bool:
    return isinstance(val, Tensor) and val.dim() in _FORMATS


def _moved_inside(node: Node) -> int:
    """Bytes that an operator on images moves itself because they lie channels first."""
    if node.op != "call_function":
        return 0
    images = [argument.meta["val"] for _, argument in _images(node)]
    if not images or _is_pointwise(node):
        return 0
    return sum(
        _bytes(x) for x in [*images, *table.values_of(node)] if _is_image(x) and not _last(x)
    )


def _is_pointwise(node: Node) -> bool:
    """A kernel of one pixel multiplies images as they lie, in either order."""
    images = {id(argument) for _, argument in _images(node)}
    others = [a.meta.get("val") for a in node.all_input_nodes if id(a) not in images]
    kernels = [x for x in [*others, *table.values_of(node)] if isinstance(x, Tensor)]
    return any(x.dim() in _FORMATS and prod(x.shape[2:]) == 1 for x in kernels)


def _last(x: Tensor) -> bool:
    return x.is_contiguous(memory_format=_FORMATS[x.dim()])


def _bytes(x: Tensor) -> int:
    return prod(x.shape) * x.dtype.itemsize


class _Trial:
    """The graph run again on fake tensors: what its nodes would read and give."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: dict[Node, Any] = {}
        self.changed: dict[Node, set[int]] = {}  # node -> image arguments to convert
        self.restored: dict[Node, set[Node]] = {}  # node -> inputs that it needs in their order
        self.last: dict[Node, Any] = {}  # node -> its value channels last
        self.first: dict[Node, Any] = {}  # node -> its value in the order that it had
        self.moved = 0

    def run(self) -> None:
        """Go over the graph."""
        for node in self.graph.nodes:
            if node.op == "output":
                for source in node.all_input_nodes:
                    if self.differs(source):
                        self.restore(node, source)
            elif node.op == "call_function":
                self.values[node] = self.called(node)
            else:
                self.values[node] = node.meta.get("val")

    def differs(self, node: Node) -> bool:
        """Whether a value has other strides than it had."""
        new, old = self.values[node], node.meta.get("val")
        return isinstance(old, Tensor) and not _same_order(new, old)

    def restore(self, node: Node, source: Node) -> Any:
        """Let a node read a value in the order that it had."""
        if source not in self.first:
            old = source.meta["val"]
            if _order(old) is None:
                raise _GiveUp
            self.first[source] = old
            self.moved += 2 * _bytes(old)
        self.restored.setdefault(node, set()).add(source)
        return self.first[source]

    def converted(self, node: Node, place: int, source: Node) -> Any:
        """Let a node read an image channels last."""
        value = self.values[source]
        if _last(value):
            return value
        if source not in self.last:
            self.last[source] = _CLONE(value, memory_format=_FORMATS[value.dim()])
            self.moved += 2 * _bytes(value)
        self.changed.setdefault(node, set()).add(place)
        return self.last[source]

    def called(self, node: Node) -> Any:
        """What a call gives."""
        images = _images(node)
        if not images and not any(self.differs(n) for n in node.all_input_nodes if self._tensor(n)):
            if node.target is not operator.getitem:
                return node.meta.get("val")
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        if _reads_strides(node):
            return self._in_first_order(node)
        args = list(map_arg(tuple(node.args), self.values.__getitem__))
        kwargs = map_arg(dict(node.kwargs), self.values.__getitem__)
        for place, source in images:
            args[place] = self.converted(node, place, source)
        try:
            given = node.target(*args, **kwargs)
        except RuntimeError:  # a view that these strides do not have
            return self._in_first_order(node)
        self.moved += self._moved_by_call(node, given)
        return given

    def _moved_by_call(self, node: Node, given: Any) -> int:
        """Bytes that a call moves because it reads channels last and gives channels first."""
        if table.is_view(node):
            return 0
        results = given if isinstance(given, (tuple, list)) else [given]
        turned = sum(_bytes(x) for x in results if _is_image(x) and not _last(x))
        read = [n for n in node.all_input_nodes if self._tensor(n) and self.differs(n)]
        return 2 * min(turned, sum(_bytes(self.values[n]) for n in read))

    def _tensor(self, node: Node) -> bool:
        return isinstance(node.meta.get("val"), Tensor)

    def _in_first_order(self, node: Node) -> Any:
        for source in node.all_input_nodes:
            if self.differs(source):
                self.restore(node, source)
        return node.meta.get("val")

    def commit(self) -> int:
        """Enter conversions and new values; gives how many conversions there are."""
        made: dict[tuple[Node, bool], Node] = {}
        for node, places in self.changed.items():
            args = list(node.args)
            for place in places:
                args[place] = self._conversion(made, args[place], True)
            node.args = tuple(args)
        for node, sources in self.restored.items():
            for source in sources:
                node.replace_input_with(source, self._conversion(made, source, False))
        for node, value in self.values.items():
            if "val" in node.meta:
                node.meta["val"] = value
        return len(made)

    def _conversion(self, made: dict[tuple[Node, bool], Node], source: object, last: bool) -> Node:
        found = made.get((source, last))
        if found is None:
            found = made[source, last] = self._convert(source, last)
        return found

    def _convert(self, source: Node, last: bool) -> Node:
        after = source
        while after.next.op == "placeholder" or after.next.target is operator.getitem:
            after = after.next
        with self.graph.inserting_after(after):
            if last:
                image = self.values[source]
                node = self.graph.call_function(
                    _CLONE, (source,), {"memory_format": _FORMATS[image.dim()]}
                )
                node.meta["val"] = self.last[source]
                return node
        return self._ordered(source, after)

    def _ordered(self, source: Node, after: Node) -> Node:
        """A value as it lay: its dimensions in the order of memory, copied, and back."""
        order = _order(self.first[source])
        assert order is not None
        back = tuple(sorted(range(len(order)), key=order.__getitem__))
        steps: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
            (F.permute, (tuple(order),), {}),
            (core.Tensor.clone, (), {"memory_format": core.contiguous_format}),
            (F.permute, (back,), {}),
        ]
        if order == sorted(order):
            steps = steps[1:2]
        node, value = source, self.values[source]
        for function, rest, options in steps:
            target = overload_of(function, (value, *rest), options)
            with self.graph.inserting_after(after):
                node = self.graph.call_function(target, (node, *rest), options)
            value = node.meta["val"] = target(value, *rest, **options)
            after = node
        return node


def _reads_strides(node: Node) -> bool:
    """Whether the call's meaning depends on strides."""
    return table.operator_of(node.target) is F.as_strided


def _same_order(a: Tensor, b: Tensor) -> bool:
    if a is b or not isinstance(a, Tensor):
        return a is b
    pairs = zip(a.shape, a.stride(), b.stride(), strict=True)
    return all(n == 1 or x == y for n, x, y in pairs)


def _order(x: Tensor) -> list[int] | None:
    """The dimensions from the largest stride to the smallest, None where there are gaps."""
    order = sorted(range(x.dim()), key=lambda d: (-x.stride()[d], d))
    expected = 1
    for d in reversed(order):
        if x.shape[d] != 1 and x.stride()[d] != expected:
            return None
        expected *= x.shape[d] if x.shape[d] else 1
    return order
