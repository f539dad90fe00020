"""`ShardingFilter`: every n-th value.

Takes a pipe, and how many readers of it there are. Gives the values of one of them. Keeps true: each
value belongs to one reader, over all groups of readers together.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.utils.common import length_of

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(IntEnum):  # noqa: N801 - PyTorch's name
    """Groups of readers: later ones share out what falls to one reader of the earlier ones."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


class _ShardingIterDataPipe(IterDataPipe):
    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any) -> None:
        raise NotImplementedError


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(_ShardingIterDataPipe):
    """Every n-th value: each worker of a loader reads a share of its own (functional name:
    ``sharding_filter``).

    Args:
        source_datapipe: the source
        sharding_group_filter: the only group of readers that counts; None: all
    """

    def __init__(self, source_datapipe: IterDataPipe, sharding_group_filter: object = None) -> None:
        self.source_datapipe, self.sharding_group_filter = source_datapipe, sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(
        self,
        num_of_instances: int,
        instance_id: int,
        sharding_group: Any = SHARDING_PRIORITIES.DEFAULT,
    ) -> None:
        """Give every `num_of_instances`-th value from number `instance_id` on."""
        if not 0 <= instance_id < num_of_instances:
            fail(
                ValueError,
                "sharding_filter",
                f"instance_id({instance_id}) should be smaller than num_of_instances"
                f"({num_of_instances})",
                hint="instances count from 0",
            )
        default = SHARDING_PRIORITIES.DEFAULT
        if any((group == default) != (sharding_group == default) for group in self.groups):
            fail(
                RuntimeError,
                "sharding_filter",
                "ShardingFilter cannot mix DEFAULT and non DEFAULT groups",
                hint="pass sharding_group everywhere",
            )
        self.groups[sharding_group] = (num_of_instances, instance_id)
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups, reverse=True):
            if self.sharding_group_filter in (None, group):
                count, own = self.groups[group]
                self.instance_id += self.num_of_instances * own
                self.num_of_instances *= count

    def __iter__(self) -> Iterator[Any]:
        for i, value in enumerate(self.source_datapipe):
            if i % self.num_of_instances == self.instance_id:
                yield value

    def __len__(self) -> int:
        whole = length_of(self, self.source_datapipe)
        return whole // self.num_of_instances + (self.instance_id < whole % self.num_of_instances)
