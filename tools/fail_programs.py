"""What ranks do in `fail_ranks.py`: programs that run for ever, and know the numbers that they must get.

Takes: an environment in which a process group can be begun, and a folder. Gives: `PROGRAMS` by name; each is
a function that does one step, and raises `WrongNumber` where a result is wrong.
Keeps true: what a step must give is known without the other ranks: it is computed by one process, or follows
from the numbers that ranks put in.
"""

from __future__ import annotations

import datetime
import importlib
import os
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import facula
from facula import distributed as dist
from facula import nn
from facula.distributed import checkpoint, rpc, starters, world
from facula.distributed.fsdp import fully_shard
from facula.distributed.pipelining import PipelineStage, ScheduleGPipe
from facula.distributed.tensor import Shard, distribute_tensor, init_device_mesh

#: does one step, whose number it is given
Step = Callable[[int], None]
#: bytes of what an exchange sends, from a few to several chunks of shared memory
SIZES = (3, 17, 4099, 60_000, 400_003)
BATCHES, FEATURES, ROWS = 5, 6, 12
TOLERANCE = 1e-6


class WrongNumber(AssertionError):
    """A step went through with a result that is wrong."""


def same(got: float, want: float, what: str) -> None:
    """Raise unless two numbers agree."""
    if not abs(got - want) <= TOLERANCE * max(1.0, abs(want)):
        raise WrongNumber(f"{what}: {got} where {want} was required")


def net() -> Any:
    facula.manual_seed(3)
    return nn.Sequential(nn.Linear(FEATURES, 9), nn.Tanh(), nn.Linear(9, 4)).double()


def inputs() -> Any:
    facula.manual_seed(4)
    return facula.randn(BATCHES, ROWS, FEATURES).double()


class Known:
    """The losses of one process, as far as they were asked for."""

    def __init__(self) -> None:
        self.model, self.batches = net(), inputs()
        self.found: list[float] = []
        self.optimizer = facula.optim.SGD(self.model.parameters(), lr=0.05)

    def __getitem__(self, step: int) -> float:
        while len(self.found) <= step:
            loss = self.model(self.batches[len(self.found) % BATCHES]).square().mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.found.append(loss.item())
        return self.found[step]


def all_reduce() -> Step:
    rank, size = dist.get_rank(), dist.get_world_size()

    def step(number: int) -> None:
        x = facula.full((SIZES[number % len(SIZES)],), float(rank + number))
        dist.all_reduce(x)
        want = sum(range(size)) + size * number
        same(float(x.min()), want, "the least of a sum")
        same(float(x.max()), want, "the most of a sum")

    return step


def _trained(model: Any) -> Step:
    """Steps of a model that sees this rank's part of each batch."""
    rank, size = dist.get_rank(), dist.get_world_size()
    known, batches, share = Known(), inputs(), ROWS // size
    optimizer = facula.optim.SGD(model.parameters(), lr=0.05)

    def step(number: int) -> None:
        mine = batches[number % BATCHES, rank * share : (rank + 1) * share]
        loss = model(mine).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().reshape(1)
        dist.all_reduce(total, dist.ReduceOp.AVG)
        same(total.item(), known[number], f"the loss of step {number}")

    return step


def ddp() -> Step:
    return _trained(nn.parallel.DistributedDataParallel(net()))


def fsdp() -> Step:
    model, mesh = net(), init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (model[0], model[2]):
        fully_shard(part, mesh=mesh)
    return _trained(fully_shard(model, mesh=mesh))


def pipeline() -> Step:
    """A stage on each rank; the last knows the loss of the whole."""
    rank, size = dist.get_rank(), dist.get_world_size()
    known, batches = Known(), inputs()
    layers = list(net())
    parts = [layers[i::size] if size > len(layers) else layers[i : i + 1] for i in range(size)]
    if size < len(layers):
        parts[-1] = layers[size - 1 :]
    mine = nn.Sequential(*parts[rank])
    stage = PipelineStage(mine, rank, size)
    schedule = ScheduleGPipe(stage, 3, lambda y, target: y.square().mean())
    parameters = list(mine.parameters())
    optimizer = facula.optim.SGD(parameters, lr=0.05) if parameters else None

    def step(number: int) -> None:
        found: list[Any] = []
        if rank == 0:
            schedule.step(batches[number % BATCHES])
        elif rank == size - 1:
            schedule.step(target=facula.zeros(ROWS), losses=found)
            same(float(sum(found)) / 3, known[number], f"the loss of step {number}")
        else:
            schedule.step()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()

    return step


def saving() -> Step:
    """Saves a state whose numbers are all that of the step: see `saved`."""
    folder, mesh = os.environ["FAIL_FOLDER"], init_device_mesh("cpu", (dist.get_world_size(),))

    def step(number: int) -> None:
        whole = facula.full((12, 40), float(number))
        state = {
            "rows": distribute_tensor(whole, mesh, [Shard(0)]),
            "copy": facula.full((7,), float(number)),
            "number": number,
        }
        checkpoint.save(state, checkpoint_id=os.path.join(folder, "saved"))

    return step


def saved(folder: str) -> int | None:
    """The step of the last state that was saved; None where there is none yet."""
    place = os.path.join(folder, "saved")
    if not os.path.exists(os.path.join(place, ".metadata")):
        return None
    state: dict[str, Any] = {"rows": facula.zeros(12, 40), "copy": facula.zeros(7), "number": -1}
    checkpoint.load(state, checkpoint_id=place)
    for name in ("rows", "copy"):
        same(float(state[name].min()), state["number"], f"the least of {name}")
        same(float(state[name].max()), state["number"], f"the most of {name}")
    return int(state["number"])


#: seconds that a worker which is slow takes for an answer
_LATE = [0.0]


def answer_late(seconds: float) -> None:
    """Be a worker that is slow from now on."""
    _LATE[0] = seconds


def doubled(x: Any) -> Any:
    """What workers ask each other for."""
    time.sleep(_LATE[0])
    return 2 * x


def calls() -> Step:
    """Each worker calls all others."""
    me, size = rpc.get_worker_info().id, int(str(starters.value("WORLD_SIZE")))
    others = [rank for rank in range(size) if rank != me]

    def step(number: int) -> None:
        x = facula.full((5,), float(number))
        futures = [rpc.rpc_async(f"worker{rank}", doubled, (x,)) for rank in others]
        failures = []
        for future in futures:
            try:
                same(float(future.wait().sum()), 10.0 * number, "what a call gave")
            except RuntimeError as error:
                failures.append(str(error))
        if failures:  # who failed first may have ended another
            raise RuntimeError("\n".join(failures))

    return step


PROGRAMS: dict[str, Callable[[], Step]] = {
    "all_reduce": all_reduce, "ddp": ddp, "fsdp": fsdp, "pipeline": pipeline, "checkpoint": saving,
    "rpc": calls,
}  # fmt: skip


def warm() -> None:
    """Have this process load what programs load at their first steps; it is as before then."""
    importlib.import_module("grpc")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    with tempfile.TemporaryDirectory(prefix="facula-warm-") as folder:
        os.environ["FAIL_FOLDER"] = folder
        for make in (all_reduce, ddp, fsdp, saving):
            step = make()
            step(0)
            step(1)
        saved(folder)
    del os.environ["FAIL_FOLDER"]
    dist.destroy_process_group()
    while threading.active_count() > 1:  # a fork has but the thread that forks
        time.sleep(0.01)


def begin(name: str, engine: str, seconds: float) -> Step:
    """Join the others, and give the steps of a program."""
    if name == "rpc":
        if engine == "mpi":  # the launcher ends all where one dies that did not begin MPI
            dist.init_process_group(engine, timeout=datetime.timedelta(seconds=30))
        rank = int(str(starters.value("RANK")))
        options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=30.0)
        rpc.init_rpc(f"worker{rank}", rank=rank, rpc_backend_options=options)
        made = PROGRAMS[name]()
        made(0)
        rpc.api._barrier()
        rpc._set_rpc_timeout(seconds)
        return made
    remote = True if os.environ.get("FAIL_REMOTE") else None
    dist.init_process_group(engine, timeout=datetime.timedelta(seconds=30), allow_remote=remote)
    made = PROGRAMS[name]()
    made(0)  # all are there
    for group in world._STATE.groups.values():
        group.set_timeout(datetime.timedelta(seconds=seconds))
    return made


def other(number: int) -> None:
    """Another operation than the program's: of another kind, shape or dtype."""
    kind = number % 4
    if kind == 0:
        dist.barrier()
    elif kind == 1:
        dist.broadcast(facula.ones(5), 0)
    elif kind == 2:
        dist.all_reduce(facula.ones(2, dtype=facula.int32), dist.ReduceOp.MAX)
    else:
        dist.all_gather([facula.empty(2) for _ in range(dist.get_world_size())], facula.ones(2))
