"""Every operator, every dtype, every layout and form, in guarded memory: nothing may crash.

    python tools/sweep.py --isa v3 --guard 1 begin
    python tools/sweep.py --sample 0.02 --seed 20261122
    python tools/sweep.py --only softmax --dtypes float16 --cases 41

Takes: the operator table; which kernel variants and guard modes; a share of the (operator, dtype)
pairs, chosen by a seed.
Gives: a line for each fault (a child process that died or hung, damage that `core.check_heap` found)
and for each exception that is none of ours (SystemError, AssertionError, UnboundLocalError, ...), with the
case and what the guard said; figures at the end; exit status 1 where there was a fault or such an
exception.
Keeps true: cases run in child processes, so that a crash is its case's and the others go on; an
exception that facula raises on purpose is counted and is no finding (with `--foreign`, every one that
is not of the form `[operator] what was required` is one); the same seed gives the same cases.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from guarded_child import Progress, Setting, settings, wait

TOOLS = Path(__file__).resolve().parent
#: never meant, whoever raises them
FAULTS = (SystemError, AssertionError, NameError, ZeroDivisionError, RecursionError, BufferError)
MEMORY = 2 << 30  # bytes that a child may allocate
CRASHES = 3  # of one pair, after which the rest of it is left out


# ---- the child ----


def kind_of(error: Exception) -> str:
    """Whether facula refused a call in its own form, or something was raised that nobody meant."""
    if str(error).startswith("["):
        return "refused"
    return "foreign exceptions" if isinstance(error, FAULTS) else "other exceptions"


def tell_exception(error: Exception, case: list, told: set[tuple[str, ...]]) -> None:
    """Says an exception; of those at one place only the first."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    if (case[0], type(error).__name__, where) in told:
        return
    told.add((case[0], type(error).__name__, where))
    finding = ["exception", *case, f"{type(error).__name__} {error} ({where})"]
    print("FINDING " + json.dumps(finding), flush=True)


def run_pair(name: str, dtype: str, arguments: dict, progress: Progress, counts: Counter) -> None:
    """The cases of one operator and dtype, from the wanted one on."""
    from facula import core

    cases = importlib.import_module(arguments["module"]).cases
    only, told = arguments["cases"], set[tuple[str, ...]]()
    for index, (text, action) in enumerate(
        cases(name, dtype, arguments["seed"], arguments["guesses"])
    ):
        if index < arguments["start"] or (only and index not in only):
            continue
        progress.say(json.dumps([name, dtype, index, text]))
        counts["cases"] += 1
        try:
            action()
        except Exception as error:
            kind = kind_of(error)
            counts[kind] += 1
            if kind == "foreign exceptions" or kind == "other exceptions" and arguments["foreign"]:
                tell_exception(error, [name, dtype, index, text], told)
            if only and kind != "foreign exceptions":
                traceback.print_exception(error)
        else:
            counts["done"] += 1
    arguments["start"] = 0
    counts["pairs"] += 1
    try:
        core.check_heap()
    except RuntimeError as error:
        finding = ["damage", name, dtype, -1, "some case of these", str(error).splitlines()[0]]
        print("FINDING " + json.dumps(finding), flush=True)
        os._exit(3)


def child() -> None:
    """Runs the pairs that stand in the standard input; says what it found on the standard output."""
    arguments = json.load(sys.stdin)
    import facula
    from facula import core

    warnings.simplefilter("ignore")
    core.set_memory_limit(MEMORY)
    facula.manual_seed(arguments["seed"])
    progress, counts = Progress(arguments["progress"]), Counter[str]()
    for name, dtype in arguments["pairs"]:
        run_pair(name, dtype, arguments, progress, counts)
        gc.collect()
        print("COUNTS " + json.dumps(counts), flush=True)
        counts.clear()
    sys.stdout.flush()
    os._exit(0)


# ---- the parent ----


@dataclass
class Report:
    """What was found under one setting."""

    setting: Setting
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[list] = field(default_factory=list)

    def take(self, output: str) -> None:
        """The lines of a child."""
        for line in output.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "COUNTS":
                self.counts.update(json.loads(rest))
            elif kind == "FINDING":
                self.tell(json.loads(rest))

    def tell(self, finding: list) -> None:
        """Keeps a finding and says it."""
        self.findings.append(finding)
        kind, name, dtype, index, text, what = finding
        where = f"FACULA_ISA={self.setting.isa} FACULA_GUARD={self.setting.guard}"
        print(f"{kind}: {name} {dtype} case {index} ({where})\n    {text}\n    {what}", flush=True)


def run_child(
    pairs: list, start: int, report: Report, arguments: argparse.Namespace
) -> list | None:
    """Runs pairs in a new process; returns [name, dtype, case] where it died, None where it did not."""
    with tempfile.TemporaryDirectory() as folder:
        progress = os.path.join(folder, "progress")
        Path(progress).write_bytes(b"")
        task = {
            "pairs": pairs, "start": start, "module": arguments.module, "guesses": arguments.guesses,
            "seed": arguments.seed, "cases": arguments.cases,
            "progress": progress, "foreign": arguments.foreign,
        }  # fmt: skip
        with (
            open(os.path.join(folder, "output"), "w+") as output,
            open(os.path.join(folder, "errors"), "w+") as errors,
        ):
            command = [sys.executable, str(TOOLS / "sweep.py"), "--child"]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=errors, text=True,
                env=report.setting.environment(), cwd=TOOLS.parent,
            )  # fmt: skip
            assert process.stdin is not None
            process.stdin.write(json.dumps(task))
            process.stdin.close()
            end = wait(process, progress)
            output.seek(0)
            errors.seek(0)
            report.take(output.read())
            said = errors.read()
        if arguments.cases:
            print(said, file=sys.stderr)
        if not end:
            return None
        last = Path(progress).read_bytes().strip()
        if not last:
            raise SystemExit(f"a child did not start: {end}\n{said[-2000:]}")
        try:
            name, dtype, index, text = json.loads(last)
        except ValueError:  # longer than the line
            name, dtype, index = json.loads(last.rpartition(b', "')[0] + b"]")[:3]
            text = "?"
        if "status 3" not in end:
            guard = [line for line in said.splitlines() if "[guard]" in line] or said.splitlines()[
                -2:
            ]
            report.tell(["crash", name, dtype, index, text, f"{end}; {' '.join(guard)}"])
        return [name, dtype, index if "status 3" not in end else 1 << 60]


def run_pairs(pairs: list, report: Report, arguments: argparse.Namespace) -> None:
    """All cases of some pairs, with a new process after each crash."""
    start, crashes = 0, Counter[tuple[str, str]]()
    while pairs:
        died = run_child(pairs, start, report, arguments)
        if died is None:
            return
        name, dtype, index = died
        crashes[name, dtype] += 1
        pairs = pairs[pairs.index([name, dtype]) :]
        start = index + 1
        if crashes[name, dtype] >= CRASHES or index == 1 << 60 or arguments.cases:
            pairs, start = pairs[1:], 0


def chosen_pairs(arguments: argparse.Namespace) -> list[list[str]]:
    """The (operator, dtype) pairs, or the sample of them that the seed chooses."""
    module = importlib.import_module(arguments.module)
    names = arguments.only or module.NAMES
    pairs = [[name, dtype] for name in names for dtype in arguments.dtypes or module.DTYPES]
    chance = random.Random(arguments.seed)
    if arguments.sample < 1:
        pairs = [pair for pair in pairs if chance.random() < arguments.sample]
    return pairs


def sweep(setting: Setting, pairs: list, arguments: argparse.Namespace) -> Report:
    """All pairs under one setting, in several processes side by side."""
    report, begin = Report(setting), time.monotonic()
    size = max(1, min(60, len(pairs) // (4 * arguments.jobs) + 1))
    with ThreadPoolExecutor(arguments.jobs) as pool:
        parts = [pairs[at : at + size] for at in range(0, len(pairs), size)]
        for future in [pool.submit(run_pairs, part, report, arguments) for part in parts]:
            future.result()
    kinds = Counter(finding[0] for finding in report.findings)
    figures = ", ".join(f"{count} {kind}" for kind, count in sorted(report.counts.items()))
    print(
        f"{setting.isa}, guard {setting.guard}: {figures}; faults: {kinds['crash']} crashes, "
        f"{kinds['damage']} damaged, {kinds['exception']} foreign exceptions; "
        f"{time.monotonic() - begin:.0f} s",
        flush=True,
    )
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--isa", nargs="*", help="kernel variants; default: all that run here")
    parser.add_argument("--guard", nargs="*", default=["1"], help="guard modes: 1, begin, 0")
    parser.add_argument(
        "--sample", type=float, default=1.0, help="share of (operator, dtype) pairs"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the choice and of all arguments")
    parser.add_argument("--only", nargs="*", help="operators")
    parser.add_argument("--dtypes", nargs="*", help="dtypes")
    parser.add_argument(
        "--cases", nargs="*", type=int, help="numbers of cases; tells all exceptions"
    )
    parser.add_argument(
        "--foreign", action="store_true", help="tell every exception that is not in our own form"
    )
    parser.add_argument(
        "--module", default="sweep_cases", help="what has NAMES, DTYPES and `cases`"
    )
    parser.add_argument("--guesses", type=int, default=12, help="calls made up for each pair")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    arguments = parser.parse_args()
    if arguments.child:
        child()
    sys.path.insert(0, str(TOOLS))
    pairs, found = chosen_pairs(arguments), 0
    for setting in settings(arguments.isa, arguments.guard):
        found += len(sweep(setting, pairs, arguments).findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
