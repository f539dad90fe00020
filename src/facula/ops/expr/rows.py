"""The language of reductions and row programs: scalar expressions plus folds over a row.

Takes: Python bodies over `Scalar` values; `row_sum(x)`, `row_max(x)`, ... fold an expression over
the whole row.
Gives: `RowProgram` (softmax, norms, losses), `ReductionProgram` (blocks, merged in a fixed order)
and `ScanProgram`, traced for one compute dtype by `trace_rows` and `trace_reduction`; the tables
`ROW_PROGRAMS`, `REDUCTION_PROGRAMS`, `SCAN_PROGRAMS`, filled by the decorators.
Keeps true: needs neither the core nor a compiler; a traced program is expressions only, its leaves
`input(number)` with the number spaces below, so that any code generator can lay it out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from facula.core.errors import fail
from facula.ops.expr import scalar
from facula.ops.expr.scalar import Scalar, cast, constant, where

if TYPE_CHECKING:
    from facula.ops.table.definition import Definition


#: number spaces of the leaves
OPERAND, FOLD, UNIFORM, TEMPORARY, LEFT, RIGHT, SPECIAL = 0, 100, 200, 300, 400, 500, 600
POSITION, LENGTH, ORIGIN = SPECIAL, SPECIAL + 1, SPECIAL + 2

#: storage dtype -> compute dtype of a program
COMPUTE = {
    "f32": "f32", "f64": "f64", "bf16": "f32", "f16": "f32",
    "i64": "i64", "i32": "i32", "u8": "i32", "b8": "i32",
}  # fmt: skip
FLOAT_STORAGE = ("f32", "f64", "bf16", "f16")
REAL_STORAGE = (*FLOAT_STORAGE, "i64", "i32", "u8", "b8")


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor operand or result of a program.

    `place` says how it is indexed: `full` (every element), `row` (one value a row; where a program
    is given a period, row `r` reads value `r % period`), `group` (row `r` reads value `r //
    group`), `column` (one value a position of the row). `dtype` is `storage` (the program's),
    `compute`, `wide` (`storage` for floats, `i64` for integers), or a fixed short name.
    """

    name: str
    place: str = "full"
    dtype: str = "storage"


@dataclass(frozen=True, slots=True)
class Fold:
    """A row's worth of `expression` folded by `operation`; `leaf` stands for the value.

    The operation `at` is the element of a full operand (`expression`, a leaf) at the position
    `index`.
    """

    operation: str
    expression: Scalar
    leaf: Scalar
    index: Scalar | None = None


@dataclass(slots=True)
class _Trace:
    compute: str
    folds: list[Fold] = field(default_factory=list)


_active: list[_Trace] = []


def _fold(operation: str, expression: Any, index: Scalar | None = None) -> Scalar:
    if not _active:
        fail(
            RuntimeError,
            f"row_{operation}",
            "a row program being traced was required",
            "a call outside of one",
            hint="call it in the body of a @rowwise operator",
        )
    expression = scalar.lift(expression)
    trace = _active[-1]
    for fold in trace.folds:
        if fold.operation == operation and fold.expression is expression and fold.index is index:
            return fold.leaf
    leaf = scalar.input(FOLD + len(trace.folds), expression.dtype)
    trace.folds.append(Fold(operation, expression, leaf, index))
    return leaf


def row_sum(x: object) -> Scalar:
    """The sum of `x` over the row."""
    return _fold("sum", x)


def row_prod(x: object) -> Scalar:
    """The product of `x` over the row."""
    return _fold("prod", x)


def row_max(x: object) -> Scalar:
    """The largest `x` of the row; NaN if there is one."""
    return _fold("max", x)


def row_min(x: object) -> Scalar:
    """The smallest `x` of the row; NaN if there is one."""
    return _fold("min", x)


def row_length() -> Scalar:
    """How many elements the row has, in the compute dtype (for reductions: the block)."""
    return scalar.input(LENGTH, _active[-1].compute)


def row_mean(x: object) -> Scalar:
    """The mean of `x` over the row."""
    return row_sum(x) / row_length()


def row_at(operand: Scalar, index: Scalar) -> Scalar:
    """The element of a full operand at a position that is the same for the whole row (in range)."""
    return _fold("at", operand, index)


def row_position() -> Scalar:
    """The position in the row (`i32`; in a reduction it counts from the start of the block)."""
    return scalar.input(POSITION, "i32")


def row_origin() -> Scalar:
    """Where the block starts in the reduced dimension (`i64`); for reductions."""
    return scalar.input(ORIGIN, "i64")


def row_first(condition: object) -> Scalar:
    """The first position at which `condition` holds (`i32`), or 2**31 - 1."""
    return _fold("min", where(condition, row_position(), constant(2**31 - 1, "i32")))


@dataclass(frozen=True, slots=True)
class RowProgram:
    """A fused program over rows; see `rowwise_program`."""

    name: str
    body: Callable[..., Any]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    parameters: tuple[str, ...]
    dtypes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReductionProgram:
    """A reduction: `block` gives the state of a block, `merge` joins two, `finalize` gives the
    results.

    `identity` is the state of nothing. `improves(fold, state)`, where given, tells from the first
    fold of a block whether the rest of the block can matter at all.
    """

    name: str
    definition: Any
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    parameters: tuple[str, ...]
    dtypes: tuple[str, ...]
    improves: Callable[..., Scalar] | None


@dataclass(frozen=True, slots=True)
class ScanProgram:
    """An inclusive scan. `definition` has `identity(compute)`, `step(state, x, position)` (the
    state after one more element), `merge(a, b)` (two stretches) and `finalize(state)` (the
    results). `wide` asks for vector lanes."""

    name: str
    definition: Any
    outputs: tuple[Operand, ...]
    dtypes: tuple[str, ...]
    wide: bool
    inputs: tuple[Operand, ...] = (Operand("x"),)
    parameters: tuple[str, ...] = ()


ROW_PROGRAMS: dict[str, RowProgram] = {}
REDUCTION_PROGRAMS: dict[str, ReductionProgram] = {}
SCAN_PROGRAMS: dict[str, ScanProgram] = {}


def operands(text: str) -> tuple[Operand, ...]:
    """Parse ``"x, weight:column, mean:row:compute"`` into operands."""
    parsed = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, rest = part.partition(":")
        place, _, dtype = rest.partition(":")
        parsed.append(Operand(name, place or "full", dtype or "storage"))
    return tuple(parsed)


def rowwise_program(
    name: str,
    inputs: str,
    outputs: str,
    parameters: str = "",
    dtypes: tuple[str, ...] = FLOAT_STORAGE,
    **attributes: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a row program into the table; stacked decorators with other `attributes` make variants
    of one body.

    The body takes the inputs by name (`Scalar`), the parameters (runtime numbers) and the
    attributes, and returns one expression an output: any for a `full` output, one free of full
    operands for a `row` output; a `column` output is the sum over all rows of its expression.
    """

    def enter(body: Callable[..., Any]) -> Callable[..., Any]:
        def bound(**values: object) -> Any:
            return body(**values, **attributes)

        ROW_PROGRAMS[name] = RowProgram(
            name, bound, operands(inputs), operands(outputs), tuple(parameters.split()), dtypes
        )
        return body

    return enter


def reduction_program(
    name: str,
    outputs: str = "result:row",
    inputs: str = "x",
    parameters: str = "",
    dtypes: tuple[str, ...] = FLOAT_STORAGE,
) -> Callable[[Any], Any]:
    """Enter a reduction into the table. Functions of the class take Scalars: `block(**inputs,
    **parameters)`, `merge(a, b)`, `identity(compute)`, `finalize(state, count, **row inputs,
    **parameters)`."""

    def enter(body: Callable[..., Any]) -> Any:
        REDUCTION_PROGRAMS[name] = ReductionProgram(
            name,
            body,
            operands(inputs),
            operands(outputs),
            tuple(parameters.split()),
            dtypes,
            getattr(body, "improves", None),
        )
        return body

    return enter


def scan_program(
    name: str,
    outputs: str = "result",
    dtypes: tuple[str, ...] = (*FLOAT_STORAGE, "i64"),
    wide: bool = False,
) -> Callable[[Any], Any]:
    """Enter a scan into the table; see `ScanProgram`."""

    def enter(definition: Definition) -> Any:
        SCAN_PROGRAMS[name] = ScanProgram(name, definition, operands(outputs), dtypes, wide)
        return definition

    return enter


@dataclass(frozen=True, slots=True)
class TracedRows:
    """A row program as expressions: `results` beside `outputs`, `folds` in order of creation."""

    results: tuple[Scalar, ...]
    folds: tuple[Fold, ...]
    compute: str


@dataclass(frozen=True, slots=True)
class TracedReduction:
    """A reduction as expressions; leaves of states are `input(LEFT + k)`, `input(RIGHT + k)`."""

    block: tuple[Scalar, ...]
    folds: tuple[Fold, ...]
    merge: tuple[Scalar, ...]
    identity: tuple[Scalar, ...]
    finalize: tuple[Scalar, ...]
    improves: Scalar | None
    compute: str


@dataclass(frozen=True, slots=True)
class TracedScan:
    """A scan as expressions over `input(LEFT + k)` (state), `input(RIGHT + k)` (later state),
    operand 0, `ORIGIN` (the position)."""

    identity: tuple[Scalar, ...]
    step: tuple[Scalar, ...]
    merge: tuple[Scalar, ...]
    finalize: tuple[Scalar, ...]
    compute: str


def compute_dtype(operand: Operand, storage: str) -> str:
    """The dtype in which an operand is computed with."""
    if operand.dtype in ("storage", "compute"):
        return COMPUTE[storage]
    if operand.dtype == "wide":
        return COMPUTE[storage] if storage in FLOAT_STORAGE else "i64"
    return COMPUTE.get(operand.dtype, operand.dtype)


def storage_dtype(operand: Operand, storage: str) -> str:
    """The dtype in which an operand is stored."""
    if operand.dtype == "wide":
        return storage if storage in FLOAT_STORAGE else "i64"
    if operand.dtype == "compute":
        return COMPUTE[storage]
    return storage if operand.dtype == "storage" else operand.dtype


def _leaves(program: RowProgram | ReductionProgram, storage: str) -> dict[str, Scalar]:
    values: dict[str, Scalar] = {
        operand.name: scalar.input(OPERAND + number, compute_dtype(operand, storage))
        for number, operand in enumerate(program.inputs)
    }
    values.update({name: scalar.parameter(name, "f64") for name in program.parameters})
    return values


def _tuple(value: object) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def trace_rows(program: RowProgram, storage: str) -> TracedRows:
    """Run a row program's body for one storage dtype."""
    trace = _Trace(COMPUTE[storage])
    _active.append(trace)
    try:
        results = _tuple(program.body(**_leaves(program, storage)))
    finally:
        _active.pop()
    results = tuple(
        cast(result, compute_dtype(operand, storage))
        for result, operand in zip(results, program.outputs, strict=True)
    )
    return TracedRows(results, tuple(trace.folds), trace.compute)


def trace_reduction(program: ReductionProgram, storage: str) -> TracedReduction:
    """Run a reduction's functions for one storage dtype."""
    trace = _Trace(COMPUTE[storage])
    values = _leaves(program, storage)
    definition = program.definition
    kept = tuple(scalar.lift(value) for value in _tuple(definition.identity(trace.compute)))
    left = tuple(scalar.input(LEFT + k, state.dtype) for k, state in enumerate(kept))
    right = tuple(scalar.input(RIGHT + k, state.dtype) for k, state in enumerate(kept))
    _active.append(trace)
    try:
        block = _tuple(definition.block(**values))
    finally:
        _active.pop()
    block = tuple(cast(value, state.dtype) for value, state in zip(block, kept, strict=True))
    merge = tuple(
        cast(value, state.dtype)
        for value, state in zip(_tuple(definition.merge(left, right)), kept, strict=True)
    )
    count = scalar.input(LENGTH, "f64")
    rest = {o.name: values[o.name] for o in program.inputs if o.place != "full"}
    rest.update({name: values[name] for name in program.parameters})
    finalize = tuple(
        cast(value, compute_dtype(operand, storage))
        for value, operand in zip(
            _tuple(definition.finalize(left, count, **rest)), program.outputs, strict=True
        )
    )
    improves = program.improves
    guard = improves(trace.folds[0].leaf, left) if improves else None
    return TracedReduction(block, tuple(trace.folds), merge, kept, finalize, guard, trace.compute)


def trace_scan(program: ScanProgram, storage: str) -> TracedScan:
    """Run a scan's functions for one storage dtype."""
    compute, definition = COMPUTE[storage], program.definition
    kept = tuple(scalar.lift(value) for value in _tuple(definition.identity(compute)))
    left = tuple(scalar.input(LEFT + k, state.dtype) for k, state in enumerate(kept))
    right = tuple(scalar.input(RIGHT + k, state.dtype) for k, state in enumerate(kept))

    def as_state(values: object) -> tuple[Scalar, ...]:
        return tuple(cast(v, state.dtype) for v, state in zip(_tuple(values), kept, strict=True))

    step = definition.step(left, scalar.input(OPERAND, compute), row_origin())
    finalize = tuple(
        cast(value, compute_dtype(operand, storage))
        for value, operand in zip(_tuple(definition.finalize(left)), program.outputs, strict=True)
    )
    return TracedScan(
        kept, as_state(step), as_state(definition.merge(left, right)), finalize, compute
    )
