"""Flat graphs whose sizes are symbols: numbers in place, and the same graph for given sizes.

Takes: flat graphs that were traced on fake tensors with symbols. Gives: `symbols_of`, `put_numbers_in_place`,
`graph_at`; and of captured graphs that are to be traced so, `fix_sizes_that_meet_floats`.
Keeps true: a graph has no arithmetic on sizes: where a number depends on them stands a `SymInt`; the graph
for given sizes has plain numbers only, and fake tensors of exactly these sizes.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from facula import core
from facula.fx import Graph, GraphModule, Node
from facula.fx.fake_tensor import FakeTensor, FakeTensorMode
from facula.fx.node import map_arg
from facula.fx.symbols import SymFloat, SymInt
from facula.lower import table


def symbols_of(graph: Graph) -> Any:
    """The mode of a graph's fake tensors where it has symbols for sizes, else None."""
    for node in graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if mode is not None:
            return mode if mode.shape_env is not None else None
    return None


def put_numbers_in_place(graph: Graph) -> None:
    """Write numbers that depend on sizes where they are used, instead of nodes that compute them."""
    for node in graph.nodes:
        if any(map(_is_number, node.all_input_nodes)):
            node.args = map_arg(node.args, _in_place)
            node.kwargs = map_arg(node.kwargs, _in_place)
    for node in reversed(list(graph.nodes)):
        if _is_number(node) and node.op != "placeholder" and not node.users:
            graph.erase_node(node)


def _is_number(node: Node) -> bool:
    known = node.op in ("call_function", "placeholder")
    return known and isinstance(node.meta.get("val"), (SymInt, SymFloat))


def _in_place(node: Node) -> Any:
    if not _is_number(node):
        return node
    value = node.meta["val"]
    return float.__float__(value) if isinstance(value, SymFloat) else value


def fix_sizes_that_meet_floats(module: GraphModule) -> GraphModule:
    """A captured graph in which a size that is computed with a float is made one itself before: a float
    on the left takes the value of any int, whatever that says about sizes."""

    def is_a(kind: type, x: object) -> bool:
        return isinstance(x.meta.get("val") if isinstance(x, Node) else x, kind)

    def meets(node: Node) -> bool:
        numbers = node.op == "call_function" and is_a((int, float), node)  # type: ignore[arg-type]
        return numbers and node.target is not float and any(is_a(float, x) for x in node.args)

    if not any(map(meets, module.graph.nodes)):
        return module
    made = Graph()
    made.output(made.graph_copy(module.graph, {}))
    for node in list(made.nodes):
        for size in node.all_input_nodes if meets(node) else ():
            if is_a(int, size) and not is_a(bool, size):
                with made.inserting_before(node):
                    fixed = made.call_function(float, (size,))
                fixed.meta["val"] = float(size.meta["val"])
                node.replace_input_with(size, fixed)
    found = GraphModule(module, made)
    found.meta = dict(module.meta)
    return found


def graph_at(module: GraphModule, sizes: Mapping[str, int]) -> GraphModule:
    """The graph for given values of the symbols."""
    concrete = AtSizes(sizes)
    made = Graph()
    known: dict[Node, Node] = {}
    for node in module.graph.nodes:
        copied = known[node] = made.node_copy(node, known.__getitem__)
        copied.args, copied.kwargs = concrete.of(copied.args), concrete.of(copied.kwargs)
        if _is_pointwise(node):  # a number stays one that sizes give: lowered, it is no constant
            copied.args = tuple(
                SymInt(a) if isinstance(x, SymInt) else a
                for a, x in zip(copied.args, node.args, strict=True)
            )
        copied.meta = {**node.meta}
        if "val" in node.meta:
            copied.meta["val"] = concrete.of(node.meta["val"])
    found = GraphModule(module, made)
    found.meta = dict(module.meta)
    return found


def _is_pointwise(node: Node) -> bool:
    definition = table.definition_of(node) if node.op == "call_function" else None
    return definition is not None and definition.kind == "pointwise"


def same_graph(one: Any, other: Any) -> bool:
    """Whether two graphs call the same with the same, and give values of the same geometry."""
    numbers: tuple[dict[Node, int], ...] = ({}, {})
    for a, b in itertools.zip_longest(one.nodes, other.nodes):
        if a is None or b is None or _line(a, numbers[0]) != _line(b, numbers[1]):
            return False
    return True


def _line(node: Node, numbers: dict[Node, int]) -> tuple[Any, ...]:
    numbers[node] = len(numbers)
    target = None if node.op in ("placeholder", "get_attr") else node.target
    given = map_arg((node.args, node.kwargs), lambda n: ("node", numbers[n]))
    return node.op, target, given, None if node.op == "output" else geometry(node.meta.get("val"))


def geometry(x: object) -> Any:
    """Sizes, strides and dtype of tensors, and other values as they are."""
    if isinstance(x, core.TensorMeta):
        return tuple(x.shape), tuple(x.strides), x.dtype
    if isinstance(x, core.Tensor):
        return tuple(x.shape), tuple(x.stride()), x.storage_offset(), x.dtype
    return [geometry(item) for item in x] if isinstance(x, (tuple, list)) else x


class AtSizes:
    """Structures for given sizes: numbers, and fake tensors of a mode of their own."""

    def __init__(self, sizes: Mapping[str, int], mode: FakeTensorMode | None = None) -> None:
        self.sizes = sizes
        self.mode = FakeTensorMode(allow_non_fake_inputs=True) if mode is None else mode

    def inputs(self, given: Sequence[Any]) -> list[Any]:
        """The inputs of a program: what is one tensor stays one."""
        made = {id(x): self.of(x) for x in given}
        return [made[id(x)] for x in given]

    def of(self, x: object) -> Any:
        if isinstance(x, SymInt):
            return x.env.simplified(x.expr).value(self.sizes)
        if isinstance(x, FakeTensor):
            return self.tensor(x, x.stride(), x.fake_device)
        if isinstance(x, core.TensorMeta):
            return core.TensorMeta(self.tensor(x, x.strides, x.device))
        if isinstance(x, slice):
            return slice(*[self.of(part) for part in (x.start, x.stop, x.step)])
        if isinstance(x, dict):
            return type(x)({key: self.of(value) for key, value in x.items()})
        if isinstance(x, (tuple, list)):
            made = [self.of(item) for item in x]
            return type(x)(*made) if hasattr(x, "_fields") else type(x)(made)
        return x

    def tensor(self, x: Any, strides: Any, device: core.device | None) -> Any:
        """A fake tensor with the geometry and dtype of what is described."""
        offset = x.storage_offset() if callable(x.storage_offset) else x.storage_offset
        shape, strides, offset = self.of((tuple(x.shape), tuple(strides), offset))
        reach = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        memory = core.empty((offset + max(reach, 0) + 1,), dtype=x.dtype, device="meta")
        made = core.fake_tensor(
            FakeTensor, memory.as_strided(shape, strides, offset), self.mode, device
        )
        made.requires_grad_(x.requires_grad)
        return made


class Deferred:
    """Something that is made when it is called for the first time."""

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        self.make: Any = make
        self.making = threading.Lock()  # by one of several threads
        self.made: Any = None

    def __call__(self, *args: Any) -> Any:
        with self.making:
            if self.made is None:
                self.made, self.make = self.make(), None
        return self.made(*args)
