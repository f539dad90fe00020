"""From flat graphs to loop programs.

Takes: a flat graph (`docs/compiler.md`): placeholders, calls of operators, constants, output.
Gives: `lower_graph`: an `ir.Program`.
Keeps true: a value is stored where an operator that stays a call reads it, where it is a result of
the graph, and where several readers would compute something dear again; everything else stays an
expression inside of its reader.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from facula import core
from facula.core import logs
from facula.core.nested import tensors_in
from facula.core.stages import line_of, stage
from facula.fx.higher_order import ControlFlow
from facula.lower.at_sizes import symbols_of
from facula.lower.loops import ir
from facula.lower.loops.lowering import Lowering
from facula.lower.loops.subprograms import Launched, functions_compiled
from facula.lower.loops.targets import callee_of, is_view
from facula.lower.loops.values import NotLoops, Value

if TYPE_CHECKING:
    from facula.fx import Node


#: values that one expression is built through; each takes some calls of Python, of which not many nest
DEEPEST = 48  # speed only


def is_tensor(value: Any) -> bool:
    """Whether the value of a node is a tensor, fake or not."""
    return isinstance(value, core.Tensor)


class GraphLowering(Lowering):
    """Lowers one graph, node by node."""

    def __init__(self, module: Any, equal_rounding: bool = False) -> None:
        super().__init__(equal_rounding, symbols_of(module.graph))
        self.module = module
        self.values: dict[Any, Any] = {}
        self.inputs: list[ir.Buffer | None] = []
        self.constants: list[tuple[ir.Buffer, Any]] = []
        self.outputs: Any = None
        self._constant_of: dict[int, Value] = {}
        self._looped: list[tuple[Any, Any, Any, Any]] = []  # node, arguments, what it became

    def run(self) -> ir.Program:
        """The program of the graph."""
        nodes = list(self.module.graph.nodes)
        self.results = {n for node in nodes if node.op == "output" for n in node.all_input_nodes}
        for node in nodes:
            with stage("lowering to loops", node):
                getattr(self, "_" + node.op)(node)
        calls = self._whole_calls()
        steps = alive(self.steps, self.outputs)
        return ir.Program(self.inputs, self.constants, steps, self.outputs, calls)

    def _whole_calls(self) -> list[ir.Extern]:
        """The calls that became loops between tensors in memory."""
        found = []
        for node, args, kwargs, results in self._looped:
            values = list(results) if isinstance(results, tuple) else [results]
            given = [v for v in _values_in((args, kwargs)) if isinstance(v, Value)]
            views = [v.stored() for v in values]
            if not given or any(v.stored() is None for v in given):
                continue
            if not all(v is not None and v.whole and v.buffer.role == "result" for v in views):
                continue
            found.append(
                ir.Extern(
                    node.target,
                    self._placed(args),
                    self._placed(kwargs),
                    [v.buffer for v in views if v is not None],
                    isinstance(results, tuple),
                    str(node.target),
                )  # fmt: skip
            )
        return found

    # --- kinds of nodes
    def _placeholder(self, node: Node) -> None:
        val: Any = node.meta.get("val")
        if not is_tensor(val):
            self.inputs.append(None)
            self.values[node] = val
            return
        buffer = self.buffer(val.dtype.code, val.shape, val.stride(), "input")
        self.inputs.append(buffer)
        self.values[node] = stored(val, buffer)

    def _get_attr(self, node: Node) -> None:
        found = self.module
        for part in node.target.split("."):
            found = getattr(found, part)
        self.values[node] = self.constant(found) if is_tensor(found) else found

    def constant(self, tensor: Any) -> Value:
        """A tensor that is part of the program."""
        known = self._constant_of.get(id(tensor))
        if known is None:
            buffer = self.buffer(tensor.dtype.code, tensor.shape, tensor.stride(), "constant")
            self.constants.append((buffer, tensor.detach()))
            known = self._constant_of[id(tensor)] = stored(tensor, buffer)
        return known

    def _call_function(self, node: Node) -> None:
        args, kwargs = self._given(node.args), self._given(node.kwargs)
        if node.target is operator.getitem and not isinstance(args[0], Value):
            self.values[node] = args[0][args[1]]
            return
        if isinstance(node.target, ControlFlow):
            self.values[node] = self._call_with_functions(node, args)
            return
        target = callee_of(node.target)
        val = node.meta.get("val")
        tensors = tensors_in(val)
        if not tensors:
            if any(isinstance(v, Value) for v in _values_in((args, kwargs))):
                self.values[node] = self._extern(node, args, kwargs, val)
            else:
                self.values[node] = node.target(*args, **kwargs)
            return
        steps, env = len(self.steps), self.symbols and self.symbols.shape_env
        mark = env and env.mark()
        try:
            if not is_view(target) and not any(tensor.numel() for tensor in tensors):
                raise NotLoops("an empty result, whose positions have no digits")
            found = self.call(target, args, kwargs, val)
            _check(found, val)
            _deepen(found, (args, kwargs))
            self._settle(node, found)
            self._remember(node, target, args, kwargs, found)
        except NotLoops as reason:
            _tell(node, reason)
            self.give_up(steps)
            if env:
                env.back(mark)
            found = self._extern(node, args, kwargs, val)
        self.values[node] = found

    def _call_with_functions(self, node: Node, args: tuple[Any, ...]) -> Any:
        """A call whose functions are programs of their own."""
        op, val = node.target, node.meta["val"]
        compiler = self.module.meta.get("function_compiler")
        given = op.with_functions(args, functions_compiled(node, args, compiler))
        return self._extern(node, given, {}, val, Launched(op, val))

    def _remember(
        self, node: Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], found: Value
    ) -> None:
        values = found if isinstance(found, tuple) else (found,)
        if not is_view(target) and all(isinstance(v, Value) for v in values):
            self._looped.append((node, args, kwargs, found))

    def _output(self, node: Node) -> None:
        self.outputs = self._result(self._given(node.args[0]))

    def _given(self, structure: Any) -> Any:
        """Arguments with values where nodes stand."""
        if isinstance(structure, (tuple, list)):
            return tuple(self._given(item) for item in structure)
        if isinstance(structure, dict):
            return {key: self._given(item) for key, item in structure.items()}
        if isinstance(structure, slice):
            parts = (structure.start, structure.stop, structure.step)
            return slice(*(self._given(part) for part in parts))
        if hasattr(structure, "all_input_nodes"):
            return self.values[structure]
        return structure

    def _settle(self, node: Node, found: object) -> None:
        """Store what is a result, or dear and read several times."""
        for value in found if isinstance(found, tuple) else (found,):
            if not isinstance(value, Value) or value.stored() is not None:
                continue
            if node in self.results or (readers(node) > 1 and self.worth_storing(value)):
                self.realize(value)
            elif value.depth >= DEEPEST and value.root().dense:
                self.realize(value)

    def _result(self, structure: object) -> Any:
        """Outputs as views."""
        if isinstance(structure, (tuple, list)):
            return tuple(self._result(item) for item in structure)
        if isinstance(structure, dict):
            return {key: self._result(item) for key, item in structure.items()}
        return self.realize(structure) if isinstance(structure, Value) else structure

    # --- calls that stay
    def _extern(
        self,
        node: Node,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        val: Any,
        target: object = None,
    ) -> Any:
        args, kwargs = self._placed(args), self._placed(kwargs)
        several = isinstance(val, (tuple, list))
        results, found = [], []
        for each in val if several else [val]:
            if not is_tensor(each):
                raise NotLoops(f"{node.target}: a result that is no tensor")
            buffer = self.buffer(each.dtype.code, each.shape, each.stride(), "extern")
            results.append(buffer)
            found.append(stored(each, buffer))
        target = node.target if target is None else target
        self.add(ir.Extern(target, args, kwargs, results, several, str(node.target)))
        return tuple(found) if several else found[0]

    def _placed(self, structure: object) -> Any:
        """Arguments with views where values stand."""
        if isinstance(structure, Value):
            return self.realize(structure)
        if isinstance(structure, (tuple, list)):
            return tuple(self._placed(item) for item in structure)
        if isinstance(structure, dict):
            return {key: self._placed(item) for key, item in structure.items()}
        return structure


def _tell(node: Node, reason: NotLoops) -> None:
    """Why a call stays one."""
    text = "%s stays a call, with kernels of their own before and behind it: %s"
    logs.artifact("fusion").debug(text, node.target, reason)
    if logs.is_on("perf_hints"):
        logs.artifact("perf_hints").debug(text + "\n  %s", node.target, reason, line_of(node) or "")


def stored(tensor: core.Tensor, buffer: ir.Buffer) -> Value:
    """The value of a whole buffer, with the place in its storage that views count from."""
    view = ir.View(buffer, buffer.shape, buffer.strides, 0, buffer.code)
    value = Value(buffer.shape, buffer.strides, buffer.code, view=view)
    value.start = tensor.storage_offset()
    return value


def _values_in(structure: object) -> list[Any]:
    if isinstance(structure, dict):
        structure = list(structure.values())
    if isinstance(structure, (tuple, list)):
        return [v for item in structure for v in _values_in(item)]
    return [structure]


def _deepen(found: object, given: object) -> None:
    """Say of results how deep their expressions are."""
    depth = max((v.depth for v in _values_in(given) if isinstance(v, Value) and v.lazy), default=0)
    for value in found if isinstance(found, tuple) else (found,):
        if isinstance(value, Value) and value.lazy:
            value.depth = max(value.depth, depth + 1)


def readers(node: Node) -> int:
    """How many calls read a value, through views too."""
    count = 0
    for user in node.users:
        through = is_view(user.target) or user.target is operator.getitem
        count += readers(user) if through else 1
    return count


def _check(found: Any, val: Any) -> None:
    """Raise where a lowering did not give what the graph says."""
    pairs: Sequence[tuple[Any, Any]] = (
        list(zip(found, val, strict=True)) if isinstance(val, (tuple, list)) else [(found, val)]
    )
    for value, tensor in pairs:
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        if value.shape != shape or value.code != tensor.dtype.code:
            raise NotLoops(f"{value.code}{list(value.shape)} for {tensor.dtype.code}{list(shape)}")
        if value.numel and not same_memory(shape, value.strides, strides):
            raise NotLoops(f"strides {value.strides} for {strides}")


def alive(steps: Sequence[Any], outputs: Any) -> list[Any]:
    """The steps that results or calls need, and all calls."""
    needed = {view.buffer for view in ir.views_in(outputs)}
    found = []
    for step in reversed(steps):
        if isinstance(step, ir.Extern) or not needed.isdisjoint(step.writes):
            found.append(step)
            needed |= step.reads
    return found[::-1]


def same_memory(shape: Sequence[int], a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether strides mean the same: those of dimensions of size 1 do not count."""
    return all(n == 1 or x == y for n, x, y in zip(shape, a, b, strict=True))


def lower_graph(module: Any, equal_rounding: bool = False) -> ir.Program:
    """The loop program of a flat graph."""
    return GraphLowering(module, equal_rounding).run()
