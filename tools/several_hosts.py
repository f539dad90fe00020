"""Two hosts of two ranks over `mpi`, on one machine: network namespaces that a virtual Ethernet link joins.

    python tools/several_hosts.py                  # the link is good, then goes down
    python tools/several_hosts.py --netem "delay 5ms" --netem "loss 2%"

Takes: rules for `tc netem`, one for each further run. Gives: for each run whether all sums were right; for the
link that goes down, how long each rank needed to name ranks of the other host; exit status 1 where one
gave a wrong number, named nobody, or needed more than the time-out and five seconds.
Keeps true: addresses and namespaces of its own only, which are gone afterwards; processes of the two hosts
meet by the link alone: memory that they could share, being on one machine, is not used.

It needs the rights of the system's administrator, `ip`, and for rules a kernel with `sch_netem`; where one is
missing it says so, with exit status 2.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIMEOUT, GRACE = 8.0, 5.0
#: how far of 10.0.0.0/8 this process's network lies
_NETWORK = f"10.{150 + os.getpid() % 50}.7"
_ADDRESSES = (f"{_NETWORK}.1", f"{_NETWORK}.2")
_NAMES = tuple(f"facula-host-{os.getpid()}-{number}" for number in (0, 1))
_LINKS = tuple(f"fh{os.getpid() % 65536:x}x{number}" for number in (0, 1))


def ip(line: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *line.split()], check=True, capture_output=True)


@contextlib.contextmanager
def hosts() -> Iterator[None]:
    """Two namespaces and the link between them."""
    try:
        for name in _NAMES:
            ip(f"netns add {name}")
        ip(f"link add {_LINKS[0]} type veth peer name {_LINKS[1]}")
        for name, link, address in zip(_NAMES, _LINKS, _ADDRESSES, strict=True):
            ip(f"link set {link} netns {name}")
            ip(f"-n {name} addr add {address}/24 dev {link}")
            ip(f"-n {name} link set {link} up")
            ip(f"-n {name} link set lo up")
        yield
    finally:
        for name in _NAMES:
            # the launcher's process on the other host hears of no end where the link is down
            left = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
            for pid in map(int, left.stdout.split()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def ruled(rule: str) -> None:
    """Have both ends of the link follow a rule of netem."""
    for name, link in zip(_NAMES, _LINKS, strict=True):
        line = ["ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", link, "root", "netem"]
        subprocess.run([*line, *rule.split()], check=True, capture_output=True)


# ------------------------------------------------------------------ one rank


def serve(folder: Path, until_cut: bool) -> None:
    """A rank: sums of known numbers; with `until_cut`, for as long as they come."""
    import facula
    from facula import distributed as dist

    dist.init_process_group("mpi", timeout=datetime.timedelta(seconds=TIMEOUT))
    rank, size = dist.get_rank(), dist.get_world_size()
    told: dict[str, Any] = {"wrong": 0, "error": "", "host": os.uname().nodename}
    number, began = 0, time.monotonic()
    try:
        while until_cut or number < 40:
            x = facula.full((7 + 40_000 * (number % 4),), float(rank + number))
            began = time.monotonic()
            dist.all_reduce(x)
            want = size * (size - 1) / 2 + size * number
            told["wrong"] += not bool((x == want).all())
            number += 1
            if number == 10:
                (folder / f"{rank}.ready").touch()
    except RuntimeError as error:
        told["error"] = str(error)
    told |= {"seconds": time.monotonic() - began, "sums": number}
    (folder / str(rank)).write_text(json.dumps(told))


# ------------------------------------------------------------------ all ranks


def _agent(folder: Path) -> Path:
    """What starts a command on the other host, in the place of ssh."""
    agent = folder / "agent"
    agent.write_text(
        '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1; shift\n'
        f'exec ip netns exec {_NAMES[1]} unshare -u sh -c "hostname $host; $*"\n'
    )
    agent.chmod(0o700)
    return agent


def _started(folder: Path, cut: bool) -> subprocess.Popen[bytes]:
    mpiexec = Path(sys.executable).parent / "mpiexec"
    network = f"{_NETWORK}.0/24"
    line = (
        f"hostname {_ADDRESSES[0]}; exec {mpiexec} -x FACULA_SHARED_COLLECTIVES=0 -x OMP_NUM_THREADS=1 "
        f"--prtemca plm_ssh_agent {_agent(folder)} --prtemca prte_if_include {network} "
        f"--mca btl_tcp_if_include {network} --host {_ADDRESSES[0]}:2,{_ADDRESSES[1]}:2 "
        f"--oversubscribe --bind-to none --with-ft ulfm -n 4 "
        f"{sys.executable} {Path(__file__).resolve()} --serve {folder} {'--cut' if cut else ''}"
    )
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with open(folder / "output", "wb") as output:
        return subprocess.Popen(
            ["ip", "netns", "exec", _NAMES[0], "unshare", "-u", "sh", "-c", line],
            env={**os.environ, **allowed}, stdout=output, stderr=output,
        )  # fmt: skip


def _all_there(folder: Path, suffix: str, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not all((folder / f"{rank}{suffix}").exists() for rank in range(4)):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def judged(told: dict[str, Any], rank: int, cut: bool) -> str:
    """What is wrong with what a rank said."""
    if told["wrong"]:
        return f"{told['wrong']} sums were wrong"
    if not cut:
        return told["error"]
    others = (2, 3) if rank < 2 else (0, 1)
    if not any(f"rank {other}" in told["error"] for other in others):
        return f"no rank of the other host is named: {told['error']!r}"
    late = told["seconds"] > TIMEOUT + GRACE
    return f"late: {told['seconds']:.1f} s" if late else ""


def tried(what: str, cut: bool) -> list[str]:
    """Run the ranks; gives what is wrong."""
    with tempfile.TemporaryDirectory(prefix="facula-hosts-") as name, hosts():
        folder = Path(name)
        if what.startswith("netem"):
            ruled(what.removeprefix("netem "))
        process = _started(folder, cut)
        try:
            if not _all_there(folder, ".ready", 120):
                return ["not all ranks began: " + (folder / "output").read_text()[-1500:]]
            if cut:
                time.sleep(0.5)
                ip(f"-n {_NAMES[0]} link set {_LINKS[0]} down")
            if not _all_there(folder, "", 120):
                return ["HANG: not all ranks ended"]
            found = [json.loads((folder / str(rank)).read_text()) for rank in range(4)]
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
    longest = max(told["seconds"] for told in found) if cut else 0.0
    places = len({told["host"] for told in found})
    print(f"{what}: {places} hosts, {min(t['sums'] for t in found)} sums"
          + (f", the last knew after {longest:.1f} s" if cut else ""), flush=True)  # fmt: skip
    wrong = [f"rank {r}: {text}" for r, told in enumerate(found) if (text := judged(told, r, cut))]
    return wrong + ([] if places == 2 else [f"{places} hosts"])


def main() -> int:
    """Run all; gives the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--netem", action="append", default=[], help="a rule, such as 'delay 5ms'")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cut", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.cut)
        return 0
    wrong = []
    try:
        for what in ("a good link", *(f"netem {rule}" for rule in options.netem)):
            wrong += [f"{what}: {text}" for text in tried(what, False)]
        wrong += [f"link down: {text}" for text in tried("a link that goes down", True)]
    except (OSError, subprocess.CalledProcessError) as error:
        text = getattr(error, "stderr", b"") or str(error).encode()
        print(f"no hosts can be made here: {text.decode().strip()}")
        return 2
    for text in wrong:
        print(f"FAULT {text}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
