"""Scheduling of row programs: which folds share a pass over the row, and what is kept between
passes.

Takes: folds and full expressions of a traced program (`ops.rows`).
Gives: `Schedule`: passes in order; in each the folds to compute and the full results to write, the
row-uniform values to compute before it, and the temporaries that it stores for later passes.
Keeps true: a pass reads only folds of earlier passes; every expression is computed at the earliest
pass that can; a value that costs more than a few instructions is computed once and kept where two
passes need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from facula.ops import rows
from facula.ops import scalar_node as nodes
from facula.ops.scalar import Scalar

#: primitives that cost an instruction or two: cheaper to repeat than to store
_CHEAP = frozenset(
    "add sub mul neg abs cast where lt le gt ge eq ne minimum maximum fmin fmax isnan "
    "logical_and logical_or "
    "logical_not bitwise_and bitwise_or bitwise_xor bitwise_not select square constant parameter "
    "input".split()
)


@dataclass(slots=True)
class Pass:
    """One sweep over the row. `folds` and `results` hold (number, expression), `gathers` (number,
    operand, index)."""

    gathers: list[tuple[int, Scalar, Scalar]] = field(default_factory=list)
    uniforms: list[tuple[Scalar, Scalar]] = field(default_factory=list)
    folds: list[tuple[int, Scalar]] = field(default_factory=list)
    results: list[tuple[int, Scalar]] = field(default_factory=list)
    temporaries: list[tuple[Scalar, Scalar]] = field(default_factory=list)

    @property
    def roots(self) -> list[Scalar]:
        """Every expression that the sweep computes."""
        return (
            [e for _, e in self.temporaries]
            + [e for _, e in self.folds]
            + [e for _, e in self.results]
        )


@dataclass(slots=True)
class Schedule:
    """The passes, and what is uniform after the last (`final`: result number -> expression)."""

    passes: list[Pass]
    final: dict[int, Scalar]
    temporaries: list[Scalar]


class _Analysis:
    """Fold level of expressions, and whether they vary within the row."""

    def __init__(self, folds: Iterable[rows.Fold], varying: Callable[[Scalar], bool]) -> None:
        self.varying = varying
        self.fold_level: dict[int, int] = {}
        self._memo: dict[int, tuple[int, bool]] = {}
        for fold in folds:  # a fold refers to earlier folds only, so this order is enough
            above = (
                self.level(fold.index)
                if fold.index is not None
                else self.level(fold.expression) + 1
            )
            self.fold_level[id(fold.leaf)] = above

    def look(self, expression: Scalar) -> tuple[int, bool]:
        """(level, varies within the row)."""
        for current in nodes.topological_order([expression]):
            if id(current) in self._memo:
                continue
            if current.args:
                below = [self._memo[id(arg)] for arg in current.args]
                self._memo[id(current)] = (max(b[0] for b in below), any(b[1] for b in below))
            else:
                level = self.fold_level.get(id(current), 0)
                self._memo[id(current)] = (level, self.varying(current))
        return self._memo[id(expression)]

    def level(self, expression: Scalar) -> int:
        return self.look(expression)[0]

    def varies(self, expression: Scalar) -> bool:
        return self.look(expression)[1]


def schedule(
    folds: tuple[rows.Fold, ...],
    results: Iterable[tuple[int, Scalar, bool]],
    varying: Callable[[Scalar], bool],
    keep_temporaries: bool,
) -> Schedule:
    """Arrange folds and results (number, expression, swept) in passes.

    `varying(leaf)` says which leaves differ along the row; `swept` results are written or summed
    element by element, the others are uniform and come after the last pass.
    """
    analysis = _Analysis(folds, varying)
    passes: list[Pass] = []

    def at(level: int) -> Pass:
        while len(passes) <= level:
            passes.append(Pass())
        return passes[level]

    for number, fold in enumerate(folds):
        if fold.index is not None:
            at(analysis.level(fold.index)).gathers.append((number, fold.expression, fold.index))
            continue
        at(analysis.level(fold.expression)).folds.append((number, fold.expression))
    final: dict[int, Scalar] = {}
    for number, expression, swept in results:
        if swept:
            at(analysis.level(expression)).results.append((number, expression))
        else:
            final[number] = expression
    kept = _share(passes, analysis) if keep_temporaries else []
    _lift_uniform(passes, analysis)
    return Schedule(passes, final, kept)


def _expensive(expression: Scalar, analysis: _Analysis) -> bool:
    return any(
        current.op not in _CHEAP and analysis.varies(current)
        for current in nodes.topological_order([expression])
    )


def _share(passes: list[Pass], analysis: _Analysis) -> list[Scalar]:
    """Store what a later pass would compute again, if it is dear; gives the leaves of these."""
    kept: list[Scalar] = []
    for early in range(len(passes)):
        available = {id(n): n for n in nodes.topological_order(passes[early].roots)}
        for late in passes[early + 1 :]:
            for shared in _largest_shared(late.roots, available, analysis):
                leaf = nodes.input(rows.TEMPORARY + len(kept), shared.dtype)
                kept.append(leaf)
                analysis._memo[id(leaf)] = analysis.look(shared)
                passes[early].temporaries.append((leaf, shared))
                for later in passes[early + 1 :]:
                    _replace(later, {id(shared): leaf})
    return kept


def _largest_shared(
    roots: list[Scalar], available: dict[int, Scalar], analysis: _Analysis
) -> list[Scalar]:
    found: dict[int, Scalar] = {}
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if id(current) in available and current.args and analysis.varies(current):
            if _expensive(current, analysis):
                found[id(current)] = current
            continue
        stack.extend(current.args)
    return list(found.values())


def _replace(sweep: Pass, replacement: dict[int, Scalar]) -> None:
    def renew(pairs: list) -> list:
        if not pairs:
            return pairs
        changed = nodes.substitute(tuple(expression for _, expression in pairs), replacement)
        return [(key, new) for (key, _), new in zip(pairs, changed, strict=True)]

    sweep.folds, sweep.results = renew(sweep.folds), renew(sweep.results)
    sweep.temporaries = renew(sweep.temporaries)


def _lift_uniform(passes: list[Pass], analysis: _Analysis) -> None:
    """Compute what does not vary along the row once, before the sweep."""
    count = 0
    for sweep in passes:
        replacement: dict[int, Scalar] = {}
        seen: set[int] = set()
        stack = list(sweep.roots)
        while stack:
            current = stack.pop()
            if id(current) in seen or not current.args:
                continue
            seen.add(id(current))
            if analysis.varies(current):
                stack.extend(current.args)
                continue
            leaf = nodes.input(rows.UNIFORM + count, current.dtype)
            count += 1
            analysis._memo[id(leaf)] = (analysis.level(current), False)
            sweep.uniforms.append((leaf, current))
            replacement[id(current)] = leaf
        if replacement:
            _replace(sweep, replacement)
