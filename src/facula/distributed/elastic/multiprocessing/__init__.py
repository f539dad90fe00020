"""Processes with numbers, whose output and errors go to files: `start_processes`."""

from __future__ import annotations

from facula.distributed.elastic.multiprocessing.api import (
    MultiprocessContext,
    PContext,
    RunProcsResult,
    SignalException,
    SubprocessContext,
    start_processes,
)
from facula.distributed.elastic.multiprocessing.errors import ProcessFailure
from facula.distributed.elastic.multiprocessing.logs import (
    DefaultLogsSpecs,
    LogsDest,
    LogsSpecs,
    Std,
    to_map,
)

__all__ = [
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "MultiprocessContext",
    "PContext",
    "ProcessFailure",
    "RunProcsResult",
    "SignalException",
    "Std",
    "SubprocessContext",
    "start_processes",
    "to_map",
]
