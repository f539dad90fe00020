"""Tensor parallelism: modules whose parameters are cut over ranks, by a plan.

Re-exports. Keeps true: importing this opens nothing.
"""

from __future__ import annotations

from facula.distributed.tensor.parallel.api import parallelize_module
from facula.distributed.tensor.parallel.loss import loss_parallel
from facula.distributed.tensor.parallel.style import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel", "loss_parallel",
    "parallelize_module",
]  # fmt: skip
