"""Prints scalar expressions as Triton statements: loads, stores, indices, arithmetic over tiles.

Takes: expressions of `lower.loops`. Gives: `Names` (what buffers, sizes and numbers are called in one kernel, in
the order in which a launch passes them), `Printer`: the statements of expressions and the text of printed nodes.
Keeps true: each shared node is computed once; sizes are arguments of the kernel (other than 0 and 1), so that
calls with tensors of other sizes have the same text; a load is masked by what its place varies over.

A node's level says over what it varies, as bits: rows (1), places along rows (2), both (3), nothing (0).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from facula.codegen.triton.math import HELPERS, TYPES, Unprintable, form
from facula.lower.loops import ir
from facula.lower.loops.index import Index, Indirect, Quotient, Var
from facula.ops.expr.node import Scalar, topological_order

__all__ = ["POINTERS", "Names", "Printer", "helpers_in", "literal"]

NOTHING, ROW, ALONG, ELEMENT = range(4)
#: the kinds of pointers to elements, as Triton's signatures name them
POINTERS = {
    "f32": "*fp32", "f64": "*fp64", "bf16": "*bf16", "f16": "*fp16", "i64": "*i64", "i32": "*i32",
    "i16": "*i16", "i8": "*i8", "u8": "*u8", "b8": "*u8", "u16": "*u16", "u32": "*u32",
    "u64": "*u64", "c64": "*fp32", "c128": "*fp64",
}  # fmt: skip


def literal(value: Any, dtype: str) -> str:
    """A tile of one element with exactly this value."""
    if dtype == "b8":
        text = repr(bool(value))
    elif dtype in ("f32", "f64") and value == 0 and math.copysign(1, value) < 0:
        return f"({literal(0.0, dtype)} * -1.0)"  # Triton writes every zero as the positive one
    elif dtype in ("f32", "f64"):
        text = repr(float(value))
        text = f'float("{text}")' if text in ("inf", "-inf", "nan") else text
    else:
        text = repr(int(value))
    return f"tl.full(ONE, {text}, {TYPES[dtype]})"


class Names:
    """The names of one kernel, in the order of its arguments.

    `buffers` are its pointers, `numbers` the sizes, `scalars` the numbers of a call (leaf -> name).
    """

    def __init__(self) -> None:
        self.buffers: dict[ir.Buffer, str] = {}
        self.numbers: dict[int, str] = {}
        self.scalars: dict[ir.Named, tuple[str, str]] = {}

    def buffer(self, buffer: ir.Buffer) -> str:
        """The pointer of a buffer."""
        if buffer.code not in POINTERS:
            raise Unprintable(f"[triton] elements of {buffer.code}")
        return self.buffers.setdefault(buffer, f"b{len(self.buffers)}")

    def number(self, value: int) -> str:
        """A size."""
        value = int(value)
        if value in (0, 1):
            return str(value)
        return self.numbers.setdefault(value, f"n{len(self.numbers)}")

    def scalar(self, value: ir.Named, dtype: str) -> str:
        """A number of the call."""
        return self.scalars.setdefault(value, (f"s{len(self.scalars)}", dtype))[0]


class Printer:
    """Prints graphs as statements; one instance holds the values of one scope.

    Args:
        names: the kernel's names
        variables: text and level of each loop variable
        masks: the mask of each level; None where all is there
        named: text and level of a value that a reduction names
    """

    def __init__(
        self,
        names: Names,
        variables: Mapping[Var, tuple[str, int]],
        masks: Sequence[str | None],
        named: Callable[[ir.Named, str], tuple[str, int]] | None = None,
    ) -> None:
        self.names, self.variables, self.masks, self._named = names, variables, masks, named
        self.lines: list[str] = []
        self._known: dict[int, tuple[str, int, Scalar]] = {}  # the node is kept alive with its id
        self._prefix = "v"

    def scope(self, prefix: str) -> Printer:
        """A printer that knows what is printed here, for statements inside of a block."""
        inner = Printer(self.names, self.variables, self.masks, self._named)
        inner._known, inner._prefix = dict(self._known), prefix
        return inner

    def value(self, expression: Scalar) -> str:
        """The text of an expression, whose statements are printed if they are not yet."""
        for current in topological_order([expression]):
            if id(current) not in self._known:
                self._print(current)
        return self._known[id(expression)][0]

    def level(self, printed: Scalar) -> int:
        """What a printed node varies over."""
        return self._known[id(printed)][1]

    def know(self, node: Scalar, text: str, level: int) -> None:
        """Say what a node is called."""
        self._known[id(node)] = (text, level, node)

    def store(
        self, buffer: ir.Buffer, index: Index, expression: Scalar, level: int, adds: bool = False
    ) -> None:
        """Write, or add, one value for each place of a level."""
        value = self.value(expression)
        place, _ = self.index(index)
        stored = f"{value}.to({_element(buffer.code)})"
        mask = self.masks[level]
        masked = f", mask={mask}" if mask else ""
        at = f"{self.names.buffer(buffer)} + ({place} + {'row_zero' if level == ROW else 'zero'})"
        if adds:  # an atomic takes a whole tile of values
            stored, masked = (
                f"({stored} + zero.to({_element(buffer.code)}))",
                f"{masked}, sem='relaxed'",
            )
        self.lines.append(f"tl.{'atomic_add' if adds else 'store'}({at}, {stored}{masked})")

    def _print(self, current: Scalar) -> None:
        if current.op == "input":
            text, level = self._leaf(current)
        elif current.op == "constant":
            text, level = literal(current.value, current.dtype), NOTHING
        else:
            level = NOTHING
            for arg in current.args:
                level |= self._known[id(arg)][1]
            text = self._expression(current)
        name = f"{self._prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.know(current, name, level)

    def _leaf(self, leaf: Scalar) -> tuple[str, int]:
        value = leaf.value
        if isinstance(value, ir.Load):
            return self._load(value, leaf.dtype)
        if isinstance(value, ir.Position):
            place, level = self.index(value.index)
            return f"tl.full(ONE, 0, tl.int64) + ({place})", level
        if value.kind == "number":
            # a number arrives without a shape: as a tile it has its dtype for certain
            scalar = self.names.scalar(value, leaf.dtype)
            # (and 1 * x is x for every x, which 0.0 + x is not)
            return f"{literal(1, leaf.dtype)} * {scalar}", NOTHING
        if self._named is None:
            raise Unprintable(f"[triton] the value {value!r}")
        return self._named(value, leaf.dtype)

    def _load(self, value: ir.Load, dtype: str) -> tuple[str, int]:
        place, level = self.index(value.index)
        mask = self.masks[level] if level else None
        masked = f", mask={mask}, other=0" if mask else ""
        text = f"tl.load({self.names.buffer(value.buffer)} + ({place}){masked})"
        if dtype == "b8":
            return f"({text} != 0)", level
        if TYPES.get(value.buffer.code) != TYPES[dtype] and value.buffer.code not in ir.PART:
            text += f".to({TYPES[dtype]})"
        return text, level

    def index(self, index: Index) -> tuple[str, int]:
        """The text of an index, and what it varies over; what it reads is printed before."""
        parts, level = [], NOTHING
        for atom, multiple in index.terms:
            text, own = self._atom(atom)
            level |= own
            if multiple == 1:
                parts.append(text)
            elif multiple < 0:
                parts.append(f"(0 - {text} * {self.names.number(-multiple)})")
            else:
                parts.append(f"{text} * {self.names.number(multiple)}")
        if index.number or not parts:
            sign = "0 - " if index.number < 0 else ""
            parts.append(f"({sign}{self.names.number(abs(int(index.number)))})")
        return " + ".join(parts), level

    def _atom(self, atom: Any) -> tuple[str, int]:
        if isinstance(atom, Var):
            if atom not in self.variables:
                raise Unprintable(f"[triton] the variable {atom!r}")
            return self.variables[atom]
        if isinstance(atom, Indirect):
            return self.value(atom.value), self.level(atom.value)
        text, level = self.index(atom.inner)
        sign = "//" if isinstance(atom, Quotient) else "%"
        return f"(({text}) {sign} {self.names.number(atom.number)})", level

    def _expression(self, current: Scalar) -> str:
        args = [self._known[id(arg)][0] for arg in current.args]
        kind = TYPES[current.dtype]
        if current.op == "where":
            return f"tl.where({args[0]}, {args[1]}, {args[2]})"
        if current.op == "cast":
            return f"({args[0]} != 0)" if current.dtype == "b8" else f"{args[0]}.to({kind})"
        if current.op == "wrap":
            return f"{args[0]}.to({TYPES[current.value]}).to({kind})"
        if current.op == "rounded":
            if current.value == current.dtype:
                return args[0]
            return f"{args[0]}.to({TYPES[current.value]}).to({kind})"
        operand = current.args[0].dtype if current.args else current.dtype
        written = form(current.op, operand)
        one = literal(1, operand)
        return written.format(*args, t=kind, one=one)


def _element(code: str) -> str:
    """The dtype of an element in memory; truth values are bytes, complex numbers pairs."""
    if code in ir.PART:
        return TYPES[ir.PART[code]]
    return "tl.uint8" if code == "b8" else TYPES[code]


def helpers_in(lines: Iterable[str]) -> list[str]:
    """The sources of the functions that statements call."""
    words = set(re.findall(r"\b[a-z_]+(?=\()", "\n".join(lines)))
    return [HELPERS[name] for name in sorted(words & HELPERS.keys())]
