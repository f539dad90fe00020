"""One rank of `fail_ranks.py`: runs a program until it fails, and writes how.

Takes: what is run as JSON in the environment variable FAIL_TASK. Gives: a file with the error, and when it came.
With `--serve` and a path: a server there, to which environments come as lines of JSON; for each a process of its
own begins, and its number is told.
Keeps true: a rank that does not fail ends by itself after `seconds`; the clock is that of the machine.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from typing import Any

import fail_programs

from facula import distributed as dist
from facula.distributed import rpc


def write(path: str, content: Any) -> None:
    """Write a file at once."""
    with open(path + ".new", "w") as file:
        json.dump(content, file)
    os.replace(path + ".new", path)


def starved() -> float:
    """Seconds for which threads of this process could have run, and others had the processor."""
    total = 0
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/schedstat") as file:
            total += int(file.read().split()[1])
    return total / 1e9


def misbehave(how: str, number: int, seconds: float, name: str, path: str) -> None:
    """Be the rank that fails by itself: slow, or in another operation."""
    write(path, {"fault": time.monotonic()})
    if how == "slow":
        fail_programs.answer_late(seconds + 6)
        time.sleep(seconds + 6)
    elif name == "rpc":
        rpc.shutdown(graceful=False)
    else:
        try:
            fail_programs.other(number)
        except RuntimeError:
            dist.destroy_process_group()


def main() -> None:
    """Run the task; asked by a signal, tell where all threads stand."""
    faulthandler.register(signal.SIGUSR1)
    task = json.loads(os.environ["FAIL_TASK"])
    rank = int(os.environ.get("RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
    path = os.path.join(os.environ["FAIL_FOLDER"], str(rank))
    told: dict[str, Any] = {"error": None}
    began, before = time.monotonic(), starved()
    try:
        step = fail_programs.begin(task["program"], task["engine"], task["seconds"])
        write(path + ".ready", os.getpid())
        end, number = time.monotonic() + task["longest"], 1
        while time.monotonic() < end:
            if rank == task["victim"] and number == task["at"]:
                return misbehave(
                    task["how"], number, task["seconds"], task["program"], path + ".fault"
                )
            began, before = time.monotonic(), starved()
            step(number)
            number += 1
    except fail_programs.WrongNumber as error:
        told = {"wrong": str(error)}
    except Exception as error:
        told = {"error": f"{type(error).__name__}: {error}"}
    told |= {"time": time.monotonic(), "began": began, "starved": starved() - before}
    write(path, told)


def enter(namespace: str) -> None:
    """Let this process have another network."""
    with open(f"/var/run/netns/{namespace}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


def begin(connection: socket.socket, listening: socket.socket) -> None:
    """Begin a process for who connected, and tell its number; with FAIL_HELD, the two end together."""
    with connection, connection.makefile("r") as lines:
        environment = json.loads(lines.readline() or "null")
        child = os.fork() if environment else -1
        if child:
            connection.sendall(f"{child}\n".encode())
            return
        code = 1
        try:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.environ.update(environment)
            output = os.open(environment["FAIL_OUTPUT"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for number, other in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
                os.dup2(other, number)
            if "FAIL_HELD" in environment:
                threading.Thread(target=_held, args=(connection,), daemon=True).start()
            else:
                connection.close()
            if "FAIL_NETWORK" in environment:
                enter(environment["FAIL_NETWORK"])
            main()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            dist.destroy_process_group() if dist.is_initialized() else None
            atexit._run_exitfuncs()  # those of engines
            with contextlib.suppress(OSError):
                connection.sendall(b"ended" if code == 0 else b"")
            os._exit(code)


def _held(connection: socket.socket) -> None:
    """End with who stands for this process."""
    with contextlib.suppress(OSError):
        connection.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


def serve(path: str) -> None:
    """Begin a process for each connection, until the input ends: what they need is loaded once for all."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    fail_programs.warm()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        print("ready", flush=True)
        poll = select.poll()
        for readable in (0, listening.fileno()):
            poll.register(readable, select.POLLIN)
        while all(descriptor != 0 for descriptor, _ in poll.poll()):
            begin(listening.accept()[0], listening)


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1:2] == ["--serve"] else main()
