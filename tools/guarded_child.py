"""Child processes that may crash: what the sweep and the soak share.

Takes: a process that says in a file what it does.
Gives: `Progress` for the child; `Setting`, `settings` (kernel variants and guard modes that run here)
and `wait` for the parent.
Keeps true: what a child said last outlives it; a child that says nothing for `SECONDS` is ended.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
SECONDS = 180.0  # without a word: it hangs
WIDTH = 1000  # bytes of a line in the progress file


class Progress:
    """Which case runs, in a file that outlives the process."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT)

    def say(self, text: str) -> None:
        """Writes the line in one call of the system."""
        os.pwrite(self.file, text.encode()[:WIDTH].ljust(WIDTH), 0)


@dataclass
class Setting:
    """A kernel variant and a guard mode."""

    isa: str
    guard: str

    def environment(self) -> dict[str, str]:
        """That of a child."""
        path = os.pathsep.join([str(TOOLS), os.environ.get("PYTHONPATH", "")])
        return {
            **os.environ, "FACULA_ISA": self.isa, "FACULA_GUARD": self.guard, "PYTHONPATH": path,
            "FACULA_NUM_THREADS": "2", "FACULA_JIT": "0", "PYTHONFAULTHANDLER": "",
        }  # fmt: skip


def settings(isas: list[str] | None, guards: list[str]) -> Iterator[Setting]:
    """The variants that are built and run here, in each guard mode; says which are left out."""
    from facula.runtime import cpu_features

    built = {path.stem for path in (TOOLS.parent / "src" / "facula" / "_kernels").glob("*.so")}
    known = cpu_features.variants()
    runs = known[: known.index(cpu_features.detected()) + 1]
    for isa in isas or known:
        if isa not in runs:
            print(f"{isa}: this processor has no such instructions; left out")
        elif isa not in built:
            print(f"{isa}: not built (FACULA_BUILD_ISA={','.join(runs)}); left out")
        else:
            for guard in guards:
                yield Setting(isa, guard)


def wait(process: subprocess.Popen, progress: str) -> str:
    """Waits for the end; ends what makes no progress. Returns what became of it."""
    seen, since = b"", time.monotonic()
    while True:
        try:
            status = process.wait(1.0)
            break
        except subprocess.TimeoutExpired:
            now = Path(progress).read_bytes()
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > SECONDS:
                process.kill()
                process.wait()
                return f"hung: no end after {SECONDS:.0f} s"
    return "" if status == 0 else f"ended with status {status}"
