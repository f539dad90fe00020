"""Optimizers among processes: state that is spread over ranks, parameters on other workers."""

from facula.distributed.optim.optimizer import DistributedOptimizer
from facula.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "ZeroRedundancyOptimizer"]
