"""Running a module on several devices of one process.

Re-exports `DataParallel`, `data_parallel` and the functions that they are made of;
`DistributedDataParallel` comes from `facula.distributed`, which other processes need.
"""

from __future__ import annotations

import importlib
from typing import Any

from facula.core.errors import no_attribute as _no_attribute
from facula.nn.parallel.copies import (
    DataParallel,
    data_parallel,
    gather,
    parallel_apply,
    replicate,
    scatter,
)

__all__ = [
    "DataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]


def __getattr__(name: str) -> Any:
    if name in ("DistributedDataParallel", "distributed"):
        try:
            module = importlib.import_module("facula.distributed.data_parallel")
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("facula.distributed"):
                raise
        else:
            return module if name == "distributed" else module.DistributedDataParallel
    raise _no_attribute(__name__, name)
