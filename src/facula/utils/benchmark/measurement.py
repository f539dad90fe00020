"""What was timed and what came out: `TaskSpec` and `Measurement`, with units and significant digits.

Takes: seconds of several runs of a piece of code. Gives: medians, spreads and text.
Keeps true: a figure shows no more digits than its spread supports.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from facula import core
from facula.core.errors import fail

#: spreads below this (relative to the median) need no remark
IQR_WARN, IQR_GROSS = 0.1, 0.25
#: below this many seconds a clock says nothing
CLOCK = 25e-9
MAX_DIGITS = 5
UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time is read best, and its seconds."""
    power = int(math.floor(math.log10(t))) // 3 if t > 0 else -3
    return UNITS[min(max(power, -3), 0) + 3]


def unit_to_english(u: str) -> str:
    """The word for a unit."""
    return ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """A number rounded to `n` significant digits."""
    if x == 0:
        return 0.0
    return round(x, n - 1 - int(math.floor(math.log10(abs(x)))))


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The elements without repetitions, in the order of their first appearance."""
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Run the block with `n` threads."""
    before = core.get_num_threads()
    core.set_num_threads(n)
    try:
        yield
    finally:
        core.set_num_threads(before)


def _quantile(ordered: list[float], q: float) -> float:
    """Linear interpolation between neighbours of a sorted list."""
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """What was timed: the code, its labels, and the number of threads."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the code where there is none."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        code = f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n"
        return code + textwrap.indent(self.stmt, "  ")

    def setup_str(self) -> str:
        """The setup, in a line or indented below its name."""
        if self.setup in ("", "pass"):
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup."""
        parts = [self.title, self.description or "", self.setup_str()]
        return "\n".join(part for part in parts if part) + "\n"


_FIELDS = tuple(field.name for field in dataclasses.fields(TaskSpec))


@dataclasses.dataclass(init=False, repr=False)
class Measurement:
    """Times of several blocks of runs; fields of the `TaskSpec` are read through it."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None

    def __init__(
        self,
        number_per_run: int,
        raw_times: list[float],
        task_spec: TaskSpec,
        metadata: dict[Any, Any] | None = None,
    ) -> None:
        self.number_per_run = number_per_run
        self.raw_times = raw_times
        self.task_spec = task_spec
        self.metadata = metadata

    def __getattr__(self, name: str) -> Any:
        if name in _FIELDS:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute {name!r}")

    def _ordered(self) -> list[float]:
        if not self.raw_times:
            fail(
                ValueError,
                "Measurement",
                "at least one time was required (Measurement is empty)",
                hint="Timer(stmt).blocked_autorange() measures",
            )
        return sorted(self.times)

    @property
    def times(self) -> list[float]:
        """Seconds of one run, for every block."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """The middle time, in seconds."""
        return _quantile(self._ordered(), 0.5)

    @property
    def mean(self) -> float:
        """The average time, in seconds."""
        times = self._ordered()
        return math.fsum(times) / len(times)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles, in seconds."""
        ordered = self._ordered()
        return _quantile(ordered, 0.75) - _quantile(ordered, 0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median mean something: from the spread between the quartiles."""
        ordered = self._ordered()
        count = len(ordered)
        inner = ordered[count // 4 : math.ceil(3 * count / 4)] or ordered
        mean = math.fsum(inner) / len(inner)
        deviation = math.sqrt(math.fsum((t - mean) ** 2 for t in inner) / len(inner))
        interval = max(1.645 * deviation / math.sqrt(len(inner)), CLOCK)
        digits = math.floor(-math.log10(interval / self.median)) if self.median > 0 else 1
        return max(min(digits, MAX_DIGITS), 1)

    @property
    def has_warnings(self) -> bool:
        """Whether the times spread so much that they should not be trusted."""
        return len(self.raw_times) > 1 and not self.meets_confidence()

    def meets_confidence(self, threshold: float = IQR_WARN) -> bool:
        """Whether the quartiles lie closer together than a part of the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """The label of the task."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """Where it ran, as the caller named it."""
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    @property
    def as_row_name(self) -> str:
        """The name of the row in a table."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def _times_text(self) -> list[str]:
        unit, scale = select_unit(self.median)
        digits = self.significant_figures

        def shown(t: float) -> str:
            return f"{trim_sigfig(t / scale, digits):g} {unit}"

        if len(self.raw_times) == 1:
            return [f"  {shown(self.median)}"]
        ordered = self._ordered()
        low, high = _quantile(ordered, 0.25), _quantile(ordered, 0.75)
        lines = [f"  Median: {shown(self.median)}"]
        if len(self.raw_times) >= 4:
            lines.append(f"  IQR:    {shown(self.iqr)} ({low / scale:.{2}f} to {high / scale:.2f})")
        return lines

    def __repr__(self) -> str:
        lines = [super().__repr__(), *self.task_spec.summarize().splitlines(), *self._times_text()]
        runs = f"{self.number_per_run} run{'s' if self.number_per_run > 1 else ''}"
        count = len(self.raw_times)
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        blocks = f"{count} measurement{'s' if count > 1 else ''}"
        lines.append(f"  {blocks}, {runs} {'per measurement, ' if count > 1 else ', '}{threads}")
        if self.has_warnings:
            spread = self.iqr / self.median
            strong = "Interquartile range is" if spread >= IQR_GROSS else "Interquartile range of"
            lines.append(
                f"  WARNING: {strong} {100 * spread:.1f}% of the median measurement.\n"
                "           This could indicate system fluctuation."
            )
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, with the times of all of its runs."""
        groups: dict[TaskSpec, list[Measurement]] = defaultdict(list)
        for m in measurements:
            groups[m.task_spec].append(m)
        return [
            Measurement(1, [t for m in group for t in m.times], task, None)
            for task, group in groups.items()
        ]
