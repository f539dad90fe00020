"""From calls of operators to the loop IR.

Takes: calls in order, with fake tensors (or meta tensors) of their results. Gives: `Lowering`:
values for results, and the steps that compute what has to be in memory.
Keeps true: what is computed lazily is computed from values as they were: the graph is functional;
a value is stored once, with the strides that eager gives it; what loops can not say is an `Extern`
step that calls the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.lower import table
from facula.lower.loops import elementwise, gathers, indexed, ir, recording
from facula.lower.loops import index as ix
from facula.lower.loops.index import Index, Var
from facula.lower.loops.targets import name_of
from facula.lower.loops.values import NotLoops, Value, contiguous_strides

#: methods of the core that give a tensor's elements again, maybe in another dtype or order
COPIES = frozenset({"to", "_to_copy", "clone", "contiguous", "detach", "lift_fresh_copy"})


class Lowering:
    """Builds a program call by call."""

    def __init__(self, equal_rounding: bool = False, symbols: Any = None) -> None:
        self.steps: list[Any] = []
        #: the mode of fake tensors whose sizes are symbols, if the graph has such
        self.symbols = symbols
        self.equal_rounding = equal_rounding
        self._buffers = 0

    # --- buffers and steps
    def buffer(
        self,
        code: str,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        role: str = "result",
    ) -> ir.Buffer:
        """A new buffer."""
        name = f"buffer{self._buffers}"
        self._buffers += 1
        return ir.Buffer(name, code, shape, strides or contiguous_strides(shape), role)

    def add(self, step: Any) -> None:
        """Append a step."""
        self.steps.append(step)

    def give_up(self, first: int) -> None:
        """Forget the calls among the steps from a number on, of an operator that is no loop after
        all. The loops stay, since values may lie in them by now; dead ones go at the end."""
        self.steps[first:] = [s for s in self.steps[first:] if not isinstance(s, ir.Extern)]

    def define(
        self, value: Value, *, view: ir.View | None = None, rule: Callable[..., Any] | None = None
    ) -> None:
        """Say what a result's elements are."""
        if value.view is not None or value.rule is not None:
            raise NotLoops("a result that is written twice")
        value.view, value.rule = view, rule

    # --- memory
    def realize(self, value: Value) -> ir.View:
        """Where a value lies; it is stored now if it is nowhere yet."""
        found = value.stored()
        if found is not None:
            return found
        root = value.root()
        if root.view is None:
            self._store(root)
        view = value.stored()
        assert view is not None
        return view

    def _store(self, value: Value) -> None:
        """Compute a value into a buffer of its own strides."""
        if not value.dense:
            raise NotLoops("a result with gaps in memory")
        buffer = self.buffer(value.code, value.shape, value.strides)
        self.store_into(value, buffer, value.strides, 0)
        value.view = ir.View(buffer, value.shape, value.strides, 0, value.code)

    def store_into(
        self, value: Value, buffer: ir.Buffer, strides: Sequence[int], offset: int
    ) -> None:
        """Compute a value into a part of a buffer, in the order of that memory."""
        order = sorted(range(len(value.shape)), key=lambda d: (strides[d], value.shape[d]))
        dense, step = [0] * len(order), 1
        for d in order:
            dense[d] = step
            step *= max(value.shape[d], 1)
        variable = Var("m", value.numel)
        positions = ix.digits(ix.of(variable), value.shape, dense)
        target = ix.linear(positions, strides, offset)
        expression = value.read(positions)
        self.add(ir.Elementwise(variable, [ir.Store(buffer, target, expression)], value.code))

    def worth_storing(self, value: Value) -> bool:
        """Whether several readers should share one computation."""
        root = value.root()
        if root.view is not None or not root.dense or not root.numel:
            return False
        variable = Var("m", root.numel)
        positions = ix.digits(ix.of(variable), root.shape, root.strides)
        return elementwise.is_dear(root.read(positions), root.numel)

    # --- launches that are no programs of the table
    def takes_launch(self, name: str) -> bool:
        """Whether a device has words of its own for a kernel: here no kernel has."""
        return False

    def take_launch(
        self, name: str, values: Sequence[Any], ints: Sequence[int], target: Any
    ) -> Value | None:
        """What a launch leaves in its first tensor, `target` without elements; None where it is a check."""
        raise NotLoops(f"the kernel {name}")

    # --- calls
    def call(self, op: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Any:
        """The results of an operator's call as values.

        Raises:
            NotLoops: loops can not say it; nothing was added that matters.
        """
        name = name_of(op)
        if not isinstance(op, core.Op):
            if name in COPIES and isinstance(args[0], Value):
                return self.cast_like(args[0], result)
            raise NotLoops(name)
        definition = op.definition
        given = table.complete(definition.schema, args, kwargs)
        rule = indexed.RULES.get(op.name) or gathers.RULES.get(op.name)
        if definition.kind == "pointwise":
            return self._pointwise(op, given, result)
        if definition.kind == "view":
            return self._view(given[0], result)
        if rule is not None:
            return rule(self, given, result)
        steps = len(self.steps)
        try:
            return recording.record(self, op, given)
        except NotLoops:
            self.give_up(steps)
            raise

    def _pointwise(self, op: core.Op, args: Sequence[Any], result: core.Tensor) -> Value:
        metas = [recording.meta_like(a) if isinstance(a, Value) else a for a in args]
        if isinstance(result, (tuple, list)):
            raise NotLoops(f"{op.name} with several results")
        code = result.dtype.code
        rule = elementwise.pointwise(op, args, metas, code, self.equal_rounding)
        return Value(result.shape, result.stride(), code, rule=rule)

    def _view(self, base: Value, result: core.Tensor) -> Any:
        if isinstance(result, (tuple, list)):
            return tuple(self._view(base, part) for part in result)
        if result.dtype.code != base.code:
            raise NotLoops("a view of another dtype")
        start = result.storage_offset()
        view = Value(result.shape, result.stride(), base.code, base=base, offset=start - base.start)
        view.start = start
        return view

    # --- conversions
    def cast_like(self, source: object, target: core.Tensor) -> Value:
        """The elements of a value (or a number) in the shape, dtype and order of a tensor."""
        code = target.dtype.code
        if code not in ir.REGISTER:
            raise NotLoops(f"the dtype {code}")
        if not isinstance(source, Value):
            return self.full_like(target, source)
        if source.code not in ir.REGISTER:
            raise NotLoops(f"the dtype {source.code}")
        elementwise.check_unsigned(source.code, code)

        def rule(positions: list[Index]) -> Any:
            found = elementwise.read_broadcast(source, positions)
            return found if source.code == code else elementwise.rounded(found, code)

        return Value(target.shape, target.stride(), code, rule=rule)

    def full_like(self, target: core.Tensor, number: object) -> Value:
        """One number everywhere."""
        code = target.dtype.code
        if code not in ir.REGISTER:
            raise NotLoops(f"the dtype {code}")
        value = elementwise.number(number, code)
        return Value(target.shape, target.stride(), code, rule=lambda positions: value)

    def restrided(self, value: Value, shape: Sequence[int], strides: Sequence[int]) -> Value:
        """The same elements as a tensor with other strides."""
        if tuple(shape) != value.shape:
            raise NotLoops("a result of another shape")
        return Value(shape, strides, value.code, rule=value.read)
