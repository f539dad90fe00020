"""What is done in which run over a row: sweeps, the passes of their blocks, what is kept between.

Takes: reductions and stores by element, and the variables that run along a row; of a compiled graph
(`nest`) or of a program of the table (`programs`). Gives: `Store`, `Pass`, `Sweep`, and
`Arrangement`, which makes them.
Keeps true: a sweep uses results of earlier sweeps only, a pass folds of earlier passes; what is the
same for a whole row, or block, is computed once in it; a dear value that two passes need is kept,
while there is room.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from facula.lower.loops import index as ix
from facula.lower.loops import ir
from facula.lower.loops.elementwise import is_call
from facula.lower.loops.index import Index, Var
from facula.lower.loops.ir import Buffer, Named, Reduction
from facula.ops.expr.node import Scalar, substitute, topological_order

#: bytes of a row that are kept between sweeps instead of computed again
KEPT_BYTES = 1 << 17


@dataclass(slots=True)
class Store:
    """One real number written, or added to what is there."""

    buffer: Buffer
    index: Index
    expression: Scalar
    adds: bool = False


@dataclass(slots=True)
class Pass:
    """One run over a block: values of the block that it needs (name, expression), folds by name,
    elements kept for later (name, expression), stores."""

    before: list[tuple[Scalar, Scalar]] = field(default_factory=list)
    folds: list[ir.Fold] = field(default_factory=list)
    kept: list[tuple[Scalar, Scalar]] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)

    @property
    def expressions(self) -> list[Scalar]:
        """All that the pass computes for an element."""
        return [
            *(e for _, e in self.kept), *(f.expression for f in self.folds),
            *(s.expression for s in self.stores),
        ]  # fmt: skip

    def replace(self, replacement: dict[int, Scalar]) -> None:
        """Put other expressions in the place of some."""

        def new(expression: Scalar) -> Scalar:
            return substitute((expression,), replacement)[0]

        self.before = [(name, new(e)) for name, e in self.before]
        self.kept = [(name, new(e)) for name, e in self.kept]
        self.folds = [ir.Fold(f.operation, new(f.expression), f.leaf) for f in self.folds]
        for store in self.stores:
            store.expression = new(store.expression)


@dataclass(slots=True)
class Sweep:
    """One run over all rows: passes over each block, and what is done once a row before and after.

    `before` are (name, expression) that do not change along the row; `finish` are results (name,
    expression) of the sweep's reductions.
    """

    before: list[tuple[Scalar, Scalar]] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    reductions: list[Reduction] = field(default_factory=list)


#: what a value is the same for
ROW, BLOCK, ELEMENT = range(3)
#: names that are different for every element, or for every block
_MOVING = {
    **dict.fromkeys(("place", "kept"), ELEMENT),
    **dict.fromkeys(("fold", "length", "origin", "left", "right"), BLOCK),
}


class Arrangement:
    """Distributes reductions and stores over sweeps.

    Args:
        sweeping: the variables that run along a row.
        reductions: in an order in which each uses earlier ones only.
        by_element: what is stored for every element.
        cells: how many elements are kept at a time; None keeps none.
    """

    def __init__(
        self,
        sweeping: Collection[Var],
        reductions: list[Reduction],
        by_element: list[Store],
        cells: int | None,
    ) -> None:
        self.sweeping, self.cells = sweeping, cells
        self.reductions, self.by_element = reductions, by_element
        self.level_of: dict[int, int] = {}  # reduction -> its sweep
        self._memo: dict[int, tuple[Scalar, int, int]] = {}
        self._names = 0
        for r in reductions:
            self.level_of[r.owner] = max(
                [self.level(f.expression) for f in r.folds] + [self.level(e) for e in r.block]
            )

    # --- what an expression depends on
    def look(self, expression: Scalar) -> tuple[Scalar, int, int]:
        """(itself, the first sweep that can compute it, what it is the same for)."""
        for current in topological_order([expression]):
            if id(current) in self._memo:
                continue
            if current.op == "input":
                level, same = self._leaf(current.value)
            else:
                below = [self._memo[id(arg)] for arg in current.args]
                level = max((b[1] for b in below), default=0)
                same = max((b[2] for b in below), default=ROW)
            self._memo[id(current)] = (current, level, same)
        return self._memo[id(expression)]

    def _leaf(self, value: Any) -> tuple[int, int]:
        if isinstance(value, Named):
            if value.kind == "result":
                return self.level_of[value.owner] + 1, ROW
            return 0, _MOVING.get(value.kind, ROW)
        level, same = 0, ROW
        for atom in value.index.atoms():
            if isinstance(atom, Var):
                same = ELEMENT if atom in self.sweeping else same
            elif isinstance(atom, ix.Indirect):
                _, below, moving = self.look(atom.value)
                level, same = max(level, below), max(same, moving)
        return level, same

    def level(self, expression: Scalar) -> int:
        """The first sweep that can compute an expression."""
        return self.look(expression)[1]

    # --- distribution
    def run(self) -> tuple[list[Sweep], list[Scalar]]:
        """The sweeps, and the names of what is kept between passes."""
        count = 1 + max(
            [*self.level_of.values(), *(self.level(s.expression) for s in self.by_element)],
            default=0,
        )
        sweeps = [Sweep() for _ in range(count)]
        for r in self.reductions:
            sweeps[self.level_of[r.owner]].reductions.append(r)
        for sweep in sweeps:
            self._passes(sweep)
        for store in self.by_element:
            passes = sweeps[self.level(store.expression)].passes
            if not passes:
                passes.append(Pass())
            passes[0].stores.append(store)
        kept = [] if self.cells is None else self._keep(sweeps, self.cells)
        for sweep in sweeps:
            self._lift(sweep)
        return sweeps, kept

    def _passes(self, sweep: Sweep) -> None:
        """Folds over a block in order: one that needs another's value comes in a later pass."""
        depth: dict[tuple[int, int], int] = {}
        for r in sweep.reductions:
            for k, fold in enumerate(r.folds):
                below = [
                    depth[e.value.owner, e.value.number] + 1
                    for e in topological_order([fold.expression])
                    if e.op == "input" and isinstance(e.value, Named) and e.value.kind == "fold"
                ]
                number = depth[r.owner, k] = max(below, default=0)
                while len(sweep.passes) <= number:
                    sweep.passes.append(Pass())
                sweep.passes[number].folds.append(fold)

    # --- values kept between passes and sweeps
    def _keep(self, sweeps: list[Sweep], cells: int) -> list[Scalar]:
        """Keep dear values that a later pass would compute again, while a row of them is small."""
        passes = [p for sweep in sweeps for p in sweep.passes]
        kept: list[Scalar] = []
        room = KEPT_BYTES
        for number, early in enumerate(passes):
            computed = {id(n): n for n in topological_order(early.expressions)}
            for late in passes[number + 1 :]:
                for shared in self._shared(late.expressions, computed):
                    size = cells * ir.ITEMSIZE[shared.dtype]
                    if size > room:
                        continue
                    room -= size
                    leaf = ir.leaf(Named("kept", -1, len(kept)), shared.dtype)
                    kept.append(leaf)
                    early.kept.append((leaf, shared))
                    self._memo[id(leaf)] = (leaf, self.level(shared), ELEMENT)
                    for later in passes[number + 1 :]:
                        later.replace({id(shared): leaf})
        return kept

    def _shared(self, roots: list[Scalar], computed: dict[int, Scalar]) -> list[Scalar]:
        found: dict[int, Scalar] = {}
        seen: set[int] = set()
        stack = list(roots)
        while stack:
            current = stack.pop()
            if id(current) in seen or not current.args:
                continue
            seen.add(id(current))
            moves = self.look(current)[2] == ELEMENT
            if id(current) in computed and moves and self._dear(current):
                found[id(current)] = current
            else:
                stack.extend(current.args)
        return list(found.values())

    def _dear(self, expression: Scalar) -> bool:
        return any(
            is_call(e) and self.look(e)[2] == ELEMENT for e in topological_order([expression])
        )

    # --- values of a row, values of a block
    def _lift(self, sweep: Sweep) -> None:
        """Take what is the same for a whole block out of the passes, for a whole row out of the
        sweep."""
        of_row: dict[int, tuple[Scalar, Scalar]] = {}
        for each in sweep.passes:
            of_block: dict[int, tuple[Scalar, Scalar]] = {}
            each.replace(self._lifted(each.expressions, BLOCK, of_block))
            each.before = list(of_block.values())
            roots = [*(e for _, e in each.before), *each.expressions]
            each.replace(self._lifted(roots, ROW, of_row))
        sweep.before = list(of_row.values())

    def _lifted(
        self, roots: list[Scalar], scope: int, lifted: dict[int, tuple[Scalar, Scalar]]
    ) -> dict[int, Scalar]:
        """Names for the largest parts of expressions that are the same for a scope and no wider one."""
        replacement: dict[int, Scalar] = {}
        seen: set[int] = set()
        stack = list(roots)
        while stack:
            current = stack.pop()
            if id(current) in seen or current.op == "constant":
                continue
            seen.add(id(current))
            same = self.look(current)[2]
            if same > scope:
                stack.extend(current.args)
            if same != scope or isinstance(current.value, Named):
                continue
            if id(current) not in lifted:
                named = ir.leaf(Named("uniform", -1, self._names), current.dtype)
                self._names += 1
                self._memo[id(named)] = (named, self.level(current), scope)
                lifted[id(current)] = (named, current)
            replacement[id(current)] = lifted[id(current)][0]
        return replacement
