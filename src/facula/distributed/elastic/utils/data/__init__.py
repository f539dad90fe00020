"""Samplers and iterators for jobs that start again in the middle of an epoch."""

from __future__ import annotations

from facula.distributed.elastic.utils.data.cycling_iterator import CyclingIterator
from facula.distributed.elastic.utils.data.elastic_distributed_sampler import (
    ElasticDistributedSampler,
)

__all__ = ["CyclingIterator", "ElasticDistributedSampler"]
