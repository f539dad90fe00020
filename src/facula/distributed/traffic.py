"""How much the ranks of a program exchange.

Takes: the collectives and messages that this rank begins. Gives: `Traffic`: how many there are of each kind and
group, how many bytes they are of, and how many of these a rank sends.
Keeps true: only sizes are looked at, so that real ranks and simulated ones count alike.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["COUNTERS", "FUNCTIONAL", "Flow", "Traffic", "counting", "functional"]

#: what hears of each collective and message that this process begins
COUNTERS: list[Traffic] = []


class _Depth(threading.local):
    depth = 0


#: how many blocks of this thread stand for collectives that give new tensors
FUNCTIONAL = _Depth()


@contextmanager
def functional() -> Iterator[None]:
    """A block whose collectives stand for those that give new tensors (`_functional_collectives`)."""
    FUNCTIONAL.depth += 1
    try:
        yield
    finally:
        FUNCTIONAL.depth -= 1


#: bytes that a rank sends for each of the collective's, with n ranks that pass parts around a ring
_SENT = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "all_gather_into_tensor": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
}


@dataclass
class Flow:
    """What went through one group by one kind of operation."""

    count: int = 0
    #: of the whole tensors: those that are reduced, or gathered
    payload: int = 0
    #: what each rank sends of it
    sent: float = 0.0


class Traffic:
    """What this rank exchanges.

    Example:
        >>> from facula.distributed.traffic import Traffic
        >>> Traffic().total().count
        0
    """

    def __init__(self) -> None:
        #: (kind, ranks) -> how much
        self.flows: dict[tuple[str, tuple[int, ...]], Flow] = {}

    def counted(self, name: str, ranks: list[int], tensors: Any) -> None:
        """An operation began whose results are these tensors."""
        size, count = sum(t.numel() * t.element_size() for t in tensors), len(ranks)
        payload = size * count if name.startswith("reduce_scatter") else size
        flow = self.flows.setdefault((name, tuple(ranks)), Flow())
        flow.count += 1
        flow.payload += payload
        flow.sent += payload * _SENT.get(name, lambda n: 1.0)(count)

    def total(self, name: str | None = None) -> Flow:
        """The sum over all groups; of one kind of operation, or of all."""
        found = Flow()
        for (kind, _), flow in self.flows.items():
            if name in (None, kind):
                found.count += flow.count
                found.payload += flow.payload
                found.sent += flow.sent
        return found

    def kinds(self) -> dict[str, tuple[int, int]]:
        """How many operations of each kind there were, and of how many bytes."""
        return {
            kind: (self.total(kind).count, self.total(kind).payload)
            for kind in sorted({kind for kind, _ in self.flows})
        }


@contextmanager
def counting() -> Iterator[Traffic]:
    """A block in which this rank's exchanges are counted.

    Example:
        >>> from facula.distributed.traffic import counting
        >>> dist = facula.distributed
        >>> dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=4)
        >>> with counting() as traffic:
        ...     dist.all_reduce(facula.ones(10))
        >>> traffic.kinds(), traffic.total().sent
        ({'all_reduce': (1, 40)}, 60.0)
        >>> dist.destroy_process_group()
    """
    traffic = Traffic()
    COUNTERS.append(traffic)
    try:
        yield traffic
    finally:
        COUNTERS.remove(traffic)
