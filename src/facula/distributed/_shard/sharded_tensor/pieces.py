"""Tensors of pieces.

Takes: this rank's pieces. Gives: `Shard`, `ShardedTensor`, and functions that make them.
Keeps true: what one rank has wrong is an error on all ranks that say what they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from facula import core
from facula.core.errors import fail
from facula.distributed._shard.descriptions import (
    ShardedTensorMetadata,
    TensorProperties,
)
from facula.distributed._shard.metadata import ShardMetadata
from facula.distributed._shard.sharding_spec import (
    EnumerableShardingSpec,
    ShardingSpec,
    check_apart,
    check_whole,
)
from facula.distributed.object_operations import all_gather_object, gather_object
from facula.distributed.world import get_rank, get_world_size

__all__ = ["Shard", "ShardedTensor", "empty", "full", "init_from_local_shards", "ones", "zeros"]

Tensor = core.Tensor


@dataclass
class Shard:
    """A piece that this rank has.

    Args:
        tensor: its elements
        metadata: where it lies

    Raises:
        ValueError: the shapes differ.
    """

    tensor: Tensor
    metadata: ShardMetadata

    def __post_init__(self) -> None:
        if list(self.tensor.shape) != self.metadata.shard_sizes:
            fail(ValueError, "Shard", f"a tensor of shape {self.metadata.shard_sizes} was required (Shard tensor size "
                 "does not match with metadata.shard_lengths)", tuple(self.tensor.shape),
                 "shard_sizes is the shape of the piece")  # fmt: skip

    @classmethod
    def from_tensor_and_offsets(cls, tensor: Tensor, shard_offsets: list[int], rank: int) -> Self:
        """A piece that begins somewhere.

        Args:
            tensor: its elements.
            shard_offsets: where it begins.
            rank: who has it.
        """
        place = f"rank:{rank}/{tensor.device}"
        return cls(tensor, ShardMetadata(shard_offsets, list(tensor.shape), place))


class ShardedTensor:
    """A tensor of which each rank has pieces.

    Args:
        sharding_spec: how it is cut
        size: its shape
        dtype: of the elements, which are not set
        process_group: the ranks; None: all

    Raises:
        ValueError: it cannot be cut so.
    """

    def __init__(
        self, sharding_spec: ShardingSpec, *size: Any, dtype: core.dtype | None = None,
        requires_grad: bool = False, process_group: Any = None,
    ) -> None:  # fmt: skip
        shape = _shape(size)
        properties = TensorProperties(
            dtype or core.get_default_dtype(), requires_grad=requires_grad
        )
        self._take(sharding_spec.build_metadata(shape, properties), sharding_spec, process_group)
        rank = get_rank(process_group)
        for piece in self._metadata.shards_metadata:
            if piece.placement is not None and piece.placement.rank() == rank:
                made = core.empty(tuple(piece.shard_sizes), dtype=properties.dtype)
                self._local_shards.append(Shard(made.requires_grad_(requires_grad), piece))

    def _take(self, metadata: ShardedTensorMetadata, spec: ShardingSpec, group: Any) -> None:
        metadata.size = core.Size(metadata.size)
        self._metadata, self._sharding_spec, self._process_group = metadata, spec, group
        self._local_shards: list[Shard] = []

    @classmethod
    def _init_from_local_shards(
        cls, local_shards: list[Shard], *global_size: Any, process_group: Any = None
    ) -> Self:
        """A tensor of the pieces of all ranks, which all call this."""
        first = global_size[0] if global_size else ()
        shape = list(global_size if isinstance(first, int) else first)
        mine = [shard.metadata for shard in local_shards]
        kinds = {(s.tensor.dtype, s.tensor.requires_grad) for s in local_shards}
        told: list[Any] = [None] * get_world_size(process_group)
        all_gather_object(told, (shape, mine, sorted(kinds, key=str)), process_group)
        for rank, (theirs, _, _) in enumerate(told):
            if theirs != told[0][0]:
                fail(ValueError, "init_from_local_shards", "one shape on all ranks was required (ShardedTensor "
                     "global_size property does not match from different ranks)",
                     f"{told[0][0]} on rank 0 and {theirs} on rank {rank}",
                     "it is the shape of the whole tensor")  # fmt: skip
        found = {kind for _, _, kinds in told for kind in kinds}
        if len(found) > 1:
            fail(ValueError, "init_from_local_shards", "pieces of one dtype, all with a gradient or "
                 "none, were required",
                 sorted(str(kind) for kind in found), "convert them first")  # fmt: skip
        dtype, requires_grad = next(iter(found), (core.get_default_dtype(), False))
        pieces = [piece for _, theirs, _ in told for piece in theirs]
        properties = TensorProperties(dtype, requires_grad=requires_grad)
        whole = ShardedTensorMetadata(pieces, shape, properties)
        return cls._init_from_local_shards_and_global_metadata(local_shards, whole, process_group)

    @classmethod
    def _init_from_local_shards_and_global_metadata(
        cls, local_shards: list[Shard], sharded_tensor_metadata: ShardedTensorMetadata,
        process_group: Any = None,
    ) -> Self:  # fmt: skip
        """A tensor of which all is known: nothing is sent."""
        pieces = sharded_tensor_metadata.shards_metadata
        check_apart(pieces)
        check_whole(pieces, sharded_tensor_metadata.size)
        for shard in local_shards:
            if shard.metadata not in pieces:
                fail(ValueError, "ShardedTensor", "this rank's pieces were required to be among all (local shards do "
                     "not match the metadata)", shard.metadata, "the metadata has the pieces of all ranks")  # fmt: skip
        made = cls.__new__(cls)
        made._take(sharded_tensor_metadata, EnumerableShardingSpec(pieces), process_group)
        made._local_shards = list(local_shards)
        return made

    # ---------------------------------------------------------------- what it is

    def local_shards(self) -> list[Shard]:
        """The pieces that this rank has."""
        return self._local_shards

    def local_tensor(self) -> Tensor:
        """The piece of this rank, where it has one.

        Raises:
            NotImplementedError: it has none, or several.
        """
        if len(self._local_shards) != 1:
            fail(NotImplementedError, "ShardedTensor.local_tensor", "one piece on this rank was required (Only single "
                 "local shard is supported)", len(self._local_shards), "local_shards() gives all")  # fmt: skip
        return self._local_shards[0].tensor

    def metadata(self) -> ShardedTensorMetadata:
        """Where all pieces lie."""
        return self._metadata

    def sharding_spec(self) -> ShardingSpec:
        """How it is cut."""
        return self._sharding_spec

    def size(self, dim: int | None = None) -> Any:
        """The whole shape, or of a dimension.

        Args:
            dim: the dimension; None: all.
        """
        return self._metadata.size if dim is None else self._metadata.size[dim]

    @property
    def shape(self) -> Any:
        """The whole shape."""
        return self._metadata.size

    @property
    def dtype(self) -> core.dtype:
        """Of the elements."""
        return self._metadata.tensor_properties.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether the pieces have gradients."""
        return self._metadata.tensor_properties.requires_grad

    def dim(self) -> int:
        """How many dimensions it has."""
        return len(self._metadata.size)

    def numel(self) -> int:
        """How many elements all pieces have."""
        return self._metadata.size.numel()

    def __repr__(self) -> str:
        return f"ShardedTensor({self._metadata})"

    def clone(self) -> ShardedTensor:
        """One with copies of this rank's pieces."""
        copies = [Shard(shard.tensor.clone(), shard.metadata) for shard in self._local_shards]
        made = type(self).__new__(type(self))
        made._take(self._metadata, self._sharding_spec, self._process_group)
        made._local_shards = copies
        return made

    def gather(self, dst: int = 0, out: Tensor | None = None) -> None:
        """Put the whole tensor together on a rank; all ranks call this.

        Args:
            dst: the rank, in the group.
            out: on that rank, a tensor of the whole shape that is written to.

        Raises:
            ValueError: on that rank `out` is None or has another shape.
        """
        group, rank = self._process_group, get_rank(self._process_group)
        told: list[Any] | None = [None] * get_world_size(group) if rank == dst else None
        mine = [(s.metadata.shard_offsets, s.tensor.detach()) for s in self._local_shards]
        gather_object(mine, told, group=group, group_dst=dst)
        if told is None:
            return
        if out is None or tuple(out.shape) != tuple(self.shape):  # the others are not kept waiting
            got = "nothing" if out is None else tuple(out.shape)
            fail(ValueError, "ShardedTensor.gather", f"out of shape {tuple(self.shape)} was required on rank {dst} "
                 "(`out` Tensor must be provided on dst rank)", got, "facula.empty(tensor.size()) is one")  # fmt: skip
        for offsets, piece in (one for theirs in told for one in theirs):
            where = tuple(slice(a, a + n) for a, n in zip(offsets, piece.shape, strict=True))
            out.detach()[where].copy_(piece)


def init_from_local_shards(
    local_shards: list[Shard], *global_size: Any, process_group: Any = None
) -> ShardedTensor:
    """A tensor of the pieces of all ranks, which all call this.

    Args:
        local_shards: this rank's.
        global_size: the shape of the whole.
        process_group: the ranks; None: all.

    Returns:
        The tensor; the pieces stay those that were given.

    Raises:
        ValueError: shapes or dtypes differ between ranks, or pieces lie over each other or leave something out.

    Example:
        >>> from facula.distributed import HashStore, destroy_process_group, init_process_group
        >>> from facula.distributed._shard.sharded_tensor import Shard, init_from_local_shards
        >>> init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
        >>> piece = Shard.from_tensor_and_offsets(facula.ones(2, 3), [0, 0], rank=0)
        >>> init_from_local_shards([piece], 2, 3).size()
        facula.Size([2, 3])
        >>> destroy_process_group()
    """
    return ShardedTensor._init_from_local_shards(
        local_shards, *global_size, process_group=process_group
    )


def _shape(size: tuple[Any, ...]) -> list[int]:
    """Sizes that were given one by one, or as one sequence."""
    return list(size[0]) if len(size) == 1 and not isinstance(size[0], int) else list(size)


def empty(sharding_spec: ShardingSpec, *size: Any, **options: Any) -> ShardedTensor:
    """A tensor of pieces whose elements are not set.

    Args:
        sharding_spec: how it is cut.
        size: its shape.
        options: `dtype`, `requires_grad`, `process_group`.
    """
    return ShardedTensor(sharding_spec, *size, **options)


def full(
    sharding_spec: ShardingSpec, size: Sequence[int], fill_value: Any, **options: Any
) -> ShardedTensor:
    """A tensor of pieces with one value.

    Args:
        sharding_spec: how it is cut.
        size: its shape.
        fill_value: the value.
        options: `dtype`, `requires_grad`, `process_group`.
    """
    made = ShardedTensor(sharding_spec, size, **options)
    for shard in made.local_shards():
        shard.tensor.detach().fill_(fill_value)
    return made


def zeros(sharding_spec: ShardingSpec, *size: Any, **options: Any) -> ShardedTensor:
    """A tensor of pieces of zeros.

    Args:
        sharding_spec: how it is cut.
        size: its shape.
        options: `dtype`, `requires_grad`, `process_group`.
    """
    return full(sharding_spec, _shape(size), 0, **options)


def ones(sharding_spec: ShardingSpec, *size: Any, **options: Any) -> ShardedTensor:
    """A tensor of pieces of ones.

    Args:
        sharding_spec: how it is cut.
        size: its shape.
        options: `dtype`, `requires_grad`, `process_group`.
    """
    return full(sharding_spec, _shape(size), 1, **options)
