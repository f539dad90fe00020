"""Runs a function of this folder's programs in several processes, with a deadline.

Takes: the name of a function in `programs`, a number of ranks. Gives: what each rank's function gave.
Keeps true: no process outlives the call; a rank's error is shown whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: seconds that a program may take on a machine that is busy with others: who is slow is no failure, who hangs is
DEADLINE = 240.0
HERE = os.path.dirname(os.path.abspath(__file__))


def mpiexec() -> list[str]:
    """How several processes of MPI are started on this machine, which has fewer processors; killed ones end
    alone."""
    import mpi4py  # the extra `mpi`, whose library lies beside it

    places = [sysconfig.get_path("scripts"), os.path.join(mpi4py.__path__[0], *[".."] * 4, "bin")]
    found = next(p for place in places if os.path.exists(p := os.path.join(place, "mpiexec")))
    return [found, "--oversubscribe", "--bind-to", "none", "--with-ft", "ulfm"]


def run_under_mpi(
    program: str, size: int = 2, seconds: float = DEADLINE, *, script: str = "programs.py",
    dying: Sequence[int] = (), environment: Mapping[str, str] | None = None,
) -> list[Any]:  # fmt: skip
    """The same, where `mpiexec` starts the processes and MPI is all that they know of each other."""
    base = {k: v for k, v in os.environ.items() if k not in ("MASTER_ADDR", "MASTER_PORT")}
    base |= {"OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", **(environment or {})}
    base |= {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
    program_line = [sys.executable, os.path.join(HERE, script), *program.split()]
    with tempfile.TemporaryDirectory() as folder:
        command = [*mpiexec(), "-n", str(size), *program_line]
        environ = {**base, "TEST_RESULTS": folder, "TMPDIR": folder}
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=seconds
        )  # fmt: skip
        assert done.returncode == 0 or dying, done.stderr[-3000:]
        found = []
        for rank in range(size):
            path = os.path.join(folder, str(rank))
            assert rank in dying or os.path.exists(path), f"rank {rank}: {done.stderr[-3000:]}"
            found.append(None)
            if os.path.exists(path):
                with open(path) as file:
                    found[rank] = json.load(file)
        return found


def _stacks(processes: Sequence[subprocess.Popen[str]]) -> str:
    """Where each process that runs stands, in all of its threads; they end by it."""
    lines = []
    for rank, process in enumerate(processes):
        if process.poll() is None:
            process.send_signal(signal.SIGABRT)
            lines.append(f"rank {rank}:\n{process.communicate()[1][-6000:]}")
    return "\n".join(lines)


@contextlib.contextmanager
def held_port() -> Iterator[str]:
    """A port that rank 0 may listen at and the system gives to nobody else: it is bound here, too, by a socket
    that does not listen and lets others have its address."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield str(holder.getsockname()[1])


def run(
    program: str, size: int = 2, seconds: float = DEADLINE, *, script: str = "programs.py",
    dying: Sequence[int] = (), environment: Mapping[str, str] | None = None,
) -> list[Any]:  # fmt: skip
    """The results of all ranks; None of those that are to die."""
    with held_port() as port:
        return _run(program, size, seconds, port, script, dying, environment or {})


def _run(
    program: str, size: int, seconds: float, port: str, script: str, dying: Sequence[int],
    environment: Mapping[str, str],
) -> list[Any]:  # fmt: skip
    base = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    base |= {"PYTHONFAULTHANDLER": "1", **environment}
    command = [sys.executable, os.path.join(HERE, script), *program.split()]
    processes = [
        subprocess.Popen(
            command,
            env={**base, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        end = time.monotonic() + seconds
        ended = [
            process.communicate(timeout=max(end - time.monotonic(), 0.1)) for process in processes
        ]
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{program}: no end in {seconds:g} s\n{_stacks(processes)}") from None
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    for rank, (process, (_, errors)) in enumerate(zip(processes, ended, strict=True)):
        assert process.returncode == 0 or rank in dying, f"rank {rank}: {errors[-3000:]}"
    return [
        None if rank in dying else json.loads(out.strip().splitlines()[-1])
        for rank, (out, _) in enumerate(ended)
    ]
