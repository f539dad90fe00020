"""Loops as Triton kernels: one for elements, one or two for a reduction.

Takes: steps of `lower.loops` (`Elementwise`, `Reduction`). Gives: `Kernel`: plain `@triton.jit` source, what its
arguments are, over what it is launched.
Keeps true: the text depends on the form of the step, not on its sizes or numbers, which are arguments; a reduction
of few long rows is cut into parts, whose states a second kernel merges as the first one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from facula.codegen.triton.math import TYPES, Unprintable
from facula.codegen.triton.printer import (
    ALONG,
    ELEMENT,
    NOTHING,
    POINTERS,
    ROW,
    Names,
    Printer,
    helpers_in,
    literal,
)
from facula.lower.loops import ir
from facula.lower.loops.ir import Buffer, Elementwise, Reduction

__all__ = ["HEADER", "Kernel", "elementwise", "reduction"]

HEADER = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice

ONE: tl.constexpr = tl.constexpr({shape})
"""
#: elements of a tile; thread groups that share it
TILE, WARPS = 1024, 4
#: elements of a reduction's tile, and of a row in it; parts that a long row is cut into
REDUCED, LONGEST, PARTS = 4096, 4096, 128
#: rows from which on a device has enough to do without cutting them
BUSY = 264
#: how a fold joins two values, and what it starts with
_JOINS = {
    "sum": "a + b",
    "prod": "a * b",
    "max": "tl.where((a > b) | (a != a), a, b)",
    "min": "tl.where((a < b) | (a != a), a, b)",
    "any": "a | b",
    "all": "a & b",
}
_LOWEST = {"i32": -(2**31), "i64": -(2**63), "b8": 0}
_HIGHEST = {"i32": 2**31 - 1, "i64": 2**63 - 1, "b8": 1}


@dataclass(slots=True)
class Kernel:
    """A kernel and how it is launched.

    `text` is a module with the function `kernel`, whose arguments are pointers (`buffers`), sizes (`numbers`),
    numbers of the call (`scalars`, with their dtypes), sizes of the launch (`extents`), and constants.
    """

    text: str
    buffers: list[Buffer]
    numbers: list[int]
    scalars: list[tuple[Any, str]]
    extents: list[int]
    constants: dict[str, int]
    grid: tuple[int, int, int]
    warps: int = WARPS
    #: the dtype of sizes
    wide: bool = False
    #: loads that are under way at a time
    stages: int = 3

    def signature(self) -> dict[str, str]:
        """The kinds of arguments by name, as Triton spells them."""
        size = "i64" if self.wide else "i32"
        kinds = {f"b{k}": POINTERS[b.code] for k, b in enumerate(self.buffers)}
        kinds |= {f"n{k}": size for k in range(len(self.numbers))}
        numbers = {"f64": "fp64", "i64": "i64"}
        kinds |= {f"s{k}": numbers[dtype] for k, (_, dtype) in enumerate(self.scalars)}
        kinds |= {f"e{k}": size for k in range(len(self.extents))}
        return kinds | dict.fromkeys(self.constants, "constexpr")


def _indented(lines: Sequence[str], depth: int = 1) -> list[str]:
    return ["    " * depth + line for line in lines]


def _module(
    names: Names, body: Sequence[str], extents: int, constants: Sequence[str], shape: str,
    functions: Sequence[str] = (),
) -> str:  # fmt: skip
    arguments = [*names.buffers.values(), *names.numbers.values()]
    arguments += [name for name, _ in names.scalars.values()]
    arguments += [f"e{k}" for k in range(extents)] + [f"{c}: tl.constexpr" for c in constants]
    head = [HEADER.format(shape=shape), *helpers_in(body), *functions]
    signature = f"@triton.jit\ndef kernel({', '.join(arguments)}):"
    return "\n\n".join([*head, "\n".join([signature, *_indented(body)])]) + "\n"


def _wide(buffers: Sequence[Buffer], *counts: int) -> bool:
    """Whether places need 64 bits."""
    return max([*counts, *(b.extent * 2 for b in buffers)]) >= 2**31 - 2 * TILE * REDUCED


def _index_type(wide: bool) -> str:
    return "tl.int64" if wide else "tl.int32"


def _scalars(names: Names) -> list[tuple[Any, str]]:
    return [(value, dtype) for value, (_, dtype) in names.scalars.items()]


def elementwise(step: Elementwise, adds: bool = False) -> Kernel:
    """A loop over elements; with `adds` they are added to what is in memory.

    Raises:
        Unprintable: a function or dtype in it is not there.
    """
    total, names = step.variable.extent, Names()
    wide = _wide([*step.reads, *step.writes], total)
    printer = Printer(names, {step.variable: ("at", ELEMENT)}, (None, None, None, "live"))
    for store in step.stores:
        for place, expression in store.parts():
            printer.store(store.buffer, place, expression, ELEMENT, adds)
    index = _index_type(wide)
    body = [
        f"at = tl.program_id(0).to({index}) * TILE + tl.arange(0, TILE).to({index})",
        "live = at < e0",
        "zero = at * 0",
        *printer.lines,
    ]
    text = _module(names, body, 1, ["TILE"], "(1,)")
    grid = (-(-total // TILE), 1, 1)
    return Kernel(
        text, list(names.buffers), list(names.numbers), _scalars(names), [total], {"TILE": TILE},
        grid, WARPS, wide,
    )  # fmt: skip


# --- reductions
def _neutral(operation: str, dtype: str) -> str:
    """What changes nothing in a fold."""
    if operation in ("sum", "prod"):
        return literal(operation == "prod", dtype)
    if operation in ("any", "all"):
        return literal(operation == "all", dtype)
    if dtype in ("f32", "f64"):
        return literal(float("-inf" if operation == "max" else "inf"), dtype)
    return literal((_LOWEST if operation == "max" else _HIGHEST)[dtype], dtype)


def _fold_lines(number: int, operation: str, dtype: str, value: str) -> list[str]:
    """A value of each element folded over a tile."""
    if operation not in _JOINS:
        raise Unprintable(f"[triton] the fold {operation}")
    filled = f"tl.where(live, {value}, {_neutral(operation, dtype)})"
    if dtype == "b8":  # no sums of truth values, and wider lanes
        filled = f"{filled}.to(tl.int32)"
    return [f"f{number} = tl.reduce({filled}, 1, join_{operation}, keep_dims=True)"] + (
        [f"f{number} = f{number} != 0"] if dtype == "b8" else []
    )


def _joins(operations: set[str]) -> list[str]:
    return [
        f"@triton.jit\ndef join_{name}(a, b):\n    return {_JOINS[name]}\n"
        for name in sorted(operations)
    ]


class _Reducing:
    """The text of a reduction: over tiles of `[ROWS, SPAN]`."""

    def __init__(self, step: Reduction) -> None:
        self.step, self.shape = step, step.geometry
        reads = [*step.reads, *step.results]
        self.wide = _wide(reads, self.shape.numel)
        self.index = _index_type(self.wide)
        self.span, self.rows = self._tile()
        self.parts = self._cut()

    def _tile(self) -> tuple[int, int]:
        """Elements of a row in a tile, and rows of it."""
        length, rows = _power(self.shape.length), _power(self.shape.rows)
        if self.shape.inner > 1:  # neighbours in memory are rows
            across = min(_power(self.shape.inner), 64)
            return min(length, REDUCED // across), across
        span = min(length, LONGEST)
        return span, max(1, min(REDUCED // span, rows, 64))

    def _cut(self) -> int:
        """Into how many parts rows are cut."""
        tiles = -(-self.shape.rows // self.rows)
        steps = -(-self.shape.length // self.span)
        if tiles >= BUSY or steps < 4:
            return 1
        return max(1, min(PARTS, -(-BUSY // tiles), steps // 2))

    # --- names
    def named(self, value: ir.Named, dtype: str) -> tuple[str, int]:
        """What a reduction names."""
        kind, number = value.kind, value.number
        if kind in ("fold", "left", "right"):
            return {"fold": "f", "left": "left", "right": "right"}[kind] + str(number), ROW
        if kind == "place":
            return f"place.to({TYPES[dtype]})", ALONG
        if kind == "length":
            return f"length.to({TYPES[dtype]})", NOTHING
        if kind == "origin":
            return f"tl.full(ONE, 0, {TYPES[dtype]}) + origin", NOTHING
        raise Unprintable(f"[triton] the value {value!r}")

    def printer(self, names: Names) -> Printer:
        """A printer with the loop's variables."""
        segment, outer, reduce, inner = self.step.variables
        variables = {
            segment: ("segment", ALONG), outer: ("outer", ROW),
            reduce: ("reduce", ALONG), inner: ("inner", ROW),
        }  # fmt: skip
        return Printer(names, variables, (None, "rows_live", "along_live", "live"), self.named)

    # --- text
    def rows_lines(self, names: Names) -> list[str]:
        """Which rows a program has."""
        width, inner = self.index, self.shape.inner
        lines = [
            f"row = (tl.program_id(0).to({width}) * ROWS + tl.arange(0, ROWS).to({width}))[:, None]",
            "rows_live = row < e0",
            "row_zero = row * 0",
        ]
        if inner == 1:
            return [*lines, "outer = row", "inner = row_zero"]
        count = names.number(inner)
        return [*lines, f"outer = row // {count}", f"inner = row % {count}"]

    def start(self) -> list[str]:
        """The first state."""
        return [
            f"left{k} = tl.full((ROWS, 1), {_bare(e)}, {TYPES[e.dtype]})"
            for k, e in enumerate(self.step.identity)
        ]

    def block(self, names: Names) -> list[str]:
        """The state of one tile of each row."""
        width, shape = self.index, self.shape
        lines = [
            f"place = tl.arange(0, SPAN)[None, :].to({width})",
            "along = origin + place",
            "along_live = along < stop",
            "live = rows_live & along_live",
            "length = tl.minimum(stop - origin, SPAN)",
        ]
        if shape.segments == 1:
            lines += ["segment = along * 0", "reduce = along"]
        else:
            count = names.number(shape.reduce)
            lines += [f"segment = along // {count}", f"reduce = along % {count}"]
        printer = self.printer(names)
        for number, fold in enumerate(self.step.folds):
            value = printer.value(fold.expression)
            printer.lines += _fold_lines(number, fold.operation, fold.leaf.dtype, value)
            printer.know(fold.leaf, f"f{number}", ROW)
        states = [printer.value(e) for e in self.step.block]
        for k, (e, state) in enumerate(zip(self.step.block, states, strict=True)):
            ones = f"tl.full((ROWS, 1), {'True' if e.dtype == 'b8' else '1'}, {TYPES[e.dtype]})"
            spread = f"{ones} {'&' if e.dtype == 'b8' else '*'} {state}"
            printer.lines.append(f"right{k} = {spread}")
        return lines + printer.lines

    def merge(self, names: Names) -> list[str]:
        """Two states become one."""
        printer = self.printer(names).scope("m")
        merged = [printer.value(e) for e in self.step.merge]
        lines = [f"left{k} = {text}" for k, text in enumerate(merged)]
        return printer.lines + lines

    def finish(self, names: Names) -> list[str]:
        """The results of whole rows."""
        printer = self.printer(names).scope("r")
        for buffer, expression in zip(self.step.results, self.step.finalize, strict=True):
            printer.store(buffer, self.step.place, expression, ROW)
        return printer.lines

    def kernel(
        self, names: Names, body: list[str], extents: list[int], grid: Any, constants: Any
    ) -> Kernel:
        """A kernel out of its statements."""
        operations = {fold.operation for fold in self.step.folds}
        used = {name for name in operations if any(f"join_{name}" in line for line in body)}
        text = _module(names, body, len(extents), list(constants), "(1, 1)", _joins(used))
        warps = 8 if constants.get("SPAN", 1) * self.rows >= 2048 else WARPS
        return Kernel(
            text, list(names.buffers), list(names.numbers), _scalars(names), extents, constants,
            grid, warps, self.wide,
        )  # fmt: skip

    def loop(self, names: Names) -> list[str]:
        """The statements of a run over `[origin, stop)` in tiles."""
        inside = [*self.block(names), *self.merge(names)]
        return [
            *self.start(),
            "for origin in range(begin, stop, SPAN):",
            *_indented(inside),
        ]

    def whole(self) -> list[Kernel]:
        """One kernel, whose programs have whole rows."""
        names, shape = Names(), self.shape
        body = [*self.rows_lines(names), "begin = 0", "stop = e1", *self.loop(names)]
        body += self.finish(names)
        grid = (-(-shape.rows // self.rows), 1, 1)
        constants = {"ROWS": self.rows, "SPAN": self.span}
        return [self.kernel(names, body, [shape.rows, shape.length], grid, constants)]

    def cut(self) -> list[Kernel]:
        """Two kernels: states of parts, then their merge."""
        shape, count = self.shape, self.parts
        part = -(-shape.length // count)
        part = -(-part // self.span) * self.span
        count = -(-shape.length // part)
        scratch = [
            Buffer(f"state{k}", e.dtype, (count, shape.rows), (shape.rows, 1), "scratch")
            for k, e in enumerate(self.step.identity)
        ]
        rows_of, tiles = [shape.rows, shape.length, part], -(-shape.rows // self.rows)
        names = Names()
        body = [
            *self.rows_lines(names),
            "begin = tl.program_id(1) * e2",
            "stop = tl.minimum(begin + e2, e1)",
            *self.loop(names),
            "kept = tl.program_id(1) * e0 + row",
        ]
        for k, buffer in enumerate(scratch):
            element = "tl.uint8" if buffer.code == "b8" else TYPES[buffer.code]
            pointer = names.buffer(buffer)
            body.append(f"tl.store({pointer} + kept, left{k}.to({element}), mask=rows_live)")
        constants = {"ROWS": self.rows, "SPAN": self.span}
        first = self.kernel(names, body, rows_of, (tiles, count, 1), constants)
        return [first, self._merging(scratch, count, tiles)]

    def _merging(self, scratch: list[Buffer], count: int, tiles: int) -> Kernel:
        names = Names()
        loads = [
            f"right{k} = tl.load({names.buffer(b)} + part * e0 + row, mask=rows_live, other=0)"
            + (" != 0" if b.code == "b8" else "")
            for k, b in enumerate(scratch)
        ]
        body = [*self.rows_lines(names), *self.start(), "for part in range(0, e1):"]
        body += _indented([*loads, *self.merge(names)])
        body += self.finish(names)
        extents = [self.shape.rows, count]
        return self.kernel(names, body, extents, (tiles, 1, 1), {"ROWS": self.rows})


def _bare(expression: Any) -> str:
    """A constant as a Python number."""
    if expression.op != "constant":
        raise Unprintable("[triton] a state that starts with something computed")
    return literal(expression.value, expression.dtype).split(", ", 1)[1].rsplit(", ", 1)[0]


def _power(count: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(count - 1, 0).bit_length()


def reduction(step: Reduction) -> list[Kernel]:
    """A reduction, as kernels to be launched in order.

    Raises:
        Unprintable: a function or dtype in it is not there.
    """
    reducing = _Reducing(step)
    return reducing.whole() if reducing.parts == 1 else reducing.cut()
