"""Checks `init_process_group("nccl")` as users call it, where there is a device: `python tools/check_nccl_engine.py`.

Takes: facula, built, and CuPy, whose arrays lie on the device. Gives: a table, and exit status 1 where something
was wrong. Keeps true: what a device computed is compared with NumPy's result; each program runs in processes of its
own, which are ended when they are late.

`tools/check_nccl.py` checks the layer below, on any number of devices; here one device serves, so a world has one
rank, and worlds of two are there for what must be refused.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
from check_nccl import Table
from held_port import held_port

import facula
from facula import distributed as dist

DEADLINE = 60


def same(got: Any, want: np.ndarray) -> str:
    """Raise unless an array of the device equals NumPy's."""
    host = got.get()
    if not np.array_equal(host, want):
        raise AssertionError(f"got {host.ravel()[:5]}, wanted {want.ravel()[:5]}")
    return f"{host.size} x {host.dtype}"


def refused(kind: type[BaseException], text: str, run: Callable[[], str]) -> str:
    """The first line of the error that must come."""
    try:
        run()
    except kind as error:
        assert text in str(error), error
        return str(error).partition("\n")[0]
    raise AssertionError(f"no {kind.__name__}")


def done(run: Callable[..., object], *args: Any) -> str:
    """That something came to its end."""
    run(*args)
    return "done"


# ------------------------------------------------------------------ one rank


def collectives(cupy: Any) -> list[tuple[str, Callable[[], str]]]:
    """Every function of `distributed` that takes arrays of the device."""
    data = np.arange(1000, dtype="f4") - 3
    found: list[tuple[str, Callable[[], str]]] = []

    def case(name: str, run: Callable[[Any, Any], object], *, into_x: bool = False) -> None:
        def checked() -> str:
            x, y = cupy.asarray(data), cupy.zeros(1000, "f4")
            run(x, y)
            return same(x if into_x else y, data)

        found.append((name, checked))

    case("all_reduce", lambda x, y: dist.all_reduce(x), into_x=True)
    case("all_reduce, async_op", lambda x, y: dist.all_reduce(x, async_op=True).wait(), into_x=True)
    case("reduce", lambda x, y: dist.reduce(x, 0), into_x=True)
    case("broadcast", lambda x, y: dist.broadcast(x, 0), into_x=True)
    case("all_gather", lambda x, y: dist.all_gather([y], x))
    case("all_gather_into_tensor", lambda x, y: dist.all_gather_into_tensor(y, x))
    case("reduce_scatter", lambda x, y: dist.reduce_scatter(y, [x]))
    case("reduce_scatter_tensor", lambda x, y: dist.reduce_scatter_tensor(y, x))
    case("all_to_all", lambda x, y: dist.all_to_all([y], [x]))
    case("all_to_all_single", lambda x, y: dist.all_to_all_single(y, x))
    case("gather", lambda x, y: dist.gather(x, [y], 0))
    case("scatter", lambda x, y: dist.scatter(y, [x], 0))
    for dtype in ("?", "i1", "u1", "i4", "i8", "f2", "f8", "c8", "c16"):
        found.append((f"all_reduce of {np.dtype(dtype)}", partial(_reduced, cupy, dtype)))
    return found


def _reduced(cupy: Any, dtype: str) -> str:
    want = (np.arange(77) % 50).astype(dtype)
    x = cupy.asarray(want)
    dist.all_reduce(x)
    return same(x, want)


def behind_its_stream(cupy: Any) -> str:
    """A collective begins behind the stream that made its array, however long that takes."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        big = cupy.ones((4096, 4096), "f4")
        x = big
        for _ in range(20):
            x = x @ big / 4096
        y = cupy.zeros_like(x)
        dist.all_gather_into_tensor(y, x)
        got = y.get()
    assert np.array_equal(got, np.ones((4096, 4096), "f4")), got
    return "20 products of 4096 x 4096 first"


def one_rank(table: Table) -> None:
    """All rows of a world of one rank."""
    import cupy

    os.environ.setdefault("LOCAL_RANK", "0")
    dist.init_process_group(
        "nccl", store=dist.HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=20)
    )
    rows = collectives(cupy)
    rows.append(("a collective behind its array's stream", lambda: behind_its_stream(cupy)))
    x = cupy.arange(20, dtype="f4")
    rows.append(
        (
            "elements that lie apart",
            lambda: refused(ValueError, "follow each other", lambda: dist.all_reduce(x[::2])),
        )
    )
    rows.append(
        (
            "a tensor of the processor",
            lambda: refused(
                RuntimeError, "device type cpu", lambda: dist.all_reduce(facula.ones(3))
            ),
        )
    )
    rows.append(("no elements", partial(done, dist.all_reduce, cupy.zeros(0, "f4"))))
    rows.append(("objects", _objects))
    rows.append(("barrier", partial(done, dist.barrier)))
    rows.append(("a group of its own", lambda: _in_group(cupy)))
    rows.append(("the end", partial(done, dist.destroy_process_group)))
    for each in rows:
        table.attempt(*each)


def _objects() -> str:
    held: list[Any] = [None]
    dist.all_gather_object(held, {"rank": 0})
    assert held == [{"rank": 0}], held
    return str(held)


def _in_group(cupy: Any) -> str:
    group = dist.new_group([0])
    x = cupy.ones(5, "f4")
    dist.all_reduce(x, group=group)
    dist.destroy_process_group(group)
    return same(x, np.ones(5, "f4"))


# ------------------------------------------------------------------ two ranks, and what must be refused


def busy(cupy: Any, seconds: float) -> Any:
    """An array whose stream is busy for so long, and longer."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        big = cupy.ones((8192, 8192), "f4")
        (big @ big)[0, 0].item()
        began = time.monotonic()
        (big @ big)[0, 0].item()
        for _ in range(int(seconds / (time.monotonic() - began)) + 1):
            big @ big
        return cupy.ones(4, "f4")


def late() -> None:
    """A world of one rank whose device takes longer than a collective may; then a world after it."""
    import cupy

    def begin() -> None:
        dist.init_process_group(
            "nccl", store=dist.HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=2)
        )

    begin()
    dist.all_reduce(cupy.ones(4, "f4"))
    began, x = time.monotonic(), busy(cupy, 6)
    try:
        dist.all_reduce(x)
        print("no error")
    except (RuntimeError, TimeoutError) as error:
        seconds = time.monotonic() - began
        print(f"{type(error).__name__} after {seconds:.1f} s: {str(error).splitlines()[0]}")
    dist.destroy_process_group()
    begin()
    dist.all_reduce(x)
    print(f"the next world: {x.get()}")
    os._exit(0)


def second(what: str, rank: int) -> None:
    """One of two ranks that share a device, or of which one stays away."""
    import cupy

    if what == "late":
        late()
    os.environ["LOCAL_RANK"] = "0" if what != "too many" else str(rank)
    began = time.monotonic()
    try:
        dist.init_process_group("nccl", rank=rank, world_size=2, timeout=timedelta(seconds=10))
        if what == "away" and rank == 1:
            time.sleep(2)
            os._exit(9)
        dist.all_reduce(cupy.ones(4, "f4"))
        print("no error")
    except (RuntimeError, TimeoutError) as error:
        print(f"{type(error).__name__} after {time.monotonic() - began:.1f} s: {error}")
    os._exit(0)


def two_ranks(what: str, *texts: str) -> str:
    """What the first rank says; it must hold one of the texts."""
    with held_port() as held:
        return _two_ranks(what, str(held.getsockname()[1]), texts)


def _two_ranks(what: str, port: str, texts: tuple[str, ...]) -> str:
    env = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "FACULA_STORE_SECRET": "check",
    }
    ranks = [
        subprocess.Popen([sys.executable, __file__, what, str(rank)], env=env, stdout=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]  # fmt: skip
    try:
        said = [rank.communicate(timeout=DEADLINE)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert any(text in said[0] for text in texts), said
    return " | ".join(text.partition("\n")[0][:120] for text in said)


def lateness() -> str:
    """What a process says of its device that takes too long."""
    line = [sys.executable, __file__, "late", "0"]
    said = subprocess.run(line, stdout=subprocess.PIPE, text=True, timeout=DEADLINE).stdout
    assert "all_reduce" in said and "the next world: [1. 1. 1. 1.]" in said, said
    return said.replace("\n", " | ")


def main() -> int:
    """Print the table; gives the exit status."""
    if len(sys.argv) == 3:
        second(sys.argv[1], int(sys.argv[2]))
    table = Table()
    one_rank(table)
    for what, texts in {
        "one device for two ranks": ("a device of its own",),
        "away": ("rank 1",),
        "too many": ("rank 1",),
    }.items():
        table.attempt(what, partial(two_ranks, what, *texts))
    table.attempt("a collective that is late", lateness)
    print(f"{table.failed} of the rows failed")
    return int(table.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
