"""Reductions and row programs of the table as loops.

Takes: a kernel's name with the tensors, sizes and numbers of a launch. Gives: `launch`, which adds
reductions to the program and defines the results' values.
Keeps true: the arithmetic is that of the programs in `ops.expr.rows`: states, blocks and merges are the
same as in eager; a row program becomes one reduction for each fold, and expressions over their
results, which fusion brings together again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from facula.lower.loops import index as ix
from facula.lower.loops import ir
from facula.lower.loops.elementwise import converted, finished
from facula.lower.loops.index import Index, Var
from facula.lower.loops.ir import Geometry
from facula.lower.loops.programs import fold_of, reduction_of
from facula.lower.loops.transposed import reads_across
from facula.lower.loops.values import NotLoops, Value
from facula.ops.expr import rows  # noqa: F401  (fill the tables)
from facula.ops.expr.node import (
    Scalar,
    cast,
    constant,
    flatten,
    substitute,
    topological_order,
)
from facula.ops.programs import reduction as reduction_programs  # noqa: F401  (fill the tables)
from facula.ops.programs import row as row_programs  # noqa: F401  (fill the tables)

_owners = itertools.count()
#: elements of an operand from which on it is copied rather than read across memory
WORTH_A_COPY = 1 << 15


def launch(
    lowering: Any, name: str, tensors: Sequence[Any], sizes: Sequence[int], numbers: Sequence[Any]
) -> None:
    """Take a kernel launch into the program. `tensors` are values, outputs first.

    Raises:
        NotLoops: the kernel is no program of the table.
    """
    program_name, _, storage = name.rpartition(":")
    if program_name in rows.REDUCTION_PROGRAMS:
        program = rows.REDUCTION_PROGRAMS[program_name]
        _Reduction(lowering, program, storage, tensors, sizes, numbers).run()
    elif program_name in rows.ROW_PROGRAMS:
        _Rows(lowering, rows.ROW_PROGRAMS[program_name], storage, tensors, sizes, numbers).run()
    else:
        raise NotLoops(f"the kernel {name}")


def _straighten(lowering: Any, value: Value) -> None:
    """Store a large operand that would be read across memory, by each sweep again."""
    if value.stored() is None and value.dense and value.numel >= WORTH_A_COPY:
        variable = Var("m", value.numel)
        place = ix.of(variable)
        if reads_across(flatten([value.read_memory(place)]), [place], variable):
            lowering.realize(value)


class _Launch:
    """What the two kinds of programs share: operands, parameters, leaves."""

    def __init__(
        self,
        lowering: Any,
        program: Any,
        storage: str,
        tensors: Sequence[Any],
        sizes: Sequence[int],
        numbers: Sequence[Any],
    ) -> None:
        self.lowering, self.program, self.storage = lowering, program, storage
        count = len(program.outputs)
        self.outputs, self.inputs = list(tensors[:count]), list(tensors[count:])
        if len(self.inputs) != len(program.inputs):
            raise NotLoops(f"{program.name} with {len(self.inputs)} operands")
        for operand, value in zip(program.inputs, self.inputs, strict=True):
            if operand.place == "full":
                _straighten(lowering, value)
        self.sizes = tuple(sizes)
        self.numbers = dict(zip(program.parameters, numbers, strict=True))

    def parameters(self, expressions: Sequence[Scalar]) -> dict[int, Scalar]:
        """Runtime numbers, by the leaf that stands for them."""
        return {
            id(e): constant(float(self.numbers[e.value]), "f64")
            for e in topological_order(expressions)
            if e.op == "parameter"
        }

    def operand(self, number: int, place: Index) -> Any:
        """An operand's element in the dtype in which the program computes with it."""
        value = self.inputs[number]
        return cast(
            value.read_memory(place), rows.compute_dtype(self.program.inputs[number], self.storage)
        )

    def define(self, number: int, view: ir.View) -> None:
        """Let a result lie in memory."""
        self.lowering.define(self.outputs[number], view=view)

    def buffer(self, shape: Sequence[int], operand: rows.Operand) -> ir.Buffer:
        """A new buffer for a result."""
        return self.lowering.buffer(rows.storage_dtype(operand, self.storage), shape)


class _Reduction(_Launch):
    """A reduction of `[segments, outer, reduce, inner]`."""

    def run(self) -> None:
        outer, reduce, inner, segments = self.sizes
        geometry = Geometry(segments, outer, reduce, inner)
        variables = _variables(geometry)
        traced = rows.trace_reduction(self.program, self.storage)
        owner = next(_owners)
        probe = ir.Reduction(owner, geometry, variables, [], [], [], [], [], [])

        def operand(number: int) -> Any:
            full = self.program.inputs[number].place == "full"
            return self.operand(number, probe.flat if full else probe.place)

        count = ir.position(ix.constant(geometry.length))
        everything = [
            *(fold.expression for fold in traced.folds), *traced.block,
            *traced.merge, *traced.identity, *traced.finalize,
        ]  # fmt: skip
        known = self.parameters(everything)
        step = reduction_of(traced, owner, geometry, variables, operand, count, known)
        step.finalize = [
            converted(e, rows.storage_dtype(o, self.storage))
            for e, o in zip(step.finalize, self.program.outputs, strict=True)
        ]
        step.results = [
            self.buffer(value.shape, operand)
            for value, operand in zip(self.outputs, self.program.outputs, strict=True)
        ]
        step.origin = self.program.name
        self.lowering.add(step)
        for k, buffer in enumerate(step.results):
            self.define(k, ir.View(buffer, buffer.shape, buffer.strides, 0, buffer.code))


def _variables(geometry: Geometry) -> tuple[Var, Var, Var, Var]:
    return (
        Var("s", geometry.segments),
        Var("o", geometry.outer),
        Var("r", geometry.reduce),
        Var("i", geometry.inner),
    )


def plain_fold(
    lowering: Any, operation: str, geometry: Geometry, element: Callable[..., Any], code: str
) -> ir.Buffer:
    """Add a reduction by one operation of `element(variables)`; its results, `[outer, inner]`.

    Blocks of f32 sums and products are joined in f64, as eager's are.
    """
    variables = _variables(geometry)
    step = fold_of(operation, next(_owners), geometry, variables, element(variables))
    step.finalize = [converted(step.finalize[0], code)]
    step.results = [lowering.buffer(code, (geometry.outer, geometry.inner))]
    lowering.add(step)
    return step.results[0]


class _Rows(_Launch):
    """A program over rows of `[outer, length, inner]`."""

    def run(self) -> None:
        self.outer, self.length, self.inner, self.period, self.group = self.sizes
        self.traced = rows.trace_rows(self.program, self.storage)
        everything = [*(fold.expression for fold in self.traced.folds), *self.traced.results]
        everything += [fold.index for fold in self.traced.folds if fold.index is not None]
        self.known = self.parameters(everything)
        self.folded: dict[int, ir.Buffer] = {}  # fold number -> buffer of [outer, inner]
        for k, fold in enumerate(self.traced.folds):
            if fold.operation != "at":
                self.folded[k] = self._fold(fold)
        for k, (operand, result) in enumerate(
            zip(self.program.outputs, self.traced.results, strict=True)
        ):
            self._result(k, operand, result)
        # results keep this object by their rules: it keeps neither them nor the program of all
        self.lowering, self.outputs = None, []

    def at(self, expression: Scalar, outer: Index, place: Index, inner: Index) -> Scalar:
        """An expression of the program for one element."""
        replace = dict(self.known)
        for leaf in topological_order([expression]):
            if leaf.op == "input":
                replace[id(leaf)] = self._leaf(leaf, outer, place, inner)
        return substitute((expression,), replace)[0]

    def _leaf(self, leaf: Scalar, outer: Index, place: Index, inner: Index) -> Scalar:
        number = leaf.value
        if number == rows.POSITION:
            return cast(ir.position(place), "i32")
        if number == rows.LENGTH:
            return cast(ir.position(ix.constant(self.length)), leaf.dtype)
        if number >= rows.FOLD:
            return self._fold_value(number - rows.FOLD, outer, inner)
        return self._operand_at(number, outer, place, inner)

    def _operand_at(self, number: int, outer: Index, place: Index, inner: Index) -> Any:
        kind = self.program.inputs[number].place
        if kind == "column":
            return self.operand(number, place)
        if kind == "full":
            return self.operand(number, (outer * self.length + place) * self.inner + inner)
        if kind == "group":
            return self.operand(number, ix.floordiv(outer, self.group))
        if self.period:
            return self.operand(number, ix.mod(outer, self.period))
        return self.operand(number, outer * self.inner + inner)

    def _fold_value(self, number: int, outer: Index, inner: Index) -> Any:
        fold = self.traced.folds[number]
        if fold.operation != "at":
            return ir.load(self.folded[number], outer * self.inner + inner)
        assert fold.index is not None
        where = self.at(fold.index, outer, ix.ZERO, inner)
        place = ix.of(ix.Indirect(cast(where, "i64"), self.length))
        return self._operand_at(fold.expression.value, outer, place, inner)

    def _fold(self, fold: rows.Fold) -> ir.Buffer:
        geometry = Geometry(1, self.outer, self.length, self.inner)

        def element(variables: tuple[Var, Var, Var, Var]) -> Scalar:
            _, outer, reduce, inner = map(ix.of, variables)
            return self.at(fold.expression, outer, reduce, inner)

        return plain_fold(self.lowering, fold.operation, geometry, element, fold.leaf.dtype)

    def _result(self, number: int, operand: rows.Operand, result: Scalar) -> None:
        value: Value = self.outputs[number]
        code = rows.storage_dtype(operand, self.storage)
        if operand.place == "column":
            geometry = Geometry(1, 1, self.outer, self.length)

            def element(variables: tuple[Var, Var, Var, Var]) -> Scalar:
                _, _, reduce, column = map(ix.of, variables)
                return self.at(result, reduce, column, ix.ZERO)

            buffer = plain_fold(self.lowering, "sum", geometry, element, code)
            self.define(number, ir.View(buffer, value.shape, value.strides, 0, code))
            return
        strides = value.strides
        finish = finished if self.lowering.equal_rounding else converted

        def full(positions: list[Index]) -> Any:
            flat = ix.linear(positions, strides)
            outer, place, inner = ix.digits(
                flat,
                (self.outer, self.length, self.inner),
                (self.length * self.inner, self.inner, 1),
            )
            return finish(self.at(result, outer, place, inner), code)

        def row(positions: list[Index]) -> Any:
            flat = ix.linear(positions, strides)
            outer, inner = ix.digits(flat, (self.outer, self.inner), (self.inner, 1))
            return finish(self.at(result, outer, ix.ZERO, inner), code)

        self.lowering.define(value, rule=full if operand.place == "full" else row)
