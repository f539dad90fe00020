"""What ranks do in `test_ranks_that_differ.py`: one of them gives something else than the others, or nothing."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import Any

from joined import begin, error_of, tell
from ranks import DEADLINE

import facula
from facula import distributed as dist
from facula import nn
from facula.distributed.fsdp import FullyShardedDataParallel, fully_shard


def leaver(how: str) -> Any:
    """Rank 1 raises at once, and leaves in good order; the others would wait for as long as they may."""
    rank, size = begin(DEADLINE)
    if how.endswith("later"):
        dist.barrier()
    start = time.monotonic()
    if rank == 1:
        return error_of(dist.all_gather, [facula.empty(3)], facula.ones(3))
    if how.startswith("message"):
        told = error_of(dist.recv, facula.ones(3), 1)
    else:
        told = error_of(dist.all_gather, [facula.empty(3) for _ in range(size)], facula.ones(3))
    return [*told, time.monotonic() - start]


def groups() -> Any:
    """Ranks make a group of different ranks, in the same place of the program."""
    rank, _ = begin(60)
    group = dist.new_group([0, 1] if rank == 1 else [0, 1, 2])
    return error_of(dist.all_reduce, facula.ones(1), group=group)


def sharded(how: str) -> Any:
    """Parameters differ, and their pieces are of the same size."""
    rank, _ = begin(60)
    wide = nn.Linear(4, 5 if rank == 1 else 4, bias=False)
    model = fully_shard(wide) if how == "each" else FullyShardedDataParallel(wide)
    return error_of(model, facula.ones(1, 4))


def objects() -> Any:
    rank, size = begin(60)
    longer: list[Any] = [None] * (size + 1)
    dist.all_gather_object(longer, rank)
    found = {"longer": longer, "short": error_of(dist.all_gather_object, [None], rank)}
    found["place"] = error_of(dist.scatter_object_list, [], [1] * size)
    if rank == 0:
        found["scatter"] = error_of(dist.scatter_object_list, [None], [1], src=0)
    found["lengths"] = error_of(dist.broadcast_object_list, [None] * (1 + (rank == 1)), src=0)
    return found


def late() -> Any:
    """A rank comes to the first thing that is done together, a barrier that tells who is late, too late."""
    rank, _ = begin(DEADLINE)
    if rank == 1:
        error_of(dist.group.WORLD.get_group_store().get, "seen")  # or the store has ended
        return None
    told = error_of(dist.monitored_barrier, timeout=timedelta(seconds=0.5), wait_all_ranks=True)
    dist.group.WORLD.get_group_store().set(f"seen by {rank}", "")
    if rank == 0:
        dist.group.WORLD.get_group_store().get("seen by 2")
        dist.group.WORLD.get_group_store().set("seen", "")
    return told


def numbers() -> Any:
    """What can not be combined is said before anything is sent; the group goes on."""
    rank, size = begin(60)
    found = {}
    for op in ("MAX", "BOR"):
        x = facula.ones(2, dtype=facula.complex64)
        found[f"complex {op}"] = error_of(dist.all_reduce, x, getattr(dist.ReduceOp, op))
    found["bits"] = error_of(dist.all_reduce, facula.ones(2), dist.ReduceOp.BAND)
    found["scaled"] = error_of(dist.all_reduce, facula.ones(2), dist.ReduceOp.PREMUL_SUM)
    truth = facula.tensor([rank == 1, False, True])
    dist.all_reduce(truth)
    return found | {"truth": truth.tolist()}


if __name__ == "__main__":
    tell(globals()[sys.argv[1]](*sys.argv[2:]))
