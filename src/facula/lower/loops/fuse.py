"""Fusion: steps become kernels, each one loop nest that computes several of them.

Takes: the steps of a program in order, and the buffers that are wanted outside. Gives: `fuse`:
kernels and extern steps in an order that computes every buffer before it is read.
Keeps true: a step joins a kernel only where every element that it reads of the kernel's own
buffers is the one that the same iteration writes, or a result of a whole row that is finished by
then; no cycle between kernels arises; a buffer that only its own kernel reads is never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from facula.lower.loops import index as ix
from facula.lower.loops import ir
from facula.lower.loops.index import Index, Var
from facula.lower.loops.ir import Buffer, Elementwise, Geometry, Reduction
from facula.lower.loops.transposed import step_reads_across
from facula.ops.expr.node import Scalar, topological_order

#: what one kernel holds at most: buffers, and nodes of expressions
MOST_BUFFERS, MOST_NODES = 40, 900
#: rows from which a row that is swept several times keeps all threads busy; elements below which
#: it does not matter
ENOUGH_ROWS, FEW_ELEMENTS = 16, 65536


class Kernel:
    """Steps over one iteration space: `[0, numel)`, or a reduction's geometry."""

    def __init__(self, step: Elementwise | Reduction) -> None:
        self.across = step_reads_across(step)
        self.geometry: Geometry | None = None
        self.variables: tuple[Var, ...]
        if isinstance(step, Reduction):
            self.geometry, self.variables = step.geometry, step.variables
        else:
            self.variables = (step.variable,)
        self._hold([step])

    def _hold(self, steps: Sequence[Any]) -> None:
        """Consist of some steps."""
        self.steps: list[Any] = []
        #: buffers that steps read (those of the kernel included) and write; nodes of expressions
        self.reads: set[Buffer] = set()
        self.writes: list[Buffer] = []
        self.nodes = 0
        for step in steps:
            self.add(step)

    def add(self, step: Elementwise) -> None:
        """Append a step over the kernel's variables."""
        self.steps.append(step)
        self.reads |= step.reads
        self.writes += step.writes
        self.nodes += len(topological_order(step.expressions))

    def over(
        self, geometry: Geometry | None, variables: tuple[Var, ...], steps: Sequence[Any]
    ) -> Kernel:
        """A kernel of other steps over another iteration space."""
        new = Kernel.__new__(Kernel)
        new.across, new.geometry, new.variables = self.across, geometry, variables
        new._hold(steps)
        return new

    def copy(self) -> Kernel:
        """The same kernel, to add to."""
        new = Kernel.__new__(Kernel)
        new.across, new.geometry, new.variables = self.across, self.geometry, self.variables
        new.steps, new.writes = list(self.steps), list(self.writes)
        new.reads, new.nodes = set(self.reads), self.nodes
        return new

    @property
    def numel(self) -> int:
        """How many iterations there are."""
        return self.geometry.numel if self.geometry else self.variables[0].extent

    @property
    def flat(self) -> Index:
        """The number of an iteration, in memory order."""
        if self.geometry is None:
            return ix.of(self.variables[0])
        segment, outer, reduce, inner = map(ix.of, self.variables)
        g = self.geometry
        return ((segment * g.outer + outer) * g.reduce + reduce) * g.inner + inner

    @property
    def place(self) -> Index:
        """The number of a row."""
        assert self.geometry is not None
        return ix.of(self.variables[1]) * self.geometry.inner + ix.of(self.variables[3])

    def stores(self) -> dict[tuple[Buffer, Index], Scalar]:
        """What the kernel writes, by place; results of reductions as names."""
        found: dict[tuple[Buffer, Index], Scalar] = {}
        for step in self.steps:
            if isinstance(step, Elementwise):
                for store in step.stores:
                    for at, expression in store.parts():
                        found[store.buffer, at] = expression
            else:
                for k, (buffer, value) in enumerate(zip(step.results, step.finalize, strict=True)):
                    named = ir.leaf(ir.Named("result", step.owner, k), value.dtype)
                    found[buffer, self.place] = named
        return found


def moved(step: Any, replacement: dict[Var, Index]) -> Any:
    """A step over other variables."""
    rewrite = ir.Rewriter(replacement)
    if isinstance(step, Elementwise):
        stores = [
            ir.Store(s.buffer, rewrite.index(s.index), rewrite.any(s.expression))
            for s in step.stores
        ]
        return Elementwise(step.variable, stores, step.origin)
    folds = [ir.Fold(f.operation, rewrite.scalar(f.expression), f.leaf) for f in step.folds]
    return Reduction(
        step.owner, step.geometry, step.variables, folds,
        [rewrite.scalar(e) for e in step.block], step.identity, step.merge,
        [rewrite.scalar(e) for e in step.finalize], step.results, step.origin,
    )  # fmt: skip


def _into_geometry(kernel: Kernel, numel: int) -> Index | None:
    """Where an elementwise step of `numel` places runs in a kernel with rows."""
    assert kernel.geometry is not None
    if numel == kernel.geometry.numel:
        return kernel.flat
    return kernel.place if numel == kernel.geometry.rows else None


def joined(kernel: Kernel, step: Any) -> Kernel | None:
    """The kernel with a step more, where iteration spaces and reads allow it."""
    places = step.geometry.numel if isinstance(step, Reduction) else step.variable.extent
    if not kernel.numel or not places:
        return None  # loops over nothing say nothing about each other
    across = step_reads_across(step)
    if (across and kernel.geometry) or (kernel.across and isinstance(step, Reduction)):
        return None  # such reads want tiles, which sweeps over rows do not have
    if isinstance(step, Reduction):
        if kernel.geometry is None:
            return _with_rows(kernel, step)
        if kernel.geometry != step.geometry:
            return None
        pairs = zip(step.variables, kernel.variables, strict=True)
        step = moved(step, {old: ix.of(now) for old, now in pairs})
        step.variables = kernel.variables
    elif kernel.geometry is None:
        if step.variable.extent != kernel.numel:
            return None
        step = moved(step, {step.variable: kernel.flat})
        (step.variable,) = kernel.variables  # what a reduction that joins later replaces
    else:
        at = _into_geometry(kernel, step.variable.extent)
        if at is None:
            return None
        step = moved(step, {step.variable: at})
    new = kernel.copy()
    new.across = new.across or across
    return new if _admit(new, step) else None


def _with_rows(kernel: Kernel, step: Reduction) -> Kernel | None:
    """A kernel of elementwise steps with a reduction more."""
    new = kernel.over(step.geometry, step.variables, ())
    for old in kernel.steps:
        at = _into_geometry(new, old.variable.extent)
        if at is None:
            return None
        new.add(moved(old, {old.variable: at}))
    return new if _admit(new, step) else None


def _admit(kernel: Kernel, step: Any) -> bool:
    """Append a step, if all that it reads of the kernel's buffers is at hand."""
    if not step.reads.isdisjoint(kernel.writes):
        written, available = set(kernel.writes), kernel.stores()
        for found in ir.loads_of(step.expressions):
            if found.buffer in written and (found.buffer, found.index) not in available:
                return False
    kernel.add(step)
    if len(kernel.reads.union(kernel.writes)) > MOST_BUFFERS:
        return False
    return kernel.nodes <= MOST_NODES and _stages_pay(kernel)


def _stages_pay(kernel: Kernel) -> bool:
    """Whether sweeping rows several times is no loss: there are rows for all threads."""
    geometry = kernel.geometry
    if geometry is None or geometry.rows >= ENOUGH_ROWS or geometry.numel <= FEW_ELEMENTS:
        return True
    results = {b for s in kernel.steps if isinstance(s, Reduction) for b in s.results}
    for step in kernel.steps:
        if isinstance(step, Reduction):
            swept: Iterable[Any] = [fold.expression for fold in step.folds]
        elif step.variable.extent == geometry.numel:
            swept = step.expressions
        else:
            continue
        if any(found.buffer in results for found in ir.loads_of(swept)):
            return False
    return True


class _Graph:
    """Kernels and extern steps with their dependences; sets of them are bit masks."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.above: list[int] = []  # everything that has to run before
        self.writers: dict[Buffer, list[int]] = {}
        self.kernels: dict[Buffer, set[int]] = {}  # those that read or write a buffer

    def needs(self, step: Any) -> set[int]:
        """The nodes that a step reads from."""
        return {number for buffer in step.reads for number in self.writers.get(buffer, ())}

    def closure(self, numbers: Iterable[int]) -> int:
        """A set and all that has to run before it."""
        found = 0
        for number in numbers:
            found |= 1 << number | self.above[number]
        return found

    def append(self, node: Any, step: Any) -> None:
        """A node of its own for a step."""
        number = len(self.nodes)
        self.nodes.append(node)
        self.above.append(self.closure(self.needs(step)))
        self._note(number, step)

    def extend(self, number: int, kernel: Kernel, step: Any) -> None:
        """Let a node hold a step more."""
        self.nodes[number] = kernel
        added = self.closure(self.needs(step)) & ~(1 << number | self.above[number])
        if added:
            self.above[number] |= added
            for other in range(len(self.above)):
                if self.above[other] >> number & 1:
                    self.above[other] |= added
        self._note(number, step)

    def _note(self, number: int, step: Any) -> None:
        for buffer in step.writes:
            self.writers.setdefault(buffer, []).append(number)
        if isinstance(self.nodes[number], Kernel):
            for buffer in step.reads.union(step.writes):
                self.kernels.setdefault(buffer, set()).add(number)

    def candidates(self, step: Elementwise) -> Iterable[int]:
        """Kernels that a step shares memory with, so that one pass over it saves traffic, and may
        join without a cycle, the latest first."""
        mine = step.reads.union(step.writes)
        found: dict[int, int] = {}  # kernel: the size of the largest buffer shared with it
        for buffer in mine:
            for number in self.kernels.get(buffer, ()):
                found[number] = max(found.get(number, 0), buffer.numel)
        needed = self.needs(step)
        for number in sorted(found, reverse=True):
            if found[number] > self.nodes[number].numel // 64 and not any(
                self.above[other] >> number & 1 for other in needed if other != number
            ):
                yield number

    def ordered(self) -> list[Any]:
        """Nodes in an order of dependence, otherwise as they came."""
        done, order, left = 0, [], list(range(len(self.nodes)))
        while left:
            number = next(n for n in left if not self.above[n] & ~done)
            left.remove(number)
            done |= 1 << number
            order.append(self.nodes[number])
        return order


def fuse(steps: Sequence[Any]) -> list[Any]:
    """Kernels and extern steps for the steps of a program."""
    graph = _Graph()
    for step in steps:
        if isinstance(step, ir.Extern):
            graph.append(step, step)
            continue
        for number in graph.candidates(step):
            new = joined(graph.nodes[number], step)
            if new is not None:
                graph.extend(number, new, step)
                break
        else:
            graph.append(Kernel(step), step)
    return graph.ordered()
