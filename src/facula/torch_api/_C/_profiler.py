"""What programs read of the profiler in PyTorch's extension module.

Takes: settings of a profile, the calling program's stack. Gives: `_ExperimentalConfig`, which profiles accept; stacks
that are gathered at once and turned into names later.
Keeps true: settings about hardware that is not here are kept and change nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

from facula.profiler.profiler import ProfilerActivity, RecordScope

__all__ = [
    "CapturedTraceback",
    "ProfilerActivity",
    "RecordScope",
    "_ExperimentalConfig",
    "gather_traceback",
    "symbolize_tracebacks",
]


class _ExperimentalConfig:
    """Settings of `profile(experimental_config=...)`: counters of accelerators, and how much a trace says.

    Args:
        profiler_metrics: names of hardware counters.
        profiler_measure_per_kernel: whether they are read for each kernel.
        verbose: whether traces say more; stacks are always whole here.
        performance_events: names of events of the CPU.
        flags: further switches, by name.
    """

    def __init__(
        self,
        profiler_metrics: Iterable[str] = (),
        profiler_measure_per_kernel: bool = False,
        verbose: bool = False,
        performance_events: Iterable[str] = (),
        **flags: Any,
    ) -> None:
        self.profiler_metrics = list(profiler_metrics)
        self.profiler_measure_per_kernel = bool(profiler_measure_per_kernel)
        self.verbose = bool(verbose)
        self.performance_events = list(performance_events)
        self.__dict__.update(flags)


class CapturedTraceback:
    """A stack as it was: code and lines, the innermost call first."""

    def __init__(self, frames: Sequence[tuple[CodeType, int]]) -> None:
        self.frames = frames


def gather_traceback(
    python: bool = True, script: bool = False, cpp: bool = False
) -> CapturedTraceback:
    """The stack of whoever calls, to be read later.

    Args:
        python: whether Python's frames are gathered.
        script: as in PyTorch; scripts run in Python's frames here.
        cpp: as in PyTorch; there are no frames of C++.

    Example:
        >>> stack = gather_traceback()
        >>> len(symbolize_tracebacks([stack])) == 1
        True
    """
    frames = []
    frame: Any = sys._getframe(1) if python else None
    while frame is not None:
        frames.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return CapturedTraceback(frames)


def symbolize_tracebacks(tracebacks: Iterable[CapturedTraceback]) -> list[list[dict[str, Any]]]:
    """Each stack as a list of frames: `filename`, `line` and `name`.

    Args:
        tracebacks: what `gather_traceback` gave.

    Example:
        >>> symbolize_tracebacks([gather_traceback()])[0][0]["name"]
        '<module>'
    """
    return [
        [
            {"filename": code.co_filename, "line": line, "name": code.co_name}
            for code, line in one.frames
        ]
        for one in tracebacks
    ]
