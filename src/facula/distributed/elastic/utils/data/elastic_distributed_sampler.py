"""`ElasticDistributedSampler`: the shares of an epoch from some sample on, whatever the number of processes is now."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import facula
from facula.core.errors import fail
from facula.data.sampler import DistributedSampler

__all__ = ["ElasticDistributedSampler"]


class ElasticDistributedSampler(DistributedSampler):
    """The share of one process among several, of the samples that are left of an epoch, in random order.

    Args:
        dataset: what is shared out
        num_replicas: number of processes; None for that of the process group
        rank: of this process; None for that in the group
        start_index: how many samples of the dataset were used up before

    Raises:
        ValueError: `start_index` is not below the length of the dataset.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        start_index: int = 0,
    ) -> None:
        super().__init__(dataset, num_replicas, rank)
        if not 0 <= start_index < len(dataset):
            fail(ValueError, "ElasticDistributedSampler", f"a start_index in [0, {len(dataset)}) was required (Start "
                 "index should be less than dataset size)", start_index,
                 hint="an epoch that is over begins anew at 0")  # fmt: skip
        self.start_index = start_index
        left = len(dataset) - start_index
        self.num_samples = math.ceil(left / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = len(self.dataset) - self.start_index
        generator = facula.Generator()
        generator.manual_seed(self.epoch)
        order = facula.randperm(left, generator=generator) + self.start_index
        indices = list(itertools.islice(itertools.cycle(order.tolist()), self.total_size))
        return iter(indices[self.rank : self.total_size : self.num_replicas])
