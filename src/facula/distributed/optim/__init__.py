"""Optimizers among processes: state that is spread over ranks, parameters on other workers."""

from __future__ import annotations

from facula.distributed.optim.optimizer import DistributedOptimizer
from facula.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer
from facula.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]
