"""How a distributed tensor lies along one dimension of a mesh.

Takes: a dimension of the tensor, or an operation. Gives: `Replicate`, `Shard` and `Partial`.
Keeps true: shards are cut as `chunk` cuts, so that the first ones are full and the last may be empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from facula.core.errors import fail
from facula.ops.table.registry import F

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


@dataclass(frozen=True, repr=False)
class Replicate(Placement):
    """Each rank holds the whole tensor."""

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, repr=False)
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

    def _split_tensor(
        self, tensor: Any, num_chunks: int, *, with_padding: bool = True, contiguous: bool = True
    ) -> tuple[list[Any], list[int]]:
        """The pieces of all ranks, and by how much each was filled up.

        Args:
            with_padding: fill up all pieces to the size of the first.
            contiguous: give contiguous tensors.
        """
        if self.dim > tensor.dim():
            fail(AssertionError, "Shard", f"a dimension of a tensor that has {tensor.dim()} was required (Sharding dim "
                 f"{self.dim} greater than tensor ndim {tensor.dim()})", self.dim, "Shard(0) cuts rows")  # fmt: skip
        pieces, filled = self._pieces(tensor, num_chunks), []
        if with_padding:
            full = pieces[0].shape[self.dim]
            filled = [full - piece.shape[self.dim] for piece in pieces]
            pieces = [padded(p, self.dim, n) for p, n in zip(pieces, filled, strict=True)]
        return [p.contiguous() for p in pieces] if contiguous else pieces, filled

    def _pieces(self, tensor: Any, count: int) -> list[Any]:
        """What each rank has of a whole tensor."""
        found = []
        for rank in range(count):
            size, start = self.local_shard_size_and_offset(tensor.shape[self.dim], count, rank)
            found.append(tensor.narrow(self.dim, start, size))
        return found

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


def padded(tensor: Any, dim: int, size: int) -> Any:
    """A tensor with so many zeros behind it along a dimension."""
    if not size:
        return tensor
    shape: list[int] = list(tensor.shape)
    shape[dim] = size
    return F.cat([tensor, tensor.new_zeros(shape)], dim)


@dataclass(frozen=True, repr=False)
class _StridedShard(Shard):
    """Each rank holds a piece of a piece: a later dimension of the mesh cut the tensor's dimension first."""

    split_factor: int = field(kw_only=True, default=1)

    def _pieces(self, tensor: Any, count: int) -> list[Any]:
        blocks = Shard._pieces(self, tensor, self.split_factor)
        cut = [Shard._pieces(self, block, count) for block in blocks]
        return [F.cat([one[rank] for one in cut], self.dim) for rank in range(count)]

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """The whole tensor is a reduction of what the ranks hold: `sum`, `avg`, `min`, `max`, `product`, `norm2`, .."""

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
