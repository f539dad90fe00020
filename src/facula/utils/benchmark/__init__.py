"""Timing small pieces of code: `Timer`, `Measurement`, `Compare`, instruction counts, and random inputs.

Re-exports; nothing else.
"""

import importlib
from typing import Any

from facula.core.errors import no_attribute as _no_attribute
from facula.utils.benchmark.callgrind import (
    CallgrindStats,
    CopyIfCallgrind,
    FunctionCount,
    FunctionCounts,
)
from facula.utils.benchmark.compare import Colorize, Compare
from facula.utils.benchmark.fuzzer import (
    FuzzedParameter,
    FuzzedTensor,
    Fuzzer,
    ParameterAlias,
)
from facula.utils.benchmark.measurement import (
    Measurement,
    TaskSpec,
    ordered_unique,
    select_unit,
    set_torch_threads,
    trim_sigfig,
    unit_to_english,
)
from facula.utils.benchmark.timer import Language, Timer, timer

__all__ = [
    "CallgrindStats",
    "Colorize",
    "Compare",
    "CopyIfCallgrind",
    "FunctionCount",
    "FunctionCounts",
    "FuzzedParameter",
    "FuzzedTensor",
    "Fuzzer",
    "Language",
    "Measurement",
    "ParameterAlias",
    "TaskSpec",
    "Timer",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "timer",
    "trim_sigfig",
    "unit_to_english",
    "utils",
]


def __getattr__(name: str) -> Any:
    if name == "utils":  # its modules are this package's, so it comes after them
        return importlib.import_module(f"{__name__}.utils")
    raise _no_attribute(__name__, name)
