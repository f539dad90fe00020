"""Collectives of several ranks against PyTorch's gloo: `python benchmarks/collectives.py --other PYTHON`.

Takes operations, numbers of ranks, bytes and engines (`gloo`, `mpi`); `--other` is an interpreter that has
PyTorch. Gives, for each, the least seconds of a call on the slowest rank, how many times PyTorch's gloo takes
as long, and the middle of that ratio over the rounds; exit status 1 where all_reduce misses what is asked.
Keeps true: all sides run in turn, round by round, so that a busy machine slows each; those whose turn it is not
wait for a line of input and compute nothing; each side's results are compared with what is known.
"""

import argparse
import importlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

OPERATIONS = ["all_reduce", "broadcast", "all_gather", "reduce_scatter"]
#: bytes of a call, and how many times as fast as PyTorch's gloo all_reduce is asked to be there
ASKED = {4096: 10.0, 1 << 20: 3.0, 100 << 20: 1.2}
#: seconds of a measurement, and the most calls in it
LONG, MOST = 0.2, 500


# ------------------------------------------------------------------ one rank


#: a call; a tensor that is set before the last, and to what; one that it writes, and what that then holds
Call = tuple[Callable[[], Any], Any, float, Any, float]


def prepared(torch: Any, dist: Any, name: str, size: int) -> Call:
    """A call on `size` bytes of float32, and how its result is known."""
    rank, ranks, n = dist.get_rank(), dist.get_world_size(), size // 4
    total = ranks * (ranks + 1) / 2
    if name == "all_reduce":
        x = torch.zeros(n)  # sums of zeros stay: a call may be made any number of times
        return lambda: dist.all_reduce(x), x, rank + 1.0, x, total
    if name == "broadcast":
        x = torch.zeros(n)
        return lambda: dist.broadcast(x, 0), x, rank + 1.0, x, 1.0
    whole, part = torch.zeros(n // ranks * ranks), torch.zeros(n // ranks)
    if name == "all_gather":
        last = whole[-len(part) :]
        return (
            lambda: dist.all_gather_into_tensor(whole, part),
            part,
            rank + 1.0,
            last,
            float(ranks),
        )
    return lambda: dist.reduce_scatter_tensor(part, whole), whole, rank + 1.0, part, total


def serve(framework: str, engine: str, port: int) -> None:
    """A rank: does what each line says, and tells the seconds of a call."""
    torch = importlib.import_module(framework)
    dist = importlib.import_module(f"{framework}.distributed")
    torch.set_num_threads(1)
    dist.init_process_group(engine)
    calls: dict[tuple[str, int], Any] = {}
    with socket.create_connection(("127.0.0.1", port)) as peer, peer.makefile("rw") as lines:
        lines.write(f"{dist.get_rank()}\n")
        lines.flush()
        for line in lines:
            name, size, count = line.split()
            key = (name, int(size))
            if key not in calls:
                calls[key] = prepared(torch, dist, *key)
            call, given, put, target, value = calls[key]
            call()
            dist.barrier()
            start = time.perf_counter()
            for _ in range(int(count)):
                call()
            taken = (time.perf_counter() - start) / int(count)
            given.fill_(put)
            call()
            right = bool((target == value).all())
            given.fill_(0.0)
            lines.write(json.dumps({"seconds": taken, "right": right}) + "\n")
            lines.flush()
    dist.destroy_process_group()


# ------------------------------------------------------------------ all ranks


class Side:
    """The ranks of one framework and engine."""

    def __init__(self, python: str, framework: str, engine: str, ranks: int) -> None:
        base = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
        with socket.create_server(("127.0.0.1", 0)) as door:
            port = door.getsockname()[1]
            line = [
                python,
                __file__,
                "--serve",
                framework,
                "--engines",
                engine,
                "--port",
                str(port),
            ]
            if engine == "mpi":
                self.processes = [_with_mpi(line, base, ranks)]
            else:
                self.processes = _with_store(line, base, ranks)
            door.settimeout(120)
            self.ranks = [door.accept()[0].makefile("rw") for _ in range(ranks)]
        for rank in self.ranks:
            rank.readline()

    def ask(self, name: str, size: int, count: int) -> float:
        """Seconds of a call on the slowest rank."""
        for rank in self.ranks:
            rank.write(f"{name} {size} {count}\n")
            rank.flush()
        answers = [json.loads(rank.readline()) for rank in self.ranks]
        if not all(answer["right"] for answer in answers):
            raise SystemExit(f"{name} of {size} bytes gave a wrong result")
        return max(answer["seconds"] for answer in answers)

    def close(self) -> None:
        """The ranks end."""
        for rank in self.ranks:
            rank.close()
        for process in self.processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def _with_store(line: list[str], base: dict[str, str], ranks: int) -> list[Any]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    base = {**base, "MASTER_PORT": port, "WORLD_SIZE": str(ranks)}
    return [
        subprocess.Popen(line, env={**base, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(ranks)
    ]


def _with_mpi(line: list[str], base: dict[str, str], ranks: int) -> Any:
    base = {**base, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    program = shutil.which("mpiexec") or beside
    options = ["--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
    return subprocess.Popen([program, *options, *line], env=base, stdin=subprocess.DEVNULL)


def compared(sides: dict[str, Side], name: str, size: int, rounds: int) -> dict[str, float]:
    """Measure an operation on all sides in turn, and print it; gives the ratios of the least times."""
    counts = {
        side: max(1, min(MOST, int(LONG / max(one.ask(name, size, 3), 1e-9))))
        for side, one in sides.items()
    }
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, one in sides.items():
            taken[side].append(one.ask(name, size, counts[side]))
    text, ratios = "", {}
    for side, seconds in taken.items():
        text += f"  {side} {1e6 * min(seconds):9.1f} us"
        if "torch" in sides and side != "torch":
            ratios[side] = min(taken["torch"]) / min(seconds)
            pairs = zip(taken["torch"], seconds, strict=True)
            middle = statistics.median(theirs / ours for theirs, ours in pairs)
            text += f" ({ratios[side]:.2f}x, middle {middle:.2f}x)"
    print(f"{name:15}{size:>10} bytes{text}", flush=True)
    return ratios


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("operations", nargs="*", default=OPERATIONS)
    parser.add_argument("--other", help="an interpreter that has PyTorch")
    parser.add_argument("--engines", default="gloo,mpi")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--bytes", default=",".join(map(str, ASKED)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--serve", metavar="FRAMEWORK", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.engines, options.port)
        return 0
    missed = []
    for ranks in map(int, options.ranks.split(",")):
        print(f"{ranks} ranks")
        sides = {
            engine: Side(sys.executable, "facula", engine, ranks)
            for engine in options.engines.split(",")
        }
        if options.other:
            sides["torch"] = Side(options.other, "torch", "gloo", ranks)
        for name in options.operations:
            for size in map(int, options.bytes.split(",")):
                for engine, ratio in compared(sides, name, size, options.rounds).items():
                    if name == "all_reduce" and ratio < ASKED.get(size, 0.0):
                        missed.append(
                            f"{ranks} ranks, {size} bytes, {engine}: {ratio:.2f}x, {ASKED[size]}x asked"
                        )
        for side in sides.values():
            side.close()
    for text in missed:
        print(f"MISSED {text}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
