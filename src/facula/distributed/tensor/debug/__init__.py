"""`CommDebugMode`: which collectives a block ran.

Takes: a block. Gives: counts by the name of the collective.
Keeps true: each collective that this process begins is counted once, whoever began it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from facula.distributed.process_group import LISTENERS
from facula.distributed.tensor.debug._visualize_sharding import visualize_sharding

__all__ = ["CommDebugMode", "visualize_sharding"]


class CommDebugMode:
    """Counts the collectives of a block.

    >>> with CommDebugMode() as mode:
    ...     model(x)
    >>> mode.get_comm_counts()
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def heard(self, name: str) -> None:
        """A collective is about to run."""
        self.counts[name] += 1

    def get_comm_counts(self) -> dict[str, int]:
        """How often each collective ran, by name."""
        return dict(self.counts)

    def get_total_counts(self) -> int:
        """How many collectives ran."""
        return sum(self.counts.values())

    def __enter__(self) -> CommDebugMode:
        self.counts.clear()
        LISTENERS.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        LISTENERS.remove(self)
