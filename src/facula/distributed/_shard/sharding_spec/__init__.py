"""Ways to cut a tensor into pieces.

Takes: a dimension and who has the pieces, or the pieces. Gives: `ChunkShardingSpec`, `EnumerableShardingSpec`.
Keeps true: pieces cover the tensor, and none lies over another; what does not is an error that says where.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any

from facula.core.errors import fail
from facula.distributed._shard.descriptions import ShardedTensorMetadata
from facula.distributed._shard.metadata import ShardMetadata
from facula.distributed.remote_device import _remote_device

__all__ = ["ChunkShardingSpec", "EnumerableShardingSpec", "ShardMetadata", "ShardingSpec"]


class ShardingSpec(abc.ABC):
    """A way to cut a tensor into pieces."""

    @abc.abstractmethod
    def build_metadata(self, tensor_sizes: Sequence[int], tensor_properties: Any) -> Any:
        """The pieces of a tensor of a shape.

        Args:
            tensor_sizes: the whole shape.
            tensor_properties: its dtype and the like.
        """


class ChunkShardingSpec(ShardingSpec):
    """Pieces as `chunk` makes them along a dimension, one for each place.

    Args:
        dim: the dimension
        placements: who has the pieces, in their order

    Raises:
        ValueError: the dimension is no number.

    Example:
        >>> from facula.distributed._shard.sharding_spec import ChunkShardingSpec
        >>> cut = ChunkShardingSpec(0, ["rank:0/cpu", "rank:1/cpu"])
        >>> [piece.shard_sizes for piece in cut.build_metadata([5, 2], None).shards_metadata]
        [[3, 2], [2, 2]]
    """

    def __init__(self, dim: int, placements: Sequence[str | _remote_device]) -> None:
        if not isinstance(dim, int):
            fail(ValueError, "ChunkShardingSpec", "a number was required for dim (Sharding dim needs to be an integer)",
                 repr(dim), "dimensions go by their numbers here")  # fmt: skip
        self.dim = dim
        self.placements = [p if isinstance(p, _remote_device) else _remote_device(p) for p in placements]  # fmt: skip

    def build_metadata(self, tensor_sizes: Sequence[int], tensor_properties: Any) -> Any:
        """The pieces of a tensor of a shape."""
        sizes = list(tensor_sizes)
        if not -len(sizes) <= self.dim < len(sizes):
            fail(ValueError, "ChunkShardingSpec", f"a dimension of {len(sizes)} was required (Invalid sharding dim)",
                 self.dim, "it counts from 0")  # fmt: skip
        dim = self.dim % len(sizes)
        step = -(-sizes[dim] // len(self.placements))
        pieces = []
        for number, place in enumerate(self.placements):
            low, high = (min((number + more) * step, sizes[dim]) for more in (0, 1))
            if low < high:
                offsets, shape = [0] * len(sizes), [*sizes]
                offsets[dim], shape[dim] = low, high - low
                pieces.append(ShardMetadata(offsets, shape, place))
        return _described(pieces, sizes, tensor_properties)


class EnumerableShardingSpec(ShardingSpec):
    """Pieces one by one.

    Args:
        shards: the pieces

    Raises:
        ValueError: there are none, or they are of several numbers of dimensions, or lie over each other.
    """

    def __init__(self, shards: Sequence[ShardMetadata]) -> None:
        self.shards = list(shards)
        if not self.shards:
            fail(ValueError, "EnumerableShardingSpec", "a piece was required (Empty shard list provided)", "none",
                 "ShardMetadata(offsets, sizes, place) is one")  # fmt: skip
        check_apart(self.shards)

    def build_metadata(self, tensor_sizes: Sequence[int], tensor_properties: Any) -> Any:
        """The pieces of a tensor of a shape."""
        check_whole(self.shards, tensor_sizes)
        return _described(self.shards, tensor_sizes, tensor_properties)


def _described(pieces: list[ShardMetadata], sizes: Sequence[int], properties: Any) -> Any:
    return ShardedTensorMetadata(list(pieces), sizes, properties)


def _bounds(piece: ShardMetadata) -> list[tuple[int, int]]:
    """Where a piece begins and ends along each dimension."""
    both = zip(piece.shard_offsets, piece.shard_sizes, strict=True)
    return [(offset, offset + size) for offset, size in both]


def check_apart(pieces: Sequence[ShardMetadata]) -> None:
    """Raise where pieces have several numbers of dimensions, or one lies over another."""
    ranks = {len(piece.shard_sizes) for piece in pieces}
    if len(ranks) > 1:
        fail(ValueError, "sharded_tensor", "pieces of one number of dimensions were required (Found "
             "inconsistent ranks)",
             sorted(ranks), "each has an offset and a size for each dimension")  # fmt: skip
    ordered = sorted(pieces, key=lambda piece: piece.shard_offsets)
    for number, one in enumerate(ordered):
        for other in ordered[number + 1 :]:
            first, second = _bounds(one), _bounds(other)
            if first and second[0][0] >= first[0][1]:
                break  # nor does any later one reach it
            if all(max(a, b) < min(m, n) for (a, m), (b, n) in zip(first, second, strict=True)):
                fail(ValueError, "sharded_tensor", "pieces that do not lie over each other were required "
                     "(Shards overlap)",
                     f"{one} and {other}", "each element belongs to one piece")  # fmt: skip


def check_whole(pieces: Sequence[ShardMetadata], sizes: Sequence[int]) -> None:
    """Raise where pieces that lie apart do not make a tensor of a shape."""
    for piece in pieces:
        ends = [end for _, end in _bounds(piece)]
        if len(ends) != len(sizes) or any(
            end > size for end, size in zip(ends, sizes, strict=True)
        ):
            fail(ValueError, "sharded_tensor", f"pieces within {list(sizes)} were required (Shard is "
                 f"outside of the tensor)",
                 piece, "the whole shape is that of all pieces together")  # fmt: skip
    total = sum(math.prod(piece.shard_sizes) for piece in pieces)
    if total != math.prod(sizes):
        fail(ValueError, "sharded_tensor", f"all {math.prod(sizes)} elements of {list(sizes)} were required "
             f"(Total volume of "
             "shards does not match tensor volume)", total, "the pieces of all ranks cover the tensor")  # fmt: skip
