"""`loss_parallel`: cross entropy of scores whose classes lie on several ranks.

Takes: a block. Gives: in it, `cross_entropy` of distributed scores that are cut along the classes.
Keeps true: no rank has all scores: what is exchanged are a maximum, a sum and the target's score of each row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed import operations
from facula.distributed.tensor import dtensor
from facula.distributed.tensor.dtensor import DTensor, implicit_replication
from facula.distributed.tensor.placement_types import Replicate, Shard
from facula.distributed.types import ReduceOp
from facula.ops.table.registry import F

__all__ = ["loss_parallel"]

Tensor = core.Tensor


def _cut(scores: Any, weight: Any, smoothing: float) -> bool:
    """Whether scores are cut along the classes."""
    if not isinstance(scores, DTensor) or scores.dim() != 2 or scores.placements != (Shard(1),):
        return False
    if weight is not None or smoothing:
        fail(NotImplementedError, "loss_parallel", "cross entropy without weights and smoothing was "
             "required, of scores that are cut along the classes", "one with them",
             "leave the block, or redistribute() the scores")  # fmt: skip
    return True


def _mine(scores: DTensor, target: Any, ignored: int) -> tuple[Tensor, Tensor]:
    """Where targets are among this rank's classes: a place for each, and whether it counts."""
    whole = target.full_tensor() if isinstance(target, DTensor) else target
    mesh, count = scores.device_mesh, scores._local_tensor.shape[1]
    _, start = Shard.local_shard_size_and_offset(
        scores.shape[1], mesh.size(), mesh.get_local_rank()
    )
    here = (whole >= start) & (whole < start + count) & (whole != ignored)
    return (whole - start).clamp(0, max(count - 1, 0)), here


def _rows(scores: Any, target: object, weight: Any, ignored: int, smoothing: float) -> Any:
    """The loss of each row, and its log-sum-exp."""
    if not _cut(scores, weight, smoothing):
        return NotImplemented
    mesh, local = scores.device_mesh, scores._local_tensor.detach()
    group, wide = mesh.get_group(), local.double() if local.dtype is core.float64 else local.float()
    highest = wide.amax(1) if wide.shape[1] else wide.new_full((wide.shape[0],), float("-inf"))
    operations.all_reduce(highest, ReduceOp.MAX, group)
    total = (wide - highest[:, None]).exp().sum(1)
    place, here = _mine(scores, target, ignored)
    chosen = wide.gather(1, place[:, None])[:, 0] if wide.shape[1] else highest * 0
    both = F.stack([total, chosen.masked_fill(~here, 0.0)])
    operations.all_reduce(both, ReduceOp.SUM, group)
    sums = both[0].log() + highest
    whole = target.full_tensor() if isinstance(target, DTensor) else target
    losses = (sums - both[1]).masked_fill(whole == ignored, 0.0)
    everywhere = [Replicate()]
    return tuple(DTensor._make(t, t.shape, mesh, everywhere) for t in (losses, sums))


def _slopes(
    grad: Any, scores: Any, target: Any, sums: Any, weight: Any, ignored: int, smoothing: float
) -> Any:
    """The gradient of the scores: this rank's piece."""
    if not _cut(scores, weight, smoothing):
        return NotImplemented
    local = scores._local_tensor.detach()
    whole = [t.full_tensor() if isinstance(t, DTensor) else t for t in (grad, sums, target)]
    place, here = _mine(scores, target, ignored)
    shares = (local.to(whole[1].dtype) - whole[1][:, None]).exp()
    if shares.shape[1]:
        shares = shares.scatter_add(1, place[:, None], -here.to(shares.dtype)[:, None])
    slope = shares * whole[0].masked_fill(whole[2] == ignored, 0.0)[:, None]
    return DTensor._make(slope.to(local.dtype), scores.shape, scores.device_mesh, scores.placements)


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """A block in which cross entropy takes scores that are cut along the classes, and keeps them cut.

    >>> with loss_parallel():
    ...     loss = nn.functional.cross_entropy(scores, target)
    ...     loss.backward()
    """
    before = dict(dtensor.INSTEAD)
    dtensor.INSTEAD.update(cross_entropy_rows=_rows, cross_entropy_rows_backward=_slopes)
    try:
        with implicit_replication():
            yield
    finally:
        dtensor.INSTEAD.clear()
        dtensor.INSTEAD.update(before)
