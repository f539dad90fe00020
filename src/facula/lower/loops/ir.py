"""The loop IR: buffers, loads, and the two kinds of steps that fused kernels are made of.

Takes: nothing; `lowering` builds it. Gives: `Buffer`, `Load`, `Position`, `Elementwise`,
`Reduction`, `Extern`, `Program`; `load`, `position`, `rewrite` and `loads_of` over scalar
expressions.
Keeps true: steps stand in an order in which every buffer is written before it is read, and every
buffer is written by one step only; an expression's leaves are loads, positions, and the values
that a reduction names; a complex buffer is counted in real numbers, so that all arithmetic is real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from facula.lower.loops import index as ix
from facula.lower.loops.index import Index, Indirect, Var
from facula.lower.loops.program import ITEMSIZE, Buffer, Extern, Program, View, views_in
from facula.ops.expr.node import Complex, Scalar, flatten, node, rebuild, topological_order

__all__ = [
    "Buffer", "Elementwise", "Extern", "Fold", "Geometry", "ITEMSIZE", "Load", "NARROW",
    "Named", "PART", "Position", "Program", "REGISTER", "Reduction", "Rewriter", "Store",
    "View", "leaf", "leaves", "load", "loads_of", "position", "views_in",
]  # fmt: skip

#: storage dtype -> the dtype in which its values are computed with
REGISTER = {
    "f32": "f32", "f64": "f64", "bf16": "f32", "f16": "f32", "i64": "i64", "i32": "i32",
    "i16": "i32", "i8": "i32", "u8": "i32", "b8": "b8", "u16": "i32", "u32": "i64", "u64": "i64",
    "c64": "c64", "c128": "c128",
}  # fmt: skip
PART = {"c64": "f32", "c128": "f64"}
#: results of these dtypes are cut to their width wherever they are not stored
NARROW = frozenset({"i16", "i8", "u8", "u16", "u32"})


@dataclass(frozen=True, slots=True)
class Load:
    """The element of a buffer at an index (of real numbers, where the buffer is complex)."""

    buffer: Buffer
    index: Index

    def __repr__(self) -> str:
        return f"{self.buffer.name}[{self.index!r}]"


@dataclass(frozen=True, slots=True)
class Position:
    """An index as a value."""

    index: Index


@dataclass(frozen=True, slots=True)
class Named:
    """A value that a reduction names: `kind` is fold, left, right, result, length, origin or place
    (the place in the block)."""

    kind: str
    owner: int
    number: int = 0


def leaf(value: object, dtype: str) -> Scalar:
    """A leaf of expressions: a `Load`, `Position` or `Named`."""
    return node("input", (), dtype, value)


def load(buffer: Buffer, index: Index) -> Any:
    """The value of an element."""
    register = REGISTER[buffer.code]
    if register in PART:
        part = PART[register]
        twice = index * 2
        return Complex(leaf(Load(buffer, twice), part), leaf(Load(buffer, twice + 1), part))
    return leaf(Load(buffer, index), register)


def position(index: Index) -> Scalar:
    """An index as an i64 value."""
    return leaf(Position(index), "i64")


def leaves(expressions: Iterable[Any]) -> Iterator[Scalar]:
    """Every leaf that is read, those inside of indices included, each once."""
    seen: set[int] = set()
    stack = [e for e in topological_order(expressions) if e.op == "input"]
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        index = getattr(current.value, "index", None)
        if index is not None:
            for atom in index.atoms():
                if isinstance(atom, Indirect):
                    stack += [e for e in topological_order([atom.value]) if e.op == "input"]


def loads_of(expressions: Iterable[Any]) -> list[Load]:
    """Every element that is read."""
    return [e.value for e in leaves(expressions) if isinstance(e.value, Load)]


class Rewriter:
    """Expressions with variables replaced, and leaves by a rule."""

    def __init__(
        self,
        replacement: Mapping[Var, Index],
        rule: Callable[[Scalar], Scalar | None] | None = None,
    ) -> None:
        self.replacement, self.rule = replacement, rule
        self._done: dict[int, tuple[Scalar, Scalar]] = {}  # the origin is kept alive with its id

    def index(self, index: Index) -> Index:
        """An index with variables replaced."""
        return ix.substitute(index, self.replacement, self.scalar)

    def scalar(self, expression: Scalar) -> Scalar:
        """A real expression, rewritten."""
        done = self._done
        for current in topological_order([expression]):
            if id(current) in done:
                continue
            if current.op == "input":
                new = self._leaf(current)
            elif current.args:
                new = rebuild(current, tuple(done[id(arg)][1] for arg in current.args))
            else:
                new = current
            done[id(current)] = (current, new)
        return done[id(expression)][1]

    def any(self, expression: Any) -> Any:
        """A real or complex expression, rewritten."""
        if isinstance(expression, Complex):
            return Complex(self.scalar(expression.re), self.scalar(expression.im))
        return self.scalar(expression)

    def _leaf(self, current: Scalar) -> Scalar:
        value = current.value
        if isinstance(value, Load):
            current = leaf(Load(value.buffer, self.index(value.index)), current.dtype)
        elif isinstance(value, Position):
            current = leaf(Position(self.index(value.index)), current.dtype)
        found = self.rule(current) if self.rule is not None else None
        return current if found is None else found


# --- steps


@dataclass(slots=True)
class Store:
    """An element written: `expression` is real, or complex where the buffer is."""

    buffer: Buffer
    index: Index
    expression: Any

    def parts(self) -> list[tuple[Index, Scalar]]:
        """(index, real expression) of each number written."""
        flat = flatten([self.expression])
        if len(flat) == 1:
            return [(self.index, flat[0])]
        return [(self.index * 2, flat[0]), (self.index * 2 + 1, flat[1])]


@dataclass(slots=True)
class Elementwise:
    """One value for each of `variable.extent` places."""

    variable: Var
    stores: list[Store]
    origin: str = ""
    #: the buffers read
    reads: set[Buffer] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.reads = {found.buffer for found in loads_of(self.expressions)}

    @property
    def expressions(self) -> list[Any]:
        """What is stored."""
        return [store.expression for store in self.stores]

    @property
    def writes(self) -> list[Buffer]:
        """The buffers written."""
        return [store.buffer for store in self.stores]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Memory `[segments, outer, reduce, inner]`, reduced over segments and reduce."""

    segments: int
    outer: int
    reduce: int
    inner: int

    @property
    def rows(self) -> int:
        """How many results there are."""
        return self.outer * self.inner

    @property
    def length(self) -> int:
        """How many elements make one result."""
        return self.segments * self.reduce

    @property
    def numel(self) -> int:
        """How many elements there are."""
        return self.rows * self.length


@dataclass(frozen=True, slots=True)
class Fold:
    """`expression` folded by `operation` over a block; `leaf` names the value."""

    operation: str
    expression: Scalar
    leaf: Scalar


@dataclass(slots=True)
class Reduction:
    """A reduction: folds of a block, the block's state, how states merge, the results.

    `variables` are those of segments, outer, reduce and inner. Results are stored densely at
    `outer * inner`, one buffer each; `owner` numbers the leaves (`Named`) that belong to it.
    """

    owner: int
    geometry: Geometry
    variables: tuple[Var, Var, Var, Var]
    folds: list[Fold]
    block: list[Scalar]
    identity: list[Scalar]
    merge: list[Scalar]
    finalize: list[Scalar]
    results: list[Buffer]
    origin: str = ""
    #: whether a block can matter at all, from its first fold and the state
    improves: Scalar | None = None
    reads: set[Buffer] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.reads = {found.buffer for found in loads_of(self.expressions)}

    @property
    def expressions(self) -> list[Any]:
        """Everything that may read a buffer."""
        return [*(fold.expression for fold in self.folds), *self.block, *self.finalize]

    @property
    def writes(self) -> list[Buffer]:
        """The buffers written."""
        return self.results

    @property
    def place(self) -> Index:
        """Where a row's results lie."""
        _, outer, _, inner = self.variables
        return ix.of(outer) * self.geometry.inner + ix.of(inner)

    @property
    def flat(self) -> Index:
        """Where an element lies in dense memory of all elements."""
        segment, outer, reduce, inner = map(ix.of, self.variables)
        shape = self.geometry
        return ((segment * shape.outer + outer) * shape.reduce + reduce) * shape.inner + inner
