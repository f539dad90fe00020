"""Loop nests: a fused kernel laid out as loops, sweeps over rows, and what is computed between.

Takes: a `fuse.Kernel` and the buffers that somebody else reads. Gives: `Flat` or `Rows`, ready to
be written in any language.
Keeps true: values that the kernel itself computes are never loaded; a store is left out where
nobody reads the buffer; a variable falls apart into digits where that takes quotients and
remainders away; a sweep uses results of earlier sweeps only; what is the same for a whole row is
computed once a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from facula.lower.loops import index as ix
from facula.lower.loops import ir
from facula.lower.loops.elementwise import is_call
from facula.lower.loops.fuse import Kernel
from facula.lower.loops.index import Index, Var, split
from facula.lower.loops.ir import Buffer, Elementwise, Geometry, Load, Named, Reduction
from facula.ops.scalar_node import Scalar, substitute, topological_order

#: a digit that is swept is at least so long, or the variable stays whole
SHORTEST = 8
#: bytes of a row that are kept between sweeps instead of computed again
KEPT_BYTES = 1 << 17


@dataclass(slots=True)
class Store:
    """One real number written."""

    buffer: Buffer
    index: Index
    expression: Scalar


@dataclass(slots=True)
class Flat:
    """Independent iterations over `loops`, the last of which lies densely in what is written."""

    loops: list[Var]
    stores: list[Store]
    #: what is written past the caches (`streams.marked`)
    streams: frozenset[Buffer] = frozenset()

    def shares(self, read: Buffer, written: Buffer) -> bool:
        """Whether a buffer may be written over another: each element is read by its own iteration."""
        places = {store.index for store in self.stores if store.buffer is written}
        loads = ir.loads_of([store.expression for store in self.stores])
        return len(places) > 0 and all(
            {found.index} == places for found in loads if found.buffer is read
        )


@dataclass(slots=True)
class Pass:
    """One run over a block: folds by name, elements kept for later (name, expression), stores."""

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


@dataclass(slots=True)
class Sweep:
    """One run over all rows: passes over each block, and what is done once a row before and after.

    `before` are (name, expression) that do not change along the row; `finish` are results (name,
    expression) of the sweep's reductions.
    """

    before: list[tuple[Scalar, Scalar]] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    reductions: list[Reduction] = field(default_factory=list)


@dataclass(slots=True)
class Rows:
    """Rows of a geometry, swept in order; then `stores` of values that belong to a row."""

    geometry: Geometry
    outer: list[Var]
    segments: list[Var]
    reduce: list[Var]
    inner: list[Var]
    variables: tuple[Var, ...]
    sweeps: list[Sweep]
    stores: list[Store]
    kept: list[Scalar]
    #: what is written past the caches (`streams.marked`)
    streams: frozenset[Buffer] = frozenset()

    @property
    def splits(self) -> bool:
        """Whether a row may be cut into parts whose states are merged: one sweep, and whatever it
        stores by element needs no result."""
        return len(self.sweeps) == 1 and not self.kept


def lay_out(kernel: Kernel, wanted: Callable[[Buffer], bool]) -> Flat | Rows:
    """The loop nest of a kernel; `wanted` tells which buffers are read elsewhere."""
    return (_FlatLayout if kernel.geometry is None else _RowsLayout)(kernel, wanted).run()


class _Layout:
    """What both layouts share: forwarding of stored values, and splitting of variables."""

    def __init__(self, kernel: Kernel, wanted: Callable[[Buffer], bool]) -> None:
        self.kernel, self.wanted = kernel, wanted
        known: dict[tuple[Buffer, Index], Scalar] = {}

        def forwarded(leaf: Scalar) -> Scalar | None:
            value = leaf.value
            return known.get((value.buffer, value.index)) if isinstance(value, Load) else None

        self.known, self.forward = known, ir.Rewriter({}, forwarded)

    def elementwise(self, step: Elementwise) -> list[Store]:
        """The stores of a step over forwarded values; those wanted elsewhere."""
        found = []
        for store in step.stores:
            for at, expression in store.parts():
                new = self.forward.scalar(expression)
                self.known[store.buffer, at] = new
                if self.wanted(store.buffer):
                    found.append(Store(store.buffer, at, new))
        return found

    @staticmethod
    def indices(stores: Iterable[Store], expressions: Iterable[Any]) -> list[Index]:
        """Every index that is used."""
        found = [store.index for store in stores]
        for leaf in ir.leaves([*(s.expression for s in stores), *expressions]):
            index = getattr(leaf.value, "index", None)
            if index is not None:
                found.append(index)
        return found


class _FlatLayout(_Layout):
    def run(self) -> Flat:
        stores = [store for step in self.kernel.steps for store in self.elementwise(step)]
        (variable,) = self.kernel.variables
        loops, value = split(variable, self.indices(stores, []))
        rewrite = ir.Rewriter({variable: value})
        moved = [
            Store(s.buffer, rewrite.index(s.index), rewrite.scalar(s.expression)) for s in stores
        ]
        return Flat([v for v in loops if v.extent != 1] or loops[-1:], moved)


class _RowsLayout(_Layout):
    def run(self) -> Rows:
        geometry = self.kernel.geometry
        assert geometry is not None
        self.stage: dict[int, int] = {}  # owner of a reduction -> the sweep that computes it
        self.swept: dict[Var, bool] = {}
        by_row: list[Store] = []
        by_element: list[Store] = []
        reductions: list[Reduction] = []
        for step in self.kernel.steps:
            if isinstance(step, Elementwise):
                element = step.variable.extent == geometry.numel and geometry.length > 1
                (by_element if element else by_row).extend(self.elementwise(step))
            else:
                reductions.append(self._reduction(step))
        by_row += self._results(reductions)
        loops, rewrite = self._split(reductions, by_element, by_row)
        reductions = [self._moved(r, rewrite) for r in reductions]
        by_element = [self._moved_store(s, rewrite) for s in by_element]
        by_row = [self._moved_store(s, rewrite) for s in by_row]
        sweeping = {*loops[0], *loops[2]}
        arrange = _Arrangement(sweeping, reductions, by_element, by_row)
        sweeps, kept = arrange.run(geometry)
        return Rows(
            geometry, loops[1], loops[0], loops[2], loops[3], self.kernel.variables,
            sweeps, by_row, kept,
        )  # fmt: skip

    def _reduction(self, step: Reduction) -> Reduction:
        go = self.forward.scalar
        folds = [ir.Fold(f.operation, go(f.expression), f.leaf) for f in step.folds]
        new = Reduction(
            step.owner, step.geometry, step.variables, folds, [go(e) for e in step.block],
            step.identity, step.merge, [go(e) for e in step.finalize], step.results, step.origin,
        )  # fmt: skip
        for k, (buffer, value) in enumerate(zip(step.results, step.finalize, strict=True)):
            named = ir.leaf(Named("result", step.owner, k), value.dtype)
            self.known[buffer, self.kernel.place] = named
        return new

    def _results(self, reductions: list[Reduction]) -> list[Store]:
        place = self.kernel.place
        return [
            Store(buffer, place, ir.leaf(Named("result", r.owner, k), value.dtype))
            for r in reductions
            for k, (buffer, value) in enumerate(zip(r.results, r.finalize, strict=True))
            if self.wanted(buffer)
        ]

    def _split(
        self, reductions: list[Reduction], *stores: list[Store]
    ) -> tuple[list[list[Var]], ir.Rewriter]:
        everything = [s for group in stores for s in group]
        indices = self.indices(everything, [e for r in reductions for e in r.expressions])
        loops, replacement = [], {}
        for variable in self.kernel.variables:
            digits, value = split(variable, indices)
            if digits[-1].extent < SHORTEST and variable is not self.kernel.variables[1]:
                digits, value = [variable], ix.of(variable)
            loops.append([v for v in digits if v.extent != 1] or digits[-1:])
            replacement[variable] = value
        return loops, ir.Rewriter(replacement)

    @staticmethod
    def _moved_store(store: Store, rewrite: ir.Rewriter) -> Store:
        return Store(store.buffer, rewrite.index(store.index), rewrite.scalar(store.expression))

    @staticmethod
    def _moved(step: Reduction, rewrite: ir.Rewriter) -> Reduction:
        go = rewrite.scalar
        folds = [ir.Fold(f.operation, go(f.expression), f.leaf) for f in step.folds]
        return Reduction(
            step.owner, step.geometry, step.variables, folds, [go(e) for e in step.block],
            step.identity, step.merge, [go(e) for e in step.finalize], step.results, step.origin,
        )  # fmt: skip


#: names that are different for every element or block
_MOVING = frozenset({"place", "fold", "length", "origin", "left", "right", "kept"})


class _Arrangement:
    """Distributes reductions and stores over sweeps."""

    def __init__(
        self,
        sweeping: set[Var],
        reductions: list[Reduction],
        by_element: list[Store],
        by_row: list[Store],
    ) -> None:
        self.sweeping = sweeping
        self.reductions, self.by_element, self.by_row = reductions, by_element, by_row
        self.level_of: dict[int, int] = {}  # reduction -> its sweep
        self._memo: dict[int, tuple[Scalar, int, bool]] = {}
        self._names = 0
        for r in reductions:
            self.level_of[r.owner] = max(
                [self.level(f.expression) for f in r.folds] + [self.level(e) for e in r.block]
            )

    # --- what an expression depends on
    def look(self, expression: Scalar) -> tuple[Scalar, int, bool]:
        """(itself, the first sweep that can compute it, whether it varies along the row)."""
        for current in topological_order([expression]):
            if id(current) in self._memo:
                continue
            if current.op == "input":
                level, varies = self._leaf(current.value)
            else:
                below = [self._memo[id(arg)] for arg in current.args]
                level = max((b[1] for b in below), default=0)
                varies = any(b[2] for b in below)
            self._memo[id(current)] = (current, level, varies)
        return self._memo[id(expression)]

    def _leaf(self, value: Any) -> tuple[int, bool]:
        if isinstance(value, Named):
            if value.kind == "result":
                return self.level_of[value.owner] + 1, False
            return 0, value.kind in _MOVING
        level, varies = 0, False
        for atom in value.index.atoms():
            if isinstance(atom, Var):
                varies = varies or atom in self.sweeping
            elif isinstance(atom, ix.Indirect):
                _, below, moving = self.look(atom.value)
                level, varies = max(level, below), varies or moving
        return level, varies

    def level(self, expression: Scalar) -> int:
        """The first sweep that can compute an expression."""
        return self.look(expression)[1]

    # --- distribution
    def run(self, geometry: Geometry) -> tuple[list[Sweep], list[Scalar]]:
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
        kept = self._keep(sweeps, geometry)
        for sweep in sweeps:
            sweep.before = self._lift(sweep)
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
    def _keep(self, sweeps: list[Sweep], geometry: Geometry) -> list[Scalar]:
        """Keep dear values that a later pass would compute again, while a row of them is small."""
        passes = [p for sweep in sweeps for p in sweep.passes]
        kept: list[Scalar] = []
        room = KEPT_BYTES
        for number, early in enumerate(passes):
            computed = {id(n): n for n in topological_order(early.expressions)}
            for late in passes[number + 1 :]:
                for shared in self._shared(late.expressions, computed):
                    size = geometry.length * ir.ITEMSIZE[shared.dtype]
                    if geometry.inner > 1:
                        size *= min(geometry.inner, 16)
                    if size > room:
                        continue
                    room -= size
                    leaf = ir.leaf(Named("kept", -1, len(kept)), shared.dtype)
                    kept.append(leaf)
                    early.kept.append((leaf, shared))
                    self._memo[id(leaf)] = (leaf, self.level(shared), True)
                    for later in passes[number + 1 :]:
                        _replace(later, {id(shared): leaf})
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
            if id(current) in computed and self.look(current)[2] and self._dear(current):
                found[id(current)] = current
            else:
                stack.extend(current.args)
        return list(found.values())

    def _dear(self, expression: Scalar) -> bool:
        return any(is_call(e) and self.look(e)[2] for e in topological_order([expression]))

    # --- values of a row
    def _lift(self, sweep: Sweep) -> list[tuple[Scalar, Scalar]]:
        """Take what is the same for a whole row out of the sweep."""
        lifted: dict[int, tuple[Scalar, Scalar]] = {}
        for each in sweep.passes:
            replacement: dict[int, Scalar] = {}
            seen: set[int] = set()
            stack = list(each.expressions)
            while stack:
                current = stack.pop()
                if id(current) in seen or current.op == "constant":
                    continue
                seen.add(id(current))
                if self.look(current)[2]:
                    stack.extend(current.args)
                    continue
                if isinstance(current.value, Named):
                    continue
                if id(current) not in lifted:
                    named = ir.leaf(Named("uniform", -1, self._names), current.dtype)
                    self._names += 1
                    self._memo[id(named)] = (named, self.level(current), False)
                    lifted[id(current)] = (named, current)
                replacement[id(current)] = lifted[id(current)][0]
            if replacement:
                _replace(each, replacement)
        return list(lifted.values())


def _replace(each: Pass, replacement: dict[int, Scalar]) -> None:
    def new(expression: Scalar) -> Scalar:
        return _substituted(expression, replacement)

    each.kept = [(name, new(e)) for name, e in each.kept]
    each.folds = [ir.Fold(f.operation, new(f.expression), f.leaf) for f in each.folds]
    each.stores = [Store(s.buffer, s.index, new(s.expression)) for s in each.stores]


def _substituted(expression: Scalar, replacement: dict[int, Scalar]) -> Scalar:
    return substitute((expression,), replacement)[0]
