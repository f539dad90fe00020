"""The geometry of subscripts by tensors.

Takes: the shape of a tensor and index tensors for some of its dimensions. Gives: the result's shape,
and the numbers with which a gather or a scatter does it.
Keeps true: indices are checked where they are joined; the block of the index tensors stands where the
indexed dimensions stood, or first where they were apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.index import launch

_Ints = Sequence[int]


class Addressing:
    """Where advanced indices point: the result's shape, and the geometry of the gather or scatter
    that does it.
    """

    def __init__(self, op: str, shape: tuple[int, ...], indices: tuple[Any, ...]) -> None:
        self.op, self.self_shape = op, tuple(shape)
        indices = tuple(indices) + (None,) * (len(shape) - len(indices))
        self.dims = [d for d, index in enumerate(indices) if index is not None]
        self.indices = [indices[d] for d in self.dims]
        self.block = self._broadcast()
        together = not self.dims or self.dims[-1] - self.dims[0] + 1 == len(self.dims)
        first = self.dims[0] if self.dims and together else 0
        kept = [d for d in range(len(shape)) if indices[d] is None]
        self.before, self.after = kept[:first], kept[first:]
        self.shape = (
            *(shape[d] for d in self.before),
            *self.block,
            *(shape[d] for d in self.after),
        )

    def _broadcast(self) -> tuple[int, ...]:
        shapes = [tuple(index.shape) for index in self.indices]
        ndim = max((len(s) for s in shapes), default=0)
        block = [1] * ndim
        for s in shapes:
            for d, size in enumerate(s, ndim - len(s)):
                if size != 1 and block[d] not in (1, size):
                    fail(
                        IndexError,
                        self.op,
                        "shape mismatch: indexing tensors could not be broadcast together with "
                        "shapes " + ", ".join(str(list(s)) for s in shapes),
                        hint="indices are taken element by element: rows[:, None] with columns "
                        "gives a grid",
                    )
                block[d] = size if size != 1 else block[d]
        return tuple(block)

    def linear(self, strides: tuple[int, ...]) -> tuple[Any, int, int]:
        """Check the indices and join them: the index tensor, its step in elements, and its
        extent.
        """
        count = launch.product(self.block)
        for d, index in zip(self.dims, self.indices, strict=True):
            launch.check_bounds(self.op, launch.index64(self.op, index), self.self_shape[d], d)
        flat = [launch.index64(self.op, i).expand(self.block).contiguous() for i in self.indices]
        if len(flat) == 1:
            return flat[0], strides[self.dims[0]], self.self_shape[self.dims[0]]
        joined = core.empty((count,), dtype=core.int64)
        plan: list[int] = [len(flat)]
        for d in self.dims:
            plan += [self.self_shape[d], strides[d], 1]
        core.kernel("index.linear")(
            (joined, *flat), tuple(plan), (), total=count, grain=launch.SERIAL
        )
        extent = 1 + sum((self.self_shape[d] - 1) * strides[d] for d in self.dims)
        return joined, 1, extent

    def geometry(
        self, strides: tuple[int, ...], other: tuple[int, ...]
    ) -> tuple[Any, int, tuple[_Ints, _Ints, _Ints, _Ints], int]:
        """Index tensor, dimension, (shape, index strides, addressed strides, other strides),
        extent.

        `other` are the strides of a tensor of the result's shape; the index block counts as one
        dimension of it, so its strides there must join (`block_joins`).
        """
        index, step, extent = self.linear(strides)
        first, ndim = len(self.before), len(self.block)
        sizes = [self.self_shape[d] for d in self.before]
        sizes += [launch.product(self.block)] + [self.self_shape[d] for d in self.after]
        addressed = [strides[d] for d in self.before] + [step] + [strides[d] for d in self.after]
        inner = next((other[first + d] for d in reversed(range(ndim)) if self.block[d] != 1), 0)
        others = [*other[:first], inner, *other[first + ndim :]]
        return (
            index,
            first,
            (sizes, launch.axis_strides(first, len(sizes), 1), addressed, others),
            extent,
        )

    def block_joins(self, other: tuple[int, ...]) -> bool:
        """Whether the index block of a tensor with these strides can be walked as one dimension."""
        first, expected = len(self.before), None
        for d in reversed(range(len(self.block))):
            if self.block[d] == 1:
                continue
            if expected is not None and other[first + d] != expected:
                return False
            expected = other[first + d] * self.block[d]
        return True
