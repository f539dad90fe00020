"""`python -m facula.distributed.run`: a program in several processes.

Takes: a number of processes, and a script or module with arguments. Gives: its processes, with RANK,
LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
Keeps true: when one fails, the others are ended, and all are started again at most `--max-restarts`
times; the launcher's exit status is that of the first failure; no process outlives it.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence

from facula.core.logs import get_logger

__all__ = ["get_args_parser", "main", "run"]

_PAUSE = 0.05
_GRACE = 10.0


def _both(name: str) -> tuple[str, str]:
    """An option with hyphens and with underscores."""
    return f"--{name}", f"--{name.replace('-', '_')}"


def get_args_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(prog="facula.distributed.run", description="Start a program "
                                     "in several processes.")  # fmt: skip
    add = parser.add_argument
    add(*_both("nnodes"), default="1", help="how many machines")
    add(*_both("nproc-per-node"), default="1", help="processes on each: a number, cpu or auto")
    add(*_both("node-rank"), type=int, default=0, help="which of the machines this is")
    add(*_both("master-addr"), default="127.0.0.1", help="the address of machine 0")
    add(*_both("master-port"), type=int, default=29500, help="a free port of machine 0")
    add("--standalone", action="store_true", help="one machine, any free port")
    add(*_both("rdzv-backend"), default="static", help="static, or c10d")
    add(*_both("rdzv-endpoint"), default="", help="address:port of machine 0")
    add(*_both("rdzv-id"), default="none", help="a name of the run")
    add(*_both("rdzv-conf"), default="", help="kept for PyTorch's programs")
    add(
        *_both("max-restarts"), type=int, default=0, help="how often to start again after a failure"
    )
    add(*_both("log-dir"), default=None, help="a folder for the output of each process")
    add("-m", "--module", action="store_true", help="the program is a module")
    add(*_both("no-python"), action="store_true", help="the program is an executable")
    add("training_script", help="the program")
    add("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def _processes(text: str) -> int:
    return os.cpu_count() or 1 if text in ("cpu", "auto") else int(text)


def _address(args: argparse.Namespace) -> tuple[str, int]:
    """Where processes meet."""
    if args.standalone:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return "127.0.0.1", probe.getsockname()[1]
    if args.rdzv_endpoint:
        host, _, port = args.rdzv_endpoint.rpartition(":")
        return (host, int(port)) if host else (args.rdzv_endpoint, args.master_port)
    return args.master_addr, args.master_port


def _command(args: argparse.Namespace) -> list[str]:
    program = [args.training_script, *args.training_script_args]
    if args.no_python:
        return program
    return [sys.executable, "-u", *(["-m"] if args.module else []), *program]


def _environment(args: argparse.Namespace, local: int, count: int, restart: int) -> dict[str, str]:
    nodes = int(str(args.nnodes).rpartition(":")[2])
    host, port = args.address
    made = {
        **os.environ,
        "RANK": str(args.node_rank * count + local),
        "LOCAL_RANK": str(local),
        "GROUP_RANK": str(args.node_rank),
        "WORLD_SIZE": str(nodes * count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        # machines find the secret of the user, unless somebody set one for all
        **({"FACULA_STORE_SECRET": args.secret} if nodes == 1 else {}),
        "TORCHELASTIC_RUN_ID": args.rdzv_id if args.rdzv_id != "none" else uuid.uuid4().hex,
        "TORCHELASTIC_RESTART_COUNT": str(restart),
        "TORCHELASTIC_MAX_RESTARTS": str(args.max_restarts),
    }
    if count > 1:
        made.setdefault("OMP_NUM_THREADS", "1")
    return made


def _start(args: argparse.Namespace, restart: int) -> list[subprocess.Popen[bytes]]:
    count = _processes(args.nproc_per_node)
    command, started = _command(args), []
    for local in range(count):
        output = None
        if args.log_dir:
            os.makedirs(args.log_dir, exist_ok=True)
            output = open(os.path.join(args.log_dir, f"{restart}.{local}.log"), "wb")  # noqa: SIM115
        environment = _environment(args, local, count, restart)
        started.append(
            subprocess.Popen(
                command, env=environment, stdout=output, stderr=output and subprocess.STDOUT
            )
        )
        if output is not None:
            output.close()
    return started


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End what still runs."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    end = time.monotonic() + _GRACE
    for process in processes:
        try:
            process.wait(max(end - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _watch(processes: list[subprocess.Popen[bytes]]) -> tuple[int, int]:
    """Wait for the end of all, or the first failure: its number and status."""
    while True:
        codes = [process.poll() for process in processes]
        for number, code in enumerate(codes):
            if code:
                return number, code
        if all(code == 0 for code in codes):
            return -1, 0
        time.sleep(_PAUSE)


def run(args: argparse.Namespace) -> int:
    """Run the program; gives its exit status."""
    log = get_logger("distributed")
    args.address = _address(args)
    args.secret = os.environ.get("FACULA_STORE_SECRET") or secrets.token_hex(32)
    for restart in range(args.max_restarts + 1):
        processes = _start(args, restart)
        try:
            number, code = _watch(processes)
        finally:
            _end(processes)
        if not code:
            return 0
        name = signal.Signals(-code).name if code < 0 else f"status {code}"
        log.error("process %d failed with %s (start %d of %d)", number, name, restart + 1,
                  args.max_restarts + 1)  # fmt: skip
        if args.standalone:
            args.address = _address(args)
    return code if code > 0 else 128 - code


def main(args: Sequence[str] | None = None) -> None:
    """Run the program of the command line."""

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    raise SystemExit(run(get_args_parser().parse_args(args)))


if __name__ == "__main__":
    main()
