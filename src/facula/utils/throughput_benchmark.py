"""How many times a second several threads get through a model.

Takes: a module and example inputs. Gives: the mean time of a call and calls a second, measured with a number
of threads that call at the same time.
Keeps true: the threads begin together, once all are through their warm-up; all calls of the measurement are
counted, and no other.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import facula
from facula.core.errors import fail

__all__ = ["ExecutionStats", "ThroughputBenchmark", "format_time"]

_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def format_time(
    time_us: float | None = None, time_ms: float | None = None, time_s: float | None = None
) -> str:
    """A time as people read it.

    Args:
        time_us: microseconds; exactly one of the three is given.
        time_ms: milliseconds.
        time_s: seconds.

    Example:
        >>> facula.utils.throughput_benchmark.format_time(time_us=1500)
        '1.500ms'
    """
    given = [
        (value, unit)
        for value, unit in ((time_us, 1e-6), (time_ms, 1e-3), (time_s, 1.0))
        if value is not None
    ]
    if len(given) != 1:
        fail(ValueError, "format_time", "exactly one of time_us, time_ms and time_s was required", f"{len(given)}",
             hint="format_time(time_us=12)")  # fmt: skip
    seconds = given[0][0] * given[0][1]
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds >= size), _UNITS[-1])
    return f"{seconds / size:.3f}{unit}"


@dataclass
class ExecutionStats:
    """What `ThroughputBenchmark.benchmark` measured.

    Args:
        latency_avg_ms: milliseconds that a call took, in the mean over all threads.
        num_iters: calls altogether.
        total_time_seconds: from the first call to the end of the last.
        benchmark_config: threads and numbers of calls, as they were asked for.

    Example:
        >>> from facula.utils.throughput_benchmark import ExecutionStats
        >>> ExecutionStats(2.0, 100, 0.05, {}).iters_per_second
        2000.0
    """

    latency_avg_ms: float
    num_iters: int
    total_time_seconds: float
    benchmark_config: dict[str, Any]

    @property
    def iters_per_second(self) -> float:
        """Calls a second, of all threads together."""
        return self.num_iters / self.total_time_seconds

    def __str__(self) -> str:
        return "\n".join((
            f"Average latency per example: {format_time(time_ms=self.latency_avg_ms)}",
            f"Total number of iterations: {self.num_iters}",
            f"Total number of iterations per second (across all threads): {self.iters_per_second:.2f}",
            f"Total time: {format_time(time_s=self.total_time_seconds)}",
        ))  # fmt: skip


class ThroughputBenchmark:
    """Calls a module from several threads at once, with inputs that were given before.

    Args:
        module: a module, or a scripted one.

    Example:
        >>> bench = facula.utils.ThroughputBenchmark(facula.nn.Linear(2, 1))
        >>> bench.add_input(facula.ones(3, 2))
        >>> bench.run_once(facula.ones(3, 2)).shape
        facula.Size([3, 1])
        >>> bench.benchmark(num_calling_threads=2, num_warmup_iters=1, num_iters=10).num_iters
        10
    """

    def __init__(self, module: Callable[..., Any]) -> None:
        self._module = module
        self._inputs: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def add_input(self, *args: Any, **kwargs: Any) -> None:
        """Add an example; the calls take the examples in turn.

        Args:
            args: what the module is called with.
            kwargs: the same, by name.
        """
        self._inputs.append((args, kwargs))

    def run_once(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module once with these arguments, not those that were added.

        Args:
            args: what the module is called with.
            kwargs: the same, by name.
        """
        return self._module(*args, **kwargs)

    def benchmark(self, num_calling_threads: int = 1, num_warmup_iters: int = 10, num_iters: int = 100,
                  profiler_output_path: str = "") -> ExecutionStats:  # fmt: skip
        """Measure.

        Args:
            num_calling_threads: threads that call at the same time.
            num_warmup_iters: calls of each thread before the measurement.
            num_iters: calls that are measured, of all threads together.
            profiler_output_path: a file for a profile of the measurement, as Chrome shows it; none if empty.
        """
        if not self._inputs:
            fail(
                RuntimeError,
                "ThroughputBenchmark",
                "inputs were required",
                "none",
                hint="add_input(...) first",
            )
        if num_calling_threads < 1 or num_warmup_iters < 0 or num_iters < 1:
            fail(ValueError, "ThroughputBenchmark", "at least one thread and one call were required",
                 f"{num_calling_threads} threads, {num_iters} calls",
                 hint="benchmark(num_calling_threads=4, num_iters=1000)")  # fmt: skip
        run = _Run(self._module, self._inputs, num_calling_threads, num_warmup_iters, num_iters)
        if profiler_output_path:
            with facula.profiler.profile() as profile:
                run.measure()
            profile.export_chrome_trace(profiler_output_path)
        else:
            run.measure()
        config = {
            "num_calling_threads": num_calling_threads,
            "num_warmup_iters": num_warmup_iters,
            "num_iters": num_iters,
        }
        return ExecutionStats(1e3 * sum(run.seconds) / num_iters, num_iters, run.wall, config)


class _Run:
    """One measurement: threads that draw numbers of calls from one counter until none is left."""

    def __init__(
        self, module: Callable[..., Any], inputs: list[Any], threads: int, warmup: int, calls: int
    ) -> None:
        self.module, self.inputs, self.warmup, self.calls = module, inputs, warmup, calls
        self.numbers = itertools.count()
        self.together = threading.Barrier(threads + 1)
        self.threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        self.seconds: list[float] = []
        self.errors: list[BaseException] = []
        self.wall = 0.0

    def measure(self) -> None:
        """Fills `seconds` (of each thread) and `wall`; raises what a call raised."""
        for thread in self.threads:
            thread.start()
        try:
            self.together.wait()
        except threading.BrokenBarrierError:
            pass  # a warm-up failed: its error is raised below
        start = time.perf_counter()
        for thread in self.threads:
            thread.join()
        self.wall = time.perf_counter() - start
        if self.errors:
            raise self.errors[0]

    def _work(self) -> None:
        try:
            for number in range(self.warmup):
                self._call(number)
            self.together.wait()
            start = time.perf_counter()
            while (number := next(self.numbers)) < self.calls:
                self._call(number)
            self.seconds.append(time.perf_counter() - start)
        except threading.BrokenBarrierError:
            return
        except BaseException as error:
            self.errors.append(error)
            self.together.abort()

    def _call(self, number: int) -> None:
        args, kwargs = self.inputs[number % len(self.inputs)]
        self.module(*args, **kwargs)
