"""How an operator runs on pieces: which placements its tensors take, and which its results have.

Takes: a definition with its field `shards` (`ops.table.sharding`), and the arguments of a call. Gives: a `Plan`, or
None where the operator has to run on whole tensors.
Keeps true: for each dimension of the mesh the cheapest way is taken, counted in bytes that are sent; what an
operator writes to keeps its placements.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from facula import core
from facula.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
    _StridedShard,
)
from facula.ops.table import sharding
from facula.ops.table.sharding import Equation

if TYPE_CHECKING:
    from facula.ops.table.definition import Definition


__all__ = ["Plan", "ShardingPropagator", "change_cost", "planned"]

#: words for elementwise operators
_LINEAR = ("linear", "multilinear", "first")
_named = cache(sharding.rule_of)
#: one way along one dimension of the mesh: the placement of each tensor (None: any), and of each result
Way = tuple[tuple[Placement | None, ...], tuple[Placement, ...]]


@dataclass
class Plan:
    """How a call runs."""

    #: for each tensor argument, the placements that it takes; None: it stays as it is
    wanted: list[tuple[Placement, ...] | None]
    #: for each result, its placements
    placements: list[tuple[Placement, ...]]
    #: for each result, the letters of its dimensions
    results: list[str]
    sizes: dict[str, int]
    shapes: tuple[tuple[int, ...], ...] | None
    #: arguments of the call on pieces that differ
    arguments: dict[str, Any]

    def shape(self, number: int, piece: Sequence[int]) -> tuple[int, ...]:
        """The whole shape of a result, from that of this rank's piece."""
        if self.shapes is not None:
            return self.shapes[number]
        letters = self.results[number]
        if letters == "*":
            return tuple(piece)
        return tuple(self.sizes.get(n, p) for n, p in zip(letters, piece, strict=True))


def _bare(text: str) -> str:
    return text.lstrip("+?")


class _Question:
    """A call, along one dimension of the mesh after the other."""

    def __init__(self, equation: Equation, tensors: Sequence[Any], linear: str, mesh: Any) -> None:
        self.mesh, self.linear, self.tensors, self.arranging = mesh, linear, tensors, False
        into, _, out = equation.text.partition("->")
        self.into = into.split(",")
        self.out = [r.partition(":")[0] for r in out.split(",")]
        self.kinds = [r.partition(":")[2] if ":" in r else "sum" for r in out.split(",")]
        self.sizes: dict[str, int] = {}
        for text, tensor in zip(self.into, tensors, strict=True):
            for letter, size in zip(_bare(text), tensor.shape, strict=True):
                self.sizes[letter] = size
        #: what is left of a dimension in each piece, and by how many it was cut evenly
        self.pieces = dict(self.sizes)
        self.cut: dict[str, int] = {}

    def ways(self, mesh_dim: int, current: Sequence[Placement]) -> Iterator[Way]:
        """All ways along a dimension of the mesh, cut ones first."""
        count = self.mesh.size(mesh_dim)
        for letter in self.sizes:
            found = self._cut_along(letter, count)
            if letter != "." and found is not None:
                yield found
        yield from self._partial(current)
        yield from self._left_to_do(current)
        whole: tuple[Placement, ...] = (Replicate(),) * len(self.out)
        yield tuple(None if t.startswith("?") else Replicate() for t in self.into), whole

    def _cut_along(self, letter: str, count: int) -> Way | None:
        if letter == "." or (letter.isupper() and not self._even(letter, count)):
            return None
        inside = any(letter in text for text in self.out)
        into: list[Placement | None] = []
        for text in self.into:
            names = _bare(text)
            if letter in names:
                into.append(Shard(names.index(letter)))
            elif text.startswith("?"):
                into.append(None)
            else:
                into.append(Partial() if text.startswith("+") and not inside else Replicate())
        results: list[Placement] = []
        for text, kind in zip(self.out, self.kinds, strict=True):
            if letter in text:
                results.append(Shard(text.index(letter)))
            elif not kind or text == "*":
                return None
            else:
                results.append(Partial(kind))
        return tuple(into), tuple(results)

    def _even(self, letter: str, count: int) -> bool:
        parts = self.cut.get(letter, 1) * count
        every = [t.shape[_bare(text).index(letter)] for text, t in zip(self.into, self.tensors, strict=True)
                 if letter in text]  # fmt: skip
        return all(size % parts == 0 for size in (*every, *self._result_sizes(letter)))

    shapes: tuple[tuple[int, ...], ...] | None = None

    def _result_sizes(self, letter: str) -> list[int]:
        if self.shapes is None:
            return []
        found = zip(self.out, self.shapes, strict=True)
        return [shape[text.index(letter)] for text, shape in found if letter in text]

    def _partial(self, current: Sequence[Placement]) -> Iterator[Way]:
        """Ways on which sums stay sums."""
        count = len(self.into)
        results: tuple[Placement, ...] = (Partial(),) * len(self.out)
        if any(t.startswith("?") for t in self.into):
            kept = tuple(p if p.is_partial() else None for p in current)
            if any(p is not None for p in kept):
                yield (None,) * count, (Replicate(),) * len(self.out)
            return
        if self.linear == "linear":
            # integers beside other numbers are places or choices, in which nothing is linear
            numbers = [t.is_floating_point() or t.is_complex() for t in self.tensors]
            yield (
                tuple(Partial() if n or not any(numbers) else Replicate() for n in numbers),
                results,
            )
        elif self.linear == "multilinear":
            for i in range(count):
                yield tuple(Partial() if i == j else Replicate() for j in range(count)), results
        elif self.linear == "first":
            yield (Partial(), *(Replicate() for _ in range(count - 1))), results

    def _left_to_do(self, current: Sequence[Placement]) -> Iterator[Way]:
        """Ways on which reductions other than sums are made later."""
        kind = current[0].reduce_op if isinstance(current[0], Partial) else "sum"
        alike = kind != "sum" and all(p == current[0] for p in current)
        if alike and (self.arranging or self.kinds == [kind]):
            yield tuple(current), (Partial(kind),) * len(self.out)

    def take(self, mesh_dim: int, way: Way) -> None:
        """A way was chosen: what it cuts is smaller from now on."""
        place, count = self.mesh.get_local_rank(mesh_dim), self.mesh.size(mesh_dim)
        for text, placement in zip((*self.into, *self.out), (*way[0], *way[1]), strict=True):
            if isinstance(placement, Shard):
                letter = _bare(text)[placement.dim]
                self.cut[letter] = self.cut.get(letter, 1) * count
                size = self.pieces[letter]
                self.pieces[letter] = Shard.local_shard_size_and_offset(size, count, place)[0]
                return


#: what a byte costs that is not sent, but copied
_COPIED = 1e-3


def change_cost(before: Placement, after: Placement | None, size: float, count: int) -> float:
    """What it costs to change a placement, in bytes that each rank sends."""
    if after is None or before == after:
        return 0.0
    if isinstance(before, Replicate):
        return size * _COPIED * (2.0 if isinstance(after, Partial) else 1.0)
    if isinstance(before, Partial):
        if isinstance(after, Partial):
            return math.inf
        return size * (1.0 if isinstance(after, Shard) else 2.0)
    if isinstance(after, Partial):
        return math.inf
    return size * (1.0 if isinstance(after, Replicate) else 1.0 / count)


def _equation(
    definition: Definition, args: Sequence[Any], tensors: Sequence[Any]
) -> Equation | None:
    """What the definition says of this call."""
    rule = definition.shards
    if isinstance(rule, str) and "->" in rule:
        return Equation(rule)
    if isinstance(rule, str) and rule not in _LINEAR:
        rule = _named(rule)
    if callable(rule):
        found = rule(*args)
        return Equation(found) if isinstance(found, str) else found
    if definition.kind == "pointwise":
        return Equation(sharding.broadcast([t.shape for t in tensors]))
    return None


def _linear(definition: Definition, args: Sequence[Any], tensors: Sequence[Any]) -> str:
    """Whether sums may stay sums: of all tensors together, of each, of the first."""
    said = definition.shards if definition.shards in _LINEAR else definition.jvp
    if definition.kind == "view":
        said = "linear"
    if said not in _LINEAR:
        return ""
    numbers = sum(
        isinstance(a, (int, float, complex)) and not isinstance(a, bool) for a in args[:2]
    )
    if definition.kind == "pointwise" and said == "linear" and numbers and len(tensors) < 2:
        return "" if _added(definition) else "linear"
    return said


def _added(definition: Definition) -> bool:
    """Whether two operands are added, so that a number would be added by each rank."""
    return sum(p.type in ("Tensor", "Operand") for p in definition.schema.parameters) > 1


def planned(
    definition: Definition, args: Sequence[Any], tensors: Sequence[Any], mesh: Any, writes: bool
) -> Plan | None:
    """How a call runs on pieces; None where it can not.

    Args:
        args: all arguments, in the order of the schema.
        tensors: the distributed tensors in it (plain numbers as tensors are replicated).
        writes: whether the first tensor is written to.
    """
    equation = _equation(definition, args, tensors)
    if equation is None:
        return None
    asked = _Question(equation, tensors, _linear(definition, args, tensors), mesh)
    asked.shapes = equation.sizes
    asked.arranging = definition.kind == "view" or definition.shards in sharding.ARRANGING
    chosen: list[Way] = []
    for mesh_dim in range(mesh.ndim):
        way = _cheapest(asked, mesh_dim, tensors, writes)
        if way is None:
            return None
        chosen.append(way)
        asked.take(mesh_dim, way)
    wanted = [_kept(tensor, [way[0][i] for way in chosen]) for i, tensor in enumerate(tensors)]
    placements = [tuple(way[1][i] for way in chosen) for i in range(len(asked.out))]
    arguments = {}
    if equation.local is not None and any(isinstance(p, Shard) for way in chosen for p in way[1]):
        arguments = equation.local(lambda letter, size: _piece(asked, letter, size))
    sizes = {k: v for k, v in asked.sizes.items() if k != "."}
    return Plan(wanted, placements, asked.out, sizes, equation.sizes, arguments)


def _piece(asked: _Question, letter: str, size: int) -> int:
    return size // asked.cut.get(letter, 1) if letter.isupper() else asked.pieces[letter]


def _kept(tensor: core.Tensor, wanted: Sequence[Placement | None]) -> tuple[Placement, ...] | None:
    if all(w is None for w in wanted):
        return None
    current = _current(tensor, len(wanted))
    return tuple(c if w is None else w for w, c in zip(wanted, current, strict=True))


def _current(tensor: core.Tensor, count: int) -> Sequence[Placement]:
    found = getattr(tensor, "placements", None)
    return found if found is not None else (Replicate(),) * count


def _cheapest(asked: _Question, mesh_dim: int, tensors: Sequence[Any], writes: bool) -> Way | None:
    count = asked.mesh.size(mesh_dim)
    before = [_current(t, asked.mesh.ndim)[mesh_dim] for t in tensors]
    best, least = None, math.inf
    for way in asked.ways(mesh_dim, before):
        if writes and (way[0][0] not in (None, before[0]) or way[1][0] != before[0]):
            continue
        cost = 0.0
        for tensor, old, new in zip(tensors, before, way[0], strict=True):
            if isinstance(old, _StridedShard) and new is not None and new != old:
                new = _same_strided(old, new)
            cost += change_cost(old, new, tensor.numel() * tensor.element_size() + 1, count)
        if cost < least:
            best, least = way, cost
    if best is None:
        return None
    return _with_strided(best, before)


def _same_strided(old: _StridedShard, new: Placement) -> Placement:
    return old if isinstance(new, Shard) and new.dim == old.dim else new


def _with_strided(way: Way, before: Sequence[Placement]) -> Way:
    """Pieces that are cut in another order stay so, where all that is cut alike is."""
    strided = {i: p for i, p in enumerate(before) if isinstance(p, _StridedShard)}
    cut = {i: p.dim for i, p in enumerate(way[0]) if isinstance(p, Shard)}
    if not strided or any(i not in strided or strided[i].dim != dim for i, dim in cut.items()):
        return way
    factor = next(iter(strided.values())).split_factor
    return (
        tuple(
            _StridedShard(p.dim, split_factor=factor) if isinstance(p, Shard) else p for p in way[0]
        ),
        tuple(
            _StridedShard(p.dim, split_factor=factor) if isinstance(p, Shard) else p for p in way[1]
        ),
    )


class ShardingPropagator:
    """How calls of operators are planned, as libraries name it."""

    #: held while a call is planned: threads that stand for ranks put a lock here
    _fake_mode_lock: Any = contextlib.nullcontext()

    @classmethod
    def planned(
        cls, definition: Definition, args: Sequence[Any], tensors: Sequence[Any], mesh: Any, writes: bool
    ) -> Plan | None:  # fmt: skip
        """`planned`, one thread after the other where the lock is one.

        Args:
            definition: the operator.
            args: all arguments, in the order of the schema.
            tensors: the distributed tensors in it.
            mesh: on whose ranks they lie.
            writes: whether the first tensor is written to.
        """
        with cls._fake_mode_lock:
            return planned(definition, args, tensors, mesh, writes)
