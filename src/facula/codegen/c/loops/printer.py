"""Prints scalar expressions as C statements: loads, stores, indices, arithmetic.

Takes: expressions of `lower.loops` (parameters included, where programs have some). Gives: `Names`
(what buffers, variables and numbers are called in one kernel), `Printer`: the statements that stay
the same over a loop (`invariant`), those of its body (`body`), and the text of any printed node.
Keeps true: each shared node is computed once; names depend on the order of their first use only, so
that equal kernels have equal text; in a dynamic kernel every size is an entry of `n`, in the order
of use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from facula.codegen.c.loops.text import C_TYPES, STORED, load
from facula.codegen.c.math.library import GUARDED, LIBRARY
from facula.lower.loops import ir
from facula.lower.loops.index import Index, Indirect, Quotient, Var
from facula.ops.expr.node import Scalar, topological_order
from facula.ops.expr.primitives import PRIMITIVES

_UNSIGNED = {
    "i64": "uint64_t",
    "i32": "uint32_t",
    "f32": "uint32_t",
    "f64": "uint64_t",
    "b8": "uint8_t",
}


#: choices in a row that the compiler sees at once
CHOICES = 4
_CHOICE = re.compile(r"\breturn [^;]*\?")


@cache
def _choosing(form: str, dtype: str) -> bool:
    """Whether a primitive ends in a choice, by its C."""
    text = form if "{" in form else LIBRARY.texts.get(f"fm_{form}_{dtype}", "")
    return "?" in form or bool(_CHOICE.search(text))


def _chooses(current: Scalar) -> bool:
    """Whether a node is one of two others."""
    if current.op == "where":
        return True
    primitive = PRIMITIVES.get(current.op)
    dtype = current.args[0].dtype if current.args else ""
    return primitive is not None and _choosing(primitive.c_form(dtype), dtype)


def literal(value: Any, dtype: str) -> str:
    """A C literal with exactly this value."""
    if dtype == "b8":
        return "1" if value else "0"
    if dtype in ("i32", "i64"):
        suffix = "LL" if dtype == "i64" else ""
        if value == -(1 << (31 if dtype == "i32" else 63)):
            return f"(-{-(value + 1)}{suffix} - 1)"
        return f"{value}{suffix}" if value >= 0 else f"({value}{suffix})"
    suffix = "f" if dtype == "f32" else ""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return f"__builtin_inf{suffix}()" if value > 0 else f"(-__builtin_inf{suffix}())"
    text = (
        f"{value!r}{suffix}" if dtype == "f64" and abs(value) < 1e16 and value == int(value) else ""
    )
    text = text or f"{float(value).hex()}{suffix}"
    return text if math.copysign(1, value) > 0 else f"({text})"


class Names:
    """The names of one kernel.

    `numbers` are the sizes that a dynamic kernel reads from `n`.
    """

    #: whether long chains of choices are cut, by functions that a unit of `fused` has
    cuts_choices = True

    def __init__(self, dynamic: bool) -> None:
        self.dynamic = dynamic
        self.numbers: list[int] = []
        self.buffers: dict[ir.Buffer, str] = {}
        self.variables: dict[Var, str] = {}
        self.owners: dict[int, int] = {}

    def buffer(self, buffer: ir.Buffer) -> str:
        """The pointer of a buffer."""
        return self.buffers.setdefault(buffer, f"b{len(self.buffers)}")

    def variable(self, variable: Var) -> str:
        """A loop variable."""
        return self.variables.setdefault(variable, f"i{len(self.variables)}")

    def owner(self, number: int) -> int:
        """The number of a reduction within the kernel."""
        return self.owners.setdefault(number, len(self.owners))

    def number(self, value: int) -> str:
        """A size."""
        if not self.dynamic or value in (0, 1):
            value = int(value)  # of a number that depends on sizes: fixed
            return f"{value}" if -(2**31) < value < 2**31 else f"{value}LL"
        self.numbers.append(value)
        return f"n[{len(self.numbers) - 1}]"

    def parameter(self, parameter: Scalar) -> str:
        """A runtime number: a compiled graph has none."""
        raise KeyError(f"[codegen] a known number was required: got the parameter {parameter!r}")

    def pointers(self, apart: bool = False) -> list[str]:
        """Declarations of the pointers, in the order of `buffers`; `apart` says that no buffer is
        written over another."""
        kind = "*restrict" if apart else "*const"
        return [
            f"{STORED[b.code]} {kind} {name} = ({STORED[b.code]} *)p[{k}];"
            for k, (b, name) in enumerate(self.buffers.items())
        ]

    def product(self, variables: Sequence[Var]) -> str:
        """The product of some extents."""
        return " * ".join(self.number(v.extent) for v in variables) or "1"


class Printer:
    """Prints graphs; one instance holds the names of one loop.

    Args:
        names: the kernel's names.
        named: the C text of a named value.
        fast: use the fast forms of guarded functions (the caller checks `guards`).
    """

    def __init__(
        self, names: Names, named: Callable[[ir.Named, str], str], fast: bool = False
    ) -> None:
        self.names, self.named, self.fast = names, named, fast
        self.invariant: list[str] = []
        self.body: list[str] = []
        self._names: dict[int, str] = {}
        self._constant: set[int] = set()
        self._choices: dict[int, int] = {}  # how many choices a node is made of in a row

    def add(self, outputs: Iterable[Any]) -> None:
        """Print the statements that these outputs need beyond what is printed already."""
        for current in topological_order(outputs):
            if id(current) not in self._names:
                self._print(current)

    def text(self, printed: Scalar) -> str:
        """The C text of a printed node."""
        return self._names[id(printed)]

    def _print(self, current: Scalar) -> None:
        text = self._size_text(current) if self.names.dynamic else None
        if text is None and current.op == "constant":
            text = literal(current.value, current.dtype)
        if text is not None:
            self._names[id(current)] = text
            self._constant.add(id(current))
            return
        if current.op == "input":
            self._declare(current, self._leaf(current), self.body)
            return
        unchanging = all(id(arg) in self._constant for arg in current.args)
        if unchanging:
            self._constant.add(id(current))
        if current.op == "parameter":
            text = self.names.parameter(current)
        else:
            text = self._cut(current, self.expression(current, self.fast and not unchanging))
        self._declare(current, text, self.invariant if unchanging else self.body)

    def _declare(self, current: Scalar, text: str, statements: list[str]) -> None:
        name = f"{'k' if statements is self.invariant else 'v'}{len(statements)}"
        statements.append(f"const {C_TYPES[current.dtype]} {name} = {text};")
        self._names[id(current)] = name

    def _size_text(self, current: Scalar) -> str | None:
        """A number that may be a size, the same text whether it is known or depends on sizes."""
        if current.op == "constant" and _may_be_size(current):
            return f"({C_TYPES[current.dtype]}){self.names.number(int(current.value))}"
        if current.op == "cast" and _is_size(current.args[0]):
            return f"({C_TYPES[current.dtype]}){self._names[id(current.args[0])]}"
        return self.names.number(current.value.index.number) if _is_size(current) else None

    def _leaf(self, leaf: Scalar) -> str:
        value = leaf.value
        if isinstance(value, ir.Load):
            place = self.index(value.index)
            return load(
                value.buffer.code, leaf.dtype, f"{self.names.buffer(value.buffer)}[{place}]"
            )
        if isinstance(value, ir.Position):
            return self.index(value.index)
        return self.named(value, leaf.dtype)

    def index(self, index: Index) -> str:
        """The C text of an index; what it reads is printed before."""
        parts = []
        for atom, multiple in index.terms:
            text = self._atom(atom)
            if multiple == 1:
                parts.append(text)
            elif multiple == -1:
                parts.append(f"-{text}")
            else:
                parts.append(f"{text} * {self.names.number(multiple)}")
        if index.number or not parts:
            parts.append(self.names.number(index.number))
        return " + ".join(parts)

    def _atom(self, atom: Var) -> str:
        if isinstance(atom, Var):
            return self.names.variable(atom)
        if isinstance(atom, Indirect):
            self.add([atom.value])
            return self.text(atom.value)
        sign = "/" if isinstance(atom, Quotient) else "%"
        return f"(({self.index(atom.inner)}) {sign} {self.names.number(atom.number)})"

    def _cut(self, current: Scalar, text: str) -> str:
        """The text of a node; of every fourth choice in a row the compiler does not see what it is.

        gcc looks for simpler forms of a choice among those below it, ten levels down, in all
        branches: 75 maxima with their gradients took 11 s, and so take 1 s.
        """
        count = max((self._choices.get(id(arg), 0) for arg in current.args), default=0)
        if _chooses(current):
            count += 1
        if count >= CHOICES and current.dtype in ("f32", "f64") and self.names.cuts_choices:
            text, count = f"fk_whole_{current.dtype}({text})", 0
        self._choices[id(current)] = count
        return text

    def expression(self, current: Scalar, fast: bool = False) -> str:
        """The C expression of a node over the names of its arguments."""
        args = [self._names[id(arg)] for arg in current.args]
        kind, operand = C_TYPES[current.dtype], current.args[0].dtype
        if current.op == "where":
            return f"{args[0]} ? {args[1]} : {args[2]}"
        if current.op == "cast":
            return f"{args[0]} != 0" if current.dtype == "b8" else f"({kind}){args[0]}"
        if current.op == "wrap":
            return f"({kind})({STORED[current.value]}){args[0]}"
        if current.op == "rounded" and current.value == current.dtype:
            return f"fk_whole_{current.dtype}({args[0]})"
        if current.op == "rounded":
            return f"fk_load_{current.value}(fk_store_{current.value}({args[0]}))"
        if current.op == "philox":
            return f"fk_philox_{current.value}({', '.join(args)})"
        form = PRIMITIVES[current.op].c_form(operand)
        if "{" not in form:
            guarded = "fast_" if fast and form in GUARDED and operand in ("f32", "f64") else ""
            return f"fm_{form}_{guarded}{operand}({', '.join(args)})"
        suffix = "f" if operand == "f32" else ""
        return form.format(*args, t=C_TYPES[operand], u=_UNSIGNED[operand], f=suffix)

    def guards(self, expressions: Sequence[Scalar]) -> list[str]:
        """The conditions under which the fast forms that were printed hold."""
        found = []
        for current in guarded(expressions):
            if id(current) not in self._constant:
                args = ", ".join(self.text(arg) for arg in current.args)
                found.append(f"fm_{current.op}_guard_{current.args[0].dtype}({args})")
        return list(dict.fromkeys(found))


def _is_size(current: Scalar) -> bool:
    """Whether a node is a place that is a number."""
    place = current.value if current.op == "input" else None
    return isinstance(place, ir.Position) and place.index.is_number


def _may_be_size(current: Scalar) -> bool:
    """Whether a number may come from a size, which other calls of a dynamic graph have another of."""
    value = current.value
    whole = current.dtype != "b8" and value - value == 0 and value == int(value)
    return whole and 8 < abs(value) < 2.0**31


def all_nodes(expressions: Sequence[Scalar]) -> list[Scalar]:
    """Every node, those inside of indirect indices included."""
    found = {id(n): n for n in topological_order(expressions)}
    for leaf in ir.leaves(expressions):
        index = getattr(leaf.value, "index", None)
        if index is not None:
            for atom in index.atoms():
                if isinstance(atom, Indirect):
                    found |= {id(n): n for n in topological_order([atom.value])}
    return list(found.values())


def guarded(expressions: Sequence[Scalar]) -> list[Scalar]:
    """Calls of functions with a fast form."""
    return [
        n for n in all_nodes(expressions) if n.op in GUARDED and n.args[0].dtype in ("f32", "f64")
    ]


def has_guard(expressions: Sequence[Scalar]) -> bool:
    """Whether a function with a fast form is called on something that is not constant."""
    return bool(guarded(expressions))
