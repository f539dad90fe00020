"""Optimizers among processes: state that is spread over ranks, parameters on other workers."""

from __future__ import annotations

from facula.distributed.optim.apply_optimizer_in_backward import (
    _apply_optimizer_in_backward as _apply_optimizer_in_backward,
)
from facula.distributed.optim.apply_optimizer_in_backward import (
    _get_in_backward_optimizers as _get_in_backward_optimizers,
)
from facula.distributed.optim.named_optimizer import _NamedOptimizer as _NamedOptimizer
from facula.distributed.optim.optimizer import DistributedOptimizer
from facula.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer
from facula.distributed.optim.utils import as_functional_optim
from facula.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = [
    "DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer", "as_functional_optim",
]  # fmt: skip
