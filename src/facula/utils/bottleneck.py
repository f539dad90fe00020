"""Where a program spends its time: `python -m facula.utils.bottleneck script.py [arguments]`.

Takes: a script and its arguments. Gives: the environment, the functions of Python that took longest, and the
operators that took longest, each as a table.
Keeps true: the script runs twice, as `__main__` with its own `sys.argv`; what it prints is printed.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import os
import pstats
import sys
from typing import Any

import facula
from facula.core.errors import fail
from facula.utils.collect_env import get_pretty_env_info

__all__ = ["main"]

_LINE = "-" * 80


def _run(code: Any, path: str) -> None:
    """The script as a program."""
    exec(code, {"__file__": path, "__name__": "__main__", "__package__": None, "__cached__": None})


def _python_times(code: Any, path: str, rows: int) -> str:
    profile = cProfile.Profile()
    profile.enable()
    try:
        _run(code, path)
    finally:
        profile.disable()
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(rows)
    return text.getvalue()


def _operator_times(code: Any, path: str, rows: int) -> str:
    profile: Any = facula.autograd.profiler.profile()
    with profile:
        _run(code, path)
    table: str = profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=rows)
    return table


def main(argv: list[str] | None = None) -> int:
    """The program.

    Args:
        argv: the script and its arguments; those of this process if None.

    Raises:
        FileNotFoundError: there is no such script.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "script.py")
        >>> with open(path, "w") as file:
        ...     _ = file.write("import facula; facula.ones(3).sum()")
        >>> from facula.utils import bottleneck
        >>> bottleneck.main([path])  # doctest: +ELLIPSIS
        ----...
    """
    parser = argparse.ArgumentParser(
        prog="bottleneck", description="Where a script spends its time."
    )
    parser.add_argument("scriptfile", help="the script")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    parser.add_argument("--rows", type=int, default=15, help="lines of each table")
    asked = parser.parse_args(argv)
    path = os.path.abspath(asked.scriptfile)
    if not os.path.isfile(path):
        fail(FileNotFoundError, "bottleneck", "a script was required", asked.scriptfile,
             hint="python -m facula.utils.bottleneck script.py")  # fmt: skip
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    before = sys.argv, sys.path[:]
    sys.argv = [asked.scriptfile, *asked.args]
    sys.path.insert(0, os.path.dirname(path))
    try:
        for title, text in (
            ("Environment", get_pretty_env_info),
            (
                "Functions of Python, by their own time (cProfile)",
                lambda: _python_times(code, path, asked.rows),
            ),
            ("Operators, by their own time", lambda: _operator_times(code, path, asked.rows)),
        ):
            print(f"{_LINE}\n  {title}\n{_LINE}\n{text()}")
    finally:
        sys.argv, sys.path[:] = before
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
