"""The sum of all ranks' sparse tensors.

Takes: a group, and on each rank a tensor of coordinates (COO) of one shape, with any number of elements. Gives:
the sum, written to each rank's tensor.
Keeps true: only elements that are there travel, each rank's to all; what comes out is coalesced.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.engine import Exchange
from facula.distributed.process_group import ProcessGroup
from facula.distributed.types import ReduceOp, Work
from facula.ops.table.registry import F

__all__ = ["all_reduce_sparse", "is_sparse"]

Tensor = core.Tensor


def is_sparse(t: Any) -> bool:
    """Whether a tensor has coordinates in the place of dense elements."""
    return isinstance(t, Tensor) and t.layout is core.sparse_coo


def all_reduce_sparse(tensor: Any, op: Any, group: ProcessGroup, async_op: bool) -> Work | None:
    """Put the sum of all ranks' tensors into each of them."""
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        fail(RuntimeError, "all_reduce", "SUM or AVG was required for sparse tensors (unsupported reduction "
             "type for sparse tensors)", repr(op), hint="to_dense() first")  # fmt: skip
    mine = tensor.detach().coalesce()
    places, values = mine.indices().contiguous(), mine.values().contiguous()
    shape, size = tuple(tensor.shape), group.size()
    about = f"of sparse {shape} with {places.shape[0]} sparse dimensions"
    counts = [core.empty((1,), dtype=core.int64) for _ in range(size)]
    own = F.full((1,), places.shape[1], dtype=core.int64)
    group.run("all_gather", _gathering(counts, own, about), [own])
    if group.engine.counts_only:
        counts = [own] * size
    numbers = [int(t) for t in counts]
    every = [core.empty((n * places.shape[0],), dtype=core.int64) for n in numbers]
    each = math.prod(values.shape[1:])
    parts = [core.empty((n * each,), dtype=values.dtype) for n in numbers]

    def run(x: Exchange) -> None:
        _gathering(parts, values.view(-1), about)(x)
        there = F.cat([one.view(places.shape[0], -1) for one in every], 1)
        found = F.cat([one.view(-1, *values.shape[1:]) for one in parts])
        total = F.sparse_coo_tensor(there, found, shape).coalesce()
        tensor.copy_(total / size if op == ReduceOp.AVG else total)

    group.start("all_gather", _gathering(every, places.view(-1), about), [places])
    work = group.start("all_reduce", run, [tensor])
    if async_op:
        return work
    work.wait()
    return None


def _gathering(targets: list[Tensor], mine: Tensor, about: str) -> Any:
    """What gathers all ranks' tensors, which are of different sizes."""

    def run(x: Exchange) -> None:
        x.about = about
        x.all_gather(targets, mine)

    return run
