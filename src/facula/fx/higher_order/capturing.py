"""Functions as graphs of their own, from inside of a trace.

Takes: an operator that takes functions, the mode of the trace, and a call's arguments. Gives: `traced` (the
call as one node),
`closed` (the same arguments with graphs for functions).
Keeps true: what a function reads from outside becomes an input of its graph and an operand of the call; a
graph gives no
memory that it was given, and writes to none; functions are traced without history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.fx.fake_tensor import FakeTensor
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.higher_order.errors import refuse
from facula.fx.node import Node
from facula.fx.proxy_tensor import (
    ProxyTorchDispatchMode,
    PythonKeyTracer,
    disable_proxy_modes_tracing,
)
from facula.fx.shape_env import node_of_number
from facula.fx.symbols import SymInt, plain, symbol
from facula.ops.table.overloads import overload_of

__all__ = ["Captured", "closed", "label", "traced", "with_inputs"]

Tensor = core.Tensor
_CLONE = overload_of(Tensor.clone)


def label(function: Any) -> str:
    """What errors call a function."""
    return str(getattr(function, "__name__", type(function).__name__))


def check_memory(name: str, function: Any, args: Any, results: Any) -> None:
    """Raise where a function gives memory that it was given, or some twice."""
    seen = {core.storage_key(x) for x in args if isinstance(x, Tensor) and x.numel()}
    for x in results:
        if isinstance(x, Tensor) and x.numel():
            if core.storage_key(x) in seen:
                _aliased(name, function, x)
            seen.add(core.storage_key(x))


def _aliased(name: str, function: Any, x: Tensor) -> None:
    refuse(
        name,
        "results in memory of their own were required: "
        f"{label(function)} might be aliasing the input or the output!",
        list(x.shape),
        "return x.clone()",
    )


class _InnerTracer(PythonKeyTracer):
    """The tracer of a function inside of a trace: what it does not know becomes an input."""

    def __init__(self, shadow: Any) -> None:
        super().__init__()
        self.shadow = shadow
        #: values from outside, each with its input
        self.lifted: list[tuple[Any, Node]] = []
        self.last: Node | None = None

    def placeholder(self, name: str) -> Node:
        """A further input."""
        first = next(iter(self.graph.nodes), None)
        if self.last is not None:
            place = self.graph.inserting_after(self.last)
        elif first is not None:
            place = self.graph.inserting_before(first)
        else:
            place = None
        if place is None:
            self.last = self.graph.placeholder(name)
        else:
            with place:
                self.last = self.graph.placeholder(name)
        return self.last

    def constant(self, t: Tensor) -> Node:
        """A tensor from outside is an input."""
        node = self._lift(t)
        node.meta["val"] = (
            core.fake_snapshot(t)
            if isinstance(t, FakeTensor)
            else core.fake_like(FakeTensor, t, self.shadow)
        )
        self.remember(t, node)
        return node

    def _lift(self, value: object) -> Node:
        count = sum(1 for n in self.graph.nodes if n.op == "placeholder")
        node = self.placeholder(f"arg{count}_1")
        self.lifted.append((value, node))
        return node

    def symbol_node(self, number: Any) -> Any:
        """A number that depends on sizes: of the inputs, or of something outside."""
        if isinstance(number, SymInt):
            for name in sorted(number.env.simplified(number.expr).free_symbols):
                if symbol(name) in self.number_nodes or name in self.symbol_sources:
                    continue
                value = number.env.number_of(symbol(name))
                self.number_nodes[symbol(name)] = node = self._lift(value)
                node.meta["val"] = value
        return node_of_number(self, number)


class Captured:
    """A function as a graph: what it gives, and what it reads from outside."""

    def __init__(self, op: Any, mode: Any, function: Any, inputs: list[Any]) -> None:
        self.op, self.function = op, function
        fake = mode.shadow_mode
        self.tracer = _InnerTracer(fake)
        inner = ProxyTorchDispatchMode(
            self.tracer, mode.tracing_mode, mode.pre_dispatch, mode.decomposition_table, fake
        )
        inner.outer_frame = mode.outer_frame
        inner.hears_own_operators = mode.hears_own_operators
        self.inputs = [_stand_in(fake, x) for x in inputs]
        for number, x in enumerate(self.inputs):
            node = self.tracer.placeholder(f"arg{number}_1")
            inner.track(x, node)
            self.tracer.note_symbols(x, node)
        recording = core.set_grad_enabled(False)
        try:
            with disable_proxy_modes_tracing(), fake, inner:
                given = function(*self.inputs)
                self.outputs = self._checked(given)
                self._settle(fake)
                self.nodes = [self.tracer.create_arg(x) for x in self.outputs]
        finally:
            core.set_grad_enabled(recording)

    @property
    def lifted(self) -> list[Any]:
        """The values from outside."""
        return [value for value, _ in self.tracer.lifted]

    def _checked(self, given: object) -> list[Any]:
        outputs = list(given) if isinstance(given, (tuple, list)) else [given]
        for x in outputs:
            if not (isinstance(x, (Tensor, int)) or x is None):
                refuse(
                    self.op.name(),
                    "tensors and ints were required as results of the function "
                    f"{label(self.function)}: HigherOrderOperator body's output must consist of tensors or ints only",
                    type(x).__name__,
                    "convert with tensor()",
                )
        return outputs

    def _settle(self, fake: Any) -> None:
        """Raise where the function gives memory that it was given, or writes to it."""
        outside = [x for x in (*self.inputs, *self.lifted) if isinstance(x, Tensor)]
        owned = {core.storage_key(x) for x in outside if _has_elements(x)}
        seen: set[int] = set()
        for number, x in enumerate(self.outputs):
            if not isinstance(x, Tensor) or not _has_elements(x):
                continue
            key = core.storage_key(x)
            if key in owned or key in seen:
                if not getattr(self.function, "_may_alias", False):
                    _aliased(self.op.name(), self.function, x)
                self.outputs[number] = x.clone()
            seen.add(key)
        for node in self.tracer.graph.nodes:
            if node.op == "call_function" and _writes(node) & owned:
                refuse(
                    self.op.name(),
                    "functions that write to none of their inputs were required: "
                    f"{label(self.function)} might be modifying the input!",
                    node.target,
                    "work on x.clone()",
                )

    def lie_like(self, wanted: Any) -> None:
        """Let results be contiguous where others that stand for them are."""
        for number, (x, like) in enumerate(zip(self.outputs, wanted, strict=True)):
            if isinstance(x, Tensor) and str(x.stride()) != str(like.stride()):
                args = (self.nodes[number],)
                form = {"memory_format": core.contiguous_format}
                made = self.tracer.graph.create_node(
                    "call_function", _CLONE, args, form, name="clone"
                )
                made.meta["val"] = self.outputs[number] = like
                self.nodes[number] = made

    def module(self, lifted: list[Any], name: str) -> GraphModule:
        """The graph, with an input for each of the values from outside that all functions read."""
        known = {id(value): node for value, node in self.tracer.lifted}
        own = [n for n in self.tracer.graph.nodes if n.op == "placeholder"]
        inputs: list[Any] = [n for n in own if n not in known.values()]
        inputs += [known.get(id(value), value) for value in lifted]
        graph = with_inputs(self.tracer.graph, inputs, self._given(), self._output)
        return GraphModule(self.tracer.root, graph, name)

    def _given(self) -> Any:
        single = getattr(self.function, "_single", False)
        return self.nodes[0] if single else tuple(self.nodes)

    def _output(self, graph: Graph, node: Node) -> None:
        node.meta["val"] = tuple(self.outputs)


def with_inputs(
    graph: Graph, inputs: list[Any], given: object, finish: Callable[..., Any] | None = None
) -> Graph:
    """A copy of a graph whose inputs are these in this order; what is no node is an input that is not read."""
    made = Graph()
    known: dict[Node, Node] = {}
    for number, node in enumerate(inputs):
        new = made.placeholder(f"arg{number}_1")
        if isinstance(node, Node):
            new.meta = dict(node.meta)
            known[node] = new
        else:
            new.meta["val"] = node
    for node in graph.nodes:
        if node not in known and node.op not in ("placeholder", "output"):
            known[node] = made.node_copy(node, known.__getitem__)
    pick = lambda x: known[x] if isinstance(x, Node) else x  # noqa: E731
    result = tuple(map(pick, given)) if isinstance(given, tuple) else pick(given)
    output = made.output(result)
    if finish is not None:
        finish(made, output)
    made.eliminate_dead_code()
    return made


def _stand_in(fake: Any, x: Tensor) -> Any:
    """A stand-in in memory of its own: operands that are one tensor become several inputs."""
    if not isinstance(x, Tensor):
        return x
    with disable_proxy_modes_tracing(), fake:
        if not isinstance(x, FakeTensor):
            x = fake.from_tensor(x.detach(), static_shapes=True)
        return x.new_empty_strided(tuple(x.shape), tuple(x.stride()))


def _has_elements(x: Tensor) -> bool:
    return plain(x.numel()) != 0


def _writes(node: Node) -> set[int]:
    """The memories that a node writes to."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not getattr(schema, "is_mutable", False):
        return set()
    found = set()
    for place, argument in enumerate(schema.arguments):
        info = getattr(argument, "alias_info", None)
        if info is None or not info.is_write:
            continue
        given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        value = given.meta.get("val") if isinstance(given, Node) else None
        if isinstance(value, Tensor):
            found.add(core.storage_key(value))
    return found


def _captured(
    op: Any, mode: ProxyTorchDispatchMode, args: tuple[Any, ...]
) -> tuple[list[Captured], list[Any]]:
    """All functions of a call, and what they read from outside."""
    found = []
    for number, function in enumerate(op.functions_of(args)):
        given = list(op.inputs_of(number, args))
        if op.separate:
            given += args[-1]
        found.append(Captured(op, mode, function, given))
    counts = [{id(v) for v in each.lifted} for each in found]
    lifted: list[Any] = []
    taken: set[int] = set()
    for want_shared in (True, False):
        for each in found:
            for value in each.lifted:
                shared = all(id(value) in ids for ids in counts)
                if id(value) not in taken and shared is want_shared:
                    taken.add(id(value))
                    lifted.append(value)
    return found, lifted


def _modules(op: Any, found: list[Captured], lifted: list[Any]) -> list[GraphModule]:
    return [each.module(lifted, name) for each, name in zip(found, op.functions, strict=True)]


def closed(op: Any, mode: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with graphs for functions, which read nothing from outside."""
    if all(isinstance(f, GraphModule) for f in op.functions_of(args)):
        return args
    found, lifted = _captured(op, mode, args)
    modules = _modules(op, found, lifted)
    for module, function in zip(modules, op.functions_of(args), strict=True):
        module._single = getattr(function, "_single", False)
    return op.with_more(op.with_functions(args, modules), lifted)


def traced(op: Any, mode: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The call as one node of the trace."""
    found, lifted = _captured(op, mode, args)
    with disable_proxy_modes_tracing():
        results = op.results_of([list(each.outputs) for each in found], args)
    for place, each in enumerate(found):
        wanted = op.layouts(place, results)
        if wanted is not None:
            each.lie_like(wanted)
    modules = _modules(op, found, lifted)
    tracer = mode.tracer
    number = 0
    while any(hasattr(tracer.root, f"{name}_{number}") for name in op.functions):
        number += 1
    nodes = []
    # numbers are computed in front of the functions
    given = tuple(tracer.create_arg(x) if getattr(x, "_is_symbolic", False) else x for x in args)
    for module, name in zip(modules, op.functions, strict=True):
        setattr(tracer.root, f"{name}_{number}", module)
        nodes.append(tracer.graph.create_node("get_attr", f"{name}_{number}"))
    whole = op.with_functions(op.with_more(given, lifted), nodes)
    node_args = tuple([tracer.create_arg(x) for x in whole])
    node = tracer.graph.create_node("call_function", op, node_args, {}, name=op.name())
    node.meta["stack_trace"] = next(iter(_traces(found)), None)
    if mode.fake_mode is None:
        with disable_proxy_modes_tracing():
            results = op.run(*args)
    mode.track(results, node)
    _note_numbers(tracer, results, node)
    return results


def _traces(found: list[Captured]) -> list[Any]:
    nodes = [n for each in found for n in each.tracer.graph.nodes]
    return [n.meta["stack_trace"] for n in nodes if n.meta.get("stack_trace")]


def _note_numbers(tracer: PythonKeyTracer, results: tuple[Any, ...], node: Node) -> None:
    """Let numbers among the results be read from the node."""
    for user in list(node.users):
        value = user.meta.get("val")
        if isinstance(value, SymInt) and value.expr.symbol is not None:
            node.meta["numbers_read"] = user.meta["numbers_read"] = True
            tracer.number_nodes.setdefault(value.expr, user)
