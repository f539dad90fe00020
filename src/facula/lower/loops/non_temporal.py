"""Results too large for the caches: which of them a kernel may write past the caches.

Takes: loop nests. Gives: `marked`, which names such results in `nest.Flat.non_temporal` and
`nest.Rows.non_temporal`; `stored`, whether a nest has any.
Keeps true: only what is larger than a last-level cache, written along memory in runs of whole
lines, and not read by the same kernel: an ordinary store would first read each line from memory
that it is about to overwrite, and nobody finds the line in a cache later. Only kernels that wait
for memory: a kernel that calls functions overlaps ordinary stores with its arithmetic.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from facula.lower.loops import ir, nest, transposed
from facula.lower.loops.elementwise import is_call
from facula.lower.loops.index import Index, Indirect, Var
from facula.ops.expr.node import topological_order

#: bytes of a result from which on it is written past the caches; of a run of its elements
LARGE, RUN = 1 << 25, 512


def marked(layout: Any, inputs: Container[ir.Buffer] = ()) -> Any:
    """The nest, with the results named that are written past the caches.

    Args:
        layout: a `nest.Flat` or `nest.Rows`; anything else is left alone.
        inputs: results that may be written over an input, whose lines are in the cache by then.
    """
    if isinstance(layout, nest.Flat):
        lane, stores, other = layout.loops[-1], layout.stores, []
        expressions = [store.expression for store in stores]
    elif isinstance(layout, nest.Rows) and layout.geometry.inner == 1:
        lane = layout.reduce[-1]
        passes = [each for sweep in layout.sweeps for each in sweep.passes]
        stores = [store for each in passes if not each.folds for store in each.stores]
        other = [s for each in passes if each.folds for s in each.stores] + layout.stores
        expressions = [e for each in passes for e in each.expressions]
    else:
        return layout
    loops = layout.loops if isinstance(layout, nest.Flat) else [lane]
    if _waits(expressions, loops):
        return layout
    read = {load.buffer for load in ir.loads_of(expressions)}
    refused = read | {store.buffer for store in other}
    refused |= {s.buffer for s in stores if not _along(s.index, lane)}
    layout.non_temporal = frozenset(
        store.buffer
        for store in stores
        if store.buffer not in refused
        and store.buffer not in inputs
        and store.buffer.nbytes >= LARGE
        and store.buffer.code not in ir.PART
        and lane.extent * ir.ITEMSIZE[store.buffer.code] >= RUN
    )
    return layout


def stored(layout: Any) -> bool:
    """Whether a nest writes past the caches."""
    return bool(getattr(layout, "non_temporal", ()))


def _waits(expressions: list[Any], loops: list[Var]) -> bool:
    """Whether a kernel waits for its own arithmetic, or for reads across memory."""
    return any(is_call(e) for e in topological_order(expressions)) or any(
        transposed.along(load, loops) is not None for load in ir.loads_of(expressions)
    )


def _along(index: Index, lane: Var) -> bool:
    """Whether consecutive iterations write consecutive elements."""
    steps = dict(index.terms)
    if steps.pop(lane, 0) != 1:
        return False
    return not any(
        isinstance(atom, Indirect) or atom.inner.uses(lane)
        for atom in steps
        if not isinstance(atom, Var)
    )
