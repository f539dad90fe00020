"""A long run of everything at once: no fault, no growth.

    python tools/soak.py --minutes 60
    python tools/soak.py --minutes 5 --seed 3 --guard 1

Takes: a time, a seed, guard modes (by turns, each an equal part of the time).
Gives: for each mode the number of actions of each kind, and the resident memory and the storages alive
after a third of the time and at the end; exit status 1 where a process died or hung, damage was found,
a value was wrong, or memory grew by more than `GROWTH` or `LASTING`.
Keeps true: the same seed does the same actions in the same order, but for what threads do beside each
other; what an action did is checked where that costs nothing (sums of gradients, pickled elements).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from guarded_child import Setting, settings, wait

TOOLS = Path(__file__).resolve().parent
#: bytes resident, beyond the level after a third of the time: each operator keeps up to 64 launches
GROWTH = 48 << 20
#: storages that stay alive, an action: the launch cache holds constants, transforms their tables
LASTING = 0.1


def run(setting: Setting, seconds: float, seed: int) -> bool:
    """One process for a time; whether all was well."""
    print(f"{setting.isa}, guard {setting.guard}, seed {seed}, {seconds:.0f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        progress, errors = os.path.join(folder, "progress"), os.path.join(folder, "errors")
        Path(progress).write_bytes(b"")
        task = {"seconds": seconds, "seed": seed, "progress": progress, "folder": folder}
        with open(errors, "w") as said:
            process = subprocess.Popen(
                [sys.executable, str(TOOLS / "soak_actions.py"), json.dumps(task)],
                stdout=subprocess.PIPE, stderr=said, text=True, env=setting.environment(),
            )  # fmt: skip
            end = wait(process, progress)
        assert process.stdout is not None
        output = process.stdout.read()
        last = Path(progress).read_text(errors="replace").strip()
        print(output, end="")
        if end:
            print(f"FAULT: {end} in: {last}\n{Path(errors).read_text()[-3000:]}", flush=True)
            return False
    figures = json.loads(output.splitlines()[-1].removeprefix("figures "))
    grown = figures["resident"] - figures["resident before"]
    leaked = figures["live"] - figures["live before"]
    level = grown <= GROWTH and leaked <= max(100, LASTING * figures["actions"])
    print(
        f"resident {figures['resident'] / 1e6:.1f} MB at the end, {figures['resident before'] / 1e6:.1f} MB "
        f"after a third; {figures['live']} storages alive, {figures['live before']} then: "
        f"{'level' if level else 'FAULT: memory grew'}",
        flush=True,
    )
    return level


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.strftime("%Y%m%d")))
    parser.add_argument("--isa", nargs="*", help="kernel variants; default: all that run here")
    parser.add_argument("--guard", nargs="*", default=["1", "0", "begin"], help="guard modes")
    arguments = parser.parse_args()
    parts = list(settings(arguments.isa, arguments.guard))
    seconds = 60 * arguments.minutes / max(1, len(parts))
    good = [run(setting, seconds, arguments.seed + n) for n, setting in enumerate(parts)]
    return 0 if parts and all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
