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
from dataclasses import dataclass
from typing import Any

from facula.lower.loops import index as ix
from facula.lower.loops import ir
from facula.lower.loops.fuse import Kernel
from facula.lower.loops.index import Index, Var, split
from facula.lower.loops.ir import Buffer, Elementwise, Geometry, Load, Named, Reduction
from facula.lower.loops.sweeps import Arrangement, Pass, Store, Sweep
from facula.ops.expr.node import Scalar

__all__ = ["Flat", "Pass", "Rows", "Store", "Sweep", "lay_out"]

#: a digit that is swept is at least so long, or the variable stays whole
SHORTEST = 8


@dataclass(slots=True)
class Flat:
    """Independent iterations over `loops`, the last of which lies densely in what is written."""

    loops: list[Var]
    stores: list[Store]
    #: what is written past the caches (`non_temporal.marked`)
    non_temporal: frozenset[Buffer] = frozenset()

    def shares(self, read: Buffer, written: Buffer) -> bool:
        """Whether a buffer may be written over another: each element is read by its own iteration."""
        places = {store.index for store in self.stores if store.buffer is written}
        loads = ir.loads_of([store.expression for store in self.stores])
        return len(places) > 0 and all(
            {found.index} == places for found in loads if found.buffer is read
        )


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
    #: what is written past the caches (`non_temporal.marked`)
    non_temporal: frozenset[Buffer] = frozenset()

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
        cells = geometry.length * (min(geometry.inner, 16) if geometry.inner > 1 else 1)
        sweeps, kept = Arrangement(sweeping, reductions, by_element, cells).run()
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
