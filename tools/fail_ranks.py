"""A rank fails at a random moment; the others must name it.

    python tools/fail_ranks.py --times 200
    python tools/fail_ranks.py --times 20 --programs ddp,fsdp --faults kill,stop --engines gloo,messages

Takes: programs (`fail_programs.PROGRAMS`), faults (killed, stopped, cut off from the network, slow, in
another operation), engines, a number of times and a seed. Gives: for each a line with how many went well and
the longest time until a survivor knew; each that did not go well, with what it said; exit status 1 then.
Keeps true: the same seed has the same ranks fail at the same steps or after the same time; all processes that
were started are ended; a survivor counts as well only if it names the rank that failed within the time-out
and five seconds, has got no wrong number, and ends.

`cut` takes the rank's network away: it runs in a network namespace of its own, whose link goes down; this
needs the rights of the system's administrator, and is left out with a word about it without them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from held_port import held_port

TOOLS = Path(__file__).resolve().parent
FAULTS = ("kill", "stop", "cut", "slow", "other")
#: what ranks are told, by the engine's name here
ENGINES: dict[str, dict[str, str]] = {
    "gloo": {},
    "messages": {"FACULA_SHARED_COLLECTIVES": "0"},
    "mpi": {},
    "mpi-messages": {"FACULA_SHARED_COLLECTIVES": "0"},
}
SIZE, TIMEOUT, GRACE = 3, 2.0, 5.0
#: seconds that processes may take to start, and to end after they have said how they failed: a rank that gave
#: up in nothing of its own waits for the others as long as the time-out was with which they met
START, END = 90.0, 60.0
#: seconds between looks at what ranks say
_LOOK = 0.02


@dataclass(frozen=True)
class Case:
    """One failure."""

    program: str
    fault: str
    engine: str
    seed: int


class Namespace:
    """A network of a rank's own: a link to the other ranks that can go down."""

    def __init__(self, number: int) -> None:
        own = os.getpid()
        self.name, self.link = f"facula-fail-{own}-{number}", f"ff{own % 65536:x}x{number}"
        network = f"10.{200 + own % 50}.{number}"
        self.near, self.far = f"{network}.1", f"{network}.2"

    def __enter__(self) -> Namespace:
        inner = f"{self.link}i"
        for line in (
            f"netns add {self.name}",
            f"link add {self.link} type veth peer name {inner}",
            f"link set {inner} netns {self.name}",
            f"addr add {self.near}/24 dev {self.link}",
            f"link set {self.link} up",
            f"-n {self.name} addr add {self.far}/24 dev {inner}",
            f"-n {self.name} link set {inner} up",
            f"-n {self.name} link set lo up",
        ):
            subprocess.run(["ip", *line.split()], check=True, capture_output=True)
        return self

    def down(self) -> None:
        """Cut the link: nobody is told."""
        subprocess.run(["ip", "link", "set", self.link, "down"], check=True, capture_output=True)

    def __exit__(self, *raised: Any) -> None:
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True)
        subprocess.run(["ip", "link", "del", self.link], capture_output=True)


def may_cut() -> str:
    """Why networks can not be made here; nothing where they can."""
    if shutil.which("ip") is None:
        return "there is no program `ip`"
    try:
        with Namespace(255):
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        return str(getattr(error, "stderr", b"").decode() or error).strip()


class Server:
    """Begins ranks: a process that has imported the package once."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "server")
        line = [sys.executable, str(TOOLS / "fail_rank.py"), "--serve", self.path]
        pipe = subprocess.PIPE
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True, env=environment)
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the server of ranks did not begin")

    def start(self, environment: dict[str, str]) -> int:
        """Begin a rank; gives its process."""
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(self.path)
            server.sendall(json.dumps(environment).encode() + b"\n")
            return int(server.makefile().readline())

    def close(self) -> None:
        """Begin no more."""
        self.process.communicate()


class Trial:
    """One failure that is under way."""

    def __init__(self, case: Case, slot: int, server: Server) -> None:
        self.case, self.slot, self.server = case, slot, server
        self.random = random.Random(f"{case}")
        self.victim = self.random.randrange(SIZE)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.pids: dict[int, int] = {}
        self.held: socket.socket | None = None
        #: seconds by which a busy machine has held up this process, which sleeps and looks, like a rank
        self.lag = 0.0

    def run(self) -> tuple[float, str]:
        """The longest time until a survivor knew, and what is wrong; nothing where all went well."""
        with tempfile.TemporaryDirectory(prefix="facula-fail-") as folder:
            self.folder = Path(folder)
            try:
                if self.case.fault == "cut":
                    # rank 0 keeps the store, where the others are
                    self.victim = self.random.randrange(1, SIZE)
                    with Namespace(self.slot) as network:
                        return self._run(network)
                return self._run(None)
            finally:
                self._end()

    # ---------------------------------------------------------------- processes

    def _environment(self, network: Namespace | None) -> dict[str, str]:
        case = self.case
        by_itself = case.fault in ("slow", "other")
        task = {
            "program": case.program, "engine": case.engine.partition("-")[0].replace("messages", "gloo"),
            "seconds": TIMEOUT, "how": case.fault, "victim": self.victim if by_itself else -1,
            "at": self.random.randrange(1, 40), "longest": 150.0,
        }  # fmt: skip
        made = {**os.environ, **ENGINES[case.engine], "OMP_NUM_THREADS": "1"}
        made |= {"FAIL_TASK": json.dumps(task), "FAIL_FOLDER": str(self.folder)}
        made["FAIL_OUTPUT"] = str(self.folder / "errors")
        made |= {"WORLD_SIZE": str(SIZE), "FACULA_STORE_SECRET": "of this trial"}
        made |= {"MASTER_ADDR": "127.0.0.1" if network is None else network.near}
        if network is not None:
            made["FAIL_REMOTE"] = "1"
        return made

    def _start(self, network: Namespace | None) -> None:
        environment = self._environment(network)
        if self.case.engine.startswith("mpi"):
            self._start_mpi(environment)
            return
        self.held = held_port(environment["MASTER_ADDR"])
        environment["MASTER_PORT"] = str(self.held.getsockname()[1])
        for rank in range(SIZE):
            more = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            if network is not None and rank == self.victim:
                more["FAIL_NETWORK"] = network.name
            self.pids[rank] = self.server.start({**environment, **more})

    def _start_mpi(self, environment: dict[str, str]) -> None:
        for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"):
            environment.pop(name, None)
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
        # its folders are named by numbers of processes, which come again: those of ranks that were killed stay
        environment["TMPDIR"] = str(self.folder)
        environment["FAIL_SERVER"] = self.server.path
        program = [sys.executable, "-SE", str(TOOLS / "fail_start.py")]
        options = ["--oversubscribe", "--bind-to", "none", "--with-ft", "ulfm", "-n", str(SIZE)]
        found = os.environ.get("MPIEXEC") or shutil.which("mpiexec") or "mpiexec"
        with open(self.folder / "errors", "wb") as errors:
            self.processes[-1] = subprocess.Popen(
                [found, *options, *program], env=environment, stdout=errors, stderr=errors
            )

    def _read(self, rank: int, kind: str = "") -> Any:
        path = self.folder / f"{rank}{kind}"
        return json.loads(path.read_text()) if path.exists() else None

    def _wait(self, seconds: float, done: Any) -> bool:
        end = time.monotonic() + seconds
        while not done():
            before = time.monotonic()
            if before > end:
                return False
            time.sleep(_LOOK)
            self.lag += max(time.monotonic() - before - 1.5 * _LOOK, 0.0)
        return True

    def _end(self) -> None:
        if self.held is not None:
            self.held.close()
        for pid in self.pids.values():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    # ---------------------------------------------------------------- the failure

    def _run(self, network: Namespace | None) -> tuple[float, str]:
        self._start(network)
        ranks = range(SIZE)
        known = lambda r: self._read(r, ".ready") or self._read(r)  # noqa: E731
        self._wait(START, lambda: all(known(r) for r in ranks))
        if any(self._read(r, ".ready") is None for r in ranks):
            told = {r: self._read(r) for r in ranks}
            return 0.0, f"not all ranks began: {told} {self._said()}"
        self.pids |= {rank: self._read(rank, ".ready") for rank in ranks}
        moment = self._fail(network)
        if moment is None:
            return 0.0, "the rank that was to fail did not: " + self._said()
        survivors = [rank for rank in ranks if rank != self.victim]
        limit, self.lag = TIMEOUT + GRACE, 0.0
        done = self._wait(limit + 20, lambda: all(self._read(r) is not None for r in survivors))
        found = {rank: self._read(rank) for rank in survivors}
        stands = "" if done else self._stacks(r for r in survivors if found[r] is None)
        longest = max(
            [one["time"] - max(moment, one["began"]) for one in found.values() if one] or [0.0]
        )
        wrong = [
            f"rank {r}: {text}" for r in survivors if (text := self._judged(r, found[r], moment))
        ]
        if done and not self._wait(END, lambda: not any(_alive(self.pids[r]) for r in survivors)):
            wrong.append("survivors do not end")
        wrong += self._checkpoint()
        return longest, "; ".join(wrong) + (f" [victim {self.victim}]{stands}" if wrong else "")

    def _stacks(self, ranks: Iterable[int]) -> str:
        """Where ranks that say nothing stand, in all of their threads."""
        for rank in ranks:
            if _alive(self.pids[rank]):
                os.kill(self.pids[rank], signal.SIGUSR1)
                time.sleep(1.0)
        return "\n" + self._said(12_000)

    def _fail(self, network: Namespace | None) -> float | None:
        """Let the rank fail; gives when that was."""
        fault = self.case.fault
        if fault in ("slow", "other"):
            self._wait(100.0, lambda: self._read(self.victim, ".fault") is not None)
            told = self._read(self.victim, ".fault")
            return told["fault"] if told else None
        time.sleep(self.random.uniform(0.0, 0.5))
        moment = time.monotonic()
        if network is not None:
            network.down()
        else:
            kind = signal.SIGKILL if fault == "kill" else signal.SIGSTOP
            os.kill(self.pids[self.victim], kind)
        return moment

    def _judged(self, rank: int, told: Any, moment: float) -> str:
        """What is wrong with what a survivor said."""
        if told is None and not _alive(self.pids[rank]):
            return "ENDED: its process has ended, and said nothing"
        if told is None:
            return "HANG: said nothing in time"
        if "wrong" in told:
            return f"WRONG NUMBER: {told['wrong']}"
        text = told["error"]
        if text is None:
            return "went on without an error"
        waited = self._waited(told, moment)
        if waited > TIMEOUT + GRACE:
            return f"LATE: {waited:.1f} s: {text}"
        name = f"worker{self.victim}" if self.case.program == "rpc" else rf"ranks? {self.victim}\b"
        return "" if re.search(name, text) else f"does not name rank {self.victim}: {text}"

    def _waited(self, told: Any, moment: float) -> float:
        """Seconds that a survivor needed, less those for which a busy machine did not let it run."""
        held_up = max(told["starved"], self.lag)
        return float(told["time"] - max(moment, told["began"]) - held_up)

    def _checkpoint(self) -> list[str]:
        """What is wrong with the checkpoint that is left."""
        if self.case.program != "checkpoint":
            return []
        import fail_programs

        try:
            fail_programs.saved(str(self.folder))
        except Exception as error:
            return [f"the checkpoint is broken: {type(error).__name__}: {error}"]
        return []

    def _said(self, most: int = 1500) -> str:
        return (self.folder / "errors").read_text(errors="replace")[-most:]


def _alive(pid: int) -> bool:
    """Whether a process runs that is not only waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def cases(arguments: argparse.Namespace) -> list[Case]:
    """What is to be tried, in an order that mixes all."""
    made = [
        Case(program, fault, engine, arguments.seed + number)
        for number in range(arguments.times)
        for program in arguments.programs.split(",")
        for fault in arguments.faults.split(",")
        for engine in arguments.engines.split(",")
        # two hosts over mpi, one of which is cut off: several_hosts.py
        if not (engine.startswith("mpi") and fault == "cut")
        and not (program == "rpc" and engine in ("messages", "mpi-messages"))
        # collectives in shared memory need no network
        and not (fault == "cut" and engine == "gloo" and program not in ("rpc", "pipeline"))
    ]
    why = may_cut() if any(case.fault == "cut" for case in made) else ""
    if why:
        print(f"no rank is cut off: {why}", flush=True)
        made = [case for case in made if case.fault != "cut"]
    return made


def main(given: list[str] | None = None) -> int:
    """Run the campaign; gives the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", default="all_reduce,ddp,fsdp,pipeline,checkpoint,rpc")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--engines", default="gloo,messages")
    parser.add_argument("--beside", type=int, default=8, help="trials at the same time")
    arguments = parser.parse_args(given)
    results: dict[tuple[str, str, str], list[tuple[float, str]]] = defaultdict(list)
    slots, lock = list(range(1, arguments.beside + 1)), threading.Lock()
    ended = threading.Event()

    def attempt(case: Case) -> None:
        with lock:
            slot = slots.pop()
        try:
            longest, wrong = Trial(case, slot, server).run()
        except Exception as error:
            longest, wrong = 0.0, f"the trial failed: {type(error).__name__}: {error}"
        with lock:
            slots.append(slot)
            if wrong and ended.is_set():  # who ended this process may have ended its ranks
                return
            results[(case.program, case.fault, case.engine)].append((longest, wrong))
            tried = sum(map(len, results.values()))
            if tried % 500 == 0:
                print(f"{tried} tried", flush=True)
            if wrong:
                print(f"FAULT {case}: {wrong}", flush=True)

    folder = tempfile.TemporaryDirectory(prefix="facula-fail-")
    server = Server(folder.name)

    def end(number: int, frame: object) -> None:
        ended.set()
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        with ThreadPoolExecutor(arguments.beside) as pool:
            try:
                list(pool.map(attempt, cases(arguments)))
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    except SystemExit:
        print("ended before all were tried", flush=True)
    finally:
        server.close()
        folder.cleanup()
    for (program, fault, engine), found in sorted(results.items()):
        good = sum(not wrong for _, wrong in found)
        longest = max(seconds for seconds, _ in found)
        print(
            f"{program:<11}{fault:<6}{engine:<13}{good}/{len(found)} well, longest {longest:.1f} s"
        )
    return int(any(wrong for found in results.values() for _, wrong in found))


if __name__ == "__main__":
    sys.exit(main())
