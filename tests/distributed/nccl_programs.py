"""What ranks do in `test_nccl.py`, on a fake library: each function's result is printed as JSON.

The fake of a process knows nothing of the other ranks: what they would add to sums is missing, all else is real.
"""

from __future__ import annotations

import datetime
import os
import signal
import sys
import time
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
        "send": error_of(dist.send, held, 1 - rank),
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


if __name__ == "__main__":
    tell(globals()[sys.argv[1]]())
