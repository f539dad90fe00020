"""What an import costs: `python benchmarks/imports.py [MODULE ...] [--rounds N]`.

Takes names of modules; default `facula numpy`. Gives the least processor time of a new interpreter's
import of each, in milliseconds, and the ratio to the last one. Keeps true: the modules take turns, so
that a busy machine slows all of them.
"""

import argparse
import os
import subprocess
import sys

REPORT = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"


def imported(name: str) -> float:
    """Seconds of processor time that a new interpreter spends on an import."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", REPORT.format(name)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(result.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="*", default=["facula", "numpy"])
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    rounds = [[imported(name) for name in options.modules] for _ in range(options.rounds + 1)]
    least = [min(column) for column in zip(*rounds[1:], strict=True)]  # the first writes byte code
    for name, seconds in zip(options.modules, least, strict=True):
        print(f"{name:20} {1e3 * seconds:8.1f} ms   {seconds / least[-1]:5.2f}x")


if __name__ == "__main__":
    main()
