"""Where a piece of a tensor lies.

Takes: a beginning, a shape, a place. Gives: `ShardMetadata`.
Keeps true: it is data alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from facula.core.errors import fail
from facula.distributed.remote_device import _remote_device

__all__ = ["ShardMetadata"]


class ShardMetadata:
    """Where a piece of a tensor begins, its shape, and who has it.

    Args:
        shard_offsets: the index of its first element, a number for each dimension
        shard_sizes: its shape
        placement: `rank:0/cpu`, a `_remote_device`, or None

    Raises:
        ValueError: the numbers are negative, or not as many; the placement is of no such form.

    Example:
        >>> from facula.distributed._shard.metadata import ShardMetadata
        >>> ShardMetadata([0, 5], [2, 5], "rank:1/cpu")
        ShardMetadata(shard_offsets=[0, 5], shard_sizes=[2, 5], placement=rank:1/cpu)
    """

    def __init__(
        self, shard_offsets: Sequence[int], shard_sizes: Sequence[int],
        placement: str | _remote_device | None = None,
    ) -> None:  # fmt: skip
        self.shard_offsets, self.shard_sizes = list(shard_offsets), list(shard_sizes)
        self.placement = _remote_device(placement) if isinstance(placement, str) else placement
        if len(self.shard_offsets) != len(self.shard_sizes):
            fail(ValueError, "ShardMetadata", "as many offsets as sizes were required (shard_offsets and shard_sizes "
                 "should have the same number of elements)", f"{self.shard_offsets} and {self.shard_sizes}",
                 "both have a number for each dimension of the tensor")  # fmt: skip
        for name, numbers in (("shard_offsets", self.shard_offsets), ("shard_sizes", self.shard_sizes)):  # fmt: skip
            if any(number < 0 for number in numbers):
                fail(ValueError, "ShardMetadata", f"{name} of at least 0 were required ({name} should be >= 0)",
                     numbers, "offsets count from the first element of the whole tensor")  # fmt: skip

    def __repr__(self) -> str:
        return (
            f"ShardMetadata(shard_offsets={self.shard_offsets}, shard_sizes={self.shard_sizes}, "
            f"placement={self.placement})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShardMetadata) and self._key() == other._key()

    def _key(self) -> tuple[object, ...]:
        return tuple(self.shard_offsets), tuple(self.shard_sizes), self.placement

    def __hash__(self) -> int:
        return hash(self._key())
