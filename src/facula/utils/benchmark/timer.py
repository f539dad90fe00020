"""`Timer`: how long a statement takes, measured so that the figure can be trusted.

Takes: a statement, a setup, globals, a number of threads. Gives: `Measurement`s and instruction counts.
Keeps true: a block of runs is long against the clock's own cost, and everything runs with the number
of threads asked for (one, unless said otherwise).
"""

from __future__ import annotations

import enum
import textwrap
import time
import timeit
from collections.abc import Callable
from typing import Any

import facula
from facula.core.errors import fail
from facula.utils.benchmark import callgrind
from facula.utils.benchmark.measurement import Measurement, TaskSpec, set_torch_threads

timer: Callable[[], float] = time.perf_counter


class Language(enum.Enum):
    """The languages of a statement; only Python can be timed here."""

    PYTHON = 0
    CPP = 1


def _code(text: str) -> str:
    """A statement without common indentation and without empty lines around it."""
    return textwrap.dedent(text.strip("\n")).rstrip()


def _check_statement(stmt: Any, global_setup: str, language: Any) -> None:
    if not isinstance(stmt, str):
        fail(
            ValueError,
            "Timer",
            "Currently only a `str` stmt is supported",
            type(stmt).__name__,
            hint="pass the statement as text, and its names in globals",
        )
    if language not in (Language.PYTHON, "py", "python"):
        fail(
            NotImplementedError,
            "Timer",
            "a statement in Python was required",
            language,
            "measure C++ with a program of its own",
        )
    if global_setup:
        fail(
            ValueError,
            "Timer",
            "global_setup is C++ only and no Python: it must be empty",
            repr(global_setup),
            hint="put the code into setup",
        )


class Timer:
    """Times a statement of Python.

    ``Timer("x + x", globals={"x": x}).blocked_autorange()`` gives a `Measurement`. Labels say where it
    stands in a table of `Compare`.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,  # noqa: A002 - PyTorch's name
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        _check_statement(stmt, global_setup, language)
        stmt, setup = _code(stmt), _code(setup)
        # statements may name the package without importing it, under PyTorch's name too
        self._globals = {
            **{name: facula for name in ("facula", "torch") if name in stmt + setup},
            **(globals or {}),
        }
        self._clock = timer
        self._timer = timeit.Timer(
            stmt, setup, timer, callgrind.CopyIfCallgrind.unwrap_all(self._globals)
        )
        self._task_spec = TaskSpec(
            stmt=stmt,
            setup=setup,
            global_setup="",
            label=label,
            sub_label=sub_label,
            description=description,
            env=env,
            num_threads=num_threads,
        )

    def _timeit(self, number: int) -> float:
        # never zero: times are divided by
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """`number` runs in one block, after some to warm up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not offered: use `blocked_autorange`."""
        fail(
            NotImplementedError,
            "Timer.repeat",
            "another method was required",
            hint="see `Timer.blocked_autorange`",
        )

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Not offered: use `blocked_autorange`."""
        fail(
            NotImplementedError,
            "Timer.autorange",
            "another method was required",
            hint="see `Timer.blocked_autorange`",
        )

    def _block_size(self, min_run_time: float) -> int:
        """How many runs make the cost of reading the clock a thousandth of a block."""
        overhead = min(self._timeit(0) for _ in range(5))
        number = 1
        while True:
            taken = self._timeit(number)
            if overhead / taken <= 1e-4 and taken >= min_run_time / 1000:
                return number
            if taken > min_run_time:
                return number
            number *= 10

    def blocked_autorange(
        self,
        callback: Callable[[int, float], Any] | None = None,
        min_run_time: float = 0.2,
    ) -> Measurement:
        """Blocks of runs, each long against the clock, until `min_run_time` seconds have passed."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            times: list[float] = []
            while sum(times) < min_run_time:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
            return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Blocks of runs until the quartiles are within `threshold` of the median, or time is up."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(0.05)
            times: list[float] = []
            while True:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
                spent = sum(times)
                if spent >= max_run_time:
                    break
                trusted = Measurement(number, times, self._task_spec)
                if (
                    spent >= min_run_time
                    and len(times) >= 4
                    and trusted.meets_confidence(threshold)
                ):
                    break
            return Measurement(number, times, self._task_spec)

    def collect_callgrind(
        self,
        number: int = 100,
        *,
        repeats: int | None = None,
        collect_baseline: bool = True,
        retain_out_file: bool = False,
    ) -> Any:
        """Instructions that `number` runs execute, counted by Valgrind: exact and repeatable.

        Globals travel to another process: they are numbers, strings, tensors, modules imported in the
        setup, or wrapped in `CopyIfCallgrind`.
        """
        results = [
            callgrind.collect(
                self._task_spec, self._globals, number, collect_baseline, retain_out_file
            )
            for _ in range(repeats or 1)
        ]
        return results[0] if repeats is None else tuple(results)
