"""How a distributed tensor lies along one dimension of a mesh.

Takes: a dimension of the tensor, or an operation. Gives: `Replicate`, `Shard` and `Partial`.
Keeps true: shards are cut as `chunk` cuts, so that the first ones are full and the last may be empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Partial", "Placement", "Replicate", "Shard", "_StridedShard"]


class Placement:
    """What ranks along a dimension of the mesh hold."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each rank holds a piece (along `dim`, where it is given)."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each rank holds everything."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the whole is the sum (or another reduction) of what ranks hold."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Replicate(Placement):
    """Each rank holds the whole tensor."""


@dataclass(frozen=True)
class Shard(Placement):
    """Each rank holds a piece along a dimension of the tensor."""

    dim: int

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """The size and the start of a rank's piece."""
        full = -(-curr_local_size // num_chunks)
        start = min(rank * full, curr_local_size)
        return min(full, curr_local_size - start), start

    @classmethod
    def _local_shard_size_and_offset(
        cls, curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """The same, under the name that libraries knew first."""
        return cls.local_shard_size_and_offset(curr_local_size, num_chunks, rank)


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Each rank holds a piece of a piece: a later dimension of the mesh cut the tensor's dimension first."""

    split_factor: int = field(kw_only=True, default=1)


@dataclass(frozen=True)
class Partial(Placement):
    """The whole tensor is a reduction of what the ranks hold: `sum`, `avg`, `min`, `max`, `product`, `norm2`, .."""

    reduce_op: str = "sum"
