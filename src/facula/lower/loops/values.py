"""Tensors while a graph is lowered: in memory, or an expression that nobody has stored yet.

Takes: shapes, strides and dtypes of fake tensors; expressions by index. Gives: `Value`.
Keeps true: a value's strides are those that eager would give it, so that a view of it, stored or
not, is arithmetic on memory offsets; an expression is built once for an index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from facula.lower.loops import index as ix
from facula.lower.loops import ir
from facula.lower.loops.index import Index


class NotLoops(Exception):
    """What was asked for can not be expressed as loops over elements: it stays an operator call."""


class Value:
    """A tensor of the program.

    One of three: stored in `view`; computed by `rule(positions)`; or a view of `base`, whose first
    element lies at `offset` of the base's memory.
    """

    __slots__ = (
        "_memo", "base", "code", "depth", "offset", "rule", "shape", "start", "strides", "view",
    )  # fmt: skip

    def __init__(
        self,
        shape: Sequence[int],
        strides: Sequence[int],
        code: str,
        *,
        rule: Callable[[list[Index]], Any] | None = None,
        view: ir.View | None = None,
        base: Value | None = None,
        offset: int = 0,
    ) -> None:
        self.shape, self.strides, self.code = tuple(shape), tuple(strides), code
        self.rule, self.view, self.base, self.offset = rule, view, base, offset
        self.start = 0  # the place of the first element in the storage, which views count from
        self.depth = 0  # how many values in no memory its expression is built through
        self._memo: dict[Any, Any] = {}

    @property
    def numel(self) -> int:
        """How many elements there are."""
        return prod(self.shape)

    @property
    def dense(self) -> bool:
        """Whether the elements fill their memory, each place once."""
        if not self.numel:
            return True
        expected = 1
        for stride, size in sorted(zip(self.strides, self.shape, strict=True)):
            if size != 1:
                if stride != expected:
                    return False
                expected *= size
        return True

    @property
    def lazy(self) -> bool:
        """Whether the elements are in no memory yet."""
        return self.stored() is None

    def stored(self) -> ir.View | None:
        """Where the elements lie, if they are in memory."""
        if self.view is None and self.base is not None:
            below = self.base.stored()
            if below is not None:
                at = below.offset + self.offset
                self.view = ir.View(below.buffer, self.shape, self.strides, at, self.code)
        return self.view

    def read(self, positions: Sequence[Index]) -> Any:
        """The element at a position in each dimension, as an expression."""
        view = self.stored()
        if view is not None:
            return ir.load(view.buffer, ix.linear(positions, view.strides, view.offset))
        if self.base is not None:
            return self.base.read_memory(ix.linear(positions, self.strides, self.offset))
        key = tuple(positions)
        found = self._memo.get(key)
        if found is None:
            assert self.rule is not None
            found = self._memo[key] = self.rule(list(positions))
        return found

    def read_memory(self, offset: Index) -> Any:
        """The element at a place of the memory that the tensor has, or would have."""
        view = self.stored()
        if view is not None:
            return ir.load(view.buffer, offset + view.offset)
        if self.base is not None:
            return self.base.read_memory(offset + self.offset)
        if not self.dense:
            raise NotLoops("the memory of a tensor with gaps")
        return self.read(ix.digits(offset, self.shape, self.strides))

    def root(self) -> Value:
        """The value that a view is a view of."""
        value = self
        while value.view is None and value.base is not None:
            value = value.base
        return value


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
