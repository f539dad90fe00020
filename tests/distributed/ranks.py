"""Runs a function of this folder's programs in several processes, with a deadline.

Takes: the name of a function in `programs`, a number of ranks. Gives: what each rank's function gave.
Keeps true: no process outlives the call; a rank's error is shown whole.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))


def run(
    program: str, size: int = 2, seconds: float = 60, *, script: str = "programs.py",
    dying: Sequence[int] = (), environment: Mapping[str, str] | None = None,
) -> list[Any]:  # fmt: skip
    """The results of all ranks; None of those that are to die."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    base = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    base |= environment or {}
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
        ended = [process.communicate(timeout=seconds) for process in processes]
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
