"""Reading by indices.

Takes and gives what `onnx.table` says.
Keeps true: negative indices count from the end, as they do in ONNX's own gathers.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.onnx.graph import Value
from facula.onnx.table import Call, translation


def whole(call: Call, index: Value) -> Any:
    """Indices of a dtype that gathers take."""
    kept = index.dtype in (core.int32, core.int64)
    return (
        index if kept else Value(call.graph.cast(index, core.int64).name, core.int64, index.shape)
    )


@translation("embedding")
def embedding(call: Call, weight: Any, indices: Any, *options: object) -> Any:
    """Rows of a table."""
    return call.op("Gather", weight, whole(call, indices), axis=0)


@translation("index_select")
def index_select(call: Call, x: Value, dim: int, index: Value) -> Any:
    """Entries along a dimension."""
    index = whole(call, index)
    if x.rank == 0:
        return x
    return call.op("Gather", x, index, axis=dim)


@translation("gather")
def gather(call: Call, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Any:
    """An entry along a dimension for each index."""
    if x.rank == 0:
        return call.op("Expand", x, call.op("Shape", index, gives=core.int64))
    x = call.op("Reshape", x, [-1]) if x.rank == 0 else x
    return call.op("GatherElements", x, whole(call, index), axis=dim)


@translation("take")
def take(call: Call, x: Value, index: Value) -> Any:
    """Entries by their place among all elements."""
    return call.op("Gather", call.op("Reshape", x, [-1]), whole(call, index), axis=0)


@translation("_nonzero")
def nonzero(call: Call, x: Value) -> Any:
    """The places of what is not zero, one a row."""
    places = call.op("NonZero", x, gives=core.int64)
    rows = call.op("Transpose", places, perm=[1, 0], gives=core.int64)
    if x.rank == 0:  # ONNX takes a number as a vector of one
        return call.op("Slice", rows, [0], [0], [1], gives=core.int64)
    return rows


@translation("masked_select")
def masked_select(call: Call, x: Value, mask: Value) -> Any:
    """The elements at the true places of a mask; both are broadcast."""
    if x.shape != mask.shape:
        x = call.op("Where", mask, x, x)
        mask = call.op("Expand", mask, call.op("Shape", x, gives=core.int64), gives=core.bool_)
    flat = call.op("Reshape", x, [-1])
    return call.op("Compress", flat, call.op("Reshape", mask, [-1], gives=core.bool_), axis=0)


class Subscript:
    """Indices for some dimensions of a tensor: where the indexed ones stand, and the indices joined."""

    def __init__(self, call: Call, x: Value, indices: Any) -> None:
        given = [*indices, *[None] * (x.rank - len(indices))]
        self.dims = [d for d, index in enumerate(given) if index is not None]
        self.rest = [d for d, index in enumerate(given) if index is None]
        found = [whole(call, given[d]) for d in self.dims]
        if any(i.dtype is core.bool_ for i in (given[d] for d in self.dims)):
            call.unsupported("indices by number were required", "a mask",
                             "where(mask, a, b) keeps the shape")  # fmt: skip
        self.block = max(i.rank for i in found)
        together = self.dims[-1] - self.dims[0] + 1 == len(self.dims)
        #: where the dimensions of the indices stand in the result
        self.first = self.dims[0] if together else 0
        self.indices = found

    @property
    def order(self) -> list[int]:
        """The tensor's dimensions, indexed ones first."""
        return [*self.dims, *self.rest]

    def joined(self, call: Call, sizes: list[Any]) -> Any:
        """All indices as one tensor, the coordinates last."""
        shape = call.graph.sizes(sizes)
        parts = []
        for index in self.indices:
            wide = call.graph.cast(index, core.int64)
            wide = wide if len(self.indices) == 1 else call.op("Expand", wide, shape)
            parts.append(call.op("Unsqueeze", wide, [-1]))
        return parts[0] if len(parts) == 1 else call.op("Concat", *parts, axis=-1)

    def placed(self) -> list[int]:
        """How to bring a result with the indices' dimensions first into the result's order."""
        block = list(range(self.block))
        rest = list(range(self.block, self.block + len(self.rest)))
        return [*rest[: self.first], *block, *rest[self.first :]]

    def leading(self) -> list[int]:
        """The inverse of `placed`."""
        order = self.placed()
        return [order.index(d) for d in range(len(order))]


@translation("_index")
def index(call: Call, x: Value, indices: object) -> Any:
    """A subscript with tensors."""
    subscript = Subscript(call, x, indices)
    if len(subscript.dims) == 1:
        return call.op("Gather", x, subscript.indices[0], axis=subscript.dims[0])
    sizes = call.shape()[subscript.first : subscript.first + subscript.block]
    turned = call.graph.transpose(x, subscript.order)
    found = call.op("GatherND", turned, subscript.joined(call, sizes))
    return call.graph.transpose(found, subscript.placed())
