"""Reads that run across memory: what a transposition looks like in a loop.

Takes: a load and loop variables. Gives: `along`, the variable along which a load's memory lies,
where that is another one than the innermost; `reads_across`, whether a step or kernel has such.
Keeps true: only indices that are sums of loop variables count: others have no stride.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from facula.lower.loops import index as ix
from facula.lower.loops import ir
from facula.lower.loops.index import Index, Var

#: elements of a buffer from which on it matters; sizes and strides below which it does not
FEW, SHORT = 4096, 8


def along(load: ir.Load, loops: Sequence[Var]) -> Var | None:
    """The outer variable that walks memory element by element while the innermost one jumps."""
    lane = loops[-1]
    if load.buffer.numel < FEW or lane.extent < SHORT or _computed(load.index):
        return None
    strides = dict(load.index.terms)
    unit = 2 if load.buffer.code in ir.PART else 1
    if abs(strides.get(lane, 0)) < SHORT * unit:
        return None
    for variable in reversed(loops[:-1]):
        if strides.get(variable) == unit and variable.extent >= SHORT:
            return variable
    return None


def _computed(index: Index) -> bool:
    return any(not isinstance(atom, Var) for atom, _ in index.terms)


def reads_across(expressions: Iterable[Any], indices: Iterable[Index], variable: Var) -> bool:
    """Whether a loop over `variable` reads across memory.

    Args:
        expressions: what an iteration computes.
        indices: where it is stored.
        variable: what the loop runs over.
    """
    loads = ir.loads_of(expressions)
    loops, value = ix.split(variable, [*indices, *(found.index for found in loads)])
    loops = [v for v in loops if v.extent != 1]
    if len(loops) < 2:
        return False
    rewrite = ir.Rewriter({variable: value})
    return any(
        along(ir.Load(found.buffer, rewrite.index(found.index)), loops) is not None
        for found in loads
    )


def step_reads_across(step: Any) -> bool:
    """Whether an elementwise step reads across memory."""
    if not isinstance(step, ir.Elementwise):
        return False
    indices = [at for store in step.stores for at, _ in store.parts()]
    return reads_across(step.expressions, indices, step.variable)
