"""What ranks do in `test_ranks_that_differ.py`: one of them gives something else than the others, or nothing."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from datetime import timedelta
from typing import Any

from joined import begin, error_of, tell
from ranks import DEADLINE

import facula
from facula import distributed as dist
from facula import nn
from facula.distributed import _functional_collectives as collectives
from facula.distributed import checkpoint
from facula.distributed.algorithms.model_averaging.utils import average_parameters
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.fsdp import FullyShardedDataParallel, fully_shard
from facula.distributed.optim import ZeroRedundancyOptimizer
from facula.distributed.pipelining import PipelineStage, ScheduleGPipe
from facula.distributed.tensor import DTensor, Partial, Shard, distribute_tensor
from facula.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


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


def pieces() -> Any:
    """Rank 1 sends one rank a piece of another size than that rank wants; no other pair differs."""
    rank, size = begin(60)
    odd = int(rank == 1)
    parts = [facula.ones(3 + odd * (to == 0)) for to in range(size)]
    calls = {
        "reduce_scatter": lambda group: dist.reduce_scatter(facula.ones(3), parts, group=group),
        "all_to_all": lambda group: dist.all_to_all(
            [facula.ones(3) for _ in range(size)], parts, group=group
        ),
        "gather": lambda group: dist.gather(
            facula.ones(3 + odd), [facula.ones(3)] * size if rank == 0 else None, 0, group=group
        ),
    }
    return {name: error_of(call, dist.new_group()) for name, call in calls.items()}


def outside() -> Any:
    """Rank 1 uses a group in which it is not; then all ranks compute together, as if it had not."""
    rank, size = begin(60)
    group = dist.new_group([0])
    if rank == 0:
        return [dist.get_process_group_ranks(group), dist.barrier()]
    x, model = facula.ones(2), nn.Linear(2, 2)
    calls = {
        "ranks": lambda: dist.get_process_group_ranks(group),
        "DDP": lambda: nn.parallel.DistributedDataParallel(model, process_group=group),
        "FSDP": lambda: FullyShardedDataParallel(model, process_group=group),
        "ZeRO": lambda: ZeroRedundancyOptimizer(
            model.parameters(), facula.optim.SGD, process_group=group, lr=0.1
        ),
        "nn": lambda: dist.nn.functional.all_reduce(x, group=group),
        "functional": lambda: collectives.all_reduce(x, "sum", group),
        "stage": lambda: PipelineStage(model, 0, 1, group=group),
        "save": lambda: checkpoint.save({"x": x}, checkpoint_id="nowhere", process_group=group),
        "load": lambda: checkpoint.load({"x": x}, checkpoint_id="nowhere", process_group=group),
    }
    found = {name: error_of(call) for name, call in calls.items()}
    dist.all_reduce(x, group=group)
    average_parameters(model.parameters(), group)
    dist.barrier()
    return [found, x.tolist()]


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


def pipeline() -> Any:
    """The stage of rank 1 takes other rows than the one before gives."""
    rank, size = begin(DEADLINE)
    stage = PipelineStage(nn.Linear(5 if rank == 1 else 4, 4), rank, size)
    schedule = ScheduleGPipe(stage, 2, lambda y, target: (y - target).square().mean())
    return error_of(schedule.step, *([facula.ones(4, 4)] if rank == 0 else []),
                    **({"target": facula.ones(4, 4)} if rank == size - 1 else {}))  # fmt: skip


def parallel(how: str) -> Any:
    """The module of rank 1 has another shape, in what is cut (and where the input must fit) or in what is not."""
    rank, size = begin(60)
    mesh = dist.init_device_mesh("cpu", (size,))
    odd = int(rank == 1)
    wide, deep = (2 * size + size * odd, 4) if how == "rows" else (2 * size, 4 + odd)
    made: list[Any] = []

    def run() -> None:
        model = nn.Sequential(nn.Linear(deep, wide, bias=False), nn.Linear(wide, 3, bias=False))
        parallelize_module(model, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
        made.append(model(facula.ones(2, deep)).sum().item())

    return [*error_of(run), made]


def placed() -> Any:
    """Rank 1 lays distributed tensors otherwise; the pieces are of the same size."""
    rank, size = begin(60)
    odd = int(rank == 1)
    whole, piece = facula.arange(36.0).reshape(6, 6), facula.ones(4, 4, requires_grad=True)
    mine = Shard(odd)
    partial = Partial("max" if odd else "sum")
    calls = {
        "distribute": lambda mesh: distribute_tensor(whole, mesh, [mine]).full_tensor(),
        "gather": lambda mesh: DTensor.from_local(piece, mesh, [mine]).full_tensor(),
        "shape": lambda mesh: DTensor.from_local(facula.ones(2 + odd, 6), mesh, [Shard(0)]).full_tensor(),
        "reduction": lambda mesh: DTensor.from_local(piece, mesh, [partial]).full_tensor(),
        "scatter": lambda mesh: DTensor.from_local(piece, mesh, [Partial()]).redistribute(
            placements=[mine]
        ),
    }  # fmt: skip
    groups = {name: dist.new_group() for name in calls}
    found = {
        name: error_of(call, DeviceMesh.from_group(groups[name], "cpu"))
        for name, call in calls.items()
    }
    mesh = dist.init_device_mesh("cpu", (1, size) if odd else (size, 1))
    grid = lambda: distribute_tensor(whole, mesh, [Shard(0), Shard(1)]).full_tensor()  # noqa: E731
    return found | {"grid": error_of(grid)}


def beside() -> Any:
    """Rank 1 is in no mesh, and asks all the same."""
    begin(60)
    held = distribute_tensor(facula.ones(4, 3), DeviceMesh("cpu", [0]), [Shard(0)])
    return [x.full_tensor().tolist() for x in (held, held + 1, held.sum(0), held.sum())]


def lacking() -> Any:
    """The installation of rank 1 lacks `mpi4py`."""
    if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
        sys.modules["mpi4py"] = None  # type: ignore[assignment]
    start = time.monotonic()
    return [*error_of(begin, 10), time.monotonic() - start]


def store() -> Any:
    """The process that keeps the store dies."""
    rank, _ = begin(DEADLINE)
    held = dist.group.WORLD.get_group_store()
    dist.barrier()
    if rank == 0:
        os._exit(7)
    return [error_of(held.get, "what nobody sets"), error_of(dist.all_reduce, facula.ones(3))]


def full_disk(folder: str) -> Any:
    """Rank 1 may write no more than a few KiB when the second checkpoint is saved."""
    rank, size = begin(60)
    mesh = dist.init_device_mesh("cpu", (size,))
    whole = facula.arange(60_000.0)
    state = lambda more: {"x": distribute_tensor(whole + more, mesh, [Shard(0)]), "step": more}  # noqa: E731
    checkpoint.save(state(1), checkpoint_id=folder)
    if rank == 1:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, resource.RLIM_INFINITY))
    told = error_of(checkpoint.save, state(2), checkpoint_id=folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    found: dict[str, Any] = {"x": facula.zeros(60_000), "step": 0}
    checkpoint.load(found, checkpoint_id=folder)
    return [*told, found["step"], bool((found["x"] == whole + 1).all())]


if __name__ == "__main__":
    tell(globals()[sys.argv[1]](*sys.argv[2:]))
