"""The engine of a world that is not there: one process stands for one rank of up to 4,096.

Takes: a rank and a size. Gives: collectives that end at once, as if all ranks had this rank's tensors.
Keeps true: nothing is sent and nothing waits; sums are this rank's own; tensors on the meta device, which have no
elements, pass through. `traffic.counting` counts what would be sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula.core.errors import fail
from facula.distributed.engine import Engine, Exchange, Members, Rendezvous, put
from facula.distributed.mailbox import Channel

__all__ = ["LARGEST", "FakeEngine"]

LARGEST = 4096


class FakeEngine(Engine):
    """This rank's end of nothing.

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("fake", store=dist.HashStore(), rank=3, world_size=1024)
        >>> x = facula.ones(2, device="meta")
        >>> dist.all_reduce(x)
        >>> dist.get_rank(), dist.get_world_size(), x.device
        (3, 1024, device(type='meta'))
        >>> dist.destroy_process_group()
    """

    name = "fake"
    counts_only = True

    def __init__(self, rendezvous: Rendezvous) -> None:
        if rendezvous.size > LARGEST:
            fail(ValueError, "init_process_group", f"at most {LARGEST} ranks were required of the fake engine",
                 rendezvous.size, "ranks that do the same need not all be counted")  # fmt: skip
        super().__init__(rendezvous)

    def send(self, rank: int, channel: Channel, label: str, payload: object) -> None:
        """Nobody is there."""

    def ask(self, rank: int, group: int, seconds: float) -> dict[str, Any] | None:
        """Nobody answers, and nobody is missing."""
        return {}

    def close(self) -> None:
        """Nothing is open."""

    def exchange(self, group: Members, sequence: int, label: str, end: float) -> Exchange:
        """A collective among ranks that all have this rank's tensors."""
        return _Nothing(self, group, sequence, label, end)


class _Nothing(Exchange):
    """A collective of one rank, which stands for all."""

    def send(self, peer: int, step: int, payload: object) -> None:
        """Nobody is there."""

    def receive(self, peer: int, step: int, size: int | None) -> Any:
        """As many bytes of zero."""
        return bytes(size or 0)

    def all_reduce(self, flat: object, op: object) -> None:
        """The tensor stays."""

    def reduce(self, flat: object, op: object, root: int) -> None:
        """The tensor stays."""

    def broadcast(self, flat: object, root: int) -> None:
        """The tensor stays."""

    def all_gather(self, targets: Sequence[Any], flat: object) -> None:
        """All have what this rank has, where it fits."""
        for target in targets:
            _put(target, flat)

    def reduce_scatter(self, target: object, chunks: Sequence[Any], op: Any) -> None:
        """This rank's part stays."""
        _put(target, chunks[self.rank])

    def all_to_all(self, targets: Sequence[Any], chunks: Sequence[Any]) -> None:
        """What this rank sends comes back."""
        for target, chunk in zip(targets, chunks, strict=True):
            _put(target, chunk)

    def gather(self, targets: Sequence[Any], flat: object, root: int) -> None:
        """All have what this rank has."""
        for target in targets if self.rank == root else ():
            _put(target, flat)

    def scatter(self, target: object, chunks: Sequence[Any], root: int) -> None:
        """The root's part, where this is the root."""
        if self.rank == root:
            _put(target, chunks[self.rank])

    def barrier(self) -> None:
        """All are here."""


def _put(target: Any, source: Any) -> None:
    """Write where as much was wanted; pieces of other ranks may be smaller."""
    if target.numel() == source.numel():
        put(target, source)
    else:
        target.zero_()
