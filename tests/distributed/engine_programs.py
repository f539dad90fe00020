"""What ranks do in the tests of engines; the oracle is NumPy, which computes what all ranks would give."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from typing import Any

import numpy as np
from joined import begin, error_of, tell
from store_engine import StoreEngine

import facula
from facula import distributed as dist
from facula.distributed.engines import shared

dist.Backend.register_backend("store", StoreEngine, extended_api=True)
#: elements: none, a few, a prime number, more than goes at once, several chunks and a rest
COUNTS = (0, 1, 7, 4099, shared.SMALL // 4 + 1, 3 * shared.CHUNK // 4 + 1013)
DTYPES = ("float32", "float64", "int64", "uint8", "complex64", "bool")


def given(rank: int, count: int, dtype: str) -> np.ndarray:
    """What a rank begins with: whole numbers, whose sums are exact."""
    made = np.random.default_rng([rank, count]).integers(0, 2 if dtype == "bool" else 5, count)
    return made.astype(dtype)


def same(t: Any, wanted: np.ndarray, what: str) -> None:
    np.testing.assert_array_equal(t.numpy(), wanted, err_msg=what, strict=True)


def reductions() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in DTYPES:
        for count in COUNTS if dtype == "float32" else COUNTS[2:5]:
            every = [given(r, count, dtype) for r in range(size)]
            ops = {"MAX": np.maximum, "MIN": np.minimum, "PRODUCT": np.multiply}
            if dtype != "bool":
                ops |= {"SUM": np.add}
            if dtype == "complex64":
                ops = {"SUM": np.add, "PRODUCT": np.multiply}
            for name, function in ops.items():
                wanted = every[0]
                for other in every[1:]:
                    wanted = function(wanted, other).astype(dtype)
                op = getattr(dist.ReduceOp, name)
                x = facula.from_numpy(every[rank].copy())
                dist.all_reduce(x, op)
                same(x, wanted, f"all_reduce {name} {dtype} {count}")
                x = facula.from_numpy(every[rank].copy())
                dist.reduce(x, size - 1, op)
                same(
                    x, wanted if rank == size - 1 else every[rank], f"reduce {name} {dtype} {count}"
                )
    x = facula.full((3, 5), float(rank)).t()  # lies otherwise
    dist.all_reduce(x, dist.ReduceOp.AVG)
    same(x.contiguous(), np.full((5, 3), sum(range(size)) / size, "float32"), "average")
    half = facula.full((40000,), float(rank + 1), dtype=facula.bfloat16)
    dist.all_reduce(half)
    assert set(half.float().tolist()) == {size * (size + 1) / 2}
    noise = np.random.default_rng(rank).standard_normal(300_000).astype("float32")
    x = facula.from_numpy(noise)
    dist.all_reduce(x)
    copies = [facula.empty(300_000) for _ in range(size)]
    dist.all_gather(copies, x)
    for other in copies:
        same(other, x.numpy(), "all ranks get the same bits")


def movements() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in ("float32", "uint8"):
        for count in COUNTS:
            every = [given(r, count, dtype) for r in range(size)]
            mine = facula.from_numpy(every[rank].copy())

            def empty(n: int = count, kind: str = dtype) -> Any:
                return facula.empty((n,), dtype=getattr(facula, kind))

            x = mine.clone()
            dist.broadcast(x, size - 1)
            same(x, every[-1], f"broadcast {count}")
            parts = [empty() for _ in range(size)]
            dist.all_gather(parts, mine)
            whole = empty(count * size)
            dist.all_gather_into_tensor(whole, mine)
            for r in range(size):
                same(parts[r], every[r], f"all_gather {count}")
            same(whole, np.concatenate(every), f"all_gather_into_tensor {count}")
            got = [empty() for _ in range(size)] if rank == 1 else None
            dist.gather(mine, got, dst=1)
            for r, one in enumerate(got or []):
                same(one, every[r], f"gather {count}")
            x = empty()
            dist.scatter(x, [facula.from_numpy(e) for e in every] if rank == 0 else None, src=0)
            same(x, every[rank], f"scatter {count}")
            x = empty()
            dist.reduce_scatter(x, [facula.from_numpy(e) for e in every])
            same(x, (every[rank] * size).astype(dtype), f"reduce_scatter {count}")
            outs = [empty() for _ in range(size)]
            dist.all_to_all(outs, [mine + r for r in range(size)])
            for r in range(size):
                same(outs[r], (every[r] + rank).astype(dtype), f"all_to_all {count}")
    # rank r sends (r + 1) * (s + 1) * 1000 elements to rank s
    sent = [(rank + 1) * (s + 1) * 1000 for s in range(size)]
    come = [(rank + 1) * (s + 1) * 1000 for s in range(size)]
    out = facula.empty(sum(come))
    dist.all_to_all_single(out, facula.full((sum(sent),), float(rank)), come, sent)
    same(out, np.repeat(np.arange(size, dtype="float32"), come), "all_to_all_single")
    dist.barrier()


def orders() -> None:
    """Collectives that are under way at once, groups, objects, messages."""
    rank, size = dist.get_rank(), dist.get_world_size()
    tensors = [facula.full((n,), float(rank)) for n in (3, 100_000, 1, 20_000) * 3]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    last = facula.ones(5)
    dist.all_reduce(last)  # waits behind them
    assert all(work.is_completed() for work in works) and last.tolist() == [size] * 5
    assert all(set(t.tolist()) == {sum(range(size))} for t in tensors)
    chained: list[float] = []
    x = facula.ones(4)
    work = dist.all_reduce(x, async_op=True)

    def again(future: Any) -> float:
        y = future.value()[0].clone()
        dist.all_reduce(y)  # in the thread that runs collectives
        return float(y[0])

    chained.append(work.get_future().then(again).wait())
    assert chained == [size * size]
    some = [dist.new_group([r, (r + 1) % size]) for r in range(size)]
    for r, group in enumerate(some):
        if rank in (r, (r + 1) % size):
            x = facula.ones(40_000)
            dist.all_reduce(x, group=group)
            assert set(x.tolist()) == {len({r, (r + 1) % size})}
    half = dist.split_group(split_ranks=[[0], list(range(1, size))])
    x = facula.ones(3)
    dist.all_reduce(x, group=half)
    assert x.tolist() == [1 if rank == 0 else size - 1] * 3
    assert dist.get_rank(half) == (0 if rank == 0 else rank - 1)
    assert dist.split_group(half, [[0]]) is None or dist.get_rank(half) == 0
    things: list[Any] = [None] * size
    dist.all_gather_object(things, {"rank": rank, "text": "x" * 1000 * rank})
    assert [len(thing["text"]) for thing in things] == [1000 * r for r in range(size)]
    right, left = (rank + 1) % size, (rank - 1) % size
    got = facula.empty(200_000)
    coming = dist.irecv(got, left, tag=5)
    dist.send(facula.full((200_000,), float(rank)), right, tag=5)
    coming.wait()
    assert set(got.tolist()) == {left}
    dist.monitored_barrier()


def small_ones() -> Any:
    """More sizes than a group keeps views of, twice; some begin under `inference_mode`; then one that differs."""
    rank, size = begin(60)
    for _ in range(2):
        for count in range(1, 2 * shared._KEPT + 20, 3):
            for dtype in ("float32", "int64"):
                with facula.inference_mode(count % 2 == 0):
                    x = facula.from_numpy(given(rank, count, dtype))
                    dist.all_reduce(x)
                wanted = sum(given(r, count, dtype) for r in range(size))
                same(x, np.asarray(wanted, dtype=dtype), f"{count} {dtype}")
    return error_of(dist.all_reduce, facula.ones(7 + rank))


def numbers() -> Any:
    begin(60)
    reductions()
    movements()
    orders()
    dist.destroy_process_group()
    return "fine"


DIFFERENCES: dict[str, Any] = {
    "shape": lambda rank: dist.all_reduce(facula.ones(4 + rank)),
    "dtype": lambda rank: dist.all_reduce(facula.ones(4).to(facula.int32 if rank else facula.float32)),
    "operation": lambda rank: dist.all_reduce(
        facula.ones(4), dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM
    ),
    "large": lambda rank: dist.all_reduce(facula.ones(200_000 + 64 * rank)),
    "gather": lambda rank: dist.all_gather([facula.ones(3 + rank)] * 2, facula.ones(3 + rank)),
}  # fmt: skip


def _lists(count: int, n: int, dtype: Any = facula.float32) -> list[Any]:
    return [facula.ones(n, dtype=dtype) for _ in range(count)]


#: one call of each collective: of how many elements, of which dtype, and (where it has one) for which root
COLLECTIVES: dict[str, Any] = {
    "all_reduce": lambda n, kind, root: dist.all_reduce(facula.ones(n, dtype=kind)),
    "reduce": lambda n, kind, root: dist.reduce(facula.ones(n, dtype=kind), root),
    "broadcast": lambda n, kind, root: dist.broadcast(facula.ones(n, dtype=kind), root),
    "all_gather": lambda n, kind, root: dist.all_gather(_lists(3, n, kind), facula.ones(n, dtype=kind)),
    "all_gather_into_tensor": lambda n, kind, root: dist.all_gather_into_tensor(
        facula.ones(3 * n, dtype=kind), facula.ones(n, dtype=kind)
    ),
    "reduce_scatter": lambda n, kind, root: dist.reduce_scatter(
        facula.ones(n, dtype=kind), _lists(3, n, kind)
    ),
    "reduce_scatter_tensor": lambda n, kind, root: dist.reduce_scatter_tensor(
        facula.ones(n, dtype=kind), facula.ones(3 * n, dtype=kind)
    ),
    "all_to_all": lambda n, kind, root: dist.all_to_all(_lists(3, n, kind), _lists(3, n, kind)),
    "all_to_all_single": lambda n, kind, root: dist.all_to_all_single(
        facula.ones(3 * n, dtype=kind), facula.ones(3 * n, dtype=kind)
    ),
    "gather": lambda n, kind, root: dist.gather(
        facula.ones(n, dtype=kind), _lists(3, n, kind) if dist.get_rank() == root else None, root
    ),
    "scatter": lambda n, kind, root: dist.scatter(
        facula.ones(n, dtype=kind), _lists(3, n, kind) if dist.get_rank() == root else None, root
    ),
    "barrier": lambda n, kind, root: dist.barrier(),
}  # fmt: skip


def every_difference() -> Any:
    """Rank 1 differs in size, dtype, root or order; ranks that were not told by the collective are by the
    next. Each in a group of its own."""
    rank, _ = begin(60)
    tried = []
    for at, (name, call) in enumerate(COLLECTIVES.items()):
        other = list(COLLECTIVES.values())[at - 2]  # that before may be the same to an engine
        if name != "barrier":
            tried.append((f"{name} size", call, (4 + rank % 2, facula.float32, 0)))
            tried.append((f"{name} dtype", call, (4, (facula.float32, facula.int64)[rank % 2], 0)))
        if name in ("reduce", "broadcast", "gather", "scatter"):
            tried.append((f"{name} root", call, (4, facula.float32, rank % 2)))
        tried.append((f"{name} order", other if rank == 1 else call, (4, facula.float32, 0)))
    groups = [dist.new_group([0, 1, 2], seconds(3)) for _ in tried]
    found = {}
    for group, (name, call, arguments) in zip(groups, tried, strict=True):
        dist.barrier()
        world, dist.group.WORLD = dist.group.WORLD, group
        began = time.monotonic()
        try:
            error = error_of(call, *arguments)
            error = error if error[0] != "none" else error_of(dist.barrier)
            found[name] = [*error, time.monotonic() - began]
        finally:
            dist.group.WORLD = world
    return found


def differences() -> Any:
    """Each in a group of its own, since a group ends with its first error."""
    rank, _ = begin(60)
    groups = [dist.new_group([0, 1], seconds(3)) for _ in DIFFERENCES]
    found = {}
    for group, (name, run) in zip(groups, DIFFERENCES.items(), strict=True):
        dist.barrier()
        world, dist.group.WORLD = dist.group.WORLD, group
        try:
            found[name] = error_of(run, rank)
        finally:
            dist.group.WORLD = world
    return found


def seconds(n: float) -> Any:
    import datetime

    return datetime.timedelta(seconds=n)


def away() -> Any:
    """The last rank dies, stops, leaves or is late in the middle of many collectives."""
    how, where = sys.argv[2], int(sys.argv[3])
    rank, size = begin(60)
    dist.barrier()
    # who dies is missed at once, who is late when the time is over
    dist.group.WORLD.set_timeout(seconds(30 if how == "kill" else 4))
    began = time.monotonic()
    try:
        for step in range(where + 2):
            if rank == size - 1 and step == where:
                if how == "leave":
                    dist.destroy_process_group()
                    time.sleep(6)
                    return ["left", 0.0]
                if how == "late":
                    time.sleep(9)
                    return ["late", 0.0]
                os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSTOP)
            x = facula.full((3 << (step % 18),), 1.0)
            dist.all_reduce(x)
            assert set(x.tolist()) == {size}, "a wrong number"
    except dist.DistBackendError as error:
        return [str(error), time.monotonic() - began]
    return ["no error", time.monotonic() - began]


def early() -> Any:
    """The last rank dies before it has sent anything, while the others wait for it; nobody knows when."""
    how = sys.argv[2]
    rank, size = begin(60)
    began = time.monotonic()
    if rank == size - 1:
        time.sleep(1.0 if how != "first" else 0.0)
        os.kill(os.getpid(), signal.SIGKILL)
    x = facula.ones(3)
    try:
        {
            "all_reduce": lambda: dist.all_reduce(x),
            "first": lambda: (time.sleep(1.0), dist.all_reduce(x)),
            "broadcast": lambda: dist.broadcast(x, size - 1),
            "recv": lambda: dist.recv(x, src=size - 1),
            "barrier": lambda: dist.barrier(),
        }[how]()
    except dist.DistBackendError as error:
        return [str(error), time.monotonic() - began]
    return ["no error", time.monotonic() - began]


def ending() -> Any:
    """Rank 0 ends without having waited for rank 1, which goes on only when it sees that."""
    gone = os.path.join(os.environ["TEST_RESULTS"], "gone")
    # what is registered first runs last, behind what the engine does
    atexit.register(lambda: open(gone, "w").close() if dist_rank == 0 else None)
    dist_rank, _ = begin(20)
    dist.barrier()
    if dist_rank == 0:
        if sys.argv[2] == "failed":
            dist.group.WORLD.set_timeout(seconds(1))
            try:
                dist.recv(facula.ones(1), src=1)
            except dist.DistBackendError:
                return True
        return True
    end = time.monotonic() + 100
    while not os.path.exists(gone) and time.monotonic() < end:
        time.sleep(0.05)
    return os.path.exists(gone)


if __name__ == "__main__":
    tell(globals()[sys.argv[1]]())
