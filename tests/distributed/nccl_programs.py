"""What ranks do in `test_nccl.py`, on a fake library: each function's result is printed as JSON.

The fake of a process knows nothing of the other ranks: what they would add to sums is missing, all else is real.
"""

from __future__ import annotations

import datetime
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from fake_nccl import Fake
from joined import error_of, tell

import facula
from facula import distributed as dist
from facula.distributed.engines import nccl as engine
from facula.distributed.nvidia import driver, library

ERROR = dist.DistBackendError


def begin(**options: Any) -> tuple[int, Fake]:
    """Join the world: this rank, and its fake."""
    fake = Fake(devices=8, alone=True, **options)
    engine.load = lambda: (library.Library(fake), driver.Driver(fake))
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=60))
    dist.barrier()
    return dist.get_rank(), fake


def memory(data: Any, device: int | None = None) -> Any:
    """Elements on this rank's device."""
    made = dist.group.WORLD.engine
    place = made.device if device is None else device
    found = driver.DeviceMemory(made.driver, place, data.size, data.dtype.str)
    found.write(data.tobytes())
    return found


def away() -> Any:
    """The last rank dies or is late, or a device fails, in the middle of collectives."""
    how, rank = sys.argv[2], int(os.environ["RANK"])
    errors = {"remote": (3, 6), "device": (3, 1) if rank == 0 else None}.get(how)
    rank, fake = begin(hangs=None if errors else 3, errors=errors)
    dist.group.WORLD.set_timeout(datetime.timedelta(seconds=4 if how == "late" else 60))
    began, x = time.monotonic(), memory(np.ones(5, "f4"))
    try:
        for step in range(6):
            if rank == 2 and step == 3 and how == "late":
                time.sleep(9)
                return None
            if rank == 2 and step == 3 and how in ("kill", "remote"):
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(x)
    except ERROR as error:
        again = error_of(dist.all_reduce, x)[1]
        return [str(error), time.monotonic() - began, fake.calls.count("ncclCommAbort"), again]
    return ["no error", time.monotonic() - began, 0, ""]


def rules() -> Any:
    """What the engine takes, and what it does not."""
    rank, fake = begin()
    gathered: list[Any] = [None, None]
    dist.all_gather_object(gathered, {"rank": rank})
    held = memory(np.ones(4, "f4"))
    found = {
        "objects": gathered,
        "before": fake.calls.count("ncclCommInitRankConfig"),
        "host": error_of(dist.all_reduce, facula.ones(3)),
        "list": error_of(dist.all_gather, [facula.ones(3)] * 2, facula.ones(3)),
        "other": error_of(dist.all_reduce, memory(np.ones(3, "f4"), 5)),
        "any": error_of(dist.recv, held),
        "gap": error_of(dist.send, _with_gaps(), 1 - rank),
        "band": error_of(dist.all_reduce, held, dist.ReduceOp.BAND, dist.new_group([0, 1])),
        "short": error_of(dist.all_reduce, memory(np.ones(3, "i2")), group=dist.new_group([0, 1])),
    }
    dist.all_reduce(held)
    found["made"] = fake.calls.count("ncclCommInitRankConfig")
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    found["differ"] = error_of(dist.all_reduce, memory(np.ones(3 + rank, "f4")))
    dist.destroy_process_group()
    found["ended"] = len(fake.comms)
    return found


def _with_gaps() -> Any:
    """An array whose elements lie apart."""
    told = {**memory(np.ones(6, "f4")).__cuda_array_interface__, "shape": (3,), "strides": (8,)}
    return type("Array", (), {"__cuda_array_interface__": told})()


def messages() -> Any:
    """Messages between all ranks, by each function that sends."""
    rank, fake = begin(folder=os.environ["MESSAGES"])
    size = dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    x, y = memory(np.full(5, rank, "f4")), memory(np.zeros(5, "f4"))
    found: dict[str, Any] = {}

    def got(name: str) -> None:
        found[name] = np.frombuffer(y.read(), "f4").tolist()
        y.write(np.zeros(5, "f4").tobytes())

    # all send before they receive, which nothing but directions of their own can serve
    ring = [dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, y, left)]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    got("ring")
    if rank == 0:
        dist.send(x, 1)
        found["source"] = dist.recv(y, 1)
    elif rank == 1:
        dist.recv(y, 0)
        dist.send(x, 0)
    got("both ways")
    parts = [memory(np.full(3, 10 * rank + n, "i8")) for n in range(4)]
    works = [
        dist.isend(p, 1) if rank == 0 else dist.irecv(p, 0) for p in (parts if rank < 2 else [])
    ]
    for work in works:
        work.wait()
    found["order"] = [int(np.frombuffer(p.read(), "i8")[0]) for p in parts]
    group = dist.new_group([0, size - 1])
    if rank == 0:
        dist.send(x, group=group, group_dst=1)
    elif rank == size - 1:
        dist.recv(y, group=group, group_src=0)
    got("group")
    dist.destroy_process_group(group)
    found["result"] = works[0].result()[0] is parts[0] if works else True
    dist.barrier()
    dist.destroy_process_group()
    found["ended"] = [len(fake.comms), len(fake.streams), fake.calls.count("ncclCommAbort")]
    return found


def odd_messages() -> Any:
    """Two ranks that do not want the same message, or of which one is away."""
    how = sys.argv[2]
    # what is sent is not taken: the fake would send it ahead
    waits = {"hangs": 0} if int(os.environ["RANK"]) == 0 else {}
    rank, fake = begin(folder=os.environ["MESSAGES"], **waits)
    group = dist.group.WORLD
    group.set_timeout(datetime.timedelta(seconds=3 if how in ("late", "early") else 60))
    x = memory(np.zeros(4 if rank == 0 else 6, "f4") if how == "size" else np.zeros(4, "f4"))
    began = time.monotonic()
    if how == "kill" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0:
        found = error_of(dist.recv, x, 1) if how == "late" else error_of(dist.send, x, 1)
    elif how in ("late", "early"):
        time.sleep(8)
        return None
    else:
        found = error_of(dist.recv, x, 0, tag=7 if how == "tag" else 0)
    seconds = time.monotonic() - began
    again = error_of(dist.send, x, 1 - rank)
    return [found, seconds, again, len(fake.comms)]


def tensors() -> Any:
    """Tensors of facula on the device, whose memory both fakes know."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))
    import fake_cuda

    rank, fake = begin(folder=os.environ["MESSAGES"])
    backend, cuda = fake_cuda.backend(devices=8)
    facula.backends.register("cuda", backend)
    facula.cuda.set_device(rank)
    known = cuda.memory.items
    fake.others = lambda at: rank if any(p <= at < p + s for p, (_, s) in known()) else None
    found: dict[str, Any] = {}
    for dtype in (facula.float32, facula.bfloat16, facula.float16, facula.int64, facula.bool):
        x = facula.arange(4).to(dtype).to("cuda") + rank
        y = facula.zeros(4, dtype=x.dtype, device="cuda")
        ring = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, y, 1 - rank)]
        for work in dist.batch_isend_irecv(ring):
            work.wait()
        found[str(dtype)] = y.cpu().float().tolist()
    x = facula.arange(4.0, device="cuda")
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    found["reduced"] = [x.cpu().tolist(), work.result()[0] is x]
    parts = [facula.zeros(2, device="cuda"), facula.zeros(3, device="cuda")]
    dist.all_reduce_coalesced(parts)
    found["called"] = fake.calls.count("ncclAllReduce")
    model = facula.nn.Linear(4, 2).to("cuda")
    wrapped = facula.nn.parallel.DistributedDataParallel(model)
    wrapped(facula.ones(3, 4, device="cuda")).sum().backward()
    found["wrapped"] = [fake.calls.count("ncclAllReduce"), model.weight.grad.cpu().tolist()]
    found["gap"] = error_of(dist.all_reduce, facula.zeros(2, 3, device="cuda").t())
    found["host"] = error_of(dist.send, facula.zeros(3), 1 - rank)
    dist.barrier()
    dist.destroy_process_group()
    return found


if __name__ == "__main__":
    tell(globals()[sys.argv[1]]())
