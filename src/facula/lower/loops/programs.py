"""Programs of the table as sweeps for tensors of any size: what eager kernels are printed from.

Takes: a reduction, scan, row or step program of `ops`, a storage dtype, a layout; or the traced expression
of a pointwise operator. Gives: `Swept`: the sweeps, what is stored by row, the operands' buffers;
`Mapped`: one loop over dense memory; `reduction_of` and `fold_of`, the reductions that programs are
made of, which `folds` uses for compiled graphs too.
Keeps true: the arithmetic is that of the programs; sizes are numbers with names (`Size`); an index
counts from where the row, or tile of rows, begins in its operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from facula.lower.loops import index as ix
from facula.lower.loops import ir
from facula.lower.loops.index import Index, Var
from facula.lower.loops.ir import Buffer, Geometry, Named
from facula.lower.loops.nest import Flat
from facula.lower.loops.sweeps import Arrangement, Store, Sweep
from facula.ops.expr import rows
from facula.ops.expr.node import Scalar, cast, constant, substitute, topological_order
from facula.ops.expr.scalar import Traced
from facula.ops.programs import reduction as reduction_programs
from facula.ops.programs.step import StepProgram, trace_step


class Size(int):
    """A number that a launch knows: its C text, and for arithmetic some huge value of its own."""

    text: str

    def __new__(cls, text: str, value: int) -> Size:
        made = super().__new__(cls, (1 << 40) + value)
        made.text = text
        return made


#: how far neighbours in a row of a tile lie apart; how long a row is; how many elements make a result
INNER, LENGTH, COUNT = Size("inner", 1), Size("length", 2), Size("reduce * segments", 3)
#: the place in the row, and in the tile; where a layout has the element of a scan; the place in
#: dense memory
AT, LANE, SPOT = (Var(name, 1 << 40) for name in ("at", "l", "spot"))
DENSE = Var("i", Size("n", 4))


@dataclass(slots=True)
class Swept:
    """A program's sweeps over a row; then `stores` of values that belong to a row."""

    sweeps: list[Sweep]
    stores: list[Store]
    kept: list[Scalar]
    inputs: list[Buffer]
    outputs: list[Buffer]


def leaf(kind: str, owner: int, number: int, dtype: str) -> Scalar:
    """A value that a reduction names."""
    return ir.leaf(Named(kind, owner, number), dtype)


# --- reductions
def reduction_of(
    traced: rows.TracedReduction,
    owner: int,
    geometry: Geometry,
    variables: tuple[Var, Var, Var, Var],
    operand: Callable[[int], Scalar],
    count: Scalar,
    known: dict[int, Scalar],
) -> ir.Reduction:
    """A traced reduction over the operands that `operand` gives, as a step without results.

    `count` is the number of elements of a result, `known` what other leaves stand for.
    """
    kinds = {rows.POSITION: "place", rows.LENGTH: "length", rows.ORIGIN: "origin"}
    replace = dict(known)
    everything = [
        *(fold.expression for fold in traced.folds), *traced.block, *traced.merge, *traced.finalize,
        *([] if traced.improves is None else [traced.improves]),
    ]  # fmt: skip
    whole: dict[int, Scalar] = {}
    for node in topological_order(everything):
        if node.op != "input":
            continue
        number = node.value
        if number in kinds:
            replace[id(node)] = leaf(kinds[number], owner, 0, node.dtype)
        elif number < rows.FOLD:
            replace[id(node)] = operand(number)
        else:
            replace[id(node)] = _named(node, owner)
        if number == rows.LENGTH:
            whole[id(node)] = cast(count, node.dtype)
    folds = [
        ir.Fold(f.operation, substitute((f.expression,), replace)[0], replace[id(f.leaf)])
        for f in traced.folds
    ]
    improves = traced.improves
    return ir.Reduction(
        owner, geometry, variables, folds, list(substitute(traced.block, replace)),
        list(traced.identity), list(substitute(traced.merge, replace)),
        list(substitute(traced.finalize, replace | whole)), [],
        improves=None if improves is None else substitute((improves,), replace)[0],
    )  # fmt: skip


def _named(node: Scalar, owner: int) -> Scalar:
    """A fold or state of a traced program."""
    kind = {rows.FOLD: "fold", rows.LEFT: "left", rows.RIGHT: "right"}[node.value // 100 * 100]
    return leaf(kind, owner, node.value % 100, node.dtype)


#: merges of plain folds
_JOINS: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "max": rows.scalar.maximum,
    "min": rows.scalar.minimum,
}


def _neutral(operation: str, dtype: str) -> Scalar:
    if operation in ("sum", "prod"):
        return constant(0 if operation == "sum" else 1, dtype)
    lowest = reduction_programs.lowest if operation == "max" else reduction_programs.highest
    return lowest(dtype)


def fold_of(
    operation: str,
    owner: int,
    geometry: Geometry,
    variables: tuple[Var, Var, Var, Var],
    expression: Scalar,
) -> ir.Reduction:
    """A reduction by one operation, as a step without results; blocks of f32 sums and products are
    joined in f64."""
    dtype = expression.dtype
    wide = "f64" if operation in ("sum", "prod") and dtype == "f32" else dtype
    fold = ir.Fold(operation, expression, leaf("fold", owner, 0, dtype))
    left, right = (leaf(side, owner, 0, wide) for side in ("left", "right"))
    return ir.Reduction(
        owner, geometry, variables, [fold], [cast(fold.leaf, wide)], [_neutral(operation, wide)],
        [_JOINS[operation](left, right)], [cast(left, dtype)], [], operation,
    )  # fmt: skip


# --- programs for all sizes
_ANY = (Geometry(1, 1, 1, 1), (Var("s", 1), Var("o", 1), AT, Var("i", 1)))


class _Operands:
    """The operands of a program, and the index of each in one layout."""

    def __init__(self, program: Any, storage: str, tiled: bool) -> None:
        self.program, self.storage, self.tiled = program, storage, tiled
        self.inputs = self._buffers("x", program.inputs)
        self.outputs = self._buffers("y", program.outputs)

    def _buffers(self, letter: str, operands: Iterable[rows.Operand]) -> list[Buffer]:
        return [
            Buffer(f"{letter}{k}", rows.storage_dtype(o, self.storage), (), (), "any")
            for k, o in enumerate(operands)
        ]

    def index(self, place: str, at: Any = AT) -> Index:
        """Where an element lies, at a place in the row."""
        if place == "column":
            return Index({at: 1})
        lane: dict[Any, int] = {LANE: 1} if self.tiled else {}
        if place == "full":
            lane[at] = INNER if self.tiled else 1
        return Index(lane)

    def load(self, number: int, at: Any = AT) -> Scalar:
        """An input's element as the program computes with it."""
        operand = self.program.inputs[number]
        place = self.index(operand.place, at)
        return ir.leaf(
            ir.Load(self.inputs[number], place), rows.compute_dtype(operand, self.storage)
        )

    def store(self, number: int, expression: Scalar, at: Any = AT) -> Store:
        """A result written."""
        place = self.program.outputs[number].place
        return Store(self.outputs[number], self.index(place, at), expression)

    def swept(
        self,
        reductions: list[ir.Reduction],
        by_element: list[Store],
        stores: list[Store],
        keep: bool,
    ) -> Swept:
        """The program in sweeps."""
        sweeps, kept = Arrangement({AT}, reductions, by_element, 0 if keep else None).run()
        return Swept(sweeps, stores, kept, self.inputs, self.outputs)


def reduction(program: rows.ReductionProgram, storage: str, tiled: bool) -> Swept:
    """A reduction of the table."""
    operands = _Operands(program, storage, tiled)
    traced = rows.trace_reduction(program, storage)
    count = cast(ir.position(ix.constant(COUNT)), "f64")
    step = reduction_of(traced, 0, *_ANY, operands.load, count, {})
    stores = [
        operands.store(k, leaf("result", 0, k, value.dtype))
        for k, value in enumerate(step.finalize)
    ]
    return operands.swept([step], [], stores, False)


def scan(program: rows.ScanProgram, storage: str) -> Swept:
    """A scan of the table: a reduction whose `block` is the state after one more element, and what
    is stored of it at `SPOT`."""
    operands = _Operands(program, storage, False)
    traced = rows.trace_scan(program, storage)
    known: dict[int, Scalar] = {}
    for node in topological_order([*traced.step, *traced.merge, *traced.finalize]):
        if node.op == "input" and node.value == rows.ORIGIN:
            known[id(node)] = ir.position(ix.of(AT))
        elif node.op == "input":
            read = node.value == rows.OPERAND
            known[id(node)] = operands.load(0, SPOT) if read else _named(node, 0)
    step, merge = (list(substitute(roots, known)) for roots in (traced.step, traced.merge))
    state = ir.Reduction(0, *_ANY, [], step, list(traced.identity), merge, [], [])
    results = enumerate(substitute(traced.finalize, known))
    stores = [operands.store(k, value, SPOT) for k, value in results]
    return Swept([Sweep(reductions=[state])], stores, [], operands.inputs, operands.outputs)


def row_program(program: rows.RowProgram, storage: str, tiled: bool, keep: bool) -> Swept:
    """A row program of the table: a reduction for each fold, and what is stored by element or row.

    Sums over rows are added to where they are stored, in the dtype that the program computes in.
    """
    operands = _Operands(program, storage, tiled)
    traced = rows.trace_rows(program, storage)
    length = ir.position(ix.constant(LENGTH))
    known: dict[int, Scalar] = {}

    def meant(expressions: Sequence[Scalar]) -> list[Scalar]:
        for node in topological_order(expressions):
            if node.op == "input" and id(node) not in known:
                known[id(node)] = _meant(operands, node, length)
        return list(substitute(tuple(expressions), known))

    reductions = []
    for number, fold in enumerate(traced.folds):
        if fold.index is not None:
            (where,) = meant([fold.index])
            place = ix.Indirect(cast(where, "i64"), LENGTH)
            known[id(fold.leaf)] = operands.load(fold.expression.value, place)
            continue
        (expression,) = meant([fold.expression])
        reductions.append(fold_of(fold.operation, number, *_ANY, expression))
        known[id(fold.leaf)] = leaf("result", number, 0, fold.leaf.dtype)
    by_element: list[Store] = []
    by_row: list[Store] = []
    for k, expression in enumerate(meant(traced.results)):
        store = operands.store(k, expression)
        kind = program.outputs[k].place
        if kind == "column":
            operands.outputs[k].code = traced.compute
            store.adds = True
        (by_row if kind == "row" else by_element).append(store)
    return operands.swept(reductions, by_element, by_row, keep)


def _meant(operands: _Operands, node: Scalar, length: Scalar) -> Scalar:
    if node.value == rows.POSITION:
        return cast(ir.position(ix.of(AT)), "i32")
    if node.value == rows.LENGTH:
        return cast(length, node.dtype)
    return operands.load(node.value)


def step_program(program: StepProgram, storage: str) -> tuple[Swept, list[tuple[int, Scalar]]]:
    """A step of an optimizer over one tensor, and the new values of its scalars; the old ones are
    called `scalar`."""
    operands = _Operands(_Step(program), storage, False)
    traced = trace_step(program, storage)
    known = {}
    everything = [*(e for _, e in traced.results), *(e for _, e in traced.scalars)]
    for node in topological_order(everything):
        if node.op == "input":
            old = node.value - rows.TEMPORARY
            known[id(node)] = (
                leaf("scalar", -1, old, node.dtype) if old >= 0 else operands.load(node.value)
            )
    changed = substitute(tuple(everything), known)
    by_element = [operands.store(k, e) for (k, _), e in zip(traced.results, changed, strict=False)]
    scalars = [
        (k, e) for (k, _), e in zip(traced.scalars, changed[len(traced.results) :], strict=True)
    ]
    return operands.swept([], by_element, [], False), scalars


class _Step:
    """A step's operands as those of a row program: each is read, and may be written."""

    def __init__(self, program: StepProgram) -> None:
        self.inputs = self.outputs = tuple(rows.Operand(name) for name in program.operands)


# --- pointwise operators
@dataclass(slots=True)
class Mapped:
    """An operator over dense memory: a loop, and the buffers in the order of a map kernel's pointers."""

    loop: Flat
    outputs: list[Buffer]
    inputs: list[Buffer]


def mapped(traced: Traced) -> Mapped:
    """A traced pointwise operator, or gradient, as one loop over dense memory."""
    place = ix.of(DENSE)
    outputs, inputs = (
        [Buffer(f"{letter}{k}", each.dtype, (), (), "any") for k, each in enumerate(values)]
        for letter, values in (("o", traced.outputs), ("x", traced.inputs))
    )
    read = {
        id(leaf): ir.load(buffer, place) for leaf, buffer in zip(traced.inputs, inputs, strict=True)
    }
    known = {}
    for node in topological_order(traced.outputs):
        if node.op in ("real", "imag"):
            pair = read[id(node.args[0])]
            known[id(node)] = pair.re if node.op == "real" else pair.im
        elif id(node) in read:
            known[id(node)] = node if node.dtype in ir.PART else read[id(node)]
    stores = [
        Store(buffer, at, substitute((expression,), known)[0])
        for buffer, value in zip(outputs, traced.outputs, strict=True)
        for at, expression in ir.Store(buffer, place, value).parts()
    ]
    return Mapped(Flat([DENSE], stores), outputs, inputs)
